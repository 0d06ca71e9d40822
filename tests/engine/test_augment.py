from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torchvision.transforms import functional

from engine.data import augment as module
from engine.data.augment import Augment

pytestmark = pytest.mark.slow

PRESETS = ["shift", "flip", "photo", "strong"]
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _images(n_images: int = 6, n_channels: int = 3, px: int = 16) -> torch.Tensor:
    return torch.rand(n_images, n_channels, px, px, generator=torch.Generator().manual_seed(1))


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _draw(n_images: int, seed: int = 0) -> module._Draw:
    return module._Draw(n_images, _generator(seed), torch.device("cpu"))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("device", DEVICES)
def test_a_preset_changes_images_and_keeps_their_kind(preset, n_channels, device):
    images = _images(n_channels=n_channels).to(device)
    before = images.clone()
    changed = Augment(preset, 16)(images, _generator())
    assert changed.shape == images.shape
    assert changed.dtype == torch.float32
    assert changed.device == images.device
    assert 0 <= changed.min() <= changed.max() <= 1
    assert not torch.equal(changed, images)
    assert torch.equal(images, before)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_generator_alone_decides(preset):
    augment = Augment(preset, 16)
    first = augment(_images(), _generator(5))
    assert torch.equal(augment(_images(), _generator(5)), first)
    assert not torch.equal(augment(_images(), _generator(6)), first)


@pytest.mark.parametrize("preset", PRESETS)
def test_each_image_has_its_own_draw(preset):
    same = _images(1).expand(8, -1, -1, -1)
    changed = Augment(preset, 16)(same, _generator())
    assert len({image.numpy().tobytes() for image in changed}) == 8


def test_none_changes_nothing():
    images = _images()
    assert torch.equal(Augment("none", 16)(images, _generator()), images)


def test_shift_stays_within_its_bounds():
    affine = module._affine(module._PRESETS["shift"], _draw(5000)).numpy()
    scale = np.hypot(affine[:, 0, 0], affine[:, 1, 0])
    angle_deg = np.degrees(np.arctan2(affine[:, 1, 0], affine[:, 0, 0]))
    for values, low, high in ((scale, 0.9, 1.1), (angle_deg, -10, 10), (affine[:, :, 2] / 2, -0.1, 0.1)):
        assert low <= values.min() < low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) < values.max() <= high
    # Turned and scaled, never sheared or mirrored.
    np.testing.assert_allclose(affine[:, 0, 0], affine[:, 1, 1], atol=1e-6)
    np.testing.assert_allclose(affine[:, 0, 1], -affine[:, 1, 0], atol=1e-6)


def test_a_crop_lies_inside_the_picture_and_shows_its_share():
    affine = module._affine(module._PRESETS["photo"], _draw(5000)).numpy()
    width, height = np.abs(affine[:, 0, 0]), affine[:, 1, 1]
    assert (np.abs(affine[:, 0, 2]) + width).max() <= 1 + 1e-6
    assert (np.abs(affine[:, 1, 2]) + height).max() <= 1 + 1e-6
    assert 0.34 < (width * height).min() < 0.37
    assert (width * height).max() <= 1
    uncut = (width < 1) & (height < 1)
    aspect = (width / height)[uncut]
    assert 3 / 4 - 1e-6 <= aspect.min() < 0.76
    assert 1.32 < aspect.max() <= 4 / 3 + 1e-6
    assert 0.47 < (affine[:, 0, 0] < 0).mean() < 0.53


def _sampled_slowly(image_HW: np.ndarray, affine: np.ndarray, outside: float) -> np.ndarray:
    """Each pixel by itself: where it looks, and the four pixels around that place."""
    side = len(image_HW)
    result = np.zeros_like(image_HW)

    def value(y: int, x: int) -> float:
        return image_HW[y, x] if 0 <= y < side and 0 <= x < side else outside

    for row in range(side):
        for column in range(side):
            place = np.array([(2 * column + 1) / side - 1, (2 * row + 1) / side - 1, 1.0])
            x, y = ((affine @ place + 1) * side - 1) / 2
            x0, y0 = math.floor(x), math.floor(y)
            fx, fy = x - x0, y - y0
            top = value(y0, x0) * (1 - fx) + value(y0, x0 + 1) * fx
            bottom = value(y0 + 1, x0) * (1 - fx) + value(y0 + 1, x0 + 1) * fx
            result[row, column] = top * (1 - fy) + bottom * fy
    return result


@pytest.mark.parametrize("paper", [0.0, 1.0])
def test_shift_agrees_with_a_slow_reference(paper):
    images = torch.full((3, 1, 12, 12), paper)
    images[:, :, 1:-1, 1:-1] = _images(3, 1, 10)
    affine = module._affine(module._PRESETS["shift"], _draw(3))
    changed = Augment("shift", 12)(images, _generator(0))
    for image, theta, result in zip(images, affine, changed, strict=True):
        expected = _sampled_slowly(image[0].double().numpy(), theta.double().numpy(), outside=paper)
        np.testing.assert_allclose(result[0].numpy(), expected, atol=1e-4)


def test_beyond_the_edge_a_photograph_is_mirrored():
    """A shift by whole pixels, so that the result is the mirrored picture cut out elsewhere."""
    image = _images(1, 3, 8)
    theta = torch.tensor([[[1.0, 0, 2 * 3 / 8], [0, 1.0, 0]]])
    changed = module._resampled(image, theta, "reflection")
    np.testing.assert_allclose(changed[..., :5], image[..., 3:], atol=1e-5)
    np.testing.assert_allclose(changed[..., 5:], image[..., 5:].flip(-1), atol=1e-5)


def test_flip_mirrors_left_and_right():
    preset = module._Preset(flip=True)
    image = _images(1)
    changed = module._resampled(image.expand(40, -1, -1, -1), module._affine(preset, _draw(40)), "reflection")
    kept = [torch.allclose(one, image[0], atol=1e-5) for one in changed]
    mirrored = [torch.allclose(one, image[0].flip(-1), atol=1e-5) for one in changed]
    assert all(a != b for a, b in zip(kept, mirrored, strict=True))
    assert 8 < sum(mirrored) < 32


def test_jitter_agrees_with_torchvision_one_image_at_a_time():
    images = _images(5)
    factors = _draw(5)
    brightness, contrast, saturation = ((1 + factors.around(0.3)).tolist() for _ in range(3))
    changed = module._jittered(images, 0.3, _draw(5))
    for index, image in enumerate(images):
        expected = functional.adjust_brightness(image, brightness[index])
        expected = functional.adjust_contrast(expected, contrast[index])
        expected = functional.adjust_saturation(expected, saturation[index])
        np.testing.assert_allclose(changed[index], expected, atol=1e-3)


def test_grey_jitter_changes_no_more_than_brightness_and_contrast():
    grey = _images(5, 1)
    as_colour = module._jittered(grey.expand(-1, 3, -1, -1), 0.3, _draw(5))
    np.testing.assert_allclose(module._jittered(grey, 0.3, _draw(5)), as_colour[:, :1], atol=1e-5)


def test_an_erased_patch_is_a_rectangle_of_the_mean_colour():
    images = _images(400, 3, 32)
    changed = module._erased(images, 0.5, _draw(400))
    n_erased = 0
    for image, result in zip(images, changed, strict=True):
        gone_HW = (image != result).any(dim=0)
        if not gone_HW.any():
            continue
        n_erased += 1
        rows, columns = gone_HW.any(dim=1).nonzero(), gone_HW.any(dim=0).nonzero()
        patch = (slice(rows.min(), rows.max() + 1), slice(columns.min(), columns.max() + 1))
        assert gone_HW[patch].all()
        assert gone_HW.sum() <= 0.25 * gone_HW.numel()
        np.testing.assert_allclose(
            result[:, gone_HW], image.mean(dim=(1, 2))[:, None].expand(-1, gone_HW.sum()), atol=1e-5
        )
    assert 150 < n_erased < 250
