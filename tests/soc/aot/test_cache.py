"""The kept machine code: made anew where its sources changed, never trusted if others wrote it."""

import json
import shutil

import pytest

from soc.aot import cache as unit_cache
from soc.aot import units
from soc.aot.cache import CODE, MANIFEST, digests, is_intact, kept, key, sources
from soc.aot.unit import Unit
from soc.engine.interpreter import Interpreter


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
    return {module.rpartition(".")[2] for module in sources(unit.modules)}


def test_a_unit_depends_on_what_its_functions_import_and_not_on_other_units():
    run = Interpreter("run", "ri5cy-x", ["rv32i"])
    assert names(units.DMA) >= {"mchan", "aligner", "state", "axi_l2"}
    assert names(run) >= {"cycle_loop", "pipeline", "rv32i", "units"}
    assert not names(run) & {"mchan", "aligner", "event_unit", "csr", "platform"}
    assert not names(units.DMA) & {"pipeline", "cycle_loop", "event_unit", "rv32i"}


def test_the_key_changes_with_the_name_and_with_any_source(monkeypatch):
    before = {unit.name: key(unit.name, unit.modules) for unit in (units.DMA, units.REGISTERS)}
    digest = unit_cache.source_digest
    monkeypatch.setattr(
        unit_cache,
        "source_digest",
        lambda module: digest(module) + (b"#" if module == "soc.dma.aligner" else b""),
    )
    assert key(units.DMA.name, units.DMA.modules) != before["dma"]
    assert key(units.REGISTERS.name, units.REGISTERS.modules) == before["csr"]
    extensions = (["rv32i"], ["rv32i", "rv32m"])
    runs = [Interpreter("run", "ri5cy-x", names) for names in extensions]
    keys = {key(run.name, run.modules) for run in runs}
    assert len(keys) == 2


def test_machine_code_that_was_changed_is_compiled_again(monkeypatch, tmp_path):
    (original,) = kept({units.FLOATS.name: units.FLOATS.modules})
    file = tmp_path / original.parent.name / original.name
    shutil.copytree(original.parent, file.parent)
    monkeypatch.setenv("PULPSIM_CACHE", str(tmp_path))
    messages = []

    class Progress:
        def __init__(self, text):
            messages.append(text)

        def __enter__(self):
            pass

        def __exit__(self, *_):
            pass

    assert kept({units.FLOATS.name: units.FLOATS.modules}, Progress) == [file]
    good = file.read_bytes()
    file.write_bytes(b"\x7fELF" + good[4:-1] + b"\x00\x00")
    assert kept({units.FLOATS.name: units.FLOATS.modules}, Progress) == [file]
    assert file.read_bytes()[:4] == b"\x7fELF"
    assert len(file.read_bytes()) == len(good)
    assert kept({units.FLOATS.name: units.FLOATS.modules}, Progress) == [file]
    assert messages == ["compiling the interpreter (once; it is kept)"]
