from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest
from django.contrib.staticfiles.finders import find
from django.core.files.base import ContentFile
from django.test import override_settings

from config.start.static import collect_static
from config.vendored import VENDORED, HashedStaticStorage

IMPORT = re.compile(r"""^(?:import|export)\b[^;"'=(]*["'](\.[^"']+)["'];""", flags=re.MULTILINE)


@pytest.fixture
def collected(tmp_path):
    with override_settings(STATIC_ROOT=tmp_path / "static"):
        assert collect_static(tmp_path / "stamp")
        yield tmp_path


def test_every_import_of_our_modules_leads_to_a_file_with_a_hash_in_its_name(collected):
    modules = list((collected / "static" / "js").rglob("*.js"))
    imported = [(module, target) for module in modules for target in IMPORT.findall(module.read_text())]

    assert len(imported) > 10
    for module, target in imported:
        assert re.search(r"\.[0-9a-f]{12}\.js$", target), f"{module.name} imports {target}"
        assert (module.parent / target).exists(), f"{module.name} imports {target}"


def test_nothing_is_collected_again_until_a_file_changes(collected):
    stamp = collected / "stamp"

    assert not collect_static(stamp)

    stamp.write_text("of another state")
    assert collect_static(stamp)


def test_files_of_earlier_versions_stay_for_open_pages_and_go_in_the_end(collected):
    css = collected / "static" / "css"
    present = next(css.glob("base.*.css"))
    last_week, last_year = css / "base.111111111111.css", css / "base.222222222222.css"
    for path, age_s in ((last_week, 7 * 86400), (last_year, 365 * 86400), (present, 365 * 86400)):
        path.touch()
        os.utime(path, (time.time() - age_s,) * 2)
    (collected / "stamp").write_text("of another state")

    assert collect_static(collected / "stamp")

    assert present.exists()
    assert present.with_name(present.name + ".gz").exists()
    assert last_week.exists()
    assert not last_year.exists()


def test_a_file_that_was_present_until_now_is_no_old_one(collected):
    """A web server of the version before hands it out for a while yet, though it was made long ago."""
    root = collected / "static"
    manifest = json.loads((root / "staticfiles.json").read_text())
    before = root / "css" / "base.111111111111.css"
    for path in (before, before.with_name(before.name + ".gz")):
        path.touch()
        os.utime(path, (time.time() - 365 * 86400,) * 2)
    manifest["paths"]["css/base.css"] = "css/base.111111111111.css"
    (root / "staticfiles.json").write_text(json.dumps(manifest))
    (collected / "stamp").write_text("of another state")

    assert collect_static(collected / "stamp")

    assert before.exists()
    assert before.with_name(before.name + ".gz").exists()


def test_a_list_of_files_that_was_cut_off_is_written_anew(collected):
    manifest = collected / "static" / "staticfiles.json"
    whole = json.loads(manifest.read_text())["paths"]
    manifest.write_text('{"paths": {"css/ba')
    (collected / "stamp").unlink()

    assert collect_static(collected / "stamp")

    assert json.loads(manifest.read_text())["paths"] == whole


@pytest.mark.parametrize("name", VENDORED)
def test_what_pages_load_from_packages_is_found(name):
    assert Path(find(name)).is_file()


def test_nothing_else_of_those_packages_is_served():
    assert find("vendor/widgetbundle.js") is None
    assert find("ninja/redoc.standalone.js") is None


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ('import { a } from "./b.js";', 'import { a } from "./b.HASH.js";'),
        ("import {\n  a,\n  c\n} from './b.js';", 'import {\n  a,\n  c\n} from "./b.HASH.js";'),
        ('import * as b from "./b.js";', 'import * as b from "./b.HASH.js";'),
        ('import "./b.js";', 'import "./b.HASH.js";'),
        ('export { a } from "./b.js";', 'export { a } from "./b.HASH.js";'),
        ('export * from "./b.js";', 'export * from "./b.HASH.js";'),
        ('/** @typedef {import("./types").T} T */', None),
        (' * @import { T } from "./types"\n', None),
        ('const text = `import { a } from "./b.js";`;', None),
        ("//# sourceMappingURL=b.js.map", None),
    ],
)
def test_import_statements_are_rewritten_and_nothing_else(tmp_path, text, rewritten):
    storage = HashedStaticStorage(location=tmp_path, base_url="/static/")
    storage.save("js/a.js", ContentFile(text))
    storage.save("js/b.js", ContentFile("export const a = 1;"))

    with override_settings(STATIC_ROOT=tmp_path):
        list(storage.post_process({name: (storage, name) for name in ("js/a.js", "js/b.js")}))

    made = (tmp_path / storage.stored_name("js/a.js")).read_text()
    assert re.sub(r"\.[0-9a-f]{12}\.js", ".HASH.js", made) == (rewritten or text)
