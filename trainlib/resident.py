"""A primitive as a program whose tensors all fit L1: in by DMA, the computation, out by DMA.

Its regions are dma_in, compute and dma_out, barriers included.
"""

from collections.abc import Mapping
from typing import Any

from firmware.builder import Kernel
from firmware.drivers import LONGEST, Dma
from firmware.runtime import Team
from trainlib.kernels import WORD, Family, Tensor


def emit_resident(k: Kernel, team: Team, family: Family, point: Any, l2: Mapping[str, int]) -> None:
    """Emit the body of the program.

    l2        addresses of tensors by name

    raises    KernelError if the tensors do not fit L1
    """
    tensors = family.tensors(point)
    l1 = {name: k.buffer(k.l1, f"{name}_in_L1", t.l1_size) for name, t in tensors.items()}
    read = {name: t for name, t in tensors.items() if t.role in ("in", "inout")}
    written = {name: t for name, t in tensors.items() if t.role in ("out", "inout")}
    _copies(k, team, "dma_in", read, l1, l2, is_in=True)
    with k.region("compute"):
        family.emit_l1(k, team, point, l1)
        team.barrier()
    _copies(k, team, "dma_out", written, l1, l2, is_in=False)


def _copies(
    k: Kernel,
    team: Team,
    region: str,
    tensors: Mapping[str, Tensor],
    l1: Mapping[str, int],
    l2: Mapping[str, int],
    is_in: bool,
) -> None:
    dma = Dma(k)
    with k.region(region):
        with team.only(0), k.scope():
            counter = k.x()
            dma.begin(counter)
            for name, tensor in tensors.items():
                _copy(dma, tensor, l1[name], l2[name], is_in)
            dma.wait(counter)
        team.barrier()


def _copy(dma: Dma, tensor: Tensor, l1: int, l2: int, is_in: bool) -> None:
    """All of a tensor: as it is, or row by row with what pads them in L1."""
    start = dma.to_l1 if is_in else dma.to_l2
    line = WORD * tensor.shape[-1] if tensor.pad else WORD
    piece = LONGEST // line * line
    for at in range(0, tensor.size, piece):
        size = min(piece, tensor.size - at)
        if tensor.pad:
            start(l1 + at // line * tensor.row, l2 + at, size, l1_line=line, l1_stride=tensor.row)
        else:
            start(l1 + at, l2 + at, size)
