from __future__ import annotations

import json
import signal
import subprocess
import sys

import numpy as np
import onnx
import pynvml
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from pydantic import ValidationError
from safetensors import safe_open

import wire.cards
from engine.export.backends import BuildStopped
from engine.export.backends.naming import gpu_versions
from engine.export.backends.tensorrt_rtx import backend as tensorrt
from engine.export.backends.tensorrt_rtx.card import TensorRtRtxOptions
from engine.export.backends.tensorrt_rtx.compile import NotWritten
from engine.export.backends.tensorrt_rtx.runtime import fitted
from tests.kits.backend_kit import CLASSES, CPU, BackendKit, case, pictures
from wire.errors import EngineNotBuilt, OperatorRefused, SpecInvalid
from wire.exports import InputProfile
from wire.layout import ExportDir

pytestmark = pytest.mark.slow

GPU = torch.device("cuda", 0)


def graph_of(operator, *, domain="", side="height"):
    """Bytes in, and one node of this operator over them."""
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", side, "width", 3])
    shares = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node(operator, ["pixels"], ["probabilities"], domain=domain, name="odd_one"),
    ]
    known = [helper.make_opsetid("", 20), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(helper.make_graph(nodes, "graph", [images], [shares]), opset_imports=known, ir_version=10)
    return model.SerializeToString()


def graph_with_turned_weights():
    """INT8 weights that are transposed before they are scaled, as a quantiser leaves them in some attentions."""
    images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", "height", "width", 3])
    shares = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", "height", "width", 2])
    constants = [
        numpy_helper.from_array(np.ones((2, 3), np.int8), "bytes"),
        numpy_helper.from_array(np.float32(0.5), "scale"),
    ]
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("Transpose", ["bytes"], ["turned"], perm=[1, 0]),
        helper.make_node("DequantizeLinear", ["turned", "scale"], ["weights"]),
        helper.make_node("MatMul", ["pixels", "weights"], ["probabilities"]),
    ]
    graph = helper.make_graph(nodes, "graph", [images], [shares], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return model.SerializeToString()


class TestPyTorch(BackendKit):
    name = "pytorch"

    def test_its_bytes_are_the_same_each_time(self, tmp_path):
        for folder in ("a", "b"):
            self.build(case("lenet5"), tmp_path / folder)
        assert (
            ExportDir(tmp_path / "a").weights_path.read_bytes() == ExportDir(tmp_path / "b").weights_path.read_bytes()
        )

    def test_the_file_tells_all_it_takes_to_use_it(self, built):
        _, folder, _ = built[0]
        with safe_open(folder.weights_path, framework="pt") as file:
            told = {name: json.loads(value) for name, value in file.metadata().items() if name != "format"}
        assert told["model"] == "lenet5"
        assert told["model_options"] == {"activation": "relu"}
        assert told["classes"] == list(CLASSES)
        assert (told["image_px"], told["resize"], told["colour"]) == (32, "crop", "rgb")


class TestOnnx(BackendKit):
    name = "onnx"

    @pytest.mark.parametrize("domain", ["", "example.test"])
    def test_an_operator_that_it_does_not_know_is_named(self, tmp_path, domain):
        with pytest.raises(OperatorRefused, match=r"does not know the operator .*Frobnicate"):
            self.build(case("lenet5"), tmp_path, graph=graph_of("Frobnicate", domain=domain))

    def test_a_graph_that_is_none_is_refused(self, tmp_path):
        with pytest.raises(OperatorRefused, match="refuses the graph"):
            self.build(case("lenet5"), tmp_path, graph=b"no graph")

    def test_without_a_provider_for_the_gpu_it_says_that_the_processor_ran(self, built, monkeypatch):
        monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
        runtime = self.backend.open(built[0][1], GPU)
        assert runtime.device.startswith("CPU")
        assert "cannot use the GPU" in runtime.notes[0]


class TestTensorRtRtx(BackendKit):
    name = "tensorrt_rtx"
    options = {"compute_capabilities": ["8.9"], "most_px": 256, "typical_px": 64}

    def test_an_engine_for_each_compute_capability_and_its_source(self, tmp_path):
        made = self.build(case("lenet5"), tmp_path, compute_capabilities=["12.0", "8.6"])
        assert [(role, capability) for role, _, capability in made.files] == [
            ("source", ""),
            ("engine", "8.6"),
            ("engine", "12.0"),
        ]
        assert onnx.load(ExportDir(tmp_path).model_path).graph.input[0].name == "images"
        assert made.profile is not None
        assert made.profile.most_px == 256
        assert [note.partition(":")[0] for note in made.notes] == ["Engine for 8.6", "Engine for 12.0"]

    @pytest.mark.parametrize("operator", ["Frobnicate", "Det"])
    def test_an_operator_that_it_does_not_know_is_named(self, tmp_path, operator):
        with pytest.raises(OperatorRefused, match=f"operator {operator} "):
            self.build(case("lenet5"), tmp_path, graph=graph_of(operator))

    def test_no_engine_is_told_with_the_compilers_words(self, tmp_path):
        # Why a Swin transformer in INT8 may get none.
        with pytest.raises(EngineNotBuilt, match=r"no engine for 8\.9\. .*only allowed before DQ") as refused:
            self.build(case("lenet5"), tmp_path, graph=graph_with_turned_weights())
        assert refused.value.hint
        assert "/_src" not in refused.value.message
        assert not ExportDir(tmp_path).engine_path("8.9").exists()

    def test_a_profile_that_the_graph_does_not_take_gives_no_engine(self, tmp_path):
        with pytest.raises(EngineNotBuilt, match=r"no engine for 8\.9\. .*images"):
            self.build(case("lenet5"), tmp_path, graph=graph_of("Relu", side=48), least_px=64)

    @pytest.mark.parametrize(
        ("code", "told"),
        [
            (f"import os; os.kill(os.getpid(), {signal.SIGKILL})", "SIGKILL"),
            ("raise ValueError('out of glue')", "status 1.*out of glue"),
        ],
    )
    def test_a_compiler_that_crashes_gives_no_engine_and_nothing_worse(self, tmp_path, monkeypatch, code, told):
        monkeypatch.setattr(tensorrt, "COMMAND", (sys.executable, "-c", code))
        with pytest.raises(EngineNotBuilt, match=told):
            self.build(case("lenet5"), tmp_path, graph=graph_of("Relu"))

    def test_a_full_disk_is_passed_on_by_its_number(self, tmp_path, monkeypatch):
        answer = NotWritten(errno=28).model_dump_json()
        monkeypatch.setattr(tensorrt, "COMMAND", (sys.executable, "-c", f"print('{answer}')"))
        with pytest.raises(OSError, match="No space left") as full:
            self.build(case("lenet5"), tmp_path, graph=graph_of("Relu"))
        assert full.value.filename == str(ExportDir(tmp_path).engine_path("8.9"))

    def test_a_stop_ends_the_compiler(self, tmp_path, monkeypatch):
        begun = tmp_path / "begun"
        code = f"import pathlib, time; pathlib.Path({str(begun)!r}).touch(); time.sleep(600)"
        monkeypatch.setattr(tensorrt, "COMMAND", (sys.executable, "-c", code))

        class OnceBegun:
            asked = property(lambda self: begun.exists())

        with pytest.raises(BuildStopped):
            self.build(case("lenet5"), tmp_path, stop=OnceBegun(), graph=graph_of("Relu"))

    def test_the_compiler_ends_with_the_engine(self):
        """As after a kill -9 of it; what it wrote later would lie in the next attempt's folder."""
        compiler = "import sys, time; from engine.export.backends.tensorrt_rtx.compile import end_with_parent; "
        compiler += "end_with_parent(int(sys.argv[1])); print('begun', flush=True); time.sleep(10); print('late')"
        code = f"import os, subprocess, sys; subprocess.run([sys.executable, '-c', {compiler!r}, str(os.getpid())])"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"begun\n"
            process.kill()
            assert process.stdout.read() == b""  # which ends when nobody is left who could write

    def test_where_the_package_is_absent_it_says_so(self, tmp_path, monkeypatch):
        monkeypatch.setattr(wire.cards, "find_spec", lambda name: None if name == "tensorrt_rtx" else object())
        assert self.card.missing == ("tensorrt_rtx",)
        assert self.backend.why_not_run(ExportDir(tmp_path), GPU) == "TensorRT for RTX is not installed"
        with pytest.raises(SpecInvalid, match="tensorrt_rtx cannot be imported"):
            self.build(case("lenet5"), tmp_path, graph=graph_of("Relu"))

    @pytest.mark.parametrize(
        ("present", "reason"),
        [
            ((9, 0), "the GPU's compute capability 9.0 is not one that TensorRT for RTX builds for"),
            ((8, 6), "built for 8.9, this GPU has 8.6"),
            ((8, 9), ""),
        ],
    )
    def test_whether_an_engine_fits_the_gpu(self, built, monkeypatch, present, reason):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: present)
        assert self.backend.why_not_run(built[0][1], GPU) == reason

    def test_without_a_gpu_it_is_not_run(self, built):
        assert self.backend.why_not_run(built[0][1], CPU) == "no CUDA device"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"compute_capabilities": []}, "at least 1"),
        ({"compute_capabilities": ["9.0"]}, "'7.5'"),
        ({"least_batch": 9}, "batch must not fall from smallest to typical to largest: 9, 8, 32"),
        ({"most_px": 64}, "image side must not fall"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, told):
    with pytest.raises(ValidationError, match=told):
        TensorRtRtxOptions(**options)


@pytest.mark.parametrize(
    ("shape", "expected"), [((40, 60), (40, 60)), ((200, 400), (50, 100)), ((4, 30), (10, 30)), ((2000, 10), (100, 10))]
)
def test_images_that_the_profile_does_not_hold_are_made_to_fit(shape, expected):
    profile = InputProfile(least_batch=1, typical_batch=1, most_batch=2, least_px=10, typical_px=50, most_px=100)
    images_NHWC = pictures(2, *shape)
    fitting_NHWC = fitted(images_NHWC, profile)
    assert fitting_NHWC.shape == (2, *expected, 3)
    assert np.shares_memory(fitting_NHWC, images_NHWC) == (shape == expected)


@pytest.mark.parametrize("driver", [b"580.95.05", "580.95.05", None])
def test_of_a_gpu_the_driver_is_told_where_it_answers(monkeypatch, driver):
    def version():
        if driver is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        return driver

    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.version.cuda", "13.2")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", version)
    assert gpu_versions() == {"cuda": "13.2"} | ({"driver": "580.95.05"} if driver else {})
