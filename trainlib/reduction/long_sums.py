"""Long sums: those of their parts, added up.

Each rounding of a sum is as large as the sum allows, and equal elements are all rounded alike: one
chain of n additions may lose n / 4 u. Where even parts are very many, their sum is compensated.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from firmware.builder import Kernel, Register
from firmware.lanes import load_constant
from firmware.registers import SP, ZERO
from trainlib.codegen.compensated import add_both, limit_lost
from trainlib.codegen.loop_nest import SPILLED
from trainlib.primitive.tensor import WORD

Place = Register | int
"""A register, or an offset from the stack pointer."""


class LongSums:
    """Sums side by side, each of its parts.

    count       how many
    corrects    keep what they lose
    spills      they lie on the stack, for want of registers
    """

    def __init__(self, k: Kernel, count: int, *, corrects: bool, spills: bool) -> None:
        self.k, self.spills = k, spills
        self.whole = [self._zero(number) for number in range(count)]
        self.lost = [self._zero(count + number) for number in range(count * corrects)]

    def add(self, totals: Sequence[Sequence[Register]]) -> None:
        """Add a part of each: the sum of some registers, which are zeros then."""
        k = self.k
        for number, total in enumerate(totals):
            for register in total[1:]:
                k.fadd_s(total[0], total[0], register)
                if not self.lost:
                    load_constant(k, register, 0.0)
            with self._held(self.whole[number]) as whole:
                if self.lost:
                    with self._held(self.lost[number]) as lost, k.scope():
                        spare = total[1] if len(total) > 1 else k.f()
                        add_both(k, whole, lost, total[0], spare)
                else:
                    k.fadd_s(whole, whole, total[0])
            for register in total if self.lost else total[:1]:
                load_constant(k, register, 0.0)

    def terms(self, number: int) -> list[Register]:
        """What has to be added to the last part of a sum, in this order; registers to be freed."""
        found = []
        if self.lost:
            lost = self._taken(self.lost[number])
            limit_lost(self.k, lost)
            found.append(lost)
        return [*found, self._taken(self.whole[number])]

    def _zero(self, number: int) -> Place:
        k = self.k
        if self.spills:
            k.sw(ZERO, place := -SPILLED - WORD * number, SP)
            return place
        register = k.f()
        load_constant(k, register, 0.0)
        return register

    @contextmanager
    def _held(self, place: Place) -> Iterator[Register]:
        """A sum that the body changes, in a register."""
        if isinstance(place, Register):
            yield place
            return
        with self.k.scope():
            register = self._taken(place)
            yield register
            self.k.fstore(register, place, SP)

    def _taken(self, place: Place) -> Register:
        """A sum in a register: its own, or a new one."""
        if isinstance(place, Register):
            return place
        register = self.k.f()
        self.k.fload(register, place, SP)
        return register
