from __future__ import annotations

import threading
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from engine.data.augment import Augment
from engine.data.cache import Decoded
from engine.data.loader import Batch, BatchLoader

pytestmark = pytest.mark.slow

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def _decoded(n_images: int = 22, n_channels: int = 3, px: int = 8) -> Decoded:
    draw = np.random.default_rng(7)
    images = draw.integers(0, 256, (n_images, px, px, n_channels), np.uint8)
    return Decoded(images, np.arange(n_images), np.arange(1, n_images + 1))


def _loader(decoded: Decoded | None = None, **changes: Any) -> BatchLoader:
    arguments: dict[str, Any] = {
        "batch_size": 5,
        "seed": 3,
        "shuffle": True,
        "augment": Augment("strong", 8),
        "mean": MEAN,
        "std": STD,
        "device": torch.device("cpu"),
    }
    return BatchLoader(decoded or _decoded(), **{**arguments, **changes})


def _same(first: list[Batch], second: list[Batch]) -> bool:
    return len(first) == len(second) and all(
        torch.equal(a.images_BCHW, b.images_BCHW) and torch.equal(a.labels_B, b.labels_B)
        for a, b in zip(first, second, strict=True)
    )


@pytest.mark.parametrize("start", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("preset", ["none", "shift", "strong"])
@pytest.mark.parametrize("device", DEVICES)
def test_an_epoch_goes_on_from_any_batch_with_the_same_bits(start, preset, device):
    arguments: dict[str, Any] = {"augment": Augment(preset, 8), "device": torch.device(device)}
    whole = list(_loader(**arguments).epoch(2))
    assert _same(list(_loader(**arguments).epoch(2, start)), whole[start:])


def test_epochs_and_seeds_differ():
    first = list(_loader().epoch(0))
    assert not _same(list(_loader().epoch(1)), first)
    assert not _same(list(_loader(seed=4).epoch(0)), first)
    order = [batch.labels_B.tolist() for batch in first]
    assert [batch.labels_B.tolist() for batch in _loader().epoch(1)] != order
    assert [batch.labels_B.tolist() for batch in _loader(augment=None).epoch(0)] == order


def test_the_same_image_is_changed_anew_in_each_epoch():
    same_place = _decoded(1)
    epochs = [next(iter(_loader(same_place).epoch(epoch))).images_BCHW for epoch in range(3)]
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[1], epochs[2])


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_image_comes_once(shuffle):
    labels = torch.cat([batch.labels_B for batch in _loader(shuffle=shuffle).epoch(1)])
    assert sorted(labels.tolist()) == list(range(22))
    assert (labels.tolist() == list(range(22))) is not shuffle


@pytest.mark.parametrize(
    ("n_images", "batch_size", "shuffle", "sizes"),
    [
        (22, 5, True, [5, 5, 5, 5, 2]),
        (20, 5, True, [5, 5, 5, 5]),
        (21, 5, True, [5, 5, 5, 5]),
        (21, 5, False, [5, 5, 5, 5, 1]),
        (1, 5, True, [1]),
        (3, 1, True, [1, 1, 1]),
        (0, 5, False, []),
    ],
)
def test_sizes_of_batches(n_images, batch_size, shuffle, sizes):
    loader = _loader(_decoded(n_images), batch_size=batch_size, shuffle=shuffle)
    assert loader.n_batches == len(sizes)
    assert [len(batch.labels_B) for batch in loader.epoch(0)] == sizes


@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_values_are_normalised_by_channel(channels_last, device):
    decoded = _decoded()
    loader = _loader(decoded, shuffle=False, augment=None, channels_last=channels_last, device=torch.device(device))
    (first, *_) = loader.epoch(0)
    expected_NHWC = (decoded.images_NHWC[:5] / 255 - np.array(MEAN)) / np.array(STD)
    np.testing.assert_allclose(first.images_BCHW.cpu(), expected_NHWC.transpose(0, 3, 1, 2), atol=1e-5)
    assert first.images_BCHW.dtype == torch.float32
    assert first.labels_B.dtype == torch.int64
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    assert first.images_BCHW.is_contiguous(memory_format=memory_format)
    assert first.images_BCHW.device.type == first.labels_B.device.type == device
    assert first.wait_s >= 0


def test_grey_images_keep_one_channel_and_a_weighted_mean():
    decoded = _decoded(n_channels=1)
    loader = _loader(decoded, shuffle=False, augment=None, mean=MEAN, std=(0.2, 0.2, 0.2))
    assert loader.mean_C == pytest.approx([0.299 * 0.4 + 0.587 * 0.5 + 0.114 * 0.6])
    (first, *_) = loader.epoch(0)
    expected = (decoded.images_NHWC[:5] / 255 - loader.mean_C[0]) / 0.2
    np.testing.assert_allclose(first.images_BCHW, expected.transpose(0, 3, 1, 2), atol=1e-5)


def test_images_of_one_value_do_not_divide_by_nothing():
    (first, *_) = _loader(std=(0, 0, 0)).epoch(0)
    assert torch.isfinite(first.images_BCHW).all()


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_no_thread_is_left_whichever_way_an_epoch_ends():
    before = _threads()
    list(_loader().epoch(0))
    assert _threads() == before

    with closing(_loader().epoch(0)) as epoch:
        next(epoch)
        assert _threads() != before
    assert _threads() == before

    for _ in _loader().epoch(0):
        break
    assert _threads() == before

    _loader().epoch(0)
    assert _threads() == before


def test_what_goes_wrong_in_the_thread_is_raised_in_its_turn():
    decoded = _decoded()
    loader = _loader(Decoded(decoded.images_NHWC, decoded.labels_N, decoded.ids_N), shuffle=False)
    before = _threads()
    epoch = loader.epoch(0)
    next(epoch)
    loader._batch_size = "no number"
    with pytest.raises(TypeError):
        list(epoch)
    assert _threads() == before


def test_a_read_only_map_is_gathered_from(tmp_path):
    decoded = _decoded()
    np.save(tmp_path / "images.npy", decoded.images_NHWC)
    mapped = Decoded(np.load(tmp_path / "images.npy", mmap_mode="r"), decoded.labels_N, decoded.ids_N)
    assert _same(list(_loader(mapped).epoch(0)), list(_loader(decoded).epoch(0)))
