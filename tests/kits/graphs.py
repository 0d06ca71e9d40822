"""Networks of the catalogue as graphs, made once for all tests of a process: an export takes seconds."""

from __future__ import annotations

from functools import cache

import onnx

from engine.export.network import NetworkPrecision, network_model
from engine.predict.session import Session
from tests.kits.bundled import new_session


@cache
def session_of(model: str, colour: str) -> Session:
    return new_session(model=model, colour=colour, resize="crop" if colour == "rgb" else "half_crop")


@cache
def network_of(model: str, colour: str, precision: NetworkPrecision) -> onnx.ModelProto:
    return network_model(session_of(model, colour), precision)
