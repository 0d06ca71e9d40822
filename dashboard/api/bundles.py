"""What leaves the server: bundles of a run's exports, and their single files."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from ninja import Query, Router, Schema
from pydantic import ConfigDict, Field

from dashboard.api.bodies import JobId, answers
from dashboard.downloads import Download, download_answer, filename_of
from dashboard.visitor import SignedIn
from engine.bundle.zip_stream import Member
from jobs.access import run_for
from jobs.bundles import bundle_of, exported_file

of_run = Router()
"""Below `/trainings`."""
router = Router()
"""Below `/exports`."""

ZIP_CONTENT = {
    "responses": {200: {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}},
}
FILE_CONTENT = {
    "responses": {200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}},
}


class Chosen(Schema):
    """Ids of exports."""

    model_config = ConfigDict(extra="forbid")

    export: list[JobId] = Field(default_factory=list)


@of_run.get(
    "/{int:job_id}/bundle", response=answers(None), openapi_extra=ZIP_CONTENT, summary="A bundle of a run's exports"
)
def bundle_get(request: SignedIn, job_id: int, chosen: Query[Chosen]) -> HttpResponseBase:
    """`export=1&export=2` chooses; one that failed has to be overridden before. Ranges are answered."""
    return bundle_answer(request, job_id, chosen.export)


@router.get(
    "/{int:job_id}/files/{path:path}",
    response=answers(None),
    openapi_extra=FILE_CONTENT,
    summary="A file of an export",
)
def export_file(request: SignedIn, job_id: int, path: str) -> HttpResponseBase:
    """`path` as the report names it; one that failed has to be overridden before. Ranges are answered."""
    stored = exported_file(request.user, job_id, path)
    file = stored.file
    member = Member(file.path, file.bytes, file.crc32, file.sha256, stored.folder.path / file.path)
    member.check()
    name = file.path.rpartition("/")[2]
    return download_answer(request, Download(name, file.bytes, file.sha256, member.read))


def bundle_answer(request: SignedIn, run_id: int, export_ids: list[int]) -> HttpResponseBase:
    """For pages and the API."""
    contents = bundle_of(request.user, run_id, export_ids)
    filename = filename_of(run_for(request.user, run_id).title, ".zip", otherwise=contents.name)
    found = Download(filename, contents.size_bytes, contents.sha256, contents.stream, content_type="application/zip")
    return download_answer(request, found)
