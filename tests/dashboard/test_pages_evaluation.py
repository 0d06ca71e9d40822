"""The page of an evaluation: every state of one, what its numbers lead to, and who sees the pictures."""

from __future__ import annotations

import re
import shutil

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from engine.store.predictions import PredictionsReader
from jobs.models import Job, JobInput
from jobs.storage import storage
from tests.dashboard.makers import checkpoint_of, evaluation_job, import_job, training_job
from wire.evaluation import EvaluationReport
from wire.layout import PredictionsDir

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def run(user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded", title="<i>Owls</i>")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    return run


@pytest.fixture
def checkpoint(run):
    return checkpoint_of(run)


@pytest.fixture
def evaluation(user, run, checkpoint):
    return evaluation_job(user, run, checkpoint)


def page(client, run, query="", **more):
    answer = client.get(f"/runs/{run.pk}/evaluation/{query}", **more)
    assert answer.status_code == 200
    return answer.content.decode()


def fragment(client, run, query=""):
    answer = client.get(f"/runs/{run.pk}/evaluation/images/{query}", headers=HTMX)
    assert answer.status_code == 200
    return answer.content.decode()


def words(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def ended(job, status, **values):
    Job.objects.filter(pk=job.pk).update(status=status, ended_at=timezone.now(), **values)


def test_every_number_names_split_checkpoint_and_dataset(api, run, evaluation):
    html = page(api, run)
    told = words(html)
    assert "step-40 , epoch 4, step 40 Best val/top1, 91.20 %" in told
    assert f'<a href="/datasets/{run.spec["dataset"].split("/")[1]}/"><bdi>Digits</bdi></a>' in html
    assert "3 validation images, 3 classes" in told
    assert "on CPU" in told
    assert "Top-1 accuracy 66.67 %" in told
    assert "Top-5" not in told
    assert 'data-split="val"' in html
    assert 'aria-label="step-40 on the validation images"' in html
    told = words(page(api, run, "?split=test"))
    assert "3 test images" in told
    assert api.get(f"/runs/{run.pk}/evaluation/?split=train").status_code == 404
    assert api.get(f"/runs/{run.pk}/evaluation/?split=verify").status_code == 422


def test_names_of_classes_and_runs_are_only_ever_text(api, run, evaluation):
    for html in (page(api, run), page(api, run, "?label=2&predicted=2&q=<u>"), fragment(api, run, "?label=2&q=<u>")):
        assert "<b>bird" not in html
        assert "<i>Owls" not in html
        assert "<u>" not in html
        assert "&lt;b&gt;bird&lt;/b&gt;" in html


def test_classes_and_pairs_lead_to_their_pictures(api, run, evaluation):
    html = page(api, run)
    start = f"?job={evaluation.pk}&amp;split=val"
    assert f'href="{start}&amp;label=1&amp;predicted=0#images"' in html, "the pair =dog, cat"
    assert "1 of 1" in words(html)
    assert f'href="{start}&amp;label=0&amp;wrong=false#images"' in html
    assert f'href="{start}&amp;label=2&amp;wrong=true#images"' in html, "the image without an answer is no right one"
    assert f'href="{start}&amp;label=0&amp;wrong=true#images"' not in html
    for path in ("predictions.csv?split=val", "predictions.csv?split=test"):
        assert f'href="/api/v1/evaluations/{evaluation.pk}/{path}"' in html
    assert f'href="/api/v1/evaluations/{evaluation.pk}"' in html


def test_the_most_wrong_come_first_and_filters_narrow(api, run, evaluation, monkeypatch):
    places = []
    real = PredictionsReader.page

    def seen(reader, **asked):
        places.append({name: value for name, value in asked.items() if value not in (None, "")})
        return real(reader, **asked)

    monkeypatch.setattr(PredictionsReader, "page", seen)
    assert "Wrong answers, most wrong first" in words(fragment(api, run))
    assert places.pop() == {"sort": "-loss", "offset": 0, "limit": 60, "split": "val", "wrong": True}
    answer = fragment(api, run, "?split=test&label=1&predicted=0")
    assert places.pop() == {"sort": "-loss", "offset": 0, "limit": 60, "split": "test", "label": 1, "predicted": 0}
    assert "=dog taken for cat , most wrong first" in words(answer)
    assert "1 to 1 of 1 test images" in words(answer)
    assert 'data-query="split=test&amp;label=1&amp;predicted=0&amp;sort=-loss"' in answer
    assert "No image fits" in fragment(api, run, "?label=0&predicted=1")
    assert "1 to 4 of 4" in words(fragment(api, run, "?q=.png&wrong=all&sort=name"))
    for query in ("?label=3", "?label=x", "?predicted=-1", "?wrong=perhaps", "?sort=id", "?split=verify"):
        assert api.get(f"/runs/{run.pk}/evaluation/images/{query}", headers=HTMX).status_code == 422


def test_the_address_is_that_of_the_page(api, run, evaluation):
    path = f"/runs/{run.pk}/evaluation/images/?job={evaluation.pk}&label=1&wrong=false"
    pushed = api.get(path, headers=HTMX).headers["HX-Push-Url"]
    assert pushed == f"/runs/{run.pk}/evaluation/?job={evaluation.pk}&split=val&label=1&wrong=false"
    plain = api.get(path)
    assert (plain.status_code, plain.url) == (
        302,
        f"/runs/{run.pk}/evaluation/?job={evaluation.pk}&label=1&wrong=false",
    )
    assert 'value="1" selected' in page(api, run, "?label=1")


def test_others_do_not_see_pictures_or_the_name_of_a_private_dataset(client, other_user, api, run, evaluation):
    shown = page(api, run)
    assert "/images/2/?px=160" in shown
    assert 'id="answer"' in shown
    dataset_id = int(run.spec["dataset"].split("/")[1])
    Job.objects.filter(pk=dataset_id).update(private=True, title="Secret digits")
    client.force_login(other_user)
    for html in (page(client, run), fragment(client, run)):
        assert "/images/2/" not in html
        assert "c.png" not in html
        assert "Digits" not in html
        assert "Secret" not in html
        assert "no picture" in html
    assert "a private dataset" in page(client, run)
    assert 'id="answer"' not in page(client, run)
    assert client.get(f"/datasets/{dataset_id}/images/2/?px=160").status_code == 404


def test_a_dataset_that_was_deleted_leaves_the_numbers(api, run, evaluation):
    Job.objects.filter(verb="import").update(trashed_at=timezone.now())
    told = words(page(api, run))
    assert "66.67 %" in told
    assert "their dataset was deleted" in told


def test_private_evaluations_and_runs_are_not_there_for_others(client, other_user, run, evaluation):
    client.force_login(other_user)
    Job.objects.filter(pk=evaluation.pk).update(private=True)
    assert client.get(f"/runs/{run.pk}/evaluation/?job={evaluation.pk}").status_code == 404
    assert "No evaluation yet" in page(client, run)
    Job.objects.filter(pk=run.pk).update(private=True)
    for path in ("", "images/", "summary", "start"):
        assert client.get(f"/runs/{run.pk}/evaluation/{path}", headers=HTMX).status_code == 404
    assert client.post(f"/runs/{run.pk}/evaluation/start").status_code == 404


def test_an_evaluation_of_another_run_is_not_shown_here(api, user, run, evaluation):
    other = training_job(user, import_job(user), status="succeeded")
    assert api.get(f"/runs/{other.pk}/evaluation/?job={evaluation.pk}").status_code == 404
    assert api.get(f"/runs/{run.pk}/evaluation/?job=1e3").status_code == 404


def test_without_one_the_page_says_why_and_offers_one(api, run, checkpoint):
    html = page(api, run)
    assert "No evaluation yet" in html
    assert f'href="/runs/{run.pk}/evaluation/start"' in html
    run.inputs.get().artifact.made_by.artifacts.update(meta={"counts": {"train": 9}})
    assert "neither validation nor test images" in page(api, run)


def test_while_the_run_goes_on_the_page_waits_for_one(api, user, run, checkpoint):
    Job.objects.filter(pk=run.pk).update(status="running")
    html = page(api, run)
    assert "begins by itself" in html
    assert 'hx-trigger="every 3s"' in html
    assert "/evaluation/start" not in html
    assert "begins by itself" in page(api, run, headers=HTMX)
    evaluation_job(user, run, checkpoint, status="queued")
    assert api.get(f"/runs/{run.pk}/evaluation/", headers=HTMX).headers["HX-Refresh"] == "true"


def test_one_under_way_asks_for_itself_until_it_has_ended(api, user, run, checkpoint):
    job = evaluation_job(user, run, checkpoint, status="queued")
    Job.objects.filter(pk=job.pk).update(wait_reason="Every device is busy.")
    assert "Every device is busy." in page(api, run)
    Job.objects.filter(pk=job.pk).update(status="running", wait_reason="", stage="evaluate", done=120, total=400)
    html = page(api, run)
    address = f"/runs/{run.pk}/evaluation/?job={job.pk}"
    assert f'hx-get="{address}"' in html
    assert f'hx-get="/jobs/{job.pk}/cancel"' in html
    assert "120 of 400 images" in page(api, run, f"?job={job.pk}", headers=HTMX)
    ended(job, "succeeded")
    assert api.get(address, headers=HTMX).headers["HX-Refresh"] == "true"


@pytest.mark.parametrize(
    ("status", "told"), [("failed", "The weights are damaged."), ("cancelled", "was cancelled"), ("errored", "Memory")]
)
def test_one_that_came_to_nothing_says_why_and_offers_another(api, user, run, checkpoint, status, told):
    job = evaluation_job(user, run, checkpoint, status=status)
    ended(job, status, error_code="x.y", error_message=f"{told} <b>", error_hint="Train again.")
    html = page(api, run)
    assert told in html
    assert "<b>" not in html
    assert "Evaluate again" in html
    assert ("Train again." in html) == (status != "cancelled")


def test_a_result_that_is_gone_says_so(api, run, evaluation):
    shutil.rmtree(storage().job(evaluation.pk).path)
    html = page(api, run)
    assert "is gone" in html
    assert "Evaluate again" in html


def test_a_newer_one_under_way_is_told_beside_the_earlier(api, user, run, checkpoint, evaluation):
    newer = evaluation_job(user, run, checkpoint, status="running")
    html = page(api, run)
    assert "66.67 %" in html
    assert f'Evaluation <a href="?job={newer.pk}">#{newer.pk}</a> is running.' in html
    assert "Evaluations of this run 2" in words(html)


def test_one_is_started_with_a_chosen_checkpoint_and_splits(api, run, checkpoint):
    run.inputs.get().artifact.made_by.artifacts.update(
        meta={"counts": {"train": 9, "val": 3}, "classes": ["cat"], "n_classes": 1}
    )
    other = checkpoint_of(run, step=20)
    path = f"/runs/{run.pk}/evaluation/start"
    dialog = api.get(f"{path}?checkpoint={checkpoint.pk}", headers=HTMX).content.decode()
    assert f'value="{checkpoint.pk}" selected' in dialog
    assert len(re.findall(r"checked", dialog)) == 2
    assert "<!DOCTYPE" in api.get(path).content.decode()
    answer = api.post(path, {"checkpoint": other.pk, "splits": ["val", "test"]})
    made = Job.objects.get(verb="evaluate")
    assert answer.url == f"/runs/{run.pk}/evaluation/?job={made.pk}"
    assert made.spec["splits"] == ["val"], "as far as they are there"
    assert made.spec["checkpoint"]["name"] == "step-20"
    answer = api.post(path, {"splits": ["train"]}, headers=HTMX)
    assert answer.headers["HX-Redirect"] == f"/runs/{run.pk}/evaluation/?job={made.pk + 1}"
    assert Job.objects.get(pk=made.pk + 1).spec["splits"] == ["train"]


def test_what_cannot_be_started_says_why_in_the_same_place(api, run, checkpoint):
    run.inputs.get().artifact.made_by.artifacts.update(meta={"counts": {"train": 9, "val": 3}, "classes": ["cat"]})
    path = f"/runs/{run.pk}/evaluation/start"
    answer = api.post(path, {"splits": ["test"]}, headers=HTMX).content.decode()
    assert 'role="alert"' in answer
    assert "no images of the split test" in answer
    assert f'value="{checkpoint.pk}" selected' in answer
    assert not Job.objects.filter(verb="evaluate").exists()
    Job.objects.filter(pk=run.pk).update(status="running")
    assert "has not ended" in api.post(path, {"splits": ["val"]}, headers=HTMX).content.decode()


def test_the_page_of_the_run_tells_it_in_short(api, user, run, checkpoint, evaluation):
    html = api.get(f"/runs/{run.pk}/").content.decode()
    address = f"/runs/{run.pk}/evaluation/?job={evaluation.pk}"
    assert f'href="{address}"' in html
    assert f'href="{address}&amp;split=val"' in html
    assert "50.00 %" in html
    assert f'href="/runs/{run.pk}/evaluation/start?checkpoint={checkpoint.pk}"' in html
    Job.objects.filter(pk=evaluation.pk).update(trashed_at=timezone.now())
    assert "evaluation-title" not in api.get(f"/runs/{run.pk}/").content.decode()
    evaluation_job(user, run, checkpoint, status="running")
    card = f'hx-get="/runs/{run.pk}/evaluation/summary"'
    assert card in api.get(f"/runs/{run.pk}/").content.decode()
    assert card in api.get(f"/runs/{run.pk}/evaluation/summary", headers=HTMX).content.decode()


def test_the_pages_of_a_run_are_tabs(api, run, evaluation):
    for path, current in ((f"/runs/{run.pk}/", "Training"), (f"/runs/{run.pk}/evaluation/", "Evaluation")):
        html = api.get(path).content.decode()
        tabs = re.findall(r'<a class="tab"\s+href="([^"]*)"([^>]*)>([^<]*)</a>', html)
        assert [name for _, mark, name in tabs if "aria-current" in mark] == [current]
        assert [name for _, _, name in tabs][:2] == ["Training", "Evaluation"]


def test_a_dataset_has_no_evaluation(api, run):
    dataset_id = int(run.spec["dataset"].split("/")[1])
    assert api.get(f"/runs/{dataset_id}/evaluation/").status_code == 404


def many_classes(job, n):
    """The report with so many classes that all are taken for one another."""
    path = PredictionsDir(storage().job(job.pk).evaluation_dir).report_path
    report = EvaluationReport.model_validate_json(path.read_bytes())
    split = report.splits[0]
    names = tuple(f"class {label}" for label in range(n))
    scores = tuple(
        split.classes[0].model_copy(update={"label": label, "name": name}) for label, name in enumerate(names)
    )
    cells = tuple(
        split.confusion[0].model_copy(update={"label": label, "predicted": (label + 1) % n}) for label in range(n)
    )
    changed = split.model_copy(update={"classes": scores, "confusion": cells})
    path.write_text(report.model_copy(update={"classes": names, "splits": (changed,)}).model_dump_json())


def test_as_many_queries_for_a_thousand_classes_and_ten_evaluations(api, user, run, checkpoint, evaluation):
    def n_queries():
        with CaptureQueriesContext(connection) as captured:
            page(api, run, f"?job={evaluation.pk}")
        return len(captured)

    few = n_queries()
    many_classes(evaluation, 1000)
    for _ in range(9):
        evaluation_job(user, run, checkpoint)
    html = page(api, run, f"?job={evaluation.pk}")
    assert html.count('class="truncate class-name"') == 1000
    assert html.count('class="pair-link"') == 20
    assert n_queries() == few
