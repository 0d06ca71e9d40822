"""Whatever an address or its query holds, the answer is a sentence and never a traceback."""

from __future__ import annotations

import json
from functools import cache

import pytest

from dashboard.api.root import api as api_of_everything
from jobs.storage import storage
from tests.dashboard.makers import checkpoint_of, classification_job, evaluation_job, import_job, training_job
from tests.dashboard.test_access import ID, filled, page_routes
from tests.kits.stored import Reported, Row, store

pytestmark = pytest.mark.django_db

NONSENSE = ("9" * 30, "9" * 5000, "-1", "\x00", "\N{SUPERSCRIPT TWO}", "' OR 1=1 --", "../../etc/passwd")
OF_PAGES = (
    *("again", "class", "dataset", "from", "ids", "job", "kind", "label", "page", "path", "predicted", "px", "q"),
    *("checkpoint", "place", "sample", "sort", "split", "status", "upload", "wrong"),
)


@pytest.fixture
def made(user):
    """A dataset, a run, and what belongs to it, as ids for routes."""
    dataset = import_job(user)
    store(
        storage().job(dataset.pk).dataset_dir,
        ("cat", "dog"),
        [Row("cat/1.png", "train", 0), Row("dog/1.png", "val", 1)],
        [Reported("notes.txt", "refused")],
    )
    run = training_job(user, dataset, status="succeeded", n_events=3)
    checkpoint = checkpoint_of(run)
    evaluation = evaluation_job(user, run, checkpoint)
    classification = classification_job(user, run, checkpoint)
    return {"dataset": dataset.pk, "run": run.pk, "evaluation": evaluation.pk, "classification": classification.pk}


def ids_for(route, made):
    """The id of what a route is about."""
    if "datasets" in route:
        return made["dataset"]
    if "evaluations/{" in route:
        return made["evaluation"]
    if "classifications/" in route:
        return made["classification"]
    return made["run"]


@cache
def places():
    """Every page and every reading operation, with the names that its query may hold."""
    found = dict.fromkeys(page_routes(), OF_PAGES)
    for bound in api_of_everything._get_bound_routers():
        for path, view in bound.path_operations.items():
            for operation in view.operations:
                if {"GET", "HEAD"} & set(operation.methods):
                    route = f"/api/v1/{bound.prefix.strip('/')}{path}".replace("//", "/")
                    found[route] = tuple(
                        name
                        for model in operation.models
                        if "query" in str(model.__ninja_param_source__)
                        for name in model.model_json_schema().get("properties", {})
                    )
    return found


@pytest.fixture(autouse=True)
def _nothing_is_waited_for(monkeypatch):
    monkeypatch.setattr("dashboard.serving.CONNECT_TIMEOUT_S", 0.01)


@pytest.mark.parametrize("route", sorted(places()))
def test_a_query_of_nonsense_is_answered(api, made, route):
    path, names = filled(route, job_id=ids_for(route, made), run_id=made["run"]), places()[route]
    queries = [{name: value} for name in names for value in NONSENSE]
    if names is OF_PAGES:  # which are slower to draw
        queries = [dict.fromkeys(names, value) for value in NONSENSE]
    for query in queries:
        answer = api.get(path, query, headers={"HX-Request": "true"} if names is OF_PAGES else {})
        assert answer.status_code < 500 or answer.status_code == 503, query


@pytest.mark.parametrize("route", [route for route in places() if "{" in route or "<" in route])
def test_an_id_of_nonsense_is_answered(api, made, route):
    for value in ("9" * 30, "9" * 5000, "%00", "..%2f..%2fetc"):
        for name in ID.findall(route):
            given = {"job_id": ids_for(route, made), "run_id": made["run"], name: value}
            path = filled(route, **given)
            assert api.get(path).status_code in {200, 302, 404, 405, 409, 410, 412, 422, 503}, path[:200]


def test_what_no_database_holds_is_refused_in_words(api):
    answer = api.get("/api/v1/jobs?q=%00")
    assert answer.status_code == 422
    assert "value 0" in answer.json()["error"]["message"]
    assert api.get("/datasets/?q=%00").status_code == 422


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_a_body_that_no_database_holds_is_never_our_fault(api, made, text):
    answer = api.patch(f"/api/v1/jobs/{made['run']}", json.dumps({"title": text}), content_type="application/json")
    assert answer.status_code < 500
