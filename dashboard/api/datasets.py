from __future__ import annotations

from ninja import Router, Schema, Status

from dashboard.addresses import api_address
from dashboard.api.bodies import answers
from dashboard.origin import origin_of
from dashboard.previews import N_PICTURES, Look, Tile, pictures_of
from dashboard.visitor import SignedIn
from jobs.access import job_for
from jobs.requests import ImportRequest
from jobs.selectors import JobRef, JobSummary, datasets_of, job_summary
from jobs.services import import_request_of, import_submit
from wire.errors import NotFound

router = Router()


class OriginInfo(Schema):
    earlier: JobRef | None
    differences: list[str]


@router.get("", response=answers(list[JobSummary]), summary="Datasets")
def datasets_list(request: SignedIn, status: str = "", q: str = "", sort: str = "-created") -> list[JobSummary]:
    """Datasets are known by the import that made them; one that succeeded carries `dataset_meta`."""
    return datasets_of(request.user, q=q, status=status, sort=sort)


@router.post("", response=answers(JobSummary, status=201), summary="Import a dataset")
def dataset_import(request: SignedIn, wish: ImportRequest) -> Status[JobSummary]:
    return Status(201, job_summary(import_submit(request.user, wish), request.user))


@router.get("/{int:job_id}", response=answers(JobSummary), summary="One dataset")
def dataset_get(request: SignedIn, job_id: int) -> JobSummary:
    return _dataset(request, job_id)


@router.get("/{int:job_id}/request", response=answers(ImportRequest), summary="What to send to import it again")
def dataset_request(request: SignedIn, job_id: int) -> ImportRequest:
    """For `POST /datasets`, with other options if you like; `404` where the upload it was made of has expired."""
    return import_request_of(job_for(request.user, job_id))


@router.get("/{int:job_id}/origin", response=answers(OriginInfo), summary="What it was made again from")
def dataset_origin(request: SignedIn, job_id: int) -> OriginInfo:
    """`earlier` is the dataset that was imported again, `differences` a sentence for each choice that is not its."""
    dataset = _dataset(request, job_id)
    origin = origin_of(request.user, job_for(request.user, dataset.id))
    earlier = origin.earlier if origin else None
    if earlier is None:
        return OriginInfo(earlier=None, differences=[])
    return OriginInfo(earlier=JobRef(id=earlier.id, title=earlier.title), differences=earlier.differences)


@router.get("/{int:job_id}/pictures", response=answers(list[Tile]), summary="A few pictures of it")
def dataset_pictures(request: SignedIn, job_id: int) -> list[Tile]:
    """Of each class some, as they are; the first time this takes seconds."""
    dataset = _dataset(request, job_id)
    return pictures_of(job_id, Look.of_dataset(dataset.dataset_meta or {}), n=N_PICTURES)


def _dataset(request: SignedIn, job_id: int) -> JobSummary:
    job = job_for(request.user, job_id)
    if job.verb != "import":
        raise NotFound(f"#{job_id} is a run, not a dataset.", hint=f"Look at {api_address(f'jobs/{job_id}')}.")
    return job_summary(job, request.user)
