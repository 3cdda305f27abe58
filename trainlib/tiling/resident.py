"""A primitive as a program whose tensors all fit L1: in by DMA, the computation, out by DMA.

Its regions are dma_in, compute and dma_out, barriers included.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import sub
from typing import Any

from firmware.arena import Arena
from firmware.builder import Kernel, KernelError
from firmware.drivers import Dma
from firmware.fetch_ahead import ahead
from firmware.runtime import Team
from trainlib.primitive.operator import Family
from trainlib.primitive.slices import Box, TensorSlice
from trainlib.primitive.tensor import Addresses, Tensor, Tensors
from trainlib.primitive.tile_spec import Tile, Tiling
from trainlib.tiling.dma_commands import copies
from trainlib.tiling.records import Far, bases_of, start_copies
from trainlib.tiling.warm_up import passes

ALIGNED = 64  # bytes: buffers begin in the first of 16 banks, whatever lies before them


@dataclass(frozen=True)
class Resident:
    """The content of L1: boxes of tensors, further buffers by their bytes, and what computes."""

    tensors: Tensors
    boxes: Mapping[str, Box]
    scratch: Mapping[str, int]
    compute: Callable[[Kernel, Team, Addresses], None]

    @classmethod
    def of(
        cls, family: Family, point: Any, tensors: Tensors, *, keeps_all: bool = False
    ) -> "Resident":
        """All of a primitive.

        keeps_all    tensors are in L1 as a whole, with what it does not need of them, as others
                     that share them expect it
        """
        emit_l1 = family.emit_l1
        if emit_l1 is None:
            assert family.tiling is not None
            return cls.of_tiling(family.tiling(point), tensors, keeps_all)
        return cls(
            tensors,
            {name: Box.of_all(t) for name, t in tensors.items() if t.role != "scratch"},
            {name: t.l1_size for name, t in tensors.items() if t.role == "scratch"},
            lambda k, team, l1: emit_l1(k, team, point, l1),
        )

    @classmethod
    def of_tiling(cls, tiling: Tiling, tensors: Tensors, keeps_all: bool = False) -> "Resident":
        """All of a primitive as one tile.

        Its compute raises KernelError if tensors that others share need forms of their own.
        """
        if keeps_all:
            tensors = {name: replace(t, skew=None, pad=0) for name, t in tensors.items()}
        tile = tiling.whole(tensors)
        if keeps_all:
            boxes = {n: replace(b, part=_all_of(tensors[n], b)) for n, b in tile.boxes.items()}
            parts = tuple((name, box.part) for name, box in boxes.items())
            tile = Tile(replace(tile.shape, parts=parts), boxes)
        scratch = tiling.scratch(tile.shape) if tiling.scratch else {}

        def compute(k: Kernel, team: Team, l1: Addresses) -> None:
            needed = [name for name, form in tiling.forms.items() if form.is_needed]
            if keeps_all and needed:
                raise KernelError(
                    f"{k.name}: others share {', '.join(needed)} in L1, where the method "
                    f"needs another layout; take the direct one"
                )
            tiling.emit(k, team, tile.shape, l1)

        return cls(tensors, tile.boxes, scratch, compute)

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of all buffers."""
        parts = {f"{name}_in_L1": box.part.size for name, box in self.boxes.items()}
        return parts | dict(self.scratch)

    def fits(self, l1: Arena) -> bool:
        """Is there room for all of it?"""
        trial = Arena(l1.name, l1.next, l1.left)
        try:
            for name, size in self.sizes.items():
                trial.take(name, size + l1.guard, ALIGNED)
        except KernelError:
            return False
        return True

    def emit(self, k: Kernel, team: Team, l2: Mapping[str, Far], *, is_warm: bool = False) -> None:
        """Emit the body of the program.

        l2         addresses of tensors by name
        is_warm    compute twice from the same values, and measure the second time

        raises    KernelError if it does not fit L1
        """
        l1 = {name: k.buffer(k.l1, name, size, ALIGNED) for name, size in self.sizes.items()}
        parts = {name: l1[f"{name}_in_L1"] for name in self.boxes}
        for name, address in parts.items():
            if padding := self.tensors[name].padding:
                k.name_part(f"{padding}{name}", address, self.boxes[name].part.size)
        read = [name for name in parts if self.tensors[name].role != "out"]
        written = [name for name in parts if self.tensors[name].role != "in"]
        again = [name for name in read if is_warm and self.tensors[name].role == "inout"]
        first = [name for name in read if name not in again]
        is_called = bases_of(l2.values()) is not None
        with ahead(k, team, is_called) as fetch:
            self._copy(k, team, "dma_in", first, parts, l2, fetch if is_called else None)
            with passes(k, team, is_warm) as region:
                if again:
                    self._copy(k, team, "dma_in", again, parts, l2)
                with region("compute"):
                    self.compute(k, team, {**l1, **parts})
                    team.barrier()
            self._copy(k, team, "dma_out", written, parts, l2)

    def _copy(
        self,
        k: Kernel,
        team: Team,
        region: str,
        names: Iterable[str],
        l1: Mapping[str, int],
        l2: Mapping[str, Far],
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Copy all of these in or out; `meanwhile` emits what all cores do while copies run."""
        dma, is_called = Dma(k), bases_of(l2.values()) is not None
        with k.region(region), k.compact(is_called), k.scope():
            counter = k.x()
            with team.only(0):
                dma.begin(counter)
                start_copies(
                    k,
                    (
                        copy.words(region == "dma_in", l1[name], l2[name])
                        for name in names
                        for copy in copies(self.tensors[name], self.boxes[name])
                    ),
                )
                if not meanwhile:
                    dma.wait(counter)
            if meanwhile:
                meanwhile()
                with team.only(0):
                    dma.wait(counter)
            team.barrier()


def _all_of(tensor: Tensor, box: Box) -> TensorSlice:
    """The part that is needed, where all of the tensor lies by rows: what is in front is less than
    none.
    """
    before = tuple(map(sub, box.part.before, box.start))
    return replace(box.part, shape=tensor.shape, before=before, row=tensor.row, form=None)
