"""The space of a layer: every way to compute it that fits the chip, as plain frozen values.

    space = Space.of("linear_fw_f32", {"inputs": 640, "outputs": 128}, load_chip("pulp"))
    len(space), next(iter(space))

A point is a tile, a blocking, a number of buffers and of cores. Whether a tile fits is trainlib's
own arithmetic of L1; what only building the program tells (registers, the schedule's own bytes)
makes a point that fails when it is measured.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from autotuner.blocking import PAPER_KERNELS, blockings, methods
from autotuner.point import Items, Layer, Point
from firmware.builder import KernelError
from firmware.runtime import Team, new_kernel
from soc.spec import SocSpec
from trainlib.kernels import Arguments, Tensors
from trainlib.resident import Resident
from trainlib.tile_choice import Choice, Grid, candidates
from trainlib.tile_plan import Plan
from trainlib.tiling import Tiling

SIZES = 6
"""Sizes of each dimension, unless it is said otherwise."""

MOST_TILES = 512
"""Of a layer: a step costs 200 cycles and more beside its work, so smaller tiles do not win."""

SCRATCH_SIZES = 3
"""The same for methods with columns in L1: what those take is slow to work out."""

PAPER_TILES = 8
"""K_T: how many of the largest tiles the paper's policy tries, unless it is said otherwise."""


@dataclass(frozen=True)
class Space:
    """All points of a layer on a chip.

    sizes    of each dimension, at most
    cores    numbers of cores that are tried
    """

    layer: Layer
    chip: SocSpec
    sizes: int = SIZES
    cores: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        kernel: str,
        arguments: Mapping[str, Any],
        chip: SocSpec,
        sizes: int = SIZES,
        cores: tuple[int, ...] = (),
    ) -> "Space":
        """The space of a layer; cores: those given in the arguments, or else all and half of them.

        raises    ConfigError for bad arguments, KernelError if the layer fits no tile
        """
        layer = Layer.of(kernel, arguments)
        given = layer.checked({}).cores
        own = (chip.cores, max(chip.cores // 2, 1)) if given is None else (given,)
        space = cls(layer, chip, sizes, tuple(dict.fromkeys(cores or own)))
        if not any(space._ways(method) for method in space.methods):
            space.refuse()
        return space

    def __len__(self) -> int:
        return sum(
            len(self.blockings(method, cores)) * self._ways(method)
            for method in self.methods
            for cores in self.cores
        )

    def __iter__(self) -> Iterator[Point]:
        """Every point: all in L1 first, then larger tiles before smaller ones."""
        for method, cores in product(self.methods, self.cores):
            for kernel in self.blockings(method, cores):
                if self.is_resident_by(method):
                    yield Point(None, kernel, 1, cores)
                for buffers in (2, 1):
                    for tile in self.tiles(buffers, method):
                        yield Point(tile, kernel, buffers, cores)

    def _ways(self, method: str) -> int:
        """Tiles with one buffer and with two, and all in L1."""
        tilings = sum(len(self.tiles(buffers, method)) for buffers in (1, 2))
        return tilings + self.is_resident_by(method)

    @cached_property
    def methods(self) -> list[str]:
        """Methods that the layer can be computed by."""
        found = []
        for method in methods(self.layer):
            try:
                self.tiling(method)
            except KernelError:
                continue
            found.append(method)
        return found

    def method_of(self, kernel: Items) -> str:
        """The method of a blocking."""
        own = self.layer.given.get("method", "direct")
        return str(dict(kernel).get("method", own))

    def blockings(self, method: str, cores: int) -> list[Items]:
        """All blockings of a method on so many cores, the primitive's own first."""
        key = method, cores
        if key not in self._blockings:
            self._blockings[key] = blockings(self.layer, method, cores)
        return self._blockings[key]

    @cached_property
    def _blockings(self) -> dict[tuple[str, int], list[Items]]:
        return {}

    @cached_property
    def is_resident(self) -> bool:
        """Does all of the layer fit L1?"""
        return self.is_resident_by("direct")

    def is_resident_by(self, method: str) -> bool:
        """Does all of it fit L1, with what a method needs besides?"""
        if self.layer.given.get("tile") is not None:
            return False
        arguments = self._arguments(method)
        kernel = new_kernel(self.chip, self.layer.kernel)
        return Resident.of(self.layer.family, arguments, self.tensors).fits(kernel.l1)

    @cached_property
    def tensors(self) -> Tensors:
        """Operands by name."""
        return self.layer.family.tensors(self.layer.checked({}))

    def tiling(self, method: str = "direct") -> Tiling | None:
        """How it is cut; None: it is not."""
        cut = self.layer.family.tiling
        return cut(self._arguments(method)) if cut else None

    def copied(self, method: str) -> Mapping[str, int]:
        """Bytes by tensor that are copied at least, whatever the tiles, if each part comes once."""
        if method not in self._copied:
            tiling = self.tiling(method)
            self._copied[method] = {
                name: tiling.least(name, self.tensors) if tiling else tensor.size
                for name, tensor in self.tensors.items()
                if tensor.role != "scratch"
            }
        return self._copied[method]

    @cached_property
    def _copied(self) -> dict[str, Mapping[str, int]]:
        return {}

    def _arguments(self, method: str) -> Arguments:
        return self.layer.checked({} if method == "direct" else {"method": method})

    def tiles(self, buffers: int, method: str = "direct") -> list[Items]:
        """Tiles that fit L1, the largest first."""
        return [tile for tile, _ in self.estimates(buffers, method)]

    def estimates(self, buffers: int, method: str = "direct") -> list[tuple[Items, float]]:
        """Tiles that fit L1 and trainlib's estimate of their cycles, the largest first."""
        key = buffers, method
        if key not in self._found:
            self._found[key] = self._estimates(buffers, method)
        return self._found[key]

    @cached_property
    def _found(self) -> dict[tuple[int, str], list[tuple[Items, float]]]:
        return {}

    def _estimates(self, buffers: int, method: str) -> list[tuple[Items, float]]:
        choice = self.choice(buffers, method)
        if choice is None or self.layer.given.get("buffers", buffers) != buffers:
            return []
        given = self.layer.given.get("tile") or {}
        has_columns = choice.tiling.scratch is not None or choice.tiling.forms
        most = min(self.sizes, SCRATCH_SIZES) if has_columns else self.sizes
        tried = [
            [given[d.name]] if d.name in given else thinned(candidates(d), most)
            for d in choice.tiling.dims
        ]
        grids = [Grid(choice, tried)]
        fits = (grids[0].bytes <= choice.free).any()
        is_slow = choice.tiling.scratch is not None and self.is_resident
        if fits and method == self.methods[0] and not is_slow:
            grids.append(Grid(choice, [[size] for size in self._own_tile(choice).values()]))
        found: dict[Items, float] = {}
        for most_tiles in (MOST_TILES, None):
            for grid in grids:
                found |= _fitting(grid, choice.free, most_tiles)
            if found:
                break
        return sorted(found.items(), key=lambda tile: (-prod(size for _, size in tile[0]), tile[1]))

    def _own_tile(self, choice: Choice) -> Mapping[str, int]:
        """The tile that the primitive would choose."""
        if not self.is_resident:
            with suppress(KernelError):
                return dict(self._planned_tile(choice.buffers))
        return choice.sizes(self.layer.given.get("tile") or {})

    def choice(self, buffers: int, method: str = "direct") -> Choice | None:
        """Trainlib's choice of sizes; None if the primitive has no tiles."""
        tiling = self.tiling(method)
        if tiling is None:
            return None
        kernel = new_kernel(self.chip, self.layer.kernel)
        return Choice(self.layer.kernel, tiling, self.tensors, buffers, kernel.l1, 0)

    def refuse(self) -> None:
        """Raise KernelError: how many bytes the smallest tile needs."""
        choice = self.choice(self.layer.given.get("buffers", 1))
        if choice is None:
            resident = Resident.of(self.layer.family, self.layer.checked({}), self.tensors)
            needed, free = sum(resident.sizes.values()), new_kernel(self.chip).l1.left
            raise KernelError(
                f"{self.layer.kernel}: it has no tiles, and all of it needs {needed} bytes of L1, "
                f"{free} are free"
            )
        choice.sizes(self.layer.given.get("tile") or {})
        raise KernelError(f"{self.layer.kernel}: no tile of {self.sizes} sizes a dimension fits L1")

    def paper_kernels(self, method: str) -> list[Items]:
        """The paper's kernels as blockings of a method, each once."""
        cores = max(self.cores)
        return list(dict.fromkeys(k.on(self.layer, method, cores) for k in PAPER_KERNELS))

    def paper(self, most: int = PAPER_TILES) -> list[Point]:
        """The paper's subset: all in L1 if it fits, else its largest tiles, times its kernels."""
        cores = max(self.cores)
        points: list[Point] = []
        for method in self.methods:
            tiles: list[Items | None] = list(self.tiles(1, method)[:most])
            if self.is_resident:
                tiles = [None] if self.is_resident_by(method) else []
            kernels = self.paper_kernels(method)
            points += [Point(tile, kernel, 1, cores) for tile in tiles for kernel in kernels]
        return points

    def paper_tiles(self, budget: int) -> int:
        """The largest K_T with which the paper's policy measures no more points than so many."""
        kernels = sum(len(self.paper_kernels(method)) for method in self.methods)
        return max(budget // kernels, 1)

    def default(self) -> Point:
        """What the primitive does when it is told nothing."""
        tile, buffers = self._default
        return Point(tile, (), buffers, max(self.cores))

    @cached_property
    def _default(self) -> tuple[Items | None, int]:
        if self.is_resident or self.tiling() is None:
            return None, 1
        buffers = int(self.layer.checked({}).buffers)
        if not self.tiles(buffers, self.methods[0]):
            buffers = 1
        return self._planned_tile(buffers), buffers

    def _planned_tile(self, buffers: int) -> Items:
        """The tile that the primitive chooses: with room for the table of steps.

        raises    KernelError if none fits
        """
        tiling = self.tiling()
        assert tiling is not None
        k = new_kernel(self.chip, self.layer.kernel)
        for name, tensor in self.tensors.items():
            k.buffer(k.l2, name, tensor.size)
        given = self.layer.given.get("tile") or {}
        plan = Plan.of(k, Team(k, max(self.cores)), tiling, self.tensors, given, buffers)
        return plan.shapes[0].sizes

    def with_sizes(self, sizes: int) -> "Space":
        """The same with more sizes of each dimension, or fewer."""
        return replace(self, sizes=sizes)


def thinned(sizes: list[int], most: int) -> list[int]:
    """At most so many of the sizes, the largest and the smallest among them."""
    places = np.linspace(0, len(sizes) - 1, min(most, len(sizes))).round().astype(int)
    return [sizes[at] for at in dict.fromkeys(places.tolist())]


def _fitting(grid: Grid, free: int, most_tiles: int | None) -> dict[Items, float]:
    """Tiles that fit, and what is expected of them."""
    cycles = np.broadcast_to(grid.cycles, grid.bytes.shape).ravel()
    fits = grid.bytes <= free
    if most_tiles:
        fits = fits & (_product(grid.parts) <= most_tiles)
    places = np.flatnonzero(fits.ravel()).tolist()
    return {tuple(grid.sizes(at).items()): float(cycles[at]) for at in places}


def _product(factors: list[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply, factors, np.ones(()))
