"""How long an epoch takes: Fovea's own loop against the plain one of ``benchmarks.peers.imagefolder``.

Both train ResNet-18 from random weights on the same JPEGs, batch 64, fp32, on all cores of the machine, each in a
process of its own that stays alive. They take turns, an epoch each, so that a machine whose speed drifts drifts under
both; the one whose turn it is not waits for its input and computes nothing. The first pair is a warm-up: it holds the
peer's start of workers, and Fovea's decoding is done before it and reported apart.

    python -m benchmarks.epoch_time --photographs photos-100.zip [--pairs 5] [--augmentation none]
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.photographs import cut_photographs
from benchmarks.real_loop import RealLoop, context_in
from engine.data.loader import Batch
from engine.device import n_physical_cores
from engine.importing import pipeline
from engine.stop import Stop
from engine.train.loop import Batches
from wire.specs import Augmentation, Choice, FromFolder, ImportOptions, ImportSpec, TrainOptions, TrainSpec

N_IMAGES = 2000
PHOTOGRAPH_PX = 500
IMAGE_PX = 128
BATCH_SIZE = 64


class BatchesOnDemand:
    """An epoch of batches for each line of standard input; answers with the seconds that the loop took for them."""

    def __init__(self, batches: Batches, stop: Stop) -> None:
        self._batches = batches
        self._stop = stop

    @property
    def n_batches(self) -> int:
        return self._batches.n_batches

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        if not sys.stdin.readline():
            self._stop.ask()
        began_at = time.perf_counter()
        yield from self._batches.epoch(epoch, start)
        print(time.perf_counter() - began_at, flush=True)


def train_on_demand(root: Path, folder: Path, augmentation: Augmentation) -> None:
    """Fovea's side: import, decode, say how long decoding took, then an epoch a line."""
    torch.set_num_threads(n_physical_cores())
    options = ImportOptions(val_pct=0)
    pipeline.run(
        ImportSpec(name="pieces", source=FromFolder(path=str(root)), options=options), context_in(folder / "1")
    )
    context = context_in(folder / "2")
    spec = TrainSpec(
        dataset="../1/artifacts/dataset",
        model=Choice(name="resnet18"),
        options=TrainOptions(
            epochs=10_000,
            batch_size=BATCH_SIZE,
            image_px=IMAGE_PX,
            augmentation=augmentation,
            optimiser="sgd",
            learning_rate=0.05,
            weight_decay=5e-4,
            precision="fp32",
        ),
        device="cpu",
    )
    began_at = time.perf_counter()
    loop = RealLoop(spec, context)
    print(time.perf_counter() - began_at, flush=True)
    loop.train(BatchesOnDemand(loop.batches, context.stop), loop.validation)


class Trainer:
    """One of the two processes."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def answer(self) -> float:
        assert self._process.stdout  # noqa: S101
        return float(self._process.stdout.readline())

    def epoch_s(self) -> float:
        assert self._process.stdin  # noqa: S101
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(photographs: Path, n_pairs: int, augmentation: str, workers: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = folder / "pieces"
        cut_photographs(photographs, root, n_images=N_IMAGES, px=PHOTOGRAPH_PX)
        ours = Trainer("benchmarks.epoch_time", "--serve", str(root), "--augmentation", augmentation)
        peer = Trainer(
            *("benchmarks.peers.imagefolder", "--root", str(root), "--augmentation", augmentation),
            *("--image-px", str(IMAGE_PX), "--batch-size", str(BATCH_SIZE), "--workers", str(workers)),
        )
        try:
            decode_s = ours.answer()
            pairs = [(peer.epoch_s(), ours.epoch_s()) for _ in range(n_pairs + 1)][1:]
        finally:
            ours.close()
            peer.close()
    ratios = sorted(peer_s / ours_s for peer_s, ours_s in pairs)
    return {
        "images": N_IMAGES,
        "augmentation": augmentation,
        "peer_workers": workers,
        "peer_epoch_s": [round(peer_s, 2) for peer_s, _ in pairs],
        "fovea_epoch_s": [round(ours_s, 2) for _, ours_s in pairs],
        "fovea_prepare_s": round(decode_s, 2),
        "times_faster": {
            "median": round(statistics.median(ratios), 2),
            "min": round(ratios[0], 2),
            "max": round(ratios[-1], 2),
        },
    }


def main() -> None:
    logging.disable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photographs", type=Path, help="a zip of photographs to cut pieces from")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--augmentation", choices=["none", "photo"], default="none")
    parser.add_argument("--workers", type=int, default=2, help="of the peer's DataLoader")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        with tempfile.TemporaryDirectory() as folder:
            train_on_demand(arguments.serve, Path(folder), arguments.augmentation)
        return
    print(json.dumps(measure(arguments.photographs, arguments.pairs, arguments.augmentation, arguments.workers)))


if __name__ == "__main__":
    main()
