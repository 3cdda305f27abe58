"""Normalisations of rows larger than L1: what one of several passes does with a tile of them.

Sums over tiles stay where their result comes; the last tile makes it of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.kernels import Address
from trainlib.maps import fitting
from trainlib.normalise import (
    How,
    RowNorm,
    View,
    add,
    centred_sums,
    plain_sums,
    run_on,
    scaled,
    slope_factors,
    slope_of,
    sums_of,
    weighted_slope,
    weighted_sums,
)
from trainlib.rows import Kind
from trainlib.tiling import TileShape

Pass = Callable[[RowNorm, TileShape], None]
"""What is done with a row of a tile."""


def emit_rows(
    k: Kernel,
    team: Team,
    view: View,
    at: Mapping[str, Address],
    how: How,
    work: Pass,
    tile: TileShape,
) -> None:
    """Emit a pass for all rows of a tile."""

    def emit(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            norm = RowNorm(k, team, view, at, replace(how, unroll=width), 1)
            with norm.rows.each():
                work(norm, tile)

    fitting(k, team, emit, how.unroll)


def _keep(norm: RowNorm, tile: TileShape, **totals: Register) -> None:
    """Add what tiles before have to sums, and store them."""
    for name, total in totals.items():
        if not tile.is_first:
            with norm.k.scope():
                norm.k.fadd_s(total, total, norm.rows.load(name))
        norm.rows.store(name, total)


def means(norm: RowNorm, tile: TileShape) -> None:
    """mean = the mean of x."""
    [total] = norm.rows.reduce(["x"], add, ["sum"])
    if not tile.is_first:
        with norm.k.scope():
            norm.k.fadd_s(total, total, norm.rows.load("mean"))
    if tile.is_last:
        norm.k.fmul_s(total, total, norm.share)
    norm.rows.store("mean", total)


def roots(momentum: float | None) -> Pass:
    """rstd = 1 / sqrt(the mean of (x - mean)^2 + eps); running means too."""

    def work(norm: RowNorm, tile: TileShape) -> None:
        k, rows = norm.k, norm.rows
        mean = rows.load("mean") if norm.how.is_centred else None
        total = norm.squares(mean)
        if not tile.is_first:
            with k.scope():
                k.fadd_s(total, total, rows.load("rstd"))
        if tile.is_last:
            k.fmul_s(total, total, norm.share)
            if momentum is not None:
                run_on(norm, mean, total, momentum)
            norm.invert_root(total)
        rows.store("rstd", total)

    return work


def outputs(is_frozen: bool) -> Pass:
    """y from x and the means."""

    def work(norm: RowNorm, _: TileShape) -> None:
        mean, rstd = _means(norm, is_frozen)
        norm.apply(mean, rstd)

    return work


def _means(norm: RowNorm, is_frozen: bool) -> tuple[Register | None, Register]:
    rows = norm.rows
    if is_frozen:
        mean, rstd = rows.load("running_mean"), rows.load("running_var")
        norm.invert_root(rstd)
        return mean, rstd
    return rows.load("mean") if norm.how.is_centred else None, rows.load("rstd")


def parameters(norm: RowNorm, tile: TileShape) -> None:
    """dgamma and dbeta: rows are those of gamma."""
    sources: list[str] = ["x", "dy", "rstd"]
    if norm.how.is_centred:
        both: list[Kind] = ["sum", "sum"]
        products, sums = norm.rows.reduce([*sources, "mean"], centred_sums, both)
        _keep(norm, tile, dgamma=products, dbeta=sums)
    else:
        [products] = norm.rows.reduce(sources, plain_sums, ["sum"])
        _keep(norm, tile, dgamma=products)


def frozen_parameters(norm: RowNorm, tile: TileShape) -> None:
    """The same with the running means."""
    mean, rstd = _means(norm, True)
    assert mean is not None
    sums, products = norm.rows.reduce(["x", "dy"], sums_of(mean), ["sum", "sum"])
    norm.k.fmul_s(products, products, rstd)
    _keep(norm, tile, dgamma=products, dbeta=sums)


def sums(norm: RowNorm, tile: TileShape) -> None:
    """Sums of dy gamma, and of that times x - mean."""
    mean = norm.rows.load("mean") if norm.how.is_centred else None
    kinds: list[Kind] = ["sum"] * (1 + norm.how.is_centred)
    step = weighted_sums(mean)
    totals = norm.rows.reduce(["x", "dy", "gamma"], step, kinds)
    _keep(norm, tile, **dict(zip(("products", "sums"), totals, strict=False)))


def gradients(norm: RowNorm, _: TileShape) -> None:
    """dx from these sums."""
    rows = norm.rows
    mean, rstd = _means(norm, False)
    products = rows.load("products")
    totals = [rows.load("sums")] if norm.how.is_centred else []
    norm.to_slope(products, totals, rstd)
    body = weighted_slope(mean, rstd, products, totals)
    rows.sweep(["x", "dy", "gamma"], ["dx"], body)


def channel_gradients(is_frozen: bool) -> Pass:
    """dx from dgamma and dbeta, where means are of all that has the same gamma."""

    def work(norm: RowNorm, _: TileShape) -> None:
        rows = norm.rows
        mean, rstd = _means(norm, is_frozen)
        assert mean is not None
        factor = rows.load("gamma")
        norm.k.fmul_s(factor, factor, rstd)
        if is_frozen:
            rows.sweep(["dy"], ["dx"], scaled(factor))
            return
        products, totals = rows.load("dgamma"), rows.load("dbeta")
        slope_factors(norm, factor, rstd, products, totals)
        rows.sweep(["x", "dy"], ["dx"], slope_of(mean, factor, products, totals))

    return work
