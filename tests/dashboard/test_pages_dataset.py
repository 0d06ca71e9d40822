from __future__ import annotations

import re
import sys

import pytest

from dashboard.previews import Look, PreviewError, pictures_of
from jobs.models import Job
from tests.dashboard.makers import import_job, training_job

HTMX = {"HX-Request": "true"}


def page(client, path, **more):
    answer = client.get(path, **more)
    assert answer.status_code == 200
    return answer.content.decode()


def test_facts_splits_and_runs(api, user):
    dataset = import_job(user, title="Moths")
    run = training_job(user, dataset, title="Owls")
    html = page(api, f"/datasets/{dataset.pk}/")
    assert "1,797" in html
    assert "<dd>Grey</dd>" in html
    assert "1,438" in html
    assert "80 %" in html
    assert f'href="/runs/{run.pk}/"' in html
    assert f'href="/runs/new?dataset={dataset.pk}"' in html


def test_an_import_under_way_asks_for_itself_until_it_has_ended(api, user):
    dataset = import_job(user, status="running")
    Job.objects.filter(pk=dataset.pk).update(stage="reading", done=800, total=1797)
    html = page(api, f"/datasets/{dataset.pk}/")
    assert 'hx-trigger="every 1s"' in html
    assert "800 of 1,797 images" in html
    assert "Train on this" not in html
    Job.objects.filter(pk=dataset.pk).update(status="succeeded", ended_at=dataset.created_at)
    assert api.get(f"/datasets/{dataset.pk}/", headers=HTMX).headers["HX-Refresh"] == "true"


def test_a_failed_import_says_why_and_what_next(api, user):
    dataset = import_job(user, status="failed")
    Job.objects.filter(pk=dataset.pk).update(
        ended_at=dataset.created_at, error_code="dataset.invalid", error_message="One class.", error_hint="Add one."
    )
    html = page(api, f"/datasets/{dataset.pk}/")
    assert 'role="alert"' in html
    assert "One class." in html
    assert "Add one." in html
    assert "Train on this" not in html


def test_an_import_is_cancelled_from_its_page_after_a_question(api, user):
    dataset = import_job(user, status="running")
    path = f"/jobs/{dataset.pk}/cancel"
    assert f'hx-get="{path}"' in page(api, f"/datasets/{dataset.pk}/")
    assert "Cancel Digits?" in page(api, path, headers=HTMX)
    assert Job.objects.get(pk=dataset.pk).status == "running"
    assert api.post(path).headers["Location"] == f"/datasets/{dataset.pk}/"
    assert Job.objects.get(pk=dataset.pk).status == "cancelling"
    assert f'hx-get="{path}"' not in page(api, f"/datasets/{dataset.pk}/")


def test_what_has_ended_is_not_cancelled(api, user):
    dataset = import_job(user)
    assert "/cancel" not in page(api, f"/datasets/{dataset.pk}/")
    assert "is succeeded already" in api.post(f"/jobs/{dataset.pk}/cancel").content.decode()


def test_others_imports_are_not_cancelled(api, user, other_user):
    dataset = import_job(other_user, status="running")
    assert "/cancel" not in page(api, f"/datasets/{dataset.pk}/")
    assert api.post(f"/jobs/{dataset.pk}/cancel").status_code == 409
    assert Job.objects.get(pk=dataset.pk).status == "running"


@pytest.mark.parametrize("status", ["failed", "errored", "cancelled"])
def test_an_import_that_came_to_nothing_is_imported_again_as_it_was(api, user, status):
    failed = import_job(user, status=status, private=True, title="My digits")
    path = f"/datasets/{failed.pk}/again"
    assert f'action="{path}"' in page(api, f"/datasets/{failed.pk}/")
    answer = api.post(path)
    made = Job.objects.latest("pk")
    assert answer.headers["Location"] == f"/datasets/{made.pk}/"
    assert (made.title, made.private, made.status) == ("My digits", True, "queued")
    assert made.spec["source"] == failed.spec["source"]
    assert path not in page(api, f"/datasets/{import_job(user).pk}/")


def test_a_run_is_not_imported_again(api, user):
    assert api.post(f"/datasets/{training_job(user, import_job(user)).pk}/again").status_code == 404


def test_a_run_is_not_a_dataset(api, user):
    run = training_job(user, import_job(user))
    assert api.get(f"/datasets/{run.pk}/").status_code == 404


def test_only_the_owner_may_edit_or_delete(api, user, other_user):
    html = page(api, f"/datasets/{import_job(other_user).pk}/")
    assert "/edit" not in html
    assert "/jobs/delete" not in html
    assert "Train on this" in html


@pytest.mark.slow
def test_pictures_are_made_by_the_engine_once(api, imported_digits, monkeypatch):
    path = f"/api/v1/datasets/{imported_digits.pk}/pictures"
    tiles = api.get(path).json()
    assert len(tiles) == 24
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert api.get(path).json() == tiles


@pytest.mark.slow
def test_augmented_pictures_differ_from_plain_ones(imported_digits):
    plain = pictures_of(imported_digits.pk, Look(32, "squash", "grey"), n=4)
    shifted = pictures_of(imported_digits.pk, Look(32, "squash", "grey", "shift"), n=4)
    assert [tile.label for tile in plain] == [tile.label for tile in shifted]
    assert [tile.src for tile in plain] != [tile.src for tile in shifted]


def test_pictures_of_a_dataset_without_its_files_cannot_be_made(api, user):
    dataset = import_job(user)
    dataset.artifacts.update(sha256="f" * 64)
    with pytest.raises(PreviewError, match="could not be made"):
        pictures_of(dataset.pk, Look(32, "squash", "grey"), n=4)


def meta_of(dataset, **changes):
    made = dataset.artifacts.get()
    made.meta |= changes
    made.save()


def test_warnings_and_what_was_left_out_are_told(api, user):
    dataset = import_job(user)
    text = "The class <b>a</b> has 3 images."
    meta_of(dataset, warnings=[{"code": "class.small", "text": text}], n_found=1800, n_flagged=2, licence="CC0")
    html = page(api, f"/datasets/{dataset.pk}/")
    assert "The class &lt;b&gt;a&lt;/b&gt; has 3 images." in html
    assert "3 of 1,800 files" in html
    assert f'href="/datasets/{dataset.pk}/report/?kind=leak"' in html
    assert "CC0" in html


def test_a_grey_dataset_has_one_channel(api, user):
    dataset = import_job(user)
    assert re.findall(r'<th scope="row">(Grey|Red|Green|Blue)</th>', page(api, f"/datasets/{dataset.pk}/")) == ["Grey"]
    meta_of(dataset, colour="rgb")
    assert len(re.findall(r'<th scope="row">(Red|Green|Blue)</th>', page(api, f"/datasets/{dataset.pk}/"))) == 3


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({"kind": "sample", "name": "digits"}, ["Handwritten digits"]),
        ({"kind": "upload", "path": "../../uploads/x", "name": "<i>.zip"}, ["&lt;i&gt;.zip"]),
        ({"kind": "folder", "path": "/srv/a", "val_path": "/srv/b"}, ["/srv/a", "/srv/b"]),
        ({"kind": "lists", "train": "../../uploads/x", "labels": "/srv/labels.txt"}, ["labels.txt"]),
    ],
)
def test_source_and_options_are_told(api, user, source, told):
    dataset = import_job(user)
    options = {"val_pct": 12.5, "classes": ["cat", "dog"], "max_per_class": 40, "duplicates": "drop"}
    Job.objects.filter(pk=dataset.pk).update(spec=dataset.spec | {"source": source, "options": options})
    html = page(api, f"/datasets/{dataset.pk}/")
    for words in [*told, "12.5 %", "cat, dog", "40 images a class", "Keep one", "Remove from training"]:
        assert f"<bdi>{words}</bdi>" in html


def test_a_dataset_that_was_made_again_says_what_differs(api, user, other_user):
    earlier = import_job(user, title="<Moths>")
    again = import_job(user)
    spec = again.spec | {"options": {"val_pct": 10}}
    Job.objects.filter(pk=again.pk).update(spec=spec, retry_of=earlier)
    html = page(api, f"/datasets/{again.pk}/")
    assert f'Made again from <a href="/datasets/{earlier.pk}/">#{earlier.pk} <bdi>&lt;Moths&gt;</bdi></a>' in html
    assert "10 % instead of 20 %" in html
    assert f'href="/datasets/new/?again={again.pk}"' in html
    Job.objects.filter(pk=earlier.pk).update(private=True, owner=other_user)
    assert "Made again" not in page(api, f"/datasets/{again.pk}/")
