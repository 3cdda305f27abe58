"""Normalisations whose rows are larger than L1: their phases, each a pass over all tiles."""

from collections.abc import Mapping
from dataclasses import dataclass

from trainlib.norm import tiles
from trainlib.norm.row_norm import How, RowNorm
from trainlib.norm.tiles import Pass
from trainlib.norm.variants import Layout
from trainlib.primitive.phases import Phase
from trainlib.primitive.tensor import Role

RUNNING: dict[str, Role] = {"running_mean": "in", "running_var": "in"}


@dataclass(frozen=True)
class NormPhases:
    """The phases of a normalisation; RMS norm has no means and no betas."""

    layout: Layout
    how: How

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
        return self.layout.passes.phase(
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
        layout, is_frozen, mean = self.layout, self.how.is_frozen, self._centred("in", "mean")
        stats: dict[str, Role] = RUNNING if is_frozen else {**mean, "rstd": "in"}
        y: dict[str, Role] = {"y": "in"} if self.how.relu else {}
        given: dict[str, Role] = {"x": "in", "dy": "in", **y, **stats}
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
    def between_forward(self) -> dict[str, int]:
        """Bytes of buffers between tiles of forward: what rounded means leave."""
        is_corrected = self.how.is_centred and not self.how.is_frozen
        return {"rest": self.layout.bytes_of_means} if is_corrected else {}

    @property
    def between(self) -> dict[str, int]:
        """Bytes of buffers between the phases of backward."""
        if self.layout.means == self.layout.gamma:
            return {}
        names = ("products", "sums") if self.how.is_centred else ("products",)
        return dict.fromkeys(names, self.layout.bytes_of_means)
