"""Normalisations of rows that are whole in L1, forward and backward. See trainlib.norm.row_norm."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.norm.row_norm import OF_CHANNELS, How, RowNorm
from trainlib.norm.variants import Axes, Layout
from trainlib.primitive.tensor import Addresses
from trainlib.reduction.row_view import View


def forward(k: Kernel, team: Team, layout: Layout, at: Addresses, how: How) -> None:
    """y, mean and rstd from x, gamma and beta; running means too, if there is a momentum. Frozen: y
    from the running means.

    at    addresses: x, gamma, beta, y, mean, rstd, partials, running_mean, running_var
    """
    view = layout.view(at, layout.rows)
    if how.is_frozen:
        _emit(k, team, view, how, _applied, reductions=0)
    else:
        reductions = 1 + (how.is_centred and not layout.is_shifted)
        _emit(k, team, view, how, _outputs, reductions=reductions)


def apply(k: Kernel, team: Team, layout: Layout, at: Addresses, how: How) -> None:
    """y from x, gamma, beta, mean and rstd.

    at    addresses, of partials too
    """
    _emit(k, team, layout.view(at, layout.rows), how, _applied, reductions=0)


def backward(
    k: Kernel, team: Team, layout: Layout, at: Addresses, how: How, *, adds: bool = False
) -> None:
    """dx, dgamma and dbeta from x, dy, gamma and the means.

    adds    to dgamma and dbeta, if layout.has_own_gammas

    at      addresses: x, dy, gamma, mean, rstd (or running_mean, running_var), dx, dgamma, dbeta,
            partials; RMS norm: no mean, dbeta; of several images channel_products and channel_sums;
            where a mean is of channels products and sums
    """
    if layout.has_one_image and not layout.has_own_rows:  # sums of channels are gammas' gradients
        at = {**at, **dict(zip(OF_CHANNELS, (at["dgamma"], at["dbeta"]), strict=True))}
    if layout.is_by_channels:
        _by_channels(k, team, layout, at, how)
        return
    if layout.has_own_gammas:
        _emit(k, team, layout.view(at, layout.gamma), how, partial(_parameters, adds=adds))
        team.barrier()  # the parts of sums meet in the same place; dx may replace dy
        _emit(k, team, layout.view(at, layout.rows), how, _slopes)
        return
    own = {name: place for name, place in at.items() if name not in ("dgamma", "dbeta")}
    _emit(k, team, layout.view(own, layout.rows), how, _gradients)
    if not layout.has_one_image:
        team.barrier()
        _add_images(k, team, layout, at, how)


def _add_images(k: Kernel, team: Team, layout: Layout, at: Addresses, how: How) -> None:
    """dgamma and dbeta from sums of channels."""
    own = {name: at[name] for name in (*OF_CHANNELS, "dgamma", "dbeta", "partials")}
    _emit(k, team, layout.view(own, layout.gamma, layout.images), how, _sums_of_images)


def _by_channels(k: Kernel, team: Team, layout: Layout, at: Addresses, how: How) -> None:
    """The same where a mean is of channels: each is summed up once, for its gamma and the mean."""
    how = replace(how, count=layout.count)
    means, gamma, channels = layout.means, layout.gamma, layout.channels
    in_mean = tuple(axis for axis in gamma if axis not in means)
    x = ["x", "dy", "mean", "rstd", *(["y"] if how.relu else [])]

    def emit(work: Callable[[RowNorm], None], names: list[str], *axes: Axes, **more: int) -> None:
        own = {name: at[name] for name in (*names, "partials")}
        _emit(k, team, layout.view(own, *axes), how, work, **more)

    emit(_channels, [*x, *OF_CHANNELS], channels)
    team.barrier()
    names = ["gamma", "rstd", "products", "sums"]
    emit(_terms, [*OF_CHANNELS, *names], means, in_mean)
    team.barrier()
    if not layout.has_one_image:
        _add_images(k, team, layout, at, how)
        team.barrier()
    emit(_channel_slopes, [*x, "gamma", "products", "sums", "dx"], channels, reductions=0)


def _emit(
    k: Kernel,
    team: Team,
    view: View,
    how: How,
    work: Callable[[RowNorm], None],
    reductions: int = 1,
) -> None:
    view.emit(k, team, lambda rows: work(RowNorm(rows, how)), reductions=reductions)


def _outputs(norm: RowNorm) -> None:
    rows = norm.rows
    with rows.each():
        mean, variance = _means(norm)
        norm.run_on(mean, variance)
        norm.invert_root(variance)
        if mean is not None:
            rows.store("mean", mean)
        rows.store("rstd", variance)
        norm.apply(mean, variance)


def _means(norm: RowNorm) -> tuple[Register | None, Register]:
    """Mean, if there is one, and variance of a row."""
    if norm.is_shifted:
        return norm.shifted_means()
    mean = norm.sum() if norm.how.is_centred else None
    if mean is not None:
        norm.average(mean)
    variance, *rest = norm.deviations(mean)
    norm.variance(mean, variance, *rest)
    return mean, variance


def _applied(norm: RowNorm) -> None:
    with norm.rows.each():
        norm.apply(*norm.load_means())


def _gradients(norm: RowNorm) -> None:
    rows = norm.rows
    with rows.each():
        mean, rstd = norm.load_means()
        products, sums = norm.sums(mean, rstd)
        for name, total in zip(OF_CHANNELS, (products, sums), strict=True):
            rows.store(name, total)
        factor = norm.factor(rstd)
        if norm.how.is_frozen:
            norm.frozen_slope(factor)
        else:
            norm.slope(mean, rstd, factor, products, sums)


def _channels(norm: RowNorm) -> None:
    with norm.rows.each():
        found = norm.sums(*norm.load_means())
        for name, total in zip(OF_CHANNELS, found, strict=True):
            norm.rows.store(name, total)


def _terms(norm: RowNorm) -> None:
    with norm.rows.each():
        terms = norm.sums_of_channels()
        norm.make_terms(*terms)
        for name, term in zip(("products", "sums"), terms, strict=True):
            norm.rows.store(name, term)


def _sums_of_images(norm: RowNorm) -> None:
    with norm.rows.each():
        for name, total in norm.sums_of_images().items():
            norm.rows.store(name, total)


def _channel_slopes(norm: RowNorm) -> None:
    norm.k.free(norm.share, norm.one)  # registers are few, and no means are made here
    with norm.rows.each():
        norm.slope_of_channel()


def _parameters(norm: RowNorm, *, adds: bool) -> None:
    keep = norm.rows.add if adds else norm.rows.store
    with norm.rows.each():
        for name, total in norm.parameter_sums().items():
            keep(name, total)


def _slopes(norm: RowNorm) -> None:
    with norm.rows.each():
        mean, rstd = norm.load_means()
        products, *sums = norm.weighted_sums(mean)
        norm.weighted_slope(mean, rstd, products, sums)
