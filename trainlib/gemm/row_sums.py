"""Sums of rows of a matrix: the gradient of a bias."""

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.compensated import add_both, limit_lost
from trainlib.codegen.strided_access import Strided
from trainlib.codegen.work_split import Partition, grid_of, heights
from trainlib.gemm.operands import Scale
from trainlib.primitive.element import F32, Element, store
from trainlib.primitive.tensor import WORD, Address

ROWS = 8  # summed up side by side
LANES = 4  # sums of a lone row
LONG = 32  # terms of a sum at most, if there are more
VERY_LONG = 1024  # terms of which the sum of parts is compensated, if there are more


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
                side_by_side = ROWS
                if terms > LONG and element is F32:
                    side_by_side = _fitting(k, part.size, row, term, terms)
                for count, times in heights(part.size, side_by_side).items():
                    with k.loop(times):
                        _block(k, [px, py], Strided(count, row, term, element.size), terms, *how)
                        k.add_constant(px, px, count * row - terms * term, t)
                        k.addi(py, py, WORD * count)


def _fitting(k: Kernel, rows: int, row: int, term: int, terms: int) -> int:
    """Rows side by side, summed up in parts, for which there are registers: a total, a sum and what
    is loaded of each, beside loops and steps.
    """
    is_repeated = any(times > 1 for _, times in _parts(terms))
    kinds = 4 if terms > VERY_LONG else 3
    for count in range(ROWS, 1, -1):
        steps = len(Strided(count, row, term, F32.size).constants)
        needed = steps + 1 + is_repeated + (rows >= 2 * count)
        needed += kinds * count if k.float_file == "x" else 0
        if needed <= len(k.registers.free("x")):
            return count
    return 1


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
        totals, loaded = k.f(values.count), k.f(values.count)
        for e, total in enumerate(totals):
            if accumulate:
                k.fload(total, WORD * e, py)
            else:
                k.fzero(total)
        if terms > LONG and element is F32:
            _add_in_parts(k, px, totals, loaded, values, terms)
        else:
            _add_terms(k, px, totals, loaded, values, terms, element)
        if scale:
            scale.load(k, loaded[0])
            for total in totals:
                k.fmul_s(total, total, loaded[0])
            for e, total in enumerate(totals):
                k.fload(loaded[e], WORD * e, py)
                k.fadd_s(total, total, loaded[e])
        for e in range(values.count):
            store(k, WORD, totals[e], WORD * e, py)


def _add_in_parts(
    k: Kernel, px: Register, totals: list, loaded: list, values: Strided, terms: int
) -> None:
    """Add the terms to the totals in parts: a running sum of many terms loses more by rounding.

    The terms of a lone row go to several sums by turns: an addition need not wait for the last one.
    """
    lanes = LANES if values.count == 1 else 1
    if lanes > 1:
        loaded = [*loaded, *k.f(lanes - 1)]
    sums = k.f(values.count * lanes)
    lost = k.f(values.count) if terms > VERY_LONG else []
    for register in lost:
        k.fzero(register)
    for passes, times in _parts(terms // lanes):
        of = values if lanes == 1 else Strided(lanes, values.along, lanes * values.along)
        with k.loop(times):
            _add_sums(k, px, totals, lost, sums, loaded, of, passes)
    if terms % lanes:
        _add_sums(k, px, totals, lost, sums[:1], loaded, values, terms % lanes)
    for total, register in zip(totals, lost, strict=False):
        limit_lost(k, register)
        k.fadd_s(total, total, register)


def _parts(terms: int) -> list[tuple[int, int]]:
    """(terms of a part, parts): equal parts if LONG or a little less divides them, else a rest."""
    for size in range(LONG, LONG // 2 - 1, -1):
        if terms % size == 0:
            return [(size, terms // size)]
    times, rest = divmod(terms, LONG)
    return [part for part in ((LONG, times), (rest, 1)) if all(part)]


def _add_sums(
    k: Kernel,
    px: Register,
    totals: list,
    lost: list,
    sums: list,
    loaded: list,
    values: Strided,
    passes: int,
) -> None:
    """Add to each total the sums of its terms, from zero on; what that loses, if it is kept."""
    for register in sums:
        k.fzero(register)
    _add_terms(k, px, sums, loaded, values, passes, F32)
    for e, register in enumerate(sums):
        number = e % len(totals)
        if lost:
            add_both(k, totals[number], lost[number], register, loaded[number])
        else:
            k.fadd_s(totals[number], totals[number], register)


def _add_terms(
    k: Kernel,
    px: Register,
    sums: list,
    loaded: list,
    values: Strided,
    passes: int,
    element: Element,
) -> None:
    """Add an element to each sum, so many times."""
    with k.scope():
        steps = {}
        for constant in sorted(values.constants):
            steps[constant] = k.x()
            k.li(steps[constant], constant)
        count = k.x()
        k.li(count, passes)
        with k.hwloop(count):
            for e in values.order:
                values.load(k, loaded[e], e, px, steps)
            element.widen(k, [loaded[e] for e in values.order])
            for e in values.order:
                k.fadd_s(sums[e], sums[e], loaded[e])
            if values.count == 1:
                k.mv(count, count)
