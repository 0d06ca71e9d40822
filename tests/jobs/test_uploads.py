"""Uploads beside their bytes: shares, keeping, who reads them, and what housekeeping takes away."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from jobs import services
from jobs.access import upload_for
from jobs.housekeeping import housekeep
from jobs.models import Job, Upload
from jobs.requests import ImportRequest, UploadSource
from jobs.sizes import share_text, size_text
from jobs.states import Status
from jobs.storage import storage
from jobs.upload_files import UploadBusy, UploadFile
from jobs.uploads import readers_of
from wire.errors import ActionRefused, DiskFull, SpecInvalid, UploadMissing, UploadRefused

pytestmark = pytest.mark.django_db
GIB = 2**30
DAY_S = 24 * 3600


@pytest.fixture
def uploaded(user):
    """An upload of which so many bytes have arrived."""

    def make(data=b"0123456789", *, size=None, owner=user, name="pets.zip"):
        upload = services.upload_begin(owner, name, size or len(data))
        append(upload, data)
        return upload

    return make


def append(upload, data):
    file = UploadFile(upload.pk)
    file.append(data)
    file.close()


def expire(upload):
    Upload.objects.filter(pk=upload.pk).update(expires_at=timezone.now() - timedelta(seconds=1))


def import_of(owner, upload):
    return services.import_submit(owner, ImportRequest(name="pets", source=UploadSource(upload=upload.pk)))


def end(job, status=Status.SUCCEEDED):
    Job.objects.filter(pk=job.pk).update(status=status)


def exists(upload):
    return Upload.objects.filter(pk=upload.pk).exists(), storage().upload_path(upload.pk).exists()


def test_one_writer_at_a_time(uploaded):
    upload = uploaded(size=20)
    file = UploadFile(upload.pk)
    with pytest.raises(UploadBusy):
        UploadFile(upload.pk)
    file.close()
    file.append(b"too late")
    assert services.offset_of(upload) == 10
    UploadFile(upload.pk).close()


def test_an_upload_is_its_owner_s_alone(uploaded, other_user, admin_user):
    upload = uploaded()
    for stranger in (other_user, admin_user):
        assert services.uploads_of(stranger) == []
        with pytest.raises(UploadMissing):
            services.upload_for(stranger, upload.pk)
        with pytest.raises(UploadMissing):
            services.upload_delete(stranger, upload.pk)
    assert services.uploads_of(upload.owner) == [upload]


def test_what_has_expired_is_not_there(uploaded):
    upload = uploaded()
    expire(upload)
    assert services.uploads_of(upload.owner) == []
    with pytest.raises(UploadMissing, match="There is no upload"):
        services.upload_for(upload.owner, upload.pk)


def test_a_share_counts_everything_that_was_not_removed(user, other_user, settings):
    settings.UPLOAD_MAX_GIB, settings.UPLOAD_QUOTA_GIB = 2, 3
    with pytest.raises(UploadRefused, match="larger than this server takes: 2 GiB"):
        services.upload_begin(user, "a.zip", 2 * GIB + 1)
    first = services.upload_begin(user, "a.zip", 2 * GIB)
    with pytest.raises(UploadRefused, match=r"take 2.1 GB of 3 GiB; 1 bytes are missing"):
        services.upload_begin(user, "b.zip", GIB + 1)
    services.upload_begin(user, "b.zip", GIB)
    services.upload_begin(other_user, "c.zip", GIB)
    services.upload_delete(user, first.pk)
    services.upload_begin(user, "a.zip", GIB)


def test_a_smaller_share_or_disk_ends_what_goes_on(uploaded, settings):
    upload = uploaded(size=100)
    services.upload_continue(upload, 10)
    settings.DISK_RESERVE_GIB = 1e6
    with pytest.raises(DiskFull, match="the other 90 bytes"):
        services.upload_continue(upload, 10)
    settings.DISK_RESERVE_GIB = 0
    Upload.objects.filter(pk=upload.pk).delete()
    with pytest.raises(UploadMissing, match="was removed"):
        services.upload_continue(upload, 10)


def test_only_a_whole_file_is_complete(uploaded):
    upload = uploaded(size=20)
    services.upload_complete(upload)
    assert upload.completed_at is None
    append(upload, b"0123456789")
    services.upload_complete(upload)
    assert Upload.objects.get(pk=upload.pk).completed_at == upload.completed_at is not None


def test_an_import_waits_for_all_of_its_upload(user, uploaded):
    upload = uploaded(b"x" * 12_000_000, size=40_000_000)
    with pytest.raises(ActionRefused, match=r"pets.zip is not complete: 12 of 40 MB have arrived"):
        import_of(user, upload)


def test_an_import_names_the_file_and_keeps_it(user, uploaded):
    upload = uploaded()
    Upload.objects.filter(pk=upload.pk).update(expires_at=timezone.now() + timedelta(minutes=1))
    job = import_of(user, upload)
    assert job.spec["source"] == {"kind": "upload", "path": f"../../uploads/{upload.pk}", "name": "pets.zip"}
    assert storage().job(job.pk).resolve(job.spec["source"]["path"]) == storage().upload_path(upload.pk)
    assert readers_of(upload.pk) == [job]
    assert Upload.objects.get(pk=upload.pk).expires_at > timezone.now() + timedelta(days=6)


def test_nobody_imports_another_s_upload(uploaded, other_user):
    with pytest.raises(UploadMissing):
        import_of(other_user, uploaded())
    assert not Job.objects.exists()


def test_an_import_that_the_disk_would_not_hold_is_refused(user, uploaded, settings):
    upload = uploaded()
    settings.DISK_RESERVE_GIB = 1e6
    with pytest.raises(DiskFull, match="too little room for the dataset pets"):
        import_of(user, upload)
    assert not Job.objects.exists()


def test_what_a_job_reads_is_not_removed(user, uploaded):
    upload = uploaded()
    job = import_of(user, upload)
    with pytest.raises(ActionRefused, match=f"still read by pets \\(#{job.pk}\\)"):
        services.upload_delete(user, upload.pk)
    expire(upload)
    housekeep()
    assert exists(upload) == (True, True)
    assert Upload.objects.get(pk=upload.pk).expires_at > timezone.now() + timedelta(days=6)
    end(job)
    expire(upload)
    housekeep()
    assert exists(upload) == (False, False)


def test_removing_is_at_once(user, uploaded, django_capture_on_commit_callbacks):
    upload = uploaded()
    with django_capture_on_commit_callbacks(execute=True):
        services.upload_delete(user, upload.pk)
    assert exists(upload) == (False, False)


def test_housekeeping_leaves_what_is_written_just_now(uploaded):
    upload = uploaded(size=20)
    expire(upload)
    file = UploadFile(upload.pk)
    housekeep()
    assert exists(upload) == (True, True)
    file.close()
    housekeep()
    assert exists(upload) == (False, False)


def test_housekeeping_leaves_what_has_not_expired(uploaded):
    partial, whole = uploaded(size=20), uploaded()
    services.upload_complete(whole)
    empty = services.upload_begin(partial.owner, "empty.zip", 5)
    housekeep()
    assert [exists(each) for each in (partial, whole, empty)] == [(True, True), (True, True), (True, False)]


def test_housekeeping_clears_up_after_a_crash(uploaded):
    """A file whose row is gone, once it is old; a row whose file is gone."""
    orphan, young, lost = uploaded(), uploaded(), uploaded()
    services.upload_complete(lost)
    storage().upload_path(lost.pk).unlink()
    Upload.objects.filter(pk__in=[orphan.pk, young.pk]).delete()
    old_s = time.time() - DAY_S
    os.utime(storage().upload_path(orphan.pk), (old_s, old_s))
    housekeep()
    assert [exists(each) for each in (orphan, young, lost)] == [(False, False), (False, True), (False, False)]


@pytest.mark.parametrize("name", ["", "a\tb", "x" * 256, "a\u2028b"])
def test_a_name_that_cannot_be_shown(user, name):
    with pytest.raises(SpecInvalid):
        services.upload_begin(user, name, 5)


def test_bytes_in_words():
    assert [size_text(n) for n in (0, 999, 1500, 40_000_000, 1_550_000_000)] == [
        *("0 bytes", "999 bytes", "1.5 kB", "40 MB", "1.5 GB")
    ]
    assert share_text(12_000_000, 40_000_000) == "12 of 40 MB"
    assert share_text(39_999_999, 40_000_000) == "39 of 40 MB"
    assert share_text(40_000_000, 40_000_500) == "40,000,000 of 40,000,500 bytes"
    assert share_text(1, 12) == "1 of 12 bytes"


def test_a_person_keeps_only_so_many_uploads(user, other_user, uploaded, monkeypatch):
    monkeypatch.setattr("jobs.room.MAX_UPLOADS", 3)
    kept = [uploaded(b"x") for _ in range(3)]
    with pytest.raises(UploadRefused, match="3 are kept at once"):
        services.upload_begin(user, "one more.txt", 1)
    services.upload_begin(other_user, "of another.txt", 1)
    services.upload_continue(kept[0], 1)
    services.upload_delete(user, kept[0].pk)
    services.upload_begin(user, "one more.txt", 1)


@pytest.mark.parametrize("upload_id", ["", "\x00", "0" * 31, "../" + "0" * 29, "A" * 32, "0" * 33, "0" * 32 + "\n"])
def test_what_is_no_id_is_not_asked_of_the_database(user, upload_id, django_assert_num_queries):
    with django_assert_num_queries(0), pytest.raises(UploadMissing):
        upload_for(user, upload_id)


def test_a_file_that_cannot_be_locked_is_not_left_open(uploaded, monkeypatch):
    upload = uploaded()
    n_open = len(list(Path("/proc/self/fd").iterdir()))

    def no_locks(*_):
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr("jobs.upload_files.fcntl.flock", no_locks)
        with pytest.raises(OSError, match="No locks"):
            UploadFile(upload.pk)
    assert len(list(Path("/proc/self/fd").iterdir())) == n_open


def test_housekeeping_waits_for_no_pipe(user):
    folder = storage().uploads_dir
    folder.mkdir(parents=True, exist_ok=True)
    os.mkfifo(folder / "pipe")
    os.utime(folder / "pipe", (0, 0))
    housekeep()
    assert not (folder / "pipe").exists()
