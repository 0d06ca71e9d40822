"""What happens to a picture before the network, as ONNX: the very pixels of ``engine.data.resize``, then normalised.

Pillow resizes with whole numbers: each output pixel is a sum of input pixels times weights in units of 2**-22, rounded
to a byte, in one direction after the other. Here the same whole numbers are computed from the size of the
picture at hand. Positions are fractions; over a common denominator they are integers of 32 bits, and so are the
triangle's weights, their sum, and the long division of the one by the other. The products with the pixels are two
matrix products of float32 whose every partial sum is an integer below 2**24, hence exact, also in TF32.

Limits: up to 32,767 px a side from an image size of 32 px on (16,384 px below), and up to 513 input pixels to one of
the result; beyond the second a grey level may be off by one. No operator here needs float64, nor an antialiasing
``Resize``, which TensorRT does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import onnx
from onnx import TensorProto, helper

from engine.data.normalise import Normalise
from engine.export.formula import Steps, Value
from engine.export.network import IR_VERSION, OPSET
from wire.specs import Colour, Resize

_INT: Final = TensorProto.INT32
_FLOAT: Final = TensorProto.FLOAT
_WEIGHT_BITS: Final = 22
_HALF: Final = 2 ** (_WEIGHT_BITS - 1)
_DIVISION_BITS: Final = (14, 3, 3, 3)
"""Binary places found in each step of the long division, one more than the weights have: the last one rounds."""
_FINE: Final = 2048
_COARSE: Final = 128
"""What weights are split by, see ``_split``."""
_FINE_LIMIT: Final = 31
"""Input pixels to one of the result, up to which the finer split is exact."""
_LUMA: Final = (19595.0, 38470.0, 7471.0)
"""Pillow's grey in units of 2**-16."""
_MANTISSA_BITS: Final = 52
_MOST_PX: Final = 2**16


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one side of the picture becomes one side of the square; each a tensor of one integer."""

    length: Value
    """Pixels of the picture."""
    twice_seen: Value
    """Twice the pixels of the picture that are seen, about its middle."""
    inner: Value | int
    """Pixels of the square that show them, in its middle; the others are black. A number where it is always that."""


def preprocess_model(
    image_px: int, resize: Resize, colour: Colour, mean: Sequence[float], std: Sequence[float]
) -> onnx.ModelProto:
    """Pictures of any size to what the network is shown.

    Args:
        image_px: side of the network's images, 8 to 1024.
        resize: how pictures of another shape become square.
        colour: what the network sees.
        mean: of red, green and blue, 0 to 1, as the session has them.
        std: likewise.

    Shapes:
        input ``images`` uint8 (batch, height, width, 3), RGB; output ``pixels`` float32 (batch, C, px, px), C = 3 for
        ``rgb`` and 1 for ``grey``.
    """
    steps = Steps("preprocess")
    images_NHWC = steps.given("images", TensorProto.UINT8)
    pixels_NHWC = images_NHWC.to(_FLOAT)
    height, width = _size(pixels_NHWC, (1, 2))
    is_square = height.equals(image_px) & width.equals(image_px)
    # Of a picture that has the size already only one pixel is resized, of any other only one pixel is left as it is.
    # Two branches would be plainer, but TensorRT builds no engine of a branch that hands an input through.
    one, all_px = steps.constant([1], _INT), steps.constant([_MOST_PX], _INT)
    to_resize_NCHW = _corner(pixels_NHWC, is_square.choose(one, all_px), colour)
    as_it_is_NCHW = _corner(pixels_NHWC, is_square.choose(all_px, one), colour)
    rows, columns = _axes(*_size(to_resize_NCHW, (2, 3)), image_px, resize)
    pixels_NCHW = is_square.choose(as_it_is_NCHW, _resized(to_resize_NCHW, rows, columns, image_px))
    n_channels = 1 if colour == "grey" else 3
    pixels_NCHW = _normalised(pixels_NCHW, mean, std, n_channels)
    steps.nodes[-1].output[0] = "pixels"
    graph = helper.make_graph(
        steps.nodes,
        "preprocess",
        [helper.make_tensor_value_info("images", TensorProto.UINT8, ["batch", "height", "width", 3])],
        [helper.make_tensor_value_info("pixels", _FLOAT, ["batch", n_channels, image_px, image_px])],
        steps.constants,
    )
    model = helper.make_model(
        graph, producer_name="Fovea", ir_version=IR_VERSION, opset_imports=[helper.make_opsetid("", OPSET)]
    )
    onnx.checker.check_model(model)
    return model


def _size(images: Value, axes: tuple[int, int]) -> tuple[Value, Value]:
    """Height and width."""
    height, width = (
        images.steps.apply("Shape", images, kind=TensorProto.INT64, start=axis, end=axis + 1).to(_INT) for axis in axes
    )
    return height, width


def _corner(pixels_NHWC: Value, px: Value, colour: Colour) -> Value:
    """``pixels_NCHW`` of the upper left corner, in the network's colours."""
    steps = pixels_NHWC.steps
    stop = px.to(TensorProto.INT64)
    starts, axes = steps.constant([0, 0], TensorProto.INT64), steps.constant([1, 2], TensorProto.INT64)
    corner_NHWC = steps.apply("Slice", pixels_NHWC, starts, steps.apply("Concat", stop, stop, axis=0), axes)
    corner_NCHW = steps.apply("Transpose", corner_NHWC, perm=[0, 3, 1, 2])
    return _grey(corner_NCHW) if colour == "grey" else corner_NCHW


def _grey(pixels_N3HW: Value) -> Value:
    """Weighed with whole numbers and rounded half up, below 2**24 and so exact."""
    steps = pixels_N3HW.steps
    weighed_N3HW = pixels_N3HW * steps.constant([[[share]] for share in _LUMA], _FLOAT)
    return steps.apply("Floor", (weighed_N3HW.summed(axis=1) + 2.0**15) * 2.0**-16)


def _normalised(pixels_NCHW: Value, mean: Sequence[float], std: Sequence[float], n_channels: int) -> Value:
    import torch

    normalise = Normalise(mean, std, n_channels, torch.device("cpu"))
    steps = pixels_NCHW.steps
    mean_C11 = steps.constant([[[value]] for value in normalise.mean_C], _FLOAT)
    std_C11 = steps.constant([[[value]] for value in normalise.std_C], _FLOAT)
    return (pixels_NCHW / 255.0 - mean_C11) / std_C11


def _axes(height: Value, width: Value, px: int, resize: Resize) -> tuple[_Axis, _Axis]:
    """Rows and columns, as ``engine.data.resize`` has it: the square shows ``side`` pixels along each of its sides."""
    if resize == "squash":
        return _Axis(height, 2 * height, px), _Axis(width, 2 * width, px)
    if resize == "crop":
        twice_side = 2 * height.at_most(width)
        return _Axis(height, twice_side, px), _Axis(width, twice_side, px)
    twice_side = 2 * height.at_least(width) if resize == "fill" else height + width
    return _within(height, twice_side, px), _within(width, twice_side, px)


def _within(length: Value, twice_side: Value, px: int) -> _Axis:
    return _Axis(length, twice_side.at_most(2 * length), _inner_px(length, twice_side, px))


def _inner_px(length: Value, twice_side: Value, px: int) -> Value:
    """``max(1, round(length / (side / px)))`` as Python has it, and ``px`` where the side is the shorter.

    Halves go to the even number, unless the float64 quotient ``side / px``, itself rounded, drew them off the half.
    """
    unit = 2 * px
    whole = length * unit // twice_side
    twice_rest = 2 * (length * unit - whole * twice_side)
    odd = whole - 2 * (whole // 2)
    drawn_up, drawn_down = _drawn(whole, twice_side, unit)
    half_up = drawn_up + odd - (drawn_up + drawn_down) * odd
    up = twice_rest.equals(twice_side).choose(half_up, (twice_rest > twice_side).to(_INT))
    return (whole + up).at_least(1).at_most(px)


def _drawn(whole: Value, twice_side: Value, unit: int) -> tuple[Value, Value]:
    """Whether float64 takes the half above ``whole`` for more than a half, and for less; 1 or 0 each.

    Let the quotient be ``side / px = twice_side / unit``, in [2**g, 2**(g+1)). Its mantissa's last place is 2**(g-52),
    and what is left over there, out of ``unit``, is (twice_side * 2**(52-g)) mod unit; this says how far it was rounded
    and which way. The half is drawn off where it is moved by more than half its own last place.
    """
    steps = whole.steps
    least = -(unit.bit_length() - 1)
    powers = range(least, 17)
    reached = twice_side >= steps.constant([max(1, _ceiled(unit, g)) for g in powers], _INT)
    index = reached.to(_INT).summed(axis=0) - 1

    def of_g(numbers: list[int]) -> Value:
        return steps.apply("Gather", steps.constant(numbers, _INT), index)

    # Reduced first, so that the product stays below unit**2.
    scaled = _remainder(twice_side, unit) * of_g([pow(2, _MANTISSA_BITS - g, unit) for g in powers])
    left_over = _remainder(scaled, unit)
    rounded_up = 2 * left_over >= unit
    off = rounded_up.choose(unit - left_over, left_over)
    moved = (2 * whole + 1) * off * of_g([2 ** max(g, 0) for g in powers])
    # The largest power of two that is not above ``whole``: 1, and what each power that is reached adds.
    doublings = [2**k for k in range(1, 11)]
    added = (whole >= steps.constant(doublings, _INT)).choose(steps.constant([d // 2 for d in doublings], _INT), 0)
    allowed = twice_side * (added.summed(axis=0) + 1) * of_g([2 ** max(-g, 0) for g in powers])
    # A larger divisor gives a smaller quotient. In between the second order decides: it adds.
    drawn_down = (rounded_up & (moved > allowed)).to(_INT)
    drawn_up = (moved >= allowed).to(_INT) * (1 - rounded_up.to(_INT))
    return drawn_up, drawn_down


def _ceiled(unit: int, g: int) -> int:
    """``unit * 2**g``, rounded up."""
    return unit << g if g >= 0 else -(-unit >> -g)


def _remainder(value: Value, divisor: int) -> Value:
    return value - value // divisor * divisor


def _resized(pixels_NCHW: Value, rows: _Axis, columns: _Axis, px: int) -> Value:
    """From bytes to bytes, in float32. The direction that comes first is rounded first, so the order matters."""
    steps = pixels_NCHW.steps
    row_weights_2PH, row_divisor = _split(_weights(rows, px), rows)
    column_weights_2PW, column_divisor = _split(_weights(columns, px), columns)
    column_weights_W2P = steps.apply("Transpose", column_weights_2PW, perm=[1, 0])

    def along_columns(images_NCHW: Value) -> Value:
        return _joined(row_weights_2PH @ images_NCHW, row_divisor, axis=2)

    def along_rows(images_NCHW: Value) -> Value:
        return _joined(images_NCHW @ column_weights_W2P, column_divisor, axis=3)

    # Since version 13 Pillow begins with the columns where they lose more than twice as many pixels as the rows.
    lost = rows.length - rows.inner
    columns_first = (lost > 0) & (lost > 2 * (columns.length - columns.inner))
    return steps.branch(
        _scalar(columns_first),
        lambda: along_rows(along_columns(pixels_NCHW)),
        lambda: along_columns(along_rows(pixels_NCHW)),
    )


def _weights(axis: _Axis, px: int) -> Value:
    """How much each pixel of the picture counts for each of the square, ``weights_PL`` in units of 2**-22.

    Pixel x of the picture is at x + 1/2, pixel i of the square at start + (i + 1/2) * seen / inner, with start =
    (length - seen) / 2. The triangle falls to 0 at a distance of seen / inner, or of 1 where that is less. In units of
    1 / (4 * inner) all of them are integers.
    """
    steps = axis.length.steps
    x_L = _counted(axis.length)
    place_P = steps.constant([[i] for i in range(px)], _INT)
    i_P = place_P - (px - axis.inner) // 2
    centre_P = axis.inner * (2 * axis.length - axis.twice_seen) + (2 * i_P + 1) * axis.twice_seen
    distance_PL = abs(2 * axis.inner * (2 * x_L + 1) - centre_P)
    reach = (2 * axis.twice_seen).at_least(4 * axis.inner)
    heights_PL = (reach - distance_PL).at_least(0)
    shown_P = (i_P >= 0) & (i_P < axis.inner)
    heights_PL = shown_P.choose(heights_PL, 0)
    return _rounded_shares(heights_PL, heights_PL.summed(axis=1).at_least(1))


def _counted(length: Value) -> Value:
    """0, 1, ... up to ``length``."""
    steps = length.steps
    return steps.apply("Range", steps.constant(0, _INT), _scalar(length), steps.constant(1, _INT))


def _scalar(value_1: Value) -> Value:
    """Without the axis of its one element."""
    return value_1.steps.apply("Squeeze", value_1, value_1.steps.constant([0], TensorProto.INT64))


def _rounded_shares(parts: Value, total: Value) -> Value:
    """``parts / total`` in units of 2**-22, halves up: by long division, as 32 bits do not hold the product."""
    quotient, rest = parts * 0, parts
    for n_bits in _DIVISION_BITS:
        rest = rest * 2**n_bits
        digits = rest // total
        rest = rest - digits * total
        quotient = quotient * 2**n_bits + digits
    return (quotient + 1) // 2


def _split(weights_PL: Value, axis: _Axis) -> tuple[Value, Value]:
    """The weights as ``high * divisor + low``, high ones above low ones, in float32; and the divisor.

    A low part is at most half the divisor, and about two input pixels to one of the result count, so that 255 times the
    sum of the low parts is below 2**24: for 2048 up to 31 pixels to one, for 128 up to 513. The high parts then sum up
    to less as well, and have no more than the 11 significant bits of TF32.
    """
    steps = weights_PL.steps
    is_fine = axis.twice_seen < axis.inner * (2 * _FINE_LIMIT) + 1
    divisor = is_fine.choose(steps.constant([_FINE], _INT), _COARSE)
    high_PL = (weights_PL + divisor // 2) // divisor
    low_PL = weights_PL - high_PL * divisor
    return steps.apply("Concat", high_PL, low_PL, axis=0).to(_FLOAT), divisor


def _joined(sums: Value, divisor: Value, axis: int) -> Value:
    """Sums of both parts to bytes, halves up."""
    high, low = sums.steps.apply_many("Split", sums, n=2, axis=axis, num_outputs=2)
    total = high.to(_INT) * divisor + low.to(_INT)
    return ((total + _HALF) // 2**_WEIGHT_BITS).to(_FLOAT)
