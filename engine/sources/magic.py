"""What a file is, by its first bytes: whatever its name says, people rename things."""

from __future__ import annotations

import tarfile
from typing import Final, Literal, TypeAlias

HEAD_BYTES: Final = 4096

Known: TypeAlias = Literal["zip", "tar", "gzip", "zstd", "7z", "rar", "bzip2", "xz", "picture"]

_MAGICS: Final[tuple[tuple[bytes, Known], ...]] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08", "zip"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\xff\xd8\xff", "picture"),
    (b"\x89PNG\r\n\x1a\n", "picture"),
    (b"GIF8", "picture"),
    (b"II*\x00", "picture"),
    (b"MM\x00*", "picture"),
)
# Too short to be told from a tar whose first member has such a name; asked after it.
_SHORT_MAGICS: Final = (b"BM", b"P1", b"P2", b"P3", b"P4", b"P5", b"P6")


def kind_of(head: bytes) -> Known | None:
    """The kind of file that begins with ``head``; None for any other."""
    for magic, kind in _MAGICS:
        if head.startswith(magic):
            return kind
    if head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F:  # a frame that carries no data, as pzstd puts first
        return "zstd"
    if is_tar(head):
        return "tar"
    if head.startswith(_SHORT_MAGICS) or (head.startswith(b"RIFF") and head[8:12] == b"WEBP"):
        return "picture"
    return None


def is_tar(head: bytes) -> bool:
    """Whether a tar header comes first; its checksum makes a mistake unlikely."""
    try:
        tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True
