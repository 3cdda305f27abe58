"""Assembler: GNU's syntax, for every instruction of an instruction set.

Instructions come out as written: 16-bit ones where the source says `c.` and never otherwise; `la`,
`call` and `tail` are always two instructions; a branch that does not reach is an error.

Sources: GNU as manual; RISC-V assembly programmer's manual.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path

from isa.assembler.directives import DIRECTIVES
from isa.assembler.disasm import disassemble, listing
from isa.assembler.expression import AsmError, Expression, Value
from isa.assembler.layout import Label, Layout
from isa.assembler.names import has_float_registers
from isa.assembler.source import BLOCKS, Expander, Statement, located, split_arguments, statements
from isa.assembler.syntax import Form, Mismatch, Read, syntax_of
from isa.declare import Isa
from isa.elf.attributes import RVC, architecture
from isa.program import LineRange, LineTable, Program, Section, Segment, Symbol
from isa.words import sext

__all__ = ["AsmError", "assemble", "assemble_file", "disassemble", "listing"]

TEXT_BASE = 0x1C008000  # L2 after the fabric controller's vectors
LARGEST_SOURCE = 16 << 20  # characters

# Pseudo-instructions of several instructions, by mnemonic and number of operands
SEQUENCES = {
    ("la", 2): ("auipc {0}, %pcrel_hi({1})", "addi {0}, {0}, %pcrel_lo(. - 4)"),
    ("call", 1): ("auipc ra, %pcrel_hi({0})", "jalr ra, %pcrel_lo(. - 4)(ra)"),
    ("tail", 1): ("auipc t1, %pcrel_hi({0})", "jalr zero, %pcrel_lo(. - 4)(t1)"),
    **{
        (load, 2): ("auipc {0}, %pcrel_hi({1})", load + " {0}, %pcrel_lo(. - 4)({0})")
        for load in ("lb", "lbu", "lh", "lhu", "lw")
    },
    **{
        (store, 3): ("auipc {2}, %pcrel_hi({1})", store + " {0}, %pcrel_lo(. - 4)({2})")
        for store in ("sb", "sh", "sw")
    },
}
SEQUENCES["lla", 2] = SEQUENCES["la", 2]


def assemble(
    text: str,
    isa: Isa,
    *,
    text_base: int = TEXT_BASE,
    data_base: int | None = None,
    bases: Mapping[str, int] | None = None,
    source: str = "source",
) -> Program:
    """Assemble a source text.

    text_base    address of .text and of other sections that are not written
    data_base    address of .data and of other sections that are; None: after the former
    bases        addresses of further sections by name
    source       its name, for messages and as the source of lines

    The program starts at symbol _start, or else at the beginning of .text.

    raises    AsmError, a line for each mistake: source line, text, rule and way out. What labels
              are worth is looked at once all statements are right
    """
    return _Assembler(isa, source).run(text, text_base, data_base, bases or {})


def assemble_file(
    path: str | Path, isa: Isa, *, text_base: int = TEXT_BASE, data_base: int | None = None
) -> Program:
    """Assemble a source file.

    raises    AsmError if it cannot be read or assembled
    """
    try:
        with Path(path).open(encoding="utf-8", errors="replace") as file:
            text = file.read(LARGEST_SOURCE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise AsmError(f"{path}: cannot be read: {reason}") from None
    if len(text) > LARGEST_SOURCE:
        raise AsmError(f"{path}: more than {LARGEST_SOURCE} characters, the most of a source")
    return assemble(text, isa, text_base=text_base, data_base=data_base, source=str(path))


class _Assembler:
    """One run of the assembler."""

    def __init__(self, isa: Isa, source: str) -> None:
        self.source = source
        self.syntax = syntax_of(isa)
        self.has_float_registers = has_float_registers(isa)
        self.layout = Layout()
        self.used: set[str] = set()  # extensions
        self.is_compressed = False
        self.auipcs: list[tuple[Value, Expression]] = []  # where, what its %pcrel_hi is of
        self.targets: dict[int, Expression] = {}  # the same by address
        self.lines: list[tuple[Value, int, str, int]] = []  # where, bytes, file, line

    def run(
        self, text: str, text_base: int, data_base: int | None, bases: Mapping[str, int]
    ) -> Program:
        layout, mistakes = self.layout, list[str]()
        try:
            for statement in Expander(self.source, layout.number).expand(
                statements(text, self.source)
            ):
                layout.statement = statement
                with self._collecting(mistakes, statement):
                    self._statement(statement)
        except AsmError as error:  # of a macro, or of what is no statement: the rest is unknown
            mistakes.append(str(error))
        _raise(mistakes)
        try:
            layout.place(text_base, data_base, bases)
        except AsmError as error:
            raise AsmError(f"{self.source}: {error}") from None
        self.targets = {layout.address(where): expression for where, expression in self.auipcs}
        for pending in layout.pending:
            if not pending.part.is_loaded:
                continue
            with self._collecting(mistakes, pending.statement):
                data = pending.compute(pending.part.base + pending.offset)
                pending.part.data[pending.offset : pending.offset + len(data)] = data
        _raise(mistakes)
        return self._program()

    @contextmanager
    def _collecting(self, mistakes: list[str], statement: Statement) -> Iterator[None]:
        """Add the mistake of a statement, if it has one, to the others."""
        try:
            yield
        except AsmError as error:
            mistakes.append(str(located(self.source, statement, error)))

    def _statement(self, statement: Statement) -> None:
        for label in statement.labels:
            self.layout.define(label)
        word, arguments = statement.word, statement.arguments
        if word in DIRECTIVES:
            DIRECTIVES[word](self.layout, split_arguments(arguments))
        elif word and not word.startswith(".cfi_"):
            self._instruction(word, arguments)

    def _instruction(self, word: str, arguments: str) -> None:
        if word == "li" and self._load_long(split_arguments(arguments)):
            return
        forms = self.syntax.by_mnemonic.get(word, [])
        tokens = self.layout.tokens(arguments)
        problem = None
        for form in forms:
            try:
                self._emit(form, self.syntax.read(form, tokens))
            except Mismatch:
                continue
            except AsmError as error:
                problem = problem or error
                continue
            return
        operands = split_arguments(arguments)
        if (word, len(operands)) in SEQUENCES and problem is None:
            for template in SEQUENCES[word, len(operands)]:
                self._instruction(*template.format(*operands).split(None, 1))
            return
        raise problem or AsmError(self._complaint(word, forms))

    def _complaint(self, word: str, forms: list[Form]) -> str:
        syntaxes = dict.fromkeys(form.text for form in forms)
        if syntaxes:
            return f"operands do not fit; write {' or '.join(syntaxes)}"
        counts = [count for name, count in SEQUENCES if name == word]
        if counts:
            return f"{word} takes {counts[0]} operands"
        what = "directive" if word.startswith(".") else "instruction"
        known = [*DIRECTIVES, *BLOCKS] if word.startswith(".") else self._mnemonics()
        close = get_close_matches(word[:40], known, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"unknown {what} {word[:40]}{hint}"

    def _mnemonics(self) -> list[str]:
        return [*self.syntax.by_mnemonic, *(name for name, _ in SEQUENCES), "li"]

    def _load_long(self, operands: list[str]) -> bool:
        """Load a number that does not fit one addi by lui and, if need be, addi: like GNU as."""
        if len(operands) != 2:
            raise AsmError("write li rd, number")
        register, value = operands[0], self.layout.number(operands[1])
        if not -(1 << 31) <= value < 1 << 32:
            raise AsmError(f"{value} does not fit 32 bits")
        high, low = (value + 0x800 & 0xFFFFFFFF) >> 12, sext(value & 0xFFF, 12)
        if high:
            self._instruction("lui", f"{register}, {high}")
            if low:
                self._instruction("addi", f"{register}, {register}, {low}")
        return high != 0

    def _emit(self, form: Form, values: dict[str, Read]) -> None:
        layout, size = self.layout, form.insn.encoding.size
        if layout.part.size % 2:
            raise AsmError("an instruction at an odd address; put .balign 2 before it")
        here = layout.here()
        for value in values.values():
            if isinstance(value, Expression) and (target := value.high_part_of):
                self.auipcs.append((here, target))

        def compute(address: int) -> bytes:
            numbers = {
                name: value if isinstance(value, int) else self._evaluate(value, address)
                for name, value in values.items()
            }
            return self.syntax.encode(form, numbers, address).to_bytes(size, "little")

        layout.later(size, compute)
        self.used.add(form.insn.extension)
        self.is_compressed |= size == 2
        line = layout.line or (self.source, layout.statement.line)
        self.lines.append((here, size, *line))

    def _evaluate(self, expression: Expression, address: int) -> int:
        def modify(name: str, value: Value) -> int:
            number = value.number
            if name == "%pcrel_lo":
                if number not in self.targets:
                    raise AsmError(f"%pcrel_lo: no instruction with %pcrel_hi at 0x{number:x}")
                number = self._evaluate(self.targets[number], number) - number
            elif name == "%pcrel_hi":
                number -= address
            if name.endswith("lo"):
                return sext(number & 0xFFF, 12)
            return (number + 0x800 & 0xFFFFFFFF) >> 12

        return expression.evaluate(lambda token: self.layout.lookup(token, address), modify).number

    def _program(self) -> Program:
        layout = self.layout
        parts = sorted((p for p in layout.loaded if p.size), key=lambda part: part.base)
        for a, b in pairwise(parts):
            if a.base + a.size > b.base:
                raise AsmError(f"{self.source}: sections {a.name} and {b.name} overlap")
        start = layout.labels.get("_start", Label(Value(".text", 0), None))
        entry = layout.address(start.value)
        if not any(p.executable and 0 <= entry - p.base < p.size for p in parts):
            raise AsmError(f"{self.source}: no code at the entry, 0x{entry:08x}")
        lines = [
            LineRange(address, address + size, file, line)
            for where, size, file, line in self.lines
            for address in [layout.address(where)]
        ]
        return Program(
            tuple(
                Segment(p.base, bytes(p.data), p.size, True, p.writable, p.executable)
                for p in parts
            ),
            entry,
            tuple(self._symbols()),
            tuple(
                Section(p.name, p.base, p.size, p.writable, p.executable, p.is_zero) for p in parts
            ),
            architecture(self.used, self.has_float_registers),
            RVC * self.is_compressed,
            LineTable(lines),
            self.source,
        )

    def _symbols(self) -> Iterator[Symbol]:
        """Labels, but not local ones (`1:`, `.L3:`)."""
        layout = self.layout
        for name, (value, _) in layout.labels.items():
            is_local = "#" in name or name.startswith(".L")
            if not is_local and value.section and layout.parts[value.section].is_loaded:
                yield Symbol(
                    name,
                    layout.address(value),
                    layout.sizes.get(name, 0),
                    layout.kinds.get(name, "label"),
                    name in layout.globals,
                )


def _raise(mistakes: list[str]) -> None:
    if mistakes:
        raise AsmError("\n".join(dict.fromkeys(mistakes)))  # a sequence has one several times
