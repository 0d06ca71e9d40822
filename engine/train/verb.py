"""``train``: from a spec to a running loop, and back to an outcome."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from pydantic import BaseModel, ValidationError
from torch import nn

from engine.catalog import find_card, model_cards, task_cards
from engine.context import Context
from engine.data.augment import Augment
from engine.data.cache import Decoded, DecodingStopped, decoded
from engine.data.loader import BatchLoader
from engine.device import Device, choose_device, machine_facts, n_physical_cores
from engine.emit import Throttle
from engine.models.weights import DownloadStopped
from engine.seeds import seed_all
from engine.store.reader import DatasetReader
from engine.tasks.task import Task
from engine.train import state
from engine.train.determinism import Determinism
from engine.train.ema import Average
from engine.train.guard import FiniteGuard
from engine.train.loop import Position, Run, is_over, train
from engine.train.memory import Memory
from engine.train.optim import make_optimiser
from engine.train.precision import choose_precision
from engine.train.report import Report
from engine.train.schedule import learning_rate
from engine.train.shelf import Found, Shelf, Snapshot, find_checkpoints
from engine.train.start import Start, start_network
from engine.train.telemetry import Telemetry
from wire.cards import Card, ModelCard, TaskCard
from wire.errors import DatasetInvalid, LabelsOutOfRange, SpecInvalid
from wire.events import AttemptStarted, Notice, Outcome, Progress, SeriesInfo
from wire.manifests import DatasetManifest, SplitName
from wire.specs import Choice, TrainSpec

_PROGRESS_INTERVAL_S = 0.25
_POINTS_PER_EPOCH = 20

log = logging.getLogger(__name__)

AnyCard = TypeVar("AnyCard", bound=Card)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The spec, checked against cards, dataset and machine."""

    spec: TrainSpec
    model: ModelCard
    model_options: BaseModel
    task_card: TaskCard
    task: Task
    manifest: DatasetManifest
    device: Device

    @property
    def steps_per_epoch(self) -> int:
        """As many as the loader of the train split will give; known before its images are decoded."""
        n_whole, n_rest = divmod(self.manifest.n_images("train"), self.spec.options.batch_size)
        return n_whole + (n_rest > 1 or (n_rest == 1 and n_whole == 0))

    @property
    def has_val(self) -> bool:
        return self.manifest.n_images("val") > 0

    @property
    def main_series(self) -> str:
        """What the best checkpoint is chosen by."""
        if not self.has_val:
            return "train/loss"
        by_loss = self.spec.options.best_by == "loss"
        return self.task_card.fallback_series if by_loss else self.task_card.main_series

    @property
    def main_better(self) -> Literal["lower", "higher"]:
        return self.task_card.main_better if self.main_series == self.task_card.main_series else "lower"

    @property
    def in_channels(self) -> int:
        return 1 if self.spec.options.colour == "grey" else 3


def run(spec: TrainSpec, context: Context) -> Outcome:
    """Train, or go on from where an earlier attempt of the same job was stopped or killed.

    Raises:
        SpecInvalid, DatasetMissing, DatasetInvalid, DeviceMissing: before anything is computed.
        LabelsOutOfRange: the dataset has a label that is no number of a class.
        WeightsMissing, WeightsMismatch, CheckpointMissing, CheckpointDamaged: the start weights cannot be used.
        NoCheckpointIntact: there is something to go on from, and none of it can be read.
        LossNotFinite: the training diverged.
        OutOfMemory: the device's memory does not hold an eighth of a batch either.
    """
    torch.set_num_threads(n_physical_cores())
    with DatasetReader(context.job.resolve(spec.dataset)) as reader:
        plan = make_plan(spec, reader.manifest)
        _check_labels(reader, plan)
        found = find_checkpoints(context.job)
        telemetry = Telemetry(context.sink, plan.device.uuids, step=lambda: at.step)
        at = Position(step=found.payload["step"] if found.payload else 0)
        _announce(plan, found, telemetry, context)
        known = found.payload.get("operations", ()) if found.payload else ()
        with telemetry, Determinism(wanted=spec.options.deterministic, known=known) as determinism:
            try:
                run_, facts, at = prepare(plan, found, reader, context)
            except (DecodingStopped, DownloadStopped):
                return context.stop.outcome
            shelf = _shelf(found, plan, context)
            del found  # its weights are in the network now
            is_done = _train(run_, facts, at, shelf, determinism, plan, context)
    return "succeeded" if is_done else context.stop.outcome


def make_plan(spec: TrainSpec, manifest: DatasetManifest) -> Plan:
    model = find_card(model_cards(), spec.model.name, what="model")
    task_card = find_card(task_cards(), spec.task.name, what="task")
    task = task_card.load()(_options(task_card, spec.task), n_classes=len(manifest.classes))
    plan = Plan(
        spec=spec,
        model=model,
        model_options=_options(model, spec.model),
        task_card=task_card,
        task=task,
        manifest=manifest,
        device=choose_device(spec.device),
    )
    if manifest.task != task_card.name:
        raise SpecInvalid(
            f"The dataset {manifest.name!r} is for the task {manifest.task!r}, not {task_card.name!r}.",
            hint="Choose the task that the dataset was imported for.",
        )
    if spec.options.image_px < model.min_px:
        raise SpecInvalid(
            f"{model.label} takes images of at least {model.min_px} px, not {spec.options.image_px}.",
            hint=f"Set the image size to {model.min_px} or more.",
        )
    if not plan.steps_per_epoch:
        raise DatasetInvalid(f"The dataset {manifest.name!r} has no image to train on.", hint="Import more images.")
    return plan


def _check_labels(reader: DatasetReader, plan: Plan) -> None:
    """Before a device computes with it: there the loss would end the whole process, and not say why."""
    n_classes = len(plan.manifest.classes)
    if sample := reader.first_outside(n_classes):
        raise LabelsOutOfRange(
            f"The image {sample.name!r} of the dataset {plan.manifest.name!r} has class number {sample.label}; "
            f"its {n_classes} classes are numbered from 0 to {n_classes - 1}.",
            hint="Import the dataset again, and train on the new one.",
        )


def _options(card: Card, choice: Choice) -> BaseModel:
    try:
        return card.options.model_validate(choice.options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise SpecInvalid(f"{card.label}: the option {where!r}: {first['msg']}.", hint="Correct it.") from None


def _announce(plan: Plan, found: Found, telemetry: Telemetry, context: Context) -> None:
    options, from_step = plan.spec.options, found.payload["step"] if found.payload else 0
    total_steps = options.epochs * plan.steps_per_epoch
    context.sink.emit(
        AttemptStarted(
            n=context.n,
            from_step=from_step,
            total_steps=total_steps,
            steps_per_epoch=plan.steps_per_epoch,
            series=(*_metric_series(plan), *_run_series(), *telemetry.series),
        )
    )
    for event in found.events:
        context.sink.emit(event)
    log.info("%s on %s, %s", plan.model.label, plan.manifest.name, plan.device.label)
    if from_step:
        log.info("continues from step %d of %d", from_step, total_steps)


def _metric_series(plan: Plan) -> tuple[SeriesInfo, ...]:
    splits = ("train", "val") if plan.has_val else ("train",)
    return tuple(
        info.model_copy(update={"name": f"{split}/{info.name}"}) for split in splits for info in plan.task.metrics
    )


def _run_series() -> tuple[SeriesInfo, ...]:
    return (
        SeriesInfo(name="lr"),
        SeriesInfo(name="time/images_s", unit="images/s", better="higher"),
        SeriesInfo(name="time/data_wait_pct", unit="%", better="lower"),
    )


def prepare(plan: Plan, found: Found, reader: DatasetReader, context: Context) -> tuple[Run, state.Facts, Position]:
    """Data, network and optimiser, at the place where the run begins or goes on."""
    spec, options, device = plan.spec, plan.spec.options, plan.device
    start = Start(spec, plan.model, plan.model_options, plan.manifest, plan.task.n_outputs, plan.in_channels)
    seed_all(options.seed)
    network, mean, std = start_network(start, context, resumed=found.payload)
    _check_batches(network, plan)
    network = network.to(device.torch, memory_format=torch.channels_last)  # type: ignore[call-overload]
    splits: tuple[SplitName, ...] = ("train", "val") if plan.has_val else ("train",)
    images = {split: _decoded(reader, split, plan, context) for split in splits}
    loader = partial(
        BatchLoader, batch_size=options.batch_size, seed=options.seed, mean=mean, std=std, device=device.torch
    )
    augment = Augment(options.augmentation, options.image_px)
    precision = choose_precision(options.precision, device)
    n_batches = plan.steps_per_epoch
    run_ = Run(
        network=network,
        average=Average(network, options.ema_decay) if options.ema_decay else None,
        task=plan.task,
        optimiser=make_optimiser(network, options, device.torch),
        precision=precision,
        memory=Memory(network, batch_size=options.batch_size, image_px=options.image_px, sink=context.sink),
        learning_rate=learning_rate(options, options.epochs * n_batches),
        train=loader(images["train"], shuffle=True, augment=augment),
        val=loader(images["val"], shuffle=False, augment=None) if plan.has_val else None,
        epochs=options.epochs,
        log_every=options.log_every or max(1, n_batches // _POINTS_PER_EPOCH),
        main_series=plan.main_series,
        main_better=plan.main_better,
        early_stopping_epochs=options.early_stopping_epochs,
    )
    facts = state.Facts(
        spec=spec,
        classes=plan.manifest.classes,
        mean=mean,
        std=std,
        samples_sha256=plan.manifest.samples_sha256,
        n_parameters=sum(parameter.numel() for parameter in network.parameters()),
        n_threads=torch.get_num_threads(),
        precision=precision.name,
        machine=machine_facts(device),
    )
    at = Position() if found.payload is None else _resume(run_, found.payload, facts, device, context)
    _tell_start(plan, facts, context)
    return run_, facts, at


def _check_batches(network: nn.Module, plan: Plan) -> None:
    is_single = min(plan.spec.options.batch_size, plan.manifest.n_images("train")) == 1
    if is_single and any(isinstance(module, nn.BatchNorm2d) for module in network.modules()):
        raise SpecInvalid(
            f"{plan.model.label} normalises over the batch and cannot learn from batches of one image.",
            hint="Set the batch size to 2 or more.",
        )


def _decoded(reader: DatasetReader, split: SplitName, plan: Plan, context: Context) -> Decoded:
    throttle = Throttle(_PROGRESS_INTERVAL_S)

    def tell(done: int, total: int) -> None:
        if throttle.open() or done == total:
            context.sink.emit(Progress(stage="prepare", done=done, total=total))

    options = plan.spec.options
    return decoded(
        reader,
        split,
        image_px=options.image_px,
        resize=options.resize,
        colour=options.colour,
        cache_dir=context.cache_dir,
        on_progress=tell,
        stop=context.stop,
    )


def _resume(run_: Run, payload: dict[str, Any], facts: state.Facts, device: Device, context: Context) -> Position:
    state.check_continues(payload, facts)
    at = state.restore(run_, payload, device.torch)
    if is_over(run_, at):
        return at  # nothing is left to do, exactly or otherwise
    changed, unordered = state.differences(payload, facts), state.unordered(payload, facts, device.torch)
    if changed or unordered:
        text = (
            f"The run continues at step {at.step:,} with {' and '.join(changed + unordered)}: its numbers will differ "
            "slightly from an unbroken run's."
        )
        notice = Notice(level="warning" if changed else "info", code="resume.not_exact", text=text)
    else:
        text = f"Resumed exactly at step {at.step:,}: the numbers are those of a run that was never stopped."
        notice = Notice(level="info", code="resume.exact", text=text)
    context.sink.emit(notice)
    log.info(text)
    return at


def _tell_start(plan: Plan, facts: state.Facts, context: Context) -> None:
    counts = ", ".join(f"{plan.manifest.n_images(split):,} {split}" for split in ("train", "val"))
    log.info(
        "%s parameters, %s, %d threads, images: %s", f"{facts.n_parameters:,}", facts.precision, facts.n_threads, counts
    )
    if not plan.has_val:
        text = "The dataset has no validation images: the best checkpoint is the one with the lowest training loss."
        context.sink.emit(Notice(level="warning", code="dataset.no_val", text=text))
        log.warning(text)


def _shelf(found: Found, plan: Plan, context: Context) -> Shelf:
    return Shelf(
        context.job,
        context.sink,
        kept=found.kept,
        ranking=state.ranking_of(found.payload),
        announced_best=found.announced_best,
        checkpoint_every=plan.spec.options.checkpoint_every,
        keep_best=plan.spec.options.keep_best,
    )


def _train(
    run_: Run,
    facts: state.Facts,
    at: Position,
    shelf: Shelf,
    determinism: Determinism,
    plan: Plan,
    context: Context,
) -> bool:
    sink = context.sink

    def snapshot(metrics: dict[str, float]) -> Snapshot:
        beside = state.Beside(ranking=shelf.ranking, operations=determinism.operations)
        return state.take(run_, at, beside, facts, metrics)

    guard = FiniteGuard(
        sink,
        device=plan.device.torch,
        reads_at_once=plan.device.torch.type == "cpu",
        learning_rate=run_.learning_rate,
        steps_per_epoch=plan.steps_per_epoch,
        precision=run_.precision.name,
        optimiser=plan.spec.options.optimiser,
    )
    report = Report(sink, plan.task.metrics, epochs=run_.epochs, total_steps=run_.total_steps)
    is_done = train(
        run_,
        at,
        guard=guard,
        report=report,
        shelf=shelf,
        snapshot=snapshot,
        stop=context.stop,
    )
    if shelf.best:
        log.info("best %s %.4f at step %d", shelf.best.series, shelf.best.value, shelf.best.step)
    if not is_done:
        text = f"Stopped on request at step {at.step:,} of {run_.total_steps:,}; a checkpoint is saved."
        sink.emit(Notice(level="info", code="run.stopped", text=text))
        log.info(text)
    return is_done
