"""The console of the platform, as emitted code: characters, texts, numbers.

Lines of harts that print at once come out whole.

console = Console(k)
console.text("x = ")
console.float(x)
console.text("\n")
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firmware.builder import EQ, GEU, LT, NE, Kernel, Label, Register
from firmware.forms import WORD
from firmware.platform import CORE_NUMBER, address_of
from firmware.registers import SP, ZERO, A
from isa.assembler.names import CSRS

DECIMALS = 5  # after the point of a float
HALF = 1342  # half of the last one of them, in units of 2^-28
FRACTION = 28  # bits after the point of a decimal mantissa
TENTH = 0xCCCCCCCD  # 0.8 = 8 / 10, in units of 2^-32
TEN = 0xA0000000  # 0.625 = 10 / 16
BIAS = 127 + 31  # the exponent of a 32-bit mantissa, less that of the format


class Console:
    """The console. Functions are emitted when they are first called.

    Its methods are calls: temporary registers are lost. A character's is none.
    """

    def __init__(self, k: Kernel) -> None:
        self.k = k
        self._functions: dict[Callable[[], Label], Label] = {}
        self._texts: dict[str, int] = {}

    def character(self, char: int | Register) -> None:
        """Print one character."""
        k = self.k
        with k.scope():
            base = self._base()
            if isinstance(char, Register):
                k.sb(char, 0, base)
            else:
                value = k.x()
                k.li(value, char)
                k.sb(value, 0, base)

    def text(self, text: str) -> None:
        """Print a text, as UTF-8."""
        if text not in self._texts:
            contents = text.encode() + b"\0"
            self._texts[text] = self.k.data(f"text_{len(self._texts)}", contents, align=1)
        self.k.call(self._function(self._print_text), self._texts[text])

    def number(self, value: int | Register) -> None:
        """Print an unsigned number in decimal."""
        self.k.call(self._function(self._print_number), value)

    def signed(self, value: int | Register) -> None:
        """Print a signed number in decimal."""
        self.k.call(self._function(self._print_signed), value)

    def hexadecimal(self, value: int | Register) -> None:
        """Print eight hexadecimal digits."""
        self.k.call(self._function(self._print_hexadecimal), value)

    def float(self, bits: int | Register) -> None:
        """Print a float of which an x register holds the bits: 1.23457e-01, inf, nan.

        Five decimals, of which the last one may be one off where two are as near.
        """
        self.k.call(self._function(self._print_float), bits)

    def _function(self, emit: Callable[[], Label]) -> Label:
        if emit not in self._functions:
            self._functions[emit] = emit()
        return self._functions[emit]

    def _base(self) -> Register:
        """Take a register for where this hart's characters go: each hart has lines of its own."""
        k = self.k
        base = k.x()
        with k.scope():
            core = k.x()
            k.csrr(base, CSRS["mhartid"])
            k.andi(core, base, CORE_NUMBER)
            k.add(base, base, core)
            k.slli(base, base, 2)  # cluster << 7 | core << 3
            k.li(core, address_of("stdout", "PUT"))
            k.add(base, base, core)
        return base

    def _print_text(self) -> Label:
        """Emit print_text(a0: address of characters, the last one 0)."""
        k = self.k
        with k.function("print_text", arguments=1) as function:
            base, char = self._base(), k.x()
            again, done = k.here(), k.label()
            k.lbu(char, 0, A[0])
            k.addi(A[0], A[0], 1)
            k.beqz(char, done)
            k.sb(char, 0, base)
            k.j(again)
            k.place(done)
        return function

    def _print_number(self) -> Label:
        """Emit print_number(a0): digits go to the stack, last one first, and out from there."""
        k = self.k
        with k.function("print_number", arguments=1) as function:
            base = self._base()
            ten, digit, end, position = k.x(4)
            k.li(ten, 10)
            k.mv(position, SP)
            k.mv(end, SP)
            more = k.here()
            k.remu(digit, A[0], ten)
            k.divu(A[0], A[0], ten)
            k.addi(digit, digit, ord("0"))
            k.addi(position, position, -WORD)
            k.sw(digit, 0, position)
            k.bnez(A[0], more)
            again = k.here()
            k.lw(digit, 0, position)
            k.addi(position, position, WORD)
            k.sb(digit, 0, base)
            k.bltu(position, end, again)
        return function

    def _print_signed(self) -> Label:
        """Emit print_signed(a0): a minus sign if it is negative, then its absolute value."""
        k, number = self.k, self._function(self._print_number)
        with k.function("print_signed", arguments=1) as function:
            with k.if_(LT, A[0], ZERO):
                self.character(ord("-"))
                k.sub(A[0], ZERO, A[0])
            k.call(number, A[0])
        return function

    def _print_hexadecimal(self) -> Label:
        """Emit print_hexadecimal(a0): eight digits, the highest one first."""
        k = self.k
        with k.function("print_hexadecimal", arguments=1) as function:
            base = self._base()
            digit, ten, left = k.x(3)
            k.li(ten, 10)
            k.li(left, 8)
            with k.loop(left):
                k.srli(digit, A[0], 28)
                k.slli(A[0], A[0], 4)
                with k.if_(GEU, digit, ten):
                    k.addi(digit, digit, ord("a") - ord("0") - 10)
                k.addi(digit, digit, ord("0"))
                k.sb(digit, 0, base)
        return function

    def _print_float(self) -> Label:
        """Emit print_float(a0): mantissa * 2^exponent, scaled to [1, 10) times 10^power.

        The mantissa has 32 bits, the highest one set; each step rounds down by 2^-31 at most.
        """
        k, number = self.k, self._function(self._print_number)
        with k.function("print_float", arguments=1) as function:
            mantissa, exponent, power = k.saved(3)
            with k.if_(LT, A[0], ZERO):
                self.character(ord("-"))
            t = k.x()
            k.slli(mantissa, A[0], 9)
            k.srli(mantissa, mantissa, 1)
            k.srli(exponent, A[0], 23)
            k.andi(exponent, exponent, 0xFF)
            k.li(t, 0xFF)
            with k.if_(EQ, exponent, t):
                self._not_finite(mantissa)
                k.return_()
            k.li(power, 0)
            with k.if_(NE, exponent, ZERO):
                k.li(t, 1 << 31)
                k.or_(mantissa, mantissa, t)
            with k.else_():
                k.li(exponent, 1)
            k.addi(exponent, exponent, -BIAS)
            with k.if_(NE, mantissa, ZERO):
                self._scale(mantissa, exponent, power, t)
            k.free(t)
            self._digits(mantissa, power)
            self.character(ord("e"))
            with k.if_(LT, power, ZERO):
                self.character(ord("-"))
                k.sub(power, ZERO, power)
            with k.else_():
                self.character(ord("+"))
            t = k.x()
            k.li(t, 10)
            with k.if_(LT, power, t):
                self.character(ord("0"))
            k.free(t)
            k.mv(A[0], power)
            k.call(number, A[0])
        return function

    def _not_finite(self, mantissa: Register) -> None:
        with self.k.if_(EQ, mantissa, ZERO):
            for char in b"inf":
                self.character(char)
        with self.k.else_():
            for char in b"nan":
                self.character(char)

    def _scale(self, mantissa: Register, exponent: Register, power: Register, t: Register) -> None:
        """Multiply or divide by ten until the value is in [1, 10); then its point is fixed."""
        k = self.k
        self._normalise(mantissa, exponent)
        with self._while_below(exponent, -31, t):
            k.li(t, TEN)
            k.mulhu(mantissa, mantissa, t)
            k.addi(exponent, exponent, 4)
            k.addi(power, power, -1)
            self._normalise(mantissa, exponent)
        again, done, tenth = k.here(), k.label(), k.label()
        k.li(t, -FRACTION)
        k.blt(exponent, t, done)
        k.bne(exponent, t, tenth)
        k.li(t, TEN)
        k.bltu(mantissa, t, done)
        k.place(tenth)
        k.li(t, TENTH)
        k.mulhu(mantissa, mantissa, t)
        k.addi(exponent, exponent, -3)
        k.addi(power, power, 1)
        self._normalise(mantissa, exponent)
        k.j(again)
        k.place(done)
        k.li(t, -FRACTION)
        k.sub(exponent, t, exponent)
        k.srl(mantissa, mantissa, exponent)

    @contextmanager
    def _while_below(self, value: Register, limit: int, t: Register) -> Iterator[None]:
        k = self.k
        again, done = k.here(), k.label()
        k.li(t, limit)
        k.bge(value, t, done)
        yield
        k.j(again)
        k.place(done)

    def _normalise(self, mantissa: Register, exponent: Register) -> None:
        """Shift the highest bit of a mantissa, which is not 0, to the top."""
        k = self.k
        again, done = k.here(), k.label()
        k.blt(mantissa, ZERO, done)
        k.slli(mantissa, mantissa, 1)
        k.addi(exponent, exponent, -1)
        k.j(again)
        k.place(done)

    def _digits(self, mantissa: Register, power: Register) -> None:
        """Print d.ddddd of a mantissa with its point fixed; rounding up to 10 makes it 1."""
        k = self.k
        with k.scope():
            limit, digit, left, ten = k.x(4)
            with k.if_(NE, mantissa, ZERO):
                k.addi(mantissa, mantissa, HALF)
            k.li(limit, TEN)
            with k.if_(GEU, mantissa, limit):
                k.li(mantissa, 1 << FRACTION)
                k.addi(power, power, 1)
            k.li(limit, (1 << FRACTION) - 1)
            base = self._base()
            k.li(ten, 10)
            k.srli(digit, mantissa, FRACTION)
            k.addi(digit, digit, ord("0"))
            k.sb(digit, 0, base)
            k.li(digit, ord("."))
            k.sb(digit, 0, base)
            k.li(left, DECIMALS)
            with k.loop(left):
                k.and_(mantissa, mantissa, limit)
                k.mul(mantissa, mantissa, ten)
                k.srli(digit, mantissa, FRACTION)
                k.addi(digit, digit, ord("0"))
                k.sb(digit, 0, base)
