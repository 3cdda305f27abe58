"""The body of an inner loop: multiply-adds, and the loads that feed them, in a good order.

Values are loaded ahead of their use into a pool of registers, are kept while they are needed again
and there is room, and else are loaded again. The last load through a pointer steps it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from firmware.builder import Kernel, Register
from trainlib.primitive.element import Element, load, load_post
from trainlib.primitive.tensor import WORD

REACH = 2047  # bytes that the offset of a load says
PLANS = 4096  # bodies that are remembered: those of layers and tiles are often the same
STEPS = range(-2048, 2048)  # bytes that the step of a load says
CACHED = 120  # instructions of a loop that a core's own cache holds, 128 less what stands around
REFETCH = 0.65  # cycles more that an instruction takes which comes from the shared cache
AHEAD = 4  # multiply-adds for whose operands loads are looked for


Kind = Literal["word", "half", "low", "high"]
"""What a value is: a float or two halves; a half; a half below zero bits, or above them."""


class Value(NamedTuple):
    """A float in memory: a stream of them, and its distance in bytes from the stream's place.

    Or halves; places of streams are those of words.
    """

    stream: str
    offset: int
    kind: Kind = "word"

    @property
    def cycles(self) -> int:
        """Cycles of its load: a word in two others takes one more, and so do a shift and its wait.

        Source: rtl/README of the measurements, misaligned accesses.
        """
        if self.kind == "high":
            return 3
        return 2 if self.kind == "word" and self.offset % WORD else 1

    def load(self, k: Kernel, rd: Register, offset: int, p: Register) -> None:
        """Load it from an offset."""
        load(k, self._bytes, rd, offset, p, is_unsigned=self.kind != "half")
        self._shift(k, rd)

    def load_post(self, k: Kernel, rd: Register, step: Register | int, p: Register) -> None:
        """Load it, and step the pointer on."""
        load_post(k, self._bytes, rd, step, p, is_unsigned=self.kind != "half")
        self._shift(k, rd)

    @property
    def _bytes(self) -> int:
        return WORD if self.kind == "word" else WORD // 2

    def _shift(self, k: Kernel, rd: Register) -> None:
        if self.kind == "high":
            k.slli(rd, rd, 4 * WORD)


class Mac(NamedTuple):
    """sums[acc] += u * v; what that means of halves, see Body."""

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


Multiply = Callable[[Kernel, Register, Register, Register], None]


def single(k: Kernel, acc: Register, u: Register, v: Register) -> None:
    """Of floats."""
    k.fmadd_s(acc, u, v, acc)


def halves(element: Element) -> Multiply:
    """Of single halves."""

    def multiply(k: Kernel, acc: Register, u: Register, v: Register) -> None:
        element.scalar(k, "fmadd")(acc, u, v, acc)

    return multiply


def pairs(element: Element, *, is_one: bool) -> Multiply:
    """Of two halves each; is_one: u is one, which both of v are multiplied by."""

    def multiply(k: Kernel, acc: Register, u: Register, v: Register) -> None:
        element.pairs(k, "vfmac_r" if is_one else "vfmac")(acc, v, u)

    return multiply


class Body:
    """A body, planned when it is needed.

    macs        in the order in which they are done
    pool        registers for what is loaded
    strides     bytes that each stream's pointers step on, once
    reaches     what each pointer reaches, where other bodies share the pointers
    multiply    emit acc += u * v, given registers
    """

    def __init__(
        self,
        macs: Sequence[Mac],
        pool: int,
        strides: Mapping[str, int],
        reaches: Sequence[Reach] | None = None,
        multiply: Multiply = single,
    ) -> None:
        self.macs, self.pool, self.strides = macs, pool, strides
        self.multiply = multiply
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
        loads = sum(step.value.cycles for _, step in self._loads)
        return len(self.macs) + loads + stalls

    @cached_property
    def pointers(self) -> list[Pointer]:
        """Through which it loads; each one's bias is that of what is loaded last through it."""
        last = {step.value[:2]: at for at, step in self._loads}
        return [
            Pointer(stream, max(reach, key=lambda o: (last.get((stream, o), -1), -o)), reach)
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
        of = {(p.stream, o): i for i, p in enumerate(self.pointers) for o in p.offsets}
        last = {of[step.value[:2]]: at for at, step in self._loads}
        for at, step in enumerate(self.steps):
            if isinstance(step, Use):
                self.multiply(k, sums[step.acc], pool[step.u], pool[step.v])
                continue
            index, stride = of[step.value[:2]], self.strides[step.value.stream]
            register, pointer = pool[step.register], pointers[index]
            if last[index] == at and stride:
                step.value.load_post(k, register, constants.get(stride, stride), pointer)
            else:
                step.value.load(k, register, step.value.offset - self.pointers[index].bias, pointer)
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
