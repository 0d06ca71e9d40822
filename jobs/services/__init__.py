"""Everything that changes something: one function a wish, the same for pages, API and command line."""

from __future__ import annotations

from jobs.access import upload_for
from jobs.import_differences import import_differences
from jobs.services.again import (
    export_request_of,
    job_begin_anew,
    job_clone,
    job_retry,
    run_id_of,
)
from jobs.services.changes import job_annotate, job_cancel, job_rename, jobs_delete
from jobs.services.classifications import classification_submit
from jobs.services.devices import device_drain, device_restore
from jobs.services.evaluations import evaluation_submit, evaluation_submit_after
from jobs.services.exports import Submitted, export_override, export_override_end, exports_submit
from jobs.services.imports import (
    import_request_of,
    import_submit,
    resolve_source,
    source_request_of,
)
from jobs.services.mending import job_mend
from jobs.services.pausing import job_pause, job_resume
from jobs.services.power import trainings_suspend, trainings_wake
from jobs.services.tokens import token_create, token_find, token_revoke
from jobs.services.trainings import training_request_of, training_spec, training_submit
from jobs.services.trash import TrashedJob, jobs_remove, jobs_restore, trash_of
from jobs.services.uploads import upload_begin, upload_complete, upload_continue, upload_delete, upload_keep
from jobs.uploads import offset_of, uploads_of

__all__ = [
    "Submitted",
    "TrashedJob",
    "classification_submit",
    "device_drain",
    "device_restore",
    "evaluation_submit",
    "evaluation_submit_after",
    "export_override",
    "export_override_end",
    "export_request_of",
    "exports_submit",
    "import_differences",
    "import_request_of",
    "import_submit",
    "job_annotate",
    "job_begin_anew",
    "job_cancel",
    "job_clone",
    "job_mend",
    "job_pause",
    "job_rename",
    "job_resume",
    "job_retry",
    "jobs_delete",
    "jobs_remove",
    "jobs_restore",
    "offset_of",
    "resolve_source",
    "run_id_of",
    "source_request_of",
    "token_create",
    "token_find",
    "token_revoke",
    "training_request_of",
    "training_spec",
    "training_submit",
    "trainings_suspend",
    "trainings_wake",
    "trash_of",
    "upload_begin",
    "upload_complete",
    "upload_continue",
    "upload_delete",
    "upload_for",
    "upload_keep",
    "uploads_of",
]
