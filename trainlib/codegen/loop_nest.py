"""Nests: loops over elements of tensors in L1, partitioned among cores, around a few instructions.

Dimensions that lie one after another in every tensor become one. If one is left, cores have runs
of it; else they have parts of one dimension, which becomes the outermost: L1 is as fast in any
order, unless inner loops stay in a bank. All that is known while the program is built costs no
instruction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from math import gcd, isqrt
from typing import Any

from firmware.builder import EQ, LT, Kernel, Register
from firmware.hwloop import MOST, SHORTEST
from firmware.lanes import Lane, Lanes
from firmware.list_schedule import scheduled
from firmware.registers import SP, ZERO
from firmware.runtime import Team
from trainlib.codegen.half_words import HALF, Words, mask
from trainlib.codegen.nest_operands import BANKS, Operand, Window, dealt, merged, partitioned
from trainlib.primitive.element import load, load_post, store, store_post
from trainlib.primitive.tensor import WORD

REACH = 2047  # bytes that an offset or a post-increment reaches
PART = 16  # rounds at least, if something follows parts of them
WORTH_IT = 8  # rounds of a core; one more may be the price of different banks
UNROLL = 2  # elements: enough for no result to be waited for

BORROWED = 128  # bytes below the stack pointer, of which the first ones are for constants
SPILLED = 192  # bytes below it, of which the last ones are for addresses that are borrowed

Body = Callable[..., Sequence[Lane]]
"""body(lanes, *values) emits what makes results of values, and returns them.

A value is a list, which the body may overwrite, or a register that all elements share; of a late
source it is a Load.
"""

Load = Callable[[Lane], None]
"""load(registers) emits the loads of a late source: when a body has registers for it."""


class Nest:
    """One nest. `split_work` loads a core's part, `start` pointers to it, `run` emits the loops.

    team    None: nothing is partitioned
    late       sources, by their index, that the body itself loads
    windows    sources that it gets as a Window
    is_ordered    the first dimension is partitioned, not the best
    borrows       use address registers as pointers; `run` gives them back as they were
    loops         the body has loops itself, maybe hardware loops: there are none around it
    by_words      two halves that lie together are loaded, and stored, as a word
    after         emits what follows parts of the rounds, maybe not the last part: PART or more of
                  them, as many as there are parts, if a register is left to count
    part          that many instead
    cycles        of a core for an element, once the loops are emitted: see firmware.list_schedule
    masked        index of a source that counts where the last one, which the body does not get,
                  is above 0; else it is 0
    """

    def __init__(
        self,
        k: Kernel,
        team: Team | None,
        dims: Sequence[int],
        sources: Sequence[Operand],
        targets: Sequence[Operand] = (),
        *,
        late: Sequence[int] = (),
        windows: Sequence[int] = (),
        is_ordered: bool = False,
        borrows: bool = False,
        loops: bool = False,
        by_words: bool = False,
        masked: int | None = None,
        after: Callable[[], None] | None = None,
        part: int | None = None,
        unroll: int = UNROLL,
    ) -> None:
        self.k, self.late, self.windows, self.after = k, late, windows, after
        self.part = part
        self.by_words, self.masked = by_words, masked
        self.borrows, self.loops = borrows, loops
        self.borrowed: list[Register] = []
        self.team = team or Team(k, 1)
        self.cores = cores = self.team.cores
        space = merged(dims, [*sources, *targets], first=1 if is_ordered else 0)
        self.dims, operands = space if is_ordered else partitioned(*space, cores)
        if not is_ordered:
            self.dims, operands = dealt(self.dims, operands, cores)
        self.sources, self.targets = operands[: len(sources)], operands[len(sources) :]
        self.last = len(self.dims) - 1
        self.is_run = cores > 1 and not self.last  # a run of the only dimension for each core
        self.share = -(-self.dims[0] // cores)  # of the first dimension, but for the last cores
        length = self.share if self.is_run else self.dims[-1]
        self.unroll = -(-length // -(-length // unroll))
        self.unit = self.unroll if self.is_run else 1  # of the first dimension, not divided
        self.share = self._share()
        self.cycles = 0.0
        self.is_even = self.dims[0] == self.share * cores
        self._take_registers()

    def _share(self) -> int:
        """Whole units. Cores that begin in the same bank would meet again and again."""
        units = -(-self.share // self.unit)
        if not self.is_run or units < WORTH_IT:
            return units * self.unit
        choices = range(units, units + 3)
        return min(choices, key=lambda choice: gcd(choice * self.unit, BANKS)) * self.unit

    def _take_registers(self) -> None:
        """Pointers, by operand and whether it is stored to; rounds; what loops step by."""
        k = self.k
        self.pointers: dict[tuple[Operand, bool], Register] = {}
        for operand in self.sources:
            if (operand, False) not in self.pointers:
                self.pointers[operand, False] = self._pointer(operand)
        for operand in self.targets:
            shared = self.pointers.get((operand, False)) if self._is_near(operand) else None
            self.pointers[operand, True] = shared or self._pointer(operand)
        self.order = self._order()
        self.advancing = {*{self.sources[index]: index for index in self.order}.values()}
        self.rounds = ZERO if self.is_even else k.x()
        self.scratch = k.x() if self.last else ZERO
        far = {operand.steps[-1] for operand, _ in self.pointers}
        self.far = {step: k.x() for step in sorted(far) if abs(step) > REACH}
        self.shared = {
            operand: k.f()
            for index, operand in enumerate(self.sources)
            if not operand.steps[-1] and index not in self.windows
        }

    def _order(self) -> list[int]:
        """Sources as they are loaded: those by the body itself, and its windows, are the last."""
        last = len(self.sources) - 1
        others = {*self.late, *self.windows}
        own = [index for index in range(last + 1) if index not in others]
        if self.by_words and self.masked is not None:
            own = [last, *(index for index in own if index != last)]  # used first, loaded first
        return [*own, *self.late, *self.windows]

    def _pointer(self, operand: Operand) -> Register:
        """A new register, or the one that holds the address."""
        address = operand.address
        users = [o for o in (*self.sources, *self.targets) if o.address == address]
        is_shared = address in self.borrowed or any(user != operand for user in users)
        if not self.borrows or isinstance(address, int) or is_shared:
            return self.k.x()
        self.borrowed.append(address)
        return address

    def _is_near(self, operand: Operand) -> bool:
        return abs(operand.steps[-1]) * self.unroll <= REACH

    def split_work(self) -> None:
        """Load how much of the first dimension this core has, in units."""
        k = self.k
        for step, register in self.far.items():
            k.li(register, step)
        if self.is_even:
            return
        share, rounds = self.share // self.unit, self.rounds
        self.team.core(rounds)
        with k.scope():
            t = k.x()
            k.li(t, share)
            k.mul(rounds, rounds, t)
            k.li(t, self.dims[0] // self.unit)
            k.sub(rounds, t, rounds)
            k.li(t, share)
            Lanes(k, 1).pulp("clipur", rd=rounds, rs1=rounds, rs2=t)

    def start(self) -> None:
        """Load the pointers to what this core has."""
        for place, address in enumerate(self.borrowed, 1):
            self.k.sw(address, -BORROWED - WORD * place, SP)
        by_step: dict[int, dict[Register, Operand]] = {}
        for (operand, _), pointer in self.pointers.items():
            by_step.setdefault(operand.steps[0], {})[pointer] = operand
        for step, pointers in by_step.items():
            self._start(step if self.cores > 1 else 0, pointers)

    def _start(self, step: int, pointers: Mapping[Register, Operand]) -> None:
        k = self.k
        with k.scope():
            away = k.x() if step else ZERO
            if step:
                spare = (p for p in pointers if p not in self.borrowed)
                first = next(spare, None) or k.x()
                self.team.core(away)
                k.li(first, self.share * step)
                k.mul(away, away, first)
            for pointer, operand in pointers.items():
                address, offset = operand.address, operand.offset
                if isinstance(address, int) or operand.shift:
                    k.set(pointer, address, operand.shift)
                    address = pointer
                if offset is not None:
                    k.add(pointer, address, offset)
                    address = pointer
                if step:
                    k.add(pointer, address, away)
                elif address != pointer:
                    k.mv(pointer, address)

    def run(self, body: Body) -> None:
        """Emit the loops around body; its results go to the targets. Only once."""
        k = self.k
        is_idle = not self.is_even and (self.cores - 1) * self.share >= self.dims[0]
        self._load_shared(-1)
        if self.is_run and not self.is_even:
            self._run_of_core(body)
            self._give_back()
            return
        with k.if_(LT, ZERO, self.rounds) if is_idle else nullcontext():
            self._loop(0, body)
        self._give_back()

    def _give_back(self) -> None:
        for place, address in enumerate(self.borrowed, 1):
            self.k.lw(address, -BORROWED - WORD * place, SP)

    def _loop(self, level: int, body: Body) -> None:
        if level == self.last:
            self._innermost(body)
            return
        k = self.k
        with k.scope(), self._repeated(level):
            self._load_shared(level)
            self._loop(level + 1, body)
            start = len(k.code.items)
            if self.after and level == self.last - 1 and self._rounds >= PART:
                self.after()
            self._advance(level)
            for _ in range((1 if k.isa.loop_end == "last" else 2) - len(k.code.items) + start):
                k.nop()

    def _repeated(self, level: int) -> AbstractContextManager[None]:
        """A loop over a dimension but the innermost."""
        k = self.k
        count = self.dims[level] if level else self.share
        part = self._part(count, self._rounds) if level == self.last - 1 else 0
        if part:
            is_given = not level and not self.is_even
            counter = self.rounds if is_given else k.x()
            if not is_given:
                k.li(counter, count)
            return self._in_parts(counter, part)
        is_plain = level == self.last - 1 and not self.loops
        if not level and not self.is_even:
            if is_plain:
                return k.hwloop(self.rounds)
            counter = k.x()
            k.mv(counter, self.rounds)
            return k.loop(counter)
        if count == 1:
            return nullcontext()
        return k.hwloop(self._counted(count)) if is_plain else k.loop(count)

    def _counted(self, count: int) -> Register | int:
        """A count as a hardware loop takes it; its register is free as soon as the loop runs."""
        k = self.k
        if count <= MOST:
            return count
        with k.scope():
            register = k.x()
            k.li(register, count)
        return register

    @property
    def _rounds(self) -> int:
        """Rounds of the innermost loop, if its dimension is not the only one."""
        return -(-self.dims[-1] // self.unroll)

    def _innermost(self, body: Body) -> None:
        rounds, tail = divmod(self.share if self.is_run else self.dims[-1], self.unroll)
        part = self._part(rounds)
        if self.after and part:
            times, rounds = divmod(rounds, part)
            with self.k.loop(times):
                with self._inner_loop(part):
                    self._round(body)
                self.after()
        if rounds:
            with self._inner_loop(rounds) if rounds > 1 else nullcontext():
                self._round(body)
        if tail:
            self._elements(tail, body)

    def _part(self, count: int, rounds: int = 1) -> int:
        """How many of a loop's so many times, of so many rounds each, are a part; 0: all."""
        least = -(-PART // rounds)
        if not self.after or count <= least or rounds >= PART or not self.k.registers.free("x"):
            return 0
        return max(least, (self.part or isqrt(count * rounds)) // rounds)

    @contextmanager
    def _in_parts(self, counter: Register, part: int) -> Iterator[None]:
        """A loop of as many times as the counter says, with what follows each part of it."""
        k = self.k
        assert self.after
        with k.loop(counter, step=part):
            with k.scope():
                count = k.x()
                k.li(count, part)
                Lanes(k, 1).pulp("clipur", rd=count, rs1=counter, rs2=count)
                with k.loop(count) if self.loops else k.hwloop(count):
                    if not self.loops:
                        k.free(count)
                    yield
            self.after()

    def _inner_loop(self, rounds: int) -> AbstractContextManager[None]:
        return self.k.loop(rounds) if self.loops else self.k.hwloop(self._counted(rounds))

    def _round(self, body: Body) -> None:
        """The body of the innermost loop, as long as a hardware loop's must be."""
        k = self.k
        start = len(k.code.items)
        self.cycles = self._elements(self.unroll, body) / self.unroll
        for _ in range(SHORTEST - (len(k.code.items) - start)):
            k.nop()

    def _run_of_core(self, body: Body) -> None:
        """The rounds of this core; the core that comes to the end has the rest too."""
        k = self.k
        (whole, tail), share = divmod(self.dims[0], self.unroll), self.share // self.unroll
        is_busy = whole > (self.cores - 1) * share
        has_any = nullcontext() if is_busy else k.if_(LT, ZERO, self.rounds)
        part = self._part(share)
        with has_any, self._core_loop(part), k.scope():
            if not self.loops and not part:
                k.free(self.rounds)
            self._round(body)
        if tail:
            with k.scope():
                core, last = k.x(2)
                self.team.core(core)
                k.li(last, whole // share)
            with k.if_(EQ, core, last):
                self._elements(tail, body)

    def _core_loop(self, part: int) -> AbstractContextManager[None]:
        """The loop over this core's rounds; by parts of so many, unless 0."""
        if part:
            return self._in_parts(self.rounds, part)
        return self.k.loop(self.rounds) if self.loops else self.k.hwloop(self.rounds)

    def _advance(self, level: int) -> None:
        """Step every pointer from after the inner loops to the next index of this dimension."""
        inner = self.dims[level + 1]
        moved = {pointer: operand for (operand, _), pointer in self.pointers.items()}
        for pointer, operand in moved.items():
            rest = operand.steps[level] - inner * operand.steps[level + 1]
            self.k.add_constant(pointer, pointer, rest, self.scratch)

    def _load_shared(self, level: int) -> None:
        """Load the values that depend on no dimension inside this one."""
        for operand, register in self.shared.items():
            own = [axis for axis, step in enumerate(operand.steps) if step]
            if max(own, default=-1) == level:
                load(self.k, operand.element.size, register, 0, self.pointers[operand, False])
                operand.element.widen(self.k, [register])

    def _elements(self, width: int, body: Body) -> int:
        """Load `width` elements, run the body, store its results, in the order that is fastest;
        return the cycles.
        """
        items = self.k.code.items
        start = len(items)
        self._in_order(width, body)
        items[start:], cycles = scheduled(self.k.isa, items[start:])
        return cycles

    def _in_order(self, width: int, body: Body) -> None:
        k = self.k
        with k.scope():
            results = [
                [result] * width if isinstance(result, Register) else result
                for result in body(Lanes(k, width), *self._values(width))
            ]
            rounded: set[Register] = set()
            for operand, result in zip(self.targets, results, strict=True):
                assert not rounded & {*result}, "a result is rounded where it is, as the last one"
                if operand.element.is_rounded:
                    rounded |= {*result}
                self._store(operand, result, width)
            assert not rounded & {*self.shared.values()}
            for index in self.windows:
                operand = self.sources[index]
                pointer = self.pointers[operand, False]
                if self._stays(index):
                    continue
                with k.scope():
                    far = abs(width * operand.steps[-1]) > REACH
                    k.add_constant(
                        pointer, pointer, width * operand.steps[-1], k.x() if far else ZERO
                    )

    def _values(self, width: int) -> list[Any]:
        """What the body gets: all words of halves are loaded before they are taken apart."""
        values: list[Any] = [None] * len(self.sources)
        words: dict[int, Words] = {}
        for index in self.order:
            operand = self.sources[index]
            if self._is_in_words(operand, width) and index not in (*self.late, *self.windows):
                words[index] = Words(self.k, operand.element, width)
                self._load_words(index, words[index])
            else:
                values[index] = self._value(index, operand, width)
        if self.masked is not None:
            last = len(values) - 1
            if self.masked in words and last in words:
                words[self.masked].mask(words.pop(last))
            else:
                for index in words.keys() & {self.masked, last}:
                    values[index] = words.pop(index).widened()
                mask(Lanes(self.k, width), values[self.masked], values[last])
            values.pop()
        for index, found in words.items():
            values[index] = found.widened()
        return values

    def _is_in_words(self, operand: Operand, width: int) -> bool:
        element = operand.element
        return self.by_words and width > 1 and element.is_rounded and operand.steps[-1] == HALF

    def _stays(self, index: int) -> bool:
        """Does another access to the same elements advance the pointer: a load, or the store?"""
        operand = self.sources[index]
        stored = self.pointers.get((operand, True))
        return index not in self.advancing or stored == self.pointers[operand, False]

    def _load_words(self, index: int, words: Words) -> None:
        operand = self.sources[index]
        k, pointer, step = self.k, self.pointers[operand, False], words.width * HALF
        stays = self._stays(index)
        for number, (register, size) in enumerate(words.parts):
            if number or stays:
                load(k, size, register, WORD * number - (0 if stays else step), pointer)
            else:
                load_post(k, size, register, step, pointer)

    def _value(self, index: int, operand: Operand, width: int) -> Lane | Register | Load | Window:
        if index in self.windows:
            pointer = self.pointers[operand, False]
            return Window(self.k, pointer, operand.steps[-1], operand.element)
        if not operand.steps[-1]:
            return self.shared[operand]
        if index in self.late:
            return partial(self._load, index)
        value = self.k.f(width)
        self._load(index, value)
        return value

    def _load(self, index: int, value: Lane) -> None:
        operand = self.sources[index]
        k, pointer, step = self.k, self.pointers[operand, False], operand.steps[-1]
        size = operand.element.size
        if self._stays(index) and self._is_near(operand):
            for lane, register in enumerate(value):
                load(k, size, register, lane * step, pointer)
        elif self._is_near(operand):
            load_post(k, size, value[0], len(value) * step, pointer)
            for lane in range(1, len(value)):
                load(k, size, value[lane], (lane - len(value)) * step, pointer)
        else:
            for register in value:
                load_post(k, size, register, self.far.get(step, step), pointer)
            if self._stays(index):
                with k.scope():
                    k.add_constant(pointer, pointer, -len(value) * step, k.x())
        operand.element.widen(k, value)

    def _store(self, operand: Operand, result: Lane, width: int) -> None:
        k, pointer, step = self.k, self.pointers[operand, True], operand.steps[-1]
        size = operand.element.size
        result = [operand.element.narrow(k, register, register) for register in result]
        if self._is_in_words(operand, width):
            whole = width // 2
            for low, high in zip(result[: 2 * whole : 2], result[1::2], strict=True):
                k.p_insert(low, high, 15, 16)
            parts = [(low, WORD) for low in result[: 2 * whole : 2]]
            parts += [(last, HALF) for last in result[2 * whole :]]
            store_post(k, parts[0][1], parts[0][0], width * HALF, pointer)
            for number, (register, part) in enumerate(parts[1:], 1):
                store(k, part, register, WORD * number - width * HALF, pointer)
        elif self._is_near(operand):
            store_post(k, size, result[0], width * step, pointer)
            for lane in range(1, width):
                store(k, size, result[lane], (lane - width) * step, pointer)
        else:
            for register in result:
                store_post(k, size, register, self.far.get(step, step), pointer)
