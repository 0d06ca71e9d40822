"""Two of a run side by side over the API."""

from __future__ import annotations

import pytest

from jobs.models import Job
from tests.dashboard.comparing import answers, compared_run, evaluated
from tests.dashboard.downloads import download
from tests.dashboard.makers import import_job, training_job
from tests.kits.exported import export_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(user):
    return compared_run(user)


def get(client, run, what="comparison", **query):
    return client.get(f"/api/v1/trainings/{run.pk}/{what}", query)


def key(export):
    return f"export:{export.pk}"


def told(answer):
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_counts_and_images(api, made):
    _, run, one, other = made
    body = get(api, run, a=key(one), b=key(other), limit=3).json()

    assert (body["a"]["name"], body["b"]["name"], body["split"], body["kind"]) == (
        "ONNX FP32",
        "ONNX INT8",
        "val",
        "differ",
    )
    counts = {name: body[f"n_{name}"] for name in ("both_right", "only_a", "only_b", "both_wrong")}
    assert counts == {"both_right": 10, "only_a": 10, "only_b": 5, "both_wrong": 5}
    assert sum(counts.values()) == body["n_images"] == 30
    assert (body["n_differ"], body["agreement"]) == (15, 0.5)
    assert (body["accuracy_a"], body["accuracy_b"]) == (pytest.approx(20 / 30), 0.5)
    assert (body["total"], [item["sample"] for item in body["items"]]) == (15, [20, 19, 18])
    first = body["items"][0]
    assert (first["a"]["right"], first["b"]["right"], first["a"]["probability"]) == (True, False, 0.7)
    some = get(api, run, a=key(one), b=key(other), kind="only_b", offset=3).json()
    assert [item["sample"] for item in some["items"]] == [2, 1]


def test_an_evaluation_is_matched_by_image(api, user, made):
    _, run, one, _ = made
    evaluation = evaluated(user, run)

    body = get(api, run, a=f"evaluation:{evaluation.pk}", b=key(one)).json()

    assert body["a"]["checkpoint"] == "step-40"
    assert (body["splits"], body["n_images"]) == (["val"], 3), "samples 1 to 3; 0 was seen by the evaluation alone"


def test_what_can_be_compared(api, user, made):
    _, run, one, other = made
    not_run = export_job(user, run, backend="tensorrt_rtx", outcome="not_run")
    blind = export_job(user, run, backend="pytorch")
    evaluation = evaluated(user, run)

    listed = {side["key"]: side for side in get(api, run, "comparables").json()}

    assert list(listed)[-1] == f"evaluation:{evaluation.pk}"
    assert [listed[key(each)]["why_not"] for each in (one, other)] == ["", ""]
    assert listed[key(not_run)]["why_not"] == (
        "TensorRT for RTX FP32 was not run: no CUDA device, so there are no answers to compare."
    )
    assert "has no answers" in listed[key(blind)]["why_not"]
    status, code, message = told(get(api, run, a=key(one), b=key(not_run)))
    assert (status, code) == (409, "action.refused")
    assert "no CUDA device" in message


def test_of_different_datasets(api, user, made):
    _, run, one, _ = made
    other_dataset = import_job(user, title="Others")
    run.spec["dataset"] = f"../{other_dataset.pk}/artifacts/dataset"
    elsewhere = export_job(user, run, precision="fp16", predictions=answers([1]))

    status, code, message = told(get(api, run, a=key(one), b=key(elsewhere)))

    assert (status, code) == (409, "action.refused")
    assert "different datasets" in message


def test_nothing_in_common_is_said(api, user, made):
    _, run, one, other = made

    status, code, message = told(get(api, run, a=key(one), b=key(other), split="train"))

    assert (status, code) == (409, "action.refused")
    assert "the same training images" in message


@pytest.mark.parametrize("bad", ["export:0", "export:x", "x", "evaluation:999999", "export:1e3", ""])
def test_what_is_not_of_the_run(api, made, bad):
    _, run, one, _ = made
    assert get(api, run, a=key(one), b=bad).status_code == 404
    assert get(api, run, a=key(one)).status_code == 422


def test_of_another_run_or_of_another_person(api, client, user, other_user, made):
    dataset, run, one, other = made
    stranger = training_job(user, dataset, status="succeeded")
    assert get(api, stranger, a=key(one), b=key(other)).status_code == 404
    assert get(api, dataset, a=key(one), b=key(other)).status_code == 404
    client.force_login(other_user)
    assert get(client, run, a=key(one), b=key(other)).status_code == 200
    Job.objects.filter(pk=other.pk).update(private=True)
    assert get(client, run, a=key(one), b=key(other)).status_code == 404
    assert len(get(client, run, "comparables").json()) == 1
    Job.objects.filter(pk=run.pk).update(private=True)
    for what in ("comparison", "comparison.csv", "comparables"):
        assert get(client, run, what, a=key(one), b=key(other)).status_code == 404


@pytest.mark.django_db(transaction=True)
def test_csv(user):
    _, run, one, other = compared_run(user)

    path = f"/trainings/{run.pk}/comparison.csv?a={key(one)}&b={key(other)}&kind=only_b"
    answer, (head, *rows) = download(user, path)

    assert f"comparison-{run.pk}-val-only_b.csv" in answer["Content-Disposition"]
    assert head[:5] == ["sample", "name", "truth", key(one), f"{key(one)} probability"]
    assert [row[0] for row in rows] == ["5", "4", "3", "2", "1"]
    assert (rows[0][2], rows[1][2]) == ("<b>bird</b>", "'=dog"), "no spreadsheet runs it"
    assert (rows[0][5], rows[0][8]) == ("no", "yes")


def test_the_number_of_queries_does_not_grow(api, user, made, django_assert_max_num_queries):
    _, run, one, other = made
    for _ in range(5):
        export_job(user, run, predictions=answers([1]))
        evaluated(user, run)
    with django_assert_max_num_queries(16):
        get(api, run, a=key(one), b=key(other))
