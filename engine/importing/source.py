"""Which layout a tree has, or what it is instead."""

from __future__ import annotations

from collections.abc import Sequence

from engine.catalog import find_card, format_cards
from engine.formats import DatasetFormat, not_an_image
from engine.formats.foreign import recognised
from engine.sources.opening import source_shown
from engine.sources.tree import Tree
from wire.cards import FormatCard
from wire.errors import DatasetInvalid
from wire.specs import ImportSpec


def format_of(spec: ImportSpec, tree: Tree) -> tuple[FormatCard, DatasetFormat]:
    """The layout that the spec names, or else the one that fits best.

    Raises:
        DatasetInvalid: none fits, or the tree is laid out for another task.
        SpecInvalid: there is no format of that name.
    """
    if spec.format != "auto":
        card = find_card(format_cards(), spec.format, what="format")
        return card, card.load()
    cards = [card for card in format_cards().values() if card.task == spec.task]
    scored = [(card.load().detect(tree), card) for card in cards]
    score, best = max(scored, key=lambda pair: pair[0], default=(0.0, None))
    shown = source_shown(spec.source)
    # Lists that a person wrote are surer than any guess.
    if score < 0.95 and (foreign := recognised(tree)):
        raise DatasetInvalid(f"No classification set: {shown} holds {foreign.what}.", hint=foreign.hint)
    if best is None or score <= 0:
        raise _no_layout(shown, tree.names(), cards)
    return best, best.load()


def _no_layout(shown: str, names: Sequence[str], cards: Sequence[FormatCard]) -> DatasetInvalid:
    images = [name for name in names if not not_an_image(name)]
    layouts = "; ".join(f"{card.label}: {card.summary}" for card in cards)
    if not names:
        return DatasetInvalid(
            f"There are no files in {shown}.",
            hint="Bring a folder or an archive that holds images, one folder a class.",
        )
    if not images:
        return DatasetInvalid(
            f"None of the {len(names):,} files in {shown} has an image's file ending.",
            hint="Images are read as JPEG, PNG, BMP, GIF, WebP, TIFF and PPM, with the usual endings.",
        )
    return DatasetInvalid(
        f"No class folders were found in {shown}: its {len(images):,} images, for example {images[0]}, do not lie in "
        "folders named after their classes.",
        hint=f"Arrange the images in one of these. {layouts}",
    )
