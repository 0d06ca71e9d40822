"""The trained weights in their network: ``network = load_weights.load()``.

Needs torch, safetensors, numpy, Pillow and, where there is no network.py beside this file, the library that
``bundle.json`` names: torchvision or timm.
The network takes ``pixels`` of an image, normalised; its outputs are logits in the order of the classes.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
INDEX: dict[str, Any] = json.loads((HERE.parent / "bundle.json").read_text(encoding="utf-8"))


def load() -> nn.Module:
    """In evaluation mode, on the CPU."""
    how = next(model["building"] for model in INDEX["models"] if model["name"] == "pytorch-fp32")
    network: nn.Module = getattr(importlib.import_module(how["module"]), how["function"])(**how["arguments"])
    if how["in_channels"] == 1:  # of a network for grey images the first convolution has one channel
        parent, _, name = how["first_conv"].rpartition(".")
        rgb: Any = network.get_submodule(how["first_conv"])
        grey = nn.Conv2d(1, rgb.out_channels, rgb.kernel_size, rgb.stride, rgb.padding, bias=rgb.bias is not None)
        setattr(network.get_submodule(parent), name, grey)
    network.load_state_dict(load_file(HERE / "weights.safetensors"))
    return network.eval()


def pixels(image: Image.Image) -> NDArray[np.uint8]:
    """The picture as the network sees it: side x side x channels. ``image`` is of mode ``RGB``."""
    side, mode = INDEX["image_px"], INDEX["resize"]
    image = image.convert("L" if INDEX["colour"] == "grey" else "RGB")
    width, height = image.size
    inner, box = (side, side), (0.0, 0.0, float(width), float(height))
    if mode != "squash":
        longest, shortest = max(width, height), min(width, height)
        reduction = {"crop": shortest, "fill": longest, "half_crop": (width + height) / 2}[mode] / side
        seen_width, seen_height = min(width, side * reduction), min(height, side * reduction)
        left, top = (width - seen_width) / 2, (height - seen_height) / 2
        inner = (max(1, round(seen_width / reduction)), max(1, round(seen_height / reduction)))
        box = (left, top, left + seen_width, top + seen_height)
    square = Image.new(image.mode, (side, side), 0)
    place = ((side - inner[0]) // 2, (side - inner[1]) // 2)
    square.paste(image.resize(inner, Image.Resampling.BILINEAR, box=box), place)
    return np.asarray(square).reshape(side, side, -1)


def normalised(pixels_HWC: NDArray[np.uint8]) -> Tensor:
    """1 x channels x side x side, float32."""
    n_channels = pixels_HWC.shape[2]
    images = torch.from_numpy(np.array(pixels_HWC)).permute(2, 0, 1)[None].float() / 255
    mean, std = (torch.tensor(INDEX[name][:n_channels]).view(1, -1, 1, 1) for name in ("mean", "std"))
    return (images - mean) / std


def probabilities(network: nn.Module, data: bytes) -> NDArray[np.float32]:
    """Of each class, for one encoded image."""
    from predict import decode

    with torch.inference_mode():
        logits: Tensor = network(normalised(pixels(Image.fromarray(decode(data)))))
    shares: NDArray[np.float32] = logits.float().softmax(dim=1)[0].numpy()
    return shares


if __name__ == "__main__":
    loaded = load()
    print(f"{type(loaded).__name__}: {sum(each.numel() for each in loaded.parameters()):,} parameters")
    for argument in sys.argv[1:]:
        shares = probabilities(loaded, Path(argument).read_bytes())
        print(f"{argument}: {INDEX['classes'][int(shares.argmax())]!a} {shares.max():.4f}")
