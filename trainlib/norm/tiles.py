"""Normalisations of rows larger than L1: what one of several passes does with a tile of them.

Sums over tiles stay where their result comes; the last tile makes it of them.
"""

from collections.abc import Callable

from trainlib.norm.row_norm import OF_CHANNELS, RowNorm
from trainlib.primitive.slices import TileShape
from trainlib.reduction.phases import add_old, keep

Pass = Callable[[RowNorm, TileShape], None]
"""What is done with the rows of a tile."""


def means(norm: RowNorm, tile: TileShape) -> None:
    """mean = the mean of x."""
    with norm.rows.each():
        total = norm.sum()
        add_old(norm.rows, tile, "mean", total)
        if tile.is_last:
            norm.average(total)
        norm.rows.store("mean", total)


def roots(norm: RowNorm, tile: TileShape) -> None:
    """rstd = 1 / sqrt(the mean of (x - mean)^2 + eps); the mean corrected; running means too."""
    with norm.rows.each():
        mean = norm.load_mean()
        total, *rest = norm.deviations(mean)
        add_old(norm.rows, tile, "rstd", total)
        for left in rest:
            add_old(norm.rows, tile, "rest", left)
            norm.rows.store("rest", left)
        if tile.is_last:
            norm.variance(mean, total, *rest)
            norm.run_on(mean, total)
            norm.invert_root(total)
            if mean is not None:
                norm.rows.store("mean", mean)
        norm.rows.store("rstd", total)


def outputs(norm: RowNorm, _: TileShape) -> None:
    """y from x and the means."""
    with norm.rows.each():
        norm.apply(*norm.load_means())


def parameters(norm: RowNorm, tile: TileShape) -> None:
    """dgamma and dbeta: rows are those of gamma."""
    with norm.rows.each():
        keep(norm.rows, tile, **norm.parameter_sums())


def frozen_parameters(norm: RowNorm, tile: TileShape) -> None:
    """The same with the running means."""
    with norm.rows.each():
        products, sums = norm.sums(*norm.load_means())
        keep(norm.rows, tile, dgamma=products, dbeta=sums)


def weighted_sums(norm: RowNorm, tile: TileShape) -> None:
    """Sums of dy gamma, and of that times x - mean."""
    with norm.rows.each():
        totals = norm.weighted_sums(norm.load_mean())
        keep(norm.rows, tile, **dict(zip(("products", "sums"), totals, strict=False)))


def weighted_slopes(norm: RowNorm, _: TileShape) -> None:
    """dx from these sums."""
    with norm.rows.each():
        mean, rstd = norm.load_means()
        products = norm.rows.load("products")
        sums = [norm.rows.load("sums")] if norm.how.is_centred else []
        norm.weighted_slope(mean, rstd, products, sums)


def channels(norm: RowNorm, tile: TileShape) -> None:
    """Sums of dy h and dy: rows are channels of images."""
    with norm.rows.each():
        found = norm.sums(*norm.load_means())
        keep(norm.rows, tile, **dict(zip(OF_CHANNELS, found, strict=True)))


def terms(norm: RowNorm, tile: TileShape) -> None:
    """What x - mean is multiplied by, and what is added, in dx, from sums of channels."""
    with norm.rows.each():
        found = dict(zip(("products", "sums"), norm.sums_of_channels(), strict=True))
        for name, total in found.items():
            add_old(norm.rows, tile, name, total)
        if tile.is_last:
            norm.make_terms(*found.values())
        for name, total in found.items():
            norm.rows.store(name, total)


def sums_of_images(norm: RowNorm, tile: TileShape) -> None:
    """dgamma and dbeta from sums of channels."""
    with norm.rows.each():
        keep(norm.rows, tile, **norm.sums_of_images())


def channel_slopes(norm: RowNorm, _: TileShape) -> None:
    """dx from these terms."""
    with norm.rows.each():
        norm.slope_of_channel()


def slopes(norm: RowNorm, _: TileShape, names: tuple[str, str] = ("dgamma", "dbeta")) -> None:
    """dx from sums of dy h and of dy, where means are of all that has the same gamma."""
    rows = norm.rows
    with rows.each():
        mean, rstd = norm.load_means()
        factor = norm.factor(rstd)
        if norm.how.is_frozen:
            norm.frozen_slope(factor)
        else:
            norm.slope(mean, rstd, factor, *map(rows.load, names))
