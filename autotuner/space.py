"""The space of a layer: every way to compute it that fits the chip, as plain frozen values.

    space = Space.of("linear_fw_f32", {"inputs": 640, "outputs": 128}, load_chip("pulp"))
    len(space), next(iter(space))

A point is a tile, a blocking of the kernel, a number of buffers and of cores. Whether a tile fits
is trainlib's own arithmetic of L1; what only building the program tells (registers, the schedule's
own bytes) makes a point that fails when it is measured.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from firmware.builder import KernelError
from firmware.runtime import new_kernel
from soc.spec import SocSpec
from soc.toml_file import Layer as Source
from soc.toml_file import validated
from trainlib.kernels import Arguments, Family, Tensors
from trainlib.registry import family_of
from trainlib.resident import Resident
from trainlib.tile_choice import Choice, Grid, candidates
from trainlib.tiling import Tiling

Items = tuple[tuple[str, Any], ...]
"""A small table as a frozen value."""

BLOCKS = ((None, None), (4, 4), (2, 4), (4, 2), (2, 2), (1, 4), (1, 8))
"""Rows and columns of sums in registers; None: the kernel's own choice."""

UNROLLS = (1, 2, 4)
METHODS = ("direct", "columns")
SIZES = 6
"""Sizes of each dimension, unless it is said otherwise."""

MOST_TILES = 512
"""Of a layer: a step costs 200 cycles and more beside its work, so smaller tiles do not win."""

SCRATCH_SIZES = 3
"""The same for methods with buffers of their own in L1: what those take is slow to work out."""

PAPER_TILES = 8
"""K_T: how many of the largest tiles the paper's policy tries."""


@dataclass(frozen=True)
class Layer:
    """What is computed, without how.

    kernel       a primitive of trainlib: "conv2d_fw_f32"
    arguments    those that were given, by name
    """

    kernel: str
    arguments: Items

    @classmethod
    def of(cls, kernel: str, arguments: Mapping[str, Any], source: str = "") -> "Layer":
        """Check the arguments.

        source    where they were written, for messages

        raises    ConfigError for an unknown kernel or bad arguments, with every mistake
        """
        layer = cls(kernel, tuple(sorted((n, _frozen(v)) for n, v in arguments.items())))
        layer.checked({}, source)
        return layer

    @property
    def family(self) -> Family:
        """Its primitive."""
        return family_of(self.kernel)

    @property
    def given(self) -> dict[str, Any]:
        """Its arguments by name."""
        return {name: _thawed(value) for name, value in self.arguments}

    def checked(self, more: Mapping[str, Any], source: str = "") -> Any:
        """The primitive's arguments, with more of them."""
        prefix = "args." if source else ""
        given = Source(source or self.kernel, self.given | dict(more), prefix=prefix)
        return validated(self.family.arguments, [given])


@dataclass(frozen=True)
class Point:
    """A way to compute a layer.

    tile       sizes by dimension; None: all of it is in L1 at once
    kernel     the blocking: what is said of rows, cols, unroll, split, method
    buffers    1: copy, then compute; 2: both at the same time
    """

    tile: Items | None
    kernel: Items
    buffers: int
    cores: int

    @property
    def arguments(self) -> dict[str, Any]:
        """As arguments of the primitive."""
        tile = {} if self.tile is None else {"tile": dict(self.tile)}
        return {**tile, **dict(self.kernel), "buffers": self.buffers, "cores": self.cores}

    @property
    def volume(self) -> int:
        """Elements of the tile's loops; 0 where all is in L1."""
        return prod(size for _, size in self.tile or ())

    def __str__(self) -> str:
        tile = "all in L1" if self.tile is None else _shown(self.tile)
        return "  ".join(
            [tile, _shown(self.kernel) or "own blocking", f"{self.buffers} buf", f"{self.cores}c"]
        )


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
        """The space of a layer; cores: those given in the arguments, or else all of the chip.

        raises    ConfigError for bad arguments, KernelError if the layer fits no tile
        """
        layer = Layer.of(kernel, arguments)
        given = layer.checked({}).cores
        space = cls(layer, chip, sizes, cores or (chip.cores if given is None else given,))
        if not space.tiles(1, "direct") and not space.is_resident:
            space.refuse()
        return space

    def __len__(self) -> int:
        kernels = sum(
            len(self.kernels_of(method)) * (self.is_resident_by(method) + self._tilings(method))
            for method in self.methods
        )
        return kernels * len(self.cores)

    def __iter__(self) -> Iterator[Point]:
        """Every point: all in L1 first, then larger tiles before smaller ones."""
        for method in self.methods:
            for kernel, cores in product(self.kernels_of(method), self.cores):
                if self.is_resident_by(method):
                    yield Point(None, kernel, 1, cores)
                for buffers in (2, 1):
                    for tile in self.tiles(buffers, method):
                        yield Point(tile, kernel, buffers, cores)

    def _tilings(self, method: str) -> int:
        return sum(len(self.tiles(buffers, method)) for buffers in (1, 2))

    @cached_property
    def methods(self) -> list[str]:
        """Methods of the primitive; "direct" if it has no others."""
        if "method" not in self.layer.family.arguments.model_fields:
            return ["direct"]
        given = self.layer.given.get("method")
        found = []
        for method in (given,) if given else METHODS:
            try:
                self.tiling(method)
            except KernelError:
                continue
            found.append(method)
        return found

    def kernels_of(self, method: str) -> list[Items]:
        """Blockings of a method, the primitive's own first."""
        return [k for k in self.kernels if dict(k).get("method", "direct") == method]

    @cached_property
    def kernels(self) -> list[Items]:
        """All blockings: each combination of what the primitive can be told, and is not."""
        fields = self.layer.family.arguments.model_fields
        given, choices = self.layer.given, list[list[dict[str, Any]]]()
        if "rows" in fields and "cols" in fields and not {"rows", "cols"} & given.keys():
            choices.append([{} if r is None else {"rows": r, "cols": c} for r, c in BLOCKS])
        if "unroll" in fields and "unroll" not in given:
            own = fields["unroll"].default
            choices.append([{} if n == own else {"unroll": n} for n in _own_first(own, UNROLLS)])
        if "split" in fields and "split" not in given:
            cores = max(self.cores)
            choices.append([{}, {"split": (cores, 1)}, {"split": (1, cores)}])
        if "method" in fields and "method" not in given:
            choices.append([{} if m == "direct" else {"method": m} for m in self.methods])
        return [
            tuple(sorted((n, v) for part in parts for n, v in part.items()))
            for parts in product(*choices)
        ]

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
        most = self.sizes if choice.tiling.scratch is None else min(self.sizes, SCRATCH_SIZES)
        tried = [
            [given[d.name]] if d.name in given else thinned(candidates(d), most)
            for d in choice.tiling.dims
        ]
        grids = [Grid(choice, tried)]
        if choice.tiling.scratch is None and (grids[0].bytes <= choice.free).any():
            grids.append(Grid(choice, [[size] for size in choice.sizes(given).values()]))
        found: dict[Items, float] = {}
        for grid in grids:
            cycles = np.broadcast_to(grid.cycles, grid.bytes.shape).ravel()
            count = np.broadcast_to(_product(grid.parts), grid.bytes.shape)
            fits = (grid.bytes <= choice.free) & (count <= MOST_TILES)
            for at in np.flatnonzero(fits.ravel()):
                found[tuple(grid.sizes(int(at)).items())] = float(cycles[at])
        return sorted(found.items(), key=lambda tile: (-prod(size for _, size in tile[0]), tile[1]))

    def choice(self, buffers: int, method: str = "direct") -> Choice | None:
        """Trainlib's choice of sizes; None if the primitive has no tiles."""
        tiling = self.tiling(method)
        if tiling is None:
            return None
        kernel = new_kernel(self.chip, self.layer.kernel)
        return Choice(self.layer.kernel, tiling, self.tensors, buffers, kernel.l1, 0)

    def refuse(self) -> None:
        """Raise KernelError: how many bytes the smallest tile needs."""
        choice = self.choice(1)
        if choice is None:
            raise KernelError(f"{self.layer.kernel}: it has no tiles, and does not fit L1")
        choice.sizes(self.layer.given.get("tile") or {})
        raise KernelError(f"{self.layer.kernel}: no tile of {self.sizes} sizes a dimension fits L1")

    def paper(self, most: int = PAPER_TILES) -> list[Point]:
        """The paper's subset: all in L1 if it fits, else its largest tiles, times all kernels."""
        cores = max(self.cores)
        if self.is_resident:
            tiles: list[Items | None] = [None]
        else:
            tiles = list(self.tiles(1)[:most])
        return [Point(t, k, 1, cores) for t in tiles for k in self.kernels_of("direct")]

    def default(self) -> Point:
        """What the primitive does when it is told nothing."""
        tile: Items | None = None
        buffers = int(self.layer.checked({}).buffers)
        if self.is_resident:
            buffers = 1
        elif choice := self.choice(buffers):
            tile = tuple(choice.sizes(self.layer.given.get("tile") or {}).items())
        return Point(tile, (), buffers, max(self.cores))

    def with_sizes(self, sizes: int) -> "Space":
        """The same with more sizes of each dimension, or fewer."""
        return replace(self, sizes=sizes)


def thinned(sizes: list[int], most: int) -> list[int]:
    """At most so many of the sizes, the largest and the smallest among them."""
    places = np.linspace(0, len(sizes) - 1, min(most, len(sizes))).round().astype(int)
    return [sizes[at] for at in dict.fromkeys(places.tolist())]


def _product(factors: list[np.ndarray]) -> np.ndarray:
    return reduce(np.multiply, factors, np.ones(()))


def _own_first(own: int, values: tuple[int, ...]) -> list[int]:
    return [own, *(value for value in values if value != own)]


def _shown(items: Items) -> str:
    return " ".join(f"{n}={'x'.join(map(str, v)) if isinstance(v, tuple) else v}" for n, v in items)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return ("table", tuple(sorted((n, _frozen(v)) for n, v in value.items())))
    return ("array", tuple(map(_frozen, value))) if isinstance(value, list | tuple) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, tuple):
        kind, parts = value
        return dict(parts) if kind == "table" else tuple(map(_thawed, parts))
    return value
