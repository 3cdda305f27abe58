"""Rows: sums and maxima over parts of tensors in L1, and what is made of them.

A tensor is seen as rows of elements, each of any dimensions: a row is what one sum goes over. Rows
are partitioned among the cores; where these are few, each row is, among all cores or a group of
them, and the partial results of cores meet in L1: all read all parts, in the same order, so that
all have the same sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import inf, prod
from typing import Any, Literal

from firmware.builder import GE, LT, Kernel, Register
from firmware.lanes import Lane, Lanes, load_constant
from firmware.registers import ZERO
from firmware.team import Group, Team
from trainlib.codegen.half_words import HALF
from trainlib.codegen.loop_nest import PART, UNROLL, Body, Nest
from trainlib.codegen.nest_operands import Operand, merged, partitioned
from trainlib.primitive.element import BITS, F16, F32, Element, load, store_rounded
from trainlib.primitive.tensor import WORD, Address, Tensor
from trainlib.reduction.long_sums import LongSums

Split = Literal["auto", "rows", "columns"]
Kind = Literal["sum", "max"]
Part = Literal["all", "words", "other"]
"""Of a row: all of it, its words, or the one element beside them."""
NEUTRAL = {"sum": 0.0, "max": -inf}

CORES = 16  # the most there are
SCALE = 1 << 8  # of reciprocals, by which numbers of cores are divided
REDUCTIONS, KINDS = 3, 2  # of a row, and results of each
PARTIALS = Tensor((REDUCTIONS * KINDS * CORES,), "scratch")
"""Where what cores have found meets."""
SCRATCH = {"partials": PARTIALS.size}
MEETING = 16  # elements whose work takes as long as a meeting of all cores
LONG = 64  # elements whose sum needs no parts
LONG_OF_PRODUCTS = 128  # powers or products whose sum needs none: PyTorch's loses as much
VERY_LONG = 512  # elements of a core from which parts are small, and what their sum loses is kept
START = 8  # and as long as what a row begins with


@dataclass(frozen=True)
class Field:
    """A tensor in rows: its address, bytes between rows and between elements, by dimension.

    element    its type
    """

    address: Address
    rows: tuple[int, ...]
    elements: tuple[int, ...]
    element: Element = F32


def sharing_of(
    split: Split, rows: int, elements: int, reductions: int, cores: int, *, in_groups: bool = False
) -> int:
    """How many cores share a row: 1 by rows, all of them by columns; "auto": what is fastest.

    in_groups    may some of the cores share a row, and others another?
    """
    if split != "auto":
        return 1 if split == "rows" else cores
    tried = [1, cores]
    if in_groups:
        tried[1:1] = [
            n for n in (2, 4, 8) if n < cores and not cores % n and not rows % (cores // n)
        ]
    return min(tried, key=lambda n: effort(rows, elements, reductions, cores, n))


def effort(rows: int, elements: int, reductions: int, cores: int, sharing: int) -> int:
    """Of all rows: elements that would take a core as long.

    sharing    cores that share a row
    """
    meetings = MEETING * reductions if sharing > 1 else 0
    return -(-rows // (cores // sharing)) * (-(-elements // sharing) + START + meetings)


class Rows:
    """All rows, one after the other on each core that has some.

        rows = Rows(k, team, (5,), (100,), {"x": Field(x, (400,), (4,)), ...}, partials, "rows")
        with rows.each():
            [total] = rows.reduce(["x"], add, ["sum"])
            rows.sweep(["x"], ["y"], body)

    The first dimension of rows is partitioned if is_ordered, else the one that is best; or all, as
    one: then cores have rows that are `groups` apart.

    aligns     rows of an odd number of halves may begin in the middle of a word: all but one of
               their elements are words, and that one, their first or their last, comes after these
    sharing    how many cores share a row; all of them, if the rows are not as many for each group
    spills     sums of parts lie on the stack, for want of registers
    is_together    may all dimensions of rows be partitioned as one?
    """

    def __init__(
        self,
        k: Kernel,
        team: Team,
        rows: Sequence[int],
        elements: Sequence[int],
        fields: Mapping[str, Field],
        partials: Address,
        sharing: int,
        *,
        unroll: int = UNROLL,
        is_ordered: bool = False,
        aligns: bool = False,
        spills: bool = False,
        is_together: bool = True,
    ) -> None:
        self.aligns, self.spills = aligns, spills
        self.k, self.team, self.elements, self.partials = k, team, tuple(elements), partials
        self.by_columns = sharing > 1
        self.fields, self.unroll, self.sizes = fields, unroll, tuple(rows)
        self.reductions = 0
        steps = list(dict.fromkeys(f.rows for f in fields.values() if any(f.rows)))
        space = tuple(rows), [Operand(0, s) for s in steps]
        least = merged(*space)
        for self.groups in (team.cores // sharing, 1):
            self.dims, operands = space if is_ordered else partitioned(*least, self.groups)
            self.inner: tuple[int, ...] = ()  # all but the first, if they are partitioned as one
            if is_together and not is_ordered and self._are_better_together(least[0]):
                (_, *inner), operands = least
                self.inner, self.dims = tuple(inner), (prod(least[0]),)
            if not self.by_columns or self.dims[0] % self.groups == 0:
                break
        self.own = Group(team, sharing) if self.by_columns and self.groups > 1 else team
        self.steps = [operand.steps for operand in operands]
        self.offsets = dict(zip(steps, k.x(len(steps)), strict=True))
        self.places = k.x(len(self.inner))
        self.scratch = k.x()

    def _are_better_together(self, dims: Sequence[int]) -> bool:
        """Has the slowest core fewer rows of all as one than of the one that is best?"""
        together = -(-prod(dims) // self.groups)
        return together < -(-self.dims[0] // self.groups) * prod(self.dims[1:])

    @contextmanager
    def each(self) -> Iterator[None]:
        """Loop over the rows that this core has; the body, with its registers, is one row's."""
        k = self.k
        least, more = divmod(self.dims[0], self.groups)
        with k.scope():
            counts = [k.x() if n > 1 else ZERO for n in (least, *self.dims[1:])]
            if more and counts[0] == ZERO:
                counts[0] = k.x()
            self._start(counts[0], least, more)
            has_any = nullcontext() if least else k.if_(LT, ZERO, counts[0])
            with has_any, self._loop(0, counts):
                with k.scope():
                    yield
                if self.by_columns and self.reductions == 1:
                    self.team.barrier()  # before the next row's parts replace those of this one

    def _start(self, count: Register, least: int, more: int) -> None:
        """Load the offsets of this core's first row, and how many it has: every `groups`th."""
        k, core = self.k, self.scratch
        if isinstance(self.own, Group):
            self.own.number(core)
        elif self.groups > 1:
            self.team.core(core)
        if self.inner:
            self._start_together(core)
        else:
            for offset, steps in zip(self.offsets.values(), self.steps, strict=True):
                if self.groups > 1:
                    k.li(offset, steps[0])
                    k.mul(offset, offset, core)
                else:
                    k.li(offset, 0)
        if more:
            k.sltiu(count, core, more)
            k.addi(count, count, least)
        elif count != ZERO:
            k.li(count, least)

    @contextmanager
    def _loop(self, level: int, counts: list[Register]) -> Iterator[None]:
        k = self.k
        if level == len(self.dims):
            yield
            return
        if level and counts[level] != ZERO:
            k.li(counts[level], self.dims[level])
        with k.loop(counts[level]) if counts[level] != ZERO else nullcontext():
            with self._loop(level + 1, counts):
                yield
            if counts[level] == ZERO and not level:
                return
            if self.inner:
                self._step_together()
                return
            for offset, steps in zip(self.offsets.values(), self.steps, strict=True):
                inside = self.dims[level + 1] * steps[level + 1] if steps[level + 1 :] else 0
                step = steps[level] * (1 if level else self.groups)
                k.add_constant(offset, offset, step - inside, self.scratch)

    def _start_together(self, core: Register) -> None:
        """Load the offsets of the row of the core's number, and its place in inner dimensions."""
        k, last = self.k, len(self.inner)
        with k.scope():
            outer, step = k.x(2)
            places, rest = [outer, *self.places], core
            for axis, size in zip(range(last, 0, -1), reversed(self.inner), strict=True):
                place = places[axis]
                k.li(step, -(-SCALE // size))
                k.mul(step, rest, step)
                k.mv(place, rest)
                k.srli(outer, step, SCALE.bit_length() - 1)
                k.li(step, -size)
                Lanes(k, 1).pulp("mac", rd=place, rs1=outer, rs2=step)
                rest = outer
            for offset, steps in zip(self.offsets.values(), self.steps, strict=True):
                k.li(step, steps[0])
                k.mul(offset, outer, step)
                for place, bytes_ in zip(self.places, steps[1:], strict=True):
                    if bytes_:
                        k.li(step, bytes_)
                        Lanes(k, 1).pulp("mac", rd=offset, rs1=place, rs2=step)

    def _step_together(self) -> None:
        """Go to the row that is `groups` further on."""
        k, rest, digits = self.k, self.groups, list[int]()
        for size in reversed(self.inner):
            rest, digit = divmod(rest, size)
            digits.insert(0, digit)
        for offset, steps in zip(self.offsets.values(), self.steps, strict=True):
            more = sum(n * step for n, step in zip((rest, *digits), steps, strict=True))
            k.add_constant(offset, offset, more, self.scratch)
        for axis in range(len(self.inner), 0, -1):
            place, size = self.places[axis - 1], self.inner[axis - 1]
            k.addi(place, place, digits[axis - 1])
            k.li(self.scratch, size)
            with k.if_(GE, place, self.scratch):
                k.sub(place, place, self.scratch)
                if axis > 1:
                    k.addi(self.places[axis - 2], self.places[axis - 2], 1)
                for offset, steps in zip(self.offsets.values(), self.steps, strict=True):
                    carried = steps[axis - 1] - size * steps[axis]
                    k.add_constant(offset, offset, carried, self.scratch)

    def _operand(self, name: str) -> Operand:
        field = self.fields[name]
        offset = self.offsets.get(field.rows)
        return Operand(field.address, field.elements, offset, element=field.element)

    def sweep(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        body: Body,
        *,
        late: Sequence[int] = (),
        mask: tuple[str, str] | None = None,
        unroll: int | None = None,
        after: Callable[[], None] | None = None,
        rounds: int | None = None,
    ) -> None:
        """Go through the elements of the row, or this core's part of them: see Nest.

        mask     a source that counts as 0 where another field, which the body does not get, is 0
        after    emits what follows parts of the elements; of so many rounds, if told
        """
        k = self.k
        masked = None
        if mask:
            masked, sources = sources.index(mask[0]), [*sources, mask[1]]
        operands = [[self._operand(name) for name in names] for names in (sources, targets)]
        names = [*sources, *targets]
        is_cut = after is None and self._begins_in_words(names)
        is_cut &= bool(mask) or not self._has_f16(names)  # FP16 gains by a mask of words alone
        parts: list[Part] = ["words", "other"] if is_cut else ["all"]
        width = unroll or self.unroll
        gains = bool(mask) or is_cut or self._gain_by_words(names)
        by_words = width % 2 == 0 and gains
        how: Any = {"late": late, "by_words": by_words, "masked": masked}
        how |= {"after": after, "part": rounds}
        counts = {"all": self.elements[-1], "words": self.elements[-1] - 1, "other": 1}
        for part in parts:
            with k.scope():
                self._nest(part, counts[part], operands, body, width, how)

    def sweep_pairs(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        body: Body,
        last: Body | None = None,
        *,
        unroll: int | None = None,
    ) -> None:
        """Go through the row as sweep does, two halves that lie together at a time.

        The body computes with words of both; the last of an odd number is one with no other.

        last      the body for that one, if it is another
        unroll    words that are computed side by side, if others than as many elements take
        """
        pairs, rest = divmod(self.elements[-1], 2)
        is_cut = self._begins_in_words([*sources, *targets])
        cut: list[Part] = ["words", "other"] if is_cut else ["all", "all"]
        counts = (pairs, F32, 0), (rest, BITS, 0 if is_cut else pairs)
        for part, (number, element, skipped) in zip(cut, counts, strict=True):
            if not number:
                continue
            operands = [
                [
                    replace(
                        operand,
                        steps=(*operand.steps[:-1], element.size),
                        shift=WORD * skipped,
                        element=element,
                    )
                    for operand in map(self._operand, names)
                ]
                for names in (sources, targets)
            ]
            with self.k.scope():
                of_part = body if element == F32 else last or body
                self._nest(part, number, operands, of_part, unroll or max(1, self.unroll // 2), {})

    def _begins_in_words(self, names: Sequence[str]) -> bool:
        """Do all rows begin with a word but for one element, the first or the last?

        They are of an odd number of halves, lie alike in all tensors, and all their other
        dimensions are of whole words.
        """
        fields = [self.fields[name] for name in names]
        if not self.aligns or self.elements[-1] % 2 == 0 or self.elements[-1] < 2:
            return False
        first = fields[0]
        is_alike = all(field.rows == first.rows for field in fields)
        is_near = all(f.element.size == HALF == f.elements[-1] for f in fields)
        is_whole = all(step % WORD == 0 for f in fields for step in f.elements[:-1])
        return is_alike and is_near and is_whole and any(step % WORD for step in first.rows)

    def _nest(
        self,
        part: Part,
        count: int,
        operands: Sequence[Sequence[Operand]],
        body: Body,
        width: int,
        how: Mapping[str, Any],
    ) -> None:
        """Emit the loops over a part of the row, which has so many elements.

        operands    sources and targets
        """
        k, moved = self.k, None
        sources, targets = operands
        if part != "all":
            moved = k.x()
            self._load_offset(part, moved, sources[0].offset)
            sources = [replace(operand, offset=moved) for operand in sources]
            targets = [replace(operand, offset=moved) for operand in targets]
        team, dims = self.own if self.by_columns else None, (*self.elements[:-1], count)
        nest = Nest(k, team, dims, sources, targets, **how, unroll=width)
        nest.split_work()
        nest.start()
        if moved is not None:
            k.free(moved)
        nest.run(body)

    def _load_offset(self, part: Part, place: Register, row: Register | None) -> None:
        """Load the offset of a row's words, or of the element beside them."""
        k = self.k
        assert row is not None
        if part == "words":
            k.addi(place, row, HALF)
            k.p_bclr(place, place, 1, 0)
            return
        with k.scope():
            last = k.x()
            k.slli(place, row, 30)
            k.srai(place, place, 31)  # all ones if the row begins in the middle of a word
            k.li(last, HALF * (self.elements[-1] - 1))
            k.and_(place, place, last)
            k.sub(place, last, place)
        k.add(place, place, row)

    def _has_f16(self, names: Sequence[str]) -> bool:
        return F16 in [self.fields[name].element for name in names]

    def _gain_by_words(self, names: Sequence[str]) -> bool:
        """Are two halves faster as a word? Where these begin rows, and widening needs no FPU."""
        if self._has_f16(names):
            return False
        return not any(
            count > 1 and step % WORD
            for name in names
            for count, step in zip(self.sizes, self.fields[name].rows, strict=False)
        )

    def reduce(
        self,
        sources: Sequence[str],
        step: Callable[..., Sequence[Lane] | None],
        kinds: Sequence[Kind],
        *,
        targets: Sequence[str] = (),
        late: Sequence[int] = (),
        mask: tuple[str, str] | None = None,
        longest: float = inf,
        corrects: bool = False,
    ) -> list[Register]:
        """Sums or maxima over the row, in new registers.

        step(lanes, *totals, *values) adds to the totals, and returns what goes to targets if any.

        longest     elements that a core adds up one by one; more are added in parts: see LongSums
        corrects    keep what the sum of parts loses where there are very many elements
        """
        k = self.k
        sums = self._long_sums(sources, kinds, longest, corrects)
        totals = [k.f(self.unroll) for _ in kinds]
        for total, kind in zip(totals, kinds, strict=True):
            for register in total:
                load_constant(k, register, NEUTRAL[kind])

        def body(v: Lanes, *values: Lane) -> Sequence[Lane]:
            return step(v, *(total[: v.width] for total in totals), *values) or ()

        how: Any = {"late": late, "mask": mask}
        if sums:
            how |= {"after": partial(sums.add, totals), "rounds": PART if sums.lost else None}
        self.sweep(sources, targets, body, **how)
        if sums:
            totals = [[*total, *sums.terms(number)] for number, total in enumerate(totals)]
        for total, kind in zip(totals, kinds, strict=True):
            for other in total[1:]:
                self.join(kind, total[0], other)
                k.free(other)
        return self._of_all([total[0] for total in totals], kinds)

    def totals(
        self, sources: Sequence[str], step: Callable[..., Any], count: int, **how: Any
    ) -> list[Register]:
        """So many sums over the row, as right as PyTorch's, in new registers: see reduce."""
        kinds: list[Kind] = ["sum"] * count
        return self.reduce(sources, step, kinds, **{"longest": LONG, "corrects": True} | how)

    def total(self, sources: Sequence[str], step: Callable[..., Any], **how: Any) -> Register:
        """The sum over the row, likewise."""
        [total] = self.totals(sources, step, 1, **how)
        return total

    def largest(self, name: str) -> Register:
        """The largest element of the row, in a new register; halves that lie together by pairs."""
        field = self.fields[name]
        element = field.element
        if not element.is_rounded or field.elements[-1] != HALF:
            [most] = self.reduce([name], larger, ["max"])
            return most
        k, most = self.k, self.k.x()
        with k.scope():
            pairs = Lanes(k, self.unroll).x()
            for register in pairs:
                k.li(register, element.pattern(-inf) * 0x10001)

            def body(v: Lanes, x: Lane) -> list[Lane]:
                getattr(v, f"vfmax_{element.letter}")(pairs[: v.width], pairs[: v.width], x)
                return []

            def last(v: Lanes, x: Lane) -> list[Lane]:
                v.p_insert(x, x, 15, 16)
                return body(v, x)

            self.sweep_pairs([name], [], body, last, unroll=self.unroll)
            for other in pairs[1:]:
                element.pairs(k, "vfmax")(pairs[0], pairs[0], other)
            k.srli(most, pairs[0], 16)
            element.widen(k, [most, pairs[0]])
            k.fmax_s(most, most, pairs[0])
        return self._of_all([most], ["max"])[0]

    def _of_all(self, results: list[Register], kinds: Sequence[Kind]) -> list[Register]:
        """Results of all cores that share the row, given those of this one."""
        if self.by_columns:
            self._meet(results, kinds)
        self.reductions += 1
        return results

    def _long_sums(
        self, sources: Sequence[str], kinds: Sequence[Kind], longest: float, corrects: bool
    ) -> LongSums | None:
        """Where parts of sums are added up: nowhere if there are few elements, or halves, which
        have fewer digits than their sums lose.
        """
        share = prod(self.elements) / (self.own.cores if self.by_columns else 1)
        is_half = any(self.fields[name].element.is_half for name in sources)
        if share <= longest or is_half or set(kinds) != {"sum"}:
            return None
        corrects &= share > VERY_LONG
        return LongSums(self.k, len(kinds), corrects=corrects, spills=self.spills)

    def join(self, kind: Kind, total: Register, other: Register) -> None:
        """total = the sum of both, or the larger."""
        (self.k.fadd_s if kind == "sum" else self.k.fmax_s)(total, total, other)

    def _meet(self, results: list[Register], kinds: Sequence[Kind]) -> None:
        """Let every core have the totals of all cores that share the row."""
        k = self.k
        places = [WORD * CORES * (self.reductions * KINDS + i) for i in range(len(kinds))]
        with k.scope():
            base, t = k.x(2)
            k.set(base, self.partials)
            self.team.core(t)
            k.slli(t, t, 2)
            k.add(t, t, base)
            for place, result in zip(places, results, strict=True):
                k.fstore(result, place, t)
        self.team.barrier()
        with k.scope():
            base, parts = k.x(), k.f(2)
            k.set(base, self.partials)
            if isinstance(self.own, Group):
                with k.scope():
                    first = k.x()
                    self.own.number(first)
                    k.slli(first, first, (WORD * self.own.cores).bit_length() - 1)
                    k.add(base, base, first)
            for place, result, kind in zip(places, results, kinds, strict=True):
                k.fload(result, place, base)
                for core in range(1, self.own.cores, 2):
                    pair = parts[: self.own.cores - core]
                    for index, part in enumerate(pair):
                        k.fload(part, place + WORD * (core + index), base)
                    for part in pair:
                        self.join(kind, result, part)

    def load(self, name: str) -> Register:
        """The row's value of a field without elements, in a new register."""
        k = self.k
        value = k.f()
        with k.scope():
            self._load(name, value, self.address(name))
        return value

    def _load(self, name: str, value: Register, address: Register) -> None:
        element = self.fields[name].element
        load(self.k, element.size, value, 0, address)
        element.widen(self.k, [value])

    def once(self) -> AbstractContextManager[None]:
        """Let one of the cores that share the row do it: what others would read, it may store next.

        What it computes is for what it stores alone: others do not have it.
        """
        return self.own.only(0) if self.by_columns else nullcontext()

    def store(self, name: str, value: Register) -> None:
        """Set the row's value of a field without elements, once."""
        k = self.k
        with self.once(), k.scope():
            store_rounded(k, self.fields[name].element, value, 0, self.address(name))

    def add(self, name: str, value: Register) -> None:
        """Add to the row's value of a field without elements, once."""
        k = self.k
        with self.once(), k.scope():
            old, address = k.f(), self.address(name)
            self._load(name, old, address)
            k.fadd_s(old, old, value)
            store_rounded(k, self.fields[name].element, old, 0, address)

    def address(self, name: str) -> Register:
        """Address of the row's value of a field, or of its first element, in a new register."""
        k, operand = self.k, self._operand(name)
        pointer = k.x()
        k.set(pointer, operand.address)
        if operand.offset is not None:
            k.add(pointer, pointer, operand.offset)
        return pointer

    def find(
        self,
        name: str,
        number: Register,
        base: Address,
        step: int,
        elements: tuple[int, ...],
        element: Element = F32,
    ) -> None:
        """Let a field be the line of that number of another tensor, while the row is computed.

        The register holds its address then.

        step        bytes from line to line
        elements    bytes between elements, by dimension
        """
        k = self.k
        with k.scope():
            t = k.x()
            k.li(t, step)
            k.mul(number, number, t)
            k.set(t, base)
            k.add(number, number, t)
        self.fields = {**self.fields, name: Field(number, (0,), elements, element)}


def larger(v: Lanes, most: Lane, x: Lane) -> None:
    """A step of a maximum."""
    v.fmax_s(most, most, x)
