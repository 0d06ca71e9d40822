from __future__ import annotations

from ninja import Router, Status

from dashboard.api.bodies import answers
from dashboard.previews import N_PICTURES, Look, Tile, pictures_of
from dashboard.visitor import SignedIn
from jobs.access import job_for
from jobs.requests import ImportRequest
from jobs.selectors import JobSummary, datasets_of, job_summary
from jobs.services import import_submit
from wire.errors import NotFound

router = Router()


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


@router.get("/{int:job_id}/pictures", response=answers(list[Tile]), summary="A few pictures of it")
def dataset_pictures(request: SignedIn, job_id: int) -> list[Tile]:
    """Of each class some, as they are; the first time this takes seconds."""
    dataset = _dataset(request, job_id)
    return pictures_of(job_id, Look.of_dataset(dataset.dataset_meta or {}), n=N_PICTURES)


def _dataset(request: SignedIn, job_id: int) -> JobSummary:
    job = job_for(request.user, job_id)
    if job.verb != "import":
        raise NotFound(f"#{job_id} is a run, not a dataset.", hint=f"Look at /api/v1/jobs/{job_id}.")
    return job_summary(job, request.user)
