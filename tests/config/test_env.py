from __future__ import annotations

import pytest

from config.env import SettingError, read_environment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "eighty"),
        ("PORT", "0"),
        ("PORT", "70000"),
        ("DEBUG", "perhaps"),
        ("CACHE_MAX_GIB", "much"),
        ("LOG_LEVEL", "LOUD"),
        ("LOG_FORMAT", "xml"),
        ("STARTS_JOBS", "perhaps"),
        ("UPLOAD_MAX_GIB", "-1"),
        ("UPLOAD_QUOTA_GIB", "nan"),
        ("UPLOAD_KEEP_DAYS", "week"),
        ("DISK_RESERVE_GIB", "inf"),
        ("LEASE_S", "1"),
        ("LEASE_S", "nan"),
        ("URL_PREFIX", "/fovea/../admin"),
        ("URL_PREFIX", "https://example.org/fovea"),
        ("URL_PREFIX", "/my tools"),
    ],
)
def test_an_unusable_value_is_refused_in_one_line_that_names_the_setting(monkeypatch, name, value):
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingError, match=name) as refused:
        read_environment()

    assert "\n" not in str(refused.value)


def test_folders_are_absolute_and_the_cache_lies_in_the_data_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATA_DIR", "data")
    monkeypatch.delenv("CACHE_DIR", raising=False)

    env = read_environment()

    assert env.data_dir == tmp_path / "data"
    assert env.cache_dir == tmp_path / "data" / "cache"


def test_an_empty_variable_is_like_none(monkeypatch):
    monkeypatch.setenv("HOST", "")
    monkeypatch.setenv("WEIGHTS_DIR", "")

    env = read_environment()

    assert env.host == "127.0.0.1"
    assert env.weights_dir is None


def test_a_root_that_holds_what_others_imported_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "var"))
    monkeypatch.setenv("IMPORT_ROOTS", str(tmp_path))
    with pytest.raises(SettingError, match=r"IMPORT_ROOTS.*holds DATA_DIR"):
        read_environment()


def test_lists_are_separated_by_commas(monkeypatch, tmp_path):
    monkeypatch.setenv("ALLOWED_HOSTS", "fovea.lab,10.0.0.4")
    monkeypatch.setenv("IMPORT_ROOTS", f"{tmp_path}/a,{tmp_path}/b")

    env = read_environment()

    assert env.allowed_hosts == ["fovea.lab", "10.0.0.4"]
    assert env.import_roots == [tmp_path / "a", tmp_path / "b"]


@pytest.mark.parametrize(
    ("text", "prefix"), [("", ""), ("/", ""), ("fovea", "/fovea"), ("/fovea/", "/fovea"), ("/a/b-2/", "/a/b-2")]
)
def test_a_prefix_begins_with_a_slash_and_ends_without(monkeypatch, text, prefix):
    monkeypatch.setenv("URL_PREFIX", text)

    assert read_environment().url_prefix == prefix


def test_a_secret_may_stand_in_a_file(monkeypatch, tmp_path):
    (tmp_path / "database_url").write_text("postgres://fovea:secret@db/fovea\n")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("DATABASE_URL_FILE", str(tmp_path / "database_url"))

    assert read_environment().database_url == "postgres://fovea:secret@db/fovea"


def test_a_secret_that_is_there_twice_or_not_at_all_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("REDIS_URL_FILE", str(tmp_path / "missing"))
    monkeypatch.setenv("REDIS_URL", "redis://one")
    with pytest.raises(SettingError, match=r"REDIS_URL_FILE.*which counts"):
        read_environment()

    monkeypatch.delenv("REDIS_URL")
    with pytest.raises(SettingError, match=r"REDIS_URL_FILE.*missing cannot be read"):
        read_environment()
