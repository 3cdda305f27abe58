"""The cache of compiled interpreters: nothing in it is trusted that was not written by us."""

import json

import pytest

from soc import interpreter
from soc.interpreter import MANIFEST, SOURCE, _digests, _is_intact


@pytest.fixture
def folder(tmp_path):
    """A kept interpreter, as far as the cache looks at it."""
    kept = tmp_path / "key"
    kept.mkdir(mode=0o700)
    (kept / SOURCE).write_text("run = None\n")
    (kept / SOURCE).chmod(0o600)
    (kept / MANIFEST).write_text(json.dumps(_digests(kept)))
    (kept / MANIFEST).chmod(0o600)
    return kept


def test_what_was_written_is_intact(folder):
    assert _is_intact(folder)


def test_a_changed_file_is_not_trusted_and_deleted(folder):
    (folder / SOURCE).write_text("run = print\n")
    assert not _is_intact(folder)
    assert not folder.exists()


def test_a_new_file_is_not_trusted(folder):
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "interpreter.run.nbi").write_bytes(b"\x80\x04.")
    assert not _is_intact(folder)


def test_a_folder_that_others_can_write_is_not_trusted(folder):
    folder.chmod(0o777)
    assert not _is_intact(folder)


@pytest.mark.parametrize("text", ["", "[", "{}", '{"interpreter.py": "0"}', "\x00"])
def test_a_broken_manifest_is_not_trusted(folder, text):
    (folder / MANIFEST).write_text(text)
    assert not _is_intact(folder)
    assert not folder.exists()


def test_a_link_is_not_followed(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not _is_intact(link)
    assert folder.exists()


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("PULPSIM_CACHE", str(tmp_path))
    assert interpreter.cache_folder() == tmp_path
    monkeypatch.delenv("PULPSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert interpreter.cache_folder() == tmp_path / "pulpsim"


def test_the_name_of_an_interpreter_changes_with_its_source():
    assert interpreter._key("a") != interpreter._key("b")
    assert interpreter._key("a") == interpreter._key("a")
