"""Where images come from: what a person says, what the spec says, and back."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from jobs import services
from jobs.models import Upload
from jobs.requests import ImportRequest
from jobs.server_folders import server_folders
from jobs.storage import storage
from jobs.upload_files import UploadFile
from wire.errors import ActionRefused, NotFound, SpecInvalid, UploadMissing
from wire.specs import ImportOptions, ImportSpec

pytestmark = pytest.mark.django_db


@pytest.fixture
def offered(settings, tmp_path):
    """A root with folders and lists, beside things that it does not offer."""
    root = tmp_path / "offered"
    for folder in ("set/cats", "set/dogs", "second", ".hidden"):
        (root / folder).mkdir(parents=True)
    for name in ("train.txt", "val.txt", "labels.txt"):
        (root / name).write_text("a.png 0\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "list.txt").write_text("x 0\n")
    (root / "way-out").symlink_to(tmp_path / "secret")
    (root / "way-in").symlink_to(root / "set")
    settings.IMPORT_ROOTS = [root]
    return root


@pytest.fixture
def uploaded(user):
    def make(name="pets.zip", data=b"0123456789", owner=user):
        upload = services.upload_begin(owner, name, len(data))
        file = UploadFile(upload.pk)
        file.append(data)
        file.close()
        return upload

    return make


def wish(source, **changes):
    return ImportRequest.model_validate({"name": "pets", "source": source, **changes})


def submit(user, source, **changes):
    return services.import_submit(user, wish(source, **changes))


def test_a_source_of_no_known_kind():
    for source in ({"kind": "url", "path": "x"}, {"kind": "upload", "path": "../../uploads/x"}, {"kind": "lists"}):
        with pytest.raises(ValidationError):
            wish(source)
    with pytest.raises(ValidationError):
        wish({"kind": "lists", "train": {"path": "/a", "upload": "b"}})


def test_folders_are_named_where_they_really_lie(user, offered):
    job = submit(user, {"kind": "folder", "path": f"{offered}/way-in", "val_path": f"{offered}/second/"})
    assert job.spec["source"] == {
        "kind": "folder", "path": f"{offered}/set", "val_path": f"{offered}/second", "test_path": "",
    }  # fmt: skip


@pytest.mark.parametrize("field", ["path", "val_path", "test_path"])
@pytest.mark.parametrize("outside", ["", "/../secret", "/way-out", "/set/../../secret", "x", "\x00", "relative"])
def test_every_folder_lies_below_a_root(user, offered, field, outside):
    path = f"{offered.parent}" if not outside else (outside if outside == "relative" else f"{offered}{outside}")
    with pytest.raises(ActionRefused, match="not offered") as refused:
        submit(user, {"kind": "folder", "path": f"{offered}/set", field: path})
    assert "IMPORT_ROOTS" in refused.value.hint


def test_a_folder_that_is_not_there(user, offered):
    with pytest.raises(SpecInvalid, match="There is no folder"):
        submit(user, {"kind": "folder", "path": f"{offered}/dogs"})


def test_lists_lie_on_the_server_or_were_uploaded(user, offered, uploaded):
    val = uploaded("val.txt")
    source = {
        "kind": "lists",
        "train": {"path": f"{offered}/train.txt"},
        "val": {"upload": val.pk},
        "labels": {"path": f"{offered}/labels.txt"},
        "folder": f"{offered}/way-in",
    }
    job = submit(user, source)
    assert job.spec["source"] == {
        "kind": "lists",
        "train": f"{offered}/train.txt",
        "val": storage().upload_input_path(val.pk),
        "test": "",
        "labels": f"{offered}/labels.txt",
        "folder": f"{offered}/set",
        "roots": [str(offered)],
    }
    with pytest.raises(ActionRefused, match=r"val.txt is still read by pets"):
        services.upload_delete(user, val.pk)
    assert services.import_request_of(job).source == wish(source | {"folder": f"{offered}/set"}).source


@pytest.mark.parametrize("field", ["train", "val", "test", "labels", "folder"])
def test_nothing_of_a_list_lies_elsewhere(user, offered, field):
    outside = f"{offered}/way-out" if field == "folder" else {"path": f"{offered}/way-out/list.txt"}
    with pytest.raises(ActionRefused, match="not offered"):
        submit(user, {"kind": "lists", "train": {"path": f"{offered}/train.txt"}, field: outside})


def test_a_list_that_is_no_file_is_refused(user, offered):
    with pytest.raises(SpecInvalid, match="There is no file"):
        submit(user, {"kind": "lists", "train": {"path": f"{offered}/set"}})


def test_lists_need_a_server_that_offers_folders(user, uploaded, settings):
    settings.IMPORT_ROOTS = []
    with pytest.raises(ActionRefused, match="offers no folder") as refused:
        submit(user, {"kind": "lists", "train": {"upload": uploaded("train.txt").pk}})
    assert "IMPORT_ROOTS" in refused.value.hint


def test_an_import_can_be_asked_for_again(user, offered, uploaded):
    for source in (
        {"kind": "sample", "name": "digits"},
        {"kind": "folder", "path": f"{offered}/set"},
        {"kind": "upload", "upload": uploaded().pk},
    ):
        asked = wish(source, options={"val_pct": 30}, private=True)
        job = services.import_submit(user, asked)
        again = services.import_request_of(job)
        assert again == asked.model_copy(update={"retry_of": job.pk})
        assert services.import_submit(user, again).retry_of == job
        assert services.import_differences(job, asked) == []


def test_an_import_of_an_upload_that_is_gone_cannot(user, uploaded):
    upload = uploaded()
    job = submit(user, {"kind": "upload", "upload": upload.pk})
    Upload.objects.all().delete()
    with pytest.raises(UploadMissing, match=r"The upload of pets.zip is not kept any more"):
        services.import_request_of(job)


def test_a_run_is_no_import(user):
    from tests.dashboard.makers import import_job, training_job

    with pytest.raises(ActionRefused, match="is not a dataset"):
        services.import_request_of(training_job(user, import_job(user)))


def test_what_is_other_is_said(user, uploaded):
    upload = uploaded()
    earlier = submit(user, {"kind": "upload", "upload": upload.pk})
    request = services.import_request_of(earlier)
    options = ImportOptions(val_pct=10, classes=("cats", "dogs"), max_per_class=50, duplicates="drop")
    assert services.import_differences(
        earlier, request.model_copy(update={"options": options, "format": "folder"})
    ) == [
        "Format: Class folders instead of found out by itself",
        "Validation share: 10 % instead of 20 %",
        "Classes to keep: cats, dogs instead of all",
        "At most: 50 images a class instead of all",
        "Exact duplicates: Keep one instead of Keep all",
    ]
    for name, said in (("pets.zip", "another upload of pets.zip"), ("more.zip", "more.zip")):
        other = wish({"kind": "upload", "upload": uploaded(name).pk})
        assert services.import_differences(earlier, other) == [f"Source: {said} instead of pets.zip"]
    assert services.import_differences(earlier, wish({"kind": "sample", "name": "digits"})) == [
        "Source: the sample digits instead of pets.zip"
    ]


def test_what_is_other_about_lists_and_folders(user, offered, uploaded):
    train = {"path": f"{offered}/train.txt"}
    lists = submit(user, {"kind": "lists", "train": train})
    with_val = wish({"kind": "lists", "train": train, "val": {"upload": uploaded("val.txt").pk}})
    assert services.import_differences(lists, with_val) == ["Validation list: val.txt instead of none"]
    folder = submit(user, {"kind": "folder", "path": f"{offered}/set"})
    second = wish({"kind": "folder", "path": f"{offered}/second", "test_path": f"{offered}/set"})
    assert services.import_differences(folder, second) == [
        f"Source: {offered}/second instead of {offered}/set",
        f"Test folder: {offered}/set instead of none",
    ]
    assert services.import_differences(folder, with_val)[0] == f"Source: {offered}/train.txt instead of {offered}/set"


def test_the_engine_is_told_what_it_understands(user, offered, uploaded):
    sources = (
        {"kind": "upload", "upload": uploaded().pk},
        {"kind": "lists", "train": {"upload": uploaded("t.txt").pk}, "folder": str(offered)},
    )
    for source in sources:
        assert ImportSpec.model_validate(submit(user, source).spec).source.kind == source["kind"]


# Paths, as they are typed.


def names(prefix):
    return [entry.name + "/" * entry.is_dir for entry in server_folders(prefix).entries]


def test_a_path_goes_on_below_the_roots(offered):
    assert server_folders("").roots == [str(offered)]
    assert [entry.path for entry in server_folders("").entries] == [str(offered)]
    assert [entry.path for entry in server_folders(str(offered)[:-3]).entries] == [str(offered)]
    assert names(f"{offered}/") == ["second/", "set/", "way-in/", "labels.txt", "train.txt", "val.txt"]
    assert names(f"{offered}/se") == ["second/", "set/"]
    assert [entry.path for entry in server_folders(f"{offered}/way-in/").entries] == [
        f"{offered}/way-in/cats",
        f"{offered}/way-in/dogs",
    ]


def test_a_path_that_leads_out_gives_nothing(offered):
    for prefix in (
        "/etc/",
        f"{offered}/../",
        f"{offered}/..",
        f"{offered}/way-out/",
        f"{offered}/set/../../",
        "etc/",
        "~/",
    ):
        assert names(prefix) == []
    for prefix in (f"{offered}/nowhere/", f"{offered}/train.txt/", f"{offered}/\x00/", f"{offered}/.h"):
        assert names(prefix) == []


def test_no_more_entries_than_a_list_shows(offered):
    for n in range(300):
        (offered / "second" / f"{n:03}").mkdir()
    assert len(names(f"{offered}/second/")) == 200


def test_a_server_that_offers_nothing(settings):
    settings.IMPORT_ROOTS = []
    assert server_folders("/").entries == server_folders("").entries == []


def test_a_dataset_is_made_again_only_from_one_that_can_be_seen(user, other_user):
    hidden = services.import_submit(other_user, wish({"kind": "sample", "name": "digits"}, private=True))
    with pytest.raises(NotFound):
        services.import_submit(user, wish({"kind": "sample", "name": "digits"}, retry_of=hidden.pk))
