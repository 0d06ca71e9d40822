"""Everything that changes something: one function a wish, the same for pages, API and command line."""

from __future__ import annotations

from jobs.access import upload_for
from jobs.import_differences import import_differences
from jobs.services.changes import job_annotate, job_cancel, job_rename, jobs_delete
from jobs.services.classifications import classification_submit
from jobs.services.evaluations import evaluation_submit, evaluation_submit_after
from jobs.services.exports import Submitted, export_override, export_override_end, exports_submit
from jobs.services.imports import (
    import_request_of,
    import_submit,
    resolve_source,
    source_request_of,
)
from jobs.services.power import trainings_suspend, trainings_wake
from jobs.services.tokens import token_create, token_find, token_revoke
from jobs.services.trainings import training_request_of, training_spec, training_submit
from jobs.services.uploads import upload_begin, upload_complete, upload_continue, upload_delete, upload_keep
from jobs.uploads import offset_of, uploads_of

__all__ = [
    "Submitted",
    "classification_submit",
    "evaluation_submit",
    "evaluation_submit_after",
    "export_override",
    "export_override_end",
    "exports_submit",
    "import_differences",
    "import_request_of",
    "import_submit",
    "job_annotate",
    "job_cancel",
    "job_rename",
    "jobs_delete",
    "offset_of",
    "resolve_source",
    "source_request_of",
    "token_create",
    "token_find",
    "token_revoke",
    "training_request_of",
    "training_spec",
    "training_submit",
    "trainings_suspend",
    "trainings_wake",
    "upload_begin",
    "upload_complete",
    "upload_continue",
    "upload_delete",
    "upload_for",
    "upload_keep",
    "uploads_of",
]
