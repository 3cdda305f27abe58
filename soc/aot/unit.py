"""Units of machine code: step functions compiled apart, linked by symbol.

A unit is compiled in a process of its own and kept as an object file (soc.aot.cache). Its links
are the functions that others call: step functions of other units by their symbol, Python through
ctypes. So what changes in one unit compiles that unit again and nothing else, and a program that
only runs needs no compiler at all.
"""

import ctypes
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np

from soc.chip.state import Chip
from soc.host.compile_process import Progress

WORDS = np.ndarray
"""An argument: a memory's words, int32[]. Only compiled code can pass it."""

LOADING = RLock()


class Link:
    """A function of a unit, for callers outside of it.

    path       module and name of the step function
    takes      types of its arguments: Chip, int, np.uint64, WORDS, or the dtype of a record
    returns    None, int, bool, np.uint64, or a tuple of these
    """

    def __init__(self, unit: "Unit", path: str, takes: tuple, returns: Any):
        self.unit, self.takes, self.returns = unit, takes, returns
        self.module, self.name = path.rsplit(".", 1)
        self.symbol = f"pulpsim_{unit.kind}_{self.name}"

    def __call__(self, *arguments: Any) -> Any:
        return self.locked(*arguments)

    @property
    def step_function(self) -> Any:
        """The function itself. Imports what only a compiler needs."""
        return getattr(self.unit.declaring(self.module), self.name)

    @property
    def python_symbol(self) -> str:
        """The same function as C, and so ctypes, passes arguments: every one is a word."""
        return f"{self.symbol}_c"

    @property
    def is_for_python(self) -> bool:
        """Can ctypes pass all that it takes and returns?"""
        return WORDS not in self.takes and not isinstance(self.returns, tuple)

    @cached_property
    def locked(self) -> Callable:
        """The compiled function, for Python. Loads its unit, compiled first if need be.

        The interpreter lock is held: letting it go, and waiting for it again, would take longer
        than most functions, and threads that run at once hand it back and forth.
        """
        return self._callable(ctypes.PYFUNCTYPE)

    @cached_property
    def unlocked(self) -> Callable:
        """The same for what takes long: other threads go on meanwhile."""
        return self._callable(ctypes.CFUNCTYPE)

    def of(self, first: Any) -> Callable:
        """The compiled function for one chip or record, its first argument: half of a call's time.

        NOTE: it holds an address, so whoever has it has to keep `first`; and it takes plain ints.
        """
        return partial(self._code(ctypes.PYFUNCTYPE), _converter(self.takes[0])(first))

    def _code(self, kind_of: Callable) -> Callable:
        words = [ctypes.c_uint64 if kind is np.uint64 else ctypes.c_int64 for kind in self.takes]
        results = {None: None, bool: ctypes.c_bool, int: ctypes.c_int64, np.uint64: ctypes.c_uint64}
        return kind_of(results[self.returns], *words)(self.unit.address(self.python_symbol))

    def _callable(self, kind_of: Callable) -> Callable:
        code = self._code(kind_of)
        if self.takes[0] is Chip and set(self.takes[1:]) <= {int, np.uint64}:
            return lambda chip, *numbers: code(chip.address, *map(int, numbers))
        convert = [_converter(kind) for kind in self.takes]
        return lambda *given: code(*[to(value) for to, value in zip(convert, given, strict=True)])


def _converter(kind: Any) -> Callable[[Any], int]:
    if kind is Chip:
        return lambda chip: chip.address
    return partial(_record_address, kind) if isinstance(kind, np.dtype) else int


def _record_address(wanted: np.dtype, record: np.void) -> int:
    if record.dtype != wanted:
        raise TypeError(f"a record of {record.dtype.names} is no record of {wanted.names}")
    return int(np.frombuffer(record, np.uint8).ctypes.data)


class Unit:
    """Step functions that are compiled together.

    name    the first word names its symbols; the whole name says what is compiled
    uses    units whose links they call
    file    the object file, once it is needed

    is_bitcode    the file is LLVM's bitcode instead, whose functions are to be inlined
    constants     arrays of the chip that are constants, defined under these symbols
    """

    def __init__(self, name: str, uses: tuple["Unit", ...] = ()):
        self.name, self.uses = name, uses
        self.links: dict[str, Link] = {}
        self.file: Path | None = None
        self.is_bitcode = False
        self.constants: dict[str, str] = {}

    @property
    def kind(self) -> str:
        """The first word of its name."""
        return self.name.split()[0]

    def link(self, path: str, *takes: Any, returns: Any = None) -> Link:
        """Declare a function that others call."""
        made = Link(self, path, takes, returns)
        self.links[made.name] = made
        return made

    @property
    def modules(self) -> set[str]:
        """Where its step functions are declared: with all that these import, its sources."""
        return {link.module for link in self.links.values()}

    def bind(self) -> None:
        """Load it, and be ready for Python's calls."""
        for link in self.links.values():
            if link.is_for_python:
                _ = link.locked

    def declaring(self, module: str) -> ModuleType:
        """Import the module of one of its step functions."""
        return import_module(module)

    def address(self, symbol: str) -> int:
        """Where a symbol of its machine code lies."""
        return int(self._code.get_function_address(symbol))

    @cached_property
    def _code(self) -> Any:
        """The loaded machine code."""
        from soc.aot.loader import load

        with LOADING:
            require((self, *self.uses))
            for unit in self.uses:
                unit.define_links()
            assert self.file
            return load(self.file)

    def define_links(self) -> None:
        """Let code that is loaded from now on call its links."""
        from soc.aot.loader import define

        for link in self.links.values():
            define(link.symbol, self.address(link.symbol))


def require(units: Iterable[Unit], progress: Progress = nullcontext) -> None:
    """Have the machine code of these units: what is not kept is compiled, all of it together."""
    waiting = [unit for unit in units if unit.file is None]
    if not waiting:
        return
    from soc.aot.cache import kept

    modules = {unit.name: unit.modules for unit in waiting}
    files = dict(zip(modules, kept(modules, progress), strict=True))
    for unit in waiting:
        unit.file = files[unit.name]
