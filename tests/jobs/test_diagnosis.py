from __future__ import annotations

import signal

import pytest

from jobs import causes, services
from jobs.causes import cause_of
from jobs.diagnosis import diagnose
from jobs.fixes import FIX_NAMES, Case, change_of
from jobs.models import Artifact, Attempt, Job, JobEvent
from jobs.storage import storage
from wire.errors import ActionRefused, NotFound, error_codes
from wire.specs import Choice, FromPublished, TrainOptions, TrainSpec

ALL_CAUSES = [cause for cause in vars(causes).values() if isinstance(cause, causes.Cause)]


@pytest.mark.parametrize(
    ("code", "message", "log", "number", "expected"),
    [
        ("device.out_of_memory", "The device's memory is used up: CUDA out of memory.", "", None, causes.DEVICE_MEMORY),
        ("device.out_of_memory", "The machine's memory (RAM) is used up.", "", None, causes.HOST_MEMORY),
        ("host.out_of_memory", "", "", 9, causes.HOST_MEMORY),
        ("loss.not_finite", "", "", None, causes.NOT_FINITE),
        ("process.hung", "", "", 9, causes.HUNG),
        ("attempts.exhausted", "killed", "", signal.SIGKILL, causes.KILLED),
        ("attempts.exhausted", "killed", "", signal.SIGSEGV, causes.CRASHED),
        ("attempts.exhausted", "killed", "Bus error", signal.SIGBUS, causes.SHARED_MEMORY),
        ("attempts.exhausted", "status 1", "", None, causes.GIVEN_UP),
        ("attempts.exhausted", "status 1", "RuntimeError: No space left on device", None, causes.DISK),
        ("unexpected", "RuntimeError: The NVIDIA driver on your system is too old", "", None, causes.DRIVER),
        ("unexpected", "RuntimeError: CUDA out of memory. Tried to allocate", "", None, causes.DEVICE_MEMORY),
        ("unexpected", "IndexError: Target 12 is out of bounds.", "", None, causes.LABELS),
        ("unexpected", "ValueError: what", "", None, causes.UNKNOWN),
        ("", "", "", None, causes.UNKNOWN),
        ("spec.invalid", "CUDA out of memory stands in the title", "", None, causes.SETTINGS),
        ("model.of_the_future", "", "", None, causes.UNKNOWN),
    ],
)
def test_what_lies_behind_an_error(code, message, log, number, expected):
    assert cause_of(code, message, log, number) is expected


def test_causes_are_of_codes_that_there_are_and_fixes_too():
    assert set(causes.BY_CODE) <= set(error_codes())
    for cause in ALL_CAUSES:
        assert set(cause.fixes) <= set(FIX_NAMES)
        assert cause.sentence.endswith(".")


def case(*, on_gpu=False, wants=("any",), n_halvings=0, init=None, **options):
    spec = TrainSpec(dataset="../1/artifacts/dataset", model=Choice(name="lenet5"), options=TrainOptions(**options))
    spec = spec if init is None else spec.model_copy(update={"init": init})
    return Case(spec, on_gpu=on_gpu, wants=wants, n_halvings=n_halvings)


@pytest.mark.parametrize(
    ("name", "of", "words"),
    [
        ("again", case(), "unchanged"),
        ("smaller_batch", case(batch_size=64), "batch size 64 → 32"),
        ("smaller_batch", case(batch_size=64, n_halvings=3), "batch size 64 → 4"),
        ("smaller_batch", case(batch_size=3, n_halvings=3), "batch size 3 → 2"),
        ("smaller_batch", case(batch_size=2), None),
        ("smaller_image", case(image_px=224), "image size 224 → 168 px"),
        ("smaller_image", case(image_px=32), None),  # LeNet's least
        ("lower_rate", case(learning_rate=0.001), "learning rate 0.001 → 0.0001"),
        ("fp32", case(precision="fp16"), "precision fp16 → fp32"),
        ("fp32", case(precision="auto"), None),  # which is fp32 on a CPU
        ("fp32", case(precision="auto", on_gpu=True), "precision auto → fp32"),
        ("bf16", case(precision="fp32", on_gpu=True), "precision fp32 → bf16"),
        ("bf16", case(precision="fp32"), None),
        ("any_device", case(wants=("GPU-1",)), "device: any"),
        ("any_device", case(), None),
        ("on_cpu", case(on_gpu=True), "device: CPU, which is much slower"),
        ("on_cpu", case(wants=("cpu",)), None),
        ("from_scratch", case(), None),
        ("from_scratch", case(init=FromPublished(weights="x")), "start: published → random weights"),
        ("no_such_fix", case(), None),
    ],
)
def test_what_a_fix_changes(name, of, words):
    change = change_of(name, of)
    assert (change and change.words) == words


@pytest.fixture
def failed(trained):
    """A training that failed, as its supervisor left it."""

    def make(code="loss.not_finite", *, status="failed", number=None, log="line 1\nthe end\n", **columns):
        run = trained(status=status, error_code=code, error_message="What it said.\nthe end", error_hint="Do that.")
        Job.objects.filter(pk=run.pk).update(**columns)
        run.refresh_from_db()
        Attempt.objects.create(job=run, n=1, fence=1, host="here", signal=number, devices=["CPU (x)"])
        path = storage().job(run.pk).attempt(1).log_path
        path.parent.mkdir(parents=True)
        path.write_text(log)
        return run

    return make


pytestmark = pytest.mark.django_db


def test_a_diagnosis_says_all_that_a_page_shows(failed):
    found = diagnose(failed())
    assert (found.code, found.title) == ("loss.not_finite", "The loss left the range of numbers")
    assert (found.message, found.hint) == ("What it said.", "Do that.")
    assert found.last_lines == "line 1\nthe end"
    assert [fix.name for fix in found.fixes] == ["lower_rate"]
    assert found.stacks == ""


def test_what_did_not_fail_has_no_diagnosis(trained):
    assert diagnose(trained()) is None
    assert diagnose(trained(status="cancelled")) is None


def test_the_stacks_of_one_that_hung_are_shown(failed):
    run = failed("process.hung", status="errored")
    storage().job(run.pk).attempt(1).stacks_path.write_text("no step for 125 s\n\nin forward")
    assert "in forward" in diagnose(run).stacks


def test_a_batch_that_was_halved_in_vain_is_made_as_small_as_what_was_tried(failed):
    run = failed("device.out_of_memory")
    for seq in range(3):
        body = {"level": "warning", "code": "memory.micro_batch", "text": ""}
        JobEvent.objects.create(job=run, seq=900 + seq, at=run.created_at, kind="notice", body=body)
    fixes = {fix.name: fix.change for fix in diagnose(run).fixes}
    assert fixes["smaller_batch"] == "batch size 64 → 4"


def test_a_fix_starts_a_new_run_with_the_change_and_keeps_the_old_one(failed, user):
    run = failed()
    job = services.job_mend(user, run.pk, "lower_rate")
    assert (job.retry_of_id, job.status, job.title) == (run.pk, "queued", run.title)
    before, after = (TrainSpec.model_validate(each.spec) for each in (run, job))
    assert after.options.learning_rate == pytest.approx(before.options.learning_rate / 10)
    assert after.model_copy(update={"options": before.options}) == before
    assert job.notes.startswith(f"After run #{run.pk} (loss.not_finite): learning rate 0.001 → 0.0001.")
    run.refresh_from_db()
    assert run.status == "failed"


def test_two_clicks_are_one_run_until_it_has_ended(failed, user):
    run = failed("host.out_of_memory")
    first = services.job_mend(user, run.pk, "smaller_batch")
    assert services.job_mend(user, run.pk, "smaller_batch") == first
    again = services.job_mend(user, run.pk, "again")
    assert again != first
    assert again.spec == run.spec
    assert services.job_mend(user, run.pk, "again") == again
    Job.objects.filter(pk=first.pk).update(status="failed")
    assert services.job_mend(user, run.pk, "smaller_batch") != first


def test_devices_and_start_are_changed_too(failed, user, imported):
    run = failed("device.lost", wants=["cpu"])
    assert services.job_mend(user, run.pk, "any_device").wants == ["any"]
    source = failed("weights.mismatch")
    Job.objects.filter(pk=source.pk).update(spec=source.spec | {"init": {"kind": "checkpoint", "path": "../1/x"}})
    job = services.job_mend(user, source.pk, "from_scratch")
    assert job.spec["init"] == {"kind": "scratch"}


def test_no_checkpoint_that_can_be_read_begins_anew_when_asked(failed, user):
    run = failed("checkpoint.none_intact")
    assert [fix.name for fix in diagnose(run).fixes] == ["begin_anew"]
    assert services.job_mend(user, run.pk, "begin_anew").retry_of_id == run.pk


@pytest.mark.parametrize("name", ["fp32", "delete_everything", ""])
def test_what_is_no_fix_for_it_is_refused_with_those_that_are(failed, user, name):
    with pytest.raises(ActionRefused) as refused:
        services.job_mend(user, failed().pk, name)
    assert "lower_rate" in refused.value.hint


def test_what_did_not_fail_is_not_mended(trained, user):
    with pytest.raises(ActionRefused, match="is no fix"):
        services.job_mend(user, trained().pk, "again")


def test_anybody_who_sees_a_run_mends_it_as_his_own(failed, other_user):
    run = failed()
    assert services.job_mend(other_user, run.pk, "lower_rate").owner == other_user
    Job.objects.filter(pk=run.pk).update(private=True)
    with pytest.raises(NotFound):
        services.job_mend(other_user, run.pk, "lower_rate")


def test_what_is_no_training_is_explained_and_not_mended(user, imported):
    job = imported(status="errored", error_code="disk.full", error_message="No room.")
    Artifact.objects.filter(made_by=job).delete()
    found = diagnose(job)
    assert (found.title, found.fixes) == ("The disk is full", [])


def test_images_that_are_gone_are_imported_again_and_the_training_waits_for_them(failed, user):
    run = failed("dataset.missing")
    job = services.job_mend(user, run.pk, "import_again")
    assert (job.status, job.retry_of_id) == ("waiting", run.pk)
    source = Job.objects.get(pk=run.inputs.get(role="dataset").artifact.made_by_id)
    new = Job.objects.filter(verb="import").latest("pk")
    assert new.spec == source.spec
    assert job.spec["dataset"] == f"../{new.pk}/artifacts/dataset"
    assert services.job_mend(user, run.pk, "import_again") == job
    assert Job.objects.filter(verb="import").count() == 2
