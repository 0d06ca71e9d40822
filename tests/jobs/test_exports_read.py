from __future__ import annotations

import shutil

import pytest

from jobs import exports, services
from jobs.models import ExportOverride, Job
from jobs.states import Status
from jobs.storage import storage
from jobs.summaries import job_summary
from tests.kits.exported import LOST, NO_GPU, export_job, meta_of, write_export
from wire.errors import ActionRefused, NotFound, SpecInvalid

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(trained):
    return trained()


@pytest.mark.slow
@pytest.mark.parametrize("outcome", ["passed", "failed", "not_run"])
@pytest.mark.parametrize(("backend", "precision"), [("onnx", "int8"), ("tensorrt_rtx", "fp16")])
def test_the_kit_announces_what_the_engine_announces(user, run, outcome, backend, precision):
    from engine.export.report import make_meta

    report = exports.export_report_of(export_job(user, run, backend=backend, precision=precision, outcome=outcome))
    assert meta_of(report) == make_meta(report)


def row_of(job, user):
    return exports.export_row(job, user)


def test_the_newest_of_each_target_comes_first_in_the_order_of_the_cards(user, run):
    old = export_job(user, run, precision="int8")
    made = [
        export_job(user, run, backend=backend, precision=precision)
        for backend, precision in (
            ("tensorrt_rtx", "fp32"), ("onnx", "int8"), ("onnx", "fp16"), ("onnx", "fp32"), ("pytorch", "fp32")
        )
    ]  # fmt: skip
    rows = exports.exports_of(user, run.pk)
    assert [row.id for row in rows] == [*(made[n].pk for n in (4, 3, 2, 1, 0)), old.pk]
    assert [row.is_newest for row in rows] == [True] * 5 + [False]


def test_a_backend_that_is_gone_is_still_listed(user, run):
    export_job(user, run)
    Job.objects.filter(verb="export").update(spec=export_job(user, run).spec | {"backend": {"name": "abacus"}})
    assert {row.backend_label for row in exports.exports_of(user, run.pk)} == {"abacus"}


def test_rows_cost_the_same_however_many(user, run, django_assert_max_num_queries):
    for _ in range(4):
        ExportOverride.objects.create(job=export_job(user, run, outcome="failed"), by=user, reason="r")
    with django_assert_max_num_queries(4):
        assert len(exports.exports_of(user, run.pk)) == 4


@pytest.mark.parametrize(
    ("outcome", "reasons", "is_deliverable"),
    [("passed", (), True), ("failed", (LOST,), False), ("not_run", (NO_GPU,), True)],
)
def test_what_an_export_says_of_itself(user, run, outcome, reasons, is_deliverable):
    job = export_job(user, run, outcome=outcome)
    row = row_of(job, user)
    assert (row.outcome, row.reasons, row.is_deliverable, row.has_files) == (outcome, reasons, is_deliverable, True)
    assert (row.backend_label, row.precision, row.error, row.override) == ("ONNX", "fp32", None, None)
    report = exports.export_report_of(job)
    assert row.figures.model_dump(mode="json", exclude_none=True).items() <= meta_of(report).items()
    assert (row.figures.accuracy is None) == (outcome == "not_run")
    assert (row.checkpoint.name, row.checkpoint.why) == ("step-40", "Best val/top1, 91.20 %")
    assert (row.dataset.title, row.may_change, row.may_override) == ("digits", True, True)
    assert job_summary(job, user).report_meta["outcome"] == outcome


def test_a_conversion_that_was_refused_has_failed_by_its_message(user, run):
    job = export_job(
        user, run, status="failed", error_code="export.operator_refused",
        error_message="ONNX knows no operator aten::fft", error_hint="Leave it out.",
    )  # fmt: skip
    row = row_of(job, user)
    assert (row.outcome, row.reasons) == ("failed", ("ONNX knows no operator aten::fft",))
    assert (row.error.code, row.error.hint) == ("export.operator_refused", "Leave it out.")
    assert (row.has_files, row.is_deliverable, row.figures) == (False, False, None)
    with pytest.raises(ActionRefused, match="made nothing: it is failed") as said:
        exports.export_report_of(job)
    assert said.value.hint == "Leave it out."


@pytest.mark.parametrize("status", [Status.WAITING, Status.QUEUED, Status.RUNNING, Status.CANCELLED])
def test_one_without_an_end_of_its_own_has_no_outcome(user, run, status):
    job = export_job(user, run, status=status, stage="verify", done=3, total=9, wait_reason="a while")
    row = row_of(job, user)
    assert (row.outcome, row.reasons, row.is_deliverable) == ("", (), False)
    assert (row.status, row.stage, row.done, row.total, row.wait_reason) == (status, "verify", 3, 9, "a while")
    assert (row.checkpoint is None) == (status == Status.WAITING)


def test_what_an_export_announces_while_it_ends_is_no_verdict_yet(user, run):
    job = export_job(user, run, status="running")
    write_export(storage().root, job)
    assert (row_of(job, user).outcome, row_of(job, user).is_deliverable) == ("", False)


def test_others_see_open_exports_and_change_none(user, other_user, run):
    job = export_job(user, run)
    row = row_of(job, other_user)
    assert (row.may_change, row.may_override) == (False, False)
    secret = export_job(user, run, private=True)
    assert [row.id for row in exports.exports_of(other_user, run.pk)] == [job.pk]
    with pytest.raises(NotFound):
        exports.export_for(other_user, secret.pk)
    with pytest.raises(NotFound, match="is no export"):
        exports.export_for(user, run.pk)


def test_files_that_are_gone_or_damaged(user, run):
    job = export_job(user, run)
    folder = exports.export_dir_of(job)
    assert exports.has_files(job)
    folder.report_path.write_text("{")
    with pytest.raises(NotFound, match="cannot be read"):
        exports.export_report_of(job)
    folder.report_path.unlink()
    with pytest.raises(NotFound, match="is gone"):
        exports.export_report_of(job)
    shutil.rmtree(folder.path)
    with pytest.raises(NotFound, match="is gone"):
        exports.export_dir_of(job)
    assert not exports.has_files(job)


# Answering for one that failed.


def test_somebody_answers_for_an_export_that_failed(user, admin_user, run):
    job = export_job(user, run, outcome="failed")
    services.export_override(user, job.pk, "  Good enough for the demo \n")
    row = row_of(job, user)
    assert (row.override.by, row.override.reason) == (user.username, "Good enough for the demo")
    assert (row.outcome, row.is_deliverable) == ("failed", True)
    first_at = row.override.at
    services.export_override(admin_user, job.pk, "Because")
    row = row_of(job, user)
    assert (row.override.by, row.override.reason) == (admin_user.username, "Because")
    assert row.override.at >= first_at
    for _ in range(2):
        services.export_override_end(user, job.pk)
    assert (row_of(job, user).override, row_of(job, user).is_deliverable) == (None, False)


@pytest.mark.parametrize(
    ("outcome", "says"), [("passed", "passed its verification"), ("not_run", "could not be run here")]
)
def test_there_is_nothing_to_answer_for(user, run, outcome, says):
    with pytest.raises(ActionRefused, match=says):
        services.export_override(user, export_job(user, run, outcome=outcome).pk, "because")


@pytest.mark.parametrize(("status", "says"), [("failed", "left no files"), ("running", "is running")])
def test_what_has_no_files_cannot_be_answered_for(user, run, status, says):
    with pytest.raises(ActionRefused, match=says):
        services.export_override(user, export_job(user, run, status=status).pk, "because")


@pytest.mark.parametrize("reason", ["", "  ", "x" * 501])
def test_a_reason_has_a_length(user, run, reason):
    with pytest.raises(SpecInvalid, match="characters"):
        services.export_override(user, export_job(user, run, outcome="failed").pk, reason)


def test_only_the_owner_of_the_run_answers(user, other_user, run):
    job = export_job(other_user, run, outcome="failed")
    for action in (lambda: services.export_override(other_user, job.pk, "mine"), lambda: end(other_user, job)):
        with pytest.raises(ActionRefused, match=f"made of a run of {user.username}"):
            action()
    services.export_override(user, job.pk, "mine")
    assert exports.export_row(job, other_user).override.by == user.username


def end(user, job):
    return services.export_override_end(user, job.pk)


def test_an_override_goes_with_its_export(user, run):
    job = export_job(user, run, outcome="failed")
    services.export_override(user, job.pk, "because")
    job.delete()
    assert not ExportOverride.objects.exists()
