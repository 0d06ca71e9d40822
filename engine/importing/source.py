"""Where the tree to read comes from, and which layout it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.catalog import find_card, format_cards, sample_cards
from engine.formats import DatasetFormat
from wire.cards import FormatCard
from wire.errors import DatasetInvalid, DatasetMissing
from wire.layout import JobDir
from wire.specs import FromFolder, FromSample, ImportSpec


@dataclass(frozen=True, slots=True)
class Tree:
    root: Path
    licence: str = ""


def tree_of(spec: ImportSpec, job: JobDir) -> Tree:
    """The tree that the spec's source means; a sample is first written into the scratch folder.

    Raises:
        DatasetMissing: the folder is not there, or may not be read.
        SpecInvalid: there is no sample of that name.
    """
    source = spec.source
    if isinstance(source, FromSample):
        card = find_card(sample_cards(), source.name, what="sample")
        root = job.scratch_dir / "tree"
        card.load()(root)
        return Tree(root, card.licence)
    return Tree(_existing(source, job))


def format_of(spec: ImportSpec, root: Path) -> tuple[FormatCard, DatasetFormat]:
    """The layout that the spec names, or else the one that fits best.

    Raises:
        DatasetInvalid: none fits.
        SpecInvalid: there is no format of that name.
    """
    if spec.format != "auto":
        card = find_card(format_cards(), spec.format, what="format")
        return card, card.load()
    cards = [card for card in format_cards().values() if card.task == spec.task]
    scored = [(card.load().detect(root), card) for card in cards]
    score, best = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    if best is None or score <= 0:
        layouts = "; ".join(f"{card.label}: {card.summary}" for card in cards)
        raise DatasetInvalid(
            f"No known layout was found in {_shown(spec)}.", hint=f"Arrange the images in one of these. {layouts}"
        )
    return best, best.load()


def _existing(source: FromFolder, job: JobDir) -> Path:
    root = job.resolve(source.path)
    if not root.is_dir():
        raise DatasetMissing(f"There is no folder {source.path}.", hint="Check the path on the machine that imports.")
    try:
        next(root.iterdir(), None)
    except PermissionError:
        raise DatasetMissing(
            f"The folder {source.path} may not be read.", hint="Give the user who runs Fovea the right to read it."
        ) from None
    return root


def _shown(spec: ImportSpec) -> str:
    source = spec.source
    return source.path if isinstance(source, FromFolder) else f"the sample {source.name!r}"
