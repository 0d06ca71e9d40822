from __future__ import annotations

import json
import re

import pytest
from django.urls import reverse

from jobs.models import Artifact, Attempt, Job, JobEvent, JobInput, Transition
from jobs.storage import storage
from tests.dashboard.makers import BEGAN, import_job, training_job
from wire.specs import TrainOptions

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(django_user_model):
    return django_user_model.objects.create_user("ada")


@pytest.fixture
def dataset(ada):
    return import_job(ada)


@pytest.fixture
def run(ada, dataset):
    job = training_job(ada, dataset)
    JobInput.objects.create(job=job, artifact=dataset.artifacts.get(), role="dataset")
    return job


@pytest.fixture
def get(client, ada):
    client.force_login(ada)

    def get(name, *args):
        response = client.get(reverse(name, args=args))
        return response

    return get


def text_of(response):
    assert response.status_code == 200
    return response.content.decode()


def region(html, name):
    """A part of the page, from its mark to the next one's."""
    return html.split(f'data-region="{name}"', 1)[1].split("data-region=", 1)[0]


def checkpoint(job, step, *, epoch=1.0, **metrics):
    return Artifact.objects.create(
        made_by=job,
        kind="checkpoint",
        name=f"step-{step}",
        path=f"artifacts/checkpoints/step-{step}.pt",
        sha256="0" * 64,
        bytes=2048,
        meta={"step": step, "epoch": epoch, "metrics": metrics, "classes": ["0", "1"]},
    )


def write_log(job, attempt, text):
    path = storage().job(job.pk).attempt(attempt).log_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def with_options(job, **options):
    spec = job.spec | {"options": TrainOptions(**options).model_dump(mode="json")}
    Job.objects.filter(pk=job.pk).update(spec=spec)


def test_the_page_carries_what_its_script_begins_with(get, run):
    html = text_of(get("run", run.pk))
    found = re.search(r'<script id="run-data" type="application/json">(.*?)</script>', html)
    data = json.loads(found[1])
    assert (data["id"], data["status"], data["last_seq"]) == (run.pk, "running", 0)
    for panel in ("loss", "accuracy", "learning-rate", "throughput", "data-wait", "cpu", "ram"):
        assert f'data-panel="{panel}"' in html


def test_a_title_is_text_everywhere(get, run):
    Job.objects.filter(pk=run.pk).update(title="</script><b>bold</b>")
    assert "<b>bold" not in text_of(get("run", run.pk))


def test_the_page_is_never_kept_by_the_browser(get, run):
    for name in ("run", "run_regions"):
        assert "no-store" in get(name, run.pk).headers["Cache-Control"]


def test_a_dataset_has_a_page_of_its_own(get, dataset):
    response = get("run", dataset.pk)
    assert (response.status_code, response.url) == (302, reverse("dataset", args=[dataset.pk]))


def test_only_who_may_change_a_run_is_offered_to(client, django_user_model, get, run):
    html = text_of(get("run", run.pk))
    assert "data-cancel" in html
    assert "data-rename" in html
    client.force_login(django_user_model.objects.create_user("grace"))
    html = text_of(client.get(reverse("run", args=[run.pk])))
    assert "data-cancel" not in html
    assert "data-rename" not in html
    assert reverse("job_delete") not in html
    assert f"?again={run.pk}" in html


def test_an_ended_run_cannot_be_cancelled(get, run):
    assert "cancel-dialog" in region(text_of(get("run_regions", run.pk)), "actions")
    Job.objects.filter(pk=run.pk).update(status="succeeded")
    assert "cancel-dialog" not in region(text_of(get("run_regions", run.pk)), "actions")


def test_the_regions_are_those_of_the_page(get, run):
    names = [set(re.findall(r'data-region="(\w+)"', text_of(get(name, run.pk)))) for name in ("run", "run_regions")]
    assert (
        names[0]
        == names[1]
        == {"actions", "banner", "evaluation", "timeline", "facts", "checkpoints", "history", "attempts"}
    )


def test_a_failed_run_says_why_and_what_to_do(get, run):
    lines = [f"line {n} <b>" for n in range(40)]
    write_log(run, 1, "\n".join(lines))
    Job.objects.filter(pk=run.pk).update(
        status="failed",
        error_code="loss.not_finite",
        error_message="The loss became nan.",
        error_hint="Lower the rate.",
    )
    banner = region(text_of(get("run", run.pk)), "banner")
    assert "The loss became nan." in banner
    assert "Lower the rate." in banner
    assert "loss.not_finite" in banner
    assert "line 39 &lt;b&gt;" in banner
    assert "line 28 " in banner
    assert "line 27 " not in banner
    assert f"?again={run.pk}" in banner
    assert reverse("run_log", args=[run.pk, 1]) in banner


def test_a_run_that_broke_without_a_word_is_still_explained(get, run):
    Job.objects.filter(pk=run.pk).update(status="errored")
    banner = region(text_of(get("run", run.pk)), "banner")
    assert "The run stopped with an error that Fovea does not know" in banner
    assert "No reason was recorded." in banner


def test_a_run_that_waits_says_for_what(get, run):
    Job.objects.filter(pk=run.pk).update(status="queued", wait_reason="Waiting for a device.")
    assert "Waiting for a device." in region(text_of(get("run", run.pk)), "banner")
    Job.objects.filter(pk=run.pk).update(status="cancelled")
    assert "Waiting for a device." not in text_of(get("run_regions", run.pk))


def test_warnings_are_shown_and_mere_information_is_not(get, run):
    for seq, level in enumerate(("info", "warning", "error"), start=1):
        body = {"level": level, "code": "c", "text": f"a word of {level}"}
        JobEvent.objects.create(job=run, seq=seq, at=BEGAN, kind="notice", body=body)
    banner = region(text_of(get("run", run.pk)), "banner")
    assert "a word of warning" in banner
    assert "a word of error" in banner
    assert "a word of info" not in banner


def test_the_timeline_tells_every_change_with_its_reason(get, run):
    Transition.objects.create(job=run, before="queued", after="starting", reason="on GPU 3")
    Transition.objects.create(job=run, before="running", after="succeeded", reason="succeeded")
    timeline = region(text_of(get("run", run.pk)), "timeline")
    assert re.search(r"Starting.*on GPU 3.*Succeeded", timeline, re.DOTALL)
    assert "by ada" in timeline
    assert timeline.count("ucceeded") == 2, "as name and as mark, not as its own reason"


def test_options_that_depart_from_the_default_are_marked_with_it(get, run):
    proposed = 15  # for 1,438 small grey images
    with_options(run, epochs=proposed, learning_rate=0.003, augmentation="shift", colour="grey", weight_decay=0.01)
    facts = region(text_of(get("run", run.pk)), "facts")
    assert "Modified" not in facts
    with_options(run, epochs=99, learning_rate=0.003, augmentation="none", colour="grey", weight_decay=0.01)
    facts = region(text_of(get("run", run.pk)), "facts")
    assert facts.count("Modified") == 2
    assert re.search(r"Epochs</dt>\s*<dd>99 .*?The default here is 15", facts, re.DOTALL)
    assert "The default here is Shift" in facts


def test_options_are_written_as_a_person_would(get, run):
    with_options(run, optimiser="adamw", warmup_pct=5.0, log_every=0, resize="half_crop")
    facts = region(text_of(get("run", run.pk)), "facts")
    assert "5 % of steps" in facts
    assert "Automatic" in facts
    assert "Half crop, half fill" in facts
    assert "Momentum" not in facts, "AdamW does not use it"
    with_options(run, optimiser="sgd", log_every=7)
    facts = region(text_of(get("run", run.pk)), "facts")
    assert "Momentum" in facts
    assert "7 steps" in facts


def test_where_the_weights_came_from_is_told(get, ada, dataset, run):
    earlier = training_job(ada, dataset)
    made = checkpoint(earlier, 40)
    Job.objects.filter(pk=run.pk).update(
        spec=run.spec | {"init": {"kind": "checkpoint", "path": f"../{earlier.pk}/{made.path}"}}
    )
    facts = region(text_of(get("run", run.pk)), "facts")
    assert f"step-40 of run #{earlier.pk}" in facts
    assert reverse("run", args=[earlier.pk]) in facts


def test_checkpoints_have_their_numbers_and_the_best_is_marked(get, run):
    checkpoint(run, 20, epoch=2.0, **{"val/top1": 91.234, "val/loss": 0.3})
    best = checkpoint(run, 30, epoch=3.5, **{"val/top1": 95.5})
    Job.objects.filter(pk=run.pk).update(best_series="val/top1", best_value=95.5, best_step=30)
    assert "?from=" not in text_of(get("run", run.pk))  # it may still replace them
    Job.objects.filter(pk=run.pk).update(status="succeeded")
    html = text_of(get("run", run.pk))
    table = region(html, "checkpoints")
    newest, older = re.findall(r"<tr>\s*<th scope=\"row\">(.*?)</tr>", table, re.DOTALL)
    assert "Best" in newest
    assert "3.5" in newest
    assert f"?from={best.pk}" in newest
    assert "Best" not in older
    assert "91.234" in older
    assert "2.0 KiB" in older
    assert f"?from={best.pk}" in region(html, "actions")


def test_without_a_checkpoint_the_table_says_when_one_comes(get, run):
    assert "at the end of the first epoch" in region(text_of(get("run", run.pk)), "checkpoints")
    Job.objects.filter(pk=run.pk).update(status="cancelled")
    assert "No checkpoint was saved." in region(text_of(get("run", run.pk)), "checkpoints")


def test_an_attempt_can_be_chosen_where_there_are_several(get, run):
    assert "data-log-attempt" not in text_of(get("run", run.pk))
    run.attempts.update(ended_at=BEGAN)
    Attempt.objects.create(job=run, n=2, fence=2, host="here")
    attempts = region(text_of(get("run", run.pk)), "attempts")
    assert re.findall(r"<option value=\"(\d)\"", attempts) == ["2", "1"]
    assert reverse("run_log", args=[run.pk, 2]) in attempts


def test_a_whole_log_comes_as_text(get, run):
    write_log(run, 1, "größer <script>\n" * 200_000)
    response = get("run_log", run.pk, 1)
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"".join(response.streaming_content).decode() == "größer <script>\n" * 200_000


def test_a_log_that_is_not_there_is_said_to_be(get, run):
    response = get("run_log", run.pk, 7)
    assert response.status_code == 404
    assert "Attempt 7" in response.content.decode()


def test_the_command_and_the_spec_are_those_of_the_run(get, run):
    html = text_of(get("run", run.pk))
    assert f"python -m engine train --dir {storage().job(run.pk).path}" in html
    assert "&quot;name&quot;: &quot;lenet5&quot;" in html


def test_the_number_of_queries_does_not_grow_with_the_run(get, run, django_assert_max_num_queries):
    get("run", run.pk)
    for step in range(1, 30):
        checkpoint(run, step)
        Transition.objects.create(job=run, before="running", after="lost")
    with django_assert_max_num_queries(18):
        get("run", run.pk)
