"""Keeps the machine code of step functions that Python itself calls, for the next process.

Numba's cache of functions, in the user's cache folder. Numba sees changes of a function's own file
only; here the name of the folder is a digest of all that may be called.
"""

import hashlib
import inspect
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from soc.aot.cache import content, environment
from soc.aot.numba_internals import (
    CompileResultCacheImpl,
    Dispatcher,
    FunctionCache,
    _CacheLocator,
    global_compiler_lock,
)
from soc.aot.unit import Link, Unit
from soc.host.cache_folder import cache_folder
from soc.host.compile_process import ROOT


class StepLocator(_CacheLocator):
    """Where the code of a function is."""

    def __init__(self, file: Path, line: int) -> None:
        self.file, self.line = file, line

    def get_cache_path(self):
        return str(cache_folder() / f"steps-{digest(self.file.parent)}")

    def get_source_stamp(self):
        return ""  # the folder's name is one

    def get_disambiguator(self):
        return f"{hashlib.sha256(_name(self.file)).hexdigest()[:16]}-{self.line}"

    @classmethod
    def from_function(cls, py_func, py_file):
        return cls(Path(py_file), py_func.__code__.co_firstlineno)


class StepCacheImpl(CompileResultCacheImpl):
    """Numba's, with that locator."""

    _locator_classes = (StepLocator,)


class StepCache(FunctionCache):
    """The code of a function, with all that it calls."""

    _impl_class = StepCacheImpl


linked: dict[Any, Link] = {}
"""Step functions that are called in their units, not compiled with what calls them: of `uses`."""


def keep(function: Any, uses: Iterable[Unit] = ()) -> Any:
    """Let the code of Numba's object for a function be kept and found again; return the object.

    uses    units whose links are called, not compiled with the function; what else it calls calls
            none of these, since that would be kept with what does not use the units, too

    Not that of a function without a file, nor of one whose module is not in `sys.modules`, which
    Numba imports by name to load the code; nor a function itself, where NUMBA_DISABLE_JIT says so.
    """
    if not isinstance(function, Dispatcher):
        return function
    kept: Any = function
    has_file = Path(kept.py_func.__code__.co_filename).exists()
    has_module = inspect.getmodule(kept.py_func) is not None
    if has_file and has_module and not isinstance(kept._cache, StepCache):
        kept._cache = StepCache(kept.py_func)
    if uses := tuple(uses):
        compile_it = kept.compile

        def compile_linked(signature: Any) -> Any:
            with _linking(uses):
                return compile_it(signature)

        kept.compile = compile_linked
    return kept


@contextmanager
def _linking(uses: tuple[Unit, ...]) -> Iterator[None]:
    """Compile, or load, what calls the links of these units."""
    with global_compiler_lock:
        for unit in uses:
            unit.define_links()
            linked.update({link.step_function: link for link in unit.links.values()})
        is_first = begin_keeping()
        try:
            yield
        finally:
            linked.clear()
            if is_first:
                end_keeping()


class _Thread(threading.local):
    is_compiling = False


_thread = _Thread()


def begin_keeping() -> bool:
    """Is this what Python calls, and no function that it calls in turn?"""
    if _thread.is_compiling:
        return False
    _thread.is_compiling = True
    return True


def end_keeping() -> None:
    """What Python calls is compiled."""
    _thread.is_compiling = False


@cache
def digest(beside: Path) -> str:
    """Of isa/, soc/ and a folder, as they are, and of what compiles them."""
    found = hashlib.sha256(environment())
    for folder in (ROOT / "isa", ROOT / "soc", beside):
        for file in sorted(folder.rglob("*.py")):
            found.update(_name(file) + b"\0" + content(file))
    return found.hexdigest()[:32]


def _name(file: Path) -> bytes:
    """The same for a file in every clone."""
    own = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    return str(own).encode()
