"""The page of exports: every state of one, what may be downloaded, who answers for what failed, and the form."""

from __future__ import annotations

import re
import shutil

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from jobs.models import Artifact, Attempt, ExportOverride, Job
from jobs.storage import storage
from tests.dashboard.exporting import box_of, exportable_checkpoint, exportable_run, page, submit, words
from tests.kits.exported import LOST, export_job, write_export
from wire.exports import TRIED_ELSEWHERE, NotRun

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def run(user):
    return exportable_run(user)


@pytest.fixture
def checkpoint(run):
    return exportable_checkpoint(run)


def live(client, run, *exports):
    ids = ",".join(str(export.pk) for export in exports)
    answer = client.get(f"/runs/{run.pk}/export/live?ids={ids}", headers=HTMX)
    assert answer.status_code == 200
    return answer.content.decode()


def row_of(html, export):
    _, start, rest = html.partition(f'<tbody id="export-{export.pk}"')
    assert start, "the export has no row"
    return start + re.split(r'<tbody id="export-|id="exports-', rest, maxsplit=1)[0]


# What is there.


def test_a_run_without_exports_explains_them_and_offers_the_usual_ones(api, run, checkpoint):
    html = page(api, run)
    assert "Nothing exported yet" in html
    assert 'form="export-form"' in html
    assert "export-table" not in html
    for target in ("pytorch:fp32", "onnx:fp32", "onnx:fp16", "onnx:int8"):
        assert "checked" in box_of(html, "target", target)
    assert "checked" not in box_of(html, "target", "tensorrt_rtx:fp32")
    told = words(html)
    assert "step-40: best val/top1, 91.20 %" in told
    assert "Digits (trained on)" in told
    assert "verified on its 359 validation images" in told


def test_a_row_tells_all_that_was_measured(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint)
    html = page(api, run)
    told = words(row_of(html, export))
    assert "ONNX FP32 Passed 91.10 89.0 - 93.0 -0.10 -0.50 to +0.30 99.60 0.02" in told
    assert "0.50 0.60 0.90 1,900 1,900 1,900 15 12 + 3" in told
    assert "1,000 of 3,000 validation images, seed 0" in told
    assert "91.20 % on the same images" in told
    assert "32 16.00 19.20 28.80 1,900 50" in told, "the largest batch stands in the details"
    assert "onnx 1.23.2 , torch 2.15.0" in told
    assert "CPU (Test)" in told
    assert (
        "1 passed step-40 on 1,000 of 3,000 validation images, seed 0 · timed on CPU (Test), 2 threads, 32 px"
        in words(html)
    )


def test_an_export_that_failed_is_red_and_says_why(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, precision="int8", outcome="failed")
    html = page(api, run)
    row = row_of(html, export)
    assert 'data-state="failed"' in row
    assert LOST in row
    assert "-3.20" in words(row)
    assert "disabled" in box_of(html, "export", export.pk)
    assert f'hx-get="/exports/{export.pk}/override"' in html
    assert f"/api/v1/exports/{export.pk}/files/" not in html, "nothing of it is handed out by the way"


def test_layers_kept_in_float_are_named_with_their_reason(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, precision="int8")
    told = words(row_of(page(api, run), export))
    assert "2 of 5 layers compute in float, put back because they hurt: fc3 ; as asked: conv1 ." in told
    assert "fc3 hurt: 91.00 % agree with it alone in INT8" in told


def test_an_export_that_was_not_run_claims_nothing(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, backend="tensorrt_rtx", outcome="not_run")
    html = page(api, run)
    told = words(row_of(html, export))
    assert "Not run - - - - - - - - - - - 840 B 1.3" in told
    assert "Built, not run: no CUDA device. Nothing is known about its answers or its speed." in told
    assert "1 to 32, tuned for 8" in told
    assert "checked" in box_of(html, "export", export.pk)
    assert f'href="/api/v1/exports/{export.pk}/files/engines/sm86.engine"' in html


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"outcome": "not_run", "notes": (f"{TRIED_ELSEWHERE}: accuracy 40.00 %.",)},
            f"Built, not run: no CUDA device. {TRIED_ELSEWHERE}: accuracy 40.00 %. Nothing is known about its speed.",
        ),
        (
            {"verdict": NotRun(reason="the dataset has no images"), "agreement": None},
            "Runs, but was not verified: the dataset has no images. Nothing is known about its answers.",
        ),
    ],
)
def test_what_is_known_of_one_that_was_not_verified(api, user, run, checkpoint, changes, told):
    export = export_job(user, run, checkpoint, backend="tensorrt_rtx", status="running")
    write_export(storage().root, export, backend="tensorrt_rtx", **changes)
    Job.objects.filter(pk=export.pk).update(status="succeeded")
    assert told in words(row_of(page(api, run), export))


def test_a_conversion_that_was_refused_can_be_tried_again(api, user, run, checkpoint):
    error = {
        "error_code": "export.operator_refused",
        "error_message": "No <b>GridSample</b>.",
        "error_hint": "Take ONNX.",
    }
    export = export_job(user, run, checkpoint, precision="fp16", status="failed", ended_at=timezone.now(), **error)
    html = page(api, run)
    row = row_of(html, export)
    assert "No &lt;b&gt;GridSample&lt;/b&gt;." in row
    assert "Take ONNX." in row
    assert 'data-state="failed"' in row
    assert 'name="export"' not in html, "there is nothing to download"
    answer = api.post(f"/exports/{export.pk}/again")
    assert answer.url == f"/runs/{run.pk}/export/"
    made = Job.objects.filter(verb="export").latest("pk")
    assert (made.pk != export.pk, made.status) == (True, "queued")
    assert made.spec == export.spec | {"checkpoint": made.spec["checkpoint"]}
    assert made.spec["checkpoint"]["name"] == "step-40"
    assert "Earlier exports 1" in words(page(api, run))


def test_what_cannot_be_tried_again_says_why(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, status="cancelled")
    assert "Nothing was kept of it." in row_of(page(api, run), export)
    Artifact.objects.filter(made_by=run).update(trashed_at=timezone.now())
    assert "kept no checkpoint" in words(api.post(f"/exports/{export.pk}/again", follow=True).content.decode())


def test_a_report_that_is_gone_is_said_in_its_row(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint)
    shutil.rmtree(storage().job(export.pk).path)
    assert "is gone on the server" in words(row_of(page(api, run), export))


def test_the_newest_of_a_target_stands_in_the_table_and_the_others_below(api, user, run, checkpoint):
    old, new = export_job(user, run, checkpoint), export_job(user, run, checkpoint)
    html = page(api, run)
    assert row_of(html, new)
    assert f'id="export-{old.pk}"' not in html
    assert "Earlier exports 1" in words(html)
    assert f"/jobs/delete?ids={old.pk}" in html
    assert f'href="/runs/{run.pk}/bundle?export={old.pk}"' in html


def test_an_earlier_one_that_is_under_way_can_be_cancelled_and_has_no_bundle(api, user, run, checkpoint):
    old = export_job(user, run, checkpoint, status="running")
    export_job(user, run, checkpoint, status="queued")
    html = page(api, run)
    assert f'href="/jobs/{old.pk}/cancel"' in html
    assert f"bundle?export={old.pk}" not in html


# What is under way.


def test_one_under_way_shows_its_progress_and_is_asked_for_again(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, status="running", stage="verify", done=400, total=1000)
    done = export_job(user, run, checkpoint, backend="pytorch")
    Attempt.objects.create(job=export, n=1, fence=99, host="here")
    html = page(api, run)
    assert f'hx-get="/runs/{run.pk}/export/live?ids={export.pk}"' in html
    row = row_of(live(api, run, export), export)
    assert 'hx-swap-oob="true"' in row
    assert "Verifying 40 %" in words(row)
    assert "400 of 1,000 images" in row
    assert f'href="/runs/{export.pk}/log/1"' in row
    assert f'hx-get="/jobs/{export.pk}/cancel"' in row
    assert f'id="export-{done.pk}"' not in live(api, run, export), "what does not change stays"
    assert "exports-download" not in live(api, run, export)


def test_one_that_ends_brings_its_numbers_and_its_download(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, status="running")
    write_export(storage().root, export)
    Job.objects.filter(pk=export.pk).update(status="succeeded", ended_at=timezone.now())
    html = live(api, run, export)
    assert "ONNX FP32: Passed." in words(html)
    assert "hx-get=" not in html[: html.index("<template>")], "nobody asks any more"
    assert "91.10" in row_of(html, export)
    assert 'id="exports-download"' in html
    assert "checked" in box_of(html, "export", export.pk)


@pytest.mark.parametrize("ids", ["", "x", "1,,2", "99999999999999999999"])
def test_an_odd_list_of_rows_is_an_empty_answer(api, run, ids):
    answer = api.get(f"/runs/{run.pk}/export/live?ids={ids}", headers=HTMX)
    assert answer.status_code == 200
    assert b"<tbody" not in answer.content


def test_the_exports_of_a_run_that_trains_wait_for_it(api, run):
    Job.objects.filter(pk=run.pk).update(status="running")
    assert "Exports wait for its end" in words(page(api, run))
    assert submit(api, run, "onnx:fp32").status_code == 302
    export = Job.objects.get(verb="export")
    assert export.status == "waiting"
    row = row_of(page(api, run), export)
    assert "Waiting" in row
    assert "Waiting for the training &lt;i&gt;Owls&lt;/i&gt; to end" in row


# Who answers for what failed.


def test_a_failed_export_is_handed_out_once_somebody_says_why(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint, outcome="failed")
    path = f"/exports/{export.pk}/override"
    dialog = api.get(path, headers=HTMX).content.decode()
    assert LOST in dialog
    assert "<!DOCTYPE" in api.get(path).content.decode()
    assert "Say why" in api.post(path, {"reason": "  "}, headers=HTMX).content.decode()
    assert "Say why" in api.post(path, {"reason": "x" * 501}, headers=HTMX).content.decode()
    assert not ExportOverride.objects.exists()
    answer = api.post(path, {"reason": "For <b>the fair</b>"}, headers=HTMX)
    assert answer.headers["HX-Redirect"] == f"/runs/{run.pk}/export/"
    html = page(api, run)
    assert "Handed out all the same by ada , just now : For &lt;b&gt;the fair&lt;/b&gt;" in words(row_of(html, export))
    assert "disabled" not in box_of(html, "export", export.pk)
    assert "checked" not in box_of(html, "export", export.pk), "it is taken by hand"
    assert f"/api/v1/exports/{export.pk}/files/model.onnx" in html
    assert api.post(path, {"end": "1"}).url == f"/runs/{run.pk}/export/"
    assert "disabled" in box_of(page(api, run), "export", export.pk)


def test_what_passed_needs_nobody_to_answer_for_it(api, user, run, checkpoint):
    export = export_job(user, run, checkpoint)
    assert "passed its verification" in words(
        api.post(f"/exports/{export.pk}/override", {"reason": "why not"}, headers=HTMX).content.decode()
    )


def test_others_may_look_and_change_nothing(client, other_user, user, run, checkpoint):
    failed = export_job(user, run, checkpoint, outcome="failed")
    running = export_job(user, run, checkpoint, precision="fp16", status="running")
    client.force_login(other_user)
    html = page(client, run)
    assert LOST in html
    assert f"/jobs/{running.pk}/cancel" not in html
    assert f"/exports/{failed.pk}/override" not in html
    answer = client.post(f"/exports/{failed.pk}/override", {"reason": "mine"}, headers=HTMX)
    assert "Ask its owner or an administrator." in answer.content.decode()
    assert not ExportOverride.objects.exists()


def test_private_runs_are_not_there_for_others(client, other_user, user, run, checkpoint):
    export = export_job(user, run, checkpoint, outcome="failed", private=True)
    Job.objects.filter(pk=run.pk).update(private=True)
    client.force_login(other_user)
    for path in (
        f"/runs/{run.pk}/export/",
        f"/runs/{run.pk}/export/live?ids={export.pk}",
        f"/exports/{export.pk}/override",
    ):
        assert client.get(path).status_code == 404
    assert submit(client, run, "onnx:fp32").status_code == 404
    assert client.post(f"/exports/{export.pk}/again").status_code == 404
    assert Job.objects.filter(verb="export").count() == 1


def test_names_are_only_ever_text(api, user, run, checkpoint):
    write_export(
        storage().root,
        export_job(user, run, checkpoint, status="running"),
        notes=("<img src=x>",),
        versions={"<u>torch</u>": "2"},
    )
    Job.objects.filter(verb="export").update(status="succeeded")
    Job.objects.filter(verb="import").update(title="<s>Digits</s>")
    html = page(api, run)
    for hostile in ("<i>Owls", "<img src=x", "<u>torch", "<s>Digits"):
        assert hostile not in html
    assert "&lt;s&gt;Digits&lt;/s&gt; (trained on)" in html


def test_the_page_is_a_tab_of_the_run_and_its_button_leads_here(api, run, checkpoint):
    html = page(api, run)
    tabs = re.findall(r'<a class="tab"\s+href="([^"]*)"([^>]*)>([^<]*)</a>', html)
    assert [name for _, mark, name in tabs if "aria-current" in mark] == ["Export"]
    names = [name for _, _, name in tabs]
    assert names[names.index("Try it") : names.index("Classify") + 1] == ["Try it", "Export", "Classify"]
    assert f'class="btn" href="/runs/{run.pk}/export/"' in api.get(f"/runs/{run.pk}/").content.decode()


def test_as_many_queries_for_ten_exports_as_for_one(api, user, run, checkpoint):
    def n_queries():
        with CaptureQueriesContext(connection) as captured:
            page(api, run)
        return len(captured)

    export_job(user, run, checkpoint)
    few = n_queries()
    for _ in range(9):
        export_job(user, run, checkpoint)
    assert n_queries() == few
