"""Where the images of an import come from, as the form's fields say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, get_args

from django.conf import settings
from django.contrib.auth.models import User

from engine.catalog import sample_cards
from jobs.access import upload_for
from jobs.models import Upload
from jobs.requests import ListFile, ListsSource, ServerFile, SourceRequest, UploadedFile, UploadSource
from jobs.uploads import is_complete
from wire.cards import SampleCard
from wire.errors import FoveaError, UploadMissing
from wire.specs import FromFolder, FromSample

Way: TypeAlias = Literal["upload", "folder", "lists", "sample"]
WAY_LABELS: dict[Way, str] = {
    "upload": "Upload",
    "folder": "Folder on the server",
    "lists": "Text lists",
    "sample": "Sample",
}
FOLDERS = {
    "path": ("Folder", "Holds train/, val/ and test/ with a folder for each class, or just the class folders."),
    "val_path": ("Validation folder", "Only where it lies elsewhere."),
    "test_path": ("Test folder", "Only where it lies elsewhere."),
}
LISTS = {
    "train": ("Training list", "A line for each image: its path and its label."),
    "val": ("Validation list", "Without it, a share of the training images is taken."),
    "test": ("Test list", "Images that training never sees."),
    "labels": ("Class names", "One name a line; a label is then a line number counted from 0."),
}
LISTS_FOLDER = ("Base folder", "Relative paths in the lists begin here.")
ARCHIVE_ENDINGS = (".tar.gz", ".tar.zst", ".tgz", ".tzst", ".tar", ".zip")


def ways_offered() -> tuple[Way, ...]:
    """Text lists name images that lie on the server, so they need its folders too."""
    ways: tuple[Way, ...] = get_args(Way)
    return ways if settings.IMPORT_ROOTS else tuple(way for way in ways if way in {"upload", "sample"})


def way_offered(wanted: str) -> Way:
    """The wanted one, or the first where it is not offered."""
    offered = ways_offered()
    return next((way for way in offered if way == wanted), offered[0])


@dataclass(frozen=True, slots=True)
class Tab:
    way: Way
    label: str
    current: bool


@dataclass(frozen=True, slots=True)
class PathField:
    """A text field for a path on the server; one of a list may be an upload instead."""

    name: str
    label: str
    help: str
    value: str = ""
    error: str = ""
    folders_only: bool = False
    required: bool = False
    upload_name: str = ""
    """Of the field that holds an upload's id; empty where a file cannot be uploaded."""
    upload: Upload | None = None


@dataclass
class SourceFields:
    """The fields of all four ways; only those of ``way`` say where the images come from."""

    user: User
    way: Way
    values: Mapping[str, str]
    errors: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        return self.values.get(name, "").strip()

    @property
    def tabs(self) -> list[Tab]:
        return [Tab(way, WAY_LABELS[way], way == self.way) for way in ways_offered()]

    @property
    def offers_folders(self) -> bool:
        return "folder" in ways_offered()

    @property
    def folders(self) -> list[PathField]:
        return [self._folder(name, *words) for name, words in FOLDERS.items()]

    @property
    def lists(self) -> list[PathField]:
        return [
            PathField(
                f"{name}_list",
                label,
                help_text,
                self.text(f"{name}_list"),
                self.errors.get(f"{name}_list", ""),
                required=name == "train",
                upload_name=f"{name}_upload",
                upload=self._shown_upload(f"{name}_upload"),
            )
            for name, (label, help_text) in LISTS.items()
        ]

    @property
    def lists_folder(self) -> PathField:
        return self._folder("lists_folder", *LISTS_FOLDER)

    @property
    def samples(self) -> list[tuple[SampleCard, bool]]:
        """Each with whether it is chosen; the first one is, where nothing else was."""
        cards = list(sample_cards().values())
        chosen = self.text("sample") or (cards[0].name if cards else "")
        return [(card, card.name == chosen) for card in cards]

    @property
    def upload(self) -> Upload | None:
        """The file that was brought, to be shown by its name."""
        return self._shown_upload("upload")

    def _folder(self, name: str, label: str, help_text: str) -> PathField:
        error = self.errors.get(name, "")
        return PathField(
            name, label, help_text, self.text(name), error, folders_only=True, required=name in {"path", "lists_folder"}
        )

    def _shown_upload(self, name: str) -> Upload | None:
        try:
            return upload_for(self.user, self.text(name)) if self.text(name) else None
        except UploadMissing:
            return None

    # What was asked for.

    def request(self) -> SourceRequest | None:
        """None where something is missing; ``errors`` then says what."""
        made = {"upload": self._upload, "folder": self._from_folder, "lists": self._lists, "sample": self._sample}
        return made[self.way]()

    def _upload(self) -> UploadSource | None:
        found = self._uploaded("upload", missing="Choose an archive, a folder or files to upload.")
        return None if found is None else UploadSource(upload=found)

    def _uploaded(self, name: str, *, missing: str) -> str | None:
        wanted = self.text(name)
        if not wanted:
            self.errors[name] = missing
            return None
        try:
            upload = upload_for(self.user, wanted)
        except UploadMissing as error:
            self.errors[name] = sentence_of(error)
            return None
        if not is_complete(upload):
            self.errors[name] = f"{upload.name} has not arrived whole. Choose the same file again to go on with it."
            return None
        return upload.pk

    def _from_folder(self) -> FromFolder | None:
        if not self.text("path"):
            self.errors["path"] = "Give the folder that holds the images."
            return None
        return FromFolder(path=self.text("path"), val_path=self.text("val_path"), test_path=self.text("test_path"))

    def _lists(self) -> ListsSource | None:
        files = {name: self._list_file(name) for name in LISTS}
        if not files["train"]:
            self.errors.setdefault("train_list", "Give the list of the training images.")
        if self.errors or not files["train"]:
            return None
        return ListsSource(
            train=files["train"],
            val=files["val"],
            test=files["test"],
            labels=files["labels"],
            folder=self.text("lists_folder"),
        )

    def _list_file(self, name: str) -> ListFile | None:
        """An uploaded file goes before a path: choosing one clears the other in the page."""
        if self.text(f"{name}_upload"):
            found = self._uploaded(f"{name}_upload", missing="")
            if found is None:
                self.errors[f"{name}_list"] = self.errors.pop(f"{name}_upload")
            return None if found is None else UploadedFile(upload=found)
        path = self.text(f"{name}_list")
        return ServerFile(path=path) if path else None

    def _sample(self) -> FromSample | None:
        wanted = self.text("sample")
        if wanted not in sample_cards():
            self.errors["sample"] = f"There is no sample called {wanted!r}. Choose one." if wanted else "Choose one."
            return None
        return FromSample(name=wanted)

    def refuse(self, error: FoveaError) -> None:
        """Put what submitting said beside the field that it names, or beside the first one."""
        names = {
            "upload": ["upload"],
            "folder": list(FOLDERS),
            "lists": [*(f"{name}_list" for name in LISTS), "lists_folder"],
            "sample": ["sample"],
        }[self.way]
        named = [name for name in names if self.text(name) and self.text(name) in error.message]
        # The longest: a folder's path also stands in that of the folder within.
        blamed = max(named, key=lambda name: len(self.text(name)), default=names[0])
        self.errors[blamed] = sentence_of(error)

    @cached_property
    def suggested_name(self) -> str:
        """What a dataset from there would be called."""
        match self.way:
            case "upload":
                return without_ending(self.upload.name) if self.upload else ""
            case "sample":
                card = sample_cards().get(self.text("sample"))
                return card.label if card else ""
            case way:
                return PurePosixPath(self.text("path" if way == "folder" else "lists_folder")).name


def sentence_of(error: FoveaError) -> str:
    return f"{error.message} {error.hint}".strip()


def without_ending(file_name: str) -> str:
    for ending in ARCHIVE_ENDINGS:
        if file_name.lower().endswith(ending):
            return file_name[: -len(ending)]
    return file_name


def values_of(source: SourceRequest) -> dict[str, str]:
    """The fields that say this source."""
    match source:
        case UploadSource():
            return {"upload": source.upload}
        case FromFolder():
            return {"path": source.path, "val_path": source.val_path, "test_path": source.test_path}
        case FromSample():
            return {"sample": source.name}
        case ListsSource():
            values = {"lists_folder": source.folder}
            for name in LISTS:
                file: ListFile | None = getattr(source, name)
                if isinstance(file, ServerFile):
                    values[f"{name}_list"] = file.path
                elif isinstance(file, UploadedFile):
                    values[f"{name}_upload"] = file.upload
            return values
