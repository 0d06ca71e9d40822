"""One image of a source made ready: its pixels for the network, and a small picture of it for the table."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.classify.items import Item
from engine.data.decode import ImageUnreadable, decode
from engine.predict.session import Session
from engine.sources.tree import MemberUnreadable, Tree
from engine.store.predictions import Thumbnail

THUMBNAIL_PX: Final = 128
_EXACT_PX: Final = 64
"""Up to this size a picture is kept without loss: it takes little, and each of its pixels shows."""


@dataclass(frozen=True, slots=True)
class Looked:
    item: Item
    pixels_HWC: NDArray[np.uint8] | None
    thumbnail: Thumbnail | None
    error: str | None


def look(tree: Tree, session: Session, item: Item) -> Looked:
    """Read and decode; an image that cannot be read says why, and stops nobody."""
    if item.error is not None:
        return Looked(item, None, None, item.error)
    try:
        image = decode(tree.read(item.name))
    except (MemberUnreadable, ImageUnreadable) as error:
        return Looked(item, None, None, str(error))
    return Looked(item, session.pixels(image), make_thumbnail(image), None)


def make_thumbnail(image: Image.Image) -> Thumbnail:
    """The picture drawn anew, so that nothing of the file that was brought reaches a browser. Shrinks ``image``."""
    image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
    file = io.BytesIO()
    if max(image.size) <= _EXACT_PX:
        Image.fromarray(np.asarray(image)).save(file, "PNG")
        return Thumbnail(file.getvalue(), "image/png")
    Image.fromarray(np.asarray(image)).save(file, "WEBP", quality=80, method=2)
    return Thumbnail(file.getvalue(), "image/webp")
