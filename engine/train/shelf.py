"""A job's checkpoints: which there are, when the next is due, which may go.

There are those that ``artifact.made`` announced and ``artifact.dropped`` did not take back; nobody lists the folder.

When: at the end of an epoch if it is the best so far, the last, or ``_EPOCH_GAP_S`` after the previous one; within
long epochs every ``_STEP_GAP_S``, or every ``checkpoint_every`` steps and then exactly there. All gaps in time stretch
so that saving takes at most about 3 % of it. An epoch among the best that comes too soon after a save is kept in memory
and written with the next one; it is lost with the process, and found again when the resumed run repeats its epoch. That
is why it is always written before what is newer: a run that went on after it would never meet it again. One at most
waits, because each is a whole state: a second of them is saved at once, gap or not.

Which stay: the newest two, and the ``keep_best`` best.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from engine.checkpoint import Payload, read_checkpoint, write_durable
from engine.emit import Sink
from wire.errors import CheckpointDamaged, CheckpointMissing, NoCheckpointIntact
from wire.events import ArtifactDropped, ArtifactMade, CheckpointBest, Notice
from wire.layout import JobDir

_BEST_GAP_S = 2.0
_EPOCH_GAP_S = 5.0
_STEP_GAP_S = 60.0
_COST_FACTOR = 33.0
"""A save that took one second is followed by 33 without one: 3 %."""
_N_NEWEST = 2
_DAMAGED = ".damaged"
_N_DAMAGED = 2
"""So many that could not be read are put aside, in case a person can mend them."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Best:
    step: int
    series: str
    value: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything to continue from a step, and what the checkpoint's page should tell."""

    step: int
    payload: Payload
    meta: dict[str, Any]
    waits_for_validation: bool = False
    """Taken after the last step of an epoch by a stop; the state after the validation of the same step is another."""

    @property
    def name(self) -> str:
        return f"{artifact_name(self.step)}{'-unvalidated' if self.waits_for_validation else ''}"

    def detached(self) -> Snapshot:
        """A copy that later steps do not change, in the machine's memory."""
        return replace(self, payload=_cloned(self.payload))


def artifact_name(step: int) -> str:
    """Of the checkpoint that a best may be."""
    return f"step-{step}"


def _age(made: ArtifactMade) -> tuple[int, int]:
    """Orders checkpoints of one job, the newest last."""
    return int(made.meta["step"]), int(made.meta["epochs_done"])


class Shelf:
    """Writes, announces and retires the checkpoints of one job.

    Args:
        kept: what earlier attempts left, by name.
        ranking: the best so far, as the checkpoint that the run continues from has them, the best first.
        announced_best: the last that ``checkpoint.best`` named.
        checkpoint_every: steps, 0 to go by time.
        keep_best: how many of the best to keep.
    """

    def __init__(  # noqa: PLR0913
        self,
        job: JobDir,
        sink: Sink,
        *,
        kept: dict[str, ArtifactMade],
        ranking: Sequence[Best] = (),
        announced_best: CheckpointBest | None,
        checkpoint_every: int,
        keep_best: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._sink = sink
        self._kept = dict(kept)
        # One whose file is lost must be found anew.
        self.ranking = tuple(best for best in ranking if artifact_name(best.step) in kept)
        self._keep_best = keep_best
        self._announced_best = announced_best
        self._checkpoint_every = checkpoint_every
        self._clock = clock
        self._started_at = clock()
        self._saved_at: float | None = None
        self._cost_s = 0.0
        self._pending: Snapshot | None = None
        self._announce_best()

    @property
    def best(self) -> Best | None:
        return self.ranking[0] if self.ranking else None

    def rank(self, candidate: Best, better: Literal["lower", "higher"]) -> None:
        """Take note of an epoch's value; of equal ones the earlier is the better. NaN is no better than anything."""
        if math.isnan(candidate.value):
            return
        ranking = [*self.ranking, candidate]
        ranking.sort(key=lambda best: best.value, reverse=better == "higher")
        self.ranking = tuple(ranking[: self._keep_best])

    def due(self, step: int) -> bool:
        """Whether to save within an epoch, after ``step``."""
        if self._pending is not None and self._rested(_BEST_GAP_S):
            return True
        if self._checkpoint_every:
            return step % self._checkpoint_every == 0
        return self._rested(_STEP_GAP_S)

    def save(self, snapshot: Snapshot) -> None:
        """Write and announce now, the one that waits before it."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._write(pending)
        if snapshot.name not in self._kept:
            self._write(snapshot)

    def epoch_end(self, snapshot: Snapshot, *, is_last: bool) -> None:
        """Save if it is time; the epoch has been ranked before, so that the snapshot knows it."""
        ranked = {best.step for best in self.ranking}
        is_best = snapshot.step in ranked
        if self._pending is not None and self._pending.step not in ranked:
            self._pending = None  # surpassed before it was written
        is_asked = self._checkpoint_every > 0 and snapshot.step % self._checkpoint_every == 0
        rested = self._saved_at is None or self._rested(_BEST_GAP_S if is_best else _EPOCH_GAP_S)
        if is_last or is_asked or rested or (is_best and self._pending is not None):
            self.save(snapshot)
        elif is_best:
            self._pending = snapshot.detached()

    def _rested(self, gap_s: float) -> bool:
        since = self._started_at if self._saved_at is None else self._saved_at
        return self._clock() - since >= max(gap_s, _COST_FACTOR * self._cost_s)

    def _write(self, snapshot: Snapshot) -> None:
        began_at = self._clock()
        path = self._job.checkpoints_dir / f"{snapshot.name}.pt"
        # Never a checkpoint ahead of its events: what a resumed run will not repeat must be durable before it.
        self._sink.sync()
        written = write_durable(snapshot.payload, path, scratch_dir=self._job.scratch_dir)
        made = ArtifactMade(
            artifact="checkpoint",
            name=snapshot.name,
            path=str(path.relative_to(self._job.path)),
            sha256=written.sha256,
            bytes=written.bytes,
            meta=snapshot.meta,
        )
        self._sink.emit(made)
        self._kept[made.name] = made
        self._announce_best()
        # Nor may the file outlive its announcement: without the line, the next attempt would take it for a stray.
        self._sink.sync()
        self._retire()
        self._saved_at = self._clock()
        self._cost_s = self._saved_at - began_at

    def _announce_best(self) -> None:
        best = self.best
        if best is None or artifact_name(best.step) not in self._kept:
            return
        event = CheckpointBest(step=best.step, series=best.series, value=best.value, artifact=artifact_name(best.step))
        if event != self._announced_best:
            self._sink.emit(event)
            self._announced_best = event

    def _retire(self) -> None:
        """Keep the best and the newest; an older one goes only now that its successor is durable and announced."""
        by_age = sorted(self._kept.values(), key=_age)
        spared = {made.name for made in by_age[-_N_NEWEST:]}
        spared |= {artifact_name(best.step) for best in self.ranking}
        if self._announced_best:
            # While a new best waits in memory, the one that was announced last is still the best there is on disk.
            spared.add(self._announced_best.artifact)
        for made in by_age:
            if made.name not in spared:
                del self._kept[made.name]
                self._sink.emit(ArtifactDropped(name=made.name, reason="A newer checkpoint took its place."))
                self._job.resolve(made.path).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Found:
    """What earlier attempts left to continue from."""

    payload: Payload | None
    kept: dict[str, ArtifactMade]
    announced_best: CheckpointBest | None
    events: tuple[Notice | ArtifactDropped, ...]
    """What to tell about checkpoints that could not be used."""


def find_checkpoints(job: JobDir) -> Found:
    """The newest intact checkpoint of this job, and the others that are on the shelf. Cost: reads all events.

    Raises:
        NoCheckpointIntact: there are some, and none can be read, or the events that announced them are lost. Nothing
            is removed then.
    """
    kept, announced_best, has_begun = _announced(job.events_path)
    if not kept:
        _check_events(job, has_begun=has_begun)
    refused: dict[str, CheckpointDamaged | CheckpointMissing] = {}
    payload: Payload | None = None
    for made in sorted(kept.values(), key=_age, reverse=True):
        try:
            payload = read_checkpoint(job.resolve(made.path), sha256=made.sha256)
            break
        except (CheckpointDamaged, CheckpointMissing) as error:
            log.warning(error.message)
            refused[made.name] = error
    if payload is None and refused:
        raise NoCheckpointIntact(
            f"None of the run's checkpoints can be read: {', '.join(sorted(refused))}.",
            hint="Put the files back from a backup and start it again, or let it begin anew from step 0.",
        )
    told: list[Notice | ArtifactDropped] = []
    for name, why in refused.items():
        text = f"{why.message} The run continues from an earlier one."
        told.append(Notice(level="warning", code=why.code, text=text))
        told.append(ArtifactDropped(name=name, reason="It could not be read."))
        path = job.resolve(kept.pop(name).path)
        # Not unlinked: what cannot be read today may be readable tomorrow, or on another machine.
        with suppress(FileNotFoundError):
            path.replace(path.with_suffix(_DAMAGED))
    _remove_strays(job, kept)
    return Found(payload, kept, announced_best, tuple(told))


def _check_events(job: JobDir, *, has_begun: bool) -> None:
    """Refuse to take checkpoints for strays that were announced in events which are lost.

    A process that dies between a checkpoint's rename and its announcement leaves one file that no event names, and only
    one, because the next attempt removes it before it writes. Events are durable before the file is, so they say at
    least that an attempt began. Anything else is a log that lost lines.

    Raises:
        NoCheckpointIntact: so it is.
    """
    names = sorted(path.stem for path in job.checkpoints_dir.glob("*.pt"))
    if len(names) > 1 or (names and not has_begun):
        raise NoCheckpointIntact(
            f"The run's events were lost: none announces the checkpoints that are there: {', '.join(names)}.",
            hint=f"Put {job.events_path.name} back from a backup and start it again, or let it begin anew from step 0.",
        )


def _announced(events_path: Path) -> tuple[dict[str, ArtifactMade], CheckpointBest | None, bool]:
    """What is on the shelf, the best of it, and whether an attempt ever began."""
    kept: dict[str, ArtifactMade] = {}
    best: CheckpointBest | None = None
    has_begun = False
    with events_path.open("rb") as lines:
        for line in lines:
            has_begun = has_begun or b'"kind":"attempt.started"' in line
            if b'"artifact' not in line:  # most lines are scalars; they are not parsed
                continue
            event = json.loads(line)["event"]
            match event["kind"]:
                case "artifact.made" if event["artifact"] == "checkpoint":
                    kept[event["name"]] = ArtifactMade.model_validate(event)
                case "artifact.dropped":
                    kept.pop(event["name"], None)
                case "checkpoint.best":
                    best = CheckpointBest.model_validate(event)
                case _:
                    pass
    return kept, best, has_begun


def _remove_strays(job: JobDir, kept: dict[str, ArtifactMade]) -> None:
    """Files that a killed attempt wrote and could not announce, or dropped and could not remove."""
    if not job.checkpoints_dir.is_dir():
        return
    spared = {job.resolve(made.path) for made in kept.values()}
    damaged = job.checkpoints_dir.glob(f"*{_DAMAGED}")
    spared |= set(sorted(damaged, key=lambda path: path.stat().st_mtime)[-_N_DAMAGED:])
    for path in job.checkpoints_dir.iterdir():
        if path not in spared:
            path.unlink()


def _cloned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _cloned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_cloned(item) for item in value)
    return value
