"""Imports, from a request to a row and back."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction

from engine.catalog import find_card, format_cards, sample_cards
from jobs import transitions
from jobs.access import job_for, upload_for
from jobs.doorbell import ring_on_commit
from jobs.models import Job, Upload
from jobs.requests import ImportRequest, ListFile, ListsSource, ServerFile, SourceRequest, UploadedFile, UploadSource
from jobs.room import check_disk_room
from jobs.server_folders import import_roots, offered_file, offered_folder
from jobs.services.uploads import upload_complete, upload_keep
from jobs.sizes import share_text
from jobs.states import Status
from jobs.storage import storage
from jobs.submissions import submitted_once
from jobs.uploads import is_complete, offset_of, upload_id_of
from wire.errors import ActionRefused, UploadMissing
from wire.specs import FromFolder, FromLists, FromSample, FromUpload, ImportSpec, Source


@submitted_once
def import_submit(owner: User, request: ImportRequest) -> Job:
    """Queue the import of a dataset.

    Raises:
        SpecInvalid: no such sample, format, folder or file.
        NotFound: the dataset to make again is not there for this person.
        UploadMissing: no such upload of this person.
        ActionRefused: a folder that this server does not offer, an upload that is not complete.
        DiskFull: the disk would not hold what is made of it.
    """
    source = resolve_source(owner, request.source)
    if request.format != "auto":
        find_card(format_cards(), request.format, what="format")
    check_disk_room(_uploaded_bytes(request.source), what=f"the dataset {request.name}")
    spec = ImportSpec(name=request.name, source=source, format=request.format, options=request.options)
    job = transitions.begin(
        status=Status.QUEUED,
        reason=f"submitted by {owner.username}",
        verb="import",
        spec=spec.model_dump(mode="json"),
        title=request.name,
        owner=owner,
        private=request.private,
        retry_of=None if request.retry_of is None else job_for(owner, request.retry_of),
    )
    ring_on_commit()
    return job


@transaction.atomic
def resolve_source(owner: User, source: SourceRequest) -> Source:
    """What a spec says for it. Uploads that are named are kept from now on for as long as a new one.

    Raises:
        SpecInvalid: no such sample, folder or file.
        UploadMissing: no such upload of this person.
        ActionRefused: a folder that this server does not offer, an upload that is not complete.
    """
    match source:
        case FromSample():
            find_card(sample_cards(), source.name, what="sample")
            return source
        case FromFolder():
            parts = {name: offered_folder(path) for name, path in source if name != "kind" and path}
            return FromFolder(**({"path": offered_folder(source.path)} | parts))
        case UploadSource():
            upload = _ready(owner, source.upload)
            return FromUpload(path=storage().upload_input_path(upload.pk), name=upload.name)
        case ListsSource():
            return _resolve_lists(owner, source)


def _resolve_lists(owner: User, source: ListsSource) -> FromLists:
    roots = import_roots()
    if not roots:
        raise ActionRefused(
            "Lists name images on this server, which offers no folder.",
            hint="Upload the images, or ask the administrator to add a folder to the setting IMPORT_ROOTS.",
        )

    def place(file: ListFile | None) -> str:
        match file:
            case None:
                return ""
            case ServerFile():
                return offered_file(file.path)
            case UploadedFile():
                return storage().upload_input_path(_ready(owner, file.upload).pk)

    return FromLists(
        train=place(source.train),
        val=place(source.val),
        test=place(source.test),
        labels=place(source.labels),
        folder=offered_folder(source.folder) if source.folder else "",
        roots=tuple(str(root) for root in roots),
    )


def _ready(owner: User, upload_id: str) -> Upload:
    upload = upload_for(owner, upload_id, lock=True)
    if not is_complete(upload):
        raise ActionRefused(
            f"{upload.name} is not complete: {share_text(offset_of(upload), upload.size)} have arrived.",
            hint="Let the upload go on, then import it.",
        )
    upload_complete(upload)
    upload_keep(upload)
    return upload


def _uploaded_bytes(source: SourceRequest) -> int:
    """About what the dataset will take, where that is known: the images are kept as they came."""
    if not isinstance(source, UploadSource):
        return 0
    return Upload.objects.values_list("size", flat=True).get(pk=source.upload)


def import_request_of(job: Job) -> ImportRequest:
    """The request that would import this again, to be changed and submitted.

    Raises:
        ActionRefused: the job is not an import.
        UploadMissing: what it read was removed since.
    """
    if job.verb != "import":
        raise ActionRefused(f"#{job.pk} ({job.title}) is not a dataset.", hint="Choose a dataset.")
    spec = ImportSpec.model_validate(job.spec)
    return ImportRequest(
        name=job.title,
        source=source_request_of(spec.source),
        options=spec.options,
        format=spec.format,
        private=job.private,
        retry_of=job.pk,
    )


def source_request_of(source: Source) -> SourceRequest:
    """What a person would say for the source of a spec.

    Raises:
        UploadMissing: it was removed since.
    """
    match source:
        case FromSample() | FromFolder():
            return source
        case FromUpload():
            return UploadSource(upload=_kept(source.path, name=source.name))
        case FromLists():
            optional = {
                name: _list_file(path)
                for name, path in (("val", source.val), ("test", source.test), ("labels", source.labels))
                if path
            }
            return ListsSource(train=_list_file(source.train), folder=source.folder, **optional)


def _list_file(path: str) -> ListFile:
    return ServerFile(path=path) if path.startswith("/") else UploadedFile(upload=_kept(path, name="a list"))


def _kept(path: str, *, name: str) -> str:
    upload_id = upload_id_of(path) or ""
    upload = Upload.objects.filter(pk=upload_id).first()
    if upload is None or not is_complete(upload):
        raise UploadMissing(f"The upload of {name} is not kept any more.", hint="Upload it again, then import it.")
    return upload_id
