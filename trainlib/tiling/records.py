"""L2 addresses that code learns when it is called: so one function serves many operands.

Before a function begins, L1 holds a base for each of its operands: where it starts, less the mark
of that operand. A word of a table is the operand's mark plus bytes from where it starts: its upper
bits say which base it is to be added to, and the sum is an address.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from firmware.builder import Kernel, KernelError, Register
from firmware.drivers import COMMAND, CONTROL, FIELDS, Dma
from firmware.platform import DMA, EVENT_UNIT
from isa.words import sext
from trainlib.primitive.tensor import WORD

BASES = 128  # bytes of L1 that bases take at most, and a multiple of which they begin at
MARK = 25  # lowest bit of a mark, which is how many bytes after the first base an operand's lies
LONGEST = 1 << MARK
PORT = CONTROL + COMMAND
SHORTEST, LONGEST_COMMAND = 3, 7  # words of a command: without lines, with lines


@dataclass(frozen=True)
class Operand:
    """An L2 address relative to an operand's start.

    base      L1 address of its base
    offset    bytes
    """

    base: int
    offset: int = 0

    def __add__(self, more: int) -> "Operand":
        return replace(self, offset=self.offset + more)

    @property
    def mark(self) -> int:
        """What the base is less than the operand's start."""
        return self.base % BASES << MARK

    @property
    def word(self) -> int:
        """What a table has for it.

        raises    KernelError if it is too far from the operand's start
        """
        if not 0 <= self.offset < LONGEST:
            raise KernelError(
                f"a function reads an operand {self.offset} bytes after its start, where less than "
                f"{LONGEST} can be told; cut the operand in two"
            )
        return self.mark + self.offset

    def load(self, k: Kernel, rd: Register, scratch: Register) -> None:
        """Load the address."""
        k.li(rd, self.base // BASES * BASES)
        k.lw(rd, self.base % BASES, rd)
        k.add_constant(rd, rd, sext(self.mark + self.offset, 32), scratch)


Far = int | Operand
"""An address in L2."""


def bases_of(addresses: Iterable[Far]) -> int | None:
    """Where the bases are that addresses are relative to, if they are."""
    found = {a.base // BASES * BASES for a in addresses if isinstance(a, Operand)}
    return next(iter(found), None)


def start_copies(k: Kernel, commands: Iterable[Sequence[Any]]) -> None:
    """Start what the words of commands say, where some may be relative to an operand.

    NOTE: where one is, code is short before it is fast: it runs once in a call.
    """
    listed = [list(words) for words in commands]
    if all(isinstance(word, int) for words in listed for word in words):
        for words in listed:
            Dma(k).start(words)
        return
    with k.scope():
        port, value, base, scratch = k.short(4)
        k.li(port, DMA + COMMAND)
        for words in listed:
            for word in words:
                if isinstance(word, Operand):
                    word.load(k, base, scratch)
                else:
                    k.li(value, word)
                k.sw(base if isinstance(word, Operand) else value, 0, port)


@dataclass(frozen=True)
class Relatives:
    """Commands in L1 whose L2 addresses are relative: how a core starts them.

    bases      L1 address of the first base
    lengths    words that commands have
    """

    bases: int
    lengths: frozenset[int]

    def start(self, k: Kernel, at: Register, count: Register) -> None:
        """Start as many commands, one after the other from an address on; both registers change."""
        with k.scope():
            port, bases, command, l1, l2, base = k.x(6)
            k.li(port, EVENT_UNIT)
            k.li(bases, self.bases)
            with k.loop(count) if len(self.lengths) > 1 else k.hwloop(count):
                for register in (command, l1, l2):
                    k.load_post(register, WORD, at)
                k.sw(command, PORT, port)
                k.srli(base, l2, MARK)
                k.add(base, base, bases)
                k.lw(base, 0, base)
                k.sw(l1, PORT, port)
                k.add(l2, l2, base)
                k.sw(l2, PORT, port)
                self._start_lines(k, at, port, command, (l1, l2))
                k.nop()  # a label may not end a hardware loop

    def _start_lines(
        self, k: Kernel, at: Register, port: Register, command: Register, pair: Sequence[Register]
    ) -> None:
        """Store how lines lie on both sides, if there are any."""
        if max(self.lengths) == SHORTEST:
            return
        done = k.label()
        if len(self.lengths) > 1:
            k.srli(command, command, FIELDS["l2_2d"].low)
            k.andi(command, command, 1)
            k.beqz(command, done)
        for _ in range((LONGEST_COMMAND - SHORTEST) // 2):
            for register in pair:
                k.load_post(register, WORD, at)
            for register in pair:
                k.sw(register, PORT, port)
        k.place(done)
