"""How tests ask for exports, and what becomes of those."""

from __future__ import annotations

from jobs import services
from jobs.models import Attempt
from jobs.requests import ExportRequest, ExportTarget
from jobs.states import Status
from jobs.storage import storage
from jobs.supervision.ending import close_by_exit
from jobs.supervision.engine import Exit
from tests.jobs.evaluated import finished
from tests.kits.exported import write_export
from wire.specs import Choice, ExitReport, ExportSpec


def target(backend="onnx", precision="fp32", **options):
    return ExportTarget(backend=Choice(name=backend, options=options), precision=precision)


def asked(*targets, **fields):
    return ExportRequest(targets=targets or (target(),), **fields)


def submit(user, run, *targets, **fields):
    return services.exports_submit(user, run.pk, asked(*targets, **fields))


def submit_one(user, run, *targets, **fields):
    (only,) = submit(user, run, *targets, **fields)
    return only


def spec_of(job):
    job.refresh_from_db()
    return ExportSpec.model_validate(job.spec)


def inputs_of(job):
    return {used.role: used.artifact.name for used in job.inputs.select_related("artifact")}


def succeeded(job, **report):
    finished(job, status=Status.SUCCEEDED)
    write_export(storage().root, job, **report)
    return job


def close(run, outcome="succeeded"):
    """End the run as its supervisor does."""
    attempt = Attempt.objects.create(job=run, n=1, fence=1, host="here")
    folder = storage().job(run.pk).attempt(1)
    folder.path.mkdir(parents=True)
    folder.exit_path.write_text(ExitReport(outcome=outcome, code="x", message="m").model_dump_json())
    close_by_exit(attempt, Exit(code=0))
