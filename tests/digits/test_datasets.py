"""DIGITS' behaviours T-10 to T-24, of classification datasets, on the API. docs/digits.md says what is replaced."""

from __future__ import annotations

import io
import re

import pytest
from PIL import Image

from jobs import services
from jobs.models import Job
from jobs.states import Status
from jobs.storage import storage
from jobs.upload_files import UploadFile
from tests.digits.conftest import folder, import_wish
from tests.digits.toy import CLASSES, N_EACH, SMALL_CLASS, VARIANTS, write_toy
from tests.flow.running import until_ended, until_quiet
from tests.kits.settling import settle

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

N_ALL = N_EACH * len(CLASSES)


@pytest.fixture(params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


@pytest.fixture
def variant_toy(roots, variant):
    return write_toy(roots / "toy", variant=variant)


@pytest.fixture
def dataset(digits_api, variant_toy):
    """Of each variant of T-24."""
    return digits_api.imported(folder(variant_toy), val_pct=20)


def test_t10_the_page_is_there_and_an_unknown_dataset_is_not(api):
    page = api.get("/datasets/new/")
    assert page.status_code == 200
    assert re.search(r"<title>\s*New dataset", page.content.decode())
    for path in ("/datasets/999999/", "/api/v1/datasets/999999"):
        assert api.get(path).status_code == 404


@pytest.mark.parametrize("field", ["path", "val_path", "test_path"])
def test_t11_a_folder_that_does_not_exist_is_refused_at_once(field, digits_api, toy):
    source = folder(toy) | {field: f"{toy}/nowhere"}
    status, error = digits_api.refused("/datasets", import_wish(source))
    assert (status, error["code"]) == (400, "spec.invalid")
    assert f"{toy}/nowhere" in error["message"]
    assert error["hint"]
    assert not Job.objects.exists()


@pytest.mark.django_db(transaction=True)
class TestLifecycle:
    """With supervisors and engines of their own."""

    @pytest.fixture
    def wish(self, redis_server, toy):
        return import_wish(folder(toy))

    @pytest.fixture
    def is_gone(self, api):
        def look(job):
            answer = api.delete(f"/api/v1/jobs/{job.pk}")
            assert answer.status_code == 204, answer.content
            assert api.get(f"/api/v1/datasets/{job.pk}").status_code == 404
            assert api.get("/api/v1/datasets").json() == []
            assert api.get(f"/datasets/{job.pk}/").status_code == 404

        return look

    def test_t12_creating_one_gives_its_id(self, digits_api, wish):
        answer = digits_api.post("/datasets", wish)
        assert answer.status_code == 201
        told = digits_api.get(f"/datasets/{answer.json()['id']}")
        assert (told["id"], told["status"], told["title"]) == (answer.json()["id"], "queued", "toy")

    def test_t12_created_and_aborted_it_can_be_deleted(self, digits_api, wish, is_gone):
        job = digits_api.queued("/datasets", wish)
        aborted = digits_api.post(f"/jobs/{job.pk}/cancel", {})
        assert (aborted.status_code, aborted.json()["status"]) == (200, "cancelled")
        is_gone(job)

    def test_t12_created_and_waited_for_it_is_done_and_can_be_deleted(self, digits_api, wish, is_gone):
        job = until_ended(digits_api.queued("/datasets", wish))
        until_quiet()
        assert digits_api.get(f"/datasets/{job.pk}")["status"] == "succeeded"
        is_gone(job)


def test_t12_what_has_not_ended_is_deleted_only_after_it_was_aborted(api, digits_api, toy):
    """DIGITS ended it without a question."""
    job = digits_api.queued("/datasets", import_wish(folder(toy)))
    refused = api.delete(f"/api/v1/jobs/{job.pk}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "action.refused")
    assert "toy" in refused.json()["error"]["message"]
    assert "ancel" in refused.json()["error"]["hint"]
    assert digits_api.get(f"/datasets/{job.pk}")["status"] == "queued"


@pytest.mark.parametrize("where", ["uploaded", "on the server"])
@pytest.mark.parametrize("paths", ["absolute", "relative"])
def test_t13_text_lists_make_a_dataset(paths, where, digits_api, user, toy):
    lines: dict[str, list[str]] = {"train": [], "val": []}
    for label, name in enumerate(CLASSES):
        for n, file in enumerate(sorted((toy / name).iterdir())):
            path = file if paths == "absolute" else file.relative_to(toy)
            lines["val" if n < 3 else "train"].append(f"{path} {label}")
    texts = {name: "\n".join(of_split) for name, of_split in lines.items()} | {"labels": "\n".join(CLASSES)}

    def place(name):
        if where == "uploaded":
            return {"upload": _uploaded(user, f"{name}.txt", texts[name].encode())}
        (toy.parent / f"{name}.txt").write_text(texts[name])
        return {"path": str(toy.parent / f"{name}.txt")}

    source = {"kind": "lists", **{name: place(name) for name in texts}}
    if paths == "relative":
        source["folder"] = str(toy)
    meta = digits_api.imported(source)["dataset_meta"]
    assert meta["classes"] == list(CLASSES)
    assert meta["class_counts"] == {"train": [7, 7, 7], "val": [3, 3, 3]}
    assert meta["left_out"] == {}


def _uploaded(user, name, data):
    upload = services.upload_begin(user, name, len(data))
    file = UploadFile(upload.pk)
    file.append(data)
    file.close()
    return upload.pk


def test_t14_a_dataset_that_was_aborted_cannot_be_looked_at_and_says_why(api, digits_api, toy):
    job = digits_api.queued("/datasets", import_wish(folder(toy)))
    assert digits_api.post(f"/jobs/{job.pk}/cancel", {}).status_code == 200
    for what in ("samples", "classes", "report"):
        answer = api.get(f"/api/v1/datasets/{job.pk}/{what}")
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "dataset.missing"
        assert answer.json()["error"]["message"] == f"toy (#{job.pk}) has no images: its import is cancelled."
    page = api.get(f"/datasets/{job.pk}/")
    assert page.status_code == 200
    assert "cancelled" in page.content.decode().lower()


SEPARATE = pytest.mark.parametrize("separate", [None, "val", "test"])


def _trees(roots, separate, **more):
    """The toy set, and another one for a split of its own; half as large, and with no picture in common."""
    source = folder(write_toy(roots / "toy", **more))
    if separate:
        source[f"{separate}_path"] = str(write_toy(roots / separate, first=N_EACH, **more))
    return source


@SEPARATE
def test_t15_val_and_test_shares_are_exact(separate, digits_api, roots):
    dataset = digits_api.imported(_trees(roots, separate), val_pct=20, test_pct=10)
    counts = {"val": N_ALL * 20 // 100, "test": N_ALL * 10 // 100}
    if separate:
        counts[separate] = 0
    counts["train"] = N_ALL - sum(counts.values())
    if separate:
        counts[separate] = N_ALL
    meta = dataset["dataset_meta"]
    assert meta["counts"] == counts
    assert sum(counts.values()) == meta["n_images"]
    classes = digits_api.get(f"/datasets/{dataset['id']}/classes")
    assert [one["name"] for one in classes] == list(CLASSES)
    assert [one["n_images"] for one in classes] == [meta["n_images"] // len(CLASSES)] * len(CLASSES)
    if separate:
        other = {sample["name"].rpartition("/")[2] for sample in _samples(digits_api, dataset, split=separate)}
        assert other == {f"{n:02}.png" for n in range(N_EACH, 2 * N_EACH)}


def _samples(digits_api, dataset, **query):
    return digits_api.get(f"/datasets/{dataset['id']}/samples", limit=1000, **query)["samples"]


@SEPARATE
def test_t16_a_maximum_is_reached_exactly_in_every_class(separate, digits_api, roots):
    most = N_EACH // 2
    meta = digits_api.imported(_trees(roots, separate), max_per_class=most)["dataset_meta"]
    splits = ["train", *([separate] if separate else [])]
    assert meta["class_counts"] == {split: [most] * len(CLASSES) for split in splits}
    assert meta["left_out"] == {"over_maximum": (N_EACH - most) * len(CLASSES) * len(splits)}


@SEPARATE
def test_t17_a_class_below_the_minimum_is_left_out(separate, digits_api, roots):
    source = _trees(roots, separate, small=True)
    n_small = N_EACH // 2 * (2 if separate else 1)
    kept = digits_api.imported(source, min_per_class=n_small)["dataset_meta"]
    assert SMALL_CLASS in kept["classes"]
    meta = digits_api.imported(source, min_per_class=n_small + 1)["dataset_meta"]
    assert meta["classes"] == list(CLASSES)
    assert meta["left_out"] == {"class_too_small": n_small}


def test_t18_a_clone_is_the_same(api, digits_api, variant_toy):
    options = {"val_pct": 30, "test_pct": 10, "min_per_class": 2, "max_per_class": 9, "seed": 7, "duplicates": "drop"}
    first = digits_api.imported(folder(variant_toy), **options)
    form = api.get("/datasets/new/", {"again": first["id"]}).context["form"]
    sent = {field.bound.html_name: field.bound.value() for field in form.options_form.option_fields}
    assert {name: str(sent[f"options-{name}"]) for name in options} == {k: str(v) for k, v in options.items()}
    sent = {name: "" if value is None else value for name, value in sent.items()}
    sent |= {"from": form.way, "name": form.name, "path": str(variant_toy), "again": first["id"]}
    answer = api.post("/datasets/new/", sent)
    assert answer.status_code == 302, answer.content
    clone = _settled(digits_api, int(answer.headers["Location"].split("/")[2]))

    assert clone["dataset_meta"] == first["dataset_meta"]
    assert digits_api.get(f"/jobs/{clone['id']}/spec") == digits_api.get(f"/jobs/{first['id']}/spec")
    assert _facts(digits_api, clone) == _facts(digits_api, first)
    again = api.get("/datasets/new/", {"again": clone["id"]}).context["form"]
    assert [field.value for field in again.options_form.option_fields] == [
        field.value for field in form.options_form.option_fields
    ]


def _settled(digits_api, job_id):
    assert settle(Job.objects.get(pk=job_id)).status == Status.SUCCEEDED
    return digits_api.get(f"/datasets/{job_id}")


def _facts(digits_api, dataset):
    return [
        {name: sample[name] for name in ("id", "name", "split", "label", "sha256")}
        for sample in _samples(digits_api, dataset)
    ]


def test_t19_it_is_listed_and_its_id_is_right(digits_api, dataset):
    (listed,) = digits_api.get("/datasets")
    assert listed == dataset == digits_api.get(f"/jobs/{dataset['id']}")


def test_t20_the_mean_image_has_the_size_of_the_images(api, dataset, variant):
    """DIGITS resized to a size that was asked for; here it is the size in the middle."""
    answer = api.get(f"/datasets/{dataset['id']}/mean.png")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
    with Image.open(io.BytesIO(answer.content)) as mean:
        assert mean.size == variant.size
    assert len(dataset["dataset_meta"]["mean"]) == len(dataset["dataset_meta"]["std"]) == 3


def test_t21_name_and_notes_can_be_changed(api, dataset):
    path = f"/api/v1/jobs/{dataset['id']}"
    for change in ({"title": "New & better"}, {"notes": "From the **archive**"}):
        assert api.patch(path, change, content_type="application/json").json() | change == api.get(path).json()
    told = api.get(f"/api/v1/datasets/{dataset['id']}").json()
    assert (told["title"], told["notes"]) == ("New & better", "From the **archive**")
    assert "New &amp; better" in api.get(f"/datasets/{dataset['id']}/").content.decode()


@pytest.mark.parametrize("option", ["backend", "compression", "encoding", "resize_width", "resize_channels"])
def test_t22_there_is_one_store_and_nothing_to_choose(option, digits_api, toy):
    status, error = digits_api.refused("/datasets", import_wish(folder(toy), **{option: "lmdb"}))
    assert (status, error["code"]) == (422, "request.invalid")
    assert option in next(iter(error["fields"]))
    dataset = digits_api.imported(folder(toy))
    stored = {file.name for file in storage().job(dataset["id"]).dataset_dir.iterdir()}
    assert stored == {"manifest.json", "samples.sqlite", "images.lmdb", "report.sqlite", "mean.png"}


@pytest.mark.parametrize("split", ["train", "val"])
def test_t23_images_of_each_split_are_shown(split, api, digits_api, dataset, serve):
    samples = _samples(digits_api, dataset, split=split)
    assert len(samples) == dataset["dataset_meta"]["counts"][split]
    assert {sample["split"] for sample in samples} == {split}
    for sample in (samples[0], samples[-1]):
        picture = api.get(sample["picture"])
        assert (picture.status_code, picture.headers["Content-Type"]) == (200, "image/png")
        with Image.open(io.BytesIO(picture.content)) as image:
            assert image.size == (sample["width_px"], sample["height_px"])
    shown = api.get(f"/datasets/{dataset['id']}/gallery/", {"split": split}, headers={"HX-Request": "true"})
    assert shown.status_code == 200
    assert shown.content.decode().count("<img") == len(samples)


def test_t24_images_are_kept_byte_for_byte_whatever_they_are(api, digits_api, dataset, variant, variant_toy):
    meta = dataset["dataset_meta"]
    assert meta["colour"] == ("grey" if variant.grey else "rgb")
    assert (meta["width_px"]["median"], meta["height_px"]["median"]) == variant.size
    samples = _samples(digits_api, dataset)
    for sample in samples:
        original = api.get(sample["original"])
        assert original.content == (variant_toy / sample["name"]).read_bytes()
    assert meta["image_bytes"] == sum((variant_toy / sample["name"]).stat().st_size for sample in samples)


@pytest.mark.parametrize("resize", ["squash", "crop", "fill", "half_crop"])
@pytest.mark.parametrize("colour", ["rgb", "grey"])
def test_t24_size_mode_and_colour_belong_to_the_training(resize, colour, digits_api, toy):
    dataset = digits_api.imported(folder(toy), val_pct=20)
    options = {"image_px": 48, "resize": resize, "colour": colour}
    wish = {"dataset": dataset["id"], "model": {"name": "lenet5"}, "options": options}
    spec = digits_api.post("/trainings/spec", wish).json()
    assert {name: spec["options"][name] for name in options} == options
