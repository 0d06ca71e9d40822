"""How many images go through the network at once: a whole batch, or parts of it where the device's memory refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from engine.data.loader import Batch
from engine.emit import Sink
from engine.faults import as_fovea_error, is_out_of_memory
from wire.errors import OutOfMemory
from wire.events import Notice

MOST_HALVINGS: Final = 3

log = logging.getLogger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Part:
    images_BCHW: Tensor
    labels_B: Tensor
    share: float
    """Of the batch's images; the parts of a batch have 1 together."""


class Memory:
    """Does a batch's work anew in halves when memory does not suffice for it, at most three times in the whole run.

    The work is repeated as if it had never begun: with the random numbers of torch, and the running statistics of the
    network, that it began with. The size found is kept for all later batches.

    Args:
        network: whose statistics a failed pass may have changed.
        batch_size: images of a whole batch.
        image_px: what to name when the memory does not suffice at all.
        sink: is told when a batch is divided.
    """

    def __init__(self, network: nn.Module, *, batch_size: int, image_px: int, sink: Sink) -> None:
        self.n_halvings = 0
        self._batch_size = batch_size
        self._image_px = image_px
        self._sink = sink
        self._network = network
        self._buffers = list(network.buffers())
        self._before = [torch.empty_like(buffer) for buffer in self._buffers]
        self._normalises = any(isinstance(module, _BatchNorm) for module in network.modules())

    @property
    def micro_batch(self) -> int:
        """So many images at once, at most."""
        return -(-self._batch_size // (1 << self.n_halvings))

    def fit(self, work: Callable[[Sequence[Part]], Result], batch: Batch, *, step: int) -> Result:
        """What ``work`` makes of the batch, given in parts that fit. It may be called again, and must begin anew then.

        Raises:
            OutOfMemory: there is not enough for an eighth of a batch either.
        """
        draws = _Draws.taken()
        _copy(self._buffers, self._before)
        while True:
            try:
                return work(self._parts(batch))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                told = as_fovea_error(error).message
            # Here, and not above: the error holds the frames of the failed pass, and they hold its tensors.
            self._halve(told, step)
            draws.restore()
            _copy(self._before, self._buffers)

    def _parts(self, batch: Batch) -> list[Part]:
        n_images = len(batch.labels_B)
        n_parts = max(1, min(-(-n_images // self.micro_batch), n_images // self._least))
        if n_parts == 1:
            return [Part(batch.images_BCHW, batch.labels_B, 1.0)]
        # Parts of nearly equal size: the last of equal steps could be a single image.
        images, labels = batch.images_BCHW.tensor_split(n_parts), batch.labels_B.tensor_split(n_parts)
        return [Part(*part, len(part[1]) / n_images) for part in zip(images, labels, strict=True)]

    @property
    def _least(self) -> int:
        """Normalisation over a batch has nothing to go by in a single image."""
        return 2 if self._normalises else 1

    def _halve(self, told: str, step: int) -> None:
        tried = self.micro_batch
        if _has_cuda():
            torch.cuda.empty_cache()
        if self.n_halvings == MOST_HALVINGS or tried // 2 < self._least:
            raise OutOfMemory(
                f"{told} It does not hold {_images(tried)} of {self._image_px} px at once (step {step:,}).",
                hint=self._advice(tried),
            )
        self.n_halvings += 1
        text = (
            f"The memory does not hold {_images(tried)} at once. From step {step:,} on, each batch goes through the "
            f"network in parts of {self.micro_batch}; the weights still change once for a batch of {self._batch_size}."
        )
        if self._normalises:
            text += (
                " Batch normalisation sees the parts: the numbers differ slightly from those of a device that holds "
                "whole batches."
            )
        self._sink.emit(Notice(level="warning", code="memory.micro_batch", text=text))
        log.warning("%s %s", told, text)

    def _advice(self, tried: int) -> str:
        if tried == 1:
            return "Choose a smaller image size, a smaller network, or bf16 precision."
        return f"Choose a batch size of {tried // 2} or less, a smaller image size, or bf16 precision."


@dataclass(frozen=True, slots=True)
class _Draws:
    """Where torch's generators stand: the only ones that the networks here draw from. Cost: a few microseconds."""

    cpu: Tensor
    cuda: Tensor | None

    @classmethod
    def taken(cls) -> _Draws:
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if _has_cuda() else None)

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda)


def _has_cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def _copy(source: list[Tensor], target: list[Tensor]) -> None:
    if source:
        torch._foreach_copy_(target, source)  # one call for hundreds of small tensors


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count:,} images"
