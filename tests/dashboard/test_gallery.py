"""The pictures of a dataset: pages, filters, one in full, downloads, the API, and what each costs."""

from __future__ import annotations

import html
import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Job
from jobs.storage import storage
from tests.dashboard.makers import import_job, training_job
from tests.kits.serving import picture_bytes
from tests.kits.stored import Row, statements_counted, store, store_rows

HTMX = {"HX-Request": "true"}
CLASSES = ['it\'s "quoted"', "<script>alert(1)</script>", "$(id)", "=1+1", "قطة 猫🐈"]
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


def stored(job, classes, rows):
    store(storage().job(job.pk).dataset_dir, classes, rows)
    return job


@pytest.fixture
def dataset(user):
    """130 pictures of two classes: 65 of each, the last 30 for validation."""
    rows = [
        Row(f"{'ab'[n // 65]}/{n:03}.png", "val" if n >= 100 else "train", n // 65, picture_bytes(40, 30))
        for n in range(130)
    ]
    return stored(import_job(user), ["a", "b"], rows)


@pytest.fixture
def odd(user):
    rows = [Row(f"{name}/=img,{n}.png", "train", n, picture_bytes()) for n, name in enumerate(CLASSES)]
    return stored(import_job(user), CLASSES, rows)


def fragment(client, dataset, query=""):
    answer = client.get(f"/datasets/{dataset.pk}/gallery/{query}", headers=HTMX)
    assert answer.status_code == 200
    return answer


def ids_in(answer):
    return [int(found) for found in re.findall(r'data-sample="(\d+)"', answer.content.decode())]


# Pages and filters.


def test_sixty_to_a_page(api, dataset):
    assert ids_in(fragment(api, dataset)) == list(range(1, 61))
    assert ids_in(fragment(api, dataset, "?page=3")) == list(range(121, 131))
    assert "121 to 130 of 130" in fragment(api, dataset, "?page=3").content.decode()


@pytest.mark.parametrize(("page", "first"), [("99", 121), ("0", 1), ("-1", 1), ("x", 1), ("9" * 30, 1), ("", 1)])
def test_a_page_that_is_none_is_the_nearest(api, dataset, page, first):
    assert ids_in(fragment(api, dataset, f"?page={page}"))[0] == first


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("?split=val", range(101, 131)),
        ("?class=1&split=train", range(66, 101)),
        ("?q=12", [13, 113, *range(121, 131)]),
        ("?q=B/12&class=1", range(121, 131)),
        ("?q=nowhere", []),
    ],
)
def test_filters_narrow_it(api, dataset, query, ids):
    assert ids_in(fragment(api, dataset, query)) == list(ids)


@pytest.mark.parametrize("query", ["?split=tests", "?class=2", "?class=-1", "?class=a", "?class=" + "9" * 40])
def test_what_is_not_there_is_refused_by_name(api, dataset, query):
    answer = api.get(f"/datasets/{dataset.pk}/gallery/{query}", headers=HTMX)
    assert answer.status_code == 422
    assert query.split("=")[1] in answer.content.decode()


def test_the_address_of_the_page_is_kept(api, dataset):
    answer = fragment(api, dataset, "?split=train&class=0&q=a/0&page=2&more=1")
    assert answer.headers["HX-Push-Url"] == f"/datasets/{dataset.pk}/?split=train&class=0&q=a%2F0&page=2"
    assert fragment(api, dataset, "?page=1").headers["HX-Push-Url"] == f"/datasets/{dataset.pk}/"


def test_an_address_that_was_kept_shows_the_same(api, dataset):
    page = api.get(f"/datasets/{dataset.pk}/?split=val&class=1&q=10&page=1")
    assert ids_in(page) == list(range(101, 112))
    text = page.content.decode()
    assert '<option value="val" selected>' in text
    assert '<option value="1" selected>' in text
    assert re.search(r'name="q"\s+value="10"', text)


def test_without_htmx_the_piece_is_the_whole_page(api, dataset):
    answer = api.get(f"/datasets/{dataset.pk}/gallery/?split=val")
    assert answer.headers["Location"] == f"/datasets/{dataset.pk}/?split=val"


def test_going_back_is_a_whole_page(api, dataset):
    answer = api.get(f"/datasets/{dataset.pk}/", headers=HTMX | {"HX-History-Restore-Request": "true"})
    assert "<html" in answer.content.decode()


def test_pictures_have_a_size_a_text_and_come_late(api, dataset):
    tag = re.search(r"<img class=\"shot-image.*?>", fragment(api, dataset).content.decode(), re.DOTALL)
    assert tag
    assert 'alt="a: a/000.png"' in tag[0]
    for attribute in ('loading="lazy"', 'width="128"', 'height="128"'):
        assert attribute in tag[0]


def test_names_are_shown_as_they_are(api, odd):
    page = api.get(f"/datasets/{odd.pk}/").content.decode()
    for n, name in enumerate(CLASSES):
        assert f">{html.escape(name)} (1)</option>" in page
        assert f'<option value="{n}">' in page
    assert "<script>alert" not in page


def test_a_dataset_whose_files_are_gone_still_has_its_page(api, user):
    page = api.get(f"/datasets/{import_job(user).pk}/").content.decode()
    assert "There is no dataset at" in page
    assert "1,797" in page


# One picture.


def test_a_picture_is_drawn_anew_and_kept_by_the_browser(serve, api, dataset):
    path = f"/datasets/{dataset.pk}/images/1/?px=32"
    answer = api.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
    assert answer.content.startswith(b"\x89PNG")
    assert answer.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert api.get(f"/api/v1/datasets/{dataset.pk}/samples/1/picture?px=32").content == answer.content
    serve.kill()
    again = api.get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == answer.headers["ETag"]
    assert api.get(path).status_code >= 500, "nobody draws it any more"


def test_sizes_differ_in_their_tags(serve, api, dataset):
    paths = [f"/datasets/{dataset.pk}/images/1/{query}" for query in ("", "?px=32", "?px=64")]
    paths.append(f"/datasets/{dataset.pk}/images/2/")
    assert len({api.get(path).headers["ETag"] for path in paths}) == 4


@pytest.mark.parametrize("px", ["1", "100000", "x", "-5", "1.5"])
def test_a_size_out_of_range_is_refused(api, dataset, px):
    assert api.get(f"/datasets/{dataset.pk}/images/1/?px={px}").status_code == 422
    assert api.get(f"/api/v1/datasets/{dataset.pk}/samples/1/picture?px={px}").status_code == 422


def test_a_picture_that_is_not_there(serve, api, dataset):
    for sample_id in (0, 131, 2**70):
        assert api.get(f"/datasets/{dataset.pk}/images/{sample_id}/original").status_code == 404
        assert api.get(f"/api/v1/datasets/{dataset.pk}/samples/{sample_id}").status_code == 404
    assert api.get(f"/datasets/{dataset.pk}/images/131/").status_code == 404


def test_an_original_is_saved_and_never_shown(api, user):
    job = stored(
        import_job(user), ["a", "b"], [Row('a/x "1"\n.svg', "train", 0, SVG), Row("a/猫.png", "train", 1, b"2")]
    )
    answer = api.get(f"/datasets/{job.pk}/images/1/original")
    assert answer.content == SVG
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    other = api.get(f"/api/v1/datasets/{job.pk}/samples/2/original")
    assert other.headers["Content-Disposition"] == "attachment; filename*=utf-8''%E7%8C%AB.png"


def test_the_mean_image(api, dataset):
    path = f"/datasets/{dataset.pk}/mean.png"
    assert api.get(path).status_code == 404
    assert path not in api.get(f"/datasets/{dataset.pk}/").content.decode()
    (storage().job(dataset.pk).dataset_dir / "mean.png").write_bytes(picture_bytes(8, 8))
    assert api.get(path).content == picture_bytes(8, 8)
    assert path in api.get(f"/datasets/{dataset.pk}/").content.decode()


@pytest.mark.parametrize(
    "path",
    [
        "/datasets/{}/",
        "/datasets/{}/gallery/",
        "/datasets/{}/images/1/",
        "/datasets/{}/images/1/original",
        "/datasets/{}/mean.png",
        "/datasets/{}/report/",
        "/datasets/{}/report.csv",
        "/api/v1/datasets/{}/samples",
        "/api/v1/datasets/{}/samples/1",
        "/api/v1/datasets/{}/samples/1/picture",
        "/api/v1/datasets/{}/samples/1/original",
        "/api/v1/datasets/{}/classes",
        "/api/v1/datasets/{}/sizes",
        "/api/v1/datasets/{}/report",
        "/api/v1/datasets/{}/report.csv",
    ],
)
def test_what_is_anothers_and_private_is_not_there(api, user, other_user, dataset, path):
    address = path.format(dataset.pk)
    etag = '"0000000000000000-1-full"'
    Job.objects.filter(pk=dataset.pk).update(private=True, owner=other_user)
    assert api.get(address, headers=HTMX | {"If-None-Match": etag}).status_code == 404
    run = training_job(user, import_job(user))
    assert api.get(path.format(run.pk), headers=HTMX).status_code == 404


# The API.


def test_samples_of_the_api(api, dataset):
    told = api.get(f"/api/v1/datasets/{dataset.pk}/samples?split=train&label=1&offset=30&limit=10").json()
    assert (told["n_samples"], told["offset"]) == (35, 30)
    assert [sample["id"] for sample in told["samples"]] == list(range(96, 101))
    first = told["samples"][0]
    assert (first["class_name"], first["split"], first["width_px"], first["height_px"]) == ("b", "train", 32, 24)
    assert first["picture"].startswith(f"/api/v1/datasets/{dataset.pk}/samples/96/picture?v=")
    assert api.get(first["original"]).content == picture_bytes(40, 30)


def test_one_sample_knows_its_neighbours(api, dataset):
    told = api.get(f"/api/v1/datasets/{dataset.pk}/samples/101?label=1&q=10").json()
    assert (told["previous"], told["next"]) == (None, 102)
    assert (told["n_before"], told["n_samples"]) == (0, 11)
    assert told["name"] == "b/100.png"


def test_classes_and_sizes_of_the_api(api, odd):
    told = api.get(f"/api/v1/datasets/{odd.pk}/classes").json()
    assert [each["name"] for each in told] == CLASSES
    assert told[1] == {"label": 1, "name": CLASSES[1], "counts": {"train": 1}, "n_images": 1}
    sizes = api.get(f"/api/v1/datasets/{odd.pk}/sizes").json()
    assert sizes == {"bin_px": 1, "sizes": [{"width_px": 32, "height_px": 24, "n_images": 5}]}


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "offset=-1", "split=x", "label=-1", f"offset={2**70}"])
def test_the_api_names_what_does_not_fit(api, dataset, query):
    answer = api.get(f"/api/v1/datasets/{dataset.pk}/samples?{query}")
    assert answer.status_code == 422
    assert query.split("=")[0] in answer.json()["error"]["fields"]


def test_an_import_without_a_dataset_says_so(api, user):
    answer = api.get(f"/api/v1/datasets/{import_job(user, status='running').pk}/samples")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "dataset.missing"


# What it costs.

ASKED = {
    "/datasets/{}/gallery/": 1,
    "/datasets/{}/gallery/?page=16&split=val&class=3": 1,
    "/datasets/{}/gallery/?q=99&split=train": 2,
    "/datasets/{}/": 1,
    "/api/v1/datasets/{}/samples?q=5": 2,
    "/api/v1/datasets/{}/samples/500?q=5": 3,
    "/api/v1/datasets/{}/classes": 0,
}
"""Path: how many statements it runs on the samples."""


def test_a_hundred_thousand_images_ask_as_much_as_a_thousand(api, user):
    def asked(job, path):
        headers = HTMX if "gallery" in path else {}
        with CaptureQueriesContext(connection) as captured, statements_counted() as statements:
            assert api.get(path.format(job.pk), headers=headers).status_code == 200
        return len(captured), len(statements)

    few, many = import_job(user), import_job(user)
    store_rows(storage().job(few.pk).dataset_dir, 1000)
    store_rows(storage().job(many.pk).dataset_dir, 100_000)
    for path, n_statements in ASKED.items():
        assert asked(few, path) == asked(many, path)
        assert asked(many, path)[1] == n_statements
