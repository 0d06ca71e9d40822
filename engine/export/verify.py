"""Does the exported model answer what PyTorch answers? The real runtime, asked about the pictures as they were brought.

PyTorch is shown the pixels of the cache, as in training and evaluation; the exported model gets the decoded picture at
its own size and makes its pixels itself. So a difference anywhere on the way is seen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from engine.data.ahead import N_DECODE_THREADS, map_ahead
from engine.data.cache import Decoded
from engine.data.decode import ImageUnreadable, decode
from engine.export.agreement import Tally
from engine.export.backends import Asked, BuildStopped, Runtime
from engine.export.sample import Drawn
from engine.predict.answers import read_answers
from engine.predict.session import Session
from engine.store.predictions import Prediction, PredictionsWriter
from engine.store.reader import DatasetReader, Sample
from wire.errors import DatasetInvalid

TOP: Final = 5
"""Classes that a row of the predictions names."""
_CHUNK_IMAGES: Final = 256
_CHUNK_BYTES: Final = 128 * 2**20
"""Of decoded pictures in memory at once, but for a single one that is larger."""
_BATCH_IMAGES: Final = 32
_BATCH_BYTES: Final = 8 * 2**20
"""Of pictures given to the runtime at once: resizing them inside the graph takes several times that."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Images, and PyTorch to answer about them."""

    reader: DatasetReader
    drawn: Drawn
    images: Decoded
    """The whole split, from the cache."""
    session: Session

    def positions(self, samples: Sequence[Sample]) -> NDArray[np.int64]:
        """Where they stand in ``images``, which is in the order of ids."""
        places_N: NDArray[np.int64] = np.searchsorted(self.images.ids_N, [sample.id for sample in samples])
        return places_N

    def reference(self, samples: Sequence[Sample]) -> NDArray[np.float32]:
        """PyTorch's probabilities, in batches of the session's size.

        Shapes:
            returns (N, K).
        """
        return np.concatenate([self.session.probabilities(pixels_BHWC) for pixels_BHWC in self.pixels(samples)])

    def pixels(self, samples: Sequence[Sample]) -> Iterator[NDArray[np.uint8]]:
        """In batches of the session's size, as the network sees them before normalisation."""
        places_N, size = self.positions(samples), self.session.batch_size
        for start in range(0, len(places_N), size):
            yield self.images.images_NHWC[places_N[start : start + size]]


def picture(reader: DatasetReader, sample: Sample) -> NDArray[np.uint8]:
    """As it was brought, upright.

    Shapes:
        returns (height, width, 3).

    Raises:
        DatasetInvalid: it cannot be read.
    """
    try:
        return np.asarray(decode(reader.image_bytes(sample.id)).convert("RGB"))
    except ImageUnreadable as error:
        raise DatasetInvalid(
            f"The image {sample.name} of the dataset {reader.manifest.name!r} cannot be read any more: {error}.",
            hint="Import the images again.",
        ) from error


def compare(
    runtime: Runtime,
    trial: Trial,
    *,
    writer: PredictionsWriter | None,
    on_progress: Callable[[int, int], None],
    stop: Asked,
) -> Tally:
    """Ask both about every image; each answer of ``runtime`` is a row of ``writer``.

    At most ``_CHUNK_BYTES`` of pictures are in memory, and a few that are decoded ahead.

    Raises:
        BuildStopped: the stop was asked for.
        DatasetInvalid: an image cannot be read.
    """
    samples, labels = trial.drawn.samples, trial.drawn.labels
    tally = Tally()
    pictures = map_ahead(partial(picture, trial.reader), samples, n_threads=N_DECODE_THREADS, n_ahead=N_DECODE_THREADS)
    with closing(pictures):
        for start, end in chunks(samples):
            shares_NK = _answers(runtime, [next(pictures) for _ in range(start, end)], stop)
            labels_N = np.array(labels[start:end], np.int64)
            tally.add(shares_NK, trial.reference(samples[start:end]), labels_N)
            if writer is not None:
                writer.add(_rows(trial.drawn, samples[start:end], start, shares_NK, labels_N))
            on_progress(end, len(samples))
    return tally


def chunks(samples: Sequence[Sample]) -> Iterator[tuple[int, int]]:
    """Neighbours that fit into memory together, as start and end."""
    start = 0
    n_bytes = 0
    for place, sample in enumerate(samples):
        size_bytes = 3 * sample.width * sample.height
        if place > start and (n_bytes + size_bytes > _CHUNK_BYTES or place - start == _CHUNK_IMAGES):
            yield start, place
            start, n_bytes = place, 0
        n_bytes += size_bytes
    if start < len(samples):
        yield start, len(samples)


def _answers(runtime: Runtime, pictures: Sequence[NDArray[np.uint8]], stop: Asked) -> NDArray[np.float32]:
    """Those of equal size together, in the order of ``pictures``."""
    answers: dict[int, NDArray[np.float32]] = {}
    for places in _batches(pictures):
        if stop.asked:
            raise BuildStopped
        shares_BK = runtime.probabilities(np.stack([pictures[place] for place in places]))
        answers.update(zip(places, shares_BK, strict=True))
    return np.stack([answers[place] for place in range(len(pictures))])


def _batches(pictures: Sequence[NDArray[np.uint8]]) -> Iterator[list[int]]:
    of_size: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for place, picture in enumerate(pictures):
        of_size[picture.shape].append(place)
    for shape, places in of_size.items():
        size = max(1, min(_BATCH_IMAGES, _BATCH_BYTES // int(np.prod(shape))))
        yield from (places[i : i + size] for i in range(0, len(places), size))


def _rows(
    drawn: Drawn, samples: Sequence[Sample], start: int, shares_NK: NDArray[np.float32], labels_N: NDArray[np.int64]
) -> Iterator[Prediction]:
    # The logarithm of a probability is a logit like another; of 0 it has to stay a number.
    logits_NK = np.log(np.maximum(shares_NK, np.finfo(np.float32).tiny))
    answers = read_answers(torch.from_numpy(logits_NK), torch.from_numpy(labels_N), top=TOP)
    for id_, (sample, answer) in enumerate(zip(samples, answers.each(), strict=True), start=start + 1):
        yield answer.prediction(id_, sample.name, split=drawn.split, sample=sample.id)
