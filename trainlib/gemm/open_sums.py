"""Sums of products along the depth in two lanes, which stay open from tile to tile.

A word of them has the sum of even steps, low, and that of odd ones. So tiles along what is summed
over change no bit: lanes are added to each other once, when all products are in them.
"""

from collections.abc import Callable

from firmware.builder import Kernel, Register
from firmware.runtime import Team
from trainlib.codegen.work_split import Partition, grid_of
from trainlib.primitive.element import Element, load_post, store_post
from trainlib.primitive.tensor import WORD, Address

PAIR = 2
Size = tuple[int, int]


def open_sums(
    k: Kernel, team: Team, element: Element, halves: Address, row: int, sums: Address, size: Size
) -> None:
    """Begin sums with what a matrix of halves holds, its rows `row` bytes apart: the low lanes."""

    def copy(source: Register, target: Register, count: int) -> None:
        registers = k.x(count)
        for register in registers:
            load_post(k, element.size, register, element.size, source, is_unsigned=True)
        for register in registers:
            k.store_post(register, WORD, target)

    _each(k, team, (halves, row, element.size), (sums, WORD * size[1], WORD), size, copy)


def close_sums(
    k: Kernel, team: Team, element: Element, sums: Address, halves: Address, row: int, size: Size
) -> None:
    """Add lanes to each other: what sums[rows, columns] leave in a matrix of halves."""
    add = element.scalar(k, "fadd")

    def close(source: Register, target: Register, count: int) -> None:
        lanes, highs = k.x(count), k.x(count)
        for register in lanes:
            k.load_post(register, WORD, source)
        for register, high in zip(lanes, highs, strict=True):
            k.srli(high, register, 8 * element.size)
        for register, high in zip(lanes, highs, strict=True):
            add(register, register, high)
        for register in lanes:
            store_post(k, element.size, register, element.size, target)

    _each(k, team, (sums, WORD * size[1], WORD), (halves, row, element.size), size, close)


Side = tuple[Address, int, int]
"""A matrix: its address, bytes from one row to the next, and from one column to the next."""


def _each(
    k: Kernel,
    team: Team,
    source: Side,
    target: Side,
    size: Size,
    body: Callable[[Register, Register, int], None],
) -> None:
    """Pass over two matrices on all cores, a pair of columns at a time: the body goes on by it."""
    rows, columns = size
    parts = min(team.cores, rows)
    with k.scope():
        px, py, i, t, left = k.x(5)
        pointers = (px, py)
        with grid_of(k, team, (parts, 1), i, i, t):
            partition = Partition(k, rows, parts, i, t)
            for part in partition.parts_of_cores():
                for pointer, (address, row, _) in zip(pointers, (source, target), strict=True):
                    partition.load_start(pointer, part, address, row)
                with k.loop(part.size):
                    _row(k, pointers, columns, left, body)
                    for pointer, (_, row, step) in zip(pointers, (source, target), strict=True):
                        k.add_constant(pointer, pointer, row - columns * step, t)


def _row(
    k: Kernel,
    pointers: tuple[Register, Register],
    columns: int,
    left: Register,
    body: Callable[[Register, Register, int], None],
) -> None:
    pairs, rest = divmod(columns, PAIR)
    if pairs:
        k.li(left, pairs)
        with k.hwloop(left), k.scope():
            body(*pointers, PAIR)
    if rest:
        with k.scope():
            body(*pointers, 1)
