"""What an upload may be begun with."""

from __future__ import annotations

import pytest

from jobs.models import Upload
from tests.tus import TUS, metadata

pytestmark = pytest.mark.django_db


def test_the_protocol_is_told(api, settings):
    settings.UPLOAD_MAX_GIB = 2
    answer = api.options("/api/v1/uploads/")
    assert answer.status_code == 204
    told = {name: answer.headers[name] for name in ("Tus-Resumable", "Tus-Version", "Tus-Extension", "Tus-Max-Size")}
    assert told == {
        "Tus-Resumable": "1.0.0",
        "Tus-Version": "1.0.0",
        "Tus-Extension": "creation,termination,expiration",
        "Tus-Max-Size": str(2 * 2**30),
    }


def begin(api, *, length="10", name="a.zip", told=None):
    more = {"Upload-Length": length, "Upload-Metadata": metadata(filename=name) if told is None else told}
    return api.post(
        "/api/v1/uploads/", headers={**TUS, **{key: value for key, value in more.items() if value is not None}}
    )


@pytest.mark.parametrize(
    "name",
    ["图片.zip", "صور.zip", "🐈.zip", "a'b\"c", "$(id)", "a,b", "=1+1", "  x.zip", "../../etc/passwd", "x" * 255],
)
def test_a_name_is_data(api, name):
    answer = begin(api, name=name)
    assert answer.status_code == 201
    [listed] = api.get("/api/v1/uploads").json()
    assert listed["name"] == name
    assert Upload.objects.get().pk in answer.headers["Location"]


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "a\nb.zip"}, 400),
        ({"name": "a\x00b.zip"}, 400),
        ({"name": "x" * 256}, 400),
        ({"name": ""}, 400),
        ({"told": "filename %%%"}, 400),
        ({"told": "filename /w=="}, 400),
        ({"told": ""}, 400),
        ({"length": "0"}, 400),
        ({"length": None}, 400),
        ({"length": "many"}, 400),
        ({"length": str(201 * 2**30)}, 413),
    ],
)
def test_what_cannot_be_begun(api, changes, status):
    answer = begin(api, **changes)
    assert answer.status_code == status
    assert answer.json()["error"]["hint"]
    assert not Upload.objects.exists()


def test_a_share_and_the_disk_s_reserve_are_looked_at_first(api, settings):
    settings.UPLOAD_QUOTA_GIB = 1
    assert begin(api, length=str(3 * 2**28)).status_code == 201
    refused = begin(api, length=str(3 * 2**28))
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "upload.refused")
    assert "536 MB are missing" in refused.json()["error"]["message"]
    settings.DISK_RESERVE_GIB = 1e6
    refused = begin(api, length="10")
    assert (refused.status_code, refused.json()["error"]["code"]) == (507, "disk.full")
    assert Upload.objects.count() == 1
