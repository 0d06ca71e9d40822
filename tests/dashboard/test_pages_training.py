from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.utils import timezone

from dashboard.forms import training_choices
from dashboard.forms.train_form import TrainForm
from engine.catalog import model_cards
from jobs.models import Artifact, Device, Job
from jobs.selectors import devices_list, job_summary
from jobs.storage import storage
from tests.dashboard.makers import import_job, training_job


@pytest.fixture
def dataset(user):
    return import_job(user)


def form_of(user, dataset, **more):
    return TrainForm(user, dataset=job_summary(dataset, user), devices=devices_list(user), **more)


def filled_in(user, dataset, **changes):
    """What the page would send, with some fields changed by hand."""
    shown = form_of(user, dataset)
    sent = {field.bound.html_name: field.value for form in shown.card_forms for field in form.option_fields}
    sent |= {"dataset": str(dataset.pk), "model": shown.card.name, "init": "scratch", "device": "any"}
    sent |= {"shown_defaults": shown.shown_defaults, "title": "", "notes": "", "retry_of": ""}
    return sent | {name.replace("__", "-"): str(value) for name, value in changes.items()}


def values_of(html):
    """Fields of the page: name -> value."""
    found = {}
    for tag in re.findall(r"<input[^>]*>", html):
        pairs = dict(re.findall(r'([\w-]+)="([^"]*)"', tag))
        if pairs.get("type") != "radio" or " checked" in tag:
            found[pairs.get("name", "")] = unescape(pairs.get("value", ""))
    for name, body in re.findall(r'<select[^>]*name="([^"]*)"[^>]*>(.*?)</select>', html, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)"[^>]*selected', body)
        found[name] = chosen[1] if chosen else ""
    return found


def field_error(answer, name):
    found = re.search(rf'id="{name}-error"[^>]*>([^<]*)<', answer.content.decode())
    assert found is not None
    return unescape(found[1])


def test_without_a_dataset_the_page_says_what_to_do(api, user):
    assert "There is nothing to train on yet." in api.get("/runs/new").content.decode()
    import_job(user, status="running")
    assert "No dataset is ready yet." in api.get("/runs/new").content.decode()


def test_the_page_begins_with_the_planned_defaults(api, dataset):
    html = api.get(f"/runs/new?dataset={dataset.pk}").content.decode()
    values = values_of(html)
    assert values["model"] == "lenet5"
    assert (values["options-epochs"], values["options-learning_rate"]) == ("15", "0.003")
    assert values["options-augmentation"] == "shift"
    assert "data-modified>" not in html
    assert "345" in html


def test_every_model_is_offered_with_its_facts(api, dataset):
    html = api.get("/runs/new").content.decode()
    for card in model_cards().values():
        assert f'value="{card.name}"' in html
        assert card.code_licence in unescape(html)


@pytest.mark.parametrize("name", sorted(model_cards()))
def test_each_model_can_be_asked_for_and_sent_as_it_comes(api, user, dataset, name):
    values = values_of(api.get(f"/runs/new?model={name}").content.decode())
    values.pop("", None)
    values.pop("private", None)
    answer = api.post("/runs/new", values)
    job = Job.objects.get(verb="train")
    assert answer.headers["Location"] == f"/runs/{job.pk}/"
    assert job.spec["model"]["name"] == name


def test_a_choice_by_hand_is_sent_and_stored(api, user, dataset):
    sent = filled_in(user, dataset, options__epochs=7, options__learning_rate="1e-4", title="Mine", notes="why")
    sent |= {"task-label_smoothing": "0.1", "model-activation": "tanh", "device": "cpu", "private": "on"}
    api.post("/runs/new", sent)
    job = Job.objects.get(verb="train")
    assert (job.title, job.notes, job.private, job.wants) == ("Mine", "why", True, ["cpu"])
    assert job.spec["options"]["epochs"] == 7
    assert job.spec["options"]["learning_rate"] == 1e-4
    assert job.spec["task"]["options"] == {"label_smoothing": 0.1}
    assert job.spec["model"]["options"] == {"activation": "tanh"}


def test_a_wrong_value_comes_back_with_its_error_and_starts_nothing(api, user, dataset):
    answer = api.post("/runs/new", filled_in(user, dataset, options__epochs=0))
    assert answer.status_code == 422
    assert "Must be at least 1." in answer.content.decode()
    assert not Job.objects.filter(verb="train").exists()


def test_an_image_size_that_the_model_cannot_take_is_said_at_the_field(api, user, dataset):
    answer = api.post("/runs/new", filled_in(user, dataset, options__image_px=16))
    assert answer.status_code == 422
    error = re.search(r'id="id_options-image_px-error"[^>]*>([^<]*)<', answer.content.decode())
    assert error is not None
    assert "Needs at least 32 px" in error[1]


@pytest.mark.parametrize("sent", ["GPU-gone", ""])
def test_a_device_that_is_gone_or_not_chosen_starts_nothing(api, user, dataset, sent):
    answer = api.post("/runs/new", filled_in(user, dataset, device=sent))
    assert answer.status_code == 422
    assert sent in field_error(answer, "device")
    assert "Choose" in field_error(answer, "device")
    assert not Job.objects.filter(verb="train").exists()


def test_again_on_a_device_that_is_gone_marks_no_other(api, user, dataset):
    run = training_job(user, dataset)
    Job.objects.filter(pk=run.pk).update(wants=["GPU-gone"])
    answer = api.get(f"/runs/new?again={run.pk}")
    assert "GPU-gone is gone" in field_error(answer, "device")
    assert "device" not in values_of(answer.content.decode())


def test_again_on_the_processor_marks_it(api, user, dataset):
    run = training_job(user, dataset)
    Job.objects.filter(pk=run.pk).update(wants=["cpu"])
    assert values_of(api.get(f"/runs/new?again={run.pk}").content.decode())["device"] == "cpu"
    Device.objects.create(host="lab1", uuid="cpu:lab1:0", kind="cpu", name="Xeon", seen_at=timezone.now())
    answer = api.get(f"/runs/new?again={run.pk}")
    assert values_of(answer.content.decode())["device"] == "cpu:lab1:0"
    assert field_error(answer, "device") == ""


def test_the_panel_shows_the_very_spec_that_is_written(api, user, dataset):
    sent = filled_in(user, dataset, options__epochs=3)
    html = api.post("/runs/new/panel", sent).content.decode()
    shown = re.search(r'id="spec"[^>]*>(.*?)</pre>', html, re.DOTALL)
    assert shown is not None
    assert not Job.objects.filter(verb="train").exists()
    api.post("/runs/new", sent)
    assert json.loads(unescape(shown[1])) == Job.objects.get(verb="train").spec
    assert f"python -m engine train --dir {storage().root}/jobs/<id>" in unescape(html)
    assert "69" in html  # 3 epochs of 23 steps


def test_the_panel_marks_what_is_wrong(api, user, dataset):
    html = api.post("/runs/new/panel", filled_in(user, dataset, options__batch_size=-1)).content.decode()
    assert re.search(r'id="id_options-batch_size-error" hx-swap-oob="true"[^>]*>Must be at least 1\.', html)
    assert "Mend the marked fields first." in html


def test_another_model_moves_what_was_not_touched_and_keeps_what_was(api, user, dataset):
    sent = filled_in(user, dataset, model="resnet18", options__epochs=7)
    values = values_of(api.post("/runs/new/form", sent).content.decode())
    assert values["options-epochs"] == "7"
    assert values["options-image_px"] == "64"
    assert values["options-learning_rate"] == "0.001"
    assert json.loads(values["shown_defaults"])["options-epochs"] == "40"


def test_another_optimiser_moves_the_learning_rate_and_stays_a_change(user, dataset):
    form = form_of(user, dataset, data=filled_in(user, dataset, options__optimiser="sgd"))
    fields = {field.bound.name: field for field in form.options_form.option_fields}
    assert fields["learning_rate"].value == "0.05"
    assert not fields["learning_rate"].modified
    assert fields["optimiser"].modified


def test_models_that_cannot_take_the_size_set_by_hand_say_why(user, dataset):
    free = {choice.card.name: choice.refusal for choice in form_of(user, dataset).models}
    assert set(free.values()) == {""}
    form = form_of(user, dataset, data=filled_in(user, dataset, options__image_px=40))
    refusals = {choice.card.name: choice.refusal for choice in form.models}
    assert refusals["alexnet"] == "Needs at least 63 px; the image size is set to 40 px."
    assert refusals["lenet5"] == ""


def test_again_brings_back_what_was_chosen_and_marks_it(api, user, dataset):
    api.post("/runs/new", filled_in(user, dataset, options__epochs=7, title="First", **{"model-activation": "tanh"}))
    first = Job.objects.get(verb="train")
    html = api.get(f"/runs/new?again={first.pk}").content.decode()
    values = values_of(html)
    assert (values["options-epochs"], values["title"], values["model-activation"]) == ("7", "First", "tanh")
    assert html.count("data-modified>") + html.count("data-modified data") == 2
    api.post("/runs/new", {name: value for name, value in values.items() if name not in {"", "private"}})
    second = Job.objects.filter(verb="train").latest("pk")
    assert second.retry_of == first
    assert second.spec == first.spec


def checkpoint(run, step):
    return Artifact.objects.create(
        made_by=run,
        kind="checkpoint",
        name=f"step-{step}",
        path=f"artifacts/checkpoints/step-{step}.pt",
        sha256="0" * 64,
        bytes=1,
        meta={"step": step, "metrics": {"val/top1": 90.5}},
    )


def test_from_a_checkpoint(api, user, other_user, dataset):
    run = training_job(user, dataset, status="succeeded")
    Job.objects.filter(pk=run.pk).update(best_step=20)
    made = [checkpoint(run, step) for step in (10, 20)]
    html = api.get(f"/runs/new?from={made[1].pk}").content.decode()
    values = values_of(html)
    assert (values["init"], values["checkpoint"]) == ("checkpoint", str(made[1].pk))
    assert "step 20 · val/top1 90.5 · best" in html
    api.post("/runs/new", {name: value for name, value in values.items() if name not in {"", "private"}})
    job = Job.objects.filter(verb="train").latest("pk")
    assert job.spec["init"] == {"kind": "checkpoint", "path": f"../{run.pk}/artifacts/checkpoints/step-20.pt"}


def test_a_checkpoint_older_than_the_list_is_offered_where_it_was_asked_for(api, user, dataset, monkeypatch):
    monkeypatch.setattr(training_choices, "MAX_CHECKPOINTS", 1)
    run = training_job(user, dataset, status="succeeded")
    old, new = checkpoint(run, 10), checkpoint(run, 20)
    values = values_of(api.get(f"/runs/new?from={old.pk}").content.decode())
    assert (values["init"], values["checkpoint"]) == ("checkpoint", str(old.pk))
    api.post("/runs/new", filled_in(user, dataset, init="checkpoint", checkpoint=old.pk))
    assert Job.objects.filter(verb="train").latest("pk").spec["init"]["path"].endswith("step-10.pt")
    assert [each.id for each in form_of(user, dataset).choices.checkpoints] == [new.pk]


def test_a_start_that_cannot_be_had_starts_nothing(api, user, other_user, dataset):
    hidden = checkpoint(training_job(other_user, dataset, status="succeeded", private=True), 10)
    running = checkpoint(training_job(user, dataset, title="Goes on"), 20)
    n_runs = Job.objects.filter(verb="train").count()
    starts = [{"init": "checkpoint", "checkpoint": str(each)} for each in (hidden.pk, running.pk, 999)]
    for start in [*starts, {"init": "published:imagenet"}, {"init": "dream"}]:
        sent = filled_in(user, dataset) | start
        answer = api.post("/runs/new", sent)
        assert answer.status_code == 422
        assert "choose another start" in field_error(answer, "start")
        assert "choose another start" in field_error(api.post("/runs/new/panel", sent), "start")
        assert Job.objects.filter(verb="train").count() == n_runs


def test_a_model_without_the_chosen_weights_says_that_it_begins_anew(api, user, dataset):
    sent = filled_in(user, dataset, model="resnet18", init="published:imagenet-1")
    answer = api.post("/runs/new/form", sent)
    assert "has no published weights imagenet-1" in field_error(answer, "start")
    assert values_of(answer.content.decode())["init"] == "scratch"


def test_a_private_checkpoint_of_another_is_not_there(api, user, other_user, dataset):
    run = training_job(other_user, dataset, private=True)
    made = Artifact.objects.create(
        made_by=run, kind="checkpoint", name="step-1", path="x", sha256="0" * 64, bytes=1, meta={"step": 1}
    )
    assert api.get(f"/runs/new?from={made.pk}").status_code == 404
    assert api.get(f"/runs/new?again={run.pk}").status_code == 404


def test_devices_show_their_load_live(api, user, dataset):
    Device.objects.create(
        host="lab1",
        uuid="GPU-1",
        kind="cuda",
        name="H200",
        memory_bytes=2**37,
        memory_used_bytes=2**36,
        utilisation_pct=40.4,
        seen_at=timezone.now(),
    )
    assert 'value="GPU-1"' in api.get("/runs/new").content.decode()
    html = api.get("/runs/new/devices").content.decode()
    assert 'id="load-gpu-1" hx-swap-oob="true"' in html
    assert "64.0 GiB of 128 GiB free" in html
    assert "40 % busy" in html


def test_a_wrong_field_makes_no_examples(api, user, dataset):
    html = api.post("/runs/new/previews", filled_in(user, dataset, options__image_px=1)).content.decode()
    assert "Mend the marked fields" in html


def test_a_dataset_that_is_gone_is_said(api, user, dataset):
    assert api.get("/runs/new?dataset=999").status_code == 404
    import_job(user, title="Another")
    sent = filled_in(user, dataset)
    Job.objects.filter(pk=dataset.pk).update(trashed_at=timezone.now())
    assert api.post("/runs/new/panel", sent).status_code == 404
