"""Which images of a dataset an export is tried and calibrated on. Needs no torch."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.store.reader import DatasetReader, Sample
from wire.manifests import DatasetManifest, SplitName

VERIFIED_SPLITS: Final[tuple[SplitName, ...]] = ("val", "test")
"""The first that has images is taken: training images would flatter."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Images of one split, in the order of ids, of classes that the checkpoint knows."""

    split: SplitName
    samples: tuple[Sample, ...]
    labels: tuple[int, ...]
    """The truth, as numbers of the checkpoint's classes."""
    n_of: int
    """Those there are of these classes."""
    seed: int | None
    """None where all were taken."""


def verified_split(manifest: DatasetManifest, numbers: Mapping[int, int]) -> SplitName | None:
    """The split to verify on; ``numbers`` are those of ``engine.predict.matching.numbers_of``."""
    return next((split for split in VERIFIED_SPLITS if any(_counts(manifest, split, [*numbers]))), None)


def draw(reader: DatasetReader, split: SplitName, numbers: Mapping[int, int], *, n_images: int, seed: int) -> Drawn:
    """As many images of each class as its share in the split; the same ones for the same seed and names.

    Args:
        reader: of the dataset.
        split: where from.
        numbers: label of the dataset -> number of the checkpoint's class; images of other labels are left out.
        n_images: 0, or as many as there are, takes all.
        seed: of the sample.

    Cost: one query a class, and the rows of one class in memory besides those drawn.
    """
    labels = sorted(numbers)
    counts = _counts(reader.manifest, split, labels)
    n_of = sum(counts)
    is_all = not 0 < n_images < n_of
    samples: list[Sample] = []
    for label, n in zip(labels, counts if is_all else allotted(counts, n_images), strict=True):
        if n:
            samples += _first_ranked(reader.samples(split, label=label), n, seed)
    samples.sort(key=lambda sample: sample.id)
    return Drawn(
        split, tuple(samples), tuple(numbers[sample.label] for sample in samples), n_of, None if is_all else seed
    )


def spread(drawn: Drawn, n: int, *, seed: int) -> list[tuple[Sample, int]]:
    """Some of the images with their labels, of as many classes as can be: one of each before a second of any."""
    by_rank = sorted(zip(drawn.samples, drawn.labels, strict=True), key=lambda one: _rank(seed, one[0].name))
    n_before: Counter[int] = Counter()
    rounds = []
    for place, (_, label) in enumerate(by_rank):
        rounds.append((n_before[label], place))
        n_before[label] += 1
    return [by_rank[place] for _, place in sorted(rounds)[:n]]


def allotted(counts: Sequence[int], n: int) -> list[int]:
    """How many of each group, in proportion to ``counts``: whole shares first, the rest to the largest remainders.

    Of equal remainders the earlier group's comes first. ``n`` is at most the sum of ``counts``.
    """
    total = sum(counts)
    if not total:
        return [0 for _ in counts]
    shares = [n * count // total for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda group: (-(n * counts[group] % total), group))
    for group in by_remainder[: n - sum(shares)]:
        shares[group] += 1
    return shares


def _first_ranked(samples: Sequence[Sample], n: int, seed: int) -> Sequence[Sample]:
    if n == len(samples):
        return samples
    return sorted(samples, key=lambda sample: _rank(seed, sample.name))[:n]


def _rank(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}/{name}".encode()).digest()


def _counts(manifest: DatasetManifest, split: SplitName, labels: Sequence[int]) -> list[int]:
    of_split = manifest.counts.get(split, ())
    return [of_split[label] if label < len(of_split) else 0 for label in labels]
