"""From exports to the bytes of a bundle. The same exports of the same run give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engine.bundle.facts import WEIGHTS, Curve, Entry, Overridden, RunFacts
from engine.bundle.index import golden_json, index_json
from engine.bundle.model_card import model_card_md
from engine.bundle.networks import NETWORKS, OWN_FILE
from engine.bundle.passports import passport_md
from engine.bundle.places import (
    CHECKSUMS,
    GOLDEN,
    INDEX,
    TRITON_DIR,
    WEIGHTS_DIR,
    default_of,
    delivered,
    folder_of,
)
from engine.bundle.readme import readme_md
from engine.bundle.triton import LABELS, config_pbtxt
from engine.bundle.wording import folder_name, one_line
from engine.bundle.zip_stream import Member, ZipStream
from wire.exports import ExportedFile

__all__ = ["Contents", "Curve", "Entry", "Overridden", "RunFacts", "bundle", "labels_txt"]

FILES_DIR: Final = Path(__file__).parent / "files"
_ALWAYS: Final = ("predict.py", "verify.py")
_FOR_ONNX: Final = ("server.py", "Dockerfile")
_FOR_ENGINES: Final = ("run_engine.py", "build_engine.py")


@dataclass(frozen=True, slots=True)
class Contents:
    """A bundle that can be sent: its size and every hash are known, its large files are still where they were."""

    name: str
    """Of the one folder that it unpacks to."""
    archive: ZipStream
    sha256: str
    """Of the list of hashes: equal bundles, equal value."""

    @property
    def size_bytes(self) -> int:
        return self.archive.size_bytes

    @property
    def paths(self) -> tuple[str, ...]:
        """Without the folder that all of them are in."""
        return tuple(member.path.partition("/")[2] for member in self.archive.members)

    def check(self) -> None:
        """Raises ``NotFound`` where a file of an export is gone, or of another size."""
        self.archive.check()

    def stream(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """The ZIP archive, or a range of its bytes; about 1 MiB in memory at a time.

        Raises:
            MemberChanged: a file of an export was changed meanwhile; what was sent is no whole archive.
        """
        return self.archive.stream(start, stop)


def bundle(entries: Sequence[Entry], run: RunFacts) -> Contents:
    """What goes out of the door for these exports, which are all of one checkpoint and of different targets.

    Cost: reads no file of an export. Memory: the texts, a few hundred kilobytes.

    Raises:
        ValueError: there is none, two are of one target, or they are of different checkpoints.
    """
    entries = sorted(entries, key=lambda entry: entry.order)
    _check(entries)
    name = folder_name(run.title, otherwise=f"run-{run.id}")
    golden, place_of = _golden(entries)
    members = [*_models(entries), *golden, *_triton(entries, name), *_programs(entries)]
    members += [
        Member.of(INDEX, index_json(entries, run)),
        Member.of(GOLDEN, golden_json(entries, place_of)),
        Member.of("labels.txt", labels_txt(entries[0].report.classes)),
        Member.of("MODEL_CARD.md", model_card_md(entries, run)),
    ]
    members.append(Member.of("README.md", readme_md(entries, run, [member.path for member in members])))
    sums = Member.of(CHECKSUMS, checksums(members))
    return Contents(name, ZipStream([_below(name, member) for member in [*members, sums]]), sums.sha256)


def _check(entries: Sequence[Entry]) -> None:
    if not entries:
        raise ValueError("a bundle of nothing")
    if len({entry.name for entry in entries}) < len(entries):
        raise ValueError("two exports of one target")
    if len({entry.report.checkpoint.sha256 for entry in entries}) > 1:
        raise ValueError("exports of different checkpoints")


def _below(folder: str, member: Member) -> Member:
    return Member(f"{folder}/{member.path}", member.n_bytes, member.crc32, member.sha256, member.source)


def _stored(entry: Entry, path: str, file: ExportedFile) -> Member:
    return Member(path, file.bytes, file.crc32, file.sha256, entry.folder.path / file.path)


def _models(entries: Sequence[Entry]) -> Iterator[Member]:
    for entry in entries:
        for path, file in delivered(entry):
            yield _stored(entry, path, file)
        report = entry.report.model_dump_json(indent=1) + "\n"
        yield Member.of(f"{folder_of(entry)}/report.json", report)
        if entry.files("engine"):
            yield Member.of(f"{folder_of(entry)}/PASSPORT.md", passport_md(entry))


def _golden(entries: Sequence[Entry]) -> tuple[list[Member], dict[tuple[str, str], str]]:
    """Images, each once however many exports have it; and where those of each export are found."""
    members: dict[str, Member] = {}
    place_of: dict[tuple[str, str], str] = {}
    for entry in entries:
        files = {file.path: file for file in entry.files("golden")}
        for golden in entry.report.golden:
            file = files[golden.path]
            member = members.get(file.sha256)
            if member is None:
                member = members[file.sha256] = _stored(entry, f"golden/{len(members) + 1}.png", file)
            place_of[entry.name, golden.path] = member.path
    return list(members.values()), place_of


def _triton(entries: Sequence[Entry], name: str) -> Iterator[Member]:
    default = default_of(list(entries))
    if default is None:
        return
    classes = default.report.classes
    folder = f"{TRITON_DIR}/{name}"
    yield _stored(default, f"{folder}/1/model.onnx", default.files("model")[0])
    yield Member.of(f"{folder}/config.pbtxt", config_pbtxt(name, len(classes)))
    yield Member.of(f"{folder}/{LABELS}", labels_txt(classes))


def _programs(entries: Sequence[Entry]) -> Iterator[Member]:
    yield from map(_verbatim, _ALWAYS)
    yield Member.of("requirements.txt", requirements_txt(entries))
    if default_of(list(entries)) is not None:
        yield from map(_verbatim, _FOR_ONNX)
        yield _verbatim("dockerignore", at=".dockerignore")
    if any(entry.files("engine") for entry in entries):
        yield from map(_verbatim, _FOR_ENGINES)
    for entry in entries:
        network = NETWORKS.get(entry.report.model.name) if entry.backend == WEIGHTS else None
        if network is None:
            continue
        yield _verbatim("load_weights.py", at=f"{WEIGHTS_DIR}/load_weights.py")
        if network.source is not None:
            yield Member.of(f"{WEIGHTS_DIR}/{OWN_FILE}", network.source.read_bytes())


def _verbatim(name: str, *, at: str = "") -> Member:
    return Member.of(at or name, (FILES_DIR / name).read_bytes())


def requirements_txt(entries: Sequence[Entry]) -> str:
    """What the programs need; where an export names the version that it was verified with, that one."""
    seen = {name.lower(): version for entry in entries for name, version in entry.report.versions.items()}
    lines = []
    for line in (FILES_DIR / "requirements.txt").read_text().splitlines():
        name, pinned, version = line.partition("==")
        lines.append(f"{name}=={seen.get(name, version)}" if pinned else line)
    return "".join(f"{line}\n" for line in lines)


def labels_txt(classes: Sequence[str]) -> str:
    """One class a line, whatever its name: what would end the line is written as Python writes it."""
    return "".join(f"{one_line(name)}\n" for name in classes)


def checksums(members: Sequence[Member]) -> str:
    """As ``sha256sum`` writes and reads them."""
    return "".join(f"{member.sha256}  {member.path}\n" for member in sorted(members, key=lambda each: each.path))
