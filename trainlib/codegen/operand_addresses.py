"""Addresses of tensors around other emitters: none is in a register but while it is used.

An emitter may want all registers but those of its own operands. What is in registers goes on the
stack, and so do the addresses that move from step to step.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from firmware.builder import LT, Kernel, Register
from firmware.registers import SP
from trainlib.codegen.saved_values import Kept
from trainlib.primitive.tensor import WORD, Address, Addresses


class Places:
    """Addresses by name: numbers, or slots on the stack.

    with places_of(k, {"X": x, "Y": y}, {"x": ("X", 0)}, 1) as places:
        with places.loop(0, 10):
            with places.load("x", "Y") as (x, y):
                emit(k, team, x, y)
            places.move("x", 400)
    """

    def __init__(
        self, k: Kernel, numbers: dict[str, int], slots: dict[str, int], counters: list[int]
    ) -> None:
        self.k, self.numbers, self.slots, self.counters = k, numbers, slots, counters

    @contextmanager
    def load(self, *names: str) -> Iterator[list[Address]]:
        """The addresses, in registers if they are no numbers."""
        with self.k.scope():
            loaded: dict[str, Address] = {}
            for name in names:
                if name not in loaded:
                    loaded[name] = self._loaded(name)
            yield [loaded[name] for name in names]

    def _loaded(self, name: str) -> Address:
        if name in self.numbers:
            return self.numbers[name]
        register = self.k.x()
        self.k.lw(register, self.slots[name], SP)
        return register

    def _load(self, register: Register, name: str) -> None:
        if name in self.numbers:
            self.k.li(register, self.numbers[name])
        else:
            self.k.lw(register, self.slots[name], SP)

    def copy(self, name: str, source: str) -> None:
        """Let one that moves be where another is."""
        with self.k.scope():
            register = self.k.x()
            self._load(register, source)
            self.k.sw(register, self.slots[name], SP)

    def move(self, name: str, step: int) -> None:
        """Add bytes to one that moves."""
        with self.k.scope():
            register, scratch = self.k.x(2)
            self.k.lw(register, self.slots[name], SP)
            self.k.add_constant(register, register, step, scratch)
            self.k.sw(register, self.slots[name], SP)

    def add(self, name: str, other: str) -> None:
        """Add another to one that moves."""
        with self.k.scope():
            register, more = self.k.x(2)
            self._load(register, name)
            self._load(more, other)
            self.k.add(register, register, more)
            self.k.sw(register, self.slots[name], SP)

    def move_down(self, name: str, step: int, lowest: str, below: str) -> None:
        """Take bytes from one that moves; where it falls below `lowest`, it is at `below`."""
        self.move(name, -step)
        with self.k.scope():
            register, limit = self.k.x(2)
            self.k.lw(register, self.slots[name], SP)
            self._load(limit, lowest)
            with self.k.if_(LT, register, limit):
                self._load(register, below)
                self.k.sw(register, self.slots[name], SP)

    @contextmanager
    def loop(self, counter: int, count: int) -> Iterator[None]:
        """Repeat the body."""
        with self.k.scope():
            scratch = self.k.x()
        with Kept(self.k, self.counters[counter]).loop(count, scratch):
            yield


@contextmanager
def places_of(
    k: Kernel,
    addresses: Addresses,
    moving: Mapping[str, tuple[str, int]],
    counters: int,
) -> Iterator[Places]:
    """Addresses by name; registers among them are saved, free for the body, and restored.

    moving      those that move: the address that each begins at, and bytes after it
    counters    of loops around one another
    """
    numbers = {name: a for name, a in addresses.items() if isinstance(a, int)}
    registers = {name: a for name, a in addresses.items() if isinstance(a, Register)}
    names = [*registers, *moving]
    slots = {name: WORD * at for at, name in enumerate(names)}
    frame = -(-WORD * (len(names) + counters) // 16) * 16
    with k.scope():
        k.addi(SP, SP, -frame)
        for name, register in registers.items():
            k.sw(register, slots[name], SP)
        k.free(*registers.values())
        places = Places(k, numbers, slots, [WORD * (len(names) + i) for i in range(counters)])
        for name, (start, after) in moving.items():
            places.copy(name, start)
            if after:
                places.move(name, after)
        yield places
        for name, register in registers.items():
            k.lw(register, slots[name], SP)
        k.addi(SP, SP, frame)
