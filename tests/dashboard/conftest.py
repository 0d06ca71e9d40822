from __future__ import annotations

import json
import subprocess
import sys

import pytest
from django.conf import settings as configured

from jobs.storage import storage
from tests.dashboard.makers import import_job


@pytest.fixture(autouse=True)
def _static_files_keep_their_names(settings):
    """Hashed names come from collectstatic, which no test of a view needs to run."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.SERVESTATIC_USE_STATIC_ROOT = False
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}


@pytest.fixture
def imported_digits(user):
    """A dataset with its files, imported by the engine itself."""
    job = import_job(user)
    folder = storage().job(job.pk)
    folder.path.mkdir(parents=True)
    folder.spec_path.write_text(json.dumps(job.spec))
    command = [sys.executable, "-m", "engine", "import", "--dir", str(folder.path)]
    subprocess.run(command, cwd=configured.BASE_DIR, check=True, capture_output=True)
    return job
