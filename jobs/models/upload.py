from __future__ import annotations

import re
import secrets
from typing import Final

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

UPLOAD_ID: Final = re.compile("[0-9a-f]{32}")


def new_upload_id() -> str:
    """128 random bits: also the name of the file."""
    return secrets.token_hex(16)


class Upload(models.Model):
    """A file that a browser brings, in as many pieces as it takes. How much is there is the size of the file."""

    id = models.CharField(primary_key=True, max_length=32, default=new_upload_id)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads")
    name = models.CharField(max_length=255)
    """What the person's machine calls it. Data, never a path."""
    size = models.PositiveBigIntegerField()
    fingerprint = models.CharField(max_length=200, blank=True, default="")
    """By which a browser knows the same file again after its tab was closed."""
    created_at = models.DateTimeField(db_default=Now())
    completed_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()
    """Put off by every piece that arrives and by every import that reads it."""

    class Meta:
        indexes = [models.Index(fields=["owner", "-created_at"], name="upload_by_owner")]

    def __str__(self) -> str:
        return f"upload {self.name} ({self.pk})"
