from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from engine.models.weights import DownloadStopped, find_weights
from wire.cards import WeightsCard
from wire.errors import WeightsMismatch, WeightsMissing

CONTENT = b"weights" * 500_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
CARD = WeightsCard(
    name="v1", file="net-v1.pth", url="http://127.0.0.1:9/net-v1.pth", sha256=SHA256[:8], source="x", licence="x"
)


@pytest.fixture(autouse=True)
def _torch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[WeightsCard]:
    """The card of a file that a server on this machine has."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    (tmp_path / "web").mkdir()
    (tmp_path / "web" / CARD.file).write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "web"))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield replace(CARD, url=f"http://127.0.0.1:{server.server_address[1]}/{CARD.file}")
        server.shutdown()
        thread.join()


def _find(tmp_path: Path, card: WeightsCard = CARD, **changes: Any) -> Path:
    arguments: dict[str, Any] = {
        "weights_dir": tmp_path / "mirror",
        "cache_dir": tmp_path / "cache",
        "on_progress": lambda done, total: None,
        "stop_asked": lambda: False,
    }
    return find_weights(card, **{**arguments, **changes})


def _put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_mirror_comes_before_torchs_cache_and_that_before_ours(tmp_path):
    ours = _put(tmp_path / "cache" / "weights" / CARD.file)
    assert _find(tmp_path) == ours
    hub = _put(tmp_path / "torch" / "hub" / "checkpoints" / CARD.file)
    assert _find(tmp_path) == hub
    mirror = _put(tmp_path / "mirror" / CARD.file)
    assert _find(tmp_path) == mirror
    assert _find(tmp_path, weights_dir=None) == hub


def test_a_download_is_kept_and_told(tmp_path, served):
    told: list[tuple[int, int]] = []
    path = _find(tmp_path, served, on_progress=lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert _find(tmp_path, replace(served, url=CARD.url)) == path  # found, not fetched again
    assert [entry.name for entry in path.parent.iterdir()] == [CARD.file]


@pytest.mark.parametrize(("weights_dir", "told"), [("mirror", "mirror"), (None, "cache/weights")])
def test_a_file_that_is_nowhere_names_itself_its_url_and_its_place(tmp_path, weights_dir, told):
    with pytest.raises(WeightsMissing) as refused:
        _find(tmp_path, weights_dir=tmp_path / weights_dir if weights_dir else None)
    assert CARD.file in refused.value.message
    assert CARD.url in refused.value.message
    assert f"{tmp_path / told} as {CARD.file}" in refused.value.hint


def test_an_answer_that_is_no_file_is_a_missing_one(tmp_path, served):
    with pytest.raises(WeightsMissing, match="404"):
        _find(tmp_path, replace(served, url=served.url + ".gone"))


def test_another_file_of_that_name_is_refused(tmp_path, served):
    _put(tmp_path / "mirror" / CARD.file, b"another")
    with pytest.raises(WeightsMismatch, match=r"SHA-256 begins with [0-9a-f]{8}"):
        _find(tmp_path)
    with pytest.raises(WeightsMismatch):
        _find(tmp_path, replace(served, sha256="00000000"), weights_dir=None)
    assert not list((tmp_path / "cache" / "weights").iterdir())


def test_a_publisher_that_states_no_hash_is_taken_at_its_word(tmp_path):
    path = _put(tmp_path / "mirror" / CARD.file, b"anything")
    assert _find(tmp_path, replace(CARD, sha256="")) == path


def test_a_stop_ends_a_download_and_leaves_nothing(tmp_path, served):
    with pytest.raises(DownloadStopped):
        _find(tmp_path, served, stop_asked=lambda: True)
    assert not list((tmp_path / "cache" / "weights").iterdir())
