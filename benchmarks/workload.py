"""Programs whose length, number of cores and pattern of work can be chosen."""

import tarfile
from functools import cache
from pathlib import Path

from firmware.registers import ZERO
from firmware.runtime import new_kernel, team_of
from isa.program import Program
from soc.chip.spec import SocSpec, load_chip
from trainlib.gemm.matmul import matmul_f32
from trainlib.primitive.tensor import WORD

DATA = Path(__file__).parent / "data"
DEPTH, WIDTH, ROWS = 16, 8, 2  # of the products; rows are those of one core
INSTRUCTIONS = 500
"""Of one core's share of a product and the barrier after it, nearly: what repetitions are for."""


@cache
def elf(name: str) -> Program:
    """One of the bare-metal C programs beside the benchmarks: hello, speed2_mm_hwl, ..."""
    with tarfile.open(DATA / "elfs.tar.xz") as archive:
        member = archive.extractfile(f"{name}.elf")
        assert member
        return Program.from_elf(member.read(), f"{name}.elf")


def chip(cores: int = 8, banks: int = 16) -> SocSpec:
    """PULP with another number of cores and banks."""
    return load_chip("pulp", {"cores": cores, "l1.banks": banks})


def products(spec: SocSpec, repetitions: int, *, working: int | None = None) -> Program:
    """Small matrix products, one after the other, a barrier after each.

    working    cores that compute, the others of the chip sleep at a barrier; None: all
    """
    k = new_kernel(spec, "products")
    cores = spec.cores if working is None else working
    n = ROWS * cores
    a_line, b_line = WORD * (DEPTH + 1), WORD * WIDTH
    a = k.buffer(k.l1, "A", n * a_line)
    b = k.buffer(k.l1, "B", DEPTH * b_line)
    c = k.buffer(k.l1, "C", n * b_line)
    with team_of(k, spec, spec.cores) as team:
        left = k.x()
        k.li(left, repetitions)
        with team.only(0) if cores == 1 < spec.cores else k.scope():
            again = k.here()
            matmul_f32(
                k,
                team,
                *(a, b, c, n, DEPTH, WIDTH),
                rows=ROWS,
                cols=4,
                split=(cores, 1),
                a_line=a_line,
            )
            if cores == spec.cores:
                team.barrier()
            k.addi(left, left, -1)
            k.bne(left, ZERO, again)
    return k.build()
