from __future__ import annotations

import json
import os

from jobs.models import Job
from wire.layout import JobDir


def write_spec(job: Job, folder: JobDir) -> None:
    """Write ``spec.json`` unless it is there; whoever finds it finds all of it."""
    if folder.spec_path.exists():
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    beside = folder.spec_path.with_suffix(".tmp")
    with beside.open("w") as file:
        json.dump(job.spec, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder.spec_path)
