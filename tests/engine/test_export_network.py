"""The network as a graph: PyTorch's logits, and layers named as PyTorch names them."""

from __future__ import annotations

import copy
import dataclasses
import os
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from engine.export.network import OPSET, layer_of, network_model
from tests.kits.graphs import network_of, session_of
from wire.errors import OperatorRefused

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session():
    return session_of("resnet20", "rgb")


@pytest.fixture(scope="module")
def fp32():
    return network_of("resnet20", "rgb", "fp32")


@pytest.fixture(scope="module")
def fp16():
    return network_of("resnet20", "rgb", "fp16")


def _logits(model, pixels_BCHW: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    runtime = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    logits_BK: np.ndarray
    (logits_BK,) = runtime.run(["logits"], {"pixels": pixels_BCHW})
    return logits_BK


@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("fp16", 0.05)])
@pytest.mark.parametrize("batch_size", [1, 5])
def test_logits_are_pytorchs(precision, tolerance, batch_size, session, request):
    pixels_BCHW = torch.randn(batch_size, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    logits_BK = _logits(request.getfixturevalue(precision), pixels_BCHW.numpy())
    assert logits_BK.dtype == np.float32
    np.testing.assert_allclose(logits_BK, session.logits(pixels_BCHW).numpy(), atol=tolerance, rtol=0)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_layers_have_the_names_of_their_modules(precision, session, request):
    modules = dict(session.network.named_modules())
    nodes = request.getfixturevalue(precision).graph.node
    of_layers = {layer_of(node): node.op_type for node in nodes if node.op_type in ("Conv", "Gemm")}
    layers = {path: type(module) for path, module in modules.items() if isinstance(module, nn.Conv2d | nn.Linear)}
    assert {path: {"Conv": nn.Conv2d, "Gemm": nn.Linear}[kind] for path, kind in of_layers.items()} == layers
    assert {layer_of(node) for node in nodes} <= set(modules)
    assert len({node.name for node in nodes}) == len(nodes)


def test_weights_keep_their_names(fp32, session):
    weights = {name for name, value in session.network.named_parameters() if value.ndim > 1}
    assert weights <= {initializer.name for initializer in fp32.graph.initializer}


def test_fp16_holds_halves_within_and_floats_at_the_ends(fp16):
    kinds = {initializer.data_type for initializer in fp16.graph.initializer if initializer.name.endswith(".weight")}
    ends = [end.type.tensor_type.elem_type for end in (*fp16.graph.input, *fp16.graph.output)]
    assert (kinds, ends) == ({10}, [1, 1])


def test_nothing_of_this_machine_is_in_it(fp32, fp16):
    here = os.path.dirname(os.path.dirname(torch.__file__)).encode()  # noqa: PTH120
    for model in (fp32, fp16):
        assert here not in model.SerializeToString()
        assert b"stack_trace" not in model.SerializeToString()
        assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", OPSET)]


class Twisted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 32 * 32, 4)

    def forward(self, images_BCHW):
        return self.linear(torch.ops.fovea_test.twist(images_BCHW).flatten(1))


@pytest.fixture
def _twist():
    library = torch.library.Library("fovea_test", "DEF")
    library.define("twist(Tensor x) -> Tensor")
    library.impl("twist", lambda x: x.flip(3), "CompositeExplicitAutograd")
    library.impl("twist", torch.empty_like, "Meta")
    yield
    library._destroy()


@pytest.mark.usefixtures("_twist")
def test_an_operator_without_translation_is_named(session, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    twisted = dataclasses.replace(session, network=Twisted().eval())
    with pytest.raises(OperatorRefused, match=r"the operator fovea_test\.twist has no translation") as refused:
        network_model(twisted, "fp32")
    assert refused.value.code == "export.operator_refused"
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


class Doubting(nn.Module):
    def forward(self, images_BCHW):
        logits_BK = images_BCHW.flatten(1)[:, :4]
        return logits_BK if logits_BK.sum() > 0 else -logits_BK


def test_a_network_whose_way_depends_on_values_is_refused_in_one_sentence(session, capfd):
    with pytest.raises(OperatorRefused, match="resnet20 cannot be written as ONNX") as refused:
        network_model(dataclasses.replace(session, network=Doubting().eval()), "fp32")
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def normed(session):
    """A session of a convolution with a norm that changes much."""
    norm = nn.BatchNorm2d(4)
    norm.running_mean = torch.tensor([0.1, -3.0, 50.0, 0.0])
    norm.running_var = torch.tensor([1e-7, 0.3, 7e5, 1.0])
    network = nn.Sequential(nn.Conv2d(3, 4, 3), norm, nn.Flatten(), nn.Linear(3600, 4)).eval()
    return dataclasses.replace(session, network=network.to(memory_format=torch.channels_last))


def test_the_session_stays_as_it_was_and_nothing_is_said(normed, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = copy.deepcopy(normed.network.state_dict())
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model = network_model(normed, "fp16")
    for name, value in normed.network.state_dict().items():
        assert value.dtype == state[name].dtype
        assert value.stride() == state[name].stride()
        assert torch.equal(value, state[name])
    assert warned == []
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []
    _assert_folded_in_float32(model, normed)


def _assert_folded_in_float32(model, session):
    conv, norm = session.network[0], session.network[1]
    scale_C = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    expected_OIHW = (conv.weight * scale_C[:, None, None, None]).detach().half().numpy()
    np.testing.assert_allclose(weights["0.weight"], expected_OIHW, rtol=1e-3)
    assert (weights["0.weight"] == expected_OIHW).mean() > 0.95
    expected_C = ((conv.bias - norm.running_mean) * scale_C + norm.bias).detach().half().numpy()
    np.testing.assert_allclose(weights["0.bias"], expected_C, rtol=1e-3)
