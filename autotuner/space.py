"""The space of a layer: every way to compute it that fits the chip, as plain frozen values.

    space = Space.of("linear_fw_f32", {"inputs": 640, "outputs": 128}, load_chip("pulp"))
    len(space), next(iter(space))

A point is a tile, a blocking, a number of buffers and of cores. Whether a tile fits is trainlib's
own arithmetic of L1, and a bound of what the table of its steps takes; what only building the
program tells, as that registers do not suffice, makes a point that fails when it is measured.
Where a primitive is computed in phases, each has tiles of its own: see autotuner.phase_tiles.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from autotuner.blockings import PAPER_KERNELS, blockings
from autotuner.point import Items, Layer, Point
from autotuner.tile_candidates import SIZES
from autotuner.tilings import Cut
from firmware.builder import KernelError
from firmware.runtime import new_kernel
from soc.chip.spec import SocSpec
from trainlib.calls.call import Call
from trainlib.deploy.tiles import Tiles
from trainlib.primitive.arguments import TiledArguments
from trainlib.tiling.resident import Resident

PAPER_TILES = 8
"""K_T: how many of the largest tiles the paper's policy tries, unless it is said otherwise."""


@dataclass(frozen=True)
class Space(Cut):
    """The points of a layer on a chip."""

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

        raises    ConfigError for bad arguments; KernelError if the chip has fewer cores, if tensors
                  do not fit L2, or no tile fits
        """
        layer = Layer.of(kernel, arguments)
        checked = layer.checked({})
        if not isinstance(checked, TiledArguments):
            raise KernelError(f"{kernel}: it has no tiles; tune the kernels of its layers")
        given = checked.cores
        own = (chip.cores, max(chip.cores // 2, 1)) if given is None else (given,)
        space = cls(layer, chip, sizes, tuple(dict.fromkeys(cores or own)))
        space.check()
        if not any(space._has_points(*of) for of in product(space.methods, space.cores)):
            space.refuse()
        return space

    def __len__(self) -> int:
        return sum(
            sum(self._ways(method, cores))
            + (not self.is_resident and self.is_shared(kernel, cores))
            for method, cores in product(self.methods, self.cores)
            for kernel in self.blockings(method, cores)
        )

    def __iter__(self) -> Iterator[Point]:
        """Every point: all in L1 first, then larger tiles before smaller ones."""
        for method, cores in product(self.methods, self.cores):
            for kernel in self.blockings(method, cores):
                for point, _ in self.promises(method, kernel, cores):
                    yield point

    def promises(
        self, method: str, kernel: Items, cores: int
    ) -> Iterator[tuple[Point, float | None]]:
        """All points of a blocking, and trainlib's estimates of their cycles if it has any."""
        if self.is_resident_by(method):
            yield Point(None, kernel, 1, cores), None
        elif self.layer.family.emit_l2:
            yield Point(None, kernel, self.own_buffers, cores, True), None
        if not self.is_resident and self.is_shared(kernel, cores):
            yield Point(None, kernel, 2, cores, True), None
        for buffers in (2, 1):
            phases = self.phases(buffers, cores)
            for tile, cycles in phases.estimates() if phases else ():
                yield Point(tile, kernel, buffers, cores, True), cycles
            for tile, cycles in self.estimates(buffers, method, cores).items():
                yield Point(tile, kernel, buffers, cores), cycles

    def has(self, point: Point) -> bool:
        """Can it be built, as far as bytes tell?"""
        method = self.method_of(point.kernel)
        if point.tile is None:
            return True
        if point.is_phased:
            phases = self.phases(point.buffers, point.cores)
            return phases is not None and phases.allows(point.tile)
        return point.tile in self.estimates(point.buffers, method, point.cores)

    def _has_points(self, method: str, cores: int) -> bool:
        """Are there any? That is known long before how many there are, and which is fastest."""
        return (
            self.is_resident_by(method)
            or self.layer.family.emit_l2 is not None
            or any(self.phases(buffers, cores) for buffers in (1, 2))
            or any(self.fits(buffers, method, cores) for buffers in (1, 2))
        )

    def _ways(self, method: str, cores: int) -> Iterator[int]:
        """Yield the number of points of each kind: all in L1; phases and tiles by buffers."""
        yield int(self.is_resident_by(method) or self.layer.family.emit_l2 is not None)
        for buffers in (1, 2):
            phases = self.phases(buffers, cores)
            yield len(phases) if phases else 0
            yield len(self.estimates(buffers, method, cores))

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

    def refuse(self) -> None:
        """Raise KernelError: how many bytes the smallest tile needs."""
        name, buffers = self.layer.kernel, self.layer.given.get("buffers", 1)
        if self.layer.family.phases and not self.has_tiles(buffers):
            self.check_phases(buffers)
        if self.tiling() is None:
            resident = Resident.of(self.layer.family, self._arguments("direct"), self.tensors)
            needed, free = sum(resident.sizes.values()), new_kernel(self.chip).l1.left
            raise KernelError(
                f"{name}: it has no tiles, and all of it needs {needed} bytes of L1, "
                f"{free} are free"
            )
        self.planned_tile(buffers)
        raise KernelError(f"{name}: no tile of {self.sizes} sizes a dimension fits; try more sizes")

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
            ways = [Point(tile, (), 1, cores) for tile in tiles]
            if not tiles and not self.is_resident:
                ways = [self.default()]  # phases, whose tiles the primitive chooses
            kernels = self.paper_kernels(method)
            points += [replace(way, kernel=kernel) for way in ways for kernel in kernels]
        return points

    def paper_tiles(self, budget: int) -> int:
        """The largest K_T with which the paper's policy measures no more points than so many."""
        kernels = sum(len(self.paper_kernels(method)) for method in self.methods)
        return max(budget // kernels, 1)

    def deployed(self) -> Point | None:
        """The tiles that a deployed network has of what would fit L1, see trainlib.deploy.tiles;
        None: it has none, or the layer says how it is cut.
        """
        given, cores = self.layer.given, max(self.cores)
        if not self.is_resident or given.keys() & {"tile", "buffers"}:
            return None
        call = Call("", self.layer.kernel, dict(given), {})
        tile = Tiles.on(self.chip, cores).chosen(call).arguments.get("tile")
        return Point(tuple(tile.items()), (), 2, cores) if tile else None

    def default(self) -> Point:
        """What the primitive does when it is told nothing."""
        cores, buffers = max(self.cores), self.own_buffers
        if self.is_resident:
            return Point(None, (), 1, cores)
        if self.layer.family.emit_l2:
            return Point(None, (), buffers, cores, True)
        if self.is_phased(buffers):
            own = tuple((self.layer.checked({}).tile or {}).items())
            return Point(own, (), buffers, cores, True)
        if self.tiling() is None:
            return Point(None, (), 1, cores)
        if buffers == 2 and self.is_shared((), cores):
            return Point(None, (), 2, cores, True)
        if not self.tiles(buffers, self.methods[0]):
            buffers = 1
        return Point(self.planned_tile(buffers), (), buffers, cores)
