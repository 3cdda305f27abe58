"""The compiled interpreter: generated for the instructions that a program needs, cached on disk.

The cache is a folder per interpreter, named by the content of everything that goes into it: the
sources of isa/ and soc/, the instruction set, the versions of Python, NumPy, Numba and LLVM, the
processor. A folder that is not the user's own, or whose files are not those that were written, is
deleted and built again; nothing of it is loaded.
"""

import hashlib
import importlib.util
import json
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType

import llvmlite
import llvmlite.binding
import numba
import numpy as np

from isa import compiled
from isa.declare import Isa
from soc.chip_types import CHIP_TYPE
from soc.step import step

Progress = Callable[[str], AbstractContextManager]

OPTIONAL = {
    "xpulpvect": "simd",
    "xpulplate": "simd",
    "xcvsimd": "simd",
    "xf16": "small floats",
    "xf16alt": "small floats",
    "xf8": "small floats",
    "xfvec": "small floats",
    "xfaux": "small floats",
}
"""Extensions that are compiled only for programs which use them, in groups."""

SOURCE = "interpreter.py"
MANIFEST = "manifest.json"

TEMPLATE = '''\
"""The interpreter of {name}, generated from the declarations in isa/."""

from isa.words import i32, u32
from soc.hart import make_advance
from soc.interpreter import meanings
from soc.loop import make_run
from soc.step import inlined_step, kept_step

globals().update(meanings("{name}", {extensions}))


{execute}

_run = make_run(make_advance(inlined_step(execute)))


@kept_step
def run(chip, end):
    return _run(chip, end)
'''

_profiles: dict[str, Isa] = {}


def base_extensions(isa: Isa) -> frozenset[str]:
    """The extensions of an instruction set that every program gets."""
    return frozenset(e.name for e in isa.extensions if e.name not in OPTIONAL)


def with_group_of(isa: Isa, extensions: frozenset[str], extension: str) -> frozenset[str]:
    """Add the group of an optional extension."""
    group = OPTIONAL[extension]
    return extensions | {e.name for e in isa.extensions if OPTIONAL.get(e.name) == group}


@cache
def interpreter(isa: Isa, extensions: frozenset[str], progress: Progress = nullcontext) -> Callable:
    """Return the loop `run(chip, end)` that executes these extensions, compiled."""
    _profiles[isa.name] = isa
    source = TEMPLATE.format(
        name=isa.name,
        extensions=sorted(extensions),
        execute=compiled.execute_source(isa, extensions).rstrip(),
    )
    key = _key(source)
    folder = cache_folder() / key
    if not _is_intact(folder):
        with progress("compiling the interpreter (once; it is kept)"):
            _build(folder, source)
    return _load(folder, key).run


def meanings(name: str, extensions: Iterable[str]) -> dict[str, object]:
    """The names in the text of a profile's generated interpreter."""
    called, names = compiled.meanings(_profiles[name], extensions)
    return names | {key: step(function) for key, function in called.items()}


def cache_folder() -> Path:
    """Where interpreters are kept: $PULPSIM_CACHE, else the user's cache folder."""
    if os.environ.get("PULPSIM_CACHE"):
        return Path(os.environ["PULPSIM_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pulpsim"


def _key(source: str) -> str:
    """A name for an interpreter that changes with everything it depends on."""
    digest = hashlib.sha256(source.encode())
    root = Path(__file__).parents[1]
    for file in sorted([*(root / "isa").glob("*.py"), *(root / "soc").glob("*.py")]):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    host = llvmlite.binding
    for fact in (
        sys.version,
        np.__version__,
        numba.__version__,
        llvmlite.__version__,
        host.get_host_cpu_name(),
        host.get_host_cpu_features().flatten(),
    ):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:32]


def _is_intact(folder: Path) -> bool:
    """Is this folder what we have written? If not, it is deleted."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        owned = all(_is_ours(path) for path in (folder, *folder.rglob("*")))
        if owned and manifest == _digests(folder):
            return True
    except (OSError, ValueError):
        pass
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)
    return False


def _is_ours(path: Path) -> bool:
    status = path.lstat()
    is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_plain and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each file but the manifest, and Python's own compilation of the source."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != MANIFEST and file.suffix != ".pyc"
    }


def _build(folder: Path, source: str) -> None:
    """Compile into a new folder and move it into place, whole."""
    from isa import hostfloat

    hostfloat.register()
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix="building-"))
    try:
        (made / SOURCE).write_text(source)
        os.chmod(made / SOURCE, 0o600)
        _load(made, folder.name).run.compile((CHIP_TYPE, numba.int64))
        for path in made.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        (made / MANIFEST).write_text(json.dumps(_digests(made)))
        (made / MANIFEST).chmod(0o600)
        try:
            made.rename(folder)
        except OSError:  # another process was first
            if not folder.is_dir():
                raise
    finally:
        if made.exists():
            shutil.rmtree(made)


def _load(folder: Path, key: str) -> ModuleType:
    """Import the generated module; its name is part of what Numba keeps."""
    name = f"pulpsim_interpreter_{key}"
    elsewhere = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = ""
    write_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec = importlib.util.spec_from_file_location(name, folder / SOURCE)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        numba.config.CACHE_DIR = elsewhere
        sys.dont_write_bytecode = write_bytecode
