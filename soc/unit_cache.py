"""Where the machine code of units is kept, and when it is made anew.

A folder per unit, named by the content of everything that goes into it: the sources of its step
functions with what they import, the declared links, the versions of Python, NumPy, Numba and LLVM,
the processor. A folder that is not the user's own, or whose files are not those that were written,
is deleted and made again; nothing of it is loaded.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path

import llvmlite.binding

from soc.linking import Progress, Unit

CODE = "code.o"
MANIFEST = "manifest.json"
ROOT = Path(__file__).parents[1]
COMPILER = ("soc.unit_compiler", "soc.links", "soc.chip_types")
"""Modules that go into every unit, with what they import."""


def cache_folder() -> Path:
    """Where units are kept: $PULPSIM_CACHE, else the user's cache folder."""
    if os.environ.get("PULPSIM_CACHE"):
        return Path(os.environ["PULPSIM_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pulpsim"


def kept(units: Iterable[Unit], progress: Progress = nullcontext) -> list[Path]:
    """The object files of these units; those that are not kept yet are compiled together."""
    folders = {unit.name: cache_folder() / f"{unit.kind}-{key(unit)}" for unit in units}
    missing = {name: folder for name, folder in folders.items() if not is_intact(folder)}
    if missing:
        with progress("compiling the interpreter (once; it is kept)"):
            _build(missing)
    return [folder / CODE for folder in folders.values()]


def key(unit: Unit) -> str:
    """A name for a unit's content."""
    digest = hashlib.sha256(unit.name.encode())
    for file in sources((*COMPILER, *sorted(unit.modules))):
        digest.update(file.name.encode() + b"\0" + _content(file))
    digest.update(_environment())
    return digest.hexdigest()[:32]


def sources(modules: Iterable[str]) -> list[Path]:
    """The files of these modules and of all of isa/ and soc/ that they import.

    NOTE: what functions import is left out: it is not compiled.
    """
    found: set[Path] = set()
    waiting = [ROOT / f"{module.replace('.', '/')}.py" for module in modules]
    while waiting:
        file = waiting.pop()
        if file not in found and file.exists():
            found.add(file)
            waiting += _imported(file)
    return sorted(found)


_IMPORT = re.compile(rb"^from ((?:isa|soc)[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _imported(file: Path) -> tuple[Path, ...]:
    """Files that the modules or names behind each `import` may be in."""
    names = set()
    for module, imported in _IMPORT.findall(_content(file)):
        names |= {module, *(module + b"." + name for name in re.findall(rb"\w+", imported))}
    return tuple(ROOT / f"{name.decode().replace('.', '/')}.py" for name in names)


@cache
def _content(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _environment() -> bytes:
    """Everything outside of the sources on which machine code depends."""
    host = llvmlite.binding
    versions = [f"{name} {version(name)}" for name in ("numpy", "numba", "llvmlite")]
    facts = (sys.version, *versions, host.get_host_cpu_name(), _features())
    return "\0".join(facts).encode()


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


def is_ours(path: Path) -> bool:
    status = path.lstat()
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_plain and status.st_uid == os.getuid() and not status.st_mode & 0o022


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file but the manifest."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != MANIFEST
    }


def _build(folders: dict[str, Path]) -> None:
    """Compile units into new folders and move each into place, whole."""
    parent = cache_folder()
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(dir=parent, prefix="building-"))
    try:
        _compile({name: str(made / folder.name) for name, folder in folders.items()})
        for folder in folders.values():
            _finish(made / folder.name, folder)
    finally:
        shutil.rmtree(made)


def _finish(made: Path, folder: Path) -> None:
    """Write the manifest of what was compiled, and put it into its place."""
    for path in made.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (made / MANIFEST).write_text(json.dumps(digests(made)))
    (made / MANIFEST).chmod(0o600)
    try:
        made.rename(folder)
    except OSError:  # another process was first
        if not folder.is_dir():
            raise


def _compile(folders: dict[str, str]) -> None:
    """Compile units, named, into folders, in processes of their own.

    raises    CalledProcessError, with the traceback on standard error, if that fails
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-m", "soc.build_units"],
        input=json.dumps(folders).encode(),
        env=os.environ | {"PYTHONPATH": path},
        check=True,
    )
