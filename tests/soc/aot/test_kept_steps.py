"""Code of step functions that Python calls: found again, and made anew if a source has changed."""

import gc
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from soc.aot import kept_steps, units
from soc.dma.mchan import DmaSpec, new_dma
from soc.host.cache_folder import VARIABLE
from soc.prelude.step import Step

TEXT = """
from soc.prelude.step import step

@step
def twice(number):
    return {factor} * number

@step
def twice_and_one(number):
    return twice(number) + 1
"""


LINKED = """
from functools import partial

import numba

from soc.aot import units
from soc.aot.kept_steps import keep
from soc.dma.mchan import is_idle


@partial(keep, uses=(units.DMA,))
@numba.njit
def is_busy(dma):
    return not is_idle(dma)
"""


def called(file: Path, module: ModuleType) -> tuple[int, Any]:
    """What a function of a module gives, and Numba's object for it."""
    kept_steps.digest.cache_clear()
    kept_steps.content.cache_clear()
    exec(compile(file.read_text(), str(file), "exec"), vars(module))
    found: Step = module.twice_and_one
    return found(5), found.dispatcher.stats


def kept_files(folder: Path) -> list[str]:
    """The functions whose code is kept."""
    return sorted(path.name.partition("-")[0] for path in folder.rglob("*.nbc"))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for the module, and a cache folder of its own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    file = tmp_path / "sources" / "twice.py"
    file.parent.mkdir()
    return file


def test_code_is_found_again_until_a_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: Path
) -> None:
    module = ModuleType("twice")
    monkeypatch.setitem(sys.modules, "twice", module)
    for factor, hits in ((2, 0), (2, 1), (3, 0), (2, 1)):
        sources.write_text(TEXT.format(factor=factor))
        result, stats = called(sources, module)
        assert result == 5 * factor + 1
        assert sum(stats.cache_hits.values()) == hits
        gc.collect()  # Numba's objects for the code of before, which would hide what is not found
    # Nothing of what it calls is kept by itself.
    assert kept_files(tmp_path / "cache") == ["twice.twice_and_one"] * 2


def test_code_of_a_module_that_cannot_be_imported_is_not_kept(
    tmp_path: Path, sources: Path
) -> None:
    sources.write_text(TEXT.format(factor=2))
    for _ in range(2):
        result, stats = called(sources, ModuleType("twice"))
        assert result == 11
        assert sum(stats.cache_hits.values()) == 0
        gc.collect()
    assert kept_files(tmp_path / "cache") == []


@pytest.fixture(scope="module")
def _unit_is_there() -> None:
    """Load the DMA's unit before the cache folder is another one."""
    units.DMA.bind()


@pytest.mark.usefixtures("_unit_is_there")
def test_what_a_unit_has_is_called_there_when_it_is_compiled_and_when_it_is_found_again(
    monkeypatch: pytest.MonkeyPatch, sources: Path
) -> None:
    module = ModuleType("linked")
    monkeypatch.setitem(sys.modules, "linked", module)
    sources.write_text(LINKED)
    (dma,) = new_dma(DmaSpec(), l1_size=1 << 16, l2_base=0x1C000000, l2_size=1 << 20)
    for hits in (0, 1):  # Numba tells no code of what it has found
        exec(compile(LINKED, str(sources), "exec"), vars(module))
        assert not module.is_busy(dma)
        assert sum(module.is_busy.stats.cache_hits.values()) == hits
        if not hits:
            (code,) = module.is_busy.inspect_asm().values()
            assert units.is_idle.symbol in code
        gc.collect()
