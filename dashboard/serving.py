"""Asks the service of pictures and trained models, which listens on a unix socket beside this process.

Nothing here loads an image library: what comes back is bytes for a browser and numbers for a page.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

from django.conf import settings
from pydantic import BaseModel, ValidationError

from jobs.models import Artifact
from jobs.storage import storage
from wire.errors import FoveaError, ImageInvalid, NotFound, ServeUnavailable, Unexpected, error_codes
from wire.serving import (
    JSON_BYTES_HEADER,
    MAX_REQUEST_BYTES,
    Answer,
    AskedImage,
    AskedNetwork,
    CheckpointFile,
    ExplainRequest,
    Explanation,
    ExportFolder,
    Layers,
    LayersRequest,
    LayerTilesRequest,
    PictureRequest,
    PredictRequest,
    Problem,
    SentImage,
    StoredImage,
    TilesOf,
)

CONNECT_TIMEOUT_S = 2.0
ANSWER_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.05

Made = TypeVar("Made", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Picture:
    data: bytes
    mime: str


@dataclass(frozen=True, slots=True)
class Bytes:
    """An image that somebody brought."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class SampleRef:
    """An image of a dataset."""

    dataset_dir: Path
    sample_id: int


ImageRef: TypeAlias = Bytes | SampleRef


def picture(dataset_dir: Path, sample_id: int, *, px: int | None) -> Picture:
    """A sample re-encoded for a screen, its longest side at most ``px``; without ``px`` at its own size.

    Raises:
        NotFound: the dataset has no such sample.
        ImageInvalid: it cannot be read.
        ServeUnavailable: the service does not answer.
    """
    return _picture("picture", PictureRequest(dataset=_relative(dataset_dir), sample=sample_id, px=px))


def predict(network: Artifact, images: Sequence[ImageRef], *, top: int = 5) -> Answer:
    """What a checkpoint or an export takes each image for; an image that cannot be read has an error in its place.

    Raises:
        CheckpointMissing, CheckpointDamaged, NotFound: the weights or the export cannot be used.
        ActionRefused: the export cannot be run on this machine's processor.
        ServeUnavailable: the service does not answer.
    """
    asked = PredictRequest(network=_network(network), images=tuple(map(_asked, images)), top=top)
    return _made(Answer, "predict", asked, images)


def explain(checkpoint: Artifact, image: ImageRef, *, label: int | None) -> Explanation:
    """Where in the image the network found what speaks for ``label``, without it for its best guess; by Grad-CAM.

    Raises:
        ImageInvalid: the image cannot be read.
        ActionRefused: this network cannot be explained so.
        CheckpointMissing, CheckpointDamaged, ServeUnavailable: as in ``predict``.
    """
    asked = ExplainRequest(checkpoint=_file(checkpoint), image=_asked(image), label=label)
    return _made(Explanation, "explain", asked, [image])


def layers(checkpoint: Artifact, image: ImageRef) -> Layers:
    """Every layer with its numbers, for one image.

    Raises:
        ImageInvalid, CheckpointMissing, CheckpointDamaged, ServeUnavailable: as in ``explain``.
    """
    return _made(Layers, "layers", LayersRequest(checkpoint=_file(checkpoint), image=_asked(image)), [image])


def layer_tiles(checkpoint: Artifact, image: ImageRef, layer: str, *, what: TilesOf) -> Picture:
    """Activations of one layer, a tile a channel, or its kernels.

    Raises:
        NotFound: there is no such layer, or it has nothing to draw.
        ImageInvalid, CheckpointMissing, CheckpointDamaged, ServeUnavailable: as in ``explain``.
    """
    asked = LayerTilesRequest(checkpoint=_file(checkpoint), image=_asked(image), layer=layer, what=what)
    return _picture("layer-tiles", asked, [image])


def _network(made: Artifact) -> AskedNetwork:
    if made.kind != "export":
        return _file(made)
    return ExportFolder(path=_relative(storage().job(made.made_by_id).resolve(made.path)), sha256=made.sha256)


def _file(checkpoint: Artifact) -> CheckpointFile:
    path = storage().job(checkpoint.made_by_id).resolve(checkpoint.path)
    return CheckpointFile(path=_relative(path), sha256=checkpoint.sha256)


def _asked(image: ImageRef) -> AskedImage:
    if isinstance(image, Bytes):
        return SentImage(name=image.name, n_bytes=len(image.data))
    return StoredImage(dataset=_relative(image.dataset_dir), sample=image.sample_id)


def _relative(path: Path) -> str:
    try:
        return str(path.relative_to(storage().root))
    except ValueError:
        raise NotFound(f"{path} is not below DATA_DIR.", hint="Choose a dataset or a run of this server.") from None


def _made(model: type[Made], what: str, asked: BaseModel, images: Sequence[ImageRef]) -> Made:
    data, _ = _answer(what, asked, images)
    try:
        return model.model_validate_json(data)
    except ValidationError as problem:
        raise _unavailable("gave an answer that cannot be read") from problem


def _picture(what: str, asked: BaseModel, images: Sequence[ImageRef] = ()) -> Picture:
    return Picture(*_answer(what, asked, images))


def _answer(what: str, asked: BaseModel, images: Sequence[ImageRef]) -> tuple[bytes, str]:
    """The answer's body and its type.

    Raises:
        FoveaError: the one that the service told, or ``ServeUnavailable``.
    """
    sent = [image.data for image in images if isinstance(image, Bytes)]
    if sum(map(len, sent)) > MAX_REQUEST_BYTES:
        raise ImageInvalid(
            f"The images hold {sum(map(len, sent)) / 2**20:.1f} MiB together; "
            f"at most {MAX_REQUEST_BYTES / 2**20:.0f} MiB are taken at once.",
            hint="Send fewer or smaller images.",
        )
    text = asked.model_dump_json().encode()
    body = b"".join([text, *sent])
    connection = _UnixConnection(settings.SERVE_SOCKET)
    try:
        connection.request("POST", f"/{what}", body, {JSON_BYTES_HEADER: str(len(text))})
        response = connection.getresponse()
        data, mime = response.read(), response.headers.get_content_type()
    except TimeoutError:
        raise _unavailable(f"did not answer within {ANSWER_TIMEOUT_S:.0f} s") from None
    except (OSError, http.client.HTTPException) as problem:
        raise _unavailable("does not answer") from problem
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise _told(data)
    return data, mime


def _told(data: bytes) -> FoveaError:
    """The error that the service told of, as the class that carries its code."""
    try:
        problem = Problem.model_validate_json(data)
    except ValidationError:
        return _unavailable("gave an answer that cannot be read")
    return error_codes().get(problem.code, Unexpected)(problem.message, hint=problem.hint)


def _unavailable(what: str) -> ServeUnavailable:
    return ServeUnavailable(
        f"The service of pictures and trained models {what}.",
        hint="It is restarted by itself: try again in a few seconds. "
        f"If this stays, look at {storage().root / 'logs' / 'serve.log'}.",
    )


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, socket_path: Path) -> None:
        super().__init__("serve", timeout=CONNECT_TIMEOUT_S)
        self._socket_path = socket_path

    def connect(self) -> None:
        """Waits a moment for a service that is just being started again: after a rest, or a crash."""
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while True:
            try:
                self.sock = _connected(self._socket_path)
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_EVERY_S)
            else:
                return


def _connected(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.settimeout(CONNECT_TIMEOUT_S)
        found.connect(str(path))
    except OSError:
        found.close()
        raise
    found.settimeout(ANSWER_TIMEOUT_S)
    return found
