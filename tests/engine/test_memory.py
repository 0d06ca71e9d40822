"""A device whose memory does not hold a batch: the same step again in parts, and in parts from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from engine.data.loader import Batch
from engine.emit import MemorySink
from engine.train.memory import Memory
from tests.kits.small_device import small_device
from tests.kits.training import curves, events, last_checkpoint, new_job, same, train_once
from tests.kits.trees import class_tree, imported
from wire.errors import OutOfMemory
from wire.events import Notice

pytestmark = pytest.mark.slow

OPTIONS: dict[str, Any] = {"epochs": 2, "augmentation": "shift", "log_every": 1, "learning_rate": 3e-3}
FULL = torch.OutOfMemoryError("CUDA out of memory.")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    return imported(class_tree(folder / "tree", {"cat": 24, "dog": 23}), folder / "job", val_pct=21)


def _memory(network: nn.Module, batch_size: int) -> tuple[Memory, MemorySink]:
    sink = MemorySink()
    return Memory(network, batch_size=batch_size, image_px=32, sink=sink), sink


def _batch(n_images: int) -> Batch:
    return Batch(torch.rand(n_images, 3, 4, 4), torch.arange(n_images) % 2, wait_s=0)


@pytest.mark.parametrize(
    ("n_images", "n_halvings", "expected"),
    [(16, 0, [16]), (16, 1, [8, 8]), (16, 3, [2] * 8), (5, 1, [5]), (5, 2, [3, 2]), (9, 2, [3, 3, 3]), (3, 3, [3])],
)
def test_a_batch_is_divided_evenly_and_never_down_to_one_image(n_images, n_halvings, expected):
    memory, _ = _memory(nn.BatchNorm2d(3), 16)
    memory.n_halvings = n_halvings
    seen = memory.fit(lambda parts: [(len(part.labels_B), part.share) for part in parts], _batch(n_images), step=1)
    assert [size for size, _ in seen] == expected
    assert sum(share for _, share in seen) == pytest.approx(1)


def test_the_failed_pass_leaves_no_trace_in_random_numbers_and_statistics():
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(48, 2))
    memory, sink = _memory(network, 16)
    batch, drawn = _batch(16), []

    def work(parts):
        drawn.append(torch.rand(()).item())
        for part in parts:
            network(part.images_BCHW)
        return [len(part.labels_B) for part in parts]

    with small_device(8):
        assert memory.fit(work, batch, step=7) == [8, 8]
    assert drawn[0] == drawn[1]
    assert network[0].num_batches_tracked == 2
    expected = nn.BatchNorm2d(3)
    for half in batch.images_BCHW.tensor_split(2):
        expected(half)
    assert torch.equal(network[0].running_mean, expected.running_mean)
    (told,) = sink.events
    assert isinstance(told, Notice)
    assert (told.level, told.code) == ("warning", "memory.micro_batch")
    assert "does not hold 16 images" in told.text
    assert "From step 7 on" in told.text
    assert "parts of 8" in told.text
    assert "Batch normalisation" in told.text


def test_it_gives_up_after_three_halvings_with_a_batch_size_to_try():
    memory, sink = _memory(nn.Linear(1, 1), 64)
    tried = []

    def work(parts):
        tried.append(max(len(part.labels_B) for part in parts))
        raise FULL

    with pytest.raises(OutOfMemory, match=r"does not hold 8 images of 32 px at once \(step 3\)") as raised:
        memory.fit(work, _batch(64), step=3)
    assert tried == [64, 32, 16, 8]
    assert "batch size of 4 or less" in raised.value.hint
    assert len(sink.events) == 3
    # The parts are what they were in a later step, too: there are no more than three halvings in a run.
    with pytest.raises(OutOfMemory):
        memory.fit(work, _batch(64), step=4)
    assert tried[4:] == [8]


@pytest.mark.parametrize(("network", "hint"), [(nn.Linear(1, 1), "smaller network"), (nn.BatchNorm2d(1), "size of 1")])
def test_a_single_image_and_a_pair_for_normalisation_are_the_least(network, hint):
    memory, _ = _memory(network, 2)

    def work(_parts):
        raise FULL

    with pytest.raises(OutOfMemory) as raised:
        memory.fit(work, _batch(2), step=1)
    assert hint in raised.value.hint


def test_other_errors_are_none_of_its_business():
    memory, sink = _memory(nn.Linear(1, 1), 8)

    def work(_parts):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        memory.fit(work, _batch(8), step=1)
    assert sink.events == []


def test_a_network_without_normalisation_learns_the_same_in_parts(dataset, tmp_path):
    """Gradients of the parts, each by its share, are those of the batch; the last batch is a smaller one."""
    whole, parts = (new_job(tmp_path / name, dataset, **OPTIONS) for name in ("whole", "parts"))
    assert train_once(whole) == "succeeded"
    with small_device(2) as seen:
        assert train_once(parts) == "succeeded"
    assert max(seen[20:]) == 2
    assert [notice.code for notice in events(parts, Notice)] == ["memory.micro_batch"] * 2
    first, second = curves(whole), curves(parts)
    assert first.keys() == second.keys()
    for name, points in first.items():
        assert [step for step, _ in points] == [step for step, _ in second[name]]
        values = [value for _, value in second[name]]
        assert values == pytest.approx([value for _, value in points], rel=1e-3), name
    torch.testing.assert_close(
        last_checkpoint(parts)["network"], last_checkpoint(whole)["network"], rtol=1e-3, atol=1e-4
    )


def test_a_run_that_goes_on_keeps_the_parts_and_is_exact(dataset, tmp_path):
    options = {**OPTIONS, "image_px": 8}
    whole, stopped = (new_job(tmp_path / name, dataset, model="resnet20", **options) for name in ("whole", "stopped"))
    with small_device(4):
        assert train_once(whole) == "succeeded"
        assert train_once(stopped, stop_at_look=5) == "cancelled"
        assert last_checkpoint(stopped)["n_halvings"] == 1
        assert train_once(stopped) == "succeeded"
    assert [notice.code for notice in events(stopped, Notice)] == [
        "memory.micro_batch", "run.stopped", "resume.exact",
    ]  # fmt: skip
    assert curves(stopped) == curves(whole)
    assert same(last_checkpoint(stopped), last_checkpoint(whole))


def test_a_whole_run_without_enough_memory_fails_with_advice(dataset, tmp_path):
    job = new_job(tmp_path / "job", dataset, **{**OPTIONS, "batch_size": 16})
    with small_device(1), pytest.raises(OutOfMemory, match="does not hold 2 images of 32 px at once") as raised:
        train_once(job)
    assert "20.00 GiB" in raised.value.message
    assert "batch size of 1 or less" in raised.value.hint
    assert [notice.code for notice in events(job, Notice)] == ["memory.micro_batch"] * 3


def test_weights_are_shared_out_by_images_not_by_parts():
    """Parts of 3 and 2 images of a batch of 5."""
    network = nn.Linear(48, 2)
    memory, _ = _memory(network, 4)
    memory.n_halvings = 0
    batch = _batch(5)

    def work(parts):
        network.zero_grad()
        for part in parts:
            (F.cross_entropy(network(part.images_BCHW.flatten(1)), part.labels_B) * part.share).backward()
        return network.weight.grad.clone()

    in_parts = memory.fit(work, batch, step=1)
    memory.n_halvings, memory._batch_size = 0, 5
    torch.testing.assert_close(in_parts, memory.fit(work, batch, step=1))
