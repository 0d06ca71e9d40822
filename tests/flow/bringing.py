"""A person who brings archives over the API, and what is looked at when they have left."""

from __future__ import annotations

import json
from pathlib import Path

from asgiref.sync import async_to_sync

from jobs.models import Job
from jobs.states import Status
from jobs.storage import storage
from tests.dashboard.uploading import bring_all, session_headers
from tests.kits import archives
from tests.kits.settling import settle
from tests.kits.trees import encoded, noise
from tests.tus import TUS, metadata

CAT = encoded(noise(8, 6, seed=1000))
PHOTOS = {
    f"{animal}/{n}.png": encoded(noise(8, 6, seed=seed + n))
    for seed, animal in ((0, "cat"), (100, "dog"))
    for n in range(10)
}


class Desk:
    """A person who brings files, and what they are told."""

    def __init__(self, api, folder: Path) -> None:
        self.api = api
        self.file = folder / "brought"
        self._headers = session_headers(api)

    def upload(self, name="pets.zip"):
        data = self.file.read_bytes()
        told = {**TUS, "Upload-Length": str(len(data)), "Upload-Metadata": metadata(filename=name)}
        begun = self.api.post("/api/v1/uploads/", headers=told)
        assert begun.status_code == 201, begun.content
        path = begun.headers["Location"]
        status, _, error = async_to_sync(bring_all)(path, self._headers, data)
        assert status == 204, error
        return path.rpartition("/")[2]

    def queue(self, upload, **options) -> Job:
        wish = {"name": "pets", "source": {"kind": "upload", "upload": upload}, "options": options}
        answer = self.api.post("/api/v1/datasets", json.dumps(wish), content_type="application/json")
        assert answer.status_code == 201, answer.content
        return Job.objects.get(pk=answer.json()["id"])

    def bring(self, members, **options) -> int:
        """A good zip of these members; the id of its dataset."""
        return self.taken(archives.zip_of(self.file, members), **options)

    def taken(self, _file, **options) -> int:
        """What was written to ``file`` becomes a dataset."""
        job = settle(self.queue(self.upload(), **options))
        assert job.status == Status.SUCCEEDED, job.error_message
        return job.pk

    def refused(self, _file, name="pets.zip", **options):
        """It does not; what the API says about it."""
        return self.told(settle(self.queue(self.upload(name), **options)))

    def told(self, job: Job):
        """Why there is no dataset: a message, and what to do next."""
        assert job.status == Status.FAILED
        error = self.api.get(f"/api/v1/datasets/{job.pk}").json()["error"]
        assert error["message"].endswith(".")
        assert error["hint"].endswith(".")
        return error

    def report(self, dataset, **query):
        """Name and reason of what was left out; the counts add up."""
        told = self.api.get(f"/api/v1/datasets/{dataset}/report?limit=1000", query_params=query).json()
        assert told["n_found"] == told["n_images"] + sum(told["left_out"].values())
        return {row["name"]: row["reason"] for row in told["rows"]}

    def samples(self, dataset):
        told = self.api.get(f"/api/v1/datasets/{dataset}/samples?limit=1000").json()
        assert told["n_samples"] == len(told["samples"])
        return {sample["name"]: sample for sample in told["samples"]}

    def meta(self, dataset):
        return self.api.get(f"/api/v1/datasets/{dataset}").json()["dataset_meta"]

    def warnings(self, dataset):
        return {warned["code"]: warned["text"] for warned in self.meta(dataset)["warnings"]}


def check_surroundings(api, before: set[Path]) -> None:
    """Nothing but ``before`` lies where it does not belong, and the server answers, with pages that run no script."""
    root = storage().root
    mine = [folder for job in Job.objects.all() for folder in (storage().job(job.pk).path, storage().uploads_dir)]
    strange = [
        path
        for path in set(root.rglob("*")) - before
        if path not in {root / "jobs", root / "uploads"}
        and not path.name.startswith("test.sqlite3")
        and not any(path.is_relative_to(folder) for folder in mine)
    ]
    assert not strange
    for folder in (root.parent, Path("/"), Path("/tmp")):  # noqa: S108 - where bad names would lead
        assert not list(folder.glob("evil*"))
    assert not list(root.rglob("*evil*"))
    assert api.get("/healthz").status_code == 200
    for job in Job.objects.all():
        page = api.get(f"/datasets/{job.pk}/")
        assert page.status_code == 200
        assert b"<script>alert" not in page.content
        assert api.get(f"/datasets/{job.pk}/report/").status_code == (200 if job.status == Status.SUCCEEDED else 400)
