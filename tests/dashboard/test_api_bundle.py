"""What leaves the server: bundles and single files of exports, for whom, whole, in parts, or not at all."""

from __future__ import annotations

import io
import json
import zipfile

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from dashboard.downloads import filename_of
from jobs.models import ExportOverride, Job, JobInput
from jobs.storage import storage
from tests.dashboard.makers import checkpoint_of, evaluation_job, import_job, training_job
from tests.kits.exported import export_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(user):
    dataset = import_job(user)
    run = training_job(user, dataset, status="succeeded", title='Owls "2026"/\n; \u00e9t\u00e9')
    JobInput.objects.create(job=run, artifact=dataset.artifacts.get(), role="dataset")
    return run


@pytest.fixture
def checkpoint(run):
    return checkpoint_of(run)


@pytest.fixture
def exported(user, run, checkpoint):
    return lambda **values: export_job(user, run, checkpoint, **values)


def path_of(run, *exports):
    return f"/api/v1/trainings/{run.pk}/bundle?" + "&".join(f"export={export.pk}" for export in exports)


def refusal(answer, status, code):
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["hint"]
    return answer.json()["error"]["message"]


def fetched(user, path, **headers):
    """The answer and its bytes; needs a database that other threads see."""

    async def fetch():
        browser = AsyncClient()
        await browser.aforce_login(user)
        answer = await browser.get(path, headers=headers)
        return answer, b"".join([chunk async for chunk in answer.streaming_content])

    return async_to_sync(fetch)()


def members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as read:
        assert read.testzip() is None
        return {name.partition("/")[2]: read.read(name) for name in read.namelist()}


@pytest.mark.django_db(transaction=True)
def test_a_bundle_of_what_was_chosen(user, run, checkpoint, exported):
    evaluation_job(user, run, checkpoint)
    passed, engine, other = exported(), exported(backend="tensorrt_rtx", outcome="not_run"), exported(precision="fp16")
    answer, data = fetched(user, path_of(run, passed, engine))
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/zip"
    assert int(answer.headers["Content-Length"]) == len(data)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    disposition = answer.headers["Content-Disposition"]
    assert disposition == "attachment; filename*=utf-8''Owls%20-2026-%20%C3%A9t%C3%A9.zip"
    files = members(data)
    assert "models/onnx-fp32/model.onnx" in files
    assert "models/tensorrt_rtx-fp32/sm89.engine" in files
    assert f"models/onnx-{other.spec['precision']}/model.onnx" not in files
    card = files["MODEL_CARD.md"].decode()
    assert "| val | 3 | 66.67 % |" in card
    assert "LeNet-5" in card
    _, again = fetched(user, path_of(run, engine, passed, passed))
    assert again == data


@pytest.mark.django_db(transaction=True)
def test_the_page_gives_the_same_bundle(user, run, exported):
    passed = exported()
    assert fetched(user, f"/runs/{run.pk}/bundle?export={passed.pk}")[1] == fetched(user, path_of(run, passed))[1]


def test_a_page_says_what_is_wrong(client, user, run):
    client.force_login(user)
    for query, status in (("", 409), ("?export=x", 422), ("?export=99999999999999999999", 422)):
        answer = client.get(f"/runs/{run.pk}/bundle{query}")
        assert answer.status_code == status, query
    assert "No export of" in client.get(f"/runs/{run.pk}/bundle").content.decode()


@pytest.mark.django_db(transaction=True)
def test_one_that_failed_goes_out_with_its_override_alone(api, user, run, exported):
    passed, failed = exported(), exported(precision="int8", outcome="failed")
    for path in (path_of(run, passed, failed), f"/api/v1/exports/{failed.pk}/files/model.onnx"):
        message = refusal(api.get(path), 409, "action.refused")
        assert failed.title in message
        assert "3.20 points" in message
    ExportOverride.objects.create(job=failed, by=user, reason="| We <b>accept</b> it")
    files = members(fetched(user, path_of(run, passed, failed))[1])
    assert "who says: \\| We &lt;b&gt;accept&lt;/b&gt; it" in files["MODEL_CARD.md"].decode()
    (model,) = [each for each in json.loads(files["bundle.json"])["models"] if each["name"] == "onnx-int8"]
    assert (model["verdict"], model["override"]["by"]) == ("overridden", "ada")
    assert fetched(user, f"/api/v1/exports/{failed.pk}/files/model.onnx")[0].status_code == 200


def test_what_can_not_be_bundled_is_refused(api, user, run, exported):
    assert "No export" in refusal(api.get(path_of(run)), 409, "action.refused")
    refusal(api.get(path_of(run) + "export=0"), 422, "request.invalid")
    refusal(api.get(path_of(run) + "export=9"), 404, "not_found")
    refusal(api.get(path_of(run, run)), 404, "not_found")
    one, twin, running = exported(), exported(), exported(status="running")
    assert "Two of the chosen exports are onnx-fp32" in refusal(api.get(path_of(run, one, twin)), 409, "action.refused")
    assert "running" in refusal(api.get(path_of(run, one, running)), 409, "action.refused")
    broken = exported(precision="fp16", status="failed", error_message="Refused.", error_hint="Try another.")
    assert "has made nothing: Refused." in refusal(api.get(path_of(run, broken)), 409, "action.refused")
    other_run = training_job(user, import_job(user), status="succeeded")
    foreign = export_job(user, other_run, checkpoint_of(other_run))
    assert "not one of" in refusal(api.get(path_of(run, foreign)), 404, "not_found")
    many = "&".join(["export=1"] * 40)
    assert "too many" in refusal(api.get(f"/api/v1/trainings/{run.pk}/bundle?{many}"), 409, "action.refused")


def test_exports_of_two_checkpoints_make_two_bundles(api, user, run, checkpoint, exported):
    later = checkpoint_of(run, step=80)
    later.sha256 = "d" * 64
    later.save()
    pair = exported(), export_job(user, run, later, precision="fp16")
    message = refusal(api.get(path_of(run, *pair)), 409, "action.refused")
    assert "different checkpoints: step-40, step-80" in message


def test_files_that_are_gone_are_told_before_the_download(api, run, exported):
    export = exported()
    folder = storage().job(export.pk).export_dir
    (folder / "model.onnx").write_bytes(b"shorter")
    assert "has 7 bytes" in refusal(api.get(path_of(run, export)), 404, "not_found")
    (folder / "model.onnx").unlink()
    assert "model.onnx is gone" in refusal(api.get(path_of(run, export)), 404, "not_found")
    refusal(api.get(f"/api/v1/exports/{export.pk}/files/model.onnx"), 404, "not_found")
    (folder / "report.json").unlink()
    refusal(api.get(path_of(run, export)), 404, "not_found")


@pytest.mark.django_db(transaction=True)
def test_a_single_file_and_no_other(api, user, run, exported):
    engine = exported(backend="tensorrt_rtx", outcome="not_run")
    answer, data = fetched(user, f"/api/v1/exports/{engine.pk}/files/engines/sm89.engine")
    assert data == b"tensorrt_rtx fp32 8.9" * 20
    assert answer.headers["Content-Disposition"] == 'attachment; filename="sm89.engine"'
    assert answer.headers["Content-Type"] == "application/octet-stream"
    for path in ("report.json", "../../spec.json", "engines", "%2e%2e/x", "engines/sm90.engine"):
        assert api.get(f"/api/v1/exports/{engine.pk}/files/{path}").status_code == 404, path
    assert "sm86.engine" in api.get(f"/api/v1/exports/{engine.pk}/files/x").json()["error"]["hint"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("asked", "start", "stop"),
    [("bytes=100-", 100, None), ("bytes=100-199", 100, 200), ("bytes=-50", -50, None), ("bytes=5-99999999", 5, None)],
)
def test_a_download_goes_on_where_it_stopped(user, run, exported, asked, start, stop):
    path = path_of(run, exported())
    whole, data = fetched(user, path)
    assert whole.headers["Accept-Ranges"] == "bytes"
    part, rest = fetched(user, path, Range=asked, **{"If-Range": whole.headers["ETag"]})
    assert (part.status_code, rest) == (206, data[start:stop])
    first = start % len(data)
    assert part.headers["Content-Range"] == f"bytes {first}-{first + len(rest) - 1}/{len(data)}"
    assert int(part.headers["Content-Length"]) == len(rest)
    anew, all_of_it = fetched(user, path, Range=asked, **{"If-Range": '"another"'})
    assert (anew.status_code, all_of_it) == (200, data)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("asked", ["bytes=9-5", "bytes=-", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b"])
def test_a_range_that_makes_no_sense_gives_all_of_it(user, run, exported, asked):
    assert fetched(user, path_of(run, exported()), Range=asked)[0].status_code == 200


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0"])
def test_a_range_behind_the_end_is_refused(api, run, exported, asked):
    answer = api.get(path_of(run, exported()), headers={"Range": asked})
    assert answer.status_code == 416
    assert answer.headers["Content-Range"].startswith("bytes */")


@pytest.mark.django_db(transaction=True)
def test_what_is_private_stays_so(api, user, other_user, run, checkpoint, exported):
    secret = export_job(other_user, run, checkpoint, private=True)
    refusal(api.get(path_of(run, secret)), 404, "not_found")
    refusal(api.get(f"/api/v1/exports/{secret.pk}/files/model.onnx"), 404, "not_found")
    mine = exported()
    Job.objects.filter(pk__in=Job.objects.filter(verb="import")).update(private=True, owner=other_user, title="secret")
    card = members(fetched(user, path_of(run, mine))[1])["MODEL_CARD.md"].decode()
    assert "secret" not in card
    Job.objects.filter(pk=run.pk).update(private=True, owner=other_user)
    refusal(api.get(path_of(run, mine)), 404, "not_found")


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("LeNet on digits", "LeNet on digits.zip"),
        ("../../etc/passwd", "etc-passwd.zip"),
        ("\u732b", "\u732b.zip"),
        ("\n\r;", "run-7.zip"),
        ("x" * 300, "x" * 100 + ".zip"),
    ],
)
def test_a_title_makes_a_name_that_is_safe_to_save(title, name):
    assert filename_of(title, ".zip", otherwise="run-7") == name
