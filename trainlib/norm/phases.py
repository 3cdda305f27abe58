"""Normalisations whose rows are larger than L1: their phases, each a pass over all tiles."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from trainlib.norm import tiles
from trainlib.norm.row_norm import OF_CHANNELS, How, RowNorm
from trainlib.norm.tiles import Pass
from trainlib.norm.variants import Layout
from trainlib.primitive.phases import Phase
from trainlib.primitive.tensor import WORD, Role
from trainlib.reduction.phases import Passes

RUNNING: dict[str, Role] = {"running_mean": "in", "running_var": "in"}


@dataclass(frozen=True)
class NormPhases:
    """The phases of a normalisation; RMS norm has no means and no betas.

    passes    over its tensors; None: over all axes
    """

    layout: Layout
    how: How
    passes: Passes | None = None

    def _phase(
        self,
        name: str,
        work: Pass,
        rows: tuple[str, ...],
        roles: Mapping[str, Role],
        *,
        is_sum: bool = True,
    ) -> Phase:
        how = self.how
        return (self.passes or self.layout.passes).phase(
            *(name, lambda rows, tile: work(RowNorm(rows, how), tile), rows, roles),
            is_sum=is_sum,
        )

    def _centred(self, role: Role, name: str) -> dict[str, Role]:
        return {name: role} if self.how.is_centred else {}

    def forward(self) -> list[Phase]:
        """Means, then roots of variances, which correct them, then y; frozen: just y."""
        means, mean = self.layout.means, self._centred("in", "mean")
        given: dict[str, Role] = {"x": "in", "gamma": "in", **self._centred("in", "beta")}
        stats: dict[str, Role] = RUNNING if self.how.is_frozen else {**mean, "rstd": "in"}
        read: dict[str, Role] = {**given, **stats, "y": "out"}
        last = self._phase("outputs", tiles.outputs, means, read, is_sum=False)
        if self.how.is_frozen:
            return [last]
        moved: dict[str, Role] = {}
        if self.how.momentum is not None:
            moved = dict.fromkeys(RUNNING, "inout")
        corrected = {**self._centred("inout", "mean"), **self._centred("out", "rest")}
        roots: dict[str, Role] = {"x": "in", **corrected, "rstd": "out", **moved}
        x: dict[str, Role] = {"x": "in", "mean": "out"}
        return [
            *([self._phase("means", tiles.means, means, x)] if mean else []),
            self._phase("roots", tiles.roots, means, roots),
            last,
        ]

    def backward(self) -> list[Phase]:
        """Gradients of gamma and beta; sums for those of x, if they are others; those of x."""
        if self._is_by_channels:
            return self._by_channels()
        layout, is_frozen, mean = self.layout, self.how.is_frozen, self._centred("in", "mean")
        stats: dict[str, Role] = RUNNING if is_frozen else {**mean, "rstd": "in"}
        given: dict[str, Role] = {"x": "in", "dy": "in", **self._y, **stats}
        written: dict[str, Role] = {"dgamma": "out", **self._centred("out", "dbeta")}
        work = tiles.frozen_parameters if is_frozen else tiles.parameters
        phases = [self._phase("parameters", work, layout.gamma, {**given, **written})]
        read: dict[str, Role] = {**given, "gamma": "in"}
        if is_frozen:
            del read["x"]
        elif layout.means == layout.gamma:
            read |= dict.fromkeys(written, "in")
        else:
            sums: dict[str, Role] = dict.fromkeys(self.between, "out")
            roles = {n: role for n, role in (read | sums).items() if n != "rstd"}
            phases.append(self._phase("sums", tiles.weighted_sums, layout.means, roles))
            read |= dict.fromkeys(self.between, "in")
        last = tiles.weighted_slopes if self.between else tiles.slopes
        read["dx"] = "out"
        phases.append(self._phase("gradients", last, layout.means, read, is_sum=False))
        return phases

    @property
    def _y(self) -> dict[str, Role]:
        return {"y": "in"} if self.how.relu else {}

    @property
    def _is_by_channels(self) -> bool:
        """Have means and gammas other axes, and what has one of both several elements?"""
        layout = self.layout
        return layout.means != layout.gamma and set(layout.channels) < set(layout.sizes)

    def _by_channels(self) -> list[Phase]:
        """The same from sums of each channel of each image, which one pass finds."""
        layout, channels = self.layout, self.layout.channels
        given: dict[str, Role] = {"x": "in", "dy": "in", **self._y, "mean": "in", "rstd": "in"}
        written: dict[str, Role] = dict.fromkeys(OF_CHANNELS, "out")
        read: dict[str, Role] = dict.fromkeys(OF_CHANNELS, "in")
        phases = [self._phase("channels", tiles.channels, channels, given | written)]
        of_channels = replace(self, passes=layout.passes_of_channels)
        if layout.has_own_gammas:
            roles: dict[str, Role] = {**read, "gamma": "in", "rstd": "in"}
            terms: dict[str, Role] = {"products": "out", "sums": "out"}
            phases.append(of_channels._phase("terms", tiles.terms, layout.means, roles | terms))
        if not layout.has_one_image:
            roles = {**read, "dgamma": "out", "dbeta": "out"}
            work = tiles.sums_of_images
            phases.append(of_channels._phase("parameters", work, layout.gamma, roles))
        roles = {**given, "gamma": "in", "dx": "out"}
        last: Pass = tiles.channel_slopes
        if layout.has_own_gammas:
            roles |= {"products": "in", "sums": "in"}
        else:
            roles |= read
            last = partial(tiles.slopes, names=OF_CHANNELS)
        phases.append(self._phase("gradients", last, channels, roles, is_sum=False))
        same = dict(zip(OF_CHANNELS, ("dgamma", "dbeta"), strict=True))
        if not layout.has_one_image:
            return phases
        return [
            replace(phase, at={n: (same.get(n, n), start) for n, (_, start) in phase.at.items()})
            for phase in phases
        ]

    @property
    def between_forward(self) -> dict[str, int]:
        """Bytes of buffers between tiles of forward: what rounded means leave."""
        is_corrected = self.how.is_centred and not self.how.is_frozen
        return {"rest": self.layout.bytes_of_means} if is_corrected else {}

    @property
    def between(self) -> dict[str, int]:
        """Bytes of buffers between the phases of backward."""
        layout = self.layout
        if layout.means == layout.gamma:
            return {}
        names = ("products", "sums") if self.how.is_centred else ("products",)
        found = dict.fromkeys(names, layout.bytes_of_means) if layout.has_own_gammas else {}
        if self._is_by_channels and not layout.has_one_image:
            found |= dict.fromkeys(OF_CHANNELS, WORD * prod(layout.shape(layout.channels)))
        return found
