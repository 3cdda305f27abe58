"""Rows of normalisations in bfloat16, two halves at a time, where a row has one gamma.

Mean, factors and what is added are rounded; what the rounded mean leaves is part of what is added.
"""

from collections.abc import Sequence

from firmware.builder import Register
from firmware.lanes import Lane, Lanes
from firmware.registers import ZERO
from trainlib.elementwise.activations import clip_pairs
from trainlib.primitive.element import BF16
from trainlib.reduction.row_reduction import Rows


class Pairs:
    """The rows of a normalisation whose elements lie together; registers are lost.

    relu    is y = max(0, y)? dy then counts where y is above 0
    """

    def __init__(self, rows: Rows, *, relu: bool) -> None:
        self.k, self.rows, self.relu = rows.k, rows, relu

    def _round_twice(self, *values: Register) -> None:
        """Let registers have the nearest half twice."""
        for value in values:
            BF16.narrow(self.k, value, value)
            self.k.p_insert(value, value, 15, 16)

    def _round_mean(self, mean: Register, factor: Register, added: Register) -> None:
        """Round the mean, to be subtracted twice; added += (that - mean) factor."""
        k = self.k
        with k.scope():
            left, near = k.x(2)
            k.mv(left, mean)
            self._round_twice(mean)
            k.p_bclr(near, mean, 15, 0)
            k.fsub_s(left, near, left)
            k.fmadd_s(added, left, factor, added)

    def apply(self, mean: Register, factor: Register, beta: Register) -> None:
        """y = (x - mean) factor + beta, or 0 where that is less and there is a ReLU."""
        self._round_mean(mean, factor, beta)
        self._round_twice(factor, beta)

        def body(v: Lanes, x: Lane) -> list[Lane]:
            y = v.x()
            v.vfsub_ah(x, x, mean)
            v.mv(y, beta)
            v.vfmac_ah(y, x, factor)
            if self.relu:
                clip_pairs(v, y)
            return [y]

        self.rows.sweep_pairs(["x"], ["y"], body)

    def _mask(self, v: Lanes, dy: Lane, y: Sequence[Lane]) -> None:
        """dy = 0 where y, which is lost, is not above 0; without y it stays."""
        for keeps in y:
            v.pv_cmpgt_h(keeps, keeps, ZERO)
            v.and_(dy, dy, keeps)

    def slope(self, mean: Register, factor: Register, products: Register, sums: Register) -> None:
        """dx = dy factor + (x - mean) products + sums."""
        self._round_mean(mean, products, sums)
        self._round_twice(factor, products, sums)

        def body(v: Lanes, x: Lane, dy: Lane, *y: Lane) -> list[Lane]:
            dx = v.x()
            v.vfsub_ah(x, x, mean)
            v.mv(dx, sums)
            v.vfmac_ah(dx, x, products)  # what it waits for is done meanwhile, as is the mask
            self._mask(v, dy, y)
            v.vfmac_ah(dx, dy, factor)
            return [dx]

        self.rows.sweep_pairs(["x", "dy", *self._masking], ["dx"], body)

    def frozen_slope(self, factor: Register) -> None:
        """dx = dy factor."""
        self._round_twice(factor)

        def body(v: Lanes, dy: Lane, *y: Lane) -> list[Lane]:
            self._mask(v, dy, y)
            v.vfmul_ah(dy, dy, factor)
            return [dy]

        self.rows.sweep_pairs(["dy", *self._masking], ["dx"], body)

    @property
    def _masking(self) -> list[str]:
        """What says whether dy counts."""
        return ["y"] if self.relu else []
