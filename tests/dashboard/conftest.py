from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _static_files_keep_their_names(settings):
    """Hashed names come from collectstatic, which no test of a view needs to run."""
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.SERVESTATIC_USE_STATIC_ROOT = False
    settings.STORAGES = settings.STORAGES | {"staticfiles": plain}
