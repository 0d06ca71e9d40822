"""Archives of every kind, well made and hostile, for any test that needs one. Each builder returns the file.

Members are pairs of name and bytes, or a dict of them; zip and tar keep their order. Nothing here is ever unpacked by
``zipfile`` or ``tarfile``, and no member's name is ever used as a path.
"""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import zstandard

Members: TypeAlias = Mapping[str, bytes] | Iterable[tuple[str, bytes]]
Kind: TypeAlias = Literal["zip", "tar", "tar.gz", "tar.zst"]

KINDS: tuple[Kind, ...] = ("zip", "tar", "tar.gz", "tar.zst")


def archive_of(path: Path, kind: Kind, members: Members) -> Path:
    """An ordinary archive of any kind, written to ``path`` whatever its ending."""
    if kind == "zip":
        return zip_of(path, members)
    return compressed(path, kind, tar_bytes(members))


def folder_archive(path: Path, kind: Kind, root: Path) -> Path:
    """All regular files below ``root``, as people pack a folder."""
    files = {file.relative_to(root).as_posix(): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}
    return archive_of(path, kind, files)


def compressed(path: Path, kind: Kind, tar: bytes) -> Path:
    if kind == "tar.gz":
        tar = gzip.compress(tar, 1)
    elif kind == "tar.zst":
        tar = zstandard.compress(tar)
    path.write_bytes(tar)
    return path


def zip_of(path: Path, members: Members, *, compression: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip; names may be doubled, and are stored as they are given, backslashes and all."""
    with zipfile.ZipFile(path, "w", compression) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name, data in _pairs(members):
            info = zipfile.ZipInfo("x")
            info.filename = name  # the constructor would cut it at a NUL
            info.compress_type = compression
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return path


def zip_with_mode(path: Path, members: Iterable[tuple[str, bytes, int]]) -> Path:
    """A zip of Unix, each member with its mode: ``stat.S_IFLNK | 0o777`` makes a link to what its bytes name."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data, mode in members:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return path


def tar_bytes(members: Members, *, format: int = tarfile.GNU_FORMAT) -> bytes:  # noqa: A002 - tarfile's own word
    return tar_of_infos([(_file(name, len(data)), data) for name, data in _pairs(members)], format=format)


def tar_of_infos(
    members: Iterable[tuple[tarfile.TarInfo, bytes]],
    *,
    format: int = tarfile.GNU_FORMAT,  # noqa: A002
) -> bytes:
    """A tar of any headers: links, devices, FIFOs (see ``special``), sizes that lie."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return file.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    """A member that is no file: of ``tarfile.SYMTYPE``, ``LNKTYPE``, ``CHRTYPE``, ``FIFOTYPE``, ``DIRTYPE``..."""
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info, b""


def encrypted_zip(path: Path, members: Members, *, only: Iterable[str] | None = None) -> Path:
    """A zip whose members (or ``only`` some) are marked as encrypted, as ``zip -e`` marks them."""
    zip_of(path, members)
    names = None if only is None else {name.encode() for name in only}
    data = bytearray(path.read_bytes())
    for at in _central_headers(data):
        n_name = struct.unpack_from("<H", data, at + 28)[0]
        if names is None or bytes(data[at + 46 : at + 46 + n_name]) in names:
            data[at + 8] |= 1
            data[struct.unpack_from("<L", data, at + 42)[0] + 6] |= 1
    path.write_bytes(data)
    return path


def lying_zip(path: Path, members: Members, *, declared_bytes: int, packed_bytes: int | None = None) -> Path:
    """A zip whose directory and headers state ``declared_bytes`` for each member, whatever it unpacks to."""
    zip_of(path, members)
    data = bytearray(path.read_bytes())
    for at in _central_headers(data):
        local = struct.unpack_from("<L", data, at + 42)[0]
        struct.pack_into("<L", data, at + 24, declared_bytes)
        struct.pack_into("<L", data, local + 22, declared_bytes)
        if packed_bytes is not None:
            struct.pack_into("<L", data, at + 20, packed_bytes)
            struct.pack_into("<L", data, local + 18, packed_bytes)
    path.write_bytes(data)
    return path


def broken_checksum_zip(path: Path, members: Members, *, broken: str) -> Path:
    """A stored zip in which one byte of the member ``broken`` is not what it was."""
    zip_of(path, members, compression=zipfile.ZIP_STORED)
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(broken)
    data = bytearray(path.read_bytes())
    data[info.header_offset + 30 + len(broken.encode()) + info.file_size // 2] ^= 0xFF
    path.write_bytes(data)
    return path


def overlapping_zip(path: Path, n_members: int, *, size_bytes: int = 2**20) -> Path:
    """One compressed body, and a directory in which it belongs to every member: small, and large when unpacked."""
    body = zlib.compress(bytes(size_bytes), 9)[2:-4]
    local = struct.pack(
        "<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, zlib.crc32(bytes(size_bytes)), len(body), size_bytes, 5, 0
    )
    directory = b"".join(
        struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, zlib.crc32(bytes(size_bytes)), len(body), size_bytes,
            len(name), 0, 0, 0, 0, 0, 0,
        )
        + name
        for name in (b"%d.png" % index for index in range(n_members))
    )  # fmt: skip
    data = local + b"0.png" + body
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n_members, n_members, len(directory), len(data), 0)
    path.write_bytes(data + directory + end)
    return path


def zip_bomb(path: Path, *, unpacked_bytes: int = 10 * 10**9, n_members: int = 20) -> Path:
    """A true bomb: zeros at 1:1000, written in seconds because one body serves for all members, a copy each."""
    size_bytes = unpacked_bytes // n_members
    body, crc = _zeros(size_bytes)
    data = bytearray()
    directory = bytearray()
    for index in range(n_members):
        name = b"cat/%06d.png" % index
        sizes = (crc, len(body), size_bytes, len(name))
        directory += struct.pack("<4s6H", b"PK\x01\x02", 20, 20, 0, 8, 0, 0)
        directory += struct.pack("<3L5H2L", *sizes, 0, 0, 0, 0, 0, len(data)) + name
        data += struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, *sizes, 0) + name + body
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n_members, n_members, len(directory), len(data), 0)
    path.write_bytes(data + directory + end)
    return path


def tar_bomb(path: Path, kind: Literal["tar.gz", "tar.zst"], *, unpacked_bytes: int) -> Path:
    """A compressed tar that says it holds ``unpacked_bytes`` of zeros, and does."""
    info = tarfile.TarInfo("cat/0.png")
    info.size = unpacked_bytes
    block = bytes(2**20)
    with path.open("wb") as file:
        opened = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) if kind == "tar.gz" else _zstd(file)
        with opened as stream:
            stream.write(info.tobuf(tarfile.GNU_FORMAT))
            for _ in range(unpacked_bytes // len(block)):
                stream.write(block)
            stream.write(bytes(unpacked_bytes % len(block) + 2 * 512))
    return path


def tiny_members(n_members: int, *, n_classes: int = 100) -> Iterator[tuple[str, bytes]]:
    """Very many very small files, in folders."""
    for index in range(n_members):
        yield f"class {index % n_classes}/{index}.png", b"tiny"


def tiny_zip(path: Path, n_members: int) -> Path:
    """``tiny_members`` stored in a zip, with the 64-bit directory where they need it; made in a second or two."""
    crc = zlib.crc32(b"tiny")
    data, directory = bytearray(), bytearray()
    for name, body in tiny_members(n_members):
        raw = name.encode()
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, crc, 4, 4, len(raw), *[0] * 5, len(data)
        )
        directory += raw
        data += struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 0, crc, 4, 4, len(raw), 0) + raw + body
    n_told = min(n_members, 0xFFFF)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, n_members, n_members, len(directory), len(data))
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) + len(directory), 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, n_told, n_told, len(directory), len(data), 0)
    path.write_bytes(data + directory + (end64 + locator if n_members > n_told else b"") + end)
    return path


def tiny_tar(n_members: int) -> bytes:
    """``tiny_members`` in a tar; headers differ in name and checksum alone, so they are made without ``tarfile``."""
    blank = bytearray(_file("x", 4).tobuf(tarfile.GNU_FORMAT))
    blank[:100], blank[148:156] = bytes(100), b" " * 8
    base, made = sum(blank), []
    for name, body in tiny_members(n_members):
        header, raw = blank[:], name.encode()
        header[: len(raw)] = raw
        header[148:156] = b"%06o\0 " % (base + sum(raw))
        made.append(header + body.ljust(512, b"\0"))
    return b"".join([*made, bytes(1024)])


def cut(path: Path, share: float) -> Path:
    """The beginning of a file, in place."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def _zeros(size_bytes: int) -> tuple[bytes, int]:
    """A deflated body of zeros and its checksum."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block, body, crc = bytes(2**20), [], 0
    for at in range(0, size_bytes, len(block)):
        piece = block[: size_bytes - at]
        body.append(deflater.compress(piece))
        crc = zlib.crc32(piece, crc)
    return b"".join([*body, deflater.flush()]), crc


def _zstd(file: io.BufferedWriter) -> zstandard.ZstdCompressionWriter:
    return zstandard.ZstdCompressor(level=1).stream_writer(file, closefd=False)


def _pairs(members: Members) -> Iterable[tuple[str, bytes]]:
    return members.items() if isinstance(members, Mapping) else members


def _file(name: str, size_bytes: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    return info


def _central_headers(data: bytearray) -> Iterator[int]:
    """Where the entries of the directory begin."""
    end = data.rindex(b"PK\x05\x06")
    n_entries, _, at = struct.unpack_from("<HLL", data, end + 10)
    for _ in range(n_entries):
        yield at
        at += 46 + sum(struct.unpack_from("<3H", data, at + 28))
