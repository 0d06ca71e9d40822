"""Trained networks tried on a few images at once, and asked why. Answers come while every device is busy."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Self, TypeAlias

from django.contrib.auth.models import User
from django.http import HttpResponse
from ninja import Router, Schema
from pydantic import Field

from dashboard import serving
from dashboard.api.bodies import answers
from dashboard.errors import RequestInvalid
from dashboard.trying import image_of, images_of
from dashboard.visitor import SignedIn
from jobs.checkpoints import checkpoint_for
from jobs.exports import export_row
from jobs.models import Artifact
from jobs.tried import export_name, export_to_try
from wire.serving import MAX_IMAGES, MAX_TOP, Guess, ImageAnswer, LayerFacts, Problem, TilesOf
from wire.specs import ExportPrecision

router = Router()
"""Below `/trainings`."""

Top: TypeAlias = Annotated[int, Field(ge=1, le=MAX_TOP)]
Label: TypeAlias = Annotated[int, Field(ge=0)]

_FILES = {
    "type": "object",
    "required": ["files"],
    "properties": {"files": {"type": "array", "maxItems": MAX_IMAGES, "items": {"type": "string", "format": "binary"}}},
}
_SAMPLE = {
    "type": "object",
    "required": ["sample"],
    "properties": {
        "sample": {
            "type": "object",
            "required": ["dataset", "id"],
            "properties": {"dataset": {"type": "integer"}, "id": {"type": "integer", "minimum": 0}},
        }
    },
}
_BROUGHT: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {"schema": _FILES},
            "application/json": {"schema": _SAMPLE},
        },
    }
}


class CheckpointTried(Schema):
    id: int
    name: str
    step: int
    epoch: float

    @classmethod
    def of(cls, artifact: Artifact) -> Self:
        meta = artifact.meta
        return cls(id=artifact.pk, name=artifact.name, step=meta.get("step") or 0, epoch=meta.get("epoch") or 0.0)


class ExportTried(Schema):
    id: int
    name: str
    """For people: `ONNX INT8`."""
    backend: str
    precision: ExportPrecision
    outcome: str
    """Of its verification: `passed`, `failed` or `not_run`."""
    checkpoint: str
    """The name of the one that it was made of."""

    @classmethod
    def of(cls, made: Artifact, user: User) -> Self:
        row = export_row(made.made_by, user)
        of = row.checkpoint.name if row.checkpoint else ""
        return cls(**row.model_dump(include={"id", "backend", "precision", "outcome"}),
                   name=export_name(row), checkpoint=of)  # fmt: skip


class TriedImage(Schema):
    name: str
    width: int
    height: int
    top: list[Guess]
    """The most probable first; probabilities from 0 to 1."""
    seen: str
    """The image as the network sees it, as a `data:` address."""
    decode_ms: float
    forward_ms: float
    """The network alone; of an export with its own resizing."""
    error: Problem | None
    """Why there is no answer; the other images have theirs all the same."""

    @classmethod
    def of(cls, answer: ImageAnswer) -> Self:
        values = answer.model_dump(include={"name", "width", "height", "decode_ms", "forward_ms"})
        seen = png_address(answer.seen_png) if answer.seen_png else ""
        return cls(**values, top=list(answer.top), seen=seen, error=answer.error)


class TriedImages(Schema):
    checkpoint: CheckpointTried | None
    """What answered: this, or an export."""
    export: ExportTried | None
    image_px: int
    load_ms: float
    """What loading the network took; 0 where it was still there."""
    images: list[TriedImage]


class ExplainedImage(Schema):
    checkpoint: CheckpointTried
    name: str
    label: int
    class_name: str
    probability: float
    layer: str
    """Whose activations were weighed: the last that still knows places."""
    heat: list[list[float]]
    """0 to 1, rows from top to bottom."""
    seen: str
    overlay: str
    """`heat` over `seen`, as a `data:` address."""
    ms: float


class ImageLayers(Schema):
    checkpoint: CheckpointTried
    name: str
    top: list[Guess]
    seen: str
    n_parameters: int
    layers: list[LayerFacts]
    """In the order in which the image went through."""
    ms: float


@router.post(
    "/{int:run_id}/predict", response=answers(TriedImages), openapi_extra=_BROUGHT, summary="Try it on some images"
)
def training_predict(
    request: SignedIn, run_id: int, checkpoint: int | None = None, export: int | None = None, top: Top = 5
) -> TriedImages:
    """A form with up to 32 `files` of 64 MiB together, or `{"sample": {"dataset": 1, "id": 1}}`.

    `checkpoint` is the id of an artifact; without it the best is taken, else the newest. Works while the run goes on.
    `export` is the id of an export of the run instead, which answers in its own runtime, on the processor.
    """
    if export is not None and checkpoint is not None:
        raise RequestInvalid("Both a checkpoint and an export are named.", hint="Name one of them.")
    if export is not None:
        artifact = export_to_try(request.user, run_id, export)
    else:
        artifact = checkpoint_for(request.user, run_id, checkpoint)
    answer = serving.predict(artifact, images_of(request), top=top)
    return TriedImages(
        checkpoint=CheckpointTried.of(artifact) if export is None else None,
        export=None if export is None else ExportTried.of(artifact, request.user),
        image_px=answer.image_px,
        load_ms=answer.load_ms,
        images=[TriedImage.of(image) for image in answer.images],
    )


@router.post(
    "/{int:run_id}/explain", response=answers(ExplainedImage), openapi_extra=_BROUGHT, summary="Where it looked"
)
def training_explain(
    request: SignedIn, run_id: int, checkpoint: int | None = None, label: Label | None = None
) -> ExplainedImage:
    """Grad-CAM for one image and one class, the most probable where no `label` is given; of checkpoints alone."""
    artifact = checkpoint_for(request.user, run_id, checkpoint)
    found = serving.explain(artifact, image_of(request), label=label)
    return ExplainedImage(
        **found.model_dump(exclude={"heat", "seen_png", "overlay_png"}),
        checkpoint=CheckpointTried.of(artifact),
        heat=[list(row) for row in found.heat],
        seen=png_address(found.seen_png),
        overlay=png_address(found.overlay_png),
    )


@router.post(
    "/{int:run_id}/layers", response=answers(ImageLayers), openapi_extra=_BROUGHT, summary="What every layer does"
)
def training_layers(request: SignedIn, run_id: int, checkpoint: int | None = None) -> ImageLayers:
    """Mean, spread and histogram of activations and weights of every layer, for one image; of checkpoints alone."""
    artifact = checkpoint_for(request.user, run_id, checkpoint)
    found = serving.layers(artifact, image_of(request))
    return ImageLayers(
        checkpoint=CheckpointTried.of(artifact),
        name=found.name,
        top=list(found.top),
        seen=png_address(found.seen_png),
        n_parameters=found.n_parameters,
        layers=list(found.layers),
        ms=found.ms,
    )


@router.post(
    "/{int:run_id}/layer-tiles",
    response=answers(None),
    openapi_extra={**_BROUGHT, "responses": {200: {"content": {"image/png": {}}}}},
    summary="One layer, drawn",
)
def training_layer_tiles(
    request: SignedIn, run_id: int, layer: str, what: TilesOf = "activations", checkpoint: int | None = None
) -> HttpResponse:
    """A tile for each channel of its activations, or for each kernel, each from its darkest to its brightest value.

    At most 256 are drawn.
    """
    artifact = checkpoint_for(request.user, run_id, checkpoint)
    drawn = serving.layer_tiles(artifact, image_of(request), layer, what=what)
    return HttpResponse(drawn.data, content_type=drawn.mime)


def png_address(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"
