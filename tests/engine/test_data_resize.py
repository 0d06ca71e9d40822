"""Every mode against a reference that knows only the definition: a triangle of weights for each pixel of the result."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from engine.data.resize import resize
from tests.kits.trees import noise
from wire.specs import Resize

MODES = get_args(Resize)
SIZES = [(40, 40), (61, 23), (23, 61), (200, 30), (7, 5), (1, 9), (32, 33), (300, 301)]


def _weights(n_in: int, n_out: int, start: float, stop: float) -> np.ndarray:
    """Row i: how much each source pixel counts for pixel i of the result, which covers its share of [start, stop]."""
    scale = (stop - start) / n_out
    reach = max(scale, 1.0)
    rows = np.zeros((n_out, n_in))
    for i in range(n_out):
        centre = start + (i + 0.5) * scale
        for j in range(n_in):
            rows[i, j] = max(0.0, 1 - abs(j + 0.5 - centre) / reach)
        rows[i] /= rows[i].sum()
    return rows


def _reference(picture: np.ndarray, px: int, mode: Resize) -> np.ndarray:
    height, width = picture.shape[:2]
    if mode == "squash":
        left, right, top, bottom, inner_w, inner_h = 0, width, 0, height, px, px
    else:
        side = {"crop": min(width, height), "fill": max(width, height), "half_crop": (width + height) / 2}[mode]
        seen_w, seen_h = min(width, side), min(height, side)
        left, top = (width - seen_w) / 2, (height - seen_h) / 2
        right, bottom = left + seen_w, top + seen_h
        inner_w, inner_h = max(1, round(px * seen_w / side)), max(1, round(px * seen_h / side))
    rows, columns = _weights(height, inner_h, top, bottom), _weights(width, inner_w, left, right)
    inner = np.stack([rows @ picture[:, :, c].astype(float) @ columns.T for c in range(picture.shape[2])], axis=2)
    square = np.zeros((px, px, picture.shape[2]))
    x, y = (px - inner_w) // 2, (px - inner_h) // 2
    square[y : y + inner_h, x : x + inner_w] = inner
    return square


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("px", [8, 32])
def test_every_mode_is_what_it_says(size, mode, px):
    picture = noise(*size, seed=size[0])
    pixels_HWC = resize(picture, px, mode, "rgb")
    assert pixels_HWC.shape == (px, px, 3)
    assert pixels_HWC.dtype == np.uint8
    # Pillow rounds to a byte after each of the two directions.
    np.testing.assert_allclose(pixels_HWC, _reference(np.asarray(picture), px, mode), atol=1.01)


@pytest.mark.parametrize("mode", MODES)
def test_an_image_of_the_right_size_is_left_alone(mode):
    picture = noise(16, 16)
    np.testing.assert_array_equal(resize(picture, 16, mode, "rgb"), np.asarray(picture))


@pytest.mark.parametrize("mode", MODES)
def test_grey_has_one_channel_and_as_colour_three_equal_ones(mode):
    picture = noise(20, 31, mode="L")
    grey_HW1 = resize(picture, 12, mode, "grey")
    assert grey_HW1.shape == (12, 12, 1)
    np.testing.assert_array_equal(resize(picture, 12, mode, "rgb"), np.repeat(grey_HW1, 3, axis=2))
    np.testing.assert_array_equal(resize(picture.convert("RGB"), 12, mode, "grey"), grey_HW1)


def test_crop_shows_the_middle_and_fill_shows_all():
    picture = Image.new("RGB", (30, 10), "white")
    picture.paste((255, 0, 0), (10, 0, 20, 10))
    np.testing.assert_array_equal(resize(picture, 10, "crop", "rgb"), np.broadcast_to([255, 0, 0], (10, 10, 3)))
    filled = resize(picture, 30, "fill", "rgb")
    np.testing.assert_array_equal(filled[10:20], np.asarray(picture))
    assert not filled[:10].any()
    assert not filled[20:].any()


def test_half_crop_cuts_half_and_pads_half():
    """90 x 30 at the mean reduction: 60 of 90 columns are seen, and 30 of 60 rows are filled."""
    picture = noise(90, 30)
    half = resize(picture, 60, "half_crop", "rgb")
    np.testing.assert_array_equal(half[15:45], np.asarray(picture)[:, 15:75])
    assert not half[:15].any()
    assert not half[45:].any()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 80), st.integers(1, 80), st.integers(8, 40), st.sampled_from(MODES))
def test_any_shape_becomes_the_square_asked_for(width, height, px, mode):
    white = resize(Image.new("L", (width, height), 255), px, mode, "grey")
    assert white.shape == (px, px, 1)
    assert set(np.unique(white)) <= {0, 255}
    if mode in ("squash", "crop"):
        assert white.all()
