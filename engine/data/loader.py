"""Batches in an order that only the seed decides: any epoch can begin at any batch, with nothing saved."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.data.ahead import map_ahead
from engine.data.augment import Augment
from engine.data.cache import Decoded
from engine.data.normalise import Normalise, unit

_N_AHEAD: Final = 3


@dataclass(frozen=True, slots=True)
class Batch:
    images_BCHW: Tensor
    """Normalised, float32, on the device."""
    labels_B: Tensor
    wait_s: float
    """How long the training waited for this batch: for its bytes, and for the work on them that a CPU does."""


class BatchLoader:
    """Gathers, augments and normalises batches of a decoded split, a few ahead of the training.

    The order of an epoch is a permutation drawn from (seed, epoch), what augmentation draws comes from (seed, epoch,
    batch): two loaders of equal arguments give bit-equal batches, whatever batch either began with.

    Where the order is shuffled, as in training, a last batch of a single image is left out, because batch
    normalisation has nothing to normalise by; the image's turn comes in other epochs. Else nothing is left out.

    A thread gathers the bytes, into pinned memory for CUDA; the device does the rest when the batch is asked for. On a
    CPU that is no loss: a thread that augments takes its cores from the training.

    Args:
        mean: of the red, green and blue channel, 0 to 1.
        std: likewise; a loader of grey images weighs the three as the conversion to grey does.
    """

    def __init__(  # noqa: PLR0913
        self,
        decoded: Decoded,
        *,
        batch_size: int,
        seed: int,
        shuffle: bool,
        augment: Augment | None,
        mean: Sequence[float],
        std: Sequence[float],
        device: torch.device,
        channels_last: bool = True,
    ) -> None:
        self._decoded = decoded
        self._batch_size = batch_size
        self._seed = seed
        self._shuffle = shuffle
        self._augment = augment
        self._device = device
        self._normalise = Normalise(mean, std, decoded.images_NHWC.shape[3], device, channels_last=channels_last)
        self.mean_C = self._normalise.mean_C

    @property
    def n_images(self) -> int:
        return len(self._decoded.labels_N)

    @property
    def n_batches(self) -> int:
        n_whole, n_rest = divmod(self.n_images, self._batch_size)
        is_left_out = n_rest == 1 and n_whole > 0 and self._shuffle
        return n_whole + (n_rest > 0 and not is_left_out)

    def epoch(self, epoch: int, start: int = 0) -> Generator[Batch, None, None]:
        """The batches of an epoch from number ``start`` on.

        Closing the iterator, or dropping it, ends its thread.
        """
        order_N = self._order(epoch)
        batches = range(start, self.n_batches)
        gathered = map_ahead(partial(self._gathered, order_N), batches, n_threads=1, n_ahead=_N_AHEAD)
        with closing(gathered):
            for batch in batches:
                asked_at = time.perf_counter()
                images_BHWC, labels_B = next(gathered)
                images_BCHW = self._finished(images_BHWC.to(self._device, non_blocking=True), epoch, batch)
                labels_B = labels_B.to(self._device, non_blocking=True)
                yield Batch(images_BCHW, labels_B, wait_s=time.perf_counter() - asked_at)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if not self._shuffle:
            return np.arange(self.n_images)
        return np.random.default_rng([self._seed, epoch]).permutation(self.n_images)

    def _gathered(self, order_N: NDArray[np.int64], batch: int) -> tuple[Tensor, Tensor]:
        """Bytes and labels of a batch; a large cache is read from the disk here."""
        chosen_B = order_N[batch * self._batch_size : (batch + 1) * self._batch_size]
        is_pinned = self._device.type == "cuda"
        images_BHWC = torch.empty(
            (len(chosen_B), *self._decoded.images_NHWC.shape[1:]), dtype=torch.uint8, pin_memory=is_pinned
        )
        # "clip" writes straight into the tensor's memory; the indices are in range.
        np.take(self._decoded.images_NHWC, chosen_B, axis=0, out=images_BHWC.numpy(), mode="clip")
        labels_B = torch.from_numpy(self._decoded.labels_N[chosen_B])
        return images_BHWC, labels_B.pin_memory() if is_pinned else labels_B

    def _finished(self, images_BHWC: Tensor, epoch: int, batch: int) -> Tensor:
        images_BCHW = unit(images_BHWC)
        if self._augment:
            generator = torch.Generator().manual_seed(_mixed(self._seed, epoch, batch))
            images_BCHW = self._augment(images_BCHW, generator)
        return self._normalise(images_BCHW)


def _mixed(*numbers: int) -> int:
    """One seed out of several; near ones give unrelated draws."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
