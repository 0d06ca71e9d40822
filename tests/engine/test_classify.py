"""Many images of whatever kind through a network that knows its training images by heart."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.classify.looking import make_thumbnail
from engine.data.decode import decode
from engine.predict.session import Session
from engine.store.predictions import PredictionsReader
from tests.kits.predicting import run_once, start, trained
from tests.kits.training import events
from tests.kits.trees import class_tree, encoded, noise
from tests.surroundings import until
from wire.errors import ArchiveInvalid, CheckpointMissing, DatasetInvalid, DatasetMissing, UploadMissing
from wire.events import ArtifactMade, Notice, Progress, RunEnded
from wire.layout import JobDir
from wire.specs import FromFolder, FromLists, FromUpload

pytestmark = pytest.mark.slow

NEST = 'emu\'s "nest" 🐈'
CLASSES = ("cat", "dog", NEST)
STRANGE = ("it's.png", '"quoted".png', "🐈.png", "$(id).png", "a,b.png", "=1+1.png", " blank.png", "%_\\.png", "图.png")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A network that has learned its images by heart, so that their truth is what it answers."""
    root = tmp_path_factory.mktemp("data")
    tree = class_tree(root / "tree", dict.fromkeys(CLASSES, 8), size=(40, 30))
    return trained(root, tree, epochs=12, batch_size=2, val_pct=0)


@pytest.fixture(scope="module")
def folder_job(done):
    job = done.classification(FromFolder(path=str(done.tree)))
    assert run_once(job) == "succeeded"
    return job


def _rows(job: JobDir, **filters):
    with PredictionsReader(job.classification_dir) as predictions:
        return predictions.page(limit=10_000, **filters)


def _meta(job: JobDir) -> dict[str, Any]:
    (made,) = events(job, ArtifactMade)
    json.dumps(made.meta, allow_nan=False)
    return made.meta


def _assert_nothing_left(job: JobDir) -> None:
    assert not job.classification_dir.exists()
    assert events(job, ArtifactMade) == []


def test_class_folders_tell_the_truth(done, folder_job):
    rows = _rows(folder_job)
    assert [row.id for row in rows] == list(range(1, 25))
    assert {row.name for row in rows} == {path.relative_to(done.tree).as_posix() for path in done.tree.rglob("*.png")}
    assert all(CLASSES[row.label] == row.name.split("/")[0] for row in rows)
    assert all(row.label == row.predicted for row in rows)
    assert all((row.split, row.sample, row.error) == (None, None, None) for row in rows)


def test_rows_say_what_the_session_says(done, folder_job):
    session = Session.open(done.storage.job(1).resolve(done.checkpoint.path))
    for row in _rows(folder_job)[:3]:
        image = decode((done.tree / row.name).read_bytes())
        (shares_K,) = session.probabilities(session.pixels(image)[None])
        assert row.predicted == shares_K.argmax()
        assert [label for label, _ in row.top] == np.argsort(-shares_K).tolist()
        assert [share for _, share in row.top] == pytest.approx(sorted(shares_K.tolist(), reverse=True), abs=1e-6)
        assert row.loss == pytest.approx(-np.log(shares_K[row.label]), abs=1e-5)


def test_the_summary(folder_job, done):
    (made,) = events(folder_job, ArtifactMade)
    assert (made.artifact, made.name, made.path) == ("predictions", "classification", "artifacts/classification")
    meta = _meta(folder_job)
    counted = {name: meta[name] for name in ("n_images", "n_unreadable", "n_with_truth", "top1", "top5")}
    assert counted == {"n_images": 24, "n_unreadable": 0, "n_with_truth": 24, "top1": 1.0, "top5": None}
    assert meta["images_s"] > 0
    assert meta["checkpoint"]["sha256"] == done.checkpoint.sha256
    told = [event for event in events(folder_job, Progress) if event.stage == "classify"]
    assert (told[-1].done, told[-1].total) == (24, 24)
    assert {path.name for path in folder_job.classification_dir.iterdir()} == {"predictions.sqlite"}


def test_every_row_has_a_small_picture_of_its_image(done, folder_job):
    with PredictionsReader(folder_job.classification_dir) as predictions:
        for row in predictions.page(limit=3):
            data, mime = predictions.thumbnail(row.id)
            assert mime == "image/png"
            drawn = Image.open(io.BytesIO(data))
            np.testing.assert_array_equal(np.asarray(drawn), np.asarray(Image.open(done.tree / row.name)))


def test_the_surest_of_each_class_are_of_that_class(folder_job):
    with PredictionsReader(folder_job.classification_dir) as predictions:
        for label, name in enumerate(CLASSES):
            surest = predictions.top_of_class(label, 5)
            assert {row.name.split("/")[0] for row in surest} == {name}
            shares = [dict(row.top)[label] for row in surest]
            assert shares == sorted(shares, reverse=True)


def test_it_runs_from_a_shell_with_nothing_but_its_folder(done, folder_job):
    job = done.classification(FromFolder(path=str(done.tree)))
    process = start(job)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert events(job, RunEnded)[-1].outcome == "succeeded"
    assert [row.predicted for row in _rows(job)] == [row.predicted for row in _rows(folder_job)]


def test_splits_above_the_class_folders_and_folders_that_are_no_class(done, tmp_path):
    picture = encoded(noise(40, 30))
    for name in ("train/cat/a.png", "some/where/val/dog/b.png", "wolf/c.png", "cat/black/d.png", "e.png"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    job = done.classification(FromFolder(path=str(tmp_path / "tree")))
    assert run_once(job) == "succeeded"
    truths = {row.name: row.label for row in _rows(job)}
    assert truths == {
        "train/cat/a.png": 0, "some/where/val/dog/b.png": 1, "wolf/c.png": None, "cat/black/d.png": 0, "e.png": None,
    }  # fmt: skip
    assert _meta(job)["n_with_truth"] == 3


def test_a_flat_folder_with_broken_and_strange_files_is_a_row_for_each(done, tmp_path):
    folder = tmp_path / "flat"
    folder.mkdir()
    whole = encoded(noise(40, 30))
    for name in STRANGE:
        (folder / name).write_bytes(whole)
    (folder / "cut.jpg").write_bytes(encoded(noise(40, 30), "JPEG")[:300])
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.png").write_bytes(b"<svg onload=alert(1)></svg>")
    (folder / ".DS_Store").write_bytes(b"clutter")
    (folder / "link.png").symlink_to("/etc/passwd")
    job = done.classification(FromFolder(path=str(folder)), top=2)
    assert run_once(job) == "succeeded"
    rows = {row.name: row for row in _rows(job)}
    assert set(rows) == {*STRANGE, "cut.jpg", "empty.png", "text.png", "link.png"}
    for name in STRANGE:
        row = rows.pop(name)
        assert (row.label, row.loss, row.truth_probability, row.error) == (None, None, None, None)
        assert row.predicted is not None
        assert len(row.top) == 2
    for row in rows.values():
        assert (row.predicted, row.confidence, row.top) == (None, None, ())
    assert rows["empty.png"].error == "the file is empty"
    meta = _meta(job)
    assert (meta["n_images"], meta["n_unreadable"], meta["n_with_truth"], meta["top1"]) == (13, 4, 0, None)
    (notice,) = events(job, Notice)
    assert notice.code == "classify.unreadable"
    assert "4 of 13 files" in notice.text
    assert "empty.png: the file is empty" in notice.text


def test_nothing_but_broken_files_is_a_table_too(done, tmp_path):
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "a.png").write_bytes(b"")
    job = done.classification(FromFolder(path=str(tmp_path / "flat")))
    assert run_once(job) == "succeeded"
    assert [row.error for row in _rows(job)] == ["the file is empty"]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive(kind, done, folder_job, tmp_path):
    upload = done.storage.upload_path(f"upload-{kind}")
    upload.parent.mkdir(exist_ok=True)
    if kind == "zip":
        with zipfile.ZipFile(upload, "w") as archive:
            for path in sorted(done.tree.rglob("*.png")):
                archive.write(path, path.relative_to(done.tree))
    else:
        with tarfile.open(upload, "w:gz") as tar:
            tar.add(done.tree, "top")
    source = FromUpload(path=done.storage.upload_input_path(upload.name), name=f"photos.{kind}")
    job = done.classification(source)
    assert run_once(job) == "succeeded"
    told = {row.name.removeprefix("top/"): row.predicted for row in _rows(job)}
    assert told == {row.name: row.predicted for row in _rows(folder_job)}
    assert _meta(job)["top1"] == 1
    assert _meta(job)["source"] == f"photos.{kind}"


def _lists(done, tmp_path, lines, labels=None, **changes) -> FromLists:
    (tmp_path / "list.txt").write_text("".join(f"{line}\n" for line in lines))
    if labels is not None:
        (tmp_path / "labels.txt").write_text("".join(f"{label}\n" for label in labels))
    return FromLists(
        train=str(tmp_path / "list.txt"),
        labels=str(tmp_path / "labels.txt") if labels is not None else "",
        folder=str(done.tree),
        roots=(str(done.tree.resolve()), str(tmp_path.resolve())),
        **changes,
    )


def test_a_list_with_a_labels_file(done, tmp_path):
    # The file's order is not the checkpoint's; "wolf" is no class of it.
    source = _lists(done, tmp_path, ["cat/0.png 2", "dog/1.png 0", "dog/2.png 1"], labels=["dog", "wolf", "cat"])
    job = done.classification(source)
    assert run_once(job) == "succeeded"
    assert [(row.label, row.predicted) for row in _rows(job)] == [(0, 0), (1, 1), (None, 1)]


@pytest.mark.parametrize("labels", [None, CLASSES])
def test_labels_of_minus_one_or_beyond_the_range_are_no_truth_and_no_error(labels, done, tmp_path):
    lines = ["cat/0.png -1", "cat/1.png 3", "dog/2.png 99999999999999999999", "dog/3.png 1"]
    job = done.classification(_lists(done, tmp_path, lines, labels))
    assert run_once(job) == "succeeded"
    assert [(row.label, row.predicted, row.error) for row in _rows(job)] == [
        (None, 0, None), (None, 0, None), (None, 1, None), (1, 1, None),
    ]  # fmt: skip


def test_a_list_of_paths_alone_or_with_names(done, tmp_path):
    lines = ["cat/0.png", "dog/1.png dog", "dog/2.png wolf", "cat/gone.png 0", "../../etc/passwd"]
    job = done.classification(_lists(done, tmp_path, lines))
    assert run_once(job) == "succeeded"
    rows = _rows(job)
    answered = [(row.label, row.predicted) for row in rows if row.error is None]
    assert answered == [(None, 0), (1, 1), (None, 1)]
    assert len(rows) == 5


def test_what_cannot_be_begun_is_told(done, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetInvalid, match="no file to classify"):
        run_once(done.classification(FromFolder(path=str(tmp_path / "empty"))))
    with pytest.raises(DatasetMissing):
        run_once(done.classification(FromFolder(path=str(tmp_path / "gone"))))
    with pytest.raises(UploadMissing):
        run_once(done.classification(FromUpload(path="../../uploads/gone", name="x.zip")))
    done.storage.uploads_dir.mkdir(exist_ok=True)
    done.storage.upload_path("noise").write_bytes(bytes(range(256)) * 9)
    with pytest.raises(ArchiveInvalid):
        run_once(done.classification(FromUpload(path="../../uploads/noise", name="x.zip")))
    gone = done.checkpoint.model_copy(update={"path": "../2/artifacts/gone.pt"})
    with pytest.raises(CheckpointMissing):
        run_once(done.classification(FromFolder(path=str(done.tree)), checkpoint=gone))


@pytest.mark.parametrize("look", [1, 10, 24])
def test_cancelled_in_the_middle_it_leaves_nothing_and_may_be_run_again(look, done, folder_job, monkeypatch):
    monkeypatch.setattr("engine.predict.session.Session.batch_size", 5)
    job = done.classification(FromFolder(path=str(done.tree)))
    assert run_once(job, stop_at_look=look) == "cancelled"
    _assert_nothing_left(job)
    assert run_once(job) == "succeeded"
    assert [row.predicted for row in _rows(job)] == [row.predicted for row in _rows(folder_job)]


def test_killed_it_leaves_nothing_that_counts_and_may_be_run_again(done):
    job = done.classification(FromFolder(path=str(done.tree)))
    process = start(job)
    until(lambda: job.scratch_dir.joinpath("classification", "predictions.sqlite").exists())
    process.kill()
    process.communicate()
    if not events(job, ArtifactMade):
        assert not job.classification_dir.exists()
    assert run_once(job) == "succeeded"
    assert _meta_last(job)["n_images"] == 24
    assert {path.name for path in job.classification_dir.iterdir()} == {"predictions.sqlite"}


def _meta_last(job: JobDir) -> dict[str, Any]:
    return events(job, ArtifactMade)[-1].meta


@pytest.mark.parametrize(
    ("size", "mode", "mime", "shown"),
    [
        ((64, 20), "RGB", "image/png", (64, 20)),
        ((65, 65), "L", "image/webp", (65, 65)),
        ((1000, 500), "RGB", "image/webp", (128, 64)),
        ((4000, 1), "RGB", "image/webp", (128, 1)),
        ((1, 1), "L", "image/png", (1, 1)),
    ],
    ids=str,
)
def test_thumbnails_are_small_and_drawn_anew(size, mode, mime, shown):
    made = make_thumbnail(noise(*size, mode=mode))
    assert made.mime == mime
    drawn = Image.open(io.BytesIO(made.image))
    assert drawn.size == shown
    assert drawn.get_format_mimetype() == mime


def test_nothing_of_the_file_that_was_brought_is_in_its_thumbnail():
    file = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "<script>alert(1)</script>"
    noise(200, 200).save(file, "JPEG", exif=exif, comment=b"<script>")
    assert b"<script>" in file.getvalue()
    assert b"<script>" not in make_thumbnail(decode(file.getvalue())).image


def test_images_wait_in_small_numbers_only(done, tmp_path, monkeypatch):
    """However many images there are, few of them are in memory."""
    from engine.classify import verb

    alive = most = 0
    plain_look, plain_store = verb.look, verb._Classification._store

    def look(tree, session, item):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        return plain_look(tree, session, item)

    def store(self, batch, answers, writer):
        nonlocal alive
        plain_store(self, batch, answers, writer)
        alive -= len(batch)

    monkeypatch.setattr(verb, "look", look)
    monkeypatch.setattr(verb._Classification, "_store", store)
    monkeypatch.setattr("engine.predict.session.Session.batch_size", 4)
    folder = tmp_path / "many"
    folder.mkdir()
    picture = encoded(noise(40, 30))
    for index in range(300):
        (folder / f"{index}.png").write_bytes(picture)
    job = done.classification(FromFolder(path=str(folder)))
    assert run_once(job) == "succeeded"
    assert _meta(job)["n_images"] == 300
    assert most <= 4 + 3 * verb.N_DECODE_THREADS


def test_a_missing_folder_of_the_data_directory_is_no_concern(done, tmp_path):
    """An image whose bytes vanish while it is classified is a row."""
    folder = Path(tmp_path / "flat")
    folder.mkdir()
    (folder / "a.png").write_bytes(encoded(noise(40, 30)))
    (folder / "b.png").write_bytes(encoded(noise(40, 30)))
    folder.joinpath("b.png").chmod(0)
    job = done.classification(FromFolder(path=str(folder)))
    assert run_once(job) == "succeeded"
    assert len(_rows(job)) == 2
