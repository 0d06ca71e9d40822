"""An import: where the images come from, and what is made of them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from wire.specs.strict import Strict, ui

Duplicates: TypeAlias = Literal["keep", "drop"]
Leaks: TypeAlias = Literal["drop_from_train", "keep"]


class FromSample(Strict):
    """One of the datasets that Fovea brings along."""

    kind: Literal["sample"] = "sample"
    name: str


class FromFolder(Strict):
    """A folder tree on this machine; validation and test images may lie in trees of their own."""

    kind: Literal["folder"] = "folder"
    path: str
    val_path: str = ""
    test_path: str = ""


class FromUpload(Strict):
    """One uploaded file: an archive."""

    kind: Literal["upload"] = "upload"
    path: str
    """Relative to the job's folder."""
    name: str
    """What the file was called where it came from."""


class FromLists(Strict):
    """Text files of lines ``path label``, as DIGITS took them.

    ``labels`` holds a class name a line; a label is then a line number counted from 0. Without it a label is the name
    itself. Paths are relative to ``folder``, or absolute; none may lead out of ``roots``.
    """

    kind: Literal["lists"] = "lists"
    train: str
    val: str = ""
    test: str = ""
    labels: str = ""
    folder: str = ""
    roots: tuple[str, ...] = ()


Source: TypeAlias = Annotated[FromSample | FromFolder | FromUpload | FromLists, Field(discriminator="kind")]


class ImportOptions(Strict):
    """The choices of the import form."""

    val_pct: float = Field(
        20.0,
        ge=0,
        le=90,
        title="Validation share",
        description="Taken from each class where no split is given.",
        json_schema_extra=ui("Split", unit="%"),
    )
    test_pct: float = Field(0.0, ge=0, le=90, title="Test share", json_schema_extra=ui("Split", unit="%"))
    seed: int = Field(
        0,
        ge=0,
        le=2**31 - 1,
        title="Seed",
        description="Of the splits, and of the choice among too many images.",
        json_schema_extra=ui("Split"),
    )
    classes: tuple[str, ...] = Field(
        (),
        title="Classes to keep",
        description="One a line; empty keeps all.",
        json_schema_extra=ui("Classes"),
    )
    min_per_class: int = Field(
        0,
        ge=0,
        title="At least",
        description="Smaller classes are left out.",
        json_schema_extra=ui("Classes", unit="images a class"),
    )
    max_per_class: int = Field(
        0,
        ge=0,
        title="At most",
        description="Of larger classes as many are drawn, in each given split; 0 takes all.",
        json_schema_extra=ui("Classes", unit="images a class"),
    )
    duplicates: Duplicates = Field(
        "keep",
        title="Exact duplicates",
        description="Files of a class, byte for byte the same.",
        json_schema_extra=ui("Duplicates", labels={"keep": "Keep all", "drop": "Keep one"}),
    )
    leaks: Leaks = Field(
        "drop_from_train",
        title="In training and in validation or test",
        description="The same picture in both makes the accuracy look better than it is.",
        json_schema_extra=ui(
            "Duplicates", labels={"drop_from_train": "Remove from training", "keep": "Keep, and flag"}
        ),
    )

    @model_validator(mode="after")
    def _something_is_left_to_train_on(self) -> ImportOptions:
        if self.val_pct + self.test_pct > 95:
            raise ValueError("validation and test together may take at most 95 %")
        if self.max_per_class and self.max_per_class < self.min_per_class:
            raise ValueError("at most must not be less than at least")
        return self


class ImportSpec(Strict):
    verb: Literal["import"] = "import"
    schema_version: int = 1
    name: str
    task: str = "classification"
    format: str = "auto"
    source: Source
    options: ImportOptions = ImportOptions()
