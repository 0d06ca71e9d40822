from __future__ import annotations

import hashlib
import io
import pickle  # noqa: TID251 - to make a file that carries code, and see it refused
from pathlib import Path

import pytest
import torch

from engine.checkpoint import read_checkpoint, read_state, write_durable
from wire.errors import CheckpointDamaged, CheckpointMissing, WeightsMismatch

pytestmark = pytest.mark.slow

PAYLOAD = {"weight": torch.arange(100_000.0), "step": 3, "best": None, "names": ["a", "b"]}


class Malicious:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "step-3.pt"


def _write(path: Path) -> str:
    return write_durable(PAYLOAD, path, scratch_dir=path.parent.parent / "scratch").sha256


def test_what_was_written_is_read_and_the_hash_is_the_files(path):
    written = write_durable(PAYLOAD, path, scratch_dir=path.parent.parent / "scratch")
    assert written.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert written.bytes == path.stat().st_size
    payload = read_checkpoint(path, sha256=written.sha256)
    assert torch.equal(payload["weight"], PAYLOAD["weight"])
    assert (payload["step"], payload["best"], payload["names"]) == (3, None, ["a", "b"])
    assert list((path.parent.parent / "scratch").iterdir()) == []


def test_a_failed_write_leaves_what_was_there(path, monkeypatch):
    sha256 = _write(path)

    def fail(_fd: int) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="gone"):
        _write(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def test_a_missing_one_is_named(path):
    with pytest.raises(CheckpointMissing, match=r"step-3\.pt"):
        read_checkpoint(path)


@pytest.mark.parametrize("flip_at", [10, 200_000, -30])
def test_one_wrong_byte_is_found_by_the_hash(path, flip_at):
    sha256 = _write(path)
    content = bytearray(path.read_bytes())
    content[flip_at] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointDamaged, match="not the one that was written"):
        read_checkpoint(path, sha256=sha256)


@pytest.mark.parametrize("keep_bytes", [0, 10, 1000, 400_000])
def test_a_cut_file_is_damaged_also_where_no_hash_is_known(path, keep_bytes):
    _write(path)
    path.write_bytes(path.read_bytes()[:keep_bytes])
    with pytest.raises(CheckpointDamaged):
        read_checkpoint(path)


def test_code_inside_a_file_is_refused_and_not_run(path, tmp_path):
    path.parent.mkdir()
    for content in ({"format": 1, "network": Malicious(tmp_path / "ran")}, Malicious(tmp_path / "ran")):
        torch.save(content, path)
        with pytest.raises(CheckpointDamaged):
            read_checkpoint(path)
        with pytest.raises(WeightsMismatch):
            read_state(path)
    buffer = io.BytesIO()
    pickle.dump(Malicious(tmp_path / "ran"), buffer, protocol=2)
    path.write_bytes(buffer.getvalue())
    with pytest.raises(CheckpointDamaged):
        read_checkpoint(path)
    assert not (tmp_path / "ran").exists()


def test_another_kind_of_file_is_no_checkpoint(path):
    path.parent.mkdir()
    torch.save({"weight": torch.ones(3)}, path)
    with pytest.raises(CheckpointDamaged, match="not a checkpoint of this version"):
        read_checkpoint(path)


def test_published_weights_come_in_two_formats(tmp_path):
    from safetensors.torch import save_file

    state = {"weight": torch.arange(6.0).reshape(2, 3)}
    torch.save(state, tmp_path / "net.pth")
    save_file(state, tmp_path / "net.safetensors")
    for name in ("net.pth", "net.safetensors"):
        assert torch.equal(read_state(tmp_path / name)["weight"], state["weight"])


@pytest.mark.parametrize("content", [{"model": {"weight": 3}}, [1, 2], 3])
def test_a_file_without_a_plain_table_of_weights_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "net.pth")
    with pytest.raises(WeightsMismatch, match=r"net\.pth"):
        read_state(tmp_path / "net.pth")


def test_a_damaged_safetensors_file_is_refused(tmp_path):
    (tmp_path / "net.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(WeightsMismatch, match=r"net\.safetensors"):
        read_state(tmp_path / "net.safetensors")
