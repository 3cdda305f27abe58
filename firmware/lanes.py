"""Lanes: the same instructions on several elements in turn, so that none waits for the one before.

A result of the FPU or of a load is there two cycles after its issue: with two lanes or more, what
depends on it comes late enough.
"""

import struct
from collections.abc import Callable
from functools import partial

from firmware.builder import Kernel, KernelError
from firmware.emitter import Argument
from firmware.registers import ZERO, Register

Lane = list[Register]
"""One register for each lane; where a plain register stands instead, all lanes share it."""


def pattern(value: float) -> int:
    """The bits of a float32.

    raises    KernelError for a number beyond the largest one
    """
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        raise KernelError(f"{value:g} is no float32; the largest is 3.40282e+38") from None


def constant(k: Kernel, value: float) -> Register:
    """A register that holds a float; +0 is x0 where floats live in x registers."""
    if not k.has_float_registers and not pattern(value):
        return ZERO
    register = k.f()
    load_constant(k, register, value)
    return register


def load_constant(k: Kernel, register: Register, value: float) -> None:
    """Load a float."""
    if not k.has_float_registers:
        k.li(register, pattern(value))
        return
    with k.scope():
        word = k.x()
        k.li(word, pattern(value))
        k.fmv_w_x(register, word)


class Lanes:
    """Emits an instruction for each lane.

        v = Lanes(k, 2)
        v.fmul_s(y, x, c)       y[0] = x[0] * c; y[1] = x[1] * c

    An operand is a list with a register for each lane, or a register or number for all of them.
    """

    def __init__(self, k: Kernel, width: int) -> None:
        self.k, self.width = k, width

    def __getattr__(self, name: str) -> Callable[..., None]:
        return partial(self._each, getattr(self.k, name))

    def _each(self, emit: Callable[..., None], *operands: Argument | Lane) -> None:
        for lane in range(self.width):
            emit(*(_of_lane(operand, lane) for operand in operands))

    def f(self) -> Lane:
        """Take a register for a float in each lane."""
        return self.k.f(self.width)

    def x(self) -> Lane:
        """Take an x register for each lane."""
        return self.k.x(self.width)

    def pulp(self, name: str, **fields: Argument | Lane) -> None:
        """An instruction that Xpulp and XCV both have: `minu` is p.minu or cv.minu."""
        for lane in range(self.width):
            of_lane = {field: _of_lane(operand, lane) for field, operand in fields.items()}
            self.k.by_field((f"p_{name}", f"cv_{name}"), **of_lane)

    def words(self, floats: Lane) -> Lane:
        """The bits of floats in x registers: the same ones, or new ones that are moved to."""
        words = self.room(floats)
        if words is not floats:
            self._each(self.k.fmv_x_w, words, floats)
        return words

    def room(self, floats: Lane) -> Lane:
        """Where to make the bits of floats: in the same registers, or in new x registers."""
        return self.x() if self.k.has_float_registers else floats

    def floats(self, target: Lane, words: Lane) -> None:
        """Let floats have the bits in x registers."""
        if self.k.has_float_registers:
            self._each(self.k.fmv_w_x, target, words)
        elif target != words:
            self._each(self.k.mv, target, words)


def _of_lane(operand: Argument | Lane, lane: int) -> Argument:
    return operand[lane] if isinstance(operand, list) else operand
