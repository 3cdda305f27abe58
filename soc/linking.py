"""Units of machine code: step functions compiled apart, linked by symbol.

A unit is compiled in a process of its own and kept as an object file (soc.unit_cache). Its links
are the functions that others call: step functions of other units by their symbol, Python through
ctypes, which releases the interpreter lock. So what changes in one unit compiles that unit again
and nothing else, and a program that only runs needs no compiler at all.
"""

import ctypes
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

import numpy as np

from soc.chip_state import Chip

WORDS = np.ndarray
"""An argument: a memory's words, int32[]. Only compiled code can pass it."""

_LOADING = RLock()


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
        return self.machine_code(*arguments)

    @property
    def step_function(self) -> Any:
        """The function itself. Imports what only a compiler needs."""
        return getattr(self.unit.module(self.module), self.name)

    @property
    def python_symbol(self) -> str:
        """The same function as C, and so ctypes, passes arguments: every one is a word."""
        return f"{self.symbol}_c"

    @property
    def is_for_python(self) -> bool:
        """Can ctypes pass all that it takes and returns?"""
        return WORDS not in self.takes and not isinstance(self.returns, tuple)

    @cached_property
    def machine_code(self) -> Callable:
        """The compiled function, for Python. Loads its unit, compiled first if need be."""
        words = [ctypes.c_uint64 if kind is np.uint64 else ctypes.c_int64 for kind in self.takes]
        results = {None: None, bool: ctypes.c_bool, int: ctypes.c_int64, np.uint64: ctypes.c_uint64}
        code = ctypes.CFUNCTYPE(results[self.returns], *words)(
            self.unit.address(self.python_symbol)
        )
        if self.takes[0] is Chip and set(self.takes[1:]) <= {int, np.uint64}:
            return lambda chip, *numbers: code(chip.address, *map(int, numbers))
        convert = [_converter(kind) for kind in self.takes]
        return lambda *given: code(*[to(value) for to, value in zip(convert, given, strict=True)])


def _converter(kind: Any) -> Callable[[Any], int]:
    if kind is Chip:
        return lambda chip: chip.address
    if isinstance(kind, np.dtype):
        return lambda record: np.frombuffer(record, np.uint8).ctypes.data
    return int


class Unit:
    """Step functions that are compiled together.

    name    the first word names its symbols; the whole name says what is compiled
    uses    units whose links they call
    """

    def __init__(self, name: str, uses: tuple["Unit", ...] = ()):
        self.name, self.uses = name, uses
        self.links: dict[str, Link] = {}

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

    def module(self, name: str) -> ModuleType:
        """The module that declares one of its step functions."""
        return import_module(name)

    @property
    def is_loaded(self) -> bool:
        """Is its machine code in this process?"""
        return "_code" in self.__dict__

    def address(self, symbol: str) -> int:
        """Where a symbol of its machine code lies."""
        return int(self._code.get_function_address(symbol))

    @cached_property
    def _code(self) -> Any:
        """The loaded machine code."""
        from soc.machine_code import define, load
        from soc.unit_cache import kept

        with _LOADING:
            if self.is_loaded:
                return self.__dict__["_code"]
            files = kept([self, *self.uses])
            for unit in self.uses:
                for link in unit.links.values():
                    define(link.symbol, unit.address(link.symbol))
            return load(files[0])
