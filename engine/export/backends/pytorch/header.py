"""The header of a safetensors file, in an order that is always the same.

The format (github.com/huggingface/safetensors, "Format"): eight bytes of the header's length, little endian; the
header, JSON, padded with blanks; the tensors. Metadata is written in a random order by its library.
"""

from __future__ import annotations

import json
from typing import Final

_LENGTH_BYTES: Final = 8
_ALIGNED_BYTES: Final = 8


def sorted_header(data: bytes) -> bytes:
    """The same file, with the metadata in the order of its keys."""
    end = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES], "little")
    header = json.loads(data[_LENGTH_BYTES:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + data[end:]
