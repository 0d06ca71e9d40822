"""Published weights as a local file: out of a mirror directory, torch's own cache, ours, or from their URL.

No torch needed: an import of it takes seconds, a missing file is told at once.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError, URLError

from wire.cards import WeightsCard
from wire.errors import WeightsMismatch, WeightsMissing

_CONNECT_TIMEOUT_S = 10.0
_BLOCK_BYTES = 1 << 20


class DownloadStopped(Exception):
    """The stop was asked for during a download; what had come is gone."""


def find_weights(
    card: WeightsCard,
    *,
    weights_dir: Path | None,
    cache_dir: Path,
    on_progress: Callable[[int, int], None],
    stop_asked: Callable[[], bool],
) -> Path:
    """The file of ``card``, checked against the hash that its publisher states; downloaded where no place has it.

    Args:
        card: says which file, where from, and its hash.
        weights_dir: a local mirror, looked into first.
        cache_dir: a download is kept in its folder ``weights``.
        on_progress: called with bytes done and in total while downloading.
        stop_asked: asked between two blocks of a download.

    Raises:
        WeightsMissing: no place has it and its URL does not answer.
        WeightsMismatch: the file of that name is another one.
        DownloadStopped: ``stop_asked`` became true.
    """
    ours = cache_dir / "weights" / card.file
    for path in (*([weights_dir / card.file] if weights_dir else []), _torch_hub_dir() / card.file, ours):
        if path.is_file():
            _check(path, card)
            return path
    try:
        _download(card, ours, on_progress, stop_asked)
    except (OSError, ValueError) as error:  # no network, a refusal, or no URL that can be opened
        if isinstance(error, HTTPError):
            error.close()  # it is an answer too, on an open connection
        cause = error.reason if type(error) is URLError else error
        raise WeightsMissing(
            f"The published weights {card.name!r} are not on this machine ({card.file}), and {card.url} did not give "
            f"them: {cause}.",
            hint=f"Download that URL elsewhere and put the file into {weights_dir or ours.parent} as {card.file}, "
            "or start from scratch.",
        ) from error
    return ours


def _torch_hub_dir() -> Path:
    """Where ``torch.hub`` keeps files, by its own rules."""
    cache_dir = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.environ.get("TORCH_HOME") or f"{cache_dir}/torch").expanduser() / "hub" / "checkpoints"


def _download(
    card: WeightsCard, path: Path, on_progress: Callable[[int, int], None], stop_asked: Callable[[], bool]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with (
            urllib.request.urlopen(card.url, timeout=_CONNECT_TIMEOUT_S) as response,  # noqa: S310 - the card's own URL
            beside.open("wb") as file,
        ):
            total_bytes = int(response.headers.get("Content-Length") or 0)
            while block := response.read(_BLOCK_BYTES):
                if stop_asked():
                    raise DownloadStopped
                file.write(block)
                on_progress(file.tell(), total_bytes)
            if total_bytes and file.tell() != total_bytes:
                raise OSError(f"the connection ended after {file.tell():,} of {total_bytes:,} bytes")
            file.flush()
            os.fsync(file.fileno())
        _check(beside, card)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _check(path: Path, card: WeightsCard) -> None:
    """Compare hashes; a publisher that states none has the empty one on the card, and HTTPS is all there is."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(card.sha256):
        raise WeightsMismatch(
            f"{path} is not the published file: its SHA-256 begins with {found[:8]}, not with {card.sha256[:8]}.",
            hint="Remove it, so that it is fetched again, or put the right file in its place.",
        )
