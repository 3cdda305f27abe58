"""Syntax: from an instruction's declared syntax string, how its operands are read and printed.

A Form is one way to write an instruction: its own syntax; that without the rounding mode, which is
then dynamic; a pseudo-instruction that stands for it.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from isa.assembler.aliases import ALIASES, SPELLINGS
from isa.assembler.expression import AsmError, Expression, Parser, Token
from isa.assembler.names import (
    DYNAMIC,
    F_NAMES,
    F_NUMBERS,
    FENCE_SETS,
    ROUNDING_MODES,
    X_NAMES,
    X_NUMBERS,
    csr_numbers,
    has_float_registers,
)
from isa.declare import FIXED_REGISTERS, Insn, Isa
from isa.encoding import Field

PART = re.compile(
    r"(?P<pc>pc\+)?(?P<loop>x(?=L\b))?(?P<name>[A-Za-z]\w*)(?:(?P<shift><<|>>)(?P<distance>\d+))?"
    r"|(?P<number>-?\d+)|(?P<mark>[(),!])"
)
SETS = ("pred", "succ")  # fields that hold fence sets
LOOPS = {"x0": 0, "x1": 1}


class Operand(NamedTuple):
    """A field as it is written."""

    field: Field
    kind: str  # "x", "f", "csr", "rm", "set", "loop", "target" (an address) or "int"
    shift: int  # written value = field value >> shift

    def distance(self, value: int) -> int:
        """The written value of a field that is not shifted right, as that of a target."""
        return value << -self.shift


Piece = Operand | str | int  # an operand, a punctuation mark, the number of a fixed register
Read = int | Expression  # what an operand is read as; an expression until symbols are known


class Form(NamedTuple):
    """One way to write an instruction."""

    text: str  # "mv rd, rs1"
    parts: tuple[Piece, ...]
    insn: Insn
    fixed: dict[str, int | str]  # fields that are not written: a value, or a field of equal value

    @property
    def mnemonic(self) -> str:
        """First word."""
        return self.text.split()[0]

    @property
    def is_alias(self) -> bool:
        """Is it a pseudo-instruction, rather than the instruction's own syntax?"""
        return self.text.removesuffix(", rm") != self.insn.syntax.removesuffix(", rm")

    def complete(self, written: dict[str, int]) -> dict[str, int]:
        """All fields of the instruction, from those that are written."""
        return written | {
            name: written[source] if isinstance(source, str) else source
            for name, source in self.fixed.items()
        }

    def fits(self, operands: dict[str, int]) -> bool:
        """Can an instruction with these operands be written so?"""
        return all(
            operands[name] == (operands[source] if isinstance(source, str) else source)
            for name, source in self.fixed.items()
        )


class Mismatch(Exception):
    """These operands are not of this form; another one may fit."""


class Syntax:
    """The syntax of an instruction set: all forms of its instructions.

    by_mnemonic    forms to read, by mnemonic in lower case
    by_key         forms to print, by the instruction's key, the most special one first
    """

    def __init__(self, isa: Isa) -> None:
        self.csrs = csr_numbers(isa)
        self.csr_names = {number: name for name, number in self.csrs.items()}
        f_registers = (F_NUMBERS, F_NAMES) if has_float_registers(isa) else (X_NUMBERS, X_NAMES)
        self.registers = {"x": X_NUMBERS, "f": f_registers[0], "loop": LOOPS}
        self.names = {"x": X_NAMES, "f": f_registers[1], "loop": list(LOOPS)}
        own = [form for insn in (*isa.insns, *isa.compressed) for form in _own_forms(insn)]
        printed = [*self._aliases(isa, ALIASES), *own]
        self.by_mnemonic: dict[str, list[Form]] = {}
        self.by_key: dict[str, list[Form]] = {}
        for form in (*printed, *self._aliases(isa, SPELLINGS)):
            self.by_mnemonic.setdefault(form.mnemonic.lower(), []).append(form)
        for form in printed:
            self.by_key.setdefault(form.insn.key, []).append(form)

    def _aliases(self, isa: Isa, table: dict[str, str]) -> Iterator[Form]:
        for written, meant in table.items():
            for insn in isa.by_name(meant.split()[0]):
                fields, values = list(PART.finditer(insn.syntax)), list(PART.finditer(meant))
                if [part["mark"] for part in fields] == [part["mark"] for part in values]:
                    pairs = zip(fields[1:], values[1:], strict=True)
                    fixed = {
                        field["name"]: self._meaning(value)
                        for field, value in pairs
                        if not field["mark"] and value["name"] != field["name"]
                    }
                    yield Form(
                        written, tuple(_parts(written, insn)), insn, _unwritten(insn) | fixed
                    )

    def _meaning(self, value: re.Match) -> int | str:
        """Return a pseudo-instruction's fixed field: a number, or a field to copy."""
        if value["number"]:
            return int(value["number"])
        return FIXED_REGISTERS.get(value["name"], self.csrs.get(value["name"], value["name"]))

    def read(self, form: Form, tokens: list[Token]) -> dict[str, Read]:
        """Read a statement's operands.

        raises    Mismatch if they are of another form, AsmError if an expression is malformed
        """
        parser = Parser(tokens)
        values: dict[str, Read] = {}
        for part in form.parts:
            if isinstance(part, Operand):
                values[part.field.name] = self._read_operand(part, parser)
            elif isinstance(part, int):
                if self._register("x", parser) != part:
                    raise Mismatch
            elif not parser.accept(part):
                raise Mismatch
        if parser.peek() is not None:
            raise Mismatch
        return values

    def _read_operand(self, operand: Operand, parser: Parser) -> Read:
        kind, token = operand.kind, parser.peek()
        if kind in self.registers:
            return self._register(kind, parser)
        word = token.text if token and token.kind == "name" else ""
        named = {"csr": self.csrs, "rm": ROUNDING_MODES, "set": FENCE_SETS}.get(kind, {})
        if word in named:
            parser.position += 1
            return named[word]
        if kind == "rm" or word in X_NUMBERS and kind != "target":
            raise Mismatch
        if parser.next_is("(") and _is_base(parser.tokens[parser.position + 1 :]):
            return 0  # "(a0)" is "0(a0)"
        return parser.expression()

    def _register(self, kind: str, parser: Parser) -> int:
        token = parser.peek()
        number = self.registers[kind].get(token.text) if token and token.kind == "name" else None
        if number is None:
            raise Mismatch
        parser.position += 1
        return number

    def encode(self, form: Form, written: dict[str, int], pc: int) -> int:
        """Return the word of an instruction at address pc, from what is written.

        raises    AsmError if an operand is out of range
        """
        fields = dict(written)
        for part in form.parts:
            if isinstance(part, Operand):
                fields[part.field.name] = _field_value(part, written[part.field.name], form, pc)
        insn, operands = form.insn, form.complete(fields)
        if insn.constraint is not None and not insn.constraint(operands):
            raise AsmError("these operands are a reserved encoding")
        return insn.encoding.encode(**operands)

    def show(self, form: Form, operands: dict[str, int], pc: int | None = None) -> str:
        """An instruction as text; targets are relative to `.` if its address pc is not known."""
        pieces = []
        for part in form.parts:
            if isinstance(part, Operand):
                pieces.append(self._show_operand(part, operands[part.field.name], pc))
            elif isinstance(part, int):
                pieces.append(X_NAMES[part])
            else:
                pieces.append(", " if part == "," else part)
        return f"{form.mnemonic} {''.join(pieces)}" if pieces else form.mnemonic

    def _show_operand(self, operand: Operand, value: int, pc: int | None) -> str:
        kind = operand.kind
        if kind in self.names:
            return self.names[kind][value]
        if kind == "target":
            distance = operand.distance(value)
            return f".{distance:+d}" if pc is None else f"0x{pc + distance & 0xFFFFFFFF:x}"
        if kind == "csr":
            return self.csr_names.get(value, f"0x{value:x}")
        if kind in ("rm", "set"):
            names = ROUNDING_MODES if kind == "rm" else FENCE_SETS
            return next((name for name, number in names.items() if number == value), str(value))
        if operand.shift > 0:
            return f"0x{(value & 0xFFFFFFFF) >> operand.shift:x}"
        return str(operand.distance(value))


def _parts(text: str, insn: Insn) -> Iterator[Piece]:
    _, _, operands = text.partition(" ")
    for part in PART.finditer(operands):
        name = part["name"]
        if part["mark"]:
            yield part["mark"]
        elif name in FIXED_REGISTERS:
            yield FIXED_REGISTERS[name]
        else:
            field = insn.encoding.fields[name]
            kind = "target" if part["pc"] else "loop" if part["loop"] else field.kind
            distance = int(part["distance"] or 0)
            yield Operand(
                field,
                "set" if name in SETS else kind,
                distance if part["shift"] == ">>" else -distance,
            )


def _unwritten(insn: Insn) -> dict[str, int | str]:
    """Return zeros for the fields that the syntax does not show."""
    return {name: 0 for name in insn.encoding.fields if name not in insn.operand_names}


def _own_forms(insn: Insn) -> Iterator[Form]:
    parts, unwritten = tuple(_parts(insn.syntax, insn)), _unwritten(insn)
    if insn.syntax.endswith(", rm"):
        rounded = unwritten | {"rm": DYNAMIC}
        yield Form(insn.syntax.removesuffix(", rm"), parts[:-2], insn, rounded)
    yield Form(insn.syntax, parts, insn, unwritten)


def _is_base(tokens: list[Token]) -> bool:
    """Do a register and what may follow it in parentheses come next?"""
    return len(tokens) > 1 and tokens[0].text in X_NUMBERS and tokens[1].text in (")", "!")


def _field_value(operand: Operand, value: int, form: Form, pc: int) -> int:
    """Return what a field holds for a written value.

    raises    AsmError if it cannot be held
    """
    field = operand.field
    is_target = operand.kind == "target"
    written = (value - pc + (1 << 31)) % (1 << 32) - (1 << 31) if is_target else value
    held = written << operand.shift if operand.shift >= 0 else written >> -operand.shift
    if field.signed and 1 << 31 <= held < 1 << 32:
        held -= 1 << 32
    low, high = field.range
    is_whole = written % (1 << max(-operand.shift, 0)) == 0 and held % field.step == 0
    if low <= held <= high and is_whole and held not in field.excluded:
        return held
    if is_target:
        raise AsmError(
            f"the target 0x{value & 0xFFFFFFFF:x} is {written} bytes away; "
            f"{form.mnemonic} reaches {_rule(operand)}"
        )
    raise AsmError(f"{field.name}: {value} is not {_rule(operand)}")


def _rule(operand: Operand) -> str:
    """Say in words which values can be written."""
    field, shift = operand.field, operand.shift
    low, high, step = (
        bound >> shift if shift >= 0 else bound << -shift for bound in (*field.range, field.step)
    )
    rule = f"from {low} to {high}"
    if step > 1:
        rule = f"a multiple of {step} {rule}"
    if shift > 0 and field.signed:
        top = 1 << 32 - shift
        rule += f", or 0x{top + low:x} to 0x{top - 1:x}"
    if field.excluded:
        rule += " other than " + " and ".join(str(value) for value in field.excluded)
    return rule


@cache
def syntax_of(isa: Isa) -> Syntax:
    """The forms of an instruction set, made once."""
    return Syntax(isa)
