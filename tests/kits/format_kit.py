"""What every dataset format must do. Subclass ``FormatKit`` beside the format's own tests:

    class TestVocFormat(FormatKit):
        name = "voc"

and add the layout to ``FIXTURES``, so that the other formats are held against it too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.catalog import format_cards
from engine.formats import DatasetFormat, FoundImage, Tree
from engine.importing import pipeline
from engine.sources.folder import FolderTree
from tests.kits.trees import class_tree, job_context, write_images
from wire.layout import JobDir
from wire.manifests import DatasetManifest
from wire.specs import FromFolder, ImportSpec


def _class_folders(root: Path) -> None:
    class_tree(root, {"cat": 5, "dog": 5})


def _pictures_without_folders(root: Path) -> None:
    write_images(root, 4)


def _documents(root: Path) -> None:
    for name in ("invoices", "letters"):
        (root / name).mkdir()
        (root / name / "one.txt").write_text("no picture")


def _voc_boxes(root: Path) -> None:
    write_images(root / "JPEGImages", 3)
    (root / "Annotations").mkdir()
    for index in range(3):
        (root / "Annotations" / f"{index}.xml").write_text(
            "<annotation><object><name>cell</name></object></annotation>"
        )


def _text_lists(root: Path) -> None:
    write_images(root / "photos", 10)
    lines = [f"photos/{index}.png {('cat', 'dog')[index % 2]}" for index in range(10)]
    (root / "train.txt").write_text("\n".join(lines[:8]))
    (root / "val.txt").write_text("\n".join(lines[8:]))


FIXTURES: dict[str, Callable[[Path], None]] = {
    "folder": _class_folders,
    "lists": _text_lists,
    "no dataset: loose pictures": _pictures_without_folders,
    "no dataset: documents": _documents,
    "no dataset yet: boxes": _voc_boxes,
}
"""A tree for each format by its name, and trees that no format may claim."""

SURE = 0.5


class FormatKit:
    name: str

    @pytest.fixture
    def layout(self) -> DatasetFormat:
        layout: DatasetFormat = format_cards()[self.name].load()
        return layout

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "tree"
        root.mkdir()
        FIXTURES[self.name](root)
        return root

    @pytest.fixture
    def tree(self, root: Path) -> Tree:
        return FolderTree(root)

    def test_detects_its_own_fixture(self, layout: DatasetFormat, tree: Tree) -> None:
        assert SURE <= layout.detect(tree) <= 1

    @pytest.mark.parametrize("other", FIXTURES)
    def test_detects_no_other(self, layout: DatasetFormat, tmp_path: Path, other: str) -> None:
        if other == self.name:
            return
        FIXTURES[other](tmp_path)
        assert layout.detect(FolderTree(tmp_path)) < SURE

    def test_reads_twice_the_same(self, layout: DatasetFormat, tree: Tree) -> None:
        first = list(layout.read(tree))
        assert first
        assert list(layout.read(tree)) == first
        assert len({found.name for found in first}) == len(first)

    def test_names_every_file_once_and_by_its_path(self, layout: DatasetFormat, tree: Tree) -> None:
        assert {found.name for found in layout.read(tree)} <= set(tree.names())

    def test_every_class_of_an_image_is_named(self, layout: DatasetFormat, tree: Tree) -> None:
        names = layout.class_names(tree)
        assert len(set(names)) == len(names)
        assert {found.label for found in layout.read(tree) if isinstance(found, FoundImage)} <= set(names)

    def test_survives_a_broken_image(self, layout: DatasetFormat, tree: Tree, root: Path, tmp_path: Path) -> None:
        broken = next(found.name for found in layout.read(tree) if isinstance(found, FoundImage))
        (root / broken).write_bytes((root / broken).read_bytes()[:40])
        n_images = sum(isinstance(found, FoundImage) for found in layout.read(tree))

        spec = ImportSpec(name="broken", format=self.name, source=FromFolder(path=str(root)))
        assert pipeline.run(spec, job_context(tmp_path / "job")) == "succeeded"

        manifest_path = JobDir(tmp_path / "job").dataset_dir / "manifest.json"
        manifest = DatasetManifest.model_validate_json(manifest_path.read_bytes())
        assert broken in {refused.name for refused in manifest.refused}
        assert manifest.n_images() == n_images - 1

    def test_writes_nothing(self, layout: DatasetFormat, tree: Tree, root: Path) -> None:
        before = _snapshot(root)
        layout.detect(tree)
        list(layout.read(tree))
        assert _snapshot(root) == before

    def test_copes_with_an_empty_folder(self, layout: DatasetFormat, tmp_path: Path) -> None:
        assert layout.detect(FolderTree(tmp_path)) == 0
        assert list(layout.read(FolderTree(tmp_path))) == []


def _snapshot(root: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}
