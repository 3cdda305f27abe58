"""Rows of normalisations in halves, two at a time, where a row has one gamma.

Mean, factors and what is added are rounded; what the rounded mean leaves is part of what is added.
A result is so within some units in the last place of its largest term.

FP16 has a narrow range. Its rows are computed by pairs where no number on the way can leave that
range, in single precision elsewhere; a few instructions a row decide. An element is no further from
the mean than sqrt(n) standard deviations of a row of n. What gradients subtract is scaled by a
power of two: it is less than what it is subtracted from, and would lose its digits first.
"""

from collections.abc import Callable, Sequence
from math import inf, sqrt

from firmware.builder import NE, Register
from firmware.lanes import Lane, Lanes, constant, pattern
from firmware.registers import ZERO
from trainlib.elementwise.activations import clip_pairs
from trainlib.primitive.element import F16, Element
from trainlib.reduction.row_reduction import Rows

NARROW = F16
LEAST, MOST = 2.0**-14, 2.0**15
"""Of a factor in FP16: the least number with all its digits, and one that twice of is finite."""
NEAR_ZERO = 16.0
"""A mean that no number of FP16 is too far from: less than half a step beyond the largest."""
SCALED = 2.0**14
"""What the largest term of a scaled slope stays below: so the sum of two is below MOST."""
SMALLEST = 2.0**-24
"""Of FP16, more than 0: what a slope's scale may be undone by."""


class Pairs:
    """The rows of a normalisation whose elements lie together.

    count        elements that a mean is of
    relu         is y = max(0, y)? dy then counts where y is above 0
    is_frozen    are mean and variance others than the rows' own?
    """

    def __init__(self, rows: Rows, count: int, *, relu: bool, is_frozen: bool) -> None:
        self.k, self.rows, self.count = rows.k, rows, count
        self.relu, self.is_frozen = relu, is_frozen

    @property
    def element(self) -> Element:
        """Type of the halves."""
        fields = self.rows.fields
        return (fields.get("x") or fields["dy"]).element

    @property
    def is_narrow(self) -> bool:
        """Has the type a narrower range than single precision?"""
        return self.element == NARROW

    def apply(
        self,
        mean: Register,
        rstd: Register,
        factor: Register,
        beta: Register,
        single: Callable[[], None],
    ) -> None:
        """y = (x - mean) factor + beta, or 0 where that is less and there is a ReLU.

        rstd      of the elements that mean is of; lost, as the others may be
        single    emits the same in single precision
        """
        near, start = self._around(mean, factor, beta)

        def pairs() -> None:
            self._round_twice(near, factor, start)
            self.rows.sweep_pairs(["x"], ["y"], self._applied(near, factor, start))

        if not self.is_narrow:
            pairs()
            return
        fits = self._is_near(mean, rstd)
        self._and_between(fits, factor, LEAST, MOST)
        self._and_between(fits, start, 0.0, MOST)
        own, others = (near, start), (mean, rstd, beta)
        self._either(fits, pairs, single, own=own, others=others)

    def _applied(self, mean: Register, factor: Register, start: Register) -> Callable:
        def body(v: Lanes, x: Lane) -> list[Lane]:
            y = v.x()
            self._of(v, "vfsub")(x, x, mean)
            v.mv(y, start)
            self._of(v, "vfmac")(y, x, factor)
            if self.relu:
                clip_pairs(v, y)
            return [y]

        return body

    def slope(
        self,
        mean: Register,
        rstd: Register,
        factor: Register,
        products: Register,
        sums: Register,
        single: Callable[[], None],
    ) -> None:
        """dx = dy factor + (x - mean) products + sums; registers as those of apply."""
        near, start = self._around(mean, products, sums)
        names = ["x", "dy", *self._masking]
        if not self.is_narrow:
            self._round_twice(near, factor, products, start)
            body = self._sloped(near, factor, products, start)
            self.rows.sweep_pairs(names, ["dx"], body)
            return
        k = self.k
        fits, scale = self._is_near(mean, rstd), k.x()
        self._and_between(fits, factor, LEAST, MOST)
        self._largest(scale, rstd, products, start)
        self._and_between(fits, scale, 0.0, SCALED)

        def pairs() -> None:
            self._scale(scale, products, start)
            self._round_twice(near, factor, products, start, scale)
            body = self._sloped(near, factor, products, start, scale)
            self.rows.sweep_pairs(names, ["dx"], body)

        own, others = (near, start, scale), (mean, rstd, sums)
        self._either(fits, pairs, single, own=own, others=others)

    def _sloped(
        self,
        mean: Register,
        factor: Register,
        products: Register,
        start: Register,
        *undone: Register,
    ) -> Callable:
        """undone    what makes of the scaled sum of two terms what it is, if that is scaled"""

        def body(v: Lanes, x: Lane, dy: Lane, *y: Lane) -> list[Lane]:
            dx = v.x()
            self._of(v, "vfsub")(x, x, mean)
            v.mv(dx, start)
            self._of(v, "vfmac")(dx, x, products)  # what it waits for is done meanwhile: the mask
            self._mask(v, dy, y)
            for scale in undone:
                self._of(v, "vfmul")(dx, dx, scale)
            self._of(v, "vfmac")(dx, dy, factor)
            return [dx]

        return body

    def frozen_slope(self, factor: Register, single: Callable[[], None]) -> None:
        """dx = dy factor."""

        def body(v: Lanes, dy: Lane, *y: Lane) -> list[Lane]:
            self._mask(v, dy, y)
            self._of(v, "vfmul")(dy, dy, factor)
            return [dy]

        def pairs() -> None:
            self._round_twice(factor)
            self.rows.sweep_pairs(["dy", *self._masking], ["dx"], body)

        if not self.is_narrow:
            pairs()
            return
        fits = self.k.x()
        self.k.li(fits, 1)
        self._and_between(fits, factor, LEAST, MOST)
        self._either(fits, pairs, single)

    # What a row has once

    def _around(self, mean: Register, factor: Register, added: Register) -> list[Register]:
        """The nearest half of the mean, in single precision; added + (that - mean) factor.

        In new registers, if mean and added are still needed.
        """
        k = self.k
        near, start = k.x(2) if self.is_narrow else (mean, added)
        with k.scope():
            left, rounded = k.x(2)
            self.element.narrow(k, rounded, mean)
            self.element.widen(k, [rounded])
            k.fsub_s(left, rounded, mean)
            k.fmadd_s(start, left, factor, added)
            k.mv(near, rounded)
        return [near, start]

    def _round_twice(self, *values: Register) -> None:
        """Let registers have the nearest half twice."""
        for value in values:
            self.element.narrow(self.k, value, value)
            self.k.p_insert(value, value, 15, 16)

    def _mask(self, v: Lanes, dy: Lane, y: Sequence[Lane]) -> None:
        """dy = 0 where y, which is lost, is not above 0; without y it stays."""
        for keeps in y:
            v.pv_cmpgt_h(keeps, keeps, ZERO)
            v.and_(dy, dy, keeps)

    @property
    def _masking(self) -> list[str]:
        """What says whether dy counts."""
        return ["y"] if self.relu else []

    def _of(self, v: Lanes, operation: str) -> Callable[..., None]:
        return getattr(v, f"{operation}_{self.element.letter}")

    # Whether a row stays in range

    def _is_near(self, mean: Register, rstd: Register) -> Register:
        """1 if x - mean is finite for certain, else 0, in a new register."""
        fits = self.k.x()
        self.k.li(fits, 1)
        if self.is_frozen:
            self._and_between(fits, mean, 0.0, NEAR_ZERO)
        else:
            self._and_between(fits, rstd, sqrt(self.count) / MOST, inf)
        return fits

    def _and_between(self, fits: Register, value: Register, low: float, high: float) -> None:
        """fits = 0 unless low <= |value| < high; NaN is not."""
        k = self.k
        with k.scope():
            t, limit = k.x(2)
            k.p_bclr(t, value, 0, 31)
            if low:
                k.li(limit, pattern(low))
                k.sub(t, t, limit)
            k.li(limit, _bits(high) - pattern(low))
            k.sltu(t, t, limit)
            k.and_(fits, fits, t)

    def _largest(self, most: Register, rstd: Register, products: Register, start: Register) -> None:
        """most = the largest of |products| and of the terms that slopes have of it and of start."""
        k = self.k
        with k.scope():
            t, root = k.x(), constant(k, sqrt(self.count))
            k.p_bclr(most, products, 0, 31)
            k.fdiv_s(t, root, rstd)
            k.fmul_s(t, t, most)
            k.p_max(most, most, t)
            k.p_bclr(t, start, 0, 31)
            k.p_max(most, most, t)

    def _scale(self, scale: Register, *values: Register) -> None:
        """Multiply values by a power of two; scale, their largest, becomes what undoes that."""
        k, lowest = self.k, pattern(SCALED / 2 * SMALLEST)
        with k.scope():
            up, t = k.x(2)
            k.li(t, lowest)
            k.p_max(scale, scale, t)
            k.p_bclr(scale, scale, 22, 0)  # a power of two
            k.li(t, pattern(SCALED / 2) - pattern(1.0))
            k.sub(scale, scale, t)
            k.li(up, 2 * pattern(1.0))
            k.sub(up, up, scale)
            for value in values:
                k.fmul_s(value, value, up)

    def _either(
        self,
        fits: Register,
        pairs: Callable[[], None],
        single: Callable[[], None],
        *,
        own: Sequence[Register] = (),
        others: Sequence[Register] = (),
    ) -> None:
        """Compute by pairs if it fits, else in single precision.

        own, others    registers that pairs alone need, and that single precision alone does
        """
        k = self.k
        with k.if_(NE, fits, ZERO):
            k.free(fits, *others)
            pairs()
            k.free(*own)
            k.registers.hold(*others)
        with k.else_():
            single()


def _bits(value: float) -> int:
    """The bits of a float32, of infinity too."""
    return 0x7F800000 if value == inf else pattern(value)
