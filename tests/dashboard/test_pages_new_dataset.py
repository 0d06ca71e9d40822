from __future__ import annotations

import re
from html import unescape

import pytest
from django.utils import timezone

from engine.catalog import sample_cards
from jobs.models import Job, Upload
from jobs.requests import ImportRequest, UploadSource
from jobs.services import import_submit, upload_begin
from jobs.storage import storage
from tests.dashboard.makers import import_job, training_job
from wire.specs import FromSample, ImportOptions

ADDRESS = "/datasets/new/"


@pytest.fixture
def offered(settings, tmp_path):
    """A folder of this machine that may be imported from."""
    root = tmp_path / "offered"
    for name in ("photos/cat", "photos/dog", "more"):
        (root / name).mkdir(parents=True)
    (root / "train.txt").write_text("photos/cat/1.jpg 0\n")
    settings.IMPORT_ROOTS = [root]
    return root


def uploaded(owner, name="photos.zip", *, n_bytes=4, size=4):
    upload = upload_begin(owner, name, size, "")
    path = storage().upload_path(upload.pk)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * n_bytes)
    return upload


def text_of(answer):
    return unescape(answer.content.decode())


def error_at(answer, name):
    found = re.search(rf'id="{name}-error"[^>]*>([^<]*)<', answer.content.decode())
    assert found is not None, name
    return unescape(found[1]).strip()


def upload_error(answer):
    found = re.search(r"data-upload-error-message>([^<]*)<", answer.content.decode())
    assert found is not None
    return unescape(found[1])


def value_of(answer, name):
    tag = re.search(rf'<input[^>]*\bname="{name}"[^>]*>', answer.content.decode())
    assert tag is not None, name
    value = re.search(r'\bvalue="([^"]*)"', tag[0])
    return unescape(value[1]) if value else ""


def panels_shown(answer):
    tags = re.findall(r'<div[^>]*data-panel="(\w+)"([^>]*)>', answer.content.decode())
    return [name for name, rest in tags if "hidden" not in rest]


def test_each_tab_is_a_link_and_shows_its_own_panel(api, offered):
    for way in ("upload", "folder", "lists", "sample"):
        answer = api.get(ADDRESS, {"from": way})
        assert panels_shown(answer) == [way]
        assert value_of(answer, "from") == way
        assert re.search(rf'href="\?from={way}"\s+data-tab="{way}" aria-current="page"', answer.content.decode())
    assert panels_shown(api.get(ADDRESS)) == ["upload"]
    assert panels_shown(api.get(ADDRESS, {"from": "nowhere"})) == ["upload"]


def test_without_offered_folders_only_upload_and_sample_are_there(api, admin_user, settings):
    settings.IMPORT_ROOTS = []
    answer = api.get(ADDRESS, {"from": "folder"})
    assert panels_shown(answer) == ["upload"]
    assert 'data-tab="folder"' not in text_of(answer)
    assert 'data-tab="lists"' not in text_of(answer)
    assert "IMPORT_ROOTS" not in text_of(answer)
    api.force_login(admin_user)
    assert "set IMPORT_ROOTS" in text_of(api.get(ADDRESS))


def test_an_upload_is_imported_under_the_name_of_its_file(api, user):
    upload = uploaded(user, "pets.tar.gz")
    answer = api.post(ADDRESS, {"from": "upload", "upload": upload.pk, "name": ""})
    job = Job.objects.get(verb="import")
    assert answer.headers["Location"] == f"/datasets/{job.pk}/"
    assert job.title == "pets"
    assert job.spec["source"] == {
        "kind": "upload",
        "path": storage().upload_input_path(upload.pk),
        "name": "pets.tar.gz",
    }
    assert job.spec["options"] == ImportOptions().model_dump(mode="json")


def test_a_name_and_options_are_taken_as_they_were_sent(api, user):
    sent = {
        "from": "upload",
        "upload": uploaded(user).pk,
        "name": "  Cats and dogs ",
        "private": "on",
        "options-val_pct": "10",
        "options-test_pct": "5",
        "options-seed": "7",
        "options-classes": "cat\r\ndog\r\n",
        "options-min_per_class": "2",
        "options-max_per_class": "9",
        "options-duplicates": "drop",
        "options-leaks": "keep",
    }
    assert api.post(ADDRESS, sent).status_code == 302
    job = Job.objects.get(verb="import")
    assert (job.title, job.private) == ("Cats and dogs", True)
    options = ImportOptions(
        val_pct=10,
        test_pct=5,
        seed=7,
        classes=("cat", "dog"),
        min_per_class=2,
        max_per_class=9,
        duplicates="drop",
        leaks="keep",
    )
    assert job.spec["options"] == options.model_dump(mode="json")


@pytest.mark.parametrize("wanted", ["", "f" * 32, "../../etc/passwd"])
def test_an_upload_that_is_not_there_is_said_beside_it(api, wanted):
    answer = api.post(ADDRESS, {"from": "upload", "upload": wanted, "name": "Pets"})
    assert answer.status_code == 422
    assert upload_error(answer).startswith("There is no upload" if wanted else "Choose an archive")
    assert value_of(answer, "name") == "Pets"
    assert not Job.objects.exists()


def test_an_unfinished_upload_is_not_imported(api, user):
    upload = uploaded(user, n_bytes=1)
    answer = api.post(ADDRESS, {"from": "upload", "upload": upload.pk})
    assert answer.status_code == 422
    assert upload_error(answer).startswith("photos.zip has not arrived whole.")


def test_a_disk_without_room_is_said_and_the_upload_is_kept(api, user, settings):
    upload = uploaded(user, "pets.zip")
    settings.DISK_RESERVE_GIB = 1e9
    answer = api.post(ADDRESS, {"from": "upload", "upload": upload.pk, "name": "Pets"})
    assert answer.status_code == 422
    assert "too little room for the dataset Pets" in upload_error(answer)
    assert value_of(answer, "upload") == upload.pk


def test_another_persons_upload_is_not_there(api, other_user):
    answer = api.post(ADDRESS, {"from": "upload", "upload": uploaded(other_user, "secret.zip").pk})
    assert answer.status_code == 422
    assert upload_error(answer).startswith("There is no upload")
    assert "secret.zip" not in text_of(answer)


def test_an_error_keeps_the_upload_and_everything_that_was_filled_in(api, user):
    upload = uploaded(user, "pets.zip")
    sent = {"from": "upload", "upload": upload.pk, "name": "x" * 201, "private": "on", "options-seed": "-1"}
    answer = api.post(ADDRESS, sent)
    assert answer.status_code == 422
    assert error_at(answer, "name") == "A name has at most 200 characters; this one has 201."
    assert error_at(answer, "id_options-seed") == "Must be at least 0."
    assert value_of(answer, "upload") == upload.pk
    assert 'data-name="pets.zip"' in text_of(answer)
    assert value_of(answer, "options-seed") == "-1"
    assert re.search(r'name="private" checked', text_of(answer))


def test_a_rule_over_several_options_is_said_above_them(api, user):
    sent = {"from": "upload", "upload": uploaded(user).pk, "options-val_pct": "60", "options-test_pct": "60"}
    answer = api.post(ADDRESS, sent)
    assert answer.status_code == 422
    assert "Validation and test together may take at most 95 %." in text_of(answer)


def test_a_folder_of_the_server_needs_no_script(api, offered):
    sent = {"from": "folder", "path": f"{offered}/photos/", "val_path": f"{offered}/more", "name": ""}
    assert api.post(ADDRESS, sent).status_code == 302
    job = Job.objects.get(verb="import")
    assert job.title == "photos"
    assert job.spec["source"] == {
        "kind": "folder",
        "path": f"{offered}/photos",
        "val_path": f"{offered}/more",
        "test_path": "",
    }


@pytest.mark.parametrize(
    ("field", "path", "said"),
    [
        ("path", "", "Give the folder that holds the images."),
        ("path", "/etc", "The folder /etc is not offered for import."),
        ("path", "{root}/photos/../../elsewhere", "is not offered for import."),
        ("path", "{root}/photas", "There is no folder"),
        ("val_path", "{root}/nothing", "There is no folder"),
        ("test_path", "/", "The folder / is not offered for import."),
    ],
)
def test_a_wrong_folder_is_said_beside_its_field(api, offered, field, path, said):
    sent = {"from": "folder", "path": f"{offered}/photos", "name": "Pets"} | {field: path.format(root=offered)}
    answer = api.post(ADDRESS, sent)
    assert answer.status_code == 422
    assert said in error_at(answer, field)
    others = {"path", "val_path", "test_path"} - {field}
    assert [error_at(answer, name) for name in others] == ["", ""]
    assert value_of(answer, field) == path.format(root=offered)


def test_lists_may_lie_on_the_server_or_be_uploaded(api, user, offered):
    labels = uploaded(user, "labels.txt")
    sent = {
        "from": "lists",
        "train_list": f"{offered}/train.txt",
        "labels_upload": labels.pk,
        "lists_folder": str(offered),
        "name": "Listed",
    }
    assert api.post(ADDRESS, sent).status_code == 302
    source = Job.objects.get(verb="import").spec["source"]
    assert source["train"] == f"{offered}/train.txt"
    assert source["labels"] == storage().upload_input_path(labels.pk)
    assert source["folder"] == str(offered)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"train_list": ""}, "train_list", "Give the list of the training images."),
        ({"train_list": "/etc/passwd"}, "train_list", "The file /etc/passwd is not offered for import."),
        ({"val_list": "{root}/none.txt"}, "val_list", "There is no file"),
        ({"lists_folder": "/etc"}, "lists_folder", "The folder /etc is not offered for import."),
        ({"test_upload": "f" * 32}, "test_list", "There is no upload"),
    ],
)
def test_a_wrong_list_is_said_beside_its_field(api, offered, changes, field, said):
    sent = {"from": "lists", "train_list": f"{offered}/train.txt", "lists_folder": str(offered), "name": "Listed"}
    answer = api.post(ADDRESS, sent | {name: value.format(root=offered) for name, value in changes.items()})
    assert answer.status_code == 422
    assert said in error_at(answer, field)


def test_a_sample_is_imported_under_its_own_name(api):
    card = next(iter(sample_cards().values()))
    assert api.post(ADDRESS, {"from": "sample", "sample": card.name}).status_code == 302
    assert Job.objects.get(verb="import").title == card.label
    wrong = api.post(ADDRESS, {"from": "sample", "sample": "imagenet"})
    assert wrong.status_code == 422
    assert error_at(wrong, "sample") == "There is no sample called 'imagenet'. Choose one."


def test_again_shows_the_source_and_the_options_of_the_earlier_import(api, user):
    upload = uploaded(user, "pets.zip")
    options = ImportOptions(val_pct=30, classes=("cat", "dog"))
    wish = ImportRequest(name="Pets", source=UploadSource(upload=upload.pk), options=options, private=True)
    earlier = import_submit(user, wish)
    answer = api.get(ADDRESS, {"again": earlier.pk})
    assert f"dataset #{earlier.pk}, Pets" in text_of(answer)
    assert value_of(answer, "upload") == upload.pk
    assert value_of(answer, "name") == "Pets"
    assert value_of(answer, "options-val_pct") == "30"
    assert "cat\ndog</textarea>" in text_of(answer)
    assert re.search(r'name="private" checked', text_of(answer))
    sent = {"from": "upload", "upload": upload.pk, "again": earlier.pk, "name": "Pets", "options-val_pct": "10"}
    assert api.post(ADDRESS, sent).status_code == 302
    assert Job.objects.exclude(pk=earlier.pk).get().spec["options"]["val_pct"] == 10


def test_what_will_differ_is_shown_before_it_is_sent(api, user):
    wish = ImportRequest(name="Digits", source=FromSample(name="digits"), options=ImportOptions(val_pct=30))
    earlier = import_submit(user, wish)
    sent = {"from": "sample", "sample": "digits", "again": earlier.pk, "name": "Digits", "options-val_pct": "30"}
    address = f"{ADDRESS}differences"
    assert "Nothing differs." in text_of(api.post(address, sent))
    assert "Validation share: 10 % instead of 30 %" in text_of(api.post(address, sent | {"options-val_pct": "10"}))
    assert "mend the marked options" in text_of(api.post(address, sent | {"options-val_pct": "much"}))
    # A file that is still on its way hides no change of the options.
    on_its_way = sent | {"from": "upload", "upload": "", "options-seed": "3"}
    assert "Seed: 3 instead of 0" in text_of(api.post(address, on_its_way))


def test_again_without_its_upload_says_so_and_keeps_the_options(api, user):
    upload = uploaded(user, "pets.zip")
    wish = ImportRequest(name="Pets", source=UploadSource(upload=upload.pk), options=ImportOptions(seed=5))
    earlier = import_submit(user, wish)
    Upload.objects.update(expires_at=timezone.now())
    upload.delete()
    answer = api.get(ADDRESS, {"again": earlier.pk})
    assert answer.status_code == 200
    assert "pets.zip is not kept any more" in text_of(answer)
    assert value_of(answer, "options-seed") == "5"
    assert value_of(answer, "upload") == ""


def test_again_of_what_cannot_be_seen_or_is_no_import_is_not_there(api, user, other_user):
    private = import_job(other_user, private=True)
    run = training_job(user, import_job(user))
    for job_id in (private.pk, run.pk, 9999):
        assert api.get(ADDRESS, {"again": job_id}).status_code == 404
        assert api.post(ADDRESS, {"again": job_id, "from": "sample", "sample": "digits"}).status_code == 404


def test_the_page_is_for_people_who_are_signed_in(client, admin_user):
    for answer in (client.get(ADDRESS), client.post(ADDRESS, {"from": "sample", "sample": "digits"})):
        assert answer.status_code == 302
        assert answer.headers["Location"].startswith("/login/")
    assert not Job.objects.exists()


def test_the_way_there_is_on_every_page(api, user):
    for address in ("/", "/datasets/", "/runs/new"):
        assert 'href="/datasets/new/"' in text_of(api.get(address))
    import_job(user)
    assert "New dataset" in text_of(api.get("/"))


def test_names_are_text_and_never_markup(api, user):
    upload = uploaded(user, '"><script>alert(1)</script>.zip')
    answer = api.post(ADDRESS, {"from": "upload", "upload": upload.pk, "name": "</title><script>" * 20})
    assert answer.status_code == 422
    assert "<script>alert" not in answer.content.decode()
    assert "</title><script>" not in answer.content.decode()
