"""Which layout a tree has, or what it is instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.catalog import find_card, format_cards
from engine.formats import DatasetFormat, not_an_image
from engine.formats.foreign import recognised
from engine.sources.opening import source_shown
from engine.sources.tree import Tree
from wire.cards import FormatCard
from wire.errors import DatasetInvalid
from wire.specs import ImportSpec

_NAMED: Final = 5


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
        raise _no_layout(shown, tree, cards)
    return best, best.load()


def _no_layout(shown: str, tree: Tree, cards: Sequence[FormatCard]) -> DatasetInvalid:
    names = tree.names()
    images = [name for name in names if not not_an_image(name)]
    layouts = "; ".join(f"{card.label}: {card.summary}" for card in cards)
    if not names:
        left_out = [f"{stray.name}: {stray.reason}" for stray in tree.strays() if not stray.clutter]
        more = f"; and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else ""
        why = f" {'; '.join(left_out[:_NAMED])}{more}." if left_out else ""
        return DatasetInvalid(
            f"There are no files {'that can be used ' if why else ''}in {shown}.{why}",
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
