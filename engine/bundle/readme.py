"""``README.md`` of a bundle: what is in it, and the first command to type."""

from __future__ import annotations

from collections.abc import Sequence

from engine.bundle.facts import WEIGHTS, Entry, RunFacts
from engine.bundle.places import TRITON_DIR, default_of, folder_of
from engine.bundle.wording import plain, table
from engine.catalog import backend_cards


def readme_md(entries: Sequence[Entry], run: RunFacts, paths: Sequence[str]) -> str:
    """``paths``: what else is in the bundle."""
    report = entries[0].report
    return (
        f"# {plain(run.title)}\n\n"
        f"{plain(run.model.label if run.model else report.model.name)}, trained by Fovea to tell "
        f"{len(report.classes):,} "
        "classes apart.\nWhat it was trained on, how good it is and where its limits are stands in `MODEL_CARD.md`.\n\n"
        f"{_first_steps(entries)}"
        "## What is here\n\n"
        f"{table(['Path', 'What it is'], _contents(entries, paths), numbers=False)}\n"
        "All names are stable: another bundle has the same ones. The same exports give the same bytes. The same\n"
        "checkpoint exported once more gives the same weights and ONNX models; dates and what was timed differ, in\n"
        "`report.json`, `bundle.json`, `MODEL_CARD.md`, `PASSPORT.md` and so in `SHA256SUMS`, and engines may, too.\n\n"
        "## For programs of your own\n\n"
        "Every ONNX model and engine takes `images`, bytes of batch x height x width x 3 (red, green, blue; upright,\n"
        "any size, one size a batch), and gives `probabilities`, float32 of batch x classes. Size, normalisation and\n"
        "softmax are inside: do not resize or normalise before. `predict.py` shows how files become such pixels.\n"
    )


def _first_steps(entries: Sequence[Entry]) -> str:
    if default_of(list(entries)) is None:
        return "    python verify.py                     # every file, and every model that can be run here\n\n"
    return (
        "    python -m venv .venv && . .venv/bin/activate && pip install -r requirements.txt   # Python 3.11 or newer\n"
        "    python verify.py                     # every file, and every model that can be run here\n"
        "    python predict.py IMAGE              # what is in a picture\n"
        "    python server.py                     # the same over HTTP\n\n"
    )


_EXPLAINED = {
    "MODEL_CARD.md": "data, recipe, scores, verification, limits, licences",
    "SHA256SUMS": "hashes of all other files; `sha256sum -c SHA256SUMS` or `verify.py` check them",
    "bundle.json": "all of this for programs: models, files, classes, verdicts",
    "labels.txt": "names of the classes, one a line, in the order of the probabilities",
    "golden.json": "golden images, the answers to them, and how far an answer may be off",
    "requirements.txt": "what the programs need, in the versions that were verified",
    "predict.py": "says what is in a picture; `--model` chooses, `--json` is for programs",
    "verify.py": "checks files and answers; ends with PASS or FAIL and 0 or 1",
    "server.py": "a small HTTP server to begin from",
    "Dockerfile": "`server.py` in a container",
    "run_engine.py": "runs an engine on the GPU; `verify.py` uses it",
    "build_engine.py": "rebuilds the engines on the machine that will run them",
}


def _contents(entries: Sequence[Entry], paths: Sequence[str]) -> list[list[str]]:
    rows = [[f"`{folder_of(entry)}/`", _about(entry)] for entry in entries]
    if any(path.startswith("golden/") for path in paths):
        rows.append(["`golden/`", "images that `verify.py` asks about"])
    if any(path.startswith(f"{TRITON_DIR}/") for path in paths):
        text = (
            f"for Triton: `tritonserver --model-repository={TRITON_DIR}`; it holds the default model, and any other of "
            "the ONNX models may be put in its place. Engines are not in it: Triton loads those of another TensorRT"
        )
        rows.append([f"`{TRITON_DIR}/`", text])
    rows += [[f"`{path}`", text] for path, text in _EXPLAINED.items() if path in {*paths, "SHA256SUMS"}]
    return rows


def label_of(entry: Entry) -> str:
    card = backend_cards().get(entry.backend)
    return card.label if card else entry.backend


def _about(entry: Entry) -> str:
    report = entry.report
    if entry.backend == WEIGHTS:
        return "the trained weights; `load_weights.py` puts them into their network"
    if entry.files("engine"):
        capabilities = ", ".join(file.compute_capability for file in entry.files("engine"))
        return f"engines for compute capability {capabilities}, the graph they are built from, and `PASSPORT.md`"
    return f"{plain(label_of(entry))}, {report.precision}"
