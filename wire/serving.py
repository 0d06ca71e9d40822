"""What is asked of ``python -m engine serve`` and what it answers, over HTTP on a unix socket.

A request is ``POST /<what>``; its body is a JSON object of ``X-Json-Bytes`` bytes, then the bytes of every image that
the object announces as ``SentImage``, in their order and with nothing between them. Paths are relative to the storage
root. An answer is JSON, or a picture where one was asked for. An error is ``Problem`` with a status of 400 or above.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from wire.specs.strict import Strict

JSON_BYTES_HEADER = "X-Json-Bytes"
MAX_REQUEST_BYTES = 64 * 1024 * 1024
"""Of the images together; a little more is left for the JSON."""
MAX_JSON_BYTES = 1024 * 1024
MAX_IMAGES = 32
MAX_TOP = 20
N_HISTOGRAM_BINS = 20
MAX_TILES = 256

TilesOf: TypeAlias = Literal["activations", "weights"]


class _Told(Strict):
    """Bytes are base64 in JSON, in the alphabet for addresses."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


class StoredImage(Strict):
    """An image of a dataset."""

    kind: Literal["sample"] = "sample"
    dataset: str
    """The dataset's folder."""
    sample: int = Field(ge=0)


class SentImage(Strict):
    """An image whose bytes follow the JSON."""

    kind: Literal["bytes"] = "bytes"
    name: str
    n_bytes: int = Field(ge=0)


AskedImage: TypeAlias = Annotated[StoredImage | SentImage, Field(discriminator="kind")]


class CheckpointFile(Strict):
    """A network as the training left it."""

    kind: Literal["checkpoint"] = "checkpoint"
    path: str
    sha256: str = ""


class ExportFolder(Strict):
    """A network as an export left it, to be run by its own runtime."""

    kind: Literal["export"] = "export"
    path: str
    sha256: str
    """Of the report in it, which holds those of the other files."""


AskedNetwork: TypeAlias = Annotated[CheckpointFile | ExportFolder, Field(discriminator="kind")]


class PictureRequest(Strict):
    """A sample as a picture for a screen, its longest side at most ``px``; without ``px`` at its own size."""

    dataset: str
    sample: int = Field(ge=0)
    px: int | None = Field(None, ge=8, le=4096)


class PredictRequest(Strict):
    network: AskedNetwork
    images: tuple[AskedImage, ...] = Field(min_length=1, max_length=MAX_IMAGES)
    top: int = Field(5, ge=1, le=MAX_TOP)


class ExplainRequest(Strict):
    checkpoint: CheckpointFile
    image: AskedImage
    label: int | None = Field(None, ge=0)
    """The class to explain; without it the one that the network takes the image for."""


class LayersRequest(Strict):
    checkpoint: CheckpointFile
    image: AskedImage


class LayerTilesRequest(Strict):
    checkpoint: CheckpointFile
    image: AskedImage
    layer: str
    what: TilesOf = "activations"


class Problem(Strict):
    code: str
    message: str
    hint: str = ""


class Guess(Strict):
    label: int
    name: str
    probability: float
    """0 to 1."""


class ImageAnswer(_Told):
    """Of one image: the guesses, the most probable first, or why there are none."""

    name: str
    width: int = 0
    height: int = 0
    top: tuple[Guess, ...] = ()
    seen_png: bytes = b""
    """The picture as the network sees it, before its values are normalised."""
    decode_ms: float = 0.0
    """Reading and resizing."""
    forward_ms: float = 0.0
    """The network alone; of an export with its own resizing."""
    error: Problem | None = None


class Answer(_Told):
    classes: tuple[str, ...]
    image_px: int
    images: tuple[ImageAnswer, ...]
    load_ms: float
    """What loading torch and the network took; 0 where both were there."""


class Explanation(_Told):
    """Where in the image the network found what speaks for ``label``, by Grad-CAM."""

    name: str
    label: int
    class_name: str
    probability: float
    layer: str
    """Whose activations were weighed."""
    heat: tuple[tuple[float, ...], ...]
    """0 to 1, rows from top to bottom, as coarse as the layer is."""
    seen_png: bytes
    overlay_png: bytes
    """``heat`` over ``seen_png``."""
    ms: float


class Values(Strict):
    """What an array of numbers looks like; nothing but the counts where none of them is finite."""

    shape: tuple[int, ...]
    n_nonfinite: int = 0
    mean: float | None
    std: float | None
    min: float | None
    max: float | None
    histogram: tuple[int, ...] = ()
    """Counts in equal bins from ``min`` to ``max``."""


class LayerFacts(Strict):
    name: str
    """Its path in the network."""
    type: str
    n_parameters: int
    activations: Values
    weights: Values | None
    """None where it has none."""
    has_activation_tiles: bool
    has_weight_tiles: bool


class Layers(_Told):
    """Every layer that does the work itself, in the order in which the image went through."""

    name: str
    top: tuple[Guess, ...]
    seen_png: bytes
    n_parameters: int
    layers: tuple[LayerFacts, ...]
    ms: float
