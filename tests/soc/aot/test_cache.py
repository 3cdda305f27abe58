"""The kept machine code: made anew where its sources changed, never trusted if others wrote it."""

import json

import pytest

from soc import links, unit_cache
from soc.interpreter import Interpreter
from soc.linking import Unit
from soc.unit_cache import CODE, MANIFEST, digests, is_intact, kept, key, sources


@pytest.fixture
def folder(tmp_path):
    """A kept unit, as far as the cache looks at it."""
    made = tmp_path / "key"
    made.mkdir(mode=0o700)
    (made / CODE).write_bytes(b"\x7fELF")
    (made / CODE).chmod(0o600)
    (made / MANIFEST).write_text(json.dumps(digests(made)))
    (made / MANIFEST).chmod(0o600)
    return made


def test_what_was_written_is_intact(folder):
    assert is_intact(folder)


def test_a_changed_file_is_not_trusted_and_deleted(folder):
    (folder / CODE).write_bytes(b"\x7fELF\x00")
    assert not is_intact(folder)
    assert not folder.exists()


def test_a_new_file_is_not_trusted(folder):
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "interpreter.run.nbi").write_bytes(b"\x80\x04.")
    assert not is_intact(folder)


def test_a_folder_that_others_can_write_is_not_trusted(folder):
    folder.chmod(0o777)
    assert not is_intact(folder)


@pytest.mark.parametrize("text", ["", "[", "{}", '{"code.o": "0"}', "\x00"])
def test_a_broken_manifest_is_not_trusted(folder, text):
    (folder / MANIFEST).write_text(text)
    assert not is_intact(folder)
    assert not folder.exists()


def test_a_link_is_not_followed(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not is_intact(link)
    assert folder.exists()


def test_the_cache_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("PULPSIM_CACHE", str(tmp_path))
    assert unit_cache.cache_folder() == tmp_path
    monkeypatch.delenv("PULPSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert unit_cache.cache_folder() == tmp_path / "pulpsim"


def names(unit: Unit) -> set[str]:
    return {file.name for file in sources(unit.modules)}


def test_a_unit_depends_on_what_its_functions_import_and_not_on_other_units():
    run = Interpreter("run", "ri5cy-x", ["rv32i"])
    assert names(links.DMA) >= {"dma.py", "dma_align.py", "dma_state.py", "l2.py"}
    assert names(run) >= {"loop.py", "hart.py", "rv32i.py", "dma_state.py", "links.py"}
    assert not names(run) & {"dma.py", "dma_align.py", "event_unit.py", "csr.py", "platform.py"}
    assert not names(links.DMA) & {"hart.py", "loop.py", "event_unit.py", "rv32i.py"}


def test_the_key_changes_with_the_name_and_with_any_source(monkeypatch):
    before = {unit.name: key(unit) for unit in (links.DMA, links.REGISTERS)}
    content = unit_cache._content
    monkeypatch.setattr(
        unit_cache,
        "_content",
        lambda file: content(file) + (b"#" if file.name == "dma_align.py" else b""),
    )
    assert key(links.DMA) != before["dma"]
    assert key(links.REGISTERS) == before["csr"]
    extensions = (["rv32i"], ["rv32i", "rv32m"])
    keys = {key(Interpreter("run", "ri5cy-x", names)) for names in extensions}
    assert len(keys) == 2


def test_machine_code_that_was_changed_is_compiled_again(monkeypatch, tmp_path):
    monkeypatch.setenv("PULPSIM_CACHE", str(tmp_path))
    messages = []

    class Progress:
        def __init__(self, text):
            messages.append(text)

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    (file,) = kept([links.FLOATS], Progress)
    good = file.read_bytes()
    file.write_bytes(b"\x7fELF" + good[4:-1] + b"\x00\x00")
    assert kept([links.FLOATS], Progress) == [file]
    assert file.read_bytes()[:4] == b"\x7fELF"
    assert len(file.read_bytes()) == len(good)
    assert kept([links.FLOATS], Progress) == [file]
    assert messages == ["compiling the interpreter (once; it is kept)"] * 2
