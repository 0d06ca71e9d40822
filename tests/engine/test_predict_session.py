"""A checkpoint put to use: the same pixels, the same numbers as in the training's own validation."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from engine.checkpoint import read_checkpoint, write_durable
from engine.data.cache import decoded
from engine.data.decode import decode
from engine.data.loader import BatchLoader
from engine.predict.answers import UNKNOWN, joined, read_answers
from engine.predict.session import Session
from engine.stop import Stop
from engine.store.reader import DatasetReader
from tests.kits.predicting import shaded_tree
from tests.kits.training import kept_checkpoints, new_job, train_once
from tests.kits.trees import imported, noise
from wire.errors import CheckpointDamaged, CheckpointMissing, SpecInvalid

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dataset")
    tree = shaded_tree(folder / "tree", {"cat": 24, "dog": 23, "emu": 25})
    return imported(tree, folder / "job", val_pct=40)


def _trained(folder: Path, dataset: Path, **options):
    job = new_job(folder / "job", dataset, **{"learning_rate": 3e-3, "epochs": 6, **options})
    assert train_once(job) == "succeeded"
    made = kept_checkpoints(job)[-1]
    return job.resolve(made.path), made


@pytest.fixture(scope="module")
def checkpoint(dataset, tmp_path_factory):
    return _trained(tmp_path_factory.mktemp("trained"), dataset)


def _val_pixels(dataset: Path, session: Session):
    with DatasetReader(dataset) as reader:
        samples = reader.samples("val")
        images = [session.pixels(decode(reader.image_bytes(sample.id))) for sample in samples]
    return np.stack(images), np.array([sample.label for sample in samples])


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("lenet5", {}),
        ("lenet5", {"colour": "grey", "resize": "crop", "image_px": 40}),
        ("lenet5", {"resize": "half_crop", "batch_size": 5}),
        ("resnet20", {"resize": "fill", "epochs": 1}),
    ],
    ids=str,
)
def test_it_is_as_right_as_the_training_said(model, options, dataset, tmp_path):
    path, made = _trained(tmp_path, dataset, model=model, **options)
    session = Session.open(path, sha256=made.sha256)
    images_NHWC, labels_N = _val_pixels(dataset, session)
    shares_NK = session.probabilities(images_NHWC)
    assert shares_NK.shape == (len(labels_N), 3)
    assert shares_NK.dtype == np.float32
    np.testing.assert_allclose(shares_NK.sum(axis=1), 1, atol=1e-6)
    if model == "lenet5":  # the other has learned too little in one epoch to tell anything apart
        assert len(set(shares_NK.argmax(axis=1))) > 1
    top1 = 100 * (shares_NK.argmax(axis=1) == labels_N).mean()
    assert top1 == pytest.approx(made.meta["metrics"]["val/top1"])
    loss = -np.log(shares_NK[np.arange(len(labels_N)), labels_N]).mean()
    assert loss == pytest.approx(made.meta["metrics"]["val/loss"], rel=1e-5)


def test_pixels_and_normalisation_are_those_of_the_training(checkpoint, dataset, tmp_path):
    session = Session.open(checkpoint[0])
    with DatasetReader(dataset) as reader:
        cached = decoded(
            *(reader, "val"),
            image_px=session.image_px,
            resize=session.resize,
            colour=session.colour,
            cache_dir=tmp_path,
            on_progress=lambda *_: None,
            stop=Stop(tmp_path),
        )
    images_NHWC, _ = _val_pixels(dataset, session)
    np.testing.assert_array_equal(images_NHWC, cached.images_NHWC)
    loader = BatchLoader(
        cached,
        batch_size=len(images_NHWC),
        seed=0,
        shuffle=False,
        augment=None,
        mean=session.mean,
        std=session.std,
        device=session.device,
    )
    batch = next(loader.epoch(0))
    assert torch.equal(session.normalised(cached.images_NHWC), batch.images_BCHW)


def test_it_knows_what_it_is(checkpoint):
    session = Session.open(checkpoint[0])
    assert session.classes == ("cat", "dog", "emu")
    assert (session.image_px, session.resize, session.colour, session.task) == (32, "squash", "rgb", "classification")
    assert (session.model, session.step) == ("lenet5", checkpoint[1].meta["step"])
    assert session.n_parameters == checkpoint[1].meta["n_parameters"]
    assert not session.network.training
    conv = next(module for module in session.network.modules() if isinstance(module, nn.Conv2d))
    assert conv.weight.is_contiguous(memory_format=torch.channels_last)


def test_one_image_alone_gets_the_same_answer(checkpoint, dataset):
    session = Session.open(checkpoint[0])
    images_NHWC, _ = _val_pixels(dataset, session)
    together = session.probabilities(images_NHWC)
    alone = np.concatenate([session.probabilities(image[None]) for image in images_NHWC])
    np.testing.assert_allclose(alone, together, atol=1e-6)
    assert session.probabilities(images_NHWC[:0]).shape == (0, 3)


@pytest.mark.parametrize("size", [(1, 1), (400, 1), (1, 400), (31, 33)], ids=str)
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_any_picture_gets_an_answer(size, mode, checkpoint):
    session = Session.open(checkpoint[0])
    shares_NK = session.probabilities(session.pixels(noise(*size, mode=mode))[None])
    assert np.isfinite(shares_NK).all()


def test_opening_draws_nothing_that_others_would_miss(checkpoint):
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    Session.open(checkpoint[0])
    assert torch.equal(torch.rand(3), expected)


def test_a_missing_or_changed_file_is_told(checkpoint, tmp_path):
    path, made = checkpoint
    with pytest.raises(CheckpointMissing, match="There is no checkpoint"):
        Session.open(tmp_path / "gone.pt")
    changed = tmp_path / "changed.pt"
    changed.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(CheckpointDamaged, match="not the one that was written"):
        Session.open(changed, sha256=made.sha256)
    changed.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(CheckpointDamaged, match="cannot be read"):
        Session.open(changed)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"model": "gone"}, SpecInvalid, "no model called 'gone'"),
        ({"task": "segmentation"}, SpecInvalid, "'segmentation'"),
        ({"classes": ["cat"]}, CheckpointDamaged, "can be rebuilt"),
        ({"model_options": {"activation": "none"}}, CheckpointDamaged, "options of LeNet-5"),
        ({"mean": None}, CheckpointDamaged, "TypeError"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_weights_that_do_not_fit_are_told(changes, error, message, checkpoint, tmp_path):
    payload = {**read_checkpoint(checkpoint[0]), **changes}
    payload.pop("format")
    path = tmp_path / "bent.pt"
    write_durable(payload, path, scratch_dir=tmp_path / "scratch")
    with pytest.raises(error, match=message):
        Session.open(path)


@pytest.mark.parametrize(
    ("trained", "has_units", "expected"),
    [("fp32", True, "fp32"), ("bf16", True, "bf16"), ("bf16", False, "fp32"), ("fp16", True, "fp32")],
)
def test_the_precision_is_the_training_s_where_the_device_can(
    trained, has_units, expected, checkpoint, tmp_path, monkeypatch
):
    payload = {**read_checkpoint(checkpoint[0]), "precision": trained}
    payload.pop("format")
    write_durable(payload, tmp_path / "made.pt", scratch_dir=tmp_path / "scratch")
    monkeypatch.setattr("engine.device._cpu_has_bf16", lambda: has_units)
    session = Session.open(tmp_path / "made.pt")
    assert (session.precision, session.trained_precision) == (expected, trained)
    shares_NK = session.probabilities(np.zeros((2, 32, 32, 3), np.uint8))
    np.testing.assert_allclose(shares_NK.sum(axis=1), 1, atol=1e-6)  # in fp32, whatever the outputs are


def test_answers_by_hand():
    logits_BK = torch.tensor(
        [[0.0, 2.0, 1.0, 2.0], [1.0, 0.0, 0.0, 0.0], [0.0, torch.nan, 0.0, 0.0], [-200.0, 0, 0, 0]]
    )
    answers = read_answers(logits_BK, torch.tensor([2, UNKNOWN, 0, 0]), top=3)
    first, unknown, broken, far = answers.each()
    shares = np.exp([0.0, 2.0, 1.0, 2.0]) / np.exp([0.0, 2.0, 1.0, 2.0]).sum()
    assert [label for label, _ in first.top] == [1, 3, 2]  # of two equals the first, as argmax has it
    assert [share for _, share in first.top] == pytest.approx([shares[1], shares[3], shares[2]])
    assert (first.label, first.predicted) == (2, 1)
    assert (first.confidence, first.truth_probability) == pytest.approx((shares[1], shares[2]))
    assert first.loss == pytest.approx(-np.log(shares[2]))
    assert (unknown.label, unknown.predicted, unknown.truth_probability, unknown.loss) == (None, 0, None, None)
    assert (broken.label, broken.predicted, broken.confidence, broken.loss, broken.top) == (0, None, None, None, ())
    assert broken.prediction(1, "x").error == "the network's outputs are not finite"
    assert far.loss == pytest.approx(200 + np.log(3))  # its probability is 0 in fp32, its loss is not infinite
    both = joined([answers, answers.of_known_truth()])
    assert both.labels_N.tolist() == [2, UNKNOWN, 0, 0, 2, 0, 0]


def test_a_grey_file_and_the_same_in_colour_are_the_same_to_it(checkpoint):
    session = Session.open(checkpoint[0])
    grey = noise(20, 20, mode="L")
    file = io.BytesIO()
    grey.convert("RGB").save(file, "PNG")
    colour = Image.open(file)
    np.testing.assert_array_equal(session.pixels(grey), session.pixels(colour))
