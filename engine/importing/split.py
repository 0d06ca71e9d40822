"""Drawing the splits that the source does not give: from each class its share, decided by the seed and the names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from engine.store.writer import DatasetWriter
from wire.manifests import SplitName
from wire.specs import ImportOptions

_NAMES: Final[dict[SplitName, str]] = {"val": "Validation", "test": "Test"}


def draw_missing(writer: DatasetWriter, labels: Iterable[int], options: ImportOptions) -> tuple[str, ...]:
    """Give every sample a split; returns what was done, as sentences.

    A validation or test split that the source gives is left as it is. One that it lacks is taken from the images meant
    for training, from each class alike, and leaves each class at least one of them.

    An image keeps its rank when others are added to its class: most of it stays where it was on a second import.
    """
    given = writer.splits_given()
    share_pct: dict[SplitName, float] = {"val": options.val_pct, "test": options.test_pct}
    missing = {split: pct for split, pct in share_pct.items() if split not in given and pct > 0}
    for label in labels:
        members = [*writer.members(label, split=None), *writer.members(label, split="train")]
        ranked = [id_ for id_, name in sorted(members, key=lambda member: _rank(options.seed, member[1]))]
        for split, n_taken in _shares(len(ranked), missing).items():
            writer.assign(split, ranked[:n_taken])
            ranked = ranked[n_taken:]
        writer.assign("train", ranked)
    notes = [
        f"{_NAMES[split]}: {pct:g} % of each class was drawn from the training images, seed {options.seed}."
        for split, pct in missing.items()
    ]
    notes += [f"{_NAMES[split]}: as the source gives it." for split in _NAMES if split in given]
    return tuple(notes)


def _shares(n_images: int, share_pct: dict[SplitName, float]) -> dict[SplitName, int]:
    """At least one image for training, then one for each split in turn, then as the shares say."""
    shares: dict[SplitName, int] = {}
    n_left = max(0, n_images - 1)
    for n_later, (split, pct) in zip(reversed(range(len(share_pct))), share_pct.items(), strict=True):
        wanted = max(1, round(n_images * pct / 100))
        shares[split] = min(wanted, max(min(1, n_left), n_left - n_later))
        n_left -= shares[split]
    return shares


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()
