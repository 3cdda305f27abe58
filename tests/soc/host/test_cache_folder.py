"""The cache folder: whose it must be, and what happens where it cannot be used."""

import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from soc.aot import cache as unit_cache
from soc.aot.units import REGISTERS
from soc.config.toml import ConfigError
from soc.host import cache_folder as module
from soc.host.cache_folder import CacheWarning, cache_folder, why_unusable

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No folder has been looked at or replaced; temporary ones are made in tmp_path."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(module, "_temporary", made := [])
    monkeypatch.setenv(module.VARIABLE, str(tmp_path / "cache"))
    why_unusable.cache_clear()
    yield
    for folder in made:
        folder.remove()
    why_unusable.cache_clear()


@contextmanager
def one_warning(pattern: str) -> Iterator[None]:
    """Exactly one warning, and one that matches in full."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    told = [str(warning.message) for warning in caught if warning.category is CacheWarning]
    assert len(told) == 1
    assert re.fullmatch(pattern, told[0]), told[0]


NOT_KEPT = "compiled code is not kept for the next run: PULPSIM_CACHE=FOLDER names another"


def test_a_folder_that_is_not_there_is_made_for_the_user_alone(tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_a_file_in_its_place_is_replaced_by_a_temporary_folder_with_one_warning(
    tmp_path: Path,
) -> None:
    (tmp_path / "cache").write_text("mine")
    with one_warning(f".*/cache: is a file, not a folder; {NOT_KEPT}"):
        used = [cache_folder(), cache_folder()]
    assert used[0] == used[1]
    assert used[0].parent == tmp_path / "tmp"
    assert used[0].stat().st_mode & 0o777 == 0o700
    assert os.environ["PULPSIM_CACHE"] == str(used[0])  # for processes that this one starts
    assert (tmp_path / "cache").read_text() == "mine"


def test_another_users_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with one_warning(f".*/cache: belongs to another user; {NOT_KEPT}"):
        cache_folder()


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with one_warning(rf".*/cache: can be written by others; `chmod go-w .*` ends that; {NOT_KEPT}"):
        cache_folder()


def test_nor_is_one_in_a_folder_that_others_can_write_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv(module.VARIABLE, str(shared / "cache"))
    with one_warning(rf".*cache: its folder .*/shared can be written by others; .*; {NOT_KEPT}"):
        cache_folder()
    shared.chmod(0o1777)  # as /tmp: others cannot rename what is not theirs
    why_unusable.cache_clear()
    monkeypatch.setenv(module.VARIABLE, str(shared / "cache"))
    assert cache_folder() == shared / "cache"


def test_without_a_home_folder_it_is_a_temporary_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    with one_warning(f"HOME is not set, and no other home folder is known; {NOT_KEPT}"):
        cache_folder()


def test_without_any_folder_there_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("mine")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(ConfigError) as raised:
        cache_folder()
    assert re.fullmatch(
        r".*/cache: is a file, not a folder; nor can a temporary folder be made: No such file or "
        r"directory; PULPSIM_CACHE=FOLDER names another",
        str(raised.value),
    )


def test_on_a_full_disk_what_was_compiled_is_put_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k,mode=700", "none", cache], capture_output=True
    )
    if mounted.returncode:
        pytest.skip("file systems cannot be mounted here")
    compiled = []

    def compile_units(names: set[str], on_end: Callable) -> None:
        compiled.append(sorted(names))
        for name in names:
            on_end(name, {"code.o": bytes(300_000)})

    monkeypatch.setattr(unit_cache, "compile_units", compile_units)
    try:
        with one_warning(f".*/cache: cannot be written: No space left on device; {NOT_KEPT}"):
            (file,) = unit_cache.kept({REGISTERS.name: REGISTERS.modules})
        assert file.stat().st_size == 300_000
        assert tmp_path / "tmp" in file.parents
        assert compiled == [[REGISTERS.name]]
        assert [path.name for path in cache.iterdir()] == ["units.lock"]
    finally:
        subprocess.run(["umount", cache], check=True)


WAITING = """
import sys, time
from contextlib import contextmanager
from pathlib import Path
from soc.aot import cache as unit_cache
from soc.aot.units import REGISTERS

log = Path(sys.argv[1])

def compile_units(names, on_end):
    with log.open("a") as file:
        file.write("compiled\\n")
    while log.read_text().count("waiting") < 3:
        time.sleep(0.01)
    for name in names:
        on_end(name, {"code.o": b"code"})

@contextmanager
def progress(text):
    with log.open("a") as file:
        file.write(text + "\\n")
    yield

unit_cache.compile_units = compile_units
(file,) = unit_cache.kept({REGISTERS.name: REGISTERS.modules}, progress)
assert file.read_bytes() == b"code"
"""


NEXT_WAITS = """
import sys, time
from pathlib import Path
from soc.aot import cache as unit_cache
from soc.aot.units import DMA, REGISTERS

log, *wanted = sys.argv[1:]

def compile_units(names, on_end):
    for name in sorted(names):
        on_end(name, {"code.o": name.encode()})
        while not Path(log).exists():  # until the other one has what it waits for
            time.sleep(0.01)

unit_cache.compile_units = compile_units
units = {unit.name: unit.modules for unit in (REGISTERS, DMA) if unit.name in wanted}
assert [file.read_text() for file in unit_cache.kept(units)] == wanted
if wanted == ["csr"]:
    Path(log).touch()
"""


def test_who_waits_goes_on_when_its_own_units_are_compiled(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", NEXT_WAITS, log]
    compiler = subprocess.Popen([*command, "csr", "dma"], env=environment)
    while not [*(tmp_path / "cache").glob("csr-*")]:
        assert compiler.poll() is None
        time.sleep(0.01)
    assert subprocess.run([*command, "csr"], env=environment).returncode == 0
    assert compiler.wait() == 0


BOTH_COMPILE = """
import sys, time
from pathlib import Path
from soc.aot import cache as unit_cache
from soc.aot.units import DMA, REGISTERS

folder, *wanted = sys.argv[1:]

def compile_units(names, on_end):
    (name,) = names
    Path(folder, name).touch(exist_ok=False)
    while len([*Path(folder).iterdir()]) < 2:  # until the other one compiles, too
        time.sleep(0.01)
    on_end(name, {"code.o": name.encode()})

unit_cache.compile_units = compile_units
units = {unit.name: unit.modules for unit in (REGISTERS, DMA) if unit.name in wanted}
assert [file.read_text() for file in unit_cache.kept(units)] == wanted
"""


def test_two_processes_compile_different_units_at_once_and_none_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", BOTH_COMPILE, log]
    first = subprocess.Popen([*command, "csr"], env=environment)
    while not (log / "csr").exists():
        assert first.poll() is None
        time.sleep(0.01)
    assert subprocess.run([*command, "csr", "dma"], env=environment).returncode == 0
    assert first.wait() == 0


def test_of_processes_that_start_at_once_one_compiles_and_the_others_wait(tmp_path: Path) -> None:
    log = tmp_path / "log"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WAITING, log]
    processes = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    lines = log.read_text().splitlines()
    assert lines.count("compiled") == 1
    assert sorted(lines) == [
        "compiled",
        "compiling the interpreter (once; it is kept)",
        *["waiting for another process, which compiles the interpreter"] * 3,
    ]
