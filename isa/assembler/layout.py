"""Sections, symbols and unresolved values of a program under assembly.

First, statements add bytes to sections, while the sections' addresses are not known: labels are
offsets. Then place() gives the sections their addresses, and what waits for these is computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from isa.assembler.expression import AsmError, Expression, Parser, Token, Value, tokenize
from isa.assembler.source import Statement

MOST_BYTES = 16 << 20  # bytes of all sections that have bytes
MOST_ZEROS = 1 << 30  # bytes of all sections that have none
MOST_PENDING = 1 << 18  # instructions, and values that depend on addresses
NOP, C_NOP = 0x00000013, 0x0001


@dataclass
class Section:
    """A section under assembly."""

    name: str
    writable: bool = False
    executable: bool = False
    is_zero: bool = False  # has a size but no bytes
    is_loaded: bool = True  # becomes a part of the program; debug information does not
    data: bytearray = field(default_factory=bytearray)
    zeros: int = 0
    alignment: int = 4
    base: int = 0

    @property
    def size(self) -> int:
        """Bytes so far: the offset of what comes next."""
        return self.zeros if self.is_zero else len(self.data)


class Label(NamedTuple):
    """A symbol's value."""

    value: Value
    statement: Statement | None  # that defines it; None: may be set again


class Pending(NamedTuple):
    """Bytes of a section that are known once addresses are: compute(address) returns them."""

    part: Section
    offset: int
    statement: Statement
    compute: Callable[[int], bytes]


class Layout:
    """A program under assembly."""

    def __init__(self) -> None:
        self.parts = {
            ".text": Section(".text", executable=True),
            ".data": Section(".data", writable=True),
            ".bss": Section(".bss", writable=True, is_zero=True),
        }
        self.part = self.parts[".text"]
        self.previous = self.part
        self.labels: dict[str, Label] = {}
        self.globals: set[str] = set()
        self.kinds: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        self.numeric: dict[str, int] = {}
        self.pending: list[Pending] = []
        self.bytes = self.zeros = 0  # in all sections
        self.statement = Statement(0, "")
        self.files: dict[str, str] = {}  # of a compiler's source lines, by their numbers
        self.line: tuple[str, int] | None = None  # the compiler's source line

    # Statements

    def select(self, part: Section) -> None:
        """Continue in a section: the one of this name begun before, or else this new one."""
        self.previous = self.part
        self.part = self.parts.setdefault(part.name, part)

    @property
    def loaded(self) -> list[Section]:
        """Sections that become a part of the program."""
        return [part for part in self.parts.values() if part.is_loaded]

    def here(self) -> Value:
        """The current location."""
        return Value(self.part.name, self.part.size)

    def define(self, name: str) -> None:
        """Give the current location a name; a number may name several."""
        if name.isdigit():
            self.numeric[name] = self.numeric.get(name, 0) + 1
            name = _numbered(name, self.numeric[name])
        if name in self.labels:
            before = self.labels[name].statement
            where = f" in line {before.line}" if before else ""
            raise AsmError(f"label {name} is already defined{where}")
        self.labels[name] = Label(self.here(), self.statement)

    def assign(self, name: str, value: Value) -> None:
        """Give a symbol a value; not one that is a label."""
        if name in self.labels and self.labels[name].statement is not None:
            raise AsmError(f"{name} is a label")
        self.labels[name] = Label(value, None)

    def append(self, data: bytes) -> None:
        """Add bytes to the section."""
        part = self.part
        if part.is_zero and any(data):
            raise AsmError(f"{part.name} holds zeros only; use .zero, or .data")
        if part.is_zero:
            self.skip(len(data))
            return
        self.bytes += len(data)
        if self.bytes > MOST_BYTES:
            raise AsmError(f"more than {MOST_BYTES} bytes")
        part.data += data

    def skip(self, count: int, fill: int = 0) -> None:
        """Add count bytes of one value."""
        if count < 0:
            raise AsmError(f"cannot skip {count} bytes")
        if not self.part.is_zero or fill:
            if count > MOST_BYTES:
                raise AsmError(f"more than {MOST_BYTES} bytes")
            self.append(bytes([fill & 0xFF]) * count)
            return
        self.zeros += count
        if self.zeros > MOST_ZEROS:
            raise AsmError(f"more than {MOST_ZEROS} bytes of zeros")
        self.part.zeros += count

    def align(self, alignment: int, fill: int | None = None, most: int | None = None) -> None:
        """Skip to a multiple of alignment, a power of two; with no-operations in code."""
        if alignment <= 0 or alignment & alignment - 1 or alignment > MOST_BYTES:
            raise AsmError(
                f"an alignment of {alignment} bytes; it is a power of two up to {MOST_BYTES}"
            )
        gap = -self.part.size % alignment
        if most is not None and gap > most:
            return
        self.part.alignment = max(self.part.alignment, alignment)
        if self.part.executable and fill is None:
            nops = bytes(gap % 2) + C_NOP.to_bytes(2, "little") * (gap % 4 // 2)
            self.append(nops + NOP.to_bytes(4, "little") * (gap // 4))
        else:
            self.skip(gap, fill or 0)

    def later(self, size: int, compute: Callable[[int], bytes]) -> None:
        """Add size bytes that compute(address) will return when addresses are known."""
        if self.part.is_zero:
            raise AsmError(f"{self.part.name} holds zeros only; use .zero, or .data")
        if len(self.pending) == MOST_PENDING:
            raise AsmError(f"more than {MOST_PENDING} instructions and values of symbols")
        self.pending.append(Pending(self.part, self.part.size, self.statement, compute))
        self.append(bytes(size))

    def tokens(self, text: str) -> list[Token]:
        """Tokens of a text, local labels replaced by the labels that they mean at this place."""
        return [
            Token("name", self._meant(token.text)) if token.kind == "local" else token
            for token in tokenize(text)
        ]

    def _meant(self, local: str) -> str:
        number = local[:-1]
        return _numbered(number, self.numeric.get(number, 0) + (local[-1] == "f"))

    def expression(self, text: str) -> Expression:
        """Parse a whole text as one expression."""
        parser = Parser(self.tokens(text))
        expression = parser.expression()
        rest = parser.peek()
        if rest is not None:
            raise AsmError(f"{rest.text!r} does not continue an expression")
        return expression

    def value(self, text: str) -> Value:
        """The value of an expression at this point, from what is defined so far."""
        return self.expression(text).evaluate(self._lookup)

    def number(self, text: str) -> int:
        """The value of an expression at this point, which must be a number."""
        value = self.value(text)
        if value.section is not None:
            raise AsmError(f"{text} is an address, which is not known yet; a number is needed here")
        return value.number

    def _lookup(self, token: Token) -> Value:
        if token.text == ".":
            return self.here()
        if token.text not in self.labels:
            raise AsmError(f"{_shown(token.text)} is not defined yet, but its value is needed here")
        return self.labels[token.text].value

    # Addresses

    def place(self, text_base: int, data_base: int | None, bases: Mapping[str, int]) -> None:
        """Give the sections their addresses; each is aligned as its contents ask.

        bases        sections with an address of their own, by name
        text_base    where the other sections that are not written follow each other
        data_base    where those follow that are, sections of zeros last; None: after the former
        """
        free = [part for part in self.loaded if part.name not in bases]
        writable = sorted((p for p in free if p.writable), key=lambda part: part.is_zero)
        end = _place_all([part for part in free if not part.writable], text_base)
        _place_all(writable, end if data_base is None else data_base)
        for part in self.loaded:
            if part.name in bases:
                _place_all([part], bases[part.name])

    def address(self, value: Value) -> int:
        """A value as a number, now that sections have addresses."""
        return value.number + (self.parts[value.section].base if value.section is not None else 0)

    def lookup(self, token: Token, here: int) -> Value:
        """The value of a symbol, now that sections have addresses; `.` is here."""
        if token.text == ".":
            return Value(None, here)
        if token.text not in self.labels:
            raise AsmError(f"{_shown(token.text)} is not defined{self._suggestion(token.text)}")
        return Value(None, self.address(self.labels[token.text].value))

    def _suggestion(self, name: str) -> str:
        close = get_close_matches(
            name[:40], [known for known in self.labels if "#" not in known], 1
        )
        return f"; did you mean {close[0]}?" if close else ""


def _numbered(number: str, count: int) -> str:
    """Return the name of the count-th label of a number; no name in a source has this form."""
    return f"{number}#{count}"


def _shown(name: str) -> str:
    return f"local label {name.partition('#')[0]}" if "#" in name else name


def _place_all(parts: list[Section], base: int) -> int:
    """Place sections one after the other; return where the last one ends."""
    for part in parts:
        part.base = base + -base % part.alignment
        base = part.base + part.size
        if part.base < 0 or base > 1 << 32:
            raise AsmError(
                f"section {part.name} (address 0x{part.base:08x}, {part.size} bytes) "
                "is not within 32-bit addresses"
            )
    return base
