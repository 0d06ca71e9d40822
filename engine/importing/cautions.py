"""What a person should know about a dataset before training on it."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from wire.manifests import SplitName, Warned

_NAMED: Final = 5
_SMALL_CLASS: Final = 10
_IMBALANCE: Final = 10


def alike(classes: Sequence[str]) -> Iterator[Warned]:
    """Names that look the same to people, and to some file systems."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[unicodedata.normalize("NFKC", name.strip().casefold())].append(name)
    for names in groups.values():
        if len(names) > 1:
            yield Warned(
                code="class.alike",
                text=f"{_listed(names)} are kept as classes of their own, though their names differ only in "
                f"{_how(names)}. If they mean the same, give their folders one name and import again.",
            )


def missing(declared: Iterable[str], classes: Sequence[str], removed: frozenset[str]) -> Iterator[Warned]:
    """Classes that the source names and that have no image; ``removed`` are those that were to be left out."""
    there = frozenset(classes)
    empty = [name for name in declared if name not in there and name not in removed]
    if empty:
        yield Warned(
            code="class.empty",
            text=f"Without an image that can be read, and so not in the dataset: {_listed(empty)}.",
        )


def counted(classes: Sequence[str], counts: Mapping[SplitName, Sequence[int]]) -> Iterator[Warned]:
    """About classes that training will see too little of."""
    if not any(train := counts.get("train", [0] * len(classes))):
        yield Warned(
            code="train.missing",
            text="There are no training images: this dataset can be evaluated on, and not trained on.",
        )
        return
    untrained = [name for name, n_images in zip(classes, train, strict=True) if not n_images]
    if untrained:
        yield Warned(
            code="class.untrained",
            text=f"Only in validation or test, so that no model can learn it: {_listed(untrained)}.",
        )
    trained = [(n_images, name) for name, n_images in zip(classes, train, strict=True) if n_images]
    small = [f"{name!r} ({n_images})" for n_images, name in trained if n_images < _SMALL_CLASS]
    if small:
        yield Warned(
            code="class.small",
            text=f"Classes with fewer than {_SMALL_CLASS} training images are hardly learned: {_joined(small)}.",
        )
    (fewest, rare), (most, common) = min(trained), max(trained)
    if most > _IMBALANCE * fewest:
        yield Warned(
            code="class.imbalance",
            text=f"The classes differ much in size: {most:,} training images of {common!r}, {fewest:,} of {rare!r}. "
            "A model will tend to answer with the large ones.",
        )


def conflicts(pairs: Iterable[tuple[str, str]]) -> Iterator[Warned]:
    """Equal bytes in different classes."""
    n_pairs = 0
    first = ""
    for one, other in pairs:
        n_pairs += 1
        first = first or f"{one} and {other}"
    if n_pairs:
        yield Warned(
            code="class.conflict",
            text=f"{n_pairs:,} {'picture is' if n_pairs == 1 else 'pictures are'} in more than one class, byte for "
            f"byte the same{', for example' if n_pairs > 1 else ''}: {first}. Only one of the classes can be right.",
        )


def leaks(n_leaks: int, *, kept: bool) -> Iterator[Warned]:
    if n_leaks:
        done = "They are still in both" if kept else "They were removed from training"
        yield Warned(
            code="leak",
            text=f"{n_leaks:,} training {'image is' if n_leaks == 1 else 'images are'} also in validation or test, "
            f"byte for byte the same. {done}; the report names them.",
        )


def _how(names: Sequence[str]) -> str:
    """In what the names differ."""
    if len({unicodedata.normalize("NFC", name) for name in names}) == 1:
        return "how letters with accents are stored"
    if len({name.casefold() for name in names}) == 1:
        return "upper and lower case"
    if len({name.strip() for name in names}) == 1:
        return "blanks before or after"
    return "case, blanks or how letters are stored"


def _listed(names: Sequence[str]) -> str:
    return _joined([repr(name) for name in names])


def _joined(shown: Sequence[str]) -> str:
    more = f" and {len(shown) - _NAMED:,} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more
