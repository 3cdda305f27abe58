"""Where the machine code of units is kept, and when it is made anew.

A folder per unit, named by the content of everything that goes into it: the sources of its step
functions with what they import, the declared links, the versions of Python, NumPy, Numba and LLVM,
the processor. A folder that is not the user's own, or whose files are not those that were written,
is deleted and made again; nothing of it is loaded.
"""

import fcntl
import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from importlib.util import find_spec
from os.path import exists
from pathlib import Path
from threading import Lock
from typing import IO

import llvmlite.binding
import numpy

from soc.aot.versions import require_tested
from soc.config.toml import ConfigError
from soc.host.cache_folder import PART, VARIABLE, cache_folder, is_ours, use_temporary_folder
from soc.host.compile_process import CODE, ROOT, Files, Progress, compile_units
from soc.host.temporary import TemporaryFolder

LOCK = "units.lock"
MANIFEST = "manifest.json"
PAUSE = 0.05
"""Seconds after which to look again for what another process compiles."""
COMPILER = ("soc.aot.compiler", "soc.aot.units", "soc.aot.numba_chip")
"""Modules that go into every unit, with what they import."""


def kept(units: Mapping[str, Iterable[str]], progress: Progress = nullcontext) -> list[Path]:
    """The object files of these units; those that are not kept yet are compiled together.

    units    modules of the step functions, by the unit's name

    If the cache folder refuses them, they go to a temporary one. A unit is compiled by one process;
    the others that need it wait until it is there.

    raises    ConfigError if nothing can be written, or the compiler is killed
    """
    names = {name: f"{name.split()[0]}-{key(name, modules)}" for name, modules in units.items()}
    compiled: dict[str, Files] = {}
    try:
        return _kept_in(cache_folder(), names, compiled, progress)
    except OSError as error:
        folder = use_temporary_folder(f"{cache_folder()}: cannot be written: {error.strerror}")
    try:
        return _kept_in(folder, names, compiled, progress)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}; {VARIABLE}=FOLDER names another"
        raise ConfigError([f"{folder}: {reason}"]) from None


def _kept_in(
    folder: Path, names: dict[str, str], compiled: dict[str, Files], progress: Progress
) -> list[Path]:
    """As kept, in this folder.

    names       of the units' own folders
    compiled    what is compiled already, and gets what is compiled here

    raises      OSError if the folder cannot be written
    """
    folders = {name: folder / own for name, own in names.items()}
    while missing := {name: own for name, own in folders.items() if not is_intact(own)}:
        with _compiling, _taken(folder / LOCK, missing, progress) as ours:
            _make(ours, compiled, progress)
    return [own / CODE for own in folders.values()]


def _make(folders: dict[str, Path], compiled: dict[str, Files], progress: Progress) -> None:
    """Compile and store those of these units that are missing; each as soon as it is compiled."""
    missing = {name: own for name, own in folders.items() if not is_intact(own)}

    def on_end(name: str, files: Files) -> None:
        compiled[name] = files
        with suppress(OSError):  # raised below, once the others are compiled
            _store(files, missing[name])

    if unknown := missing.keys() - compiled.keys():
        require_tested()
        with progress("compiling the interpreter (once; it is kept)"):
            compile_units(unknown, on_end)
    for name, own in missing.items():
        if not own.exists():
            _store(compiled[name], own)


_compiling = Lock()
"""For the threads of this process."""


@contextmanager
def _taken(file: Path, wanted: dict[str, Path], progress: Progress) -> Iterator[dict[str, Path]]:
    """Take the locks of units that no other process compiles; if it is all of them, wait for them.

    The lock of a unit is a byte of a file. The kernel releases those of a process that ends,
    however it does.
    """
    with file.open("ab") as locks:
        ours = _free(locks, wanted)
        if not ours:
            with progress("waiting for another process, which compiles the interpreter"):
                while not ours and not all(own.exists() for own in wanted.values()):
                    time.sleep(PAUSE)
                    ours = _free(locks, wanted)
        yield ours


def _free(locks: IO[bytes], wanted: dict[str, Path]) -> dict[str, Path]:
    """Those of these units whose lock no other process has: it is taken."""
    return {name: own for name, own in wanted.items() if _is_taken(locks, own.name)}


def _is_taken(locks: IO[bytes], name: str) -> bool:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])
    try:
        fcntl.lockf(locks, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except BlockingIOError:
        return False
    return True


def key(name: str, modules: Iterable[str]) -> str:
    """A name for the content of a unit whose step functions are declared in these modules."""
    digest = hashlib.sha256(name.encode())
    for module in sources((*COMPILER, *modules)):
        digest.update(module.encode() + b"\0" + source_digest(module))
    digest.update(environment())
    return digest.hexdigest()[:32]


def sources(modules: Iterable[str]) -> list[str]:
    """These modules, and all of isa/ and soc/ that they import.

    NOTE: what functions import is left out: it is not compiled.
    """
    found: set[str] = set()
    waiting = {module for module in modules if _is_there(module)}
    while waiting:
        module = waiting.pop()
        found.add(module)
        waiting |= _imported(module) - found
    return sorted(found)


def _file(module: str) -> str:
    return f"{ROOT}/{module.replace('.', '/')}.py"


@cache
def _is_there(module: str) -> bool:
    return exists(_file(module))


_IMPORT = re.compile(r"^from ((?:isa|soc)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
_NAME = re.compile(r"\w+")


@cache
def _imported(module: str) -> frozenset[str]:
    """Modules among what follows each `from` and, in it, each `import`."""
    names = set()
    for package, imported in _IMPORT.findall(content(_file(module)).decode()):
        names |= {package, *(f"{package}.{name}" for name in _NAME.findall(imported))}
    return frozenset(filter(_is_there, names))


@cache
def source_digest(module: str) -> bytes:
    """SHA-256 of a module's source."""
    return hashlib.sha256(content(_file(module))).digest()


@cache
def content(file: str | Path) -> bytes:
    with open(file, "rb") as source:
        return source.read()


@cache
def environment() -> bytes:
    """Everything outside of the sources on which machine code depends."""
    host = llvmlite.binding
    versions = [f"numpy {numpy.__version__}", f"llvmlite {llvmlite.__version__}", _numba_version()]
    facts = (sys.version, *versions, host.get_host_cpu_name(), _features())
    return "\0".join(facts).encode()


def _numba_version() -> str:
    """The file that says it: importing Numba takes long, and so does reading its metadata."""
    found = find_spec("numba")
    assert found
    assert found.origin
    return (Path(found.origin).parent / "_version.py").read_text()


def _features() -> str:
    features: str = llvmlite.binding.get_host_cpu_features().flatten()
    return features


def is_intact(folder: Path) -> bool:
    """Is this folder what we have written? If not, it is deleted."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        owned = all(is_ours(path) for path in (folder, *folder.rglob("*")))
        if owned and manifest == digests(folder):
            return True
    except (OSError, ValueError):
        pass
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    return False


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file but the manifest."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != MANIFEST
    }


def _store(files: Files, folder: Path) -> None:
    """Write a unit's files and their manifest into a new folder, and put that into its place."""
    with TemporaryFolder(PART, folder.parent) as made:
        for name, content in files.items():
            (made / name).write_bytes(content)
        (made / MANIFEST).write_text(json.dumps(digests(made)))
        for path in made.iterdir():
            path.chmod(0o600)
        made.rename(folder)
