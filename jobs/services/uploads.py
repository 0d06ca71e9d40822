"""Files that people bring: begun, completed, kept, removed. Their bytes are ``jobs.upload_files``'."""

from __future__ import annotations

from unicodedata import category

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from jobs.access import upload_for
from jobs.database import atomically
from jobs.models import Upload
from jobs.room import check_disk_room, check_upload_quota
from jobs.sizes import size_text
from jobs.upload_files import remove_upload_file, sync_upload
from jobs.uploads import is_complete, keep_until, readers_of
from wire.errors import ActionRefused, SpecInvalid, UploadMissing, UploadRefused

MAX_NAME = 255
MAX_FINGERPRINT = 200


@atomically
def upload_begin(owner: User, name: str, size: int, fingerprint: str = "") -> Upload:
    """Promise room for a file.

    Raises:
        SpecInvalid: a name that cannot be shown, an empty file.
        UploadRefused: larger than allowed, or more than the owner's share.
        DiskFull: the disk would not hold it.
    """
    _check_text("name", name, at_least=1, at_most=MAX_NAME)
    _check_text("fingerprint", fingerprint, at_least=0, at_most=MAX_FINGERPRINT)
    if size < 1:
        raise SpecInvalid(f"{name} is empty.", hint="Choose a file that holds something.")
    # One begins at a time, so that two tabs cannot promise the same room twice.
    User.objects.select_for_update().get(pk=owner.pk)
    check_upload_quota(owner, size)
    check_disk_room(size, what=name)
    upload = Upload(owner=owner, name=name, size=size, fingerprint=fingerprint, expires_at=keep_until())
    upload.save(force_insert=True)
    upload.refresh_from_db(fields=["created_at"])
    return upload


def upload_complete(upload: Upload) -> None:
    """Note that all of it is there and on the disk; saying it twice is saying it once."""
    if upload.completed_at is not None or not is_complete(upload):
        return
    sync_upload(upload.pk)
    upload.completed_at, upload.expires_at = timezone.now(), keep_until()
    Upload.objects.filter(pk=upload.pk).update(completed_at=upload.completed_at, expires_at=upload.expires_at)


def upload_keep(upload: Upload) -> None:
    """Put off its end.

    Raises:
        UploadMissing: it was removed meanwhile.
    """
    upload.expires_at = keep_until()
    if not Upload.objects.filter(pk=upload.pk).update(expires_at=upload.expires_at):
        raise UploadMissing(f"The upload of {upload.name} was removed.", hint="Upload it again.")


def upload_continue(upload: Upload, arrived_bytes: int) -> None:
    """Look whether the rest may still come; asked again and again while it does.

    Raises:
        UploadMissing: it was removed meanwhile.
        UploadRefused: the owner's share was made smaller, or the account was closed.
        DiskFull: the rest would not fit.
    """
    upload_keep(upload)
    if not User.objects.filter(pk=upload.owner_id, is_active=True).exists():
        raise UploadRefused(f"The account of {upload.owner.username} was closed.", hint="Ask an administrator.")
    check_upload_quota(upload.owner, 0)
    check_disk_room(upload.size - arrived_bytes, what=f"the other {size_text(upload.size - arrived_bytes)}")


@atomically
def upload_delete(user: User, upload_id: str) -> None:
    """Remove it now.

    Raises:
        UploadMissing: there is none, or it is another's.
        ActionRefused: a job that has not ended reads it.
    """
    upload = upload_for(user, upload_id, lock=True)
    if readers := readers_of(upload_id):
        names = ", ".join(f"{job.title} (#{job.pk})" for job in readers)
        raise ActionRefused(f"{upload.name} is still read by {names}.", hint="Wait until that has ended, or cancel it.")
    upload.delete()
    transaction.on_commit(lambda: remove_upload_file(upload_id))


def _check_text(what: str, text: str, *, at_least: int, at_most: int) -> None:
    """Any script and any sign, but nothing that would not show or could not be stored."""
    if not at_least <= len(text) <= at_most:
        raise SpecInvalid(
            f"A {what} of {len(text)} characters was given for an upload.",
            hint=f"Give it {at_least} to {at_most} characters.",
        )
    if any(category(sign) in {"Cc", "Cs", "Zl", "Zp"} for sign in text):
        raise SpecInvalid(f"The {what} {text!r} holds control characters.", hint="Rename the file.")
