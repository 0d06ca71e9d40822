"""The page that holds two of a run against each other: what it offers, what it says, what it does not tell."""

from __future__ import annotations

import json
import re

import pytest
from django.utils.html import escape

from jobs.models import Job
from jobs.storage import storage
from tests.dashboard.comparing import compared_run, evaluated
from tests.dashboard.makers import import_job, training_job
from tests.kits.exported import export_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(user):
    return compared_run(user, title="<i>Mine</i>", pictures=True)


def get(client, run, piece="", *, htmx=False, **query):
    return client.get(f"/runs/{run.pk}/compare/{piece}", query, headers={"HX-Request": "true"} if htmx else {})


def text_of(answer):
    assert answer.status_code == 200, answer.content
    return " ".join(answer.content.decode().split())


def figures(page):
    return dict(re.findall(r'data-figure="(\w+)">\s*([^<]*?)\s*<', page))


def data_of(page):
    return json.loads(re.search(r'<script id="compare-data" type="application/json">(.*?)</script>', page)[1])


def key(export):
    return f"export:{export.pk}"


def test_the_usual_two_with_their_numbers(api, made):
    _, run, one, other = made
    page = text_of(get(api, run))

    assert figures(page) == {
        "accuracy_a": "66.67 %", "accuracy_b": "50.00 %", "agreement": "50.00 %", "n_images": "30",
        "both_right": "10", "only_a": "10", "only_b": "5", "both_wrong": "5",
    }  # fmt: skip
    assert "\N{MINUS SIGN}16.67 points against A" in page
    assert f'value="{key(one)}" selected' in page
    assert f'value="{key(other)}" selected' in page
    assert page.count("data-sample=") == 15
    assert "<i>Mine</i>" not in page
    assert "<b>bird</b>" not in page
    assert escape("<b>bird</b>") in page


def test_what_the_page_tells_its_script(api, user, made):
    dataset, run, one, _ = made
    not_run = export_job(user, run, backend="tensorrt_rtx", outcome="not_run")
    evaluation = evaluated(user, run)
    told = data_of(text_of(get(api, run, dataset=dataset.pk, sample=3)))

    assert told["asked"] == {"predict": f"/api/v1/trainings/{run.pk}/predict"}
    assert told["sides"][key(one)] == {"name": "ONNX FP32", "query": {"export": one.pk}, "why_not": ""}
    checkpoint = run.artifacts.get(kind="checkpoint")
    assert told["sides"][f"evaluation:{evaluation.pk}"]["query"] == {"checkpoint": checkpoint.pk}
    assert told["sides"][key(not_run)]["query"] is None
    assert "no CUDA device" in told["sides"][key(not_run)]["why_not"]
    assert (told["sample"]["id"], told["sample"]["dataset"]) == (3, dataset.pk)


def test_the_piece_that_a_choice_puts_in_place(api, made):
    _, run, one, other = made
    answer = get(api, run, "split", htmx=True, a=key(other), b=key(one), kind="only_b")
    page = text_of(answer)

    assert (
        answer["HX-Push-Url"]
        == f"/runs/{run.pk}/compare/?a=export%3A{other.pk}&b=export%3A{one.pk}&split=val&kind=only_b"
    )
    assert "<html" not in page
    assert "+16.67 points against A" in page
    assert page.count("data-sample=") == 10
    assert f"comparison.csv?a=export%3A{other.pk}" in page
    assert get(api, run, "split", a=key(one)).status_code == 302


def test_pages_of_images(api, made, monkeypatch):
    monkeypatch.setattr("dashboard.compared.PAGE_SIZE", 6)
    _, run, *_ = made
    first, last = (text_of(get(api, run, page=number)) for number in ("1", "3"))

    assert "1 to 6 of 15" in first
    assert "13 to 15 of 15" in last
    assert re.findall(r'data-sample="(\d+)"', first)[:2] == ["20", "19"]
    assert re.findall(r'data-sample="(\d+)"', last) == ["3", "2", "1"]


def test_why_two_cannot_be_compared(api, user, made):
    _, run, one, other = made
    not_run = export_job(user, run, backend="tensorrt_rtx", outcome="not_run")
    page = text_of(get(api, run, a=key(one), b=key(not_run)))
    assert "was not run: no CUDA device, so there are no answers to compare." in page
    assert "Ask both about an image" in page
    (storage().job(other.pk).export_dir / "predictions.sqlite").unlink()
    assert "no answers about single images" in text_of(get(api, run, a=key(one), b=key(other)))
    assert get(api, run, a="export:999").status_code == 404
    assert get(api, run, kind="x").status_code == 200, "said in the page, not instead of it"


def test_a_run_with_nothing_or_one_to_compare_says_what_to_do(api, user):
    run = training_job(user, import_job(user), status="succeeded")
    page = text_of(get(api, run))
    assert "There is nothing to compare yet" in page
    assert f"/runs/{run.pk}/export/" in page
    export_job(user, run, predictions=[])
    page = text_of(get(api, run))
    assert "There is only one to compare" in page
    assert "compare.js" not in page


def test_a_private_dataset_is_not_shown(client, other_user, made):
    dataset, run, *_ = made
    Job.objects.filter(pk=dataset.pk).update(private=True)
    client.force_login(other_user)
    page = text_of(get(client, run))
    assert "you may not see it" in page
    assert "data-sample=" not in page.split('id="one-image"')[0]
    assert f"/datasets/{dataset.pk}/" not in page
    assert "20.png" not in page


def test_what_is_private_is_not_there(client, other_user, made):
    _, run, one, other = made
    assert get(client, run).status_code == 302
    client.force_login(other_user)
    assert get(client, run).status_code == 200
    Job.objects.filter(pk=other.pk).update(private=True)
    assert "There is only one to compare" in text_of(get(client, run))
    assert get(client, run, a=key(one), b=key(other)).status_code == 404
    Job.objects.filter(pk=run.pk).update(private=True)
    for piece in ("", "split"):
        assert get(client, run, piece).status_code == 404


def test_the_number_of_queries_does_not_grow(api, user, made, django_assert_max_num_queries):
    _, run, *_ = made
    for _ in range(6):
        export_job(user, run, predictions=[])
        evaluated(user, run)
    with django_assert_max_num_queries(20):
        get(api, run)
