"""How long the server takes for a page of a gallery of 100,000 images, and how many queries it asks.

The dataset is written as an import writes one, of images of a few bytes; the requests go through all of Django, from
the session to the bytes of the page, without a network between. Pictures are not drawn: the page only names them.

    python -m benchmarks.gallery [--images 100000] [--classes 100] [--repeats 50]
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from django.test import Client

    from jobs.models import Job
    from wire.manifests import DatasetManifest

HTMX = {"HX-Request": "true"}
WARM_UP = 3
VAL_EVERY = 5


def paths(job_id: int, n_images: int, n_classes: int) -> dict[str, str]:
    """What is asked for, by name."""
    gallery = f"/datasets/{job_id}/gallery/"
    last = -(-n_images // 60)
    return {
        "first page": gallery,
        "middle page": f"{gallery}?page={last // 2}",
        "last page": f"{gallery}?page={last}",
        "split": f"{gallery}?split=val",
        "split, last page": f"{gallery}?split=train&page={last}",
        "class": f"{gallery}?class={n_classes // 2}",
        "class and split": f"{gallery}?class={n_classes // 2}&split=val",
        "text, many found": f"{gallery}?q=7",
        "text, none found": f"{gallery}?q=nothing",
        "text, class and split": f"{gallery}?q=7&class={n_classes // 2}&split=val",
        "whole page": f"/datasets/{job_id}/",
        "one image of the API": f"/api/v1/datasets/{job_id}/samples/{n_images // 2}?split=train",
        "classes of the API": f"/api/v1/datasets/{job_id}/classes",
        "sizes of the API": f"/api/v1/datasets/{job_id}/sizes",
    }


def measure(n_images: int, n_classes: int, n_repeats: int) -> dict[str, Any]:
    """Each path in turn, over and over, so that a machine whose speed drifts drifts under all of them."""
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    owner = User.objects.create_user("benchmark")
    client = Client()
    client.force_login(owner)
    job = make_dataset(owner, n_images, n_classes)
    asked = paths(job.pk, n_images, n_classes)
    taken_ms: dict[str, list[float]] = {name: [] for name in asked}
    for repeat in range(WARM_UP + n_repeats):
        for name, path in asked.items():
            took_ms = _timed_ms(client, path)
            if repeat >= WARM_UP:
                taken_ms[name].append(took_ms)
    return {name: _told(client, asked[name], times) for name, times in taken_ms.items()}


def make_dataset(owner: Any, n_images: int, n_classes: int) -> Job:
    from jobs.models import Artifact, Job
    from jobs.storage import storage
    from wire.specs import FromSample, ImportSpec

    spec = ImportSpec(name="Gallery", source=FromSample(name="digits")).model_dump(mode="json")
    job = Job.objects.create(verb="import", status="succeeded", spec=spec, title="Gallery", owner=owner)
    manifest = write_dataset(storage().job(job.pk).dataset_dir, n_images, n_classes)
    meta = {
        "n_images": n_images,
        "n_classes": n_classes,
        "classes": list(manifest.classes),
        "counts": {split: sum(counts) for split, counts in manifest.counts.items()},
        "width_px": manifest.width_px.model_dump(),
        "height_px": manifest.height_px.model_dump(),
        "colour": manifest.colour,
        "mean": list(manifest.mean),
        "std": list(manifest.std),
    }
    place = "artifacts/dataset"
    sha256 = manifest.samples_sha256
    Artifact.objects.create(made_by=job, kind="dataset", name="dataset", path=place, sha256=sha256, bytes=1, meta=meta)
    return job


def write_dataset(path: Path, n_images: int, n_classes: int) -> DatasetManifest:
    from engine.store.writer import DatasetWriter, NewSample
    from wire.manifests import DatasetManifest, SplitName

    path.parent.mkdir(parents=True)
    with DatasetWriter(path) as writer:
        for n in range(n_images):
            label = n * n_classes // n_images
            split: SplitName = "val" if n % VAL_EVERY == 0 else "train"
            name = f"{split}/class {label:04}/image {n:06}.png"
            writer.add(NewSample(name, split, label, 200 + n % 613, 150 + n % 401, n.to_bytes(4, "big")))
        counts: dict[SplitName, list[int]] = {}
        for split, label, n_of_class in writer.tally():
            counts.setdefault(split, [0] * n_classes)[label] = n_of_class
        manifest = DatasetManifest(
            name="Gallery",
            task="classification",
            classes=tuple(f"class {label:04}" for label in range(n_classes)),
            counts={split: tuple(of_split) for split, of_split in counts.items()},
            width_px=writer.size_range("width"),
            height_px=writer.size_range("height"),
            colour="rgb",
            mean=(0.5, 0.5, 0.5),
            std=(0.2, 0.2, 0.2),
            image_bytes=writer.image_bytes,
            samples_sha256=writer.samples_sha256(),
            source={"kind": "benchmark"},
            n_found=n_images,
            created_at=datetime.now(UTC),
        )
        writer.finish(manifest)
    return manifest


def _timed_ms(client: Client, path: str) -> float:
    began_at = time.perf_counter()
    answer = client.get(path, headers=HTMX if "/gallery/" in path else {})
    took_ms = 1000 * (time.perf_counter() - began_at)
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}")
    return took_ms


def _told(client: Client, path: str, times_ms: list[float]) -> dict[str, float | int]:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as captured, _statements() as statements:
        _timed_ms(client, path)
    return {
        "p50_ms": round(statistics.median(times_ms), 1),
        "p95_ms": round(statistics.quantiles(times_ms, n=20)[-1], 1),
        "queries": len(captured),
        "sample_queries": len(statements),
    }


@contextmanager
def _statements() -> Iterator[list[str]]:
    """Every statement that readers of datasets run meanwhile."""
    from engine.store import reader

    seen: list[str] = []
    connect = reader._connect  # noqa: SLF001 - what it runs is counted, not changed

    def traced(path: Path) -> sqlite3.Connection:
        rows = connect(path)
        rows.set_trace_callback(seen.append)
        return rows

    with mock.patch.object(reader, "_connect", traced):
        yield seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        own = {"DATA_DIR": folder, "CACHE_DIR": f"{folder}/cache", "DJANGO_SETTINGS_MODULE": "config.settings"}
        os.environ |= own | {"ALLOWED_HOSTS": "testserver", "DATABASE_URL": "", "REDIS_URL": "", "DEBUG": "false"}
        import django

        django.setup()
        print(json.dumps(measure(arguments.images, arguments.classes, arguments.repeats), indent=2))


if __name__ == "__main__":
    main()
