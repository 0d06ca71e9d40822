"""Drawing the splits that the source does not give: from each class its share, decided by the seed and the names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

from engine.store.writer import DatasetWriter
from wire.errors import DatasetInvalid
from wire.manifests import SplitName
from wire.specs import ImportOptions

_NAMES: Final[dict[SplitName, str]] = {"val": "Validation", "test": "Test"}


def draw_missing(writer: DatasetWriter, labels: Iterable[int], options: ImportOptions) -> tuple[str, ...]:
    """Give every sample a split; returns what was done, as sentences.

    A validation or test split that the source gives is left as it is. One that it lacks is taken from the images meant
    for training, from each class alike, and leaves each class at least one of them. Images with the same bytes go the
    same way, so shares are counted in pictures that differ; those with a twin in another class, in validation or in
    test stay in training.

    An image keeps its rank when others are added to its class: most of it stays where it was on a second import.

    Raises:
        DatasetInvalid: a share is asked for and no class has two pictures to draw from.
    """
    given = writer.splits_given()
    share_pct: dict[SplitName, float] = {"val": options.val_pct, "test": options.test_pct}
    missing = {split: pct for split, pct in share_pct.items() if split not in given and pct > 0}
    if missing:
        writer.begin_drawing()
        n_drawn_from = [_draw(writer, label, missing, seed=options.seed) for label in labels]
        if max(n_drawn_from, default=0) == 1:
            _refuse(missing, n_classes=len(n_drawn_from))
    writer.assign_rest_to_train()
    notes = [
        f"{_NAMES[split]}: {pct:g} % of each class was drawn from the training images, seed {options.seed}."
        for split, pct in missing.items()
    ]
    notes += [f"{_NAMES[split]}: as the source gives it." for split in _NAMES if split in given]
    return tuple(notes)


def _draw(writer: DatasetWriter, label: int, share_pct: dict[SplitName, float], *, seed: int) -> int:
    """Returns among how many pictures was drawn."""
    ids_of: dict[str, list[int]] = {}
    ranks: dict[str, bytes] = {}
    for id_, name, sha256 in writer.drawable(label):
        ids_of.setdefault(sha256, []).append(id_)
        ranks.setdefault(sha256, rank(seed, name))
    ranked = sorted(ids_of, key=ranks.__getitem__)
    for split, n_taken in _shares(len(ranked), share_pct).items():
        writer.assign(split, (id_ for picture in ranked[:n_taken] for id_ in ids_of[picture]))
        ranked = ranked[n_taken:]
    return len(ids_of)


def _shares(n_images: int, share_pct: dict[SplitName, float]) -> dict[SplitName, int]:
    """At least one image for training, then one for each split in turn, then as the shares say."""
    shares: dict[SplitName, int] = {}
    n_left = max(0, n_images - 1)
    for n_later, (split, pct) in zip(reversed(range(len(share_pct))), share_pct.items(), strict=True):
        wanted = max(1, round(n_images * pct / 100))
        shares[split] = min(wanted, max(min(1, n_left), n_left - n_later))
        n_left -= shares[split]
    return shares


def rank(seed: int, name: str) -> bytes:
    """Where a name comes in a draw."""
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()


def _refuse(missing: dict[SplitName, float], *, n_classes: int) -> None:
    what = " and ".join(_NAMES[split].lower() for split in missing)
    shares = " and ".join(f"the {_NAMES[split].lower()} share" for split in missing)
    raise DatasetInvalid(
        f"Each of the {n_classes:,} classes has a single image for training, "
        f"so no images for {what} can be drawn from them.",
        hint=f"Bring more images of each class, or set {shares} to 0 % to import all of them for training.",
    )
