"""The code of a gradient of weights: loops over rows, channels and taps around the inner loops."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby, pairwise

from firmware.builder import LT, Kernel, KernelError, Register
from firmware.registers import RA, ZERO
from firmware.runtime import Team
from trainlib.codegen.saved_values import Kept
from trainlib.codegen.spill import Values, values
from trainlib.codegen.strided_access import access_each
from trainlib.codegen.work_split import EqualParts, Partition, grid_of, heights
from trainlib.conv.paired_gradient import PairedGradient, may_load_once
from trainlib.conv.streamed_gradient import StreamedGradient, may_stream
from trainlib.conv.weight_gradient_schedule import (
    POOL,
    Nest,
    Point,
    WeightGradient,
    choose,
    fitting,
    tap_blocks,
)
from trainlib.primitive.element import load, store
from trainlib.primitive.tensor import Address

GIVEN = ("dy", "x_start", "dw_row")
INNER = ("taps", "count", "x", "dw", "channels", "rows", "groups", "return")
STARTS = ("count", "dy", "x_start")


def weight_gradient(
    name: str,
    k: Kernel,
    team: Team,
    g: WeightGradient,
    *,
    rows: int | None = None,
    channels: int | None = None,
    cols: int | None = None,
    split: tuple[int, int] | None = None,
    is_turned: bool | None = None,
    others: Sequence[Address] = (),
) -> None:
    """Emit a gradient of weights; see Point for the options, None: chosen.

    others    what else is live: registers among them make room where it is needed

    raises    KernelError if there is no such point, or if ra is live, which its own calls change
    """
    if RA in k.registers.live:
        raise KernelError(f"{name}: {RA} is live, and would be lost; free some registers")
    given = {"rows": rows, "channels": channels, "cols": cols, "split": split}
    if not any((*given.values(), is_turned)) and holds_kernels(g):
        way = PairedGradient if may_load_once(g) else StreamedGradient
        way(k, g, others).emit(team)
        return
    point = choose(name, g, team.cores, given | {"is_turned": is_turned})
    Code(k, team, g.turned if point.is_turned else g, point, others).emit()


def holds_kernels(g: WeightGradient) -> bool:
    """Are all sums of a group's kernel in registers, if no point is given?"""
    return may_load_once(g) or may_stream(g)


class Code:
    """The code of one gradient on all cores."""

    def __init__(
        self, k: Kernel, team: Team, g: WeightGradient, point: Point, others: Sequence[Address]
    ) -> None:
        self.k, self.team, self.g, self.point, self.others = k, team, g, point, others
        self.tap_blocks = tap_blocks(g.xs.taps, point.rows * point.channels)
        nest = fitting(g, replace(point, is_turned=False))
        assert nest, "choose has seen to it"
        self.nest = nest

    def emit(self) -> None:
        """Partition the work, and do it."""
        k, g, point = self.k, self.g, self.point
        with k.scope():
            given = dict(zip(GIVEN, k.x(len(GIVEN)), strict=True))
            i, j, t = k.x(3)
            is_row = g.groups == 1
            rows = Partition(k, g.rows if is_row else g.groups, point.split[0], i, t)
            channels = Partition(k, g.channels, point.split[1], j, t)
            with grid_of(k, self.team, point.split, i, j, t):
                for part in rows.parts_of_cores():
                    self._load_starts(given, rows, part, is_row)
                    for strip in channels.parts_of_cores():
                        channels.add_start(given["x_start"], strip, g.x.channel)
                        channels.add_start(given["dw_row"], strip, g.dw.channel)
                        with k.scope():
                            k.free(i, j, t)
                            self._part(given, part.size, strip.size)

    def _load_starts(
        self, given: dict[str, Register], partition: Partition, part: EqualParts, is_row: bool
    ) -> None:
        g = self.g
        partition.load_start(
            given["dy"], part, g.dy.address, g.dy.channel if is_row else g.dy.group
        )
        partition.load_start(given["x_start"], part, g.x.address, 0 if is_row else g.x.group)
        partition.load_start(
            given["dw_row"], part, g.dw.address, g.dw.row if is_row else g.dw.group
        )

    def _part(self, given: dict[str, Register], size: int, channels: int) -> None:
        """All of a core: its groups, or its rows of the only one."""
        k, g, nest = self.k, self.g, self.nest
        rows, groups = (size, 1) if g.groups == 1 else (g.rows, size)
        own = nest.sums + nest.pool
        inner = nest.addresses + (3 if k.has_float_registers else own)
        bases = [g.dy.address, g.x.address, g.dw.address, *self.others]
        with values(k, given, INNER, inner, bases) as homes:
            _let_return_have_ra(homes)
            pointers = len(nest.bodies[0].reaches)
            self.pointers, self.constants = k.x(pointers), k.x(nest.addresses - pointers)
            scratch = k.x(3) if k.has_float_registers else []
            self.sums, self.pool = k.f(nest.sums), k.f(nest.pool)
            self.scratch = scratch or self.pool[:3]
            self.v = Values(k, homes, *self.scratch[:2])
            with self.v.loop("groups", groups):
                self._group(rows, channels)
                if groups > 1:
                    self._next_group()

    def _group(self, rows: int, channels: int) -> None:
        """All taps along y, one after the other: a routine of its own if there are several."""
        k, v, taps = self.k, self.v, self.g.ys.taps
        routine, done = k.label("tap"), k.label()
        for name, start in zip(STARTS, self._starts(0), strict=True):
            if name == "count":
                k.li(self.scratch[0], start)
                v.set(name, self.scratch[0])
            else:
                v.add(name, start)
        if taps > 1:
            k.registers.used.add(RA)
            k.jal(RA, routine)
            for steps, times in self._steps():
                with v.loop("taps", times):
                    for name, step in zip(STARTS, steps, strict=True):
                        v.add(name, step)
                    k.jal(RA, routine)
            k.j(done)
            k.place(routine)
            v.set("return", RA)
        self._rows(rows, channels)
        if taps > 1:
            k.jalr(ZERO, 0, v.load("return", self.scratch[0]))
            k.place(done)

    def _starts(self, tap: int) -> tuple[int, int, int]:
        """How many lines are read through a tap along y, and bytes of dY and X before them."""
        g, lines = self.g, self.g.ys.readers(tap)
        first = next(iter(lines), 0)
        return len(lines), first * g.dy.line, (g.ys.source(first, tap) or 0) * g.x.line

    def _steps(self) -> Iterator[tuple[tuple[int, ...], int]]:
        """From each tap's starts to the next one's, and how often in a row."""
        starts = map(self._starts, range(self.g.ys.taps))
        steps = (
            tuple(there - here for here, there in zip(*pair, strict=True))
            for pair in pairwise(starts)
        )
        return ((step, len(list(alike))) for step, alike in groupby(steps))

    def _next_group(self) -> None:
        g, v = self.g, self.v
        _, dy, x = self._starts(g.ys.taps - 1)
        v.add("dy", g.dy.group - dy)
        v.add("dw_row", g.dw.group - g.ys.taps * g.dw.line)
        v.add("x_start", g.x.group - x)

    def _rows(self, rows: int, channels: int) -> None:
        """All blocks of sums of a tap along y."""
        g, v = self.g, self.v
        for height, panels in heights(rows, self.point.rows).items():
            with v.loop("rows", panels):
                v.copy("x", "x_start")
                v.copy("dw", "dw_row")
                for depth, times in heights(channels, self.point.channels).items():
                    with v.loop("channels", times):
                        for taps in self.tap_blocks:
                            shape = height, depth, taps
                            self._block(Nest(g, *shape, self.point.cols, self.nest.pool))
                        v.add("x", depth * g.x.channel)
                        v.add("dw", depth * g.dw.channel)
                v.add("dw_row", height * g.dw.row)
                v.add("dy", height * g.dy.channel)
        v.add("dy", -rows * g.dy.channel)
        v.add("dw_row", g.dw.line - rows * g.dw.row)

    def _block(self, nest: Nest) -> None:
        k, g = self.k, self.g
        sums = self.sums[: nest.sums]
        if g.accumulates:
            self._load_sums(nest)
        else:
            for register in sums:
                k.fzero(register)
        if nest.bodies[0].reaches:
            self._load_pointers(nest)
            count = self.v.load("count", self.scratch[0])
            if all(g.ys.readers(tap) for tap in range(g.ys.taps)):
                self._lines(nest, sums, count)
            else:
                with k.if_(LT, ZERO, count):
                    self._lines(nest, sums, count)
        self._store_sums(nest)

    @property
    def _item(self) -> int:
        """Bytes of a sum."""
        return self.g.element.size * self.g.lanes

    def _load_pointers(self, nest: Nest) -> None:
        first = nest.bodies[0]
        for stream, base in (("g", "dy"), ("x", "x")):
            start = self.v.load(base, self.scratch[0])
            for pointer, register in zip(first.pointers, self.pointers, strict=False):
                if pointer.stream == stream:
                    self.k.add_constant(register, start, pointer.bias, self.scratch[1])

    def _lines(self, nest: Nest, sums: list[Register], count: Register) -> None:
        """All lines; of each, all runs."""
        k = self.k
        constants = sorted({value for body in nest.bodies for value in body.constants})
        steps = dict(zip(constants, self.constants, strict=False))
        for constant, register in steps.items():
            k.li(register, constant)
        with k.hwloop(count):
            for index, (run, body) in enumerate(zip(nest.runs, nest.bodies, strict=True)):
                if run.times > 1 and body.macs:
                    body.enter(k, self.pool, self.pointers)
                    k.li(self.scratch[0], run.times)
                    with k.hwloop(self.scratch[0]):
                        body.emit(k, sums, self.pool, self.pointers, steps)
                else:
                    for _ in range(run.times):
                        body.emit(k, sums, self.pool, self.pointers, steps)
                following = nest.bodies[(index + 1) % len(nest.bodies)]
                back = nest.back(index)
                for here, there, register in zip(
                    body.pointers, following.pointers, self.pointers, strict=False
                ):
                    step = back[here.stream] + there.bias - here.bias
                    k.add_constant(register, register, step, self.scratch[0])
                    if not step:
                        k.mv(register, register)

    def _load_sums(self, nest: Nest) -> None:
        k, size = self.k, self._item

        def load_high(acc: Register, offset: int, p: Register) -> None:
            load(k, size, self.pool[POOL], offset, p)
            k.p_insert(acc, self.pool[POOL], 15, 16)

        self._each_sum(partial(load, k, size), nest)
        if self.g.has_row_pairs:
            self._each_sum(load_high, nest, self.g.dw.row // 2)

    def _store_sums(self, nest: Nest) -> None:
        k, size = self.k, self._item

        self._each_sum(partial(store, k, size), nest)
        if self.g.has_row_pairs:
            for register in self.sums[: nest.sums]:
                k.srli(register, register, 8 * size)
            self._each_sum(partial(store, k, size), nest, self.g.dw.row // 2)

    def _each_sum(self, access: Callable, nest: Nest, at: int = 0) -> None:
        """Load or store the sums of a block, so many bytes after its first one."""
        dw, floats, registers = self.g.dw, {}, iter(self.sums)
        for r in range(nest.rows):
            for c in range(nest.channels):
                for tap in nest.taps:
                    floats[at + r * dw.row + c * dw.channel + tap * dw.place] = next(registers)
        place = self.v.load("dw", self.scratch[0])
        access_each(self.k, access, floats, place, self.scratch[1], self.scratch[2])


def _let_return_have_ra(homes: dict[str, Kept]) -> None:
    """If RA is a value's home, exchange it: a call changes RA."""
    for name, kept in homes.items():
        if kept.home == RA:
            homes[name], homes["return"] = homes["return"], kept
            return
