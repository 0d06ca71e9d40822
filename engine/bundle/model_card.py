"""``MODEL_CARD.md``: what the network was taught, how well it does, how the exports were verified, its limits.

Sections after Mitchell et al.: Model cards for model reporting (2019). Every date is one of a report, none is of today.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.bundle.facts import Curve, Entry, Overridden, RunFacts
from engine.bundle.verification import verification_md
from engine.bundle.wording import listing, number, percent, plain, table
from wire.evaluation import SplitEvaluation
from wire.manifests import DatasetManifest
from wire.specs import FromCheckpoint, FromPublished

MOST_CLASSES: Final = 50
MOST_CURVE_ROWS: Final = 12
_NOT_STATED: Final = "**not stated**"


def model_card_md(entries: Sequence[Entry], run: RunFacts) -> str:
    sections = [
        f"# Model card: {plain(run.title)}\n",
        _overrides(entries),
        _network(entries, run),
        "## Data\n\n" + _data(run.dataset),
        "## Recipe\n\n" + _recipe(run),
        "## Scores\n\n" + _scores(run),
        "## Curves\n\n" + _curves(run),
        "## Verification\n\n" + verification_md(entries),
        "## Limits\n\n" + _limits(entries, run),
        "## Licences\n\n" + _licences(run),
    ]
    return "\n".join(section for section in sections if section)


def _overrides(entries: Sequence[Entry]) -> str:
    """Before all else: nobody shall find out later that a part of this failed."""
    told = [
        f"> - **{entry.name}** failed: {plain(' '.join(verdict.failed.reasons))}\n"
        f">   Handed out all the same by {plain(verdict.by)} on {verdict.at:%Y-%m-%d}, who says: "
        f"{plain(verdict.reason)}\n"
        for entry in entries
        if isinstance(verdict := entry.verdict, Overridden)
    ]
    return f"> **Warning: not all of this passed its verification.**\n>\n{''.join(told)}" if told else ""


def _network(entries: Sequence[Entry], run: RunFacts) -> str:
    report = entries[0].report
    label = run.model.label if run.model else report.model.name
    paper = f" ({run.model.family}, {run.model.year})" if run.model else ""
    checkpoint = report.checkpoint
    items = [
        f"Network: {plain(label)}{paper}, {report.n_parameters:,} parameters",
        f"Task: to say which of {len(report.classes):,} classes a picture shows",
        f"Input: pictures of any size, made {report.image_px} x {report.image_px} px by {plain(report.resize)}, "
        + ("in grey" if report.colour == "grey" else "in colour"),
        f"Checkpoint: {plain(checkpoint.name)}, epoch {number(checkpoint.epoch)}, step {checkpoint.step:,}",
        f"Why that one: {plain(checkpoint.chosen)}",
        f"SHA-256 of the checkpoint: `{checkpoint.sha256}`",
        f"Run of Fovea: #{run.id}",
    ]
    return listing(items)


def _data(dataset: DatasetManifest | None) -> str:
    if dataset is None:
        # The dataset that a report names is the one it was verified on, which may be another.
        return "The dataset that it was trained on is not there any more, or is private; nothing is told of it here.\n"
    splits = [split for split in ("train", "val", "test") if split in dataset.counts]
    items = [
        f"Dataset: {plain(dataset.name)}, {dataset.n_images():,} images, imported on {dataset.created_at:%Y-%m-%d}",
        f"Width: {dataset.width_px.min} to {dataset.width_px.max} px",
        f"Height: {dataset.height_px.min} to {dataset.height_px.max} px",
        "Colour: grey alone" if dataset.colour == "grey" else "Colour: yes",
        f"Licence: {plain(dataset.licence) or _NOT_STATED}",
        f"Hash of the samples: `{dataset.samples_sha256}`",
        *(f"Caution: {plain(warning.text)}" for warning in dataset.warnings),
        *(plain(note) for note in dataset.notes),
    ]
    rows = [
        [plain(name), *(f"{dataset.counts[split][label]:,}" for split in splits)]
        for label, name in enumerate(dataset.classes[:MOST_CLASSES])
    ]
    n_more = len(dataset.classes) - MOST_CLASSES
    more = f"\nAnd {n_more:,} more classes; all names stand in `labels.txt`.\n" if n_more > 0 else ""
    rows.append(["**all**", *(f"{dataset.n_images(split):,}" for split in splits)])
    return f"{listing(items)}\n{table(['Class', *splits], rows)}{more}"


def _recipe(run: RunFacts) -> str:
    recipe = run.recipe
    match recipe.init:
        case FromPublished(weights=weights):
            trained_on = f", trained on {plain(run.began_with.trained_on)}" if run.began_with else ""
            began = f"published weights {plain(weights)}{trained_on}"
        case FromCheckpoint():
            began = "a checkpoint of an earlier run"
        case _:
            began = "random weights"
    rows = [["began with", began]]
    fields = type(recipe.options).model_fields
    for name, value in recipe.options.model_dump(mode="json").items():
        rows.append([plain(fields[name].title or name), plain(str(value))])
    for name, value in recipe.model.options.items():
        rows.append([plain(f"model: {name}"), plain(str(value))])
    return table(["Option", "Value"], rows, numbers=False)


def _scores(run: RunFacts) -> str:
    evaluation = run.evaluation
    if evaluation is None:
        return "The checkpoint was not evaluated; the table below says how it did on the images of the verification.\n"
    header = ["Split", "Images", "Top-1", "Top-5", "Macro F1", "Loss", "Calibration error"]
    notes = listing(plain(note) for note in evaluation.notes)
    return (
        f"PyTorch on {plain(evaluation.dataset_name)}, {evaluation.created_at:%Y-%m-%d}, {plain(evaluation.device)}; "
        f"checkpoint {plain(evaluation.checkpoint.name)}.\n\n"
        + table(header, map(_score_row, evaluation.splits))
        + (f"\n{notes}" if notes else "")
    )


def _score_row(split: SplitEvaluation) -> list[str]:
    top5 = "" if split.top5 is None else percent(split.top5)
    return [
        *(split.split, f"{split.n_images:,}", percent(split.top1), top5),
        *(f"{split.macro_f1:.4f}", number(split.loss), f"{split.ece:.4f}"),
    ]


def _curves(run: RunFacts) -> str:
    curves = [curve for curve in run.curves if curve.points]
    if not curves:
        return "None were recorded.\n"
    # The series with the fewest points, as a rule one an epoch, says where the others are read.
    steps = [step for step, _ in min(curves, key=lambda curve: len(curve.points)).points]
    every = -(-len(steps) // MOST_CURVE_ROWS)
    shown = sorted({*steps[::every], steps[-1]})
    header = ["Step", *(["Epoch"] if run.steps_per_epoch else [])]
    header += [plain(f"{curve.name}, {curve.unit}" if curve.unit else curve.name) for curve in curves]
    rows = []
    for step in shown:
        epoch = [f"{step / run.steps_per_epoch:.4g}"] if run.steps_per_epoch else []
        rows.append([f"{step:,}", *epoch, *(number(_value_at(curve, step)) for curve in curves)])
    return table(header, rows)


def _value_at(curve: Curve, step: int) -> float | None:
    """The last that was recorded up to there."""
    before = [value for at, value in curve.points if at <= step]
    return before[-1] if before else None


def _limits(entries: Sequence[Entry], run: RunFacts) -> str:
    classes = len(entries[0].report.classes)
    items = [
        f"It always names one of its {classes:,} classes, also for a picture that shows none of them.",
        "Its scores hold for pictures like those of the dataset; for others they promise nothing.",
        "A probability is how sure the network is, not how often it is right.",
        "Nobody has looked for groups of pictures on which it does worse than on average.",
    ]
    if run.evaluation is None:
        items.append("It was not evaluated as a whole.")
    if any(entry.report.agreement is None for entry in entries):
        items.append(
            "Exports that are marked as not run were not verified on images: run `verify.py` where they will work."
        )
    return listing(items)


def _licences(run: RunFacts) -> str:
    data = plain(run.dataset.licence) if run.dataset else ""
    code = plain(run.model.code_licence) if run.model else ""
    match run.recipe.init:
        case FromPublished() if run.began_with:
            weights = (
                f"fine-tuned from published weights ({plain(run.began_with.source)}): {plain(run.began_with.licence)}"
            )
        case FromPublished():
            weights = f"fine-tuned from published weights whose licence is {_NOT_STATED}"
        case FromCheckpoint():
            weights = "fine-tuned from a checkpoint; what holds for that one, and for what it was made from, holds here"
        case _:
            weights = "trained from random weights; whoever trained them says what one may do with them"
    return listing(
        [
            f"Data: {data or _NOT_STATED + ' when it was imported; ask whoever it is from'}",
            f"Code of the network: {code or _NOT_STATED}",
            f"Weights: {weights}",
            "Programs of this bundle: Apache-2.0",
        ]
    )
