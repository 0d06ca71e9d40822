from __future__ import annotations

import re

import pytest

from engine.catalog import sample_cards
from jobs.models import Job, JobInput
from tests.dashboard.makers import import_job, training_job

HTMX = {"HX-Request": "true"}


def page(client, path="/", **more):
    answer = client.get(path, **more)
    assert answer.status_code == 200
    return answer.content.decode()


def test_an_empty_home_offers_each_sample_with_one_button(api):
    html = page(api)
    for card in sample_cards().values():
        assert f"Import the sample {card.name}" in html
        assert card.licence in html
    assert html.count('type="submit"') == len(sample_cards()) + 1  # and the one that signs out
    assert "New training" not in html


def test_the_sample_is_imported_with_one_click(api, user):
    answer = api.post("/samples/import", {"name": "digits"})
    assert answer.headers["Location"] == "/"
    job = Job.objects.get()
    assert (job.verb, job.owner, job.spec["source"]["name"]) == ("import", user, "digits")
    assert f"{job.title} is being imported" in page(api)


@pytest.mark.parametrize("path", ["/", "/datasets/"])
@pytest.mark.parametrize("status", ["failed", "errored", "cancelled"])
def test_a_sample_whose_import_came_to_nothing_is_offered_again(api, user, path, status):
    import_job(user, status=status)
    assert "Import the sample digits" in page(api, path)


@pytest.mark.parametrize("path", ["/", "/datasets/", "/datasets/?q=nothing"])
@pytest.mark.parametrize("status", ["queued", "running", "succeeded"])
def test_a_sample_that_is_there_or_on_its_way_is_not_offered(api, user, path, status):
    import_job(user, status=status, title="Renamed")
    assert "Import the sample digits" not in page(api, path)


def test_a_sample_that_is_not_there_is_refused(api):
    assert api.post("/samples/import", {"name": "cats"}).status_code == 400


def test_one_click_trains_on_the_first_dataset_with_planned_defaults(api, user):
    dataset = import_job(user)
    assert f'action="/datasets/{dataset.pk}/train"' in page(api)
    answer = api.post(f"/datasets/{dataset.pk}/train")
    job = Job.objects.get(verb="train")
    assert answer.headers["Location"] == f"/runs/{job.pk}/"
    assert job.spec["model"]["name"] == "lenet5"
    assert job.spec["options"]["epochs"] == 15


def test_one_click_says_when_the_dataset_has_no_images_yet(api, user):
    dataset = import_job(user, status="running")
    answer = api.post(f"/datasets/{dataset.pk}/train")
    assert answer.status_code == 409
    assert "has no images yet" in answer.content.decode()


def test_runs_and_datasets_stand_in_their_tables(api, user, other_user):
    dataset = import_job(user, title="Moths")
    run = training_job(other_user, dataset, title="First try")
    html = page(api)
    assert f'<tr id="job-{dataset.pk}"' in html
    assert f'<tr id="job-{run.pk}"' in html
    assert f'href="/runs/{run.pk}/"' in html
    assert f'href="/datasets/{dataset.pk}/"' in html
    assert f'href="/runs/new?dataset={dataset.pk}"' in html


def test_others_runs_are_seen_but_neither_selected_nor_renamed(api, user, other_user):
    run = training_job(other_user, import_job(user))
    row = page(api).partition(f'<tr id="job-{run.pk}"')[2].partition("</tr>")[0]
    assert "disabled" in row
    assert "/edit" not in row


def test_private_runs_of_others_are_absent(api, user, other_user):
    training_job(other_user, import_job(user), title="Secret plan", private=True)
    assert "Secret plan" not in page(api)


def test_titles_and_notes_are_escaped(api, user):
    run = training_job(user, import_job(user), title="<script>alert(1)</script>")
    Job.objects.filter(pk=run.pk).update(notes='"><img src=x>')
    html = page(api)
    assert "<script>alert" not in html
    assert "<img src=x>" not in html


def test_the_filter_finds_by_text_and_by_status(api, user):
    dataset = import_job(user, title="Moths")
    kept = training_job(user, dataset, title="Owls", status="failed")
    left_out = training_job(user, dataset, title="Larks", status="succeeded")
    for query in ("q=owls", "status=failed"):
        html = page(api, f"/?{query}")
        assert f'id="job-{kept.pk}"' in html
        assert f'id="job-{left_out.pk}"' not in html
    assert "No run matches the filter." in page(api, "/?q=nothing-like-it")


def test_a_header_sorts_and_the_second_time_the_other_way(api, user):
    dataset = import_job(user)
    first, second = (training_job(user, dataset, title=title) for title in ("Aa", "Bb"))
    html = page(api, "/?sort=title")
    assert html.index(f'id="job-{first.pk}"') < html.index(f'id="job-{second.pk}"')
    header = re.search(r"<th[^>]*aria-sort[^>]*>\s*<a href=\"([^\"]*)\"", html)
    assert header is not None
    assert 'aria-sort="ascending"' in html
    assert "sort=-title" in header[1]


def test_a_sort_key_that_does_not_exist_is_a_clear_error(api, user):
    import_job(user)
    answer = api.get("/?sort=magic")
    assert answer.status_code == 400
    assert "magic" in answer.content.decode()


@pytest.mark.parametrize("path", ["/", "/datasets/"])
def test_the_page_has_a_place_that_says_whether_it_is_live(api, path):
    assert page(api, path).count("data-connection") == 1
    assert "data-connection" not in page(api, path, headers=HTMX)


def test_htmx_gets_the_tables_alone(api, user):
    import_job(user)
    html = page(api, "/", headers=HTMX)
    assert "<html" not in html
    assert "data-table" in html


def test_rows_come_one_by_one_for_those_that_changed(api, user, other_user):
    dataset = import_job(user)
    run = training_job(user, dataset)
    hidden = training_job(other_user, dataset, private=True)
    html = page(api, f"/rows/?ids={run.pk},{dataset.pk},{hidden.pk},99999,x")
    assert html.count("hx-swap-oob") == 2
    assert f'id="job-{hidden.pk}"' not in html


def test_the_datasets_page_shows_datasets_alone(api, user):
    run = training_job(user, import_job(user))
    html = page(api, "/datasets/")
    assert f'id="job-{run.pk}"' not in html
    assert re.search(r'href="/datasets/" aria-current="page"', html)


def test_rename_and_annotate(api, user):
    run = training_job(user, import_job(user))
    assert "Rename or annotate" in page(api, f"/jobs/{run.pk}/edit", headers=HTMX)
    assert "<html" in page(api, f"/jobs/{run.pk}/edit")
    answer = api.post(f"/jobs/{run.pk}/edit", {"title": " Better ", "notes": "why", "next": "/datasets/"})
    assert answer.headers["Location"] == "/datasets/"
    run.refresh_from_db()
    assert (run.title, run.notes) == ("Better", "why")


def test_an_empty_title_is_refused_beside_its_field(api, user):
    run = training_job(user, import_job(user))
    html = api.post(f"/jobs/{run.pk}/edit", {"title": "  ", "notes": ""}).content.decode()
    assert "A title has 1 to 200 characters." in html
    assert 'aria-invalid="true"' in html


def test_nobody_is_sent_to_another_site(api, user):
    run = training_job(user, import_job(user))
    answer = api.post(f"/jobs/{run.pk}/edit", {"title": "x", "next": "https://elsewhere.example/"})
    assert answer.headers["Location"] == f"/runs/{run.pk}/"


def test_others_runs_are_not_renamed(api, user, other_user):
    run = training_job(other_user, import_job(user))
    assert api.post(f"/jobs/{run.pk}/edit", {"title": "mine"}).status_code == 409


def test_deleting_asks_first_with_names(api, user):
    dataset = import_job(user, title="Moths")
    html = page(api, f"/jobs/delete?ids={dataset.pk}", headers=HTMX)
    assert "Delete Moths?" in html
    assert Job.objects.get(pk=dataset.pk).trashed_at is None


def test_a_dataset_in_use_is_kept_and_the_run_named(api, user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded", title="Needs it")
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    html = api.post("/jobs/delete", {"ids": [dataset.pk]}, headers=HTMX).content.decode()
    assert "Needs it" in html
    assert Job.objects.get(pk=dataset.pk).trashed_at is None


def test_several_are_deleted_at_once(api, user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded")
    answer = api.post("/jobs/delete", {"ids": [dataset.pk, run.pk], "next": "/"}, headers=HTMX)
    assert answer.headers["HX-Redirect"] == "/"
    assert not Job.objects.filter(trashed_at=None).exists()
