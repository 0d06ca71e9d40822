from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.emit import MemorySink
from engine.importing import pipeline
from engine.sources.folder import FolderTree
from engine.sources.tree import MemberUnreadable
from engine.store.reader import DatasetReader
from tests.kits.trees import class_tree, encoded, imported, job_context, noise, sink_of, write_images
from wire.errors import DatasetInvalid, DatasetMissing, SpecInvalid
from wire.events import ArtifactMade, AttemptStarted, Event, Notice, Progress
from wire.layout import JobDir
from wire.manifests import DatasetManifest, Refused
from wire.specs import FromFolder, FromSample, ImportOptions, ImportSpec


def _spec(tree: Path, **options: Any) -> ImportSpec:
    return ImportSpec(name="pets", source=FromFolder(path=str(tree)), options=ImportOptions(**options))


def _manifest(dataset: Path) -> DatasetManifest:
    with DatasetReader(dataset) as reader:
        return reader.manifest


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "tree", {"cat": 10, "dog 2": 20, "dog 10": 5})


def test_a_tree_becomes_a_dataset(pets, tmp_path):
    (pets / "cat" / ".DS_Store").write_bytes(b"x")
    dataset = imported(pets, tmp_path / "job")
    with DatasetReader(dataset) as reader:
        manifest = reader.manifest
        assert manifest.classes == ("cat", "dog 2", "dog 10")
        assert manifest.counts == {"train": (8, 16, 4), "val": (2, 4, 1)}
        assert manifest.n_images() == 35
        assert (manifest.n_found, manifest.left_out) == (36, {"ignored": 1})
        assert manifest.width_px.model_dump() == {"min": 8, "median": 8, "max": 8}
        assert manifest.height_px.model_dump() == {"min": 6, "median": 6, "max": 6}
        assert manifest.colour == "rgb"
        assert manifest.source == {**FromFolder(path=str(pets)).model_dump(), "format": "folder"}
        assert manifest.options == ImportOptions().model_dump(mode="json")
        assert any("1 x .DS_Store" in note for note in manifest.notes)
        for sample in reader.samples():
            assert reader.image_bytes(sample.id) == (pets / sample.name).read_bytes()
            assert manifest.classes[sample.label] == Path(sample.name).parent.name


def test_what_is_told(pets, tmp_path):
    context = job_context(tmp_path / "job", n=3)
    pipeline.run(_spec(pets), context)
    events = sink_of(context).events
    assert events[0] == AttemptStarted(n=3)
    progress = [event for event in events if isinstance(event, Progress)]
    assert [*dict.fromkeys(event.stage for event in progress)] == ["preparing", "reading", "storing"]
    assert progress[-2] == Progress(stage="reading", done=35, total=35)

    made = events[-1]
    assert isinstance(made, ArtifactMade)
    assert (made.artifact, made.name, made.path) == ("dataset", "dataset", "artifacts/dataset")
    manifest = _manifest(context.job.resolve(made.path))
    assert made.sha256 == manifest.samples_sha256
    assert made.bytes == sum(file.stat().st_size for file in context.job.dataset_dir.iterdir())
    assert made.meta["counts"] == {"train": 28, "val": 7}
    assert made.meta["class_counts"] == {"train": [8, 16, 4], "val": [2, 4, 1]}
    assert made.meta["classes"] == ["cat", "dog 2", "dog 10"]
    assert made.meta["left_out"] == {}
    assert [warned["code"] for warned in made.meta["warnings"]] == ["class.small"]
    assert (made.meta["n_images"], made.meta["n_classes"], made.meta["n_refused"]) == (35, 3, 0)
    json.dumps(made.meta)
    assert sink_of(context).synced_seq == context.sink.last_seq
    assert not context.job.scratch_dir.exists()


def test_broken_images_are_refused_by_name_and_the_sums_hold(pets, tmp_path):
    whole = encoded(noise(40, 40), "JPEG")
    (pets / "cat" / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (pets / "cat" / "empty.png").write_bytes(b"")
    (pets / "cat" / "text.png").write_text("I am no picture")
    (pets / "dog 2" / "zeros.png").write_bytes((pets / "dog 2" / "0.png").read_bytes()[:60] + bytes(200))
    (pets / "dog 2" / "notes.txt").write_text("hello")
    (pets / "dog 2" / "pipe.png").symlink_to("/dev/zero")

    context = job_context(tmp_path / "job")
    assert pipeline.run(_spec(pets), context) == "succeeded"

    manifest = _manifest(context.job.dataset_dir)
    reasons = {refused.name: refused.reason for refused in manifest.refused}
    assert reasons.keys() == {
        "cat/cut.jpg", "cat/empty.png", "cat/text.png", "dog 2/zeros.png", "dog 2/notes.txt", "dog 2/pipe.png",
    }  # fmt: skip
    assert reasons["cat/empty.png"] == "the file is empty"
    assert reasons["cat/text.png"] == "not an image in a format that is read here"
    assert reasons["cat/cut.jpg"].startswith("damaged")
    assert manifest.n_images() == 35
    assert manifest.n_found == 41
    notice = next(event for event in sink_of(context).events if isinstance(event, Notice))
    assert notice.level == "warning"
    assert "6 of 41 files were left out" in notice.text
    assert "and 1 more" in notice.text


def test_a_file_that_may_not_be_read_is_refused(pets, tmp_path, monkeypatch):
    read = FolderTree.read

    def denied(self: FolderTree, name: str) -> bytes:
        if name == "cat/0.png":
            raise MemberUnreadable("the file cannot be read: Permission denied")
        data: bytes = read(self, name)
        return data

    monkeypatch.setattr(FolderTree, "read", denied)
    manifest = _manifest(imported(pets, tmp_path / "job"))
    assert manifest.refused == (Refused(name="cat/0.png", reason="the file cannot be read: Permission denied"),)
    assert manifest.n_images() == 34


def test_splits_that_are_given_are_kept(tmp_path):
    tree = tmp_path / "tree"
    class_tree(tree / "train", {"cat": 10, "dog": 10})
    class_tree(tree / "test", {"cat": 3, "dog": 2}, seed=1)
    manifest = _manifest(imported(tree, tmp_path / "with-test", val_pct=30))
    assert manifest.counts == {"train": (7, 7), "val": (3, 3), "test": (3, 2)}

    class_tree(tree / "validation", {"cat": 1, "dog": 1}, seed=2)
    manifest = _manifest(imported(tree, tmp_path / "with-both", val_pct=30, test_pct=50))
    assert manifest.counts == {"train": (10, 10), "val": (1, 1), "test": (3, 2)}


def test_a_draw_is_decided_by_the_seed(pets, tmp_path):
    def val_names(folder: str, seed: int) -> set[str]:
        with DatasetReader(imported(pets, tmp_path / folder, seed=seed)) as reader:
            return {sample.name for sample in reader.samples("val")}

    assert val_names("one", 1) == val_names("again", 1)
    assert val_names("two", 2) != val_names("one-more", 1)


def test_more_images_move_few_between_splits(tmp_path):
    tree = class_tree(tmp_path / "tree", {"cat": 50, "dog": 50})
    with DatasetReader(imported(tree, tmp_path / "first")) as reader:
        before = {sample.name: sample.split for sample in reader.samples()}
    for index in range(50, 55):
        (tree / "cat" / f"{index}.png").write_bytes(encoded(noise(8, 8, seed=index)))
    with DatasetReader(imported(tree, tmp_path / "second")) as reader:
        after = {sample.name: sample.split for sample in reader.samples()}
    assert sum(before[name] != after[name] for name in before) <= 2


@pytest.mark.parametrize(("val_pct", "test_pct"), [(20, 0), (50, 45), (0.5, 0.5), (0, 0)])
def test_each_class_keeps_something_to_train_on(tmp_path, val_pct, test_pct):
    tree = class_tree(tmp_path / "tree", {"one": 1, "three": 3, "two": 2})
    manifest = _manifest(imported(tree, tmp_path / "job", val_pct=val_pct, test_pct=test_pct))
    assert all(count >= 1 for count in manifest.counts["train"])
    assert manifest.n_images() == 6
    assert ("val" in manifest.counts, "test" in manifest.counts) == (val_pct > 0, test_pct > 0)


def test_a_class_whose_images_are_all_broken_is_no_class(pets, tmp_path):
    (pets / "axolotl").mkdir()
    (pets / "axolotl" / "0.png").write_bytes(b"x")
    manifest = _manifest(imported(pets, tmp_path / "job"))
    assert manifest.classes == ("cat", "dog 2", "dog 10")
    assert manifest.counts["train"] == (8, 16, 4)


def test_statistics_are_those_of_the_train_split(tmp_path):
    tree = tmp_path / "tree"
    for seed, name in enumerate(("cat", "dog")):
        write_images(tree / "train" / name, 4, size=(5 + seed, 7), seed=seed)
        (tree / "val" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4), "white").save(tree / "val" / name / "0.png")
    dataset = imported(tree, tmp_path / "job")

    pixels = [np.asarray(Image.open(path), np.float64).reshape(-1, 3) / 255 for path in tree.glob("train/*/*.png")]
    mean_C = np.mean([image.mean(axis=0) for image in pixels], axis=0)
    square_C = np.mean([(image**2).mean(axis=0) for image in pixels], axis=0)
    manifest = _manifest(dataset)
    np.testing.assert_allclose(manifest.mean, mean_C, atol=1e-6)
    np.testing.assert_allclose(manifest.std, np.sqrt(square_C - mean_C**2), atol=1e-6)


@pytest.mark.parametrize("kind", ["L", "RGB with equal channels"])
def test_grey_is_told_by_the_pixels(tmp_path, kind):
    tree = tmp_path / "tree"
    for seed, name in enumerate(("cat", "dog")):
        (tree / name).mkdir(parents=True)
        picture = noise(6, 6, seed=seed, mode="L")
        (picture if kind == "L" else picture.convert("RGB")).save(tree / name / "0.png")
    manifest = _manifest(imported(tree, tmp_path / "grey", val_pct=0))
    assert manifest.colour == "grey"
    assert len(set(manifest.mean)) == 1

    # Equal histograms do not make a picture grey.
    channels = noise(6, 6, mode="L")
    turned = channels.transpose(Image.Transpose.ROTATE_90)
    Image.merge("RGB", (channels, turned, channels)).save(tree / "cat" / "1.png")
    assert _manifest(imported(tree, tmp_path / "rgb", val_pct=0)).colour == "rgb"


@pytest.mark.parametrize(
    ("classes", "message"),
    [({}, "There are no files"), ({"cat": 3}, "only one class, 'cat'")],
)
def test_a_tree_without_two_classes_is_refused_clearly(tmp_path, classes, message):
    (tmp_path / "tree").mkdir()
    class_tree(tmp_path / "tree", classes)
    context = job_context(tmp_path / "job")
    with pytest.raises(DatasetInvalid, match=message) as raised:
        pipeline.run(_spec(tmp_path / "tree"), context)
    assert raised.value.hint
    assert not context.job.dataset_dir.exists()
    assert not context.job.scratch_dir.exists()


def test_a_tree_of_broken_images_says_what_is_broken(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "tree" / name).mkdir(parents=True)
        (tmp_path / "tree" / name / "0.png").write_text("text")
    with pytest.raises(DatasetInvalid, match=r"no image that can be read.*cat/0\.png: not an image"):
        pipeline.run(_spec(tmp_path / "tree"), job_context(tmp_path / "job"))


def test_sources_and_formats_that_do_not_exist(pets, tmp_path):
    with pytest.raises(DatasetMissing, match="no folder /nowhere"):
        pipeline.run(_spec(Path("/nowhere")), job_context(tmp_path / "job"))
    with pytest.raises(SpecInvalid, match="no format called 'tar'"):
        pipeline.run(_spec(pets).model_copy(update={"format": "tar"}), job_context(tmp_path / "job"))
    spec = ImportSpec(name="x", source=FromSample(name="unicorns"))
    with pytest.raises(SpecInvalid, match="no sample called 'unicorns'"):
        pipeline.run(spec, job_context(tmp_path / "job"))


def test_a_wish_to_stop_ends_it_and_leaves_nothing(pets, tmp_path):
    class AskingSink(MemorySink):
        def emit(self, event: Event) -> None:
            super().emit(event)
            if isinstance(event, Progress) and event.stage == "reading":
                context.stop.ask()

    context = replace(job_context(tmp_path / "job"), sink=AskingSink())
    context.attempt.stop_path.write_text("pause")
    assert pipeline.run(_spec(pets), context) == "paused"
    assert not context.job.dataset_dir.exists()
    assert not context.job.scratch_dir.exists()
    assert not any(isinstance(event, ArtifactMade) for event in sink_of(context).events)

    again = job_context(tmp_path / "job", n=2)
    assert pipeline.run(_spec(pets), again) == "succeeded"
    assert _manifest(again.job.dataset_dir).n_images() == 35


def test_remains_of_a_killed_attempt_are_removed(pets, tmp_path):
    job = JobDir(tmp_path / "job")
    (job.scratch_dir / "dataset").mkdir(parents=True)
    (job.scratch_dir / "dataset" / "images.lmdb").write_bytes(b"half")
    job.dataset_dir.mkdir(parents=True)
    (job.dataset_dir / "stale").write_text("moved, but never announced")
    dataset = imported(pets, tmp_path / "job")
    assert sorted(path.name for path in dataset.iterdir()) == [
        "images.lmdb", "manifest.json", "mean.png", "report.sqlite", "samples.sqlite",
    ]  # fmt: skip


def test_the_same_tree_gives_the_same_dataset(pets, tmp_path):
    first, second = (_manifest(imported(pets, tmp_path / name)) for name in ("one", "two"))
    assert first.samples_sha256 == second.samples_sha256
    assert first.counts == second.counts


@pytest.mark.slow
def test_from_a_shell_the_digits_are_imported_even_after_a_kill(tmp_path):
    (tmp_path / "spec.json").write_text('{"verb":"import","name":"Digits","source":{"kind":"sample","name":"digits"}}')
    command = [sys.executable, "-m", "engine", "import", "--dir", str(tmp_path)]
    events_path = tmp_path / "events.jsonl"

    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (events_path.exists() and '"reading"' in events_path.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "artifacts" / "dataset").exists()

    done = subprocess.run([*command, "--attempt", "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with DatasetReader(tmp_path / "artifacts" / "dataset") as reader:
        manifest = reader.manifest
        assert (len(manifest.classes), manifest.n_images(), manifest.colour) == (10, 1797, "grey")
        assert manifest.licence.startswith("CC BY 4.0")
        assert {split: sum(counts) for split, counts in manifest.counts.items()} == {"train": 1438, "val": 359}
    seqs = [json.loads(line)["seq"] for line in events_path.read_text().splitlines()]
    assert seqs == list(range(1, len(seqs) + 1))
