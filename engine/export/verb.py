"""``export``: one checkpoint to the files of one target, tried on real images before anybody may take them.

All is written into the scratch folder and moved at the end; an export that was stopped or killed begins again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from engine.catalog import backend_cards, find_card
from engine.context import Context
from engine.data.cache import Decoded, DecodingStopped, decoded
from engine.device import choose_device, n_physical_cores
from engine.export.backends import Backend, BuildJob, BuildStopped, Made
from engine.export.converting import Converted, Converter
from engine.export.report import Findings, all_versions, make_meta, make_report, reasons
from engine.export.room import full_disk_named
from engine.export.sample import draw, verified_split
from engine.export.steps import Steps
from engine.export.trying import Bench, Tried
from engine.export.verify import Trial
from engine.predict.matching import check_match, classes_note, numbers_of
from engine.predict.publishing import clean, publish
from engine.predict.session import Session
from engine.store.reader import DatasetReader
from wire.cards import BackendCard
from wire.errors import SpecInvalid
from wire.events import AttemptStarted, Notice, Outcome
from wire.exports import ExportReport, Failed
from wire.layout import ExportDir
from wire.manifests import DatasetManifest, SplitName
from wire.specs import CheckpointRef, ExportSpec

log = logging.getLogger(__name__)


def run(spec: ExportSpec, context: Context) -> Outcome:
    """Export; leaves a folder with its report, or nothing.

    Raises:
        SpecInvalid: no checkpoint is named yet, or the backend, its options or the precision cannot be had here.
        CheckpointMissing, CheckpointDamaged: the weights cannot be used.
        DatasetMissing, DatasetInvalid: there are no images to calibrate or verify with.
        DeviceMissing: a GPU is asked for and none is visible.
        OperatorRefused, EngineNotBuilt, CalibrationTooSmall: the target refuses the network.
        DiskFull: the files do not fit.
    """
    context.sink.emit(AttemptStarted(n=context.n))
    beside = clean(context, context.job.export_dir)
    card, checkpoint = _card(spec), _checkpoint(spec)
    torch.set_num_threads(n_physical_cores())
    # What all is held against shall have the digits of fp32; of convolutions PyTorch gives them up on GPUs.
    torch.backends.cudnn.allow_tf32 = False
    with DatasetReader(context.job.resolve(spec.dataset)) as reader:
        device = choose_device(spec.device).torch
        path = context.job.resolve(checkpoint.path)
        session = _in_fp32(path, checkpoint, device)
        check_match(session.task, session.classes, reader.manifest)
        try:
            with full_disk_named(beside, session.n_parameters):
                _Export(spec, checkpoint, context, reader, session).run(card, path, ExportDir(beside))
        except (BuildStopped, DecodingStopped):
            return context.stop.outcome
    return "succeeded"


def _card(spec: ExportSpec) -> BackendCard:
    card = find_card(backend_cards(), spec.backend.name, what="backend")
    if spec.precision not in card.precisions:
        raise SpecInvalid(
            f"{card.label} has no precision {spec.precision!r}.", hint=f"Choose one of: {', '.join(card.precisions)}."
        )
    if card.missing:
        raise SpecInvalid(
            f"{card.label} is not installed here: {', '.join(card.missing)}.",
            hint="Install it, or choose another backend.",
        )
    return card


def _checkpoint(spec: ExportSpec) -> CheckpointRef:
    if spec.checkpoint is None:
        raise SpecInvalid("The spec names no checkpoint to export.", hint="Name one, or wait until the training ends.")
    return spec.checkpoint


def _in_fp32(path: Path, checkpoint: CheckpointRef, device: torch.device) -> Session:
    """Whatever it was trained in: the weights are fp32, and an export is held against what they answer in fp32."""
    return replace(Session.open(path, sha256=checkpoint.sha256, device=device), precision="fp32")


@dataclass(frozen=True, slots=True)
class _Built:
    made: Made
    converted: Converted
    took_s: float


class _Export:
    """One export under way."""

    def __init__(
        self, spec: ExportSpec, checkpoint: CheckpointRef, context: Context, reader: DatasetReader, session: Session
    ) -> None:
        self._spec = spec
        self._checkpoint = checkpoint
        self._context = context
        self._reader = reader
        self._session = session
        self._steps = Steps(context.sink, context.stop)
        self._numbers = numbers_of(session.classes, reader.manifest)

    def run(self, card: BackendCard, path: Path, folder: ExportDir) -> None:
        name = self._checkpoint.name
        log.info("%s, %s to %s, %s", self._session.model, name, card.label, self._spec.precision)
        self._steps.begin("prepare")
        trial = self._trial()
        backend: Backend = card.load()()
        built = self._built(backend, self._network_session(path), trial, folder)
        bench = Bench(self._spec, self._reader, self._session, self._numbers, trial, self._steps)
        tried = bench.try_out(backend, built.made, folder)
        if why := built.converted.why_failed:
            tried.verdict = Failed(reasons=(why,))
        self._steps.begin("store")
        report = self._report(backend, built, tried, folder)
        folder.report_path.write_text(report.model_dump_json(indent=1))
        self._say(report, already=built.made.notes)
        self._steps.check()
        meta = make_meta(report)
        publish(self._context, folder.path, self._context.job.export_dir, artifact="export", meta=meta)

    def _trial(self) -> Trial | None:
        """What it will be verified on, drawn and decoded."""
        split = verified_split(self._reader.manifest, self._numbers)
        if split is None:
            return None
        options = self._spec.verification
        drawn = draw(self._reader, split, self._numbers, n_images=options.n_images, seed=options.seed)
        log.info("To verify on: %s of %s images of %s", f"{len(drawn.samples):,}", f"{drawn.n_of:,}", split)
        return Trial(self._reader, drawn, self._decoded(split), self._session)

    def _decoded(self, split: SplitName) -> Decoded:
        return decoded(
            self._reader,
            split,
            image_px=self._session.image_px,
            resize=self._session.resize,
            colour=self._session.colour,
            cache_dir=self._context.cache_dir,
            on_progress=self._steps.progress("prepare"),
            stop=self._context.stop,
        )

    def _network_session(self, path: Path) -> Session:
        """What is converted: on the CPU, wherever PyTorch answers."""
        if self._session.device.type == "cpu":
            return self._session
        return _in_fp32(path, self._checkpoint, torch.device("cpu"))

    def _built(self, backend: Backend, session: Session, trial: Trial | None, folder: ExportDir) -> _Built:
        began_at = time.monotonic()
        converted = Converted()
        if backend.wants_graph:
            converter = Converter(
                *(self._spec, self._checkpoint, self._reader, session, self._numbers, self._decoded, self._steps)
            )
            converted = converter.convert(trial)
        self._steps.begin("build")
        job = BuildJob(
            session=session,
            precision=self._spec.precision,
            graph=converted.graph,
            folder=folder,
            options=self._spec.backend.options,
            stop=self._context.stop,
            tell=log.info,
        )
        made = backend.build(job)
        took_s = time.monotonic() - began_at
        log.info("Built in %.1f s", took_s)
        return _Built(made, converted, took_s)

    def _report(self, backend: Backend, built: _Built, tried: Tried, folder: ExportDir) -> ExportReport:
        manifest = self._reader.manifest
        notes = [*self._left_out(manifest), *built.converted.notes, *built.made.notes, *tried.notes]
        findings = Findings(
            folder=folder,
            made=built.made,
            verdict=tried.verdict,
            agreement=tried.agreement,
            speed=tried.speed,
            quantisation=built.converted.quantisation,
            golden=tried.golden,
            build_s=built.took_s,
            notes=notes,
            versions=all_versions(backend.versions()),
        )
        return make_report(self._spec, self._checkpoint, self._context.job, self._session, manifest, findings)

    def _left_out(self, manifest: DatasetManifest) -> list[str]:
        split = verified_split(manifest, self._numbers)
        unknown = [label for label in range(len(manifest.classes)) if label not in self._numbers]
        n_images = sum(manifest.counts[split][label] for label in unknown) if split else 0
        return [classes_note([manifest.classes[label] for label in unknown], n_images).text] if n_images else []

    def _say(self, report: ExportReport, *, already: Sequence[str]) -> None:
        """To the log; a failed verdict to the page too."""
        for note in report.notes:
            if note not in already:
                log.info(note)
        why = " ".join(reasons(report.verdict))
        log.info("Verdict: %s%s", report.verdict.outcome.replace("_", " "), f": {why}" if why else "")
        if isinstance(report.verdict, Failed):
            self._context.sink.emit(Notice(level="warning", code="export.failed", text=why))
