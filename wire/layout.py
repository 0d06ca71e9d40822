"""Where things lie on disk. The only place that joins paths below the storage root.

ROOT/jobs/<id>/record.json               what the database knows of the job and no other file says
ROOT/jobs/<id>/spec.json                 written once, by the supervisor
ROOT/jobs/<id>/events.jsonl              one file over all attempts, one writer at a time
ROOT/jobs/<id>/lock                      flock, held by the running engine process
ROOT/jobs/<id>/attempts/<n>/             log.txt beat exit.json stop stacks.txt supervisor.txt
ROOT/jobs/<id>/artifacts/                written beside, fsynced, renamed, then announced
ROOT/uploads/<id>                        what was uploaded; its size is the upload's offset
ROOT/backups/<when>/                     copies of the database, and of everything where asked for

A folder is named by an id, never by a name that a person chose; every path inside a JSON file is relative.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AttemptDir:
    path: Path

    @property
    def log_path(self) -> Path:
        return self.path / "log.txt"

    @property
    def beat_path(self) -> Path:
        """Touched by the supervisor; the engine stops itself when it grows old."""
        return self.path / "beat"

    @property
    def exit_path(self) -> Path:
        """JSON of ``ExitReport``, written last by the engine."""
        return self.path / "exit.json"

    @property
    def stop_path(self) -> Path:
        """Holds ``cancel`` or ``pause``: why SIGTERM was sent. Absent means cancel."""
        return self.path / "stop"

    @property
    def stacks_path(self) -> Path:
        """Where each thread was when the supervisor ended a process that hung; the first line says how it hung."""
        return self.path / "stacks.txt"

    @property
    def supervisor_log_path(self) -> Path:
        """What the supervisor said; ``log_path`` is the engine's."""
        return self.path / "supervisor.txt"


@dataclass(frozen=True, slots=True)
class JobDir:
    path: Path

    @property
    def spec_path(self) -> Path:
        return self.path / "spec.json"

    @property
    def record_path(self) -> Path:
        """JSON of ``jobs.records``, replaced whenever the row changes."""
        return self.path / "record.json"

    @property
    def events_path(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def lock_path(self) -> Path:
        return self.path / "lock"

    @property
    def artifacts_dir(self) -> Path:
        return self.path / "artifacts"

    @property
    def dataset_dir(self) -> Path:
        return self.artifacts_dir / "dataset"

    @property
    def checkpoints_dir(self) -> Path:
        return self.artifacts_dir / "checkpoints"

    @property
    def evaluation_dir(self) -> Path:
        return self.artifacts_dir / "evaluation"

    @property
    def classification_dir(self) -> Path:
        return self.artifacts_dir / "classification"

    @property
    def export_dir(self) -> Path:
        return self.artifacts_dir / "export"

    @property
    def scratch_dir(self) -> Path:
        """Temporary files of a running attempt; removed at its end and before the next one."""
        return self.path / "scratch"

    def attempt(self, n: int) -> AttemptDir:
        return AttemptDir(self.path / "attempts" / str(n))

    def latest_attempt(self) -> int:
        """The highest attempt number that has a folder, 0 where there is none."""
        folder = self.path / "attempts"
        if not folder.is_dir():
            return 0
        return max((int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()), default=0)

    def resolve(self, relative: str) -> Path:
        """The place that a path out of one of this job's JSON files means (inputs begin with ``../<id>/``)."""
        return Path(os.path.normpath(self.path / relative))


@dataclass(frozen=True, slots=True)
class DatasetDir:
    path: Path

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def samples_path(self) -> Path:
        return self.path / "samples.sqlite"

    @property
    def images_path(self) -> Path:
        return self.path / "images.lmdb"

    @property
    def report_path(self) -> Path:
        """What was left out or flagged, a row each; datasets of schema version 1 have none."""
        return self.path / "report.sqlite"

    @property
    def mean_image_path(self) -> Path:
        return self.path / "mean.png"


@dataclass(frozen=True, slots=True)
class PredictionsDir:
    """What an evaluation or a classification leaves."""

    path: Path

    @property
    def report_path(self) -> Path:
        """JSON of ``wire.evaluation.EvaluationReport``; evaluations have it."""
        return self.path / "report.json"

    @property
    def predictions_path(self) -> Path:
        return self.path / "predictions.sqlite"


@dataclass(frozen=True, slots=True)
class ExportDir:
    """What an export leaves; its report names the other files."""

    path: Path

    @property
    def report_path(self) -> Path:
        """JSON of ``wire.exports.ExportReport``."""
        return self.path / "report.json"

    @property
    def model_path(self) -> Path:
        """The ONNX graph: what is delivered, or what engines were built from."""
        return self.path / "model.onnx"

    @property
    def weights_path(self) -> Path:
        return self.path / "weights.safetensors"

    @property
    def predictions_path(self) -> Path:
        """The answer about each image that it was verified on, as in ``PredictionsDir``; absent where it was not."""
        return self.path / "predictions.sqlite"

    def engine_path(self, compute_capability: str) -> Path:
        return self.path / "engines" / f"sm{compute_capability.replace('.', '')}.engine"

    def golden_path(self, n: int) -> Path:
        return self.path / "golden" / f"{n}.png"


@dataclass(frozen=True, slots=True)
class Storage:
    root: Path

    @property
    def jobs_dir(self) -> Path:
        return self.root / "jobs"

    @property
    def uploads_dir(self) -> Path:
        return self.root / "uploads"

    @property
    def trash_dir(self) -> Path:
        return self.root / "trash"

    @property
    def backups_dir(self) -> Path:
        return self.root / "backups"

    @property
    def run_dir(self) -> Path:
        """Sockets, pid files and service logs of the present start."""
        return self.root / "run"

    @property
    def serve_socket_path(self) -> Path:
        """Where ``python -m engine serve`` listens. A unix socket's path must stay below 108 bytes."""
        return self.run_dir / "serve.sock"

    def host_dir(self, name: str) -> Path:
        """What one of several hosts keeps for itself: logs and pid files of its services."""
        return self.root / "hosts" / name

    def host_proof_path(self, name: str) -> Path:
        """Written anew by each start of the host's agent, which tells the database the same."""
        return self.host_dir(name) / "proof"

    def sign_path(self, host: str, service: str) -> Path:
        """Touched by a service that works; how long ago is for whoever looks after it."""
        return self.host_dir(host) / f"{service}.alive"

    def upload_path(self, upload_id: str) -> Path:
        return self.uploads_dir / upload_id

    def job(self, job_id: int) -> JobDir:
        return JobDir(self.jobs_dir / str(job_id))

    def trashed(self, job_id: int) -> Path:
        """Where the folder of a deleted job waits for its removal."""
        return self.trash_dir / str(job_id)

    def upload_input_path(self, upload_id: str) -> str:
        """How a spec names an upload: relative to the job's own folder."""
        return f"../../uploads/{upload_id}"

    def input_path(self, job_id: int, artifact_path: str) -> str:
        """How a spec names an artifact of another job: relative to the reading job's own folder."""
        return f"../{job_id}/{artifact_path}"
