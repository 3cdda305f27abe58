"""Operands of a nest of loops: elements of tensors in L1, and the dimensions that they have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from firmware.builder import Kernel, Register
from firmware.lanes import Lane
from trainlib.primitive.element import F32, Element, load, store_rounded
from trainlib.primitive.tensor import WORD, Address


@dataclass(frozen=True)
class Operand:
    """Elements in L1: the address of the first, and bytes between neighbours in each dimension.

    offset    a register that is added to the address
    shift     bytes that are added too
    element   their type; halves are single precision in registers
    """

    address: Address
    steps: tuple[int, ...]
    offset: Register | None = None
    shift: int = 0
    element: Element = F32


def row_major(address: Address, dims: Sequence[int], element: Element = F32) -> Operand:
    """A tensor without gaps."""
    steps = tuple(element.size * prod(dims[axis + 1 :]) for axis in range(len(dims)))
    return Operand(address, steps, element=element)


BANKS = 16  # of the usual L1
LONG = 4  # elements of an innermost loop whose bank matters
Space = tuple[tuple[int, ...], list[Operand]]


def merged(dims: Sequence[int], operands: Sequence[Operand], first: int = 0) -> Space:
    """The same elements in as few dimensions as possible, at least one; `first` ones stay."""
    kept: list[tuple[int, list[int]]] = []
    for axis, count in enumerate(dims):
        steps = [operand.steps[axis] for operand in operands]
        if count == 1 and axis >= first:
            continue
        if len(kept) > first and kept[-1][1] == [count * step for step in steps]:
            kept[-1] = kept[-1][0] * count, steps
        else:
            kept.append((count, steps))
    if len(kept) == first:
        kept.append((1, [WORD] * len(operands)))
    return _space(kept, operands)


def partitioned(dims: tuple[int, ...], operands: list[Operand], cores: int) -> Space:
    """The same elements with the one to partition first; the innermost may be cut for it."""
    if len(dims) == 1 or cores == 1:
        return dims, operands
    axes = [(n, [o.steps[axis] for o in operands]) for axis, n in enumerate(dims)]
    total, inner = prod(dims), dims[-1]
    orders = [(-(-n // cores) * (total // n), [i]) for i, n in enumerate(dims)]
    cuts = [(-(-n // cores) * (total // n), n) for n in range(2, inner) if inner % n == 0]
    least, order = min(orders, key=lambda choice: choice[0])
    if cuts and min(cuts)[0] <= least and order == [len(dims) - 1]:
        parts = min(cuts)[1]
        steps = axes[-1][1]
        axes[-1] = inner // parts, steps
        axes.insert(0, (parts, [step * (inner // parts) for step in steps]))
        order = [0]
    axes.insert(0, axes.pop(order[0]))
    return _space(axes, operands)


def dealt(dims: tuple[int, ...], operands: list[Operand], cores: int) -> Space:
    """The same elements, of which each core has every so many in the first dimension, not a run of
    them, if then operands whose innermost loops stay in a bank or two are in more banks at a time:
    columns of matrices whose rows begin in the same bank.
    """
    runs, rest = divmod(dims[0], cores)
    if rest or len(dims) == 1 or dims[-1] < LONG:
        return dims, operands
    stuck = [o for o in operands if o.steps[-1] and o.steps[-1] % (WORD * BANKS // 2) == 0]
    if _banks(stuck, cores, 1) <= _banks(stuck, cores, runs):
        return dims, operands
    moved = [replace(o, steps=(o.steps[0], cores * o.steps[0], *o.steps[1:])) for o in operands]
    return (cores, runs, *dims[1:]), moved


def _banks(operands: list[Operand], cores: int, run: int) -> int:
    """In how many banks cores begin that have runs of the first dimension, added up."""
    starts = ({core * run * o.steps[0] // WORD % BANKS for core in range(cores)} for o in operands)
    return sum(map(len, starts))


def _space(axes: list[tuple[int, list[int]]], operands: Sequence[Operand]) -> Space:
    steps = zip(*(steps for _, steps in axes), strict=True) if operands else ()
    moved = [replace(o, steps=tuple(s)) for o, s in zip(operands, steps, strict=True)]
    return tuple(count for count, _ in axes), moved


@dataclass(frozen=True)
class Window:
    """The surroundings of a source's elements: a body loads and stores there as it likes.

    pointer    to the first lane's element; of a counter, its number
    step       from lane to lane
    """

    k: Kernel
    pointer: Register
    step: int
    element: Element = F32

    def load(self, value: Lane, offset: int = 0, *, is_unsigned: bool = False) -> None:
        """Load the elements so many bytes away; is_unsigned: what is above a half is zero."""
        k, size = self.k, self.element.size
        for lane, register in enumerate(value):
            at = lane * self.step + offset
            load(k, size, register, at, self.pointer, is_unsigned=is_unsigned)
        self.element.widen(self.k, value)

    def store(self, value: Lane, offset: int = 0) -> None:
        """Store to the elements so many bytes away."""
        for lane, register in enumerate(value):
            store_rounded(self.k, self.element, register, lane * self.step + offset, self.pointer)

    def count(self, value: Lane) -> None:
        """Load the number of each lane."""
        for lane, register in enumerate(value):
            self.k.addi(register, self.pointer, lane * self.step)

    def add_count(self, value: Lane) -> None:
        """Add the number of each lane."""
        for lane, register in enumerate(value):
            self.k.add(register, register, self.pointer)
            if lane:
                self.k.addi(register, register, lane * self.step)
