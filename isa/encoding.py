"""Encodings: a row of the manual's listing -> mask, match and fields.

    Encoding("imm[12|10:5] rs2 rs1 100 imm[4:1|11] 1100011")

reads as the listing does, most significant bit first. A token is one of

    0110011      fixed bits
    ---          bits that the hardware ignores
    rs1          a field of known width: x registers rd rs1 rs2 rs3, float registers fd fs1 fs2 fs3
                 (5 bits each), csr (12), rm (3), L (1, hardware loop), Is2 and Is3 (5, XPULP)
    rd'          a 3-bit register field of a compressed instruction, which names registers 8..15
    imm[12|10:5] these bits of a field, which may be spread over several tokens
    rd!={0,2}    a field that must not have these values: they mean something else or are reserved

Names decide signedness: fields that begin with `imm` or `nzimm` are signed, all others unsigned.
`nz` fields are never zero, and `rm` is never 5 or 6, the reserved rounding modes.

Source: RISC-V unprivileged manual, "RV32/64G Instruction Set Listings" and "RVC Instruction Set
Listings".
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

X_REGISTERS = ("rd", "rs1", "rs2", "rs3")
F_REGISTERS = ("fd", "fs1", "fs2", "fs3")
WIDTHS = dict.fromkeys(X_REGISTERS + F_REGISTERS, 5) | {
    "csr": 12,
    "rm": 3,
    "L": 1,
    "Is2": 5,
    "Is3": 5,
}
KINDS = (
    dict.fromkeys(X_REGISTERS, "x")
    | dict.fromkeys(F_REGISTERS, "f")
    | {
        "csr": "csr",
        "rm": "rm",
    }
)
RESERVED_ROUNDING_MODES = (5, 6)

TOKEN = re.compile(
    r"(?P<name>[A-Za-z]\w*)(?P<prime>'?)(?:\[(?P<bits>[\d:|]+)\])?(?:!=(?P<excluded>\d+|\{[\d,]+\}))?"
)


@dataclass(frozen=True)
class Field:
    """One operand of an encoding, in one or more pieces of the instruction word."""

    name: str
    pieces: tuple[
        tuple[int, int, int], ...
    ]  # (lowest bit in the word, width, lowest bit in the value)
    kind: str  # "x" or "f": a register number; "csr"; "rm"; "int"
    signed: bool
    base: int = 0  # 8 for the registers of compressed instructions: value = base + field
    excluded: tuple[int, ...] = ()

    @cached_property
    def step(self) -> int:
        """Distance between values: 2 for branch offsets, whose bit 0 is not stored."""
        return 1 << min(shift for _, _, shift in self.pieces)

    @cached_property
    def width(self) -> int:
        """Bits of the value, counted from bit 0."""
        return max(width + shift for _, width, shift in self.pieces)

    @cached_property
    def range(self) -> tuple[int, int]:
        """Smallest and largest representable value."""
        if self.signed:
            return -(1 << (self.width - 1)), (1 << (self.width - 1)) - self.step
        return self.base, self.base + (1 << self.width) - self.step

    def extract(self, word: int) -> int:
        """Read the value out of an instruction word."""
        value = self.base
        for low, width, shift in self.pieces:
            value |= (word >> low & (1 << width) - 1) << shift
        if self.signed and value >> self.width - 1:
            value -= 1 << self.width
        return value

    def insert(self, value: int) -> int:
        """Return the bits of the instruction word that hold value.

        raises    ValueError if the field cannot hold it
        """
        low, high = self.range
        if not low <= value <= high or value % self.step or value in self.excluded:
            raise ValueError(f"{self.name}: {value} is not {self._rule()}")
        word = 0
        for position, width, shift in self.pieces:
            word |= (value - self.base >> shift & (1 << width) - 1) << position
        return word

    def _rule(self) -> str:
        low, high = self.range
        rule = (
            f"a multiple of {self.step} from {low} to {high}"
            if self.step > 1
            else f"from {low} to {high}"
        )
        if self.excluded:
            rule += " other than " + " and ".join(map(str, self.excluded))
        return rule


class Encoding:
    """Mask, match and fields of one row of the listing.

    mask      bits that identify the instruction
    match     their values: a word w is this instruction if w & mask == match and no field has an
              excluded value
    size      bytes, 2 or 4
    fields    name -> Field, in the order of the row
    columns   (token, highest bit, lowest bit) of each token of the row

    raises    ValueError if the row is not 16 or 32 bits, or has a token that cannot be read or a
              field with missing or repeated bits
    """

    __slots__ = ("columns", "fields", "mask", "match", "size", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._read()
        except ValueError as error:
            raise ValueError(f"encoding {text!r}: {error}") from None

    def _read(self) -> None:
        self.mask = self.match = 0
        found: dict[str, tuple[tuple[_Token, int], ...]] = {}
        columns = []
        position = 0
        for token in reversed(self.text.split()):
            low = position
            if not token.strip("01"):
                self.match |= int(token, 2) << position
                self.mask |= (1 << len(token)) - 1 << position
                position += len(token)
            elif not token.strip("-"):
                position += len(token)
            else:
                read = _read_token(token)
                # after all others: reversed, the order of the row
                found[read.name] = (*found.pop(read.name, ()), (read, position))
                position += read.size
            columns.append((token, position - 1, low))
        if position not in (16, 32):
            raise ValueError(f"{position} bits; an instruction has 16 or 32")
        opcode = 0x7F if position == 32 else 3
        if self.mask & opcode != opcode or (self.match & 3 == 3) != (position == 32):
            rule = "32 bits end in a 7-bit opcode and that in 11, 16 bits in 00, 01 or 10"
            raise ValueError(rule)
        self.size = position // 8
        self.columns = tuple(reversed(columns))
        self.fields = {name: _field(tokens) for name, tokens in reversed(found.items())}

    def __repr__(self) -> str:
        return f"Encoding({self.text!r})"

    def matches(self, word: int) -> bool:
        """Is word this instruction?"""
        if word & self.mask != self.match:
            return False
        return all(
            field.extract(word) not in field.excluded
            for field in self.fields.values()
            if field.excluded
        )

    def operands(self, word: int) -> dict[str, int]:
        """Read every field out of an instruction word."""
        return {name: field.extract(word) for name, field in self.fields.items()}

    def encode(self, **operands: int) -> int:
        """Return the instruction word with these operands.

        raises    ValueError if one is missing, unknown or out of range
        """
        for name in operands:
            if name not in self.fields:
                raise ValueError(f"{name}: not an operand; there are {self._names()}")
        word = self.match
        for name, field in self.fields.items():
            if name not in operands:
                raise ValueError(f"{name}: missing operand; there are {self._names()}")
            word |= field.insert(operands[name])
        return word

    def _names(self) -> str:
        return ", ".join(self.fields) or "none"


class _Token(NamedTuple):
    """One token of an encoding: the bits that it contributes to its field.

    pieces    as in Field, but counted from the token's lowest bit
    size      bits of the token
    """

    name: str
    pieces: tuple[tuple[int, int, int], ...]
    base: int
    excluded: tuple[int, ...]
    size: int


@cache
def _read_token(token: str) -> _Token:
    """Parse a token of an encoding. Raises ValueError if it is none."""
    parts = TOKEN.fullmatch(token)
    if parts is None or (parts["bits"] is None and parts["name"] not in WIDTHS):
        forms = "bits, name, name[high:low] or name!=value"
        raise ValueError(f"cannot read {token!r}; write {forms}")
    excluded = parts["excluded"].strip("{}").split(",") if parts["excluded"] else ()
    width = 3 if parts["prime"] else WIDTHS.get(parts["name"], 0)
    pieces = []
    size = 0
    for bits in reversed((parts["bits"] or f"{width - 1}:0").split("|")):
        high, _, low = bits.partition(":")
        shift = int(low or high)
        pieces.append((size, int(high) - shift + 1, shift))
        size += int(high) - shift + 1
    base = 8 if parts["prime"] else 0
    return _Token(parts["name"], tuple(pieces), base, tuple(map(int, excluded)), size)


@cache
def _field(tokens: tuple[tuple[_Token, int], ...]) -> Field:
    """Return the field that the tokens at these positions make, counted from the right.

    raises    ValueError if bits are missing or there twice
    """
    name, _, base, _, _ = tokens[0][0]
    pieces = [
        (position + low, width, shift)
        for token, position in tokens
        for low, width, shift in token.pieces
    ]
    covered = sorted(bit for _, width, shift in pieces for bit in range(shift, shift + width))
    if not covered or covered != list(range(covered[0], covered[0] + len(covered))):
        rule = "each bit from the lowest to the highest, once"
        raise ValueError(f"bits {covered} of {name} are not {rule}")
    excluded = tuple(value for token, _ in tokens for value in token.excluded)
    if name.startswith("nz"):
        excluded += (0,)
    if name == "rm":
        excluded += RESERVED_ROUNDING_MODES
    signed = name.startswith(("imm", "nzimm"))
    kind = KINDS.get(name, "int")
    return Field(name, tuple(reversed(pieces)), kind, signed, base, excluded)
