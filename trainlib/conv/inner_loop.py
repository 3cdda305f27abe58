"""The body of an inner loop: multiply-adds, and the loads that feed them, in a good order.

Values are loaded ahead of their use into a pool of registers, are kept while they are needed again
and there is room, and else are loaded again. The last load through a pointer steps it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from firmware.builder import Kernel, Register

REACH = 2047  # bytes that the offset of a load says
PLANS = 4096  # bodies that are remembered: those of layers and tiles are often the same
STEPS = range(-2048, 2048)  # bytes that the step of a load says
CACHED = 120  # instructions of a loop that a core's own cache holds, 128 less what stands around
REFETCH = 0.65  # cycles more that an instruction takes which comes from the shared cache
AHEAD = 4  # multiply-adds for whose operands loads are looked for


class Value(NamedTuple):
    """A float in memory: a stream of them, and its distance in bytes from the stream's place."""

    stream: str
    offset: int


class Mac(NamedTuple):
    """sums[acc] += u * v."""

    acc: int
    u: Value
    v: Value


class Load(NamedTuple):
    """Load a value into a register of the pool."""

    register: int
    value: Value


class Use(NamedTuple):
    """A multiply-add of two registers of the pool."""

    acc: int
    u: int
    v: int


Step = Load | Use


def plan(macs: Sequence[Mac], pool: int) -> list[Step]:
    """Order loads and multiply-adds, with so many registers for what is loaded; 2 at least."""
    uses: dict[Value, list[int]] = {}
    for at, mac in enumerate(macs):
        for value in mac[1:]:
            uses.setdefault(value, []).append(at)
    held: dict[Value, int] = {}
    free = list(range(pool))
    steps: list[Step] = []
    at = 0
    while at < len(macs):
        window = (value for mac in macs[at : at + AHEAD] for value in mac[1:])
        missing = next((value for value in window if value not in held), None)
        now = macs[at][1:]
        if missing is not None and not free and missing in now:
            kept = [value for value in held if value not in now]
            farthest = max(kept, key=lambda value: next(u for u in uses[value] if u >= at))
            free.append(held.pop(farthest))
        if missing is not None and free:
            held[missing] = free.pop(0)
            steps.append(Load(held[missing], missing))
            continue
        steps.append(Use(macs[at].acc, held[now[0]], held[now[1]]))
        at += 1
        for value in dict.fromkeys(now):
            if uses[value][-1] < at:
                free.append(held.pop(value))
    return steps


@lru_cache(PLANS)
def _remembered(macs: tuple[Mac, ...], pool: int) -> tuple[Step, ...]:
    return tuple(plan(macs, pool))


@dataclass(frozen=True)
class Pointer:
    """A register through which some values of a stream are loaded: those in its reach.

    bias    its distance in bytes from the stream's place, when the body starts
    """

    stream: str
    bias: int
    offsets: frozenset[int]


def loop_cycles(instructions: float) -> float:
    """Cycles of a round of a loop, nearly: one that no cache of a core holds is fetched anew."""
    return instructions * (1 if instructions <= CACHED else 1 + REFETCH)


Reach = tuple[str, frozenset[int]]
"""A stream, and those of its offsets that one pointer reaches."""


def reaches_of(macs: Iterable[Mac], streams: Iterable[str]) -> list[Reach]:
    """What each pointer reaches, with as few as there can be."""
    values = {value for mac in macs for value in mac[1:]}
    found: list[Reach] = []
    for stream in streams:
        groups: list[list[int]] = []
        for offset in sorted(value.offset for value in values if value.stream == stream):
            if groups and offset - groups[-1][0] <= REACH:
                groups[-1].append(offset)
            else:
                groups.append([offset])
        found += [(stream, frozenset(group)) for group in groups]
    return found


class Body:
    """A body, planned when it is needed.

    macs        in the order in which they are done
    pool        registers for what is loaded
    strides     bytes that each stream's pointers step on, once
    reaches     what each pointer reaches, where other bodies share the pointers
    """

    def __init__(
        self,
        macs: Sequence[Mac],
        pool: int,
        strides: Mapping[str, int],
        reaches: Sequence[Reach] | None = None,
    ) -> None:
        self.macs, self.pool, self.strides = macs, pool, strides
        self.reaches = reaches_of(macs, strides) if reaches is None else reaches

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Loads and multiply-adds in order."""
        return _remembered(tuple(self.macs), self.pool)

    @property
    def cycles(self) -> int:
        """Cycles of the body; a load that is used at once takes one more."""
        stalls = sum(
            isinstance(first, Load) and isinstance(use, Use) and first.register in use[1:]
            for first, use in pairwise(self.steps)
        )
        return len(self.steps) + stalls

    @cached_property
    def pointers(self) -> list[Pointer]:
        """Through which it loads; each one's bias is that of what is loaded last through it."""
        last = {step.value: at for at, step in self._loads}
        return [
            Pointer(stream, max(reach, key=lambda o: (last.get(Value(stream, o), -1), -o)), reach)
            for stream, reach in self.reaches
        ]

    @property
    def constants(self) -> list[int]:
        """Steps that must be in registers."""
        steps = {self.strides[stream] for stream, _ in self.reaches}
        return sorted(step for step in steps if step not in STEPS)

    def emit(
        self,
        k: Kernel,
        sums: Sequence[Register],
        pool: Sequence[Register],
        pointers: Sequence[Register],
        constants: Mapping[int, Register],
    ) -> None:
        """Emit the body; pointers in the order of its own, constants by their value."""
        of = {Value(p.stream, o): i for i, p in enumerate(self.pointers) for o in p.offsets}
        last = {of[step.value]: at for at, step in self._loads}
        for at, step in enumerate(self.steps):
            if isinstance(step, Use):
                acc = sums[step.acc]
                k.fmadd_s(acc, pool[step.u], pool[step.v], acc)
                continue
            index, stride = of[step.value], self.strides[step.value.stream]
            register, pointer = pool[step.register], pointers[index]
            if last[index] == at and stride:
                k.fload_post(register, constants.get(stride, stride), pointer)
            else:
                k.fload(register, step.value.offset - self.pointers[index].bias, pointer)
        for index in range(len(self.pointers)):
            stride = self.strides[self.pointers[index].stream]
            if index in last or not stride:
                continue
            if stride in constants:
                k.add(pointers[index], pointers[index], constants[stride])
            else:
                k.addi(pointers[index], pointers[index], stride)

    @property
    def _loads(self) -> list[tuple[int, Load]]:
        return [(at, step) for at, step in enumerate(self.steps) if isinstance(step, Load)]
