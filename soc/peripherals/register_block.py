"""Registers that remember what is written to them: the base of all peripherals.

A peripheral is this plus what the registers do that do more, which its class declares:

    class Lamp(RegisterBlock, write_only=("TOGGLE",), read_only=("HOURS",)):
        @stores("TOGGLE")
        def _toggle(self, name: str, index: int, value: int) -> None: ...

On its own it stands for the blocks whose behaviour nothing in the simulator depends on (power
management, debug).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from soc.address_map.register import Block
from soc.prelude.warns_once import WarnsOnce

WORD = 0xFFFFFFFF

Load = Callable[[Any, str, int], int]
"""The component, a register's name, its index -> what a load finds there."""
Store = Callable[[Any, str, int, int], None]
"""The component, a register's name, its index, what is stored there."""


def loads(*registers: str) -> Callable[[Load], Load]:
    """Mark a method as what loads of these registers find."""
    return _marker("loads", registers)


def stores(*registers: str) -> Callable[[Store], Store]:
    """Mark a method as what stores to these registers do."""
    return _marker("stores", registers)


def _marker(access: str, registers: tuple[str, ...]) -> Callable[[Any], Any]:
    def mark(method: Any) -> Any:
        setattr(method, access, registers)
        return method

    return mark


def _zero(component: object, name: str, index: int) -> int:
    return 0


def _nothing(component: object, name: str, index: int, value: int) -> None:
    pass


class RegisterBlock(WarnsOnce):
    """A block of 32-bit registers.

    Ports
        warn    out   a sentence; once for each offset that has no register

    State: `words`, by offset; `unknown`, accesses by offset where there is no register.

    Of a class
        write_only    registers in which loads find zero
        read_only     registers to which stores do nothing
    """

    loads: ClassVar[dict[str, Load]] = {}
    stores: ClassVar[dict[str, Store]] = {}

    def __init_subclass__(
        cls, *, write_only: tuple[str, ...] = (), read_only: tuple[str, ...] = ()
    ):
        super().__init_subclass__()
        methods = vars(cls).values()
        cls.loads = cls.loads | dict.fromkeys(write_only, _zero)
        cls.loads |= {name: each for each in methods for name in getattr(each, "loads", ())}
        cls.stores = cls.stores | dict.fromkeys(read_only, _nothing)
        cls.stores |= {name: each for each in methods for name in getattr(each, "stores", ())}

    def __init__(self, name: str, block: Block, warn: Callable[[str], None]):
        super().__init__(name, warn)
        self.block = block
        self.words: dict[int, int] = {}
        self.unknown: dict[int, int] = {}

    def read(self, offset: int, size: int) -> int:
        """Load `size` bytes (1, 2, 4) that do not cross a word."""
        return self.loading(offset & ~3)() >> 8 * (offset & 3) & (1 << 8 * size) - 1

    def write(self, offset: int, value: int, size: int) -> None:
        """Store `size` bytes. There are no byte enables: a narrow store writes the whole word."""
        self.storing(offset & ~3)((value & (1 << 8 * size) - 1) << 8 * (offset & 3))

    def loading(self, offset: int) -> Callable[[], int]:
        """What a load of the word at an offset calls."""
        found = self.block.by_offset.get(offset)
        if found is None:
            return partial(self._load_nothing, offset)
        register, index = found
        load = self.loads.get(register.name)
        if load is None:
            return partial(self.words.get, offset, register.reset)  # type: ignore
        return partial(load, self, register.name, index)

    def storing(self, offset: int) -> Callable[[int], object]:
        """What a store to the word at an offset calls, with its 32 bits."""
        found = self.block.by_offset.get(offset)
        if found is None:
            return partial(self._store_nothing, offset)
        register, index = found
        store = self.stores.get(register.name)
        if store is None:
            return partial(self.words.__setitem__, offset)
        return partial(store, self, register.name, index)

    def word(self, name: str, index: int = 0) -> int:
        """What a register holds: the last store, or its reset value."""
        register = self.block.register(name)
        return self.words.get(register.offset + register.stride * index, register.reset)

    def put(self, name: str, index: int, value: int) -> None:
        """Let a register hold a value."""
        self.words[self.block.offset(name, index)] = value & WORD

    def _load_nothing(self, offset: int) -> int:
        self._note_unknown(offset, "load")
        return self.words.get(offset, 0)

    def _store_nothing(self, offset: int, value: int) -> None:
        self._note_unknown(offset, "store")
        self.words[offset] = value

    def _note_unknown(self, offset: int, access: str) -> None:
        self.unknown[offset] = self.unknown.get(offset, 0) + 1
        at = f"at offset {offset:#x}, where it has no register"
        self.warn_once(f"{access} {at}", at)
