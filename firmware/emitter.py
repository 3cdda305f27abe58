"""The emitter: registers and instructions of an instruction set as Python objects and calls."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from functools import cache, partial
from keyword import iskeyword
from typing import Any

from firmware.code import Code, Half, Instruction, Item, Label, Value, caller
from firmware.compress import compressed
from firmware.list_schedule import scheduled
from firmware.registers import KernelError, Register, Registers
from isa.assembler.names import has_float_registers
from isa.assembler.syntax import Form, Operand, syntax_of
from isa.declare import Isa
from isa.extensions.docs import page

WORD = 4  # bytes
Argument = Register | Label | Half | int


class _Pattern:
    """A form of an instruction, with the words already made from it.

    operands      what is written
    names         of their fields
    has_target    does its word depend on where it lies?
    known         operands and word of those made before, by the arguments they were made from
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.operands = [part for part in form.parts if isinstance(part, Operand)]
        self.names = [operand.field.name for operand in self.operands]
        self.has_target = any(operand.kind == "target" for operand in self.operands)
        self.known: dict[tuple[Argument, ...], tuple[dict[str, Value], int]] = {}


class Method(partial):
    """An instruction as a method of an emitter; its docstring is the reference page."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return method_page(*self.args)


def method_page(name: str, patterns: Sequence[_Pattern]) -> str:
    """How a method is called, then the reference page of its instruction."""
    form = patterns[0].form
    called = dict.fromkeys(
        f"k.{name}({', '.join(o.field.name for o in pattern.operands)})" for pattern in patterns
    )
    stands = f"\n\n{form.text}: a pseudo-instruction, stands for" if form.is_alias else ""
    return f"{' or '.join(called)}{stands}\n\n{page(form.insn)}"


class Emitter:
    """Appends instructions to code, one method each.

        k.p_lw(rd, 4, rs1)        p.lw rd, 4(rs1!)
        k.beqz(rs1, label)        pseudo-instructions of one instruction too

    A method is named by its instruction's key in isa/, a pseudo-instruction by its mnemonic with
    `_` for `.`; it takes operands in the order of the syntax: registers, numbers, labels. Values
    are as an assembler reads them; a rounding mode may be left out.
    """

    def __init__(self, isa: Isa, name: str) -> None:
        self.isa, self.name = isa, name
        self.has_float_registers = has_float_registers(isa)
        self.float_file = "f" if self.has_float_registers else "x"
        self.code = Code()
        self.registers = Registers()
        self.is_compressing = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        patterns = {} if name.startswith("_") else _patterns(self.isa)
        if name not in patterns:
            near = get_close_matches(name, patterns, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise AttributeError(f"{self.isa.name} has no instruction {name}{hint}")
        return Method(self._emit_by_order, name, patterns[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_patterns(self.isa)]

    # Registers

    def x(self, *shape: int) -> Any:
        """Take an x register; with a shape, lists of them: x(2, 3) is two lists of three.

        raises    KernelError if none is left
        """
        return self._shaped("x", shape)

    def f(self, *shape: int) -> Any:
        """Take registers for floats: f registers, or x registers where floats live there.

        raises    KernelError if none is left
        """
        return self._shaped(self.float_file, shape)

    def short(self, count: int) -> list[Register]:
        """Take x registers, those first that 16-bit loads and stores can name.

        raises    KernelError if there are not as many
        """
        near = self.registers.free("short x")[:count]
        self.registers.hold(*near)
        return near + self.registers.take("x", count - len(near), self.name)

    def saved(self, *shape: int) -> Any:
        """Take an x register that survives calls, or lists of them.

        raises    KernelError if none is left
        """
        return self._shaped("saved x", shape)

    def scope(self) -> AbstractContextManager[None]:
        """Give back at the end what registers are taken inside."""
        return self.registers.scope()

    def free(self, *registers: Register) -> None:
        """Give back registers before their scope ends: what they hold is not needed any more."""
        self.registers.release(*registers)

    def _shaped(self, pool: str, shape: Sequence[int]) -> Any:
        if not shape:
            return self.registers.take(pool, 1, self.name)[0]
        if len(shape) == 1:
            return self.registers.take(pool, shape[0], self.name)
        return [self._shaped(pool, shape[1:]) for _ in range(shape[0])]

    # Labels

    def label(self, name: str = "") -> Label:
        """A label to place later."""
        return Label(name, caller())

    def place(self, label: Label) -> Label:
        """Let a label stand for the next instruction.

        raises    KernelError if it stands somewhere already
        """
        if label.is_placed:
            raise KernelError(f"{label} is placed twice")
        label.is_placed = True
        self.code.items.append(label)
        return label

    def here(self, name: str = "") -> Label:
        """A label for the next instruction."""
        return self.place(self.label(name))

    # Instructions

    @contextmanager
    def compressing(self) -> Iterator[None]:
        """Emit 16-bit instructions where there are any, but for jumps, and not for CV32E40P.

        So more of the code is in caches; CV32E40P has none of them in hardware loops.
        """
        before, self.is_compressing = self.is_compressing, self.isa.loop_end == "last"
        yield
        self.is_compressing = before

    @contextmanager
    def compact(self, is_wanted: bool = True) -> Iterator[None]:
        """Emit 16-bit instructions, if that is wanted; what follows begins with a word.

        It is for code that runs seldom: what is around it keeps its timing.
        """
        if not is_wanted:
            yield
            return
        with self.compressing():
            yield
            if self.code.size % WORD:
                self.nop()

    @contextmanager
    def scheduled(self) -> Iterator[None]:
        """Order what is emitted inside so that no instruction waits where another is ready.

        See firmware.list_schedule for what stays where it is.
        """
        start = len(self.code.items)
        yield
        self.code.items[start:], _ = scheduled(self.isa, self.code.items[start:])

    def by_field(self, keys: Sequence[str], **fields: Argument) -> None:
        """Emit the first of these instructions that exists here, operands by field name.

        raises    KernelError if none exists or an operand does not fit
        """
        self.code.items.append(self.made(keys, **fields))

    def made(self, keys: Sequence[str], **fields: Argument) -> Instruction:
        """The instruction that by_field would emit."""
        key = next((key for key in keys if key in self.isa), None)
        if key is None:
            raise KernelError(f"{self.isa.name} has none of {', '.join(keys)}")
        pattern = _patterns(self.isa)[key][0]
        return self._made(key, pattern, tuple([fields[name] for name in pattern.names]))

    def _emit_by_order(self, name: str, patterns: list[_Pattern], *arguments: Argument) -> None:
        for pattern in patterns:
            if len(pattern.operands) == len(arguments):
                self.code.items.append(self._made(name, pattern, arguments))
                return
        syntaxes = " or ".join(dict.fromkeys(pattern.form.text for pattern in patterns))
        raise KernelError(f"{name}: {len(arguments)} operands are given; write {syntaxes}")

    def _made(self, name: str, pattern: _Pattern, arguments: tuple[Argument, ...]) -> Instruction:
        try:
            known = pattern.known.get(arguments)
        except TypeError:  # one has no hash: it is refused below
            known = None
        if known:
            instruction = Instruction(pattern.form, known[0], caller(), known[1])
            return self._shortest(instruction) if self.is_compressing else instruction
        pairs = zip(pattern.operands, arguments, strict=True)
        values = [self._value(name, *pair) for pair in pairs]
        operands = dict(zip(pattern.names, values, strict=True))
        instruction = Instruction(pattern.form, operands, caller())
        if pattern.has_target or not all(isinstance(value, int) for value in values):
            return instruction
        instruction.word = instruction.encode(syntax_of(self.isa), 0)
        pattern.known[arguments] = operands, instruction.word
        return self._shortest(instruction) if self.is_compressing else instruction

    def _shortest(self, instruction: Instruction) -> Instruction:
        """Return the 16-bit form of an instruction, or itself if there is none."""
        assert instruction.word is not None
        short = _shorter(self.isa, instruction.word)
        return Instruction(*short[:2], instruction.source, short[2]) if short else instruction

    def _value(self, name: str, operand: Operand, argument: Argument) -> Value:
        kind = operand.kind
        if kind in ("x", "f"):
            file = "x" if kind == "x" else self.float_file
            if isinstance(argument, Register) and argument.file == file:
                return argument.number
            raise KernelError(
                f"{name}: {operand.field.name} is {argument!r}; it takes an {file} register"
            )
        if isinstance(argument, Label) and kind != "target" or isinstance(argument, Register):
            what = "a label" if kind == "target" else "a number"
            raise KernelError(f"{name}: {operand.field.name} is {argument!r}; it takes {what}")
        return argument

    def append(self, item: Item) -> None:
        """Add an instruction made before."""
        self.code.items.append(item)


@cache
def _patterns(isa: Isa) -> dict[str, list[_Pattern]]:
    """Return the forms by a method's name: an instruction's own, then pseudo-instructions."""
    patterns: dict[str, list[_Pattern]] = {}
    for is_alias in (False, True):
        for key, group in syntax_of(isa).by_key.items():
            for form in group:
                if form.is_alias == is_alias:
                    name = _name(form) if is_alias else key
                    patterns.setdefault(name, []).append(_Pattern(form))
    return patterns


@cache
def _shorter(isa: Isa, word: int) -> tuple[Form, dict[str, Value], int] | None:
    """Return the 16-bit equivalent of a word as form, operands and word, if there is one."""
    meant = isa.decode(word)
    assert meant
    short = compressed(isa, meant.insn, dict(meant.operands))
    if short is None or meant.size == 2:
        return None
    form = syntax_of(isa).by_key[short[0].key][0]
    return form, {**short[1]}, syntax_of(isa).encode(form, short[1], 0)


def _name(form: Form) -> str:
    name = form.mnemonic.replace(".", "_")
    return f"{name}_" if iskeyword(name) else name
