"""Stacks of products: groups of cores compute matrices of their own, where that takes less.

    7 matrices, eight cores    3 for each of two groups of four cores, one after the other;
                               then the last one by all cores

So each core has more of a product: blocks of more sums, for which it loads less.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from firmware.builder import Kernel
from firmware.runtime import Team
from firmware.team import Group
from trainlib.codegen.batch_loop import images_of, rounds_of_images
from trainlib.codegen.work_split import Partition
from trainlib.primitive.tensor import Address
from trainlib.primitive.tile_spec import CodeCost

AROUND = 40  # cycles to find a group's first matrix, and to begin with further ones, nearly
NEW = 1.5  # cycles that an instruction takes in a cache which does not hold it, nearly
CLEARLY = 0.97  # of the cycles by all cores: what groups must stay below, as both are estimates


@dataclass(frozen=True)
class Stacked:
    """Matrices first .. first+count-1, shared by so many groups of cores; 1: all cores."""

    first: int
    count: int
    groups: int

    @property
    def rounds(self) -> int:
        """Matrices of the group that has most."""
        return -(-self.count // self.groups)


Cost = Callable[[int], CodeCost]
"""That of a matrix on so many cores."""


def stack_of(count: int, cores: int, cost: Cost) -> tuple[CodeCost, list[Stacked]]:
    """Who computes which matrices of a stack, and the cost: all by as many cores, or those that
    are left over by more cores each.
    """
    ways = [[Stacked(0, count, groups)] for groups in _groups(cores)]
    for groups in _groups(cores):
        rest = count % groups
        if rest and rest < count:
            whole = Stacked(0, count - rest, groups)
            ways += [[whole, Stacked(count - rest, rest, g)] for g in _groups(cores) if g < groups]
    costs = [_cost(way, cores, cost) for way in ways]
    least = [cost.cycles + NEW * cost.instructions for cost in costs]
    least[0] *= CLEARLY
    best = least.index(min(least))
    return costs[best], ways[best]


def _groups(cores: int) -> list[int]:
    """How many groups there may be: of all cores, or of a power of two."""
    return [1, *(cores // of for of in (8, 4, 2, 1) if of < cores and cores % of == 0)]


def _cost(way: Sequence[Stacked], cores: int, cost: Cost) -> CodeCost:
    each = [(part, cost(cores // part.groups)) for part in way]
    around = AROUND * sum(part.groups > 1 for part in way)
    cycles = around + sum(part.rounds * one.cycles for part, one in each)
    return CodeCost(cycles, sum(one.instructions for _, one in each))


def each_matrix(
    k: Kernel,
    team: Team,
    stack: Sequence[Stacked],
    addresses: Mapping[str, Address],
    apart: Mapping[str, int],
) -> Iterator[tuple[Team, Mapping[str, Address]]]:
    """Emit the loop's body for each part of a stack: with the cores that share a matrix, and the
    registers in which its operands' addresses are.

    addresses    of the first matrix's operands
    apart        bytes from those of a matrix to those of the next

    NOTE: groups may have unequal numbers of matrices, so the body must have no barrier.
    """
    for part in stack:
        if part.groups == 1:
            with images_of(k, part.count, addresses, apart, part.first) as own:
                yield team, own
            continue
        group = Group(team, team.cores // part.groups)
        with k.scope():
            at = dict(zip(addresses, k.x(len(addresses)), strict=True))
            number, t, count = k.x(3)
            group.number(number)
            after = k.label()
            if part.count < part.groups:
                around = k.label()
                k.li(t, part.count)
                k.blt(number, t, around)
                k.j(after)
                k.place(around)
            is_even = part.count % part.groups == 0 or part.rounds == 1
            total = part.rounds * part.groups if is_even else part.count
            sharing = Partition(k, total, part.groups, number, t)
            for share in sharing.parts_of_cores(None if is_even else count):
                for name, register in at.items():
                    sharing.load_start(register, share, addresses[name], apart[name])
                    k.add_constant(register, register, part.first * apart[name], t)
            with k.scope():
                k.free(number, t)
                rounds = part.rounds if is_even else count
                with rounds_of_images(k, rounds, at, apart, list(addresses.values())):
                    yield group, at
            k.place(after)
