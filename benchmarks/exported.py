"""How fast an exported network answers on the CPU, against eager PyTorch in its better memory layout.

ResNet-50 with random weights at 224 px and 1,000 classes; batch 1; pixels in, probabilities out, without decoding. Each
contender lives in a process of its own with as many threads as the others, is warmed up, and then they take turns: a
round gives each one some answers, and the ratio of a round is that of its medians. INT8 is calibrated on noise, which
makes its answers worthless and its speed the same.

    python -m benchmarks.exported [--rounds 15] [--answers 10] [--threads 2] [--model resnet50] [--px 224]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CONTENDERS = ("eager, contiguous", "eager, channels last", "onnx fp32", "onnx int8")
EAGER = CONTENDERS[:2]
N_CLASSES = 1000


def prepare(folder: Path, model: str, px: int) -> None:
    """A checkpoint with random weights, and the ONNX files made of it."""
    import numpy as np
    import torch

    from engine.catalog import model_cards
    from engine.checkpoint import write_durable
    from engine.export.graph import save_model, whole_model
    from engine.export.network import network_model
    from engine.export.quantise import find_ranges, quantised
    from engine.predict.session import Session

    torch.manual_seed(0)
    card = model_cards()[model]
    options = card.options()
    network = card.load().build(n_classes=N_CLASSES, in_channels=3, image_px=px, options=options)
    payload = {
        "task": "classification", "model": model, "model_options": options.model_dump(mode="json"), "step": 1,
        "classes": [f"class {label}" for label in range(N_CLASSES)], "image_px": px, "resize": "squash",
        "colour": "rgb", "mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "precision": "fp32",
        "network": network.state_dict(),
    }  # fmt: skip
    path = folder / "network.pt"
    write_durable(payload, path, scratch_dir=folder / "scratch")
    session = Session.open(path)
    logits = network_model(session, "fp32")
    save_model(whole_model(logits, session), folder / "fp32.onnx")
    noise = np.random.default_rng(0).normal(size=(8, 4, 3, px, px)).astype(np.float32)
    save_model(whole_model(quantised(logits, find_ranges(logits, noise, signed=False)), session), folder / "int8.onnx")


def contend(contender: str, folder: Path, n_threads: int, px: int) -> None:
    """Answer as often as each line of standard input asks for; say what each answer took, in milliseconds."""
    import time

    import numpy as np

    ask = _eager(contender, folder, n_threads) if contender in EAGER else _onnx(contender, folder, n_threads)
    images_NHWC = np.random.default_rng(0).integers(0, 256, (1, px, px, 3), dtype=np.uint8)
    for _ in range(10):
        ask(images_NHWC)
    print("ready", flush=True)
    for line in sys.stdin:
        took_ms = []
        for _ in range(int(line)):
            began_s = time.perf_counter()
            ask(images_NHWC)
            took_ms.append(1000 * (time.perf_counter() - began_s))
        print(json.dumps(took_ms), flush=True)


def _eager(contender: str, folder: Path, n_threads: int) -> Any:
    import torch

    from engine.predict.session import Session

    torch.set_num_threads(n_threads)
    session = Session.open(folder / "network.pt")
    if contender == "eager, contiguous":
        session.network.to(memory_format=torch.contiguous_format)

    def ask(images_NHWC: Any) -> Any:
        with torch.inference_mode():
            pixels_BCHW = session.normalised(images_NHWC)
            if contender == "eager, contiguous":
                pixels_BCHW = pixels_BCHW.contiguous()
            return session.logits(pixels_BCHW).softmax(dim=1).numpy()

    return ask


def _onnx(contender: str, folder: Path, n_threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    path = folder / f"{contender.removeprefix('onnx ')}.onnx"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda images_NHWC: session.run(None, {"images": images_NHWC})


class Contender:
    """One process that answers when it is asked to."""

    def __init__(self, name: str, folder: Path, arguments: argparse.Namespace) -> None:
        command = [sys.executable, "-m", "benchmarks.exported", "--contend", name, "--folder", str(folder)]
        self._process = subprocess.Popen(
            [*command, "--threads", str(arguments.threads), "--px", str(arguments.px)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        )

    def line(self) -> str:
        return self._process.stdout.readline() if self._process.stdout else ""

    def median_ms(self, n_answers: int) -> float:
        if self._process.stdin:
            self._process.stdin.write(f"{n_answers}\n")
            self._process.stdin.flush()
        took_ms: list[float] = json.loads(self.line())
        return statistics.median(took_ms)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def measure(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    contenders = {name: Contender(name, folder, arguments) for name in CONTENDERS}
    answers: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    try:
        for contender in contenders.values():
            contender.line()  # it is ready
        for _ in range(arguments.rounds):
            for name, contender in contenders.items():
                answers[name].append(contender.median_ms(arguments.answers))
    finally:
        for contender in contenders.values():
            contender.end()
    medians_ms = {contender: statistics.median(took_ms) for contender, took_ms in answers.items()}
    better = min(EAGER, key=medians_ms.__getitem__)
    ratios = {
        contender: [eager / own for eager, own in zip(answers[better], answers[contender], strict=True)]
        for contender in CONTENDERS
        if contender not in EAGER
    }
    return {
        "model": arguments.model,
        "px": arguments.px,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "median_ms": {contender: round(took_ms, 2) for contender, took_ms in medians_ms.items()},
        "better_eager": better,
        "ratio": {
            contender: {
                "median": round(statistics.median(found), 2),
                "lowest": round(min(found), 2),
                "highest": round(max(found), 2),
            }
            for contender, found in ratios.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--answers", type=int, default=10, help="of each contender in a round")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--px", type=int, default=224)
    parser.add_argument("--contend", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.contend:
        contend(arguments.contend, arguments.folder, arguments.threads, arguments.px)
        return
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), arguments.model, arguments.px)
        print(json.dumps(measure(Path(folder), arguments), indent=1))


if __name__ == "__main__":
    main()
