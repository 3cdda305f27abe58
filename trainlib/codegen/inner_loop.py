"""The body of an inner loop: multiply-adds, and the loads that feed them, in a good order.

Values are loaded ahead of their use into a pool of registers, are kept while they are needed again
and there is room, and else are loaded again. The last load through a pointer steps it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from firmware.builder import Kernel, Register
from trainlib.primitive.element import Element, load, load_post
from trainlib.primitive.tensor import WORD

REACH = 2047  # bytes that the offset of a load says
PLANS = 4096  # bodies that are remembered: those of layers and tiles are often the same
STEPS = range(-2048, 2048)  # bytes that the step of a load says
CACHED = 120  # instructions of a loop that a core's own cache holds, 128 less what stands around
REFETCH = 0.65  # cycles more that an instruction takes which comes from the shared cache
LEAST = 2  # registers of the pool that a multiply-add needs
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


Slide = tuple[Value, Value]
"""A value of a round, and the one of the round before that is the same float."""


def window_of(values: Iterable[Value], strides: Mapping[str, int]) -> tuple[Slide, ...]:
    """What a round of a loop reads that the round before it has loaded.

    Nothing, if it has been loaded two rounds before: registers would have to be exchanged.
    """
    known = dict.fromkeys(values)
    slides = [(v, v._replace(offset=v.offset + strides[v.stream])) for v in known]
    found = [(v, before) for v, before in slides if before != v and before in known]
    return () if {v for v, _ in found} & {before for _, before in found} else tuple(found)


def plan(macs: Sequence[Mac], pool: int, window: Sequence[Slide] = ()) -> list[Step]:
    """Order loads and multiply-adds, with so many registers for what is loaded; 2 at least.

    window    what the last registers hold at first, and what they hold at last

    returns   nothing, if the registers of the window can't be had in time
    """
    uses: dict[Value, list[int]] = {}
    for at, mac in enumerate(macs):
        for value in mac[1:]:
            uses.setdefault(value, []).append(at)
    others = pool - len(window)
    held = {first: register for register, (first, _) in enumerate(window, others)}
    home = {last: register for register, (_, last) in enumerate(window, others)}
    free = list(range(others))
    steps: list[Step] = []
    at = 0
    while at < len(macs):
        ahead = [v for mac in macs[at : at + AHEAD] for v in mac[1:] if v not in held]
        now = macs[at][1:]
        taken = held.values()
        missing = next((v for v in ahead if (home[v] not in taken if v in home else free)), None)
        if missing is None and ahead and ahead[0] in now:
            kept = [v for v in held if v not in now and held[v] < others]
            if ahead[0] in home or not kept:
                return []
            missing = ahead[0]
            farthest = max(kept, key=lambda value: next(u for u in uses[value] if u >= at))
            free.append(held.pop(farthest))
        if missing is not None:
            held[missing] = home[missing] if missing in home else free.pop(0)
            steps.append(Load(held[missing], missing))
            continue
        steps.append(Use(macs[at].acc, held[now[0]], held[now[1]]))
        at += 1
        for value in dict.fromkeys(now):
            if uses[value][-1] < at and value not in home:
                register = held.pop(value)
                if register < others:
                    free.append(register)
    return steps


@lru_cache(PLANS)
def _remembered(macs: tuple[Mac, ...], pool: int, window: tuple[Slide, ...]) -> tuple[Step, ...]:
    return tuple(plan(macs, pool, window))


def cycles_of(steps: Iterable[Step]) -> int:
    """Cycles of steps; a load that is used at once takes one more."""
    steps = list(steps)
    stalls = sum(
        isinstance(first, Load) and isinstance(use, Use) and first.register in use[1:]
        for first, use in pairwise(steps)
    )
    return stalls + sum(step.value.cycles if isinstance(step, Load) else 1 for step in steps)


@dataclass(frozen=True)
class Pointer:
    """A register through which some values of a stream are loaded: those in its reach.

    bias    its distance in bytes from the stream's place, when the body starts
    """

    stream: str
    bias: int
    offsets: frozenset[int]


def loop_cycles(instructions: Any) -> Any:
    """Cycles of a round of a loop, nearly: one that no cache of a core holds is fetched anew.

    instructions    of the loop, or an array of them
    """
    return instructions * (1 + REFETCH * (instructions > CACHED))


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
    other       another order, taken if it takes fewer cycles
    pool        registers for what is loaded
    strides     bytes that each stream's pointers step on, once
    reaches     what each pointer reaches, where other bodies share the pointers
    multiply    emit acc += u * v, given registers
    times       rounds of its loop: what one has loaded for the next stays in registers
    """

    def __init__(
        self,
        macs: Sequence[Mac],
        pool: int,
        strides: Mapping[str, int],
        reaches: Sequence[Reach] | None = None,
        multiply: Multiply = single,
        times: int = 1,
        other: Sequence[Mac] = (),
    ) -> None:
        self.macs, self.pool, self.strides, self.other = macs, pool, strides, other
        self.multiply, self.times = multiply, times
        self.reaches = reaches_of(macs, strides) if reaches is None else reaches

    def with_pool(self, pool: int) -> "Body":
        """The same with so many registers for what is loaded."""
        how = self.reaches, self.multiply, self.times, self.other
        return Body(self.macs, pool, self.strides, *how)

    @cached_property
    def _planned(self) -> tuple[tuple[Slide, ...], tuple[Step, ...]]:
        """The window, where it saves cycles, and the steps."""
        found = self._planned_in(self.macs)
        if self.other and cycles_of(found[1]) > self._least:
            return min(found, self._planned_in(self.other), key=self._total)
        return found

    @property
    def _least(self) -> int:
        """Cycles if everything is loaded once."""
        values = {value for mac in self.macs for value in mac[1:]}
        return len(self.macs) + sum(value.cycles for value in values)

    def _total(self, planned: tuple[tuple[Slide, ...], tuple[Step, ...]]) -> int:
        return len(planned[0]) + self.times * cycles_of(planned[1])

    def _planned_in(self, order: Sequence[Mac]) -> tuple[tuple[Slide, ...], tuple[Step, ...]]:
        macs = tuple(order)
        steps = _remembered(macs, self.pool, ())
        window = window_of((v for m in macs for v in m[1:]), self.strides) if self.times > 1 else ()
        if not window or self.pool - len(window) < LEAST:
            return (), steps
        saving = _remembered(macs, self.pool, window)
        gain = self.times * (cycles_of(steps) - cycles_of(saving)) - len(window)
        return (window, saving) if saving and gain > 0 else ((), steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """Loads and multiply-adds in order."""
        return self._planned[1]

    @property
    def window(self) -> tuple[Slide, ...]:
        """What the last registers of the pool must hold before the loop."""
        return self._planned[0]

    @property
    def cycles(self) -> int:
        """Cycles of the body."""
        return cycles_of(self.steps)

    @property
    def entry_cycles(self) -> int:
        """Cycles of what is loaded before the loop."""
        return sum(value.cycles for value, _ in self.window)

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

    def enter(self, k: Kernel, pool: Sequence[Register], pointers: Sequence[Register]) -> None:
        """Load what must be in registers before the loop; pointers in the order of its own."""
        of = {(p.stream, o): i for i, p in enumerate(self.pointers) for o in p.offsets}
        first = self.pool - len(self.window)
        for register, (value, _) in zip(pool[first : self.pool], self.window, strict=True):
            index = of[value[:2]]
            value.load(k, register, value.offset - self.pointers[index].bias, pointers[index])

    def emit(
        self,
        k: Kernel,
        sums: Sequence[Register],
        pool: Sequence[Register],
        pointers: Sequence[Register],
        constants: Mapping[int, Register],
        strides: Sequence[int] | None = None,
    ) -> None:
        """Emit the body; pointers in the order of its own, constants by their value.

        strides    bytes that each pointer steps on, in reach or among constants; None: its stream's
        """
        if strides is None:
            strides = [self.strides[pointer.stream] for pointer in self.pointers]
        of = {(p.stream, o): i for i, p in enumerate(self.pointers) for o in p.offsets}
        last = {of[step.value[:2]]: at for at, step in self._loads}
        for at, step in enumerate(self.steps):
            if isinstance(step, Use):
                self.multiply(k, sums[step.acc], pool[step.u], pool[step.v])
                continue
            index = of[step.value[:2]]
            stride = strides[index]
            register, pointer = pool[step.register], pointers[index]
            if last[index] == at and stride:
                step.value.load_post(k, register, constants.get(stride, stride), pointer)
            else:
                step.value.load(k, register, step.value.offset - self.pointers[index].bias, pointer)
        for index, stride in enumerate(strides):
            if index in last or not stride:
                continue
            if stride in constants:
                k.add(pointers[index], pointers[index], constants[stride])
            else:
                k.addi(pointers[index], pointers[index], stride)

    @property
    def _loads(self) -> list[tuple[int, Load]]:
        return [(at, step) for at, step in enumerate(self.steps) if isinstance(step, Load)]
