from __future__ import annotations

from jobs.models.artifact import Artifact, JobInput
from jobs.models.curve import Curve, Series
from jobs.models.device import Device, DeviceLease, DeviceSample, Host
from jobs.models.export_override import ExportOverride
from jobs.models.job import Attempt, Job, JobEvent, Transition
from jobs.models.submission import Submission
from jobs.models.token import ApiToken
from jobs.models.upload import Upload

__all__ = [
    "ApiToken",
    "Artifact",
    "Attempt",
    "Curve",
    "Device",
    "DeviceLease",
    "DeviceSample",
    "ExportOverride",
    "Host",
    "Job",
    "JobEvent",
    "JobInput",
    "Series",
    "Submission",
    "Transition",
    "Upload",
]
