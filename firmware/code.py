"""Machine code under construction: instructions and labels in order, addresses at the end."""

import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from firmware.registers import KernelError
from isa.assembler.expression import AsmError
from isa.assembler.syntax import Form, Syntax
from isa.declare import Insn
from isa.program import LineRange
from isa.words import sext

ROOT = Path(__file__).parents[1]
BUILDER = {
    "firmware.code",
    "firmware.emitter",
    "firmware.control",
    "firmware.builder",
    "firmware.forms",
    "firmware.lanes",
    "contextlib",
}
COMPRESSED_JUMPS = ("jal", "jalr", "beq", "bne")  # what these expand to


class Source(NamedTuple):
    """A line of Python; files of this project relative to its root."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def text(self) -> str:
        """The line itself, "" where the file is gone."""
        return linecache.getline(str(ROOT / self.file), self.line).strip()


def caller() -> Source:
    """The innermost line of Python that is not the builder's."""
    frame = sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__") in BUILDER:
        frame = frame.f_back
    # Python finds a line by reading all of a function's table of lines: once for each place.
    code, known = _SOURCES.setdefault(id(frame.f_code), (frame.f_code, {}))
    source = known.get(frame.f_lasti)
    if source is None:
        source = known[frame.f_lasti] = Source(_relative(code.co_filename), frame.f_lineno)
    return source


_SOURCES: dict[int, tuple[CodeType, dict[int, Source]]] = {}
"""Lines by a function's code, which lives as long as its key, and the place in it."""


@cache
def _relative(name: str) -> str:
    file = Path(name)
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)


@dataclass(eq=False, repr=False)
class Label:
    """A place in the code. Without a name it is no symbol of the program.

    address    None until the program is built
    """

    name: str
    source: Source
    kind: str = "label"  # "function"; "skip": where code goes on that an if_ skips
    is_placed: bool = False
    address: int | None = None

    def __repr__(self) -> str:
        return f"label {self.name or '(without a name)'} of {self.source}"


class Half(NamedTuple):
    """The upper 20 or the lower 12 bits of a label's address, as lui and addi add them up."""

    label: Label
    is_high: bool


Value = int | Label | Half


@dataclass(eq=False, slots=True)
class Instruction:
    """An instruction: what is written for each operand of its form.

    word    None until it is known; it may depend on where the instruction lies
    """

    form: Form
    operands: dict[str, Value]
    source: Source
    word: int | None = None

    @property
    def insn(self) -> Insn:
        """Its declaration."""
        return self.form.insn

    @property
    def is_jump(self) -> bool:
        """May it change the program counter?"""
        expansion = (self.insn.expands or "").partition(" ")[0]
        return "pc" in self.insn.writes or expansion in COMPRESSED_JUMPS

    def encode(self, syntax: Syntax, pc: int) -> int:
        """Return the word at address pc.

        raises    KernelError if an operand does not fit
        """
        if self.insn.extension == "xcvhwlp" and pc % 4:
            raise KernelError(
                f"{self.source}: {self.form.mnemonic} at {pc:#010x}, which is no multiple of 4; "
                f"let 16-bit instructions come in pairs"
            )
        if self.word is not None:
            return self.word
        try:
            written = {name: _resolved(value) for name, value in self.operands.items()}
            return syntax.encode(self.form, written, pc)
        except (AsmError, ValueError) as error:
            raise KernelError(f"{self.source}: {self.form.text}: {error}") from None


def _resolved(value: Value) -> int:
    if isinstance(value, int):
        return value
    label, half = (value, None) if isinstance(value, Label) else value
    if label.address is None:
        raise AsmError(f"{label} is used but never placed")
    if half is None:
        return label.address
    return (label.address + 0x800 & 0xFFFFFFFF) >> 12 if half else sext(label.address & 0xFFF, 12)


Item = Instruction | Label


@dataclass
class Code:
    """Instructions, and labels where they are placed."""

    items: list[Item] = field(default_factory=list)

    @property
    def instructions(self) -> list[Instruction]:
        """All instructions."""
        return [item for item in self.items if isinstance(item, Instruction)]

    @property
    def size(self) -> int:
        """Bytes."""
        return sum(instruction.insn.encoding.size for instruction in self.instructions)

    def after(self, item: Item) -> list[Instruction]:
        """The instructions after an item."""
        return Code(self.items[self.items.index(item) + 1 :]).instructions

    def size_since(self, item: Item) -> int:
        """Bytes after an item."""
        return sum(instruction.insn.encoding.size for instruction in self.after(item))

    def place(self, base: int) -> int:
        """Give labels their addresses from base on; return the end."""
        address = base
        for item in self.items:
            if isinstance(item, Label):
                item.address = address
            else:
                address += item.insn.encoding.size
        return address

    def encode(self, syntax: Syntax, base: int) -> tuple[bytes, list[LineRange]]:
        """Return the bytes of placed code, and which lines they come from.

        raises    KernelError at the first operand that does not fit
        """
        data = bytearray()
        starts: list[tuple[int, Source]] = []
        for instruction in self.instructions:
            address = base + len(data)
            if not starts or starts[-1][1] != instruction.source:
                starts.append((address, instruction.source))
            size = instruction.insn.encoding.size
            data += instruction.encode(syntax, address).to_bytes(size, "little")
        rows = pairwise([*starts, (base + len(data), None)])
        lines = [LineRange(start, end, *source) for (start, source), (end, _) in rows if source]
        return bytes(data), lines

    def labels(self) -> Iterator[Label]:
        """Placed labels that have a name."""
        return (item for item in self.items if isinstance(item, Label) and item.name)
