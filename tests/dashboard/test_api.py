from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import Client

from dashboard.api.root import api as served
from jobs.models import Job
from jobs.services import token_create
from tests.conftest import PASSWORD
from tests.dashboard.makers import import_job, training_job

SNAPSHOT = Path(__file__).parent / "api_operations.txt"


def post(browser, path, body, **more):
    return browser.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", **more)


def patch(browser, path, body):
    return browser.patch(f"/api/v1{path}", json.dumps(body), content_type="application/json")


@pytest.fixture
def dataset(user):
    return import_job(user)


@pytest.fixture
def run(user, dataset):
    return training_job(user, dataset)


# The document.


def told_operations():
    """One line an operation: what it takes and what it gives."""
    document = served.get_openapi_schema()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            taken = [parameter["name"] for parameter in operation.get("parameters", [])]
            good = next(code for code in map(str, operation["responses"]) if code.startswith("2"))
            yield f"{method.upper()} {path} {operation['operationId']}({', '.join(taken)}) -> {good}"


def test_the_operations_are_those_of_the_snapshot():
    """Clients depend on them: change the snapshot knowingly, and docs/api.md with it."""
    assert SNAPSHOT.read_text().splitlines() == sorted(told_operations())


def test_operation_names_are_unique():
    names = [line.split("(")[0].split(" ")[-1] for line in told_operations()]
    assert len(names) == len(set(names))


def test_every_operation_may_refuse_in_the_same_shape():
    for methods in served.get_openapi_schema()["paths"].values():
        for operation in methods.values():
            assert operation["responses"][404]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")
            assert {"BearerToken": []} in operation["security"]


def test_the_document_is_served(api):
    document = api.get("/api/v1/openapi.json").json()
    assert document["info"]["title"] == "Fovea"
    assert "/api/v1/jobs/{job_id}/events" in document["paths"]


def test_the_docs_page_loads_only_files_of_this_server(api):
    page = api.get("/api/v1/docs").content.decode()
    assert 'src="/static/ninja/swagger-ui-bundle.js"' in page
    assert "//" not in page.replace("<!doctype", "").replace("http://www.w3.org", "")
    assert api.get("/api/v1/").headers["Location"] == "/api/v1/docs"


# Signing in.


def test_a_token_or_a_session_with_csrf_may_write(user, run):
    _, secret = token_create(user, "script")
    bearer = {"Authorization": f"bearer {secret}"}
    assert post(Client(enforce_csrf_checks=True), f"/jobs/{run.pk}/cancel", {}, headers=bearer).status_code == 200

    browser = Client(enforce_csrf_checks=True)
    browser.force_login(user)
    page = browser.get("/settings/tokens/").content.decode()
    csrf = page.split('name="csrf-token" content="')[1].split('"')[0]
    assert post(browser, "/tokens", {"name": "x"}, headers={"X-CSRFToken": csrf}).status_code == 201


def test_a_token_that_may_read_reads(user, run):
    _, secret = token_create(user, "reader", scope="read")
    bearer = {"Authorization": f"Bearer {secret}"}
    assert Client().get(f"/api/v1/jobs/{run.pk}", headers=bearer).json()["id"] == run.pk
    assert Client().get("/api/v1/openapi.json", headers=bearer).status_code == 200


# Jobs.


def test_jobs_are_listed_filtered_and_sorted(api, user, dataset, run):
    ids = lambda query: [row["id"] for row in api.get(f"/api/v1/jobs?{query}").json()]  # noqa: E731
    assert ids("sort=created") == [dataset.pk, run.pk]
    assert ids("verb=train") == [run.pk]
    assert ids("status=active") == [run.pk]
    assert ids("q=lenet") == [run.pk]
    assert ids("limit=1&sort=-created") == [run.pk]
    assert ids("q=nothing") == []


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("verb=dance", 422, "verb"),
        ("limit=0", 422, "limit"),
        ("limit=10001", 422, "limit"),
        ("status=happy", 400, "happy"),
        ("sort=colour", 400, "colour"),
    ],
)
def test_a_list_refuses_what_it_does_not_know(api, query, status, words):
    answer = api.get(f"/api/v1/jobs?{query}")
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]
    assert answer.json()["error"]["hint"]


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/jobs?verb=train", "/api/v1/datasets", "/api/v1/devices"])
def test_lists_ask_the_database_as_often_for_many(api, user, dataset, run, path, django_assert_max_num_queries):
    with django_assert_max_num_queries(20) as few:
        api.get(path)
    for n in range(5):
        training_job(user, import_job(user, title=f"Set {n}"))
    with django_assert_max_num_queries(len(few)):
        assert api.get(path).status_code == 200


def test_one_job(api, run, dataset):
    told = api.get(f"/api/v1/jobs/{run.pk}").json()
    assert told["title"] == "LeNet on digits"
    assert told["dataset"] == {"id": dataset.pk, "title": "Digits"}
    assert told["can_change"] is True
    assert api.get(f"/api/v1/jobs/{10**30}").status_code == 404


def test_a_job_is_renamed_and_annotated_by_those_who_may(api, run, other_user):
    changed = patch(api, f"/jobs/{run.pk}", {"title": "Better", "notes": "good"}).json()
    assert (changed["title"], changed["notes"]) == ("Better", "good")
    assert patch(api, f"/jobs/{run.pk}", {"title": ""}).json()["error"]["fields"].keys() == {"title"}
    assert patch(api, f"/jobs/{run.pk}", {"status": "succeeded"}).status_code == 422
    api.force_login(other_user)
    assert patch(api, f"/jobs/{run.pk}", {"title": "Mine"}).status_code == 409
    assert api.get(f"/api/v1/jobs/{run.pk}").json()["can_change"] is False


def test_a_change_is_whole_or_not_at_all(api, run):
    assert patch(api, f"/jobs/{run.pk}", {"title": "   ", "notes": "lost"}).status_code == 400
    assert Job.objects.get(pk=run.pk).notes == ""


def test_cancel_and_delete(api, user, dataset, run):
    assert post(api, f"/jobs/{run.pk}/cancel", {}).json()["status"] == "cancelling"
    refused = post(api, "/jobs/delete", {"ids": [run.pk, dataset.pk]})
    assert refused.status_code == 409
    assert "LeNet on digits" in refused.json()["error"]["message"]
    assert post(api, "/jobs/delete", {"ids": []}).status_code == 422

    ended = training_job(user, dataset, status="succeeded")
    assert api.delete(f"/api/v1/jobs/{ended.pk}").status_code == 204
    assert api.get(f"/api/v1/jobs/{ended.pk}").status_code == 404


def test_the_lesser_lists_of_a_job(api, dataset, run):
    assert api.get(f"/api/v1/jobs/{run.pk}/timeline").json() == []
    assert api.get(f"/api/v1/jobs/{run.pk}/notices").json() == []
    assert api.get(f"/api/v1/jobs/{dataset.pk}/artifacts").json()[0]["name"] == "dataset"
    assert api.get(f"/api/v1/jobs/{run.pk}/spec").json()["model"]["name"] == "lenet5"


# Datasets and trainings.


def test_a_sample_is_imported(api, redis_server):
    wish = {"name": "Digits", "source": {"kind": "sample", "name": "digits"}}
    made = post(api, "/datasets", wish)
    assert made.status_code == 201
    assert made.json()["status"] == "queued"
    assert api.get(f"/api/v1/datasets/{made.json()['id']}").json()["verb"] == "import"
    assert [row["id"] for row in api.get("/api/v1/datasets").json()] == [made.json()["id"]]


def test_a_dataset_is_imported_again_and_says_what_differs(api, redis_server):
    first = post(api, "/datasets", {"name": "Digits", "source": {"kind": "sample", "name": "digits"}}).json()
    wish = api.get(f"/api/v1/datasets/{first['id']}/request").json()
    wish["options"]["val_pct"] = 10
    again = post(api, "/datasets", wish).json()
    assert api.get(f"/api/v1/datasets/{first['id']}/origin").json() == {"earlier": None, "differences": []}
    assert api.get(f"/api/v1/datasets/{again['id']}/origin").json() == {
        "earlier": {"id": first["id"], "title": "Digits"},
        "differences": ["Validation share: 10 % instead of 20 %"],
    }


def test_a_folder_of_the_server_is_not_read(api):
    wish = {"name": "Secrets", "source": {"kind": "folder", "path": "/etc"}}
    assert post(api, "/datasets", wish).json()["error"]["code"] == "action.refused"


def test_a_run_is_no_dataset(api, run):
    assert api.get(f"/api/v1/datasets/{run.pk}").status_code == 404


def test_the_defaults_can_be_sent_as_they_are_and_come_back(api, dataset, redis_server):
    defaults = api.get(f"/api/v1/trainings/defaults?dataset={dataset.pk}").json()
    assert defaults["request"]["options"]["colour"] == "grey"
    assert set(defaults["reasons"]) <= {"model", *defaults["request"]["options"]}
    made = post(api, "/trainings", defaults["request"])
    assert made.status_code == 201
    again = api.get(f"/api/v1/jobs/{made.json()['id']}/request").json()
    assert again["options"] == defaults["request"]["options"]
    assert again["retry_of"] == made.json()["id"]


def test_the_spec_is_told_and_nothing_started(api, dataset, redis_server):
    wish = api.get(f"/api/v1/trainings/defaults?dataset={dataset.pk}").json()["request"]
    told = post(api, "/trainings/spec", wish).json()
    assert not Job.objects.filter(verb="train").exists()
    post(api, "/trainings", wish)
    assert told == Job.objects.get(verb="train").spec
    assert post(api, "/trainings/spec", wish | {"devices": ["GPU-gone"]}).status_code == 400


def test_pictures_that_cannot_be_made_are_refused_in_words(api, dataset, run):
    dataset.artifacts.update(sha256="f" * 64)
    wish = api.get(f"/api/v1/trainings/defaults?dataset={dataset.pk}").json()["request"]
    for answer in (post(api, "/trainings/previews", wish), api.get(f"/api/v1/datasets/{dataset.pk}/pictures")):
        assert answer.status_code == 409
        assert "could not be made" in answer.json()["error"]["message"]
    assert api.get(f"/api/v1/datasets/{run.pk}/pictures").status_code == 404


@pytest.mark.slow
def test_pictures_of_a_dataset_and_of_a_training(api, imported_digits):
    whole = api.get(f"/api/v1/datasets/{imported_digits.pk}/pictures").json()
    assert len(whole) == 24
    wish = api.get(f"/api/v1/trainings/defaults?dataset={imported_digits.pk}").json()["request"]
    seen = post(api, "/trainings/previews", wish).json()
    assert len(seen) == 12
    assert all(tile["src"].startswith("data:image/png;base64,") and tile["label"] for tile in whole + seen)


def test_defaults_need_images(api, user):
    waiting = import_job(user, status="running")
    assert api.get(f"/api/v1/trainings/defaults?dataset={waiting.pk}").status_code == 409


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"options": {"epochs": 0}}, "options.epochs"),
        ({"options": {"colour": "blue"}}, "options.colour"),
        ({"surprise": 1}, "surprise"),
        ({"dataset": "seven"}, "dataset"),
    ],
)
def test_what_does_not_fit_is_named(api, dataset, change, field):
    answer = post(api, "/trainings", {"dataset": dataset.pk, "model": {"name": "lenet5"}} | change)
    assert answer.status_code == 422
    assert list(answer.json()["error"]["fields"]) == [field]


@pytest.mark.parametrize("body", ["", "{", "[]", '"x"', "null"])
def test_a_body_that_is_no_object_is_refused(api, body):
    answer = api.post("/api/v1/trainings", body, content_type="application/json")
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "request.invalid"


# The catalogue, people, devices.


def test_the_catalogue(api):
    models = {card["name"]: card for card in api.get("/api/v1/catalog/models").json()}
    assert models["resnet18"]["weights"][0]["licence"]
    assert models["lenet5"]["options"]["type"] == "object"
    assert [card["name"] for card in api.get("/api/v1/catalog/tasks").json()] == ["classification"]
    assert "digits" in [card["name"] for card in api.get("/api/v1/catalog/samples").json()]


def test_devices(api):
    assert api.get("/api/v1/devices").json() == []


def test_the_own_name_is_changed(api, user):
    assert patch(api, "/me", {"display_name": "Countess"}).json()["display_name"] == "Countess"
    assert patch(api, "/me", {}).json()["display_name"] == "Countess"
    assert patch(api, "/me", {"display_name": "x" * 151}).json()["error"]["fields"].keys() == {"display_name"}
    assert patch(api, "/me", {"administrator": True}).status_code == 422


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"current": "wrong", "new": "a brand new phrase"}, "current"),
        ({"current": PASSWORD, "new": "short"}, "new"),
        ({"current": PASSWORD, "new": "1234567890"}, "new"),
        ({"current": PASSWORD, "new": ""}, "new"),
    ],
)
def test_a_password_is_held_to_the_rules_of_the_page(api, user, body, field):
    refused = post(api, "/me/password", body)
    assert refused.status_code == 422
    assert list(refused.json()["error"]["fields"]) == [field]
    user.refresh_from_db()
    assert user.check_password(PASSWORD)


def test_a_new_password_ends_the_other_sessions(api, user):
    elsewhere = Client()
    elsewhere.force_login(user)
    assert post(api, "/me/password", {"current": PASSWORD, "new": "a brand new phrase"}).status_code == 204
    assert api.get("/api/v1/me").status_code == 200
    assert elsewhere.get("/api/v1/me").status_code == 401


def test_a_new_password_by_token_leaves_the_session_of_another_alone(client, user, other_user):
    _, secret = token_create(user, "script")
    client.force_login(other_user)
    bearer = {"Authorization": f"Bearer {secret}"}
    new = {"current": PASSWORD, "new": "a brand new phrase"}
    assert post(client, "/me/password", new, headers=bearer).status_code == 204
    assert client.get("/api/v1/me").json()["name"] == "grace"
    assert client.get("/api/v1/me", headers=bearer).json()["name"] == "ada"


def test_tokens_are_made_listed_and_revoked(api, user):
    made = post(api, "/tokens", {"name": "laptop", "scope": "read"}).json()
    assert made["secret"].startswith(made["prefix"])
    listed = api.get("/api/v1/tokens").json()
    assert [each["name"] for each in listed] == ["laptop"]
    assert "secret" not in listed[0]
    assert api.delete(f"/api/v1/tokens/{made['id']}").status_code == 204
    assert api.get("/api/v1/tokens").json() == []


def test_users_are_for_administrators(api, client, user, admin_user):
    assert api.get("/api/v1/users").status_code == 403
    client.force_login(admin_user)
    made = post(client, "/users", {"display_name": "Edith"}).json()
    assert made["user"]["invited"]
    assert "/invite/" in made["link"]
    renewed = post(client, f"/users/{made['user']['id']}/link", {}).json()
    assert renewed["link"] != made["link"]
    assert client.delete(f"/api/v1/users/{made['user']['id']}").status_code == 204
    assert patch(client, f"/users/{user.pk}", {"administrator": True}).json()["administrator"] is True
    assert [person["name"] for person in client.get("/api/v1/users").json()] == ["ada", "root"]
    assert patch(client, f"/users/{admin_user.pk}", {"active": False}).status_code == 409
    assert patch(client, "/users/999", {"active": False}).status_code == 404
