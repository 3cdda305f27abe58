"""Normalisations whose rows are larger than L1: their phases, each a pass over all tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib import norm_tiles
from trainlib.kernels import WORD, Addresses, Role, Tensor
from trainlib.norm_tiles import Pass, emit_rows
from trainlib.normalise import MEANS, How, View
from trainlib.phases import Phase
from trainlib.rows import SCRATCH
from trainlib.tiling import Dim, TileShape, Tiling

LIKE_X = ("x", "y", "dx", "dy")
RATE = 2.0  # elements per cycle, nearly


@dataclass(frozen=True)
class Layout:
    """A normalisation's tensors: sizes by axis, in the order of x in memory.

    kept     axes of means; those of x that are not among them, means are over
    gamma    axes of gamma
    """

    sizes: Mapping[str, int]
    kept: tuple[str, ...]
    gamma: tuple[str, ...]

    def axes(self, name: str) -> tuple[str, ...]:
        """Of a tensor."""
        if name in LIKE_X:
            return tuple(self.sizes)
        return self.kept if name in MEANS else self.gamma

    @property
    def count(self) -> int:
        """Elements that a mean is of."""
        return prod(self.sizes[axis] for axis in self.sizes if axis not in self.kept)

    def bytes_of_means(self) -> int:
        """Of all means."""
        return WORD * prod(self.sizes[axis] for axis in self.kept)

    def phase(
        self,
        name: str,
        work: Pass,
        rows: tuple[str, ...],
        roles: Mapping[str, Role],
        how: How,
        *,
        is_sum: bool = True,
    ) -> Phase:
        """A pass: rows have these axes, their elements the others.

        roles     of its tensors; they and buffers between passes are called alike
        is_sum    are its results sums over elements?
        """
        elements = tuple(axis for axis in self.sizes if axis not in rows)
        order = (*rows, *elements) if is_sum else tuple(self.sizes)
        dims = tuple(Dim(a, self.sizes[a], is_summed=is_sum and a in elements) for a in order)
        tensors = {
            n: Tensor(tuple(self.sizes[a] for a in self.axes(n)), role) for n, role in roles.items()
        }

        def emit(k: Kernel, team: Team, tile: TileShape, at: Addresses) -> None:
            view = self._view(tile, rows, elements, list(roles))
            own = {n: at[n] for n in (*roles, "partials")}
            emit_rows(k, team, view, own, how, work, tile)

        boxes = {n: self.axes(n) for n in roles}
        tiling = Tiling(dims, boxes, emit, lambda _: dict(SCRATCH), rate=RATE, tells_last=is_sum)
        return Phase(name, tiling, tensors, {n: (n, 0) for n in roles})

    def _view(
        self, tile: TileShape, rows: Sequence[str], elements: Sequence[str], names: Sequence[str]
    ) -> View:
        """A tile's tensors as rows."""

        def steps(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
            of = dict(zip(self.axes(name), tile.part(name).strides, strict=True))
            return tuple(of.get(a, 0) for a in rows), tuple(of.get(a, 0) for a in elements)

        nothing = (0,) * len(rows), (0,) * len(elements)
        found = [next((n for n in names if self.axes(n) == axes), None) for axes in self._kinds]
        x, means, gamma = (steps(name) if name else nothing for name in found)
        sizes = tuple(tile[a] for a in rows), tuple(tile[a] for a in elements)
        return View(*sizes, x, gamma, means, whole=self.count)

    @property
    def _kinds(self) -> tuple[tuple[str, ...], ...]:
        return tuple(self.sizes), self.kept, self.gamma


def forward_phases(layout: Layout, how: How, momentum: float | None) -> list[Phase]:
    """Means, then roots of variances, then y."""
    kept = layout.kept
    mean: dict[str, Role] = {"mean": "in"} if how.is_centred else {}
    beta: dict[str, Role] = {"beta": "in"} if how.is_centred else {}
    running: dict[str, Role] = {}
    if momentum is not None:
        running = {"running_mean": "inout", "running_var": "inout"}
    phases = []
    if how.is_centred:
        phases.append(
            layout.phase("means", norm_tiles.means, kept, {"x": "in", "mean": "out"}, how)
        )
    roles: dict[str, Role] = {"x": "in", **mean, "rstd": "out", **running}
    phases.append(layout.phase("roots", norm_tiles.roots(momentum), kept, roles, how))
    roles = {"x": "in", "gamma": "in", **beta, **mean, "rstd": "in", "y": "out"}
    phases.append(
        layout.phase("outputs", norm_tiles.outputs(False), kept, roles, how, is_sum=False)
    )
    return phases


RUNNING: dict[str, Role] = {"running_mean": "in", "running_var": "in"}


def frozen_forward_phases(layout: Layout, how: How) -> list[Phase]:
    """y."""
    roles: dict[str, Role] = {"x": "in", "gamma": "in", "beta": "in", **RUNNING, "y": "out"}
    work = norm_tiles.outputs(True)
    return [layout.phase("outputs", work, layout.kept, roles, how, is_sum=False)]


def backward_phases(layout: Layout, how: How, *, is_frozen: bool) -> list[Phase]:
    """Gradients of gamma and beta; sums for those of x, if they are others; those of x."""
    of: dict[str, Role] = {"mean": "in", "rstd": "in"} if how.is_centred else {"rstd": "in"}
    of = dict(RUNNING) if is_frozen else of
    given: dict[str, Role] = {"x": "in", "dy": "in", **of}
    names = ("dgamma", "dbeta") if how.is_centred else ("dgamma",)
    written: dict[str, Role] = dict.fromkeys(names, "out")
    work = norm_tiles.frozen_parameters if is_frozen else norm_tiles.parameters
    phases = [layout.phase("parameters", work, layout.gamma, {**given, **written}, how)]
    read: dict[str, Role] = {**given, "gamma": "in"}
    if layout.kept == layout.gamma:
        read |= {} if is_frozen else dict.fromkeys(names, "in")
        if is_frozen:
            del read["x"]
        last = norm_tiles.channel_gradients(is_frozen)
    else:
        names = ("products", "sums") if how.is_centred else ("products",)
        roles: dict[str, Role] = read | dict.fromkeys(names, "out")
        roles = {n: role for n, role in roles.items() if n != "rstd"}
        phases.append(layout.phase("sums", norm_tiles.sums, layout.kept, roles, how))
        read |= dict.fromkeys(names, "in")
        last = norm_tiles.gradients
    roles = {**read, "dx": "out"}
    phases.append(layout.phase("gradients", last, layout.kept, roles, how, is_sum=False))
    return phases


def between(layout: Layout, how: How) -> dict[str, int]:
    """Bytes of buffers between the phases of backward."""
    if layout.kept == layout.gamma:
        return {}
    names = ("products", "sums") if how.is_centred else ("products",)
    return dict.fromkeys(names, layout.bytes_of_means())
