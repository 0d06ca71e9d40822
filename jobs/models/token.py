from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class ApiToken(models.Model):
    """A bearer token: shown once, kept as a SHA-256 (the token itself has 256 random bits, so no slow hash is owed)."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    hash = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=8, choices=[("read", "Read"), ("write", "Read and write")], default="write")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.name} of {self.owner_id}"
