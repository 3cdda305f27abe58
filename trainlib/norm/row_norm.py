"""What all normalisations have in common, forward and backward: what is computed for a row.

All are y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + eps), with means over different
parts of a tensor: a part is a row of trainlib.reduction.row_reduction. RMS norm has no mean and no
beta. With g = dy gamma and h = (x - mean) rstd,

    dx = rstd (g - mean(g) - h mean(g h)),    dgamma = sum of dy h,    dbeta = sum of dy

The variance is the mean of (x - mean)^2, in a second pass. What the rounded mean leaves, the sum of
x - mean, corrects both: equal elements have no deviation. The mean is subtracted before anything is
multiplied: no digits cancel.

Sources: S. Ioffe, C. Szegedy, Batch Normalization, algorithm 1 and section 3; Y. Wu, K. He, Group
Normalization, section 3.1; B. Zhang, R. Sennrich, Root Mean Square Layer Normalization, section 4;
T. Chan, G. Golub, R. LeVeque, Algorithms for Computing the Sample Variance, the corrected two-pass
algorithm.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from firmware.builder import Register
from firmware.lanes import Lane, Lanes, constant, load_constant
from trainlib.codegen.loop_nest import Body
from trainlib.elementwise.activations import clip
from trainlib.norm.pairs import Pairs
from trainlib.reduction.row_reduction import LONG, Field, Kind, Rows

OF_CHANNELS = ("channel_products", "channel_sums")
"""What each channel of each image has one of: sums of dy h and of dy."""
LONG_BESIDE_RELU = 16 * LONG  # elements of one image; parts take registers that its y needs
LARGEST = float(np.finfo(np.float32).max)

Step = Callable[..., Any]
"""What is done with elements: returns lanes for Rows.sweep, nothing for Rows.reduce."""


@dataclass(frozen=True)
class How:
    """What a normalisation is, beside its axes.

    eps           is added to the variance
    is_centred    has it a mean? RMS norm has none
    is_frozen     are running means used instead of the rows' own?
    momentum      of running means: how much of them is new; None: they stay, or there are none
    count         elements that means are of, where a row has only some of them; None: its own
    relu          is y = max(0, y)? dy then counts where y is above 0
    in_pairs      are y and dx of halves computed two at a time? Whether their elements lie together
                  is the layout's: of a tile they may by chance
    """

    eps: float = 1e-5
    is_centred: bool = True
    is_frozen: bool = False
    momentum: float | None = None
    count: int | None = None
    relu: bool = False
    in_pairs: bool = False


class RowNorm:
    """The rows of a normalisation on the way, and constants that all of them need.

    mean, rstd and the like are registers; a mean of RMS norm is None.
    """

    def __init__(self, rows: Rows, how: How) -> None:
        self.k, self.rows, self.how = rows.k, rows, how
        self.count = how.count or prod(rows.elements)
        self.share = constant(self.k, 1 / self.count)
        self.one = constant(self.k, 1.0)
        self.pairs = Pairs(rows, self.count, relu=how.relu, is_frozen=how.is_frozen)

    # Forward

    def sum(self) -> Register:
        """The sum of x, in one part: `deviations` find what it has lost."""

        def add(v: Lanes, total: Lane, x: Lane) -> None:
            v.fadd_s(total, total, x)

        [total] = self.rows.reduce(["x"], add, ["sum"])
        return total

    def deviations(self, mean: Register | None) -> list[Register]:
        """The sums of (x - mean)^2, and of x - mean; of x^2 alone if there is no mean."""
        if mean is None:

            def square(v: Lanes, squares: Lane, x: Lane) -> None:
                v.fmadd_s(squares, x, x, squares)

            return self.rows.reduce(["x"], square, ["sum"], longest=LONG)

        def deviate(v: Lanes, squares: Lane, rest: Lane, x: Lane) -> None:
            v.fsub_s(x, x, mean)
            v.fadd_s(rest, rest, x)
            v.fmadd_s(squares, x, x, squares)

        return self.rows.reduce(["x"], deviate, ["sum", "sum"], longest=LONG)

    def variance(self, mean: Register | None, squares: Register, *rest: Register) -> None:
        """Make a variance of the sum of (x - mean)^2; correct the mean by the sum of x - mean."""
        k = self.k
        self.average(squares)
        for left in rest:
            assert mean is not None
            self.average(left)
            with k.scope():
                largest = constant(k, LARGEST)
                k.fmin_s(left, left, largest)  # not NaN: an infinite mean stays so
                k.fadd_s(mean, mean, left)
                k.fmul_s(left, left, left)
                k.fmin_s(left, left, largest)  # infinite squares stay so
            self._take_off(squares, left)

    def shifted_means(self) -> tuple[Register, Register]:
        """Mean and variance in one pass over halves, of distances from the row's first element.

        Halves have so few digits that what cancels in single precision is less than what their
        own rounding has left; the first element keeps it so beside a mean that is far from 0.
        """
        first = self.rows.load("x")

        def add(v: Lanes, squares: Lane, total: Lane, x: Lane) -> None:
            v.fsub_s(x, x, first)
            v.fadd_s(total, total, x)
            v.fmadd_s(squares, x, x, squares)

        squares, total = self.rows.reduce(["x"], add, ["sum", "sum"])
        k = self.k
        self.average(squares)
        self.average(total)
        k.fadd_s(first, first, total)
        k.fmul_s(total, total, total)
        if not self.pairs.is_narrow:
            with k.scope():
                k.fmin_s(total, total, constant(k, LARGEST))  # infinite squares stay so
        self._take_off(squares, total)
        return first, squares

    def _take_off(self, squares: Register, left: Register) -> None:
        """squares -= left, which may be rounded to less than 0; NaN stays."""
        self.k.fsub_s(squares, squares, left)
        self.k.fsgnjx_s(squares, squares, squares)

    def average(self, total: Register) -> None:
        """Make a mean of a sum."""
        self.k.fmul_s(total, total, self.share)

    def invert_root(self, variance: Register) -> None:
        """variance = 1 / sqrt(variance + eps)."""
        k = self.k
        with k.scope():
            eps = constant(k, self.how.eps)
            k.fadd_s(variance, variance, eps)
        k.fsqrt_s(variance, variance)
        k.fdiv_s(variance, self.one, variance)

    def run_on(self, mean: Register | None, variance: Register) -> None:
        """running = (1 - momentum) running + momentum new; of variances, the unbiased ones."""
        if self.how.momentum is None:
            return
        k, count, momentum = self.k, self.count, self.how.momentum
        unbiased = momentum * count / (count - 1) if count > 1 else inf
        for name, new, adds in (("mean", mean, momentum), ("var", variance, unbiased)):
            with self.rows.once(), k.scope():
                old, keeps, part = self.rows.load(f"running_{name}"), k.f(), k.f()
                load_constant(k, keeps, 1 - momentum)
                load_constant(k, part, adds)
                k.fmul_s(old, old, keeps)
                k.fmadd_s(old, new, part, old)
                self.rows.store(f"running_{name}", old)

    def load_mean(self) -> Register | None:
        """The mean, in a new register."""
        return self.rows.load("mean") if self.how.is_centred else None

    def load_means(self) -> tuple[Register | None, Register]:
        """mean and rstd, in new registers."""
        if not self.how.is_frozen:
            return self.load_mean(), self.rows.load("rstd")
        mean, rstd = self.rows.load("running_mean"), self.rows.load("running_var")
        self.invert_root(rstd)
        return mean, rstd

    def apply(self, mean: Register | None, rstd: Register) -> None:
        """y = (x - mean) rstd gamma + beta, or 0 where that is less and there is a ReLU."""
        if not any(self.rows.fields["gamma"].elements):
            self._apply_row(mean, rstd)
            return

        def scale(v: Lanes, x: Lane, gamma: Lane, beta: Lane) -> list[Lane]:
            v.fsub_s(x, x, mean)
            v.fmul_s(x, x, rstd)
            v.fmadd_s(x, x, gamma, beta)
            self._clip(v, x)
            return [x]

        def scale_only(v: Lanes, x: Lane, gamma: Lane) -> list[Lane]:
            v.fmul_s(x, x, rstd)
            v.fmul_s(x, x, gamma)
            return [x]

        if mean is not None:
            self.rows.sweep(["x", "gamma", "beta"], ["y"], scale)
        else:
            self.rows.sweep(["x", "gamma"], ["y"], scale_only)

    def _apply_row(self, mean: Register | None, rstd: Register) -> None:
        """The same where a row has one gamma."""
        assert mean is not None
        k = self.k
        gamma, beta = self.rows.load("gamma"), self.rows.load("beta")
        k.fmul_s(gamma, gamma, rstd)

        def scale(v: Lanes, x: Lane) -> list[Lane]:
            v.fsub_s(x, x, mean)
            v.fmadd_s(x, x, gamma, beta)
            self._clip(v, x)
            return [x]

        def single() -> None:
            self.rows.sweep(["x"], ["y"], scale)

        if self.how.in_pairs:
            self.pairs.apply(mean, rstd, gamma, beta, single)
        else:
            single()

    @property
    def is_shifted(self) -> bool:
        """Are means found in one pass, of distances from a row's first element? Of halves."""
        return self.how.is_centred and self._elements.element.is_half

    @property
    def _is_of_one_image(self) -> bool:
        """Have rows one dimension?"""
        return sum(count > 1 for count in self.rows.elements) == 1

    @property
    def _elements(self) -> Field:
        """x, or what is like it."""
        return self.rows.fields.get("x") or self.rows.fields["dy"]

    def _clip(self, v: Lanes, y: Lane) -> None:
        """y = max(0, y), if there is a ReLU."""
        if self.how.relu:
            clip(v, y)

    @property
    def _mask(self) -> tuple[str, str] | None:
        """dy counts where y is above 0, if there is a ReLU."""
        return ("dy", "y") if self.how.relu else None

    # Backward, where a row has one gamma

    def sums(self, mean: Register | None, rstd: Register) -> tuple[Register, Register]:
        """Sums of dy h and of dy."""
        assert mean is not None

        def step(v: Lanes, sums: Lane, products: Lane, x: Lane, dy: Lane) -> None:
            v.fsub_s(x, x, mean)
            v.fadd_s(sums, sums, dy)
            v.fmadd_s(products, x, dy, products)

        kinds: list[Kind] = ["sum", "sum"]
        longest = LONG_BESIDE_RELU if self.how.relu and self._is_of_one_image else LONG
        how: Any = {"mask": self._mask, "longest": longest}
        sums, products = self.rows.reduce(["x", "dy"], step, kinds, **how)
        self.k.fmul_s(products, products, rstd)
        return products, sums

    def factor(self, rstd: Register) -> Register:
        """gamma rstd, in a new register."""
        factor = self.rows.load("gamma")
        self.k.fmul_s(factor, factor, rstd)
        return factor

    def frozen_slope(self, factor: Register) -> None:
        """dx = factor dy."""

        def body(v: Lanes, dy: Lane) -> list[Lane]:
            v.fmul_s(dy, dy, factor)
            return [dy]

        def single() -> None:
            self.rows.sweep(["dy"], ["dx"], body, mask=self._mask)

        if self.how.in_pairs:
            self.pairs.frozen_slope(factor, single)
        else:
            single()

    def slope(
        self,
        mean: Register | None,
        rstd: Register,
        factor: Register,
        products: Register,
        sums: Register,
    ) -> None:
        """dx, given sums of dy h and of dy, which become what x - mean is multiplied by, and what
        is added.
        """
        k = self.k
        assert mean is not None
        for total in (products, sums):
            k.fmul_s(total, total, self.share)
            k.fmul_s(total, total, factor)
            k.fsgnjn_s(total, total, total)
        k.fmul_s(products, products, rstd)

        def single() -> None:
            self.single_slope(mean, factor, products, sums)

        if self.how.in_pairs:
            self.pairs.slope(mean, rstd, factor, products, sums, single)
        else:
            single()

    def single_slope(
        self, mean: Register | None, factor: Register, products: Register, sums: Register
    ) -> None:
        """dx = factor dy + (x - mean) products + sums, one by one."""

        def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
            v.fsub_s(x, x, mean)
            v.fmadd_s(dy, dy, factor, sums)
            v.fmadd_s(dy, x, products, dy)
            return [dy]

        self.rows.sweep(["x", "dy"], ["dx"], body, mask=self._mask)

    # Backward, where a mean is of channels that have a gamma each

    def sums_of_channels(self) -> list[Register]:
        """Sums of channels' sums, each times its gamma."""

        def weigh(
            v: Lanes, products: Lane, sums: Lane, of_products: Lane, of_sums: Lane, gamma: Lane
        ) -> None:
            v.fmadd_s(products, of_products, gamma, products)
            v.fmadd_s(sums, of_sums, gamma, sums)

        return self.rows.reduce([*OF_CHANNELS, "gamma"], weigh, ["sum", "sum"], longest=LONG)

    def make_terms(self, products: Register, sums: Register) -> None:
        """Make of these what x - mean is multiplied by, and what is added, in dx."""
        k = self.k
        with k.scope():
            rstd = self.rows.load("rstd")
            for total in (products, sums):
                k.fmul_s(total, total, self.share)
                k.fmul_s(total, total, rstd)
                k.fsgnjn_s(total, total, total)
            k.fmul_s(products, products, rstd)

    def sums_of_images(self) -> dict[str, Register]:
        """dgamma and dbeta: sums of channels of all images."""

        def add(v: Lanes, products: Lane, sums: Lane, of_products: Lane, of_sums: Lane) -> None:
            v.fadd_s(products, products, of_products)
            v.fadd_s(sums, sums, of_sums)

        products, sums = self.rows.reduce(OF_CHANNELS, add, ["sum", "sum"], longest=LONG)
        return {"dgamma": products, "dbeta": sums}

    def slope_of_channel(self) -> None:
        """dx, given products and sums: see make_terms."""
        mean, rstd = self.load_means()
        factor = self.factor(rstd)
        self.k.free(rstd)
        self.single_slope(mean, factor, self.rows.load("products"), self.rows.load("sums"))

    # Backward, where elements of a row have their own gamma

    def weighted_sums(self, mean: Register | None) -> list[Register]:
        """Sums of g (x - mean), and of g if there is a mean."""

        def step(v: Lanes, products: Lane, *rest: Any) -> None:
            *sums, x, dy, gamma = rest
            v.fmul_s(dy, dy, gamma)
            if mean is not None:
                v.fsub_s(x, x, mean)
                v.fadd_s(sums[0], sums[0], dy)
            v.fmadd_s(products, x, dy, products)

        kinds: list[Kind] = ["sum"] * (1 + self.how.is_centred)
        how: Any = {"mask": self._mask, "longest": LONG}
        return self.rows.reduce(["x", "dy", "gamma"], step, kinds, **how)

    def weighted_slope(
        self, mean: Register | None, rstd: Register, products: Register, sums: list[Register]
    ) -> None:
        """dx, given sums of g (x - mean) and of g, which become what x - mean is multiplied by, and
        what is added.
        """
        k = self.k
        k.fmul_s(products, products, rstd)
        for total in (products, *sums):
            k.fmul_s(total, total, self.share)
            k.fmul_s(total, total, rstd)
            k.fsgnjn_s(total, total, total)
        k.fmul_s(products, products, rstd)
        body = _weighted(mean, rstd, products, sums)
        self.rows.sweep(["x", "dy", "gamma"], ["dx"], body, mask=self._mask)

    def parameter_sums(self) -> dict[str, Register]:
        """dgamma, and dbeta if there is a mean, where a row is what has the same gamma."""

        def centred(
            v: Lanes, products: Lane, sums: Lane, x: Lane, dy: Lane, rstd: Lane, mean: Lane
        ) -> None:
            v.fsub_s(x, x, mean)
            v.fadd_s(sums, sums, dy)
            v.fmul_s(x, x, rstd)
            v.fmadd_s(products, x, dy, products)

        def plain(v: Lanes, products: Lane, x: Lane, dy: Lane, rstd: Lane) -> None:
            v.fmul_s(x, x, rstd)
            v.fmadd_s(products, x, dy, products)

        sources = ["x", "dy", "rstd"]
        if not self.how.is_centred:
            [products] = self.rows.reduce(sources, plain, ["sum"], longest=LONG)
            return {"dgamma": products}
        sources.append("mean")
        how: Any = {"mask": self._mask, "longest": LONG}
        products, sums = self.rows.reduce(sources, centred, ["sum", "sum"], **how)
        return {"dgamma": products, "dbeta": sums}


def _weighted(
    mean: Register | None, rstd: Register, products: Register, sums: list[Register]
) -> Body:
    """dx = rstd g + (x - mean) products + sums."""

    def body(v: Lanes, x: Lane, dy: Lane, gamma: Lane) -> list[Lane]:
        v.fmul_s(dy, dy, gamma)
        if mean is None:
            v.fmul_s(dy, dy, rstd)
        else:
            v.fsub_s(x, x, mean)
            v.fmadd_s(dy, dy, rstd, sums[0])
        v.fmadd_s(dy, x, products, dy)
        return [dy]

    return body
