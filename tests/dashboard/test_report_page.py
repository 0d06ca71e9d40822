"""What became of every file of an import: on the page, in the API and as a file."""

from __future__ import annotations

import csv
import io
import re

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext

from dashboard.csv_rows import csv_cell
from jobs.storage import storage
from tests.dashboard.makers import import_job
from tests.kits.stored import Reported, Row, statements_counted, store

HTMX = {"HX-Request": "true"}
REPORT = [
    Reported("a/<img src=x onerror=alert(1)>.png", "refused", "the file is empty"),
    Reported("a/broken, twice.png", "refused", "damaged: cut short", label="=a"),
    Reported("Thumbs.db", "ignored"),
    Reported("a/copy.png", "duplicate", "the same bytes as a/1.png", label="=a", same_as=1),
    Reported("=cmd|' /C calc'!A0.png", "leak", "also in validation", label="b", same_as=2, kept=True),
]


@pytest.fixture
def dataset(user):
    job = import_job(user)
    rows = [Row("a/1.png", "train", 0), Row("b/<2>.png", "val", 1, b"2"), Row("=3.png", "train", 1, b"3")]
    store(storage().job(job.pk).dataset_dir, ["=a", "b"], rows, REPORT)
    return job


def page(client, dataset, query="", **more):
    answer = client.get(f"/datasets/{dataset.pk}/report/{query}", **more)
    assert answer.status_code == 200
    return answer.content.decode()


def names_in(text):
    return re.findall(r'report-name"><bdi>(.*?)</bdi>', text)


def test_the_counts_add_up(api, dataset):
    text = page(api, dataset)
    tally = text[text.index("<table") : text.index("</table>")]
    counts = [int(found) for found in re.findall(r'<td class="num">(\d+)</td>', tally)]
    assert counts == [3, 2, 1, 1, 7]
    assert sum(counts[:-1]) == counts[-1]
    assert "1 is flagged below and kept" in tally


def test_every_file_has_a_row_and_names_are_text(api, dataset):
    text = page(api, dataset)
    assert len(names_in(text)) == 5
    assert "a/&lt;img src=x onerror=alert(1)&gt;.png" in names_in(text)
    assert "<img src=x" not in text


def test_a_row_shows_the_picture_that_it_equals(api, dataset):
    text = page(api, dataset)
    assert f"/datasets/{dataset.pk}/images/1/?px=96" in text
    assert f'href="/datasets/{dataset.pk}/?image=2"' in text
    assert 'alt="b/&lt;2&gt;.png"' in text
    assert text.count('class="tag tag-accent">kept') == 1


@pytest.mark.parametrize(
    ("query", "n_rows"), [("?kind=refused", 2), ("?q=COPY", 1), ("?kind=leak&q=copy", 0), ("?kind=ignored&page=9", 1)]
)
def test_it_is_filtered(api, dataset, query, n_rows):
    assert len(names_in(page(api, dataset, query, headers=HTMX))) == n_rows
    whole = page(api, dataset, query)
    assert "<html" in whole
    assert len(names_in(whole)) == n_rows


def test_an_unknown_kind_is_refused(api, dataset):
    assert api.get(f"/datasets/{dataset.pk}/report/?kind=lost").status_code == 422
    assert api.get(f"/api/v1/datasets/{dataset.pk}/report?kind=lost").status_code == 422


def test_sixty_to_a_page(api, user):
    job = import_job(user)
    report = [Reported(f"{n:03}.txt", "refused") for n in range(130)]
    store(storage().job(job.pk).dataset_dir, ["a", "b"], [Row("a", "train", 0), Row("b", "train", 1)], report)
    assert names_in(page(api, job, "?page=3"))[0] == "120.txt"
    assert "page=2" in page(api, job, "?page=3&kind=refused", headers=HTMX)


def test_a_dataset_of_the_first_version_has_counts_without_rows(api, dataset):
    folder = storage().job(dataset.pk).dataset_dir
    (folder / "report.sqlite").unlink()
    text = (folder / "manifest.json").read_text()
    text = text.replace('"schema_version": 2', '"schema_version": 1').replace('"n_found": 7', '"n_found": 4')
    text = text.replace('"refused": []', '"refused": [{"name": "x.txt", "reason": "no image"}]')
    (folder / "manifest.json").write_text(text)
    shown = page(api, dataset)
    assert "before rows were kept" in shown
    assert re.findall(r'<td class="num">(\d+)</td>', shown) == ["3", "1", "4"]


def test_the_report_of_the_api(api, dataset):
    told = api.get(f"/api/v1/datasets/{dataset.pk}/report?kind=duplicate").json()
    assert told["left_out"] == {"refused": 2, "ignored": 1, "duplicate": 1}
    assert told["n_images"] + sum(told["left_out"].values()) == told["n_found"] == 7
    assert told["n_flagged"] == told["n_rows"] == 1
    assert told["rows"] == [
        {
            "id": 4,
            "name": "a/copy.png",
            "kind": "duplicate",
            "reason": "the same bytes as a/1.png",
            "class_name": "=a",
            "same_as": 1,
            "kept": False,
        }
    ]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/datasets/{}/report.csv", "/api/v1/datasets/{}/report.csv"])
def test_the_file_has_every_row_and_no_formula(user, dataset, path):
    async def fetched(query):
        browser = AsyncClient()
        await browser.aforce_login(user)
        answer = await browser.get(path.format(dataset.pk) + query)
        assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
        assert answer.headers["Content-Disposition"] == f'attachment; filename="dataset-{dataset.pk}-report.csv"'
        text = b"".join([chunk async for chunk in answer.streaming_content]).decode()
        return list(csv.DictReader(io.StringIO(text)))

    rows = async_to_sync(fetched)("")
    assert len(rows) == 5
    assert rows[1]["name"] == "a/broken, twice.png"
    assert rows[1]["class"] == "'=a"
    assert rows[4]["name"] == "'=cmd|' /C calc'!A0.png"
    assert (rows[3]["same_as"], rows[3]["in_dataset"], rows[4]["in_dataset"]) == ("1", "no", "yes")
    assert [row["reason"] for row in async_to_sync(fetched)("?kind=ignored")] == ["ignored"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("\n=x", "'\n=x"),
        ("\N{FULLWIDTH EQUALS SIGN}1", "'\N{FULLWIDTH EQUALS SIGN}1"),
        ("a=1", "a=1"),
        ("", ""),
        (None, ""),
        (-1.5, "-1.5"),
        (3, "3"),
        (True, "yes"),
    ],
)
def test_a_cell_is_no_formula(value, cell):
    assert csv_cell(value) == cell


def test_as_many_queries_for_a_thousand_rows_as_for_ten(api, user):
    def asked(n_rows):
        job = import_job(user)
        report = [Reported(f"{n}.png", "duplicate", same_as=1 + n % 2) for n in range(n_rows)]
        rows = [Row("a", "train", 0), Row("b", "val", 1, b"b")]
        store(storage().job(job.pk).dataset_dir, ["a", "b"], rows, report)
        with CaptureQueriesContext(connection) as captured, statements_counted() as statements:
            page(api, job)
        return len(captured), len(statements)

    assert asked(10) == asked(1000)
