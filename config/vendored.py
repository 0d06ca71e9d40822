"""Static files: ours, and those of installed packages that a page loads; served under the hash of their content."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage
from servestatic.storage import CompressedManifestStaticFilesStorage

_RELATIVE = r"""["'](?P<url>\.{1,2}/[^"']+)["']\s*;"""
VENDORED: dict[str, tuple[str, str]] = {
    "vendor/plotly.min.js": ("plotly", "package_data"),
    "django_htmx/htmx-2.min.js": ("django_htmx", "static/django_htmx"),
    "ninja/swagger-ui-bundle.js": ("ninja", "static/ninja"),
    "ninja/swagger-ui-init.js": ("ninja", "static/ninja"),
    "ninja/swagger-ui.css": ("ninja", "static/ninja"),
    "ninja/favicon.svg": ("ninja", "static/ninja"),
    "ninja/favicon.png": ("ninja", "static/ninja"),
}
"""Static name: the package and its folder that hold the file of that name."""


class _PackageFolder(FileSystemStorage):
    def __init__(self, location: Path, prefix: str) -> None:
        super().__init__(location=location)
        self.prefix = prefix
        """What collectstatic puts before each name."""


class VendoredFinder(BaseFinder):
    """Finds what ``VENDORED`` lists. Whole static folders of packages carry megabytes that no page asks for."""

    def __init__(self) -> None:
        self.storages = {
            name: _PackageFolder(Path(str(files(package))) / folder, posixpath.dirname(name))
            for name, (package, folder) in VENDORED.items()
        }

    def check(self, **_kwargs: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **_kwargs: Any) -> Any:  # noqa: FBT001, FBT002  Django's signature
        name = posixpath.normpath(path)
        storage = self.storages.get(name)
        # Django's way to say "not here" is an empty list, also where one path was asked for.
        found = [storage.path(posixpath.basename(name))] if storage else []
        return found[0] if found and not find_all else found

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        for name, storage in self.storages.items():
            yield posixpath.basename(name), storage


class HashedStaticStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Hashed names, also inside style sheets and the import statements of our own modules; gzip beside each file.

    Django's patterns for modules also match inside comments, where the types of ``// @ts-check`` are named, and inside
    minified bundles; these match statements that begin a line of a file below ``js/`` alone.
    """

    patterns = (
        ("css/*.css", CompressedManifestStaticFilesStorage.patterns[0][1]),
        (
            "js/*.js",
            (
                (
                    rf"""(?m)^(?P<matched>(?P<what>(?:import|export)\b[^;"'=(]*?\bfrom)\s*{_RELATIVE})""",
                    """%(what)s "%(url)s";""",
                ),
                (rf"""(?m)^(?P<matched>import\s*{_RELATIVE})""", """import "%(url)s";"""),
            ),
        ),
    )
