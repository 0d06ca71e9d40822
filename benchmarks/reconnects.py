"""Ten thousand reconnects while a run writes: what was missed, what came twice, how long a browser that slept waits.

The whole product as a person starts it, over a scripted engine that writes fifty log points of five series a second.
Fifty browsers open the socket of the run in turns, a hundred times a second in all, take what is new since the last
time, and close it. In the end each must have had every event once. Then one browser that has nothing asks for all of
it, and a page in Chromium, whose network is cut by a proxy, gets 10,000 events when it is mended.

    python -m benchmarks.reconnects [--reconnects 10000] [--a-second 100] [--database sqlite] [--without-chromium]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import time
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from benchmarks.browsers import Browser
from benchmarks.installation import ENDED, Database, Installation, installed
from tests.browser.conftest import CHROMIUM_FLAGS, chromium_path
from tests.browser.proxy import Proxy
from tests.browser.stack import wait_for

N_BROWSERS = 50
HZ = 50
N_EVENTS_MISSED = 10_000
COME_UP_S = 60


def measure(*, n_reconnects: int, a_second: float, database: Database, with_chromium: bool) -> dict[str, Any]:
    storm_s = n_reconnects / a_second
    # Each log point is two events; the page in Chromium sleeps through a run of its own.
    n_points = max(int((storm_s + COME_UP_S) * HZ), N_EVENTS_MISSED // 2 + COME_UP_S * HZ)
    with installed(database, **scripted(n_points, HZ)) as installation:
        installation.make_devices(2)
        dataset = installation.import_digits()
        run = installation.train(dataset)
        installation.until_running([run])
        browsers = [Browser(installation, run) for _ in range(N_BROWSERS)]
        took_s = asyncio.run(_storm(browsers, n_reconnects, a_second))
        installation.until_ended([run], patience_s=n_points / HZ + 300)
        n_events = installation.job(run)["last_seq"]
        asyncio.run(_look_in_once(browsers))
        replay_s = _replay_s(installation, run)
        installation.check_whole([run])
        chromium = _slept(installation, dataset) if with_chromium else None
    waits_ms = 1000 * np.array([wait_s for browser in browsers for wait_s in browser.caught_up_s])
    return {
        "database": database,
        "reconnects": len(waits_ms),
        "refused": sum(browser.n_refused for browser in browsers),
        "a_second": round(n_reconnects / took_s, 1),
        "events": n_events,
        "browsers_with_all_of_them": sum(browser.last_seq == n_events for browser in browsers),
        "missed": sum(browser.n_missed for browser in browsers),
        "doubled": sum(browser.n_doubled for browser in browsers),
        "caught_up_ms": {f"p{p}": round(float(np.percentile(waits_ms, p))) for p in (50, 95, 99)},
        "replay": {"events": n_events, "s": round(replay_s, 2)},
        "chromium": chromium,
    }


def scripted(n_points: int, hz: float, n_series: int = 5) -> dict[str, str]:
    return {
        "ENGINE_COMMAND": shlex.join([sys.executable, "-m", "benchmarks.scripted_engine"]),
        "SCRIPTED_POINTS": str(n_points),
        "SCRIPTED_HZ": str(hz),
        "SCRIPTED_SERIES": str(n_series),
    }


async def _storm(browsers: list[Browser], n_reconnects: int, a_second: float) -> float:
    """Seconds that all of it took."""
    began = time.monotonic()

    async def browse(n: int) -> None:
        for number in range(n, n_reconnects, len(browsers)):
            await asyncio.sleep(max(0.0, began + number / a_second - time.monotonic()))
            await browsers[n].look_in()

    await asyncio.gather(*(browse(n) for n in range(len(browsers))))
    return time.monotonic() - began


async def _look_in_once(browsers: list[Browser]) -> None:
    for browser in browsers:
        await browser.look_in()
        browser.caught_up_s.pop()


def _replay_s(installation: Installation, run: int) -> float:
    """Of every event of the run, to a socket that has none."""
    late = Browser(installation, run)
    asyncio.run(late.look_in())
    return late.caught_up_s[0]


def _slept(installation: Installation, dataset: int) -> dict[str, Any]:
    """A page whose network goes away while its run writes 10,000 events, and comes back."""
    run = installation.train(dataset)
    installation.until_running([run])
    with sync_playwright() as playwright, Proxy(installation.stack.port) as proxy:
        chromium = playwright.chromium.launch(executable_path=chromium_path(), args=CHROMIUM_FLAGS)
        page = chromium.new_page(viewport={"width": 1440, "height": 900})
        address = f"http://127.0.0.1:{proxy.port}"
        page.context.add_cookies([{"name": "sessionid", "value": installation.session(), "url": address}])
        page.goto(f"{address}/runs/{run}/")
        page.wait_for_selector("[data-connection=live]")
        proxy.cut()
        seen = _last_seq(page)
        job = wait_for(
            "10,000 events", lambda: _written(installation, run, seen + N_EVENTS_MISSED), patience_s=600, every_s=1
        )
        n_events = job["last_seq"]
        proxy.mend()
        # The browser's own word that there is a network again.
        took_ms = page.evaluate(
            """async (seq) => {
                const began = performance.now();
                window.dispatchEvent(new Event("online"));
                while (window.fovea.store.lastSeq < seq) await new Promise((next) => setTimeout(next, 5));
                return performance.now() - began;
            }""",
            n_events,
        )
        chromium.close()
    installation.until_ended([run], patience_s=600)
    return {"events_missed": n_events - seen, "caught_up_s": round(took_ms / 1000, 2)}


def _written(installation: Installation, run: int, seq: int) -> dict[str, Any] | None:
    """The run, once it has so many events, or will have no more."""
    job = installation.job(run)
    return job if job["last_seq"] >= seq or job["status"] in ENDED else None


def _last_seq(page: Page) -> int:
    found: int = page.evaluate("() => window.fovea.store.lastSeq")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reconnects", type=int, default=10_000)
    parser.add_argument("--a-second", type=float, default=100.0)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--without-chromium", action="store_true")
    told = parser.parse_args()
    found = measure(
        n_reconnects=told.reconnects,
        a_second=told.a_second,
        database=told.database,
        with_chromium=not told.without_chromium,
    )
    print(json.dumps(found, indent=2))
    if found["missed"] or found["doubled"] or found["browsers_with_all_of_them"] != N_BROWSERS:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
