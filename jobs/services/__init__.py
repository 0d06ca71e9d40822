"""Everything that changes something: one function a wish, the same for pages, API and command line."""

from __future__ import annotations

from jobs.services.changes import job_annotate, job_cancel, job_rename, jobs_delete
from jobs.services.power import trainings_suspend, trainings_wake
from jobs.services.submit import import_submit, training_request_of, training_spec, training_submit
from jobs.services.tokens import token_create, token_find, token_revoke

__all__ = [
    "import_submit",
    "job_annotate",
    "job_cancel",
    "job_rename",
    "jobs_delete",
    "token_create",
    "token_find",
    "token_revoke",
    "training_request_of",
    "training_spec",
    "training_submit",
    "trainings_suspend",
    "trainings_wake",
]
