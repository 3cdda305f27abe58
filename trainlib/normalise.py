"""What all normalisations have in common, forward and backward.

All are y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + eps), with means over different
parts of a tensor: a part is a row of trainlib.rows. RMS norm has no mean and no beta. With
g = dy gamma and h = (x - mean) rstd,

    dx = rstd (g - mean(g) - h mean(g h)),    dgamma = sum of dy h,    dbeta = sum of dy

The variance is the mean of (x - mean)^2, in a second pass: no digits cancel.

Sources: S. Ioffe, C. Szegedy, Batch Normalization, algorithm 1 and section 3; Y. Wu, K. He, Group
Normalization, section 3.1; B. Zhang, R. Sennrich, Root Mean Square Layer Normalization, section 4.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant, load_constant
from firmware.runtime import Team
from trainlib.fill import fill_f32
from trainlib.kernels import Address
from trainlib.maps import fitting
from trainlib.nest import UNROLL, Body
from trainlib.rows import Field, Kind, Rows, Split, split_of

Steps = tuple[tuple[int, ...], tuple[int, ...]]
"""Bytes along the dimensions of rows, and along those of elements."""


MEANS = ("mean", "rstd", "sums", "products")
"""What a part of the tensor has one of."""


@dataclass(frozen=True)
class View:
    """A normalisation's tensors as rows: a mean, or gamma's and beta's gradients, are a row's.

    x             of x, y and their gradients
    gamma         of gamma, beta, their gradients, running means
    means         of mean and rstd
    is_ordered    gradients are summed over all but the first dimension of rows: deal that one out
    whole         elements that means are of, where a row has only some of them; None: its own
    """

    rows: tuple[int, ...]
    elements: tuple[int, ...]
    x: Steps
    gamma: Steps
    means: Steps
    is_ordered: bool = False
    whole: int | None = None

    @property
    def count(self) -> int:
        """Elements that means are of."""
        return prod(self.elements) if self.whole is None else self.whole

    def field(self, name: str, address: Address) -> Field:
        """The tensor of that name."""
        if name in ("x", "y", "dx", "dy"):
            return Field(address, *self.x)
        return Field(address, *(self.means if name in MEANS else self.gamma))


@dataclass(frozen=True)
class How:
    """What all normalisations can be told.

    eps         is added to the variance
    is_centred  has it a mean? RMS norm has none
    """

    eps: float = 1e-5
    is_centred: bool = True
    split: Split = "auto"
    unroll: int = UNROLL


class RowNorm:
    """The rows of a normalisation on the way, and what all of them need."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        view: View,
        at: Mapping[str, Address],
        how: How,
        reductions: int,
    ) -> None:
        self.k, self.view, self.how = k, view, how
        fields = {
            name: view.field(name, address) for name, address in at.items() if name != "partials"
        }
        split = split_of(how.split, prod(view.rows), prod(view.elements), reductions, team.cores)
        partials = at.get("partials", 0)
        self.rows = Rows(
            *(k, team, view.rows, view.elements, fields, partials, split),
            unroll=how.unroll,
            is_ordered=view.is_ordered,
        )
        self.share = constant(k, 1 / view.count)
        self.one = constant(k, 1.0)

    def mean(self) -> Register:
        [total] = self.rows.reduce(["x"], add, ["sum"])
        self.k.fmul_s(total, total, self.share)
        return total

    def squares(self, mean: Register | None) -> Register:
        """The sum of (x - mean)^2."""

        def square(v: Lanes, total: Lane, x: Lane) -> None:
            if mean is not None:
                v.fsub_s(x, x, mean)
            v.fmadd_s(total, x, x, total)

        [total] = self.rows.reduce(["x"], square, ["sum"])
        return total

    def variance(self, mean: Register | None) -> Register:
        total = self.squares(mean)
        self.k.fmul_s(total, total, self.share)
        return total

    def invert_root(self, variance: Register) -> None:
        """variance = 1 / sqrt(variance + eps)."""
        k = self.k
        with k.scope():
            eps = constant(k, self.how.eps)
            k.fadd_s(variance, variance, eps)
        k.fsqrt_s(variance, variance)
        k.fdiv_s(variance, self.one, variance)

    def to_slope(self, products: Register, sums: list[Register], rstd: Register) -> None:
        """Turn sums of g (x - mean) and of g into what dx is made of: see weighted_slope."""
        k = self.k
        k.fmul_s(products, products, rstd)
        for total in (products, *sums):
            k.fmul_s(total, total, self.share)
            k.fmul_s(total, total, rstd)
            k.fsgnjn_s(total, total, total)
        k.fmul_s(products, products, rstd)

    def apply(self, mean: Register | None, rstd: Register) -> None:
        """y = (x - mean) rstd gamma + beta."""
        if not any(self.view.gamma[1]):
            self._apply_row(mean, rstd)
            return
        shift = self.k.f()
        if mean is not None:
            self.k.fmul_s(shift, mean, rstd)

        def scale(v: Lanes, x: Lane, gamma: Lane, beta: Lane) -> list[Lane]:
            v.fmsub_s(x, x, rstd, shift)
            v.fmadd_s(x, x, gamma, beta)
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
        assert mean is not None
        k = self.k
        gamma, beta = self.rows.load("gamma"), self.rows.load("beta")
        k.fmul_s(gamma, gamma, rstd)
        k.fnmsub_s(beta, mean, gamma, beta)

        def scale(v: Lanes, x: Lane) -> list[Lane]:
            v.fmadd_s(x, x, gamma, beta)
            return [x]

        self.rows.sweep(["x"], ["y"], scale)


def add(v: Lanes, total: Lane, x: Lane) -> None:
    v.fadd_s(total, total, x)


def forward(
    k: Kernel,
    team: Team,
    view: View,
    at: Mapping[str, Address],
    how: How,
    momentum: float | None = None,
) -> None:
    """y, mean and rstd from x, gamma and beta; running means too, if there is a momentum.

    at    addresses: x, gamma, beta, y, mean, rstd, partials, running_mean, running_var
    """

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            norm = RowNorm(k, team, view, at, replace(how, unroll=width), 1 + how.is_centred)
            with norm.rows.each():
                mean = norm.mean() if how.is_centred else None
                variance = norm.variance(mean)
                if momentum is not None:
                    run_on(norm, mean, variance, momentum)
                norm.invert_root(variance)
                if mean is not None:
                    norm.rows.store("mean", mean)
                norm.rows.store("rstd", variance)
                norm.apply(mean, variance)

    fitting(k, team, emit, how.unroll)


def run_on(norm: RowNorm, mean: Register | None, variance: Register, momentum: float) -> None:
    """running = (1 - momentum) running + momentum new; of variances, the unbiased ones."""
    k, count = norm.k, norm.view.count
    unbiased = momentum * count / (count - 1) if count > 1 else inf
    for name, new, adds in (("mean", mean, momentum), ("var", variance, unbiased)):
        with k.scope():
            old, keeps, part = norm.rows.load(f"running_{name}"), k.f(), k.f()
            load_constant(k, keeps, 1 - momentum)
            load_constant(k, part, adds)
            k.fmul_s(old, old, keeps)
            k.fmadd_s(old, new, part, old)
            norm.rows.store(f"running_{name}", old)


def frozen_forward(k: Kernel, team: Team, view: View, at: Mapping[str, Address], how: How) -> None:
    """y from x, gamma, beta and the running means.

    at    addresses: x, gamma, beta, running_mean, running_var, y
    """

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            norm = RowNorm(k, team, view, at, replace(how, unroll=width), 0)
            with norm.rows.each():
                mean, rstd = norm.rows.load("running_mean"), norm.rows.load("running_var")
                norm.invert_root(rstd)
                norm.apply(mean, rstd)

    fitting(k, team, emit, how.unroll)


def backward_by_row(
    k: Kernel,
    team: Team,
    view: View,
    at: Mapping[str, Address],
    how: How,
    *,
    is_frozen: bool = False,
) -> None:
    """dx, dgamma and dbeta from x, dy, gamma and the means, where a row has one gamma.

    at    addresses: x, dy, gamma, mean, rstd (or running_mean, running_var), dx, dgamma, dbeta,
          partials
    """
    if view.is_ordered:
        for name in ("dgamma", "dbeta"):
            fill_f32(k, team, at[name], view.rows[0])
        team.barrier()

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            norm = RowNorm(k, team, view, at, replace(how, unroll=width), 1)
            rows = norm.rows
            with rows.each():
                mean = rows.load("running_mean" if is_frozen else "mean")
                rstd = rows.load("running_var" if is_frozen else "rstd")
                if is_frozen:
                    norm.invert_root(rstd)
                sums, products = rows.reduce(["x", "dy"], sums_of(mean), ["sum", "sum"])
                keep = rows.add if view.is_ordered else rows.store
                k.fmul_s(products, products, rstd)
                keep("dgamma", products)
                keep("dbeta", sums)
                factor = rows.load("gamma")
                k.fmul_s(factor, factor, rstd)
                if is_frozen:
                    rows.sweep(["dy"], ["dx"], scaled(factor))
                else:
                    slope_factors(norm, factor, rstd, products, sums)
                    rows.sweep(["x", "dy"], ["dx"], slope_of(mean, factor, products, sums))

    fitting(k, team, emit, how.unroll)


def sums_of(mean: Register) -> Callable[..., None]:
    def step(v: Lanes, sums: Lane, products: Lane, x: Lane, dy: Lane) -> None:
        v.fsub_s(x, x, mean)
        v.fadd_s(sums, sums, dy)
        v.fmadd_s(products, x, dy, products)

    return step


def scaled(factor: Register) -> Body:
    def body(v: Lanes, dy: Lane) -> list[Lane]:
        v.fmul_s(dy, dy, factor)
        return [dy]

    return body


def slope_factors(
    norm: RowNorm, factor: Register, rstd: Register, products: Register, sums: Register
) -> None:
    """products, sums = what (x - mean) is multiplied by, and what is added, in dx.

    In come the sums of g h and g, without the factor, over the row.
    """
    k = norm.k
    for total in (products, sums):
        k.fmul_s(total, total, norm.share)
        k.fmul_s(total, total, factor)
        k.fsgnjn_s(total, total, total)
    k.fmul_s(products, products, rstd)


def slope_of(mean: Register, factor: Register, products: Register, sums: Register) -> Body:
    """dx = factor dy + (x - mean) products + sums."""

    def body(v: Lanes, x: Lane, dy: Lane) -> list[Lane]:
        v.fsub_s(x, x, mean)
        v.fmadd_s(dy, dy, factor, sums)
        v.fmadd_s(dy, x, products, dy)
        return [dy]

    return body


def backward(
    k: Kernel,
    team: Team,
    view: View,
    parameters: View,
    at: Mapping[str, Address],
    how: How,
    *,
    adds: bool = False,
) -> None:
    """dx, dgamma and dbeta from x, dy, gamma and the means, where elements of a row have their own.

    adds    to dgamma and dbeta

    at    addresses: x, dy, gamma, mean, rstd, dx, dgamma, dbeta, partials; RMS norm: no mean, dbeta
    """

    def emit_parameters(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            norm = RowNorm(k, team, parameters, at, replace(how, unroll=width), 1)
            rows = norm.rows
            with rows.each():
                sources: list[str] = ["x", "dy", "rstd"]
                if how.is_centred:
                    both: list[Kind] = ["sum", "sum"]
                    totals = rows.reduce([*sources, "mean"], centred_sums, both)
                else:
                    totals = rows.reduce(sources, plain_sums, ["sum"])
                for name, total in zip(("dgamma", "dbeta"), totals, strict=False):
                    (rows.add if adds else rows.store)(name, total)

    def emit_dx(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            norm = RowNorm(k, team, view, at, replace(how, unroll=width), 1)
            rows = norm.rows
            with rows.each():
                mean = rows.load("mean") if how.is_centred else None
                rstd = rows.load("rstd")
                kinds: list[Kind] = ["sum"] * (1 + how.is_centred)
                step = weighted_sums(mean)
                products, *sums = rows.reduce(["x", "dy", "gamma"], step, kinds)
                norm.to_slope(products, sums, rstd)
                body = weighted_slope(mean, rstd, products, sums)
                rows.sweep(["x", "dy", "gamma"], ["dx"], body)

    fitting(k, team, emit_parameters, how.unroll)
    team.barrier()  # the parts of sums meet in the same place; dx may replace dy
    fitting(k, team, emit_dx, how.unroll)


def weighted_sums(mean: Register | None) -> Callable[..., None]:
    def step(v: Lanes, products: Lane, *rest: Any) -> None:
        *sums, x, dy, gamma = rest
        v.fmul_s(dy, dy, gamma)
        if mean is not None:
            v.fsub_s(x, x, mean)
            v.fadd_s(sums[0], sums[0], dy)
        v.fmadd_s(products, x, dy, products)

    return step


def weighted_slope(
    mean: Register | None, rstd: Register, products: Register, sums: list[Register]
) -> Body:
    """dx = rstd dy gamma + (x - mean) products + sums."""

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


def centred_sums(
    v: Lanes, products: Lane, sums: Lane, x: Lane, dy: Lane, rstd: Lane, mean: Lane
) -> None:
    v.fsub_s(x, x, mean)
    v.fadd_s(sums, sums, dy)
    v.fmul_s(x, x, rstd)
    v.fmadd_s(products, x, dy, products)


def plain_sums(v: Lanes, products: Lane, x: Lane, dy: Lane, rstd: Lane) -> None:
    v.fmul_s(x, x, rstd)
    v.fmadd_s(products, x, dy, products)
