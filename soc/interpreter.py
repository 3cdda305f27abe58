"""The compiled interpreter: generated for the instructions that a program needs, cached on disk.

The cache is a folder per interpreter, named by the content of everything that goes into it: the
sources of isa/ and soc/, the instruction set, the versions of Python, NumPy, Numba and LLVM, the
processor. A folder that is not the user's own, or whose files are not those that were written, is
deleted and built again; nothing of it is loaded.
"""

import ast
import hashlib
import importlib.util
import json
import os
import shutil
import stat
import subprocess
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
from isa.profiles import profile
from soc.chip_types import CHIP_TYPE
from soc.step import BUILDING, step

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

HEAD = '''\
"""The interpreter of {name}, generated from the declarations in isa/."""

import numpy as np

from isa.words import i32, u32
from soc import loop
from soc.control_page import generator_request as _generator_request
from soc.dma import grant_ports
from soc.hart import make_advance
from soc.interpreter import meanings
from soc.step import inlined_step, kept_step

globals().update(meanings("{name}", {extensions}))


{execute}

advance = make_advance(inlined_step(execute))
'''

LOOP = """
_run = loop.make_run(advance)


@kept_step
def run(chip, end):
    return _run(chip, end)
"""

PARTS = """
_run_hart = loop.make_run_hart(advance)


@kept_step
def run_hart(chip, h, now, end):
    _run_hart(chip, h, now, end)


@kept_step
def collect_hart(chip, h, now):
    return loop.collect_hart(chip, h, now)


@kept_step
def access_l1(chip, due, now):
    return loop.access_l1(chip, due, now)


@kept_step
def signal_dma(chip, now):
    loop.signal_dma(chip, now)


@kept_step
def dma_requests(chip):
    granted = grant_ports(chip.dma[0])
    return granted, loop.request_dma_lanes(chip)


@kept_step
def cycle_dma(chip, granted, lanes, now):
    return loop.cycle_dma(chip, granted, lanes, now)


@kept_step
def clock_event_unit(chip, now):
    return loop.clock_event_unit(chip, now)


@kept_step
def interrupt_from_control_page(chip, now):
    loop.interrupt_from_control_page(chip, now)


@kept_step
def generator_request(chip, now):
    _generator_request(chip, now)


@kept_step
def cycle_generator(chip, now):
    loop.cycle_generator(chip, now)
"""

LOOP_ENTRIES = {"run": ["int64"]}
PARTS_ENTRIES = {
    "run_hart": ["int64"] * 3,
    "collect_hart": ["int64"] * 2,
    "access_l1": ["uint64", "int64"],
    "signal_dma": ["int64"],
    "dma_requests": [],
    "cycle_dma": ["int64"] * 3,
    "clock_event_unit": ["int64"],
    "interrupt_from_control_page": ["int64"],
    "generator_request": ["int64"],
    "cycle_generator": ["int64"],
}
"""Entries of the generated modules: types of their arguments behind the chip."""

Parts = ModuleType

KNOWN_TYPES = (CHIP_TYPE,)
"""Importing it tells Numba of the type that the kept functions take."""


def base_extensions(isa: Isa) -> frozenset[str]:
    """The extensions of an instruction set that every program gets."""
    return frozenset(e.name for e in isa.extensions if e.name not in OPTIONAL)


def with_group_of(isa: Isa, extensions: frozenset[str], extension: str) -> frozenset[str]:
    """Add the group of an optional extension."""
    group = OPTIONAL[extension]
    return extensions | {e.name for e in isa.extensions if OPTIONAL.get(e.name) == group}


def interpreter(isa: Isa, extensions: frozenset[str], progress: Progress = nullcontext) -> Callable:
    """Return the loop `run(chip, end)` that executes these extensions, compiled."""
    return _module(isa, extensions, LOOP, LOOP_ENTRIES, progress).run


def parts(isa: Isa, extensions: frozenset[str], progress: Progress = nullcontext) -> Parts:
    """Return the step functions by themselves, compiled: what the event engine calls."""
    return _module(isa, extensions, PARTS, PARTS_ENTRIES, progress)


_modules: dict[str, ModuleType] = {}


Entries = dict[str, list[str]]


def _module(
    isa: Isa, extensions: frozenset[str], tail: str, entries: Entries, progress: Progress
) -> ModuleType:
    """Load a generated module, built first if need be."""
    head = HEAD.format(
        name=isa.name,
        extensions=sorted(extensions),
        execute=compiled.execute_source(isa, extensions).rstrip(),
    )
    key = _key(head + tail)
    if key not in _modules:
        folder = cache_folder() / key
        if not _is_intact(folder):
            with progress("compiling the interpreter (once; it is kept)"):
                _build(folder, head + tail, entries)
        _modules[key] = load_generated(folder, key)
    return _modules[key]


def meanings(name: str, extensions: Iterable[str]) -> dict[str, object]:
    """The names in the text of a profile's generated interpreter.

    name    of the profile, "ri5cy-x" or "cv32e40p-f-small"
    """
    core, registers, *small = name.split("-")
    called, names = compiled.meanings(profile(core, registers, bool(small)), extensions)
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
    for file in _compiled_files():
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


@cache
def _compiled_files() -> tuple[Path, ...]:
    """The sources of the generated modules: what they import of isa/ and soc/, and so on."""
    root = Path(__file__).parents[1]
    found: set[Path] = set()
    starts = ("soc/loop.py", "soc/hart.py", "isa/hostfloat.py", "soc/build_interpreter.py")
    waiting = [root / file for file in starts]
    waiting += (root / "isa").glob("*.py")
    while waiting:
        file = waiting.pop()
        if file in found or not file.exists():
            continue
        found.add(file)
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                waiting += (root / f"{name.replace('.', '/')}.py" for name in names)
    return tuple(sorted(found))


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


def _build(folder: Path, source: str, entries: Entries) -> None:
    """Compile into a new folder and move it into place, whole."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix="building-"))
    try:
        (made / SOURCE).write_text(source)
        (made / SOURCE).chmod(0o600)
        _compile(made, folder.name, entries)
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


def _compile(folder: Path, key: str, entries: Entries) -> None:
    """Compile a module's entries in a process of its own.

    raises    CalledProcessError, with the traceback on standard error, if that fails
    """
    root = str(Path(__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(
        [sys.executable, "-m", "soc.build_interpreter", str(folder), key],
        input=json.dumps(entries).encode(),
        env=os.environ | {"PYTHONPATH": path, BUILDING: "1"},
        check=True,
    )


def load_generated(folder: Path, key: str) -> ModuleType:
    """Import the generated module; its name is part of what Numba keeps."""
    name = f"pulpsim_interpreter_{key}"
    elsewhere = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = ""
    write_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec = importlib.util.spec_from_file_location(name, folder / SOURCE)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        numba.config.CACHE_DIR = elsewhere
        sys.dont_write_bytecode = write_bytecode
