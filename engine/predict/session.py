"""A trained network, ready to be shown images: one checkpoint on one device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from engine.catalog import find_card, model_cards
from engine.checkpoint import Payload, read_checkpoint
from engine.data.normalise import Normalise, unit
from engine.data.resize import resize
from engine.device import choose_device
from engine.models.architecture import Architecture
from wire.errors import CheckpointDamaged, CheckpointMissing, SpecInvalid
from wire.specs import Colour, Resize

TASK: Final = "classification"
_DTYPES: Final = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The same way from a picture to probabilities as in the training's validation.

    Computes in the precision of the training where the device has units for it, else in fp32.
    """

    network: nn.Module
    """In evaluation mode, on the device, channels last; gives logits."""
    classes: tuple[str, ...]
    image_px: int
    resize: Resize
    colour: Colour
    mean: tuple[float, ...]
    std: tuple[float, ...]
    task: str
    model: str
    model_options: dict[str, Any]
    """All of them, with what the checkpoint leaves to the card's defaults."""
    step: int
    n_parameters: int
    device: torch.device
    precision: str
    trained_precision: str
    _normalise: Normalise

    @classmethod
    def open(cls, path: Path, *, sha256: str = "", device: torch.device = torch.device("cpu")) -> Self:  # noqa: B008 - immutable
        """Read a checkpoint and build its network.

        Raises:
            CheckpointMissing: there is no such file.
            CheckpointDamaged: it is not the announced one, cannot be read, or its weights do not fit its model.
            SpecInvalid: its model is not installed here, or it is for another task.
        """
        if not path.is_file():
            raise CheckpointMissing(
                f"There is no checkpoint {path}.", hint="It may have been deleted; choose another of that run."
            )
        payload = read_checkpoint(path, sha256=sha256)
        try:
            return cls.of(payload, device)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            # A full device is no fault of the file.
            if isinstance(error, torch.OutOfMemoryError) or "out of memory" in str(error):
                raise
            reason = str(error).strip().partition("\n")[0]
            raise CheckpointDamaged(
                f"The checkpoint {path} does not hold a network that can be rebuilt: {type(error).__name__} {reason}.",
                hint="Choose another checkpoint of that run.",
            ) from error

    @classmethod
    def of(cls, payload: Payload, device: torch.device = torch.device("cpu")) -> Self:  # noqa: B008 - immutable
        """The network of what a checkpoint holds.

        Raises:
            SpecInvalid: its model is not installed here, or it is for another task.
            KeyError, TypeError, ValueError, RuntimeError: something is absent, or the weights do not fit.
        """
        options = _model_options(payload)
        network = _network(payload, options)
        network = network.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
        mean, std = tuple(payload["mean"]), tuple(payload["std"])
        n_channels = _n_channels(payload)
        return cls(
            network=network,
            classes=tuple(payload["classes"]),
            image_px=payload["image_px"],
            resize=payload["resize"],
            colour=payload["colour"],
            mean=mean,
            std=std,
            task=payload["task"],
            model=payload["model"],
            model_options=options.model_dump(mode="json"),
            step=payload["step"],
            n_parameters=sum(parameter.numel() for parameter in network.parameters()),
            device=device,
            precision=_precision(payload["precision"], device),
            trained_precision=payload["precision"],
            _normalise=Normalise(mean, std, n_channels, device),
        )

    @property
    def batch_size(self) -> int:
        """How many images go through at once: as many pixels whatever their size, fewer where each takes long."""
        n_at_224_px = 64 if self.device.type == "cuda" else 16
        return max(1, min(256, n_at_224_px * 224**2 // self.image_px**2))

    def pixels(self, image: Image.Image) -> NDArray[np.uint8]:
        """The picture at the size and in the colours of the training; ``image`` comes from ``engine.data.decode``.

        Shapes:
            returns (H, W, C).
        """
        return resize(image, self.image_px, self.resize, self.colour)

    def normalised(self, images_NHWC: NDArray[np.uint8]) -> Tensor:
        """What the network is shown: ``images_BCHW``, float32, on the device."""
        # Copied: of an array that is read only, as out of a mapped cache, torch would warn.
        return self._normalise(unit(torch.from_numpy(np.array(images_NHWC)).to(self.device)))

    def logits(self, images_BCHW: Tensor) -> Tensor:
        """The network's outputs for normalised images: ``logits_BK``, float32, on the device."""
        with torch.inference_mode(), self.autocast():
            outputs_BK = self.network(images_BCHW)
        return cast(Tensor, outputs_BK.float())

    def probabilities(self, images_NHWC: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Shares of each class, in the order of ``classes``.

        Shapes:
            images (N, H, W, C) as ``pixels`` gives them; returns (N, K).
        """
        if not len(images_NHWC):
            return np.zeros((0, len(self.classes)), np.float32)
        with torch.inference_mode():
            shares_BK: NDArray[np.float32] = self.logits(self.normalised(images_NHWC)).softmax(dim=1).cpu().numpy()
        return shares_BK

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=_DTYPES[self.precision], enabled=self.precision != "fp32")


def _n_channels(payload: Payload) -> int:
    return 1 if payload["colour"] == "grey" else 3


def _model_options(payload: Payload) -> BaseModel:
    if payload["task"] != TASK:
        raise SpecInvalid(
            f"The checkpoint is for the task {payload['task']!r}; only {TASK!r} can be put to use here.",
            hint="Choose a checkpoint of a classification.",
        )
    card = find_card(model_cards(), payload["model"], what="model")
    try:
        return card.options.model_validate(payload["model_options"])
    except ValidationError as error:
        raise ValueError(f"options of {card.label}: {error.errors()[0]['msg']}") from error


def _network(payload: Payload, options: BaseModel) -> nn.Module:
    architecture: Architecture = model_cards()[payload["model"]].load()
    # Weights are drawn only to be replaced: what draws elsewhere in the process must not notice.
    with torch.random.fork_rng(devices=[]):
        network = architecture.build(
            n_classes=len(payload["classes"]),
            in_channels=_n_channels(payload),
            image_px=payload["image_px"],
            options=options,
        )
    network.load_state_dict(payload["network"])
    return network


def _precision(trained: str, device: torch.device) -> str:
    """That of the training where the device has units for it: elsewhere fp32 is as exact and several times faster."""
    if trained == "bf16" and choose_device("cuda" if device.type == "cuda" else "cpu").has_bf16:
        return "bf16"
    if trained == "fp16" and device.type == "cuda":
        return "fp16"
    return "fp32"
