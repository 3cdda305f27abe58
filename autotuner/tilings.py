"""How a layer is cut on a chip: all in L1, by tiles, or in phases that have tiles of their own."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod

from autotuner.blockings import methods
from autotuner.phase_tiles import PhaseTiles
from autotuner.point import Items, Layer
from autotuner.schedule_size import Tables
from autotuner.tile_candidates import MOST_TILES, SIZES, Estimates, count_of, fitting_tiles, tried
from firmware.builder import Kernel, KernelError
from firmware.runtime import Team, new_kernel
from soc.chip.spec import SocSpec
from trainlib.launch import BURST
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.phases import check_tile
from trainlib.primitive.tensor import Tensors
from trainlib.primitive.tile_spec import Tiling
from trainlib.tiling.dispatch import has_tiles
from trainlib.tiling.line_schedule import lines_of_cores
from trainlib.tiling.per_core_schedule import share_of
from trainlib.tiling.plan import Plan
from trainlib.tiling.resident import Resident
from trainlib.tiling.tile_size import Choice, Grid

SCRATCH_SIZES = 3
"""Sizes for methods with columns in L1: what those take is slow to work out."""


@dataclass(frozen=True)
class Cut:
    """The ways to cut a layer.

    sizes    of each dimension, at most
    cores    numbers of cores that are tried
    """

    layer: Layer
    chip: SocSpec
    sizes: int = SIZES
    cores: tuple[int, ...] = ()

    @cached_property
    def tensors(self) -> Tensors:
        """Operands by name."""
        return self.layer.family.tensors(self.layer.checked({}))

    def check(self) -> None:
        """Raise KernelError for more cores than there are, or tensors that do not fit L2.

        Nor may the layer give sizes of dimensions that there are not.
        """
        name, chip = self.layer.kernel, self.chip
        cores = self.layer.checked({}).cores
        if cores is not None and cores > chip.cores:
            raise KernelError(f"{name}: cores {cores}: the chip {chip.name} has {chip.cores}")
        in_l2 = [tensor.size for tensor in self.tensors.values() if tensor.role != "scratch"]
        free = new_kernel(chip).l2.left
        if sum(in_l2) > free:
            raise KernelError(
                f"{name}: its tensors need {sum(in_l2)} bytes of L2, {free} are free; take "
                f"smaller ones"
            )
        family = self.layer.family
        point = self.layer.checked({})
        if family.phases and self.is_phased(self.own_buffers):
            check_tile(self.layer.kernel, family.phases(point), point.tile or {})
        elif choice := self.choice(self.own_buffers):
            choice.check(point.tile or {})

    def kernel(self) -> Kernel:
        """An empty program with the tensors in L2.

        raises    KernelError if they do not fit
        """
        k = new_kernel(self.chip, self.layer.kernel)
        for name, tensor in self.tensors.items():
            if tensor.role != "scratch":
                k.buffer(k.l2, name, tensor.size, BURST)
        return k

    @property
    def own_buffers(self) -> int:
        """Buffers that the layer has if it is told nothing else."""
        return int(self.layer.checked({}).buffers)

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

    def tiling(self, method: str = "direct") -> Tiling | None:
        """How it is cut; None: it is not."""
        cut = self.layer.family.tiling
        return cut(self._arguments(method)) if cut else None

    def _arguments(self, method: str) -> TiledArguments:
        checked = self.layer.checked({} if method == "direct" else {"method": method})
        return checked.on(max(self.cores))

    def choice(self, buffers: int, method: str = "direct") -> Choice | None:
        """Trainlib's choice of sizes; None if the primitive has no tiles."""
        tiling = self.tiling(method)
        if tiling is None:
            return None
        kernel = new_kernel(self.chip, self.layer.kernel)
        return Choice(self.layer.kernel, tiling, self.tensors, buffers, kernel.l1, 0)

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

    def is_phased(self, buffers: int) -> bool:
        """Is it computed in phases where it is not all in L1?"""
        return self.layer.family.phases is not None and not self.has_tiles(buffers)

    def has_tiles(self, buffers: int) -> bool:
        """Are there tiles of all of it?"""
        if self.layer.family.phases is None:
            return self.layer.family.tiling is not None
        point = self.layer.checked({"buffers": buffers}).on(self.chip.cores)
        return has_tiles(new_kernel(self.chip), self.layer.family, point, point.likely_cores)

    def is_shared(self, kernel: Items, cores: int) -> bool:
        """Does each core compute its share by itself, with this blocking and no sizes of tiles?"""
        key = kernel, cores
        if key not in self._shared:
            self._shared[key] = self._has_shares(kernel, cores)
        return self._shared[key]

    @cached_property
    def _shared(self) -> dict[tuple[Items, int], bool]:
        return {}

    def _has_shares(self, kernel: Items, cores: int) -> bool:
        given, cut, buffers = self.layer.given, self.layer.family.tiling, 2
        if cut is None or given.get("buffers", buffers) != buffers or not self.has_tiles(buffers):
            return False
        try:
            tiling = cut(self.layer.checked(dict(kernel) | {"cores": cores}))
        except KernelError:
            return False
        k, tile = self.kernel(), given.get("tile") or {}
        of = k, Team(k, cores), tiling, self.tensors, tile, buffers
        return share_of(*of) is not None or lines_of_cores(*of) is not None

    def phases(self, buffers: int, cores: int) -> PhaseTiles | None:
        """Tiles of the phases; None if it is not computed in any."""
        key = buffers, cores
        if key not in self._phases:
            is_asked = self.layer.given.get("buffers", buffers) == buffers
            self._phases[key] = (
                PhaseTiles.of(self.layer, self.kernel(), self.sizes, buffers, cores)
                if is_asked and self.is_phased(buffers)
                else None
            )
        return self._phases[key]

    @cached_property
    def _phases(self) -> dict[tuple[int, int], PhaseTiles | None]:
        return {}

    def tiles(self, buffers: int, method: str = "direct") -> list[Items]:
        """Tiles that fit L1 with most cores, the largest first."""
        return list(self.estimates(buffers, method, max(self.cores)))

    def estimates(self, buffers: int, method: str, cores: int) -> Estimates:
        """Tiles that fit L1 and trainlib's estimate of their cycles, the largest first."""
        key = buffers, method, cores
        if key not in self._estimates:
            tiles = self._tiles(*key).items() if self._are_asked(buffers) else ()
            largest = sorted(tiles, key=lambda t: (-prod(size for _, size in t[0]), t[1]))
            self._estimates[key] = dict(largest)
        return self._estimates[key]

    @cached_property
    def _estimates(self) -> dict[tuple[int, str, int], Estimates]:
        return {}

    def fits(self, buffers: int, method: str, cores: int) -> bool:
        """Does any tile fit L1? Asked before the fastest one is looked for."""
        if not self._are_asked(buffers):
            return False
        return bool(self._few(buffers, method, cores) or self.estimates(buffers, method, cores))

    def _are_asked(self, buffers: int) -> bool:
        """May there be tiles with so many buffers?"""
        return self.layer.given.get("buffers", buffers) == buffers and self.has_tiles(buffers)

    def _few(self, buffers: int, method: str, cores: int) -> Estimates:
        """Those of few steps."""
        key = buffers, method, cores
        if key not in self._found:
            tables = self._tables(buffers, method)
            self._found[key] = fitting_tiles([tables], cores, self._l2_left, are_few=True)
        return self._found[key]

    @cached_property
    def _found(self) -> dict[tuple[int, str, int], Estimates]:
        return {}

    def _tiles(self, buffers: int, method: str, cores: int) -> Estimates:
        tables, l2 = self._tables(buffers, method), self._l2_left
        grid = tables.grid
        own = self._own_tile(grid, cores) if method == self.methods[0] else {}
        few = self._few(buffers, method, cores)
        if few or any(count_of(grid.dims, dict(tile)) <= MOST_TILES for tile in own):
            return few | own
        return fitting_tiles([tables], cores, l2, are_few=False) | own

    def _own_tile(self, grid: Grid, cores: int) -> Estimates:
        """Return the primitive's own tile, if it fits with so many cores."""
        choice = grid.choice
        is_slow = choice.tiling.scratch is not None and self.is_resident
        if is_slow or not (grid.bytes <= choice.free).any():
            return {}
        if not self.is_resident and cores == max(self.cores):
            with suppress(KernelError):
                planned = dict(self.planned_tile(choice.buffers))
                alone = choice.grid(planned)
                return {tuple(planned.items()): float(alone.cycles.item())}
        sizes = choice.sizes(self.layer.given.get("tile") or {})
        alone, l2 = choice.grid(sizes), self._l2_left
        return fitting_tiles([Tables(alone)], cores, l2, are_few=True)

    def _tables(self, buffers: int, method: str) -> Tables:
        """Return the candidate tiles and their tables."""
        key = buffers, method
        if key not in self._tried:
            choice = self.choice(buffers, method)
            assert choice is not None
            has_columns = choice.tiling.scratch is not None or choice.tiling.forms
            most = min(self.sizes, SCRATCH_SIZES) if has_columns else self.sizes
            given = self.layer.given.get("tile") or {}
            self._tried[key] = Tables(Grid(choice, tried(choice.tiling.dims, given, most)))
        return self._tried[key]

    @cached_property
    def _tried(self) -> dict[tuple[int, str], Tables]:
        return {}

    @cached_property
    def _l2_left(self) -> int:
        return self.kernel().l2.left

    def planned_tile(self, buffers: int) -> Items:
        """The tile that the primitive chooses: with room for the table of steps.

        raises    KernelError if none fits
        """
        if buffers not in self._planned:
            tiling = self.tiling()
            assert tiling is not None
            k = self.kernel()
            given = self.layer.given.get("tile") or {}
            plan = Plan.of(k, Team(k, max(self.cores)), tiling, self.tensors, given, buffers)
            self._planned[buffers] = plan.tile
        return self._planned[buffers]

    @cached_property
    def _planned(self) -> dict[int, Items]:
        return {}

    def check_phases(self, buffers: int) -> None:
        """Raise KernelError if a phase has no tile that fits, with the sizes that are given."""
        k, family = self.kernel(), self.layer.family
        point = self.layer.checked({}).on(max(self.cores))
        assert family.phases is not None
        tile = point.tile or {}
        for phase in family.phases(point).each:
            how = phase.tiling, phase.tensors, phase.sizes(tile), buffers
            Plan.of(k, Team(k, max(self.cores)), *how)
