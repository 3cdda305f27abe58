"""Kernel: a program under construction. Python runs while it is built, instructions on the hart.

a Python `for` unrolls; `with k.loop(n)` and `with k.hwloop(n)` repeat on the hart
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise

import numpy as np

from firmware.arena import Arena
from firmware.code import Code, Half, Label, Source
from firmware.control import EQ, GE, GEU, LT, LTU, NE, Control
from firmware.forms import WORD
from firmware.registers import ZERO, KernelError, Register
from isa.assembler.disasm import listing
from isa.assembler.syntax import syntax_of
from isa.declare import Isa
from isa.elf.attributes import RVC, architecture
from isa.elf.region_names import MOST_REGIONS
from isa.program import LineTable, Program, Section, Segment, Symbol

__all__ = [
    "EQ",
    "GE",
    "GEU",
    "LT",
    "LTU",
    "NE",
    "CodeTooLarge",
    "Kernel",
    "KernelError",
    "Label",
    "Register",
]

CODE = Arena("code", 0x1C010080, 0xFF80)
"""Where code lies if nothing else is said: L2 after its private banks and 32 vectors."""

POISON = bytes.fromhex("a5a5a5ff")  # a NaN; as an index, far outside


class CodeTooLarge(KernelError):
    """A program's code does not fit; needed: its bytes."""

    def __init__(self, name: str, needed: int, room: int) -> None:
        super().__init__(
            f"{name}: {needed} bytes of code; there is room for {room}: let code be {needed} or "
            f"more"
        )
        self.needed = needed


class Kernel(Control):
    """A program under construction.

    name     for messages and listings
    code_at  where its instructions go
    l1, l2   what is left of the memories for its data
    stack    bytes of each core's stack, which are no part of l1
    regions  names of the regions it measures, by number
    """

    def __init__(
        self,
        isa: Isa,
        l1: Arena,
        l2: Arena,
        *,
        name: str = "program",
        code_at: Arena = CODE,
        stack: int = 0,
    ) -> None:
        super().__init__(isa, name)
        self.code_at, self.l1, self.l2, self.stack = code_at, l1, l2, stack
        self.regions: dict[int, str] = {}
        self._after: Label | None = None  # of the last region
        self._symbols: list[Symbol] = []
        self._values: list[Symbol] = []  # that are no places in memory
        self._parts: list[Symbol] = []  # of buffers
        self._pieces: list[tuple[int, bytes]] = []  # initialised data by address
        self._label_words: list[tuple[int, Label]] = []  # words of it that are labels' addresses

    def la(self, rd: Register, label: Label) -> None:
        """Load the address of a label: two instructions."""
        self.lui(rd, Half(label, True))
        self.addi(rd, rd, Half(label, False))

    def define(self, name: str, value: int) -> None:
        """Let a symbol of the program have this value."""
        self._values.append(Symbol(name, value))

    def buffer(self, arena: Arena, name: str, size: int, align: int = 16) -> int:
        """Take memory, its contents undefined; return its address.

        raises    KernelError if it does not fit
        """
        address = arena.take(name, size, align)
        self._symbols.append(Symbol(name, address, size, "object"))
        return address

    def name_part(self, name: str, address: int, size: int) -> None:
        """Name a part of a buffer: sync_... or padded_... tells checks what it is for.

        See soc.check.given.
        """
        self._parts.append(Symbol(name, address, size))

    def data(self, name: str, contents: bytes, align: int = 16) -> int:
        """Put bytes into L2; return their address.

        raises    KernelError if they do not fit
        """
        address = self.buffer(self.l2, name, len(contents), align)
        self.put(address, contents)
        return address

    def words(self, name: str, values: Sequence[int | Label], align: int = 16) -> int:
        """Put words into L2, labels as their addresses; return where they are.

        raises    KernelError if they do not fit
        """
        numbers = [0 if isinstance(value, Label) else value & 0xFFFFFFFF for value in values]
        address = self.data(name, np.array(numbers, "<u4").tobytes(), align)
        self._label_words += [
            (address + WORD * index, value)
            for index, value in enumerate(values)
            if isinstance(value, Label)
        ]
        return address

    def put(self, address: int, contents: bytes) -> None:
        """Let memory hold these bytes when the program starts."""
        self._pieces.append((address, contents))

    @property
    def undefined(self) -> list[Symbol]:
        """Buffers that nothing is put into."""
        starts = {start for start, _ in self._pieces}
        return [symbol for symbol in self._symbols if symbol.address not in starts]

    def poison(self) -> None:
        """Let both memories hold POISON where nothing else is put: call it last.

        A float that is read there is no number, a word that is missing was written over.
        """
        for arena in (self.l1, self.l2):
            at, pieces = arena.base, []
            taken = [(start, len(data)) for start, data in sorted(self._pieces)]
            for start, size in (*taken, (arena.base + arena.size, 0)):
                if at <= start <= arena.base + arena.size:
                    pieces.append((at, _poison(at, start - at)))
                    at = start + size
            self._pieces += [(start, data) for start, data in pieces if data]

    @contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Measure the body under this name: the hints slti x0, x0, 2k and 2k+1 around it.

        The body's code has a symbol, the kernel's name and this one; after it goes on what was.

        raises    KernelError if there are too many names
        """
        number = self.region_number(name)
        items = self.code.items
        around = next((i.name for i in reversed(items) if isinstance(i, Label) and i.name), "")
        if items and items[-1] is self._after:
            items.pop()  # two regions meet: nothing is between them
        self.place(self.label(f"{self.name}.{name}"))
        self.slti(ZERO, ZERO, 2 * number)
        yield
        self.slti(ZERO, ZERO, 2 * number + 1)
        self._after = self.place(self.label(around))

    def region_number(self, name: str) -> int:
        """The number k of a region's markers.

        raises    KernelError if there are too many names
        """
        numbers = {known: number for number, known in self.regions.items()}
        number = numbers.get(name, len(numbers))
        if number == MOST_REGIONS:
            raise KernelError(f"region {name}: there are {MOST_REGIONS} already, the most")
        self.regions[number] = name
        return number

    # The program

    def _all_code(self) -> Code:
        return Code([*self.code.items, *(i for part in self._functions for i in part.items)])

    def code_size(self) -> int:
        """Bytes of the code so far, functions too; its labels have their addresses.

        raises    CodeTooLarge if there is not room for it
        """
        size = self._all_code().place(self.code_at.base) - self.code_at.base
        if size > self.code_at.size:
            raise CodeTooLarge(self.name, size, self.code_at.size)
        return size

    def build(self, entry: Label | None = None) -> Program:
        """Return the program; it starts at entry, or else with its first instruction.

        raises    KernelError if an operand does not fit, or data overlap; CodeTooLarge if the code
                  does not fit
        """
        code, base, size = self._all_code(), self.code_at.base, self.code_size()
        text, lines = code.encode(syntax_of(self.isa), base)
        insns = [instruction.insn for instruction in code.instructions]
        start = base if entry is None or entry.address is None else entry.address
        pieces = list(_joined(sorted(self._with_labels())))
        return Program(
            (
                Segment(base, text, size, executable=True, writable=False),
                *(Segment(address, data, len(data)) for address, data in pieces),
            ),
            start,
            (*self._code_symbols(), *self._symbols, *self._parts, *self._values),
            (
                Section(".text", base, size, executable=True),
                *(Section(".data", address, len(data), True) for address, data in pieces),
            ),
            architecture({insn.extension for insn in insns}, self.has_float_registers),
            RVC * any(insn.encoding.size == 2 for insn in insns),
            LineTable(lines),
            self.name,
            regions=dict(self.regions),
        )

    def _with_labels(self) -> Iterator[tuple[int, bytes]]:
        labels = dict(self._label_words)
        for start, data in self._pieces:
            inside = [address for address in labels if start <= address < start + len(data)]
            if not inside:
                yield start, data
                continue
            words = bytearray(data)
            for address in inside:
                value = labels[address].address
                assert value is not None
                words[address - start : address - start + WORD] = value.to_bytes(WORD, "little")
            yield start, bytes(words)

    def _code_symbols(self) -> Iterator[Symbol]:
        for part in (self.code, *self._functions):
            for label in part.labels():
                size = part.size if label.kind == "function" else 0
                assert label.address is not None
                yield Symbol(label.name, label.address, size, label.kind)

    def listing(self) -> str:
        """Address, word and disassembly of all instructions, and the Python that emitted them."""
        return python_listing(self.build(), self.isa)


def python_listing(program: Program, isa: Isa) -> str:
    """The listing of a program that a Kernel has built, with the text of its lines of Python."""
    return re.sub(r"^# (.*):(\d+)$", _with_text, listing(program, isa), flags=re.MULTILINE)


def _with_text(comment: re.Match) -> str:
    source = Source(comment[1], int(comment[2]))
    return f"# {source}: {source.text}"


def _poison(address: int, size: int) -> bytes:
    """Return bytes of poison for an address: its words are aligned as those of memory."""
    first = address % len(POISON)
    if not first and not size % len(POISON):
        return POISON * (size // len(POISON))  # of megabytes one copy, not two
    return (POISON * (size // len(POISON) + 2))[first : first + size]


def _joined(pieces: list[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yield neighbours in memory as one piece, with zeros in gaps of less than 16 bytes.

    raises    KernelError if two overlap
    """
    run: list[tuple[int, bytes]] = []
    for piece in pieces:
        gap = piece[0] - run[-1][0] - len(run[-1][1]) if run else 0
        if gap < 0:
            raise KernelError(
                f"data at {piece[0]:#010x} would begin inside the {len(run[-1][1])} bytes at "
                f"{run[-1][0]:#010x}; put into each address once"
            )
        if gap >= 16:
            yield run[0][0], _filled(run)
            run = []
        run.append(piece)
    if run:
        yield run[0][0], _filled(run)


def _filled(run: list[tuple[int, bytes]]) -> bytes:
    gaps = [bytes(b[0] - a[0] - len(a[1])) for a, b in pairwise(run)]
    parts = zip((data for _, data in run), (*gaps, b""), strict=True)
    return b"".join(chain.from_iterable(parts))
