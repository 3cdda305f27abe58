"""Sums of rows of a matrix: the gradient of a bias."""

from firmware.builder import Kernel
from firmware.runtime import Team
from trainlib.codegen.strided_access import Strided
from trainlib.codegen.work_split import Partition, grid_of, heights
from trainlib.gemm.operands import Scale
from trainlib.primitive.element import F32, Element, store
from trainlib.primitive.tensor import WORD, Address

ROWS = 8  # summed up side by side


def sums_f32(
    k: Kernel,
    team: Team,
    x: Address,
    y: Address,
    rows: int,
    terms: int,
    *,
    row: int,
    term: int,
    accumulate: bool = False,
    scale: Scale | None = None,
    element: Element = F32,
) -> None:
    """y[r] = sum over t of x[r, t], or added to y.

    row, term    bytes from one row to the next, and from one term to the next
    scale        add scale times whole sums
    element      of x; sums are single precision
    """
    how = accumulate, scale, element
    parts = min(team.cores, rows)
    with k.scope():
        px, py, i, t = k.x(4)
        with grid_of(k, team, (parts, 1), i, i, t):
            partition = Partition(k, rows, parts, i, t)
            for part in partition.parts_of_cores():
                partition.load_start(px, part, x, row)
                partition.load_start(py, part, y, WORD)
                for count, times in heights(part.size, ROWS).items():
                    with k.loop(times):
                        _block(k, [px, py], Strided(count, row, term, element.size), terms, *how)
                        k.add_constant(px, px, count * row - terms * term, t)
                        k.addi(py, py, WORD * count)


def _block(
    k: Kernel,
    pointers: list,
    values: Strided,
    terms: int,
    accumulate: bool,
    scale: Scale | None,
    element: Element,
) -> None:
    """Sum up some rows side by side."""
    px, py = pointers
    with k.scope():
        steps = {}
        for constant in sorted(values.constants):
            steps[constant] = k.x()
            k.li(steps[constant], constant)
        sums, loaded, count = k.f(values.count), k.f(values.count), k.x()
        for e in range(values.count):
            if accumulate:
                k.fload(sums[e], WORD * e, py)
            else:
                k.fzero(sums[e])
        k.li(count, terms)
        with k.hwloop(count):
            for e in values.order:
                values.load(k, loaded[e], e, px, steps)
            element.widen(k, [loaded[e] for e in values.order])
            for e in values.order:
                k.fadd_s(sums[e], sums[e], loaded[e])
            if values.count == 1:
                k.mv(count, count)
        if scale:
            scale.load(k, loaded[0])
            for total in sums:
                k.fmul_s(total, total, loaded[0])
            for e, total in enumerate(sums):
                k.fload(loaded[e], WORD * e, py)
                k.fadd_s(total, total, loaded[e])
        for e in range(values.count):
            store(k, WORD, sums[e], WORD * e, py)
