"""The code of a gradient of weights: loops over rows, channels and taps around the inner loops."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import add

from firmware.builder import EQ, LT, Kernel, KernelError, Register
from firmware.registers import RA, ZERO
from firmware.runtime import Team
from trainlib.codegen.inner_loop import STEPS
from trainlib.codegen.saved_values import Kept
from trainlib.codegen.spill import Values, values
from trainlib.codegen.strided_access import access_each
from trainlib.codegen.tasks import HALF, TASK, Task
from trainlib.codegen.work_split import EqualParts, Partition, grid_of, heights
from trainlib.conv.paired_gradient import PairedGradient, may_load_once
from trainlib.conv.row_taps import add_product
from trainlib.conv.streamed_gradient import StreamedGradient, may_stream
from trainlib.conv.weight_gradient_schedule import (
    POOL,
    Border,
    Nest,
    Point,
    WeightGradient,
    addresses,
    choose_view,
    fitting,
    shares,
    tap_blocks,
)
from trainlib.primitive.element import load, store
from trainlib.primitive.tensor import WORD, Address

GIVEN = ("dy", "x_start", "dw_row")
INNER = ("taps", "count", "x", "dw", "channels", "rows", "groups", "return")
AFTER = 2  # instructions between the ends of two hardware loops, at least
RECIPROCAL = 1 << 16  # pair // channels == pair * ceil(2^16 / channels) // 2^16 for few pairs
STARTS = ("count", "dy", "x_start")
OF_PARTS = ("first_line", "end_line")  # given, where cores have parts of the lines
BASES = ("dy_base", "x_base")  # inside, then


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
    parts: int = 1,
) -> None:
    """Emit a gradient of weights; see Point for the options, None: chosen.

    others    what else is live: registers among them make room where it is needed
    parts     of the lines, a power of two: each has a gradient of its own, one after the other

    raises    KernelError if there is no such point, or if ra is live, which its own calls change
    """
    if RA in k.registers.live:
        raise KernelError(f"{name}: {RA} is live, and would be lost; free some registers")
    given = {"rows": rows, "channels": channels, "cols": cols, "split": split}
    if not any((*given.values(), is_turned)) and holds_kernels(g):
        way = PairedGradient if may_load_once(g) else StreamedGradient
        way(k, g, others).emit(team)
        return
    if parts > 1:
        is_turned = False
    given |= {"is_turned": is_turned}
    g, point = choose_view(name, g, team.cores // parts, given, has_pairs=parts == 1)
    (TaskCode if point.has_tasks else Code)(k, team, g, point, others, parts).emit()


def holds_kernels(g: WeightGradient) -> bool:
    """Are all sums of a group's kernel in registers, if no point is given?"""
    return may_load_once(g) or may_stream(g)


class Code:
    """The code of one gradient on all cores."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        g: WeightGradient,
        point: Point,
        others: Sequence[Address],
        parts: int = 1,
    ) -> None:
        self.k, self.team, self.g, self.point, self.others = k, team, g, point, others
        self.parts = parts
        self.tap_blocks = tap_blocks(g.xs.taps, point.rows * point.channels)
        straight = point._replace(is_turned=False)
        nest = fitting(g, straight)
        assert nest, "choose has seen to it"
        self.nest, self.addresses = nest, addresses(g, straight)

    def emit(self) -> None:
        """Partition the work, and do it."""
        k, g, point = self.k, self.g, self.point
        with k.scope():
            names = GIVEN if self.parts == 1 else (*GIVEN, *OF_PARTS)
            has_uneven = g.groups > 1 and g.groups % point.split[0] > 0
            names = (*names, "each") if has_uneven or g.of_row else names
            names = (*names, "left") if g.of_row else names
            given = dict(zip(names, k.x(len(names)), strict=True))
            i, j, t = k.x(3)
            part = k.x() if self.parts > 1 else t
            is_row = g.groups == 1
            rows = Partition(k, g.rows if is_row else g.groups, point.split[0], i, t)
            channels = Partition(k, g.channels, point.split[1], j, t)
            split = point.split[0] * self.parts, point.split[1]
            with grid_of(k, self.team, split, i, j, t):
                if self.parts > 1:
                    self._load_lines(given, i, part, t)
                if g.of_row and split[0] == 1:
                    k.mv(i, ZERO)
                for panel in rows.parts_of_cores(given.get("each")):
                    if g.of_row:
                        self._load_pair(given, i, t)
                    else:
                        self._load_starts(given, rows, panel, is_row)
                    if self.parts > 1:
                        add_product(k, given["dw_row"], part, self._part_bytes, t)
                    for strip in channels.parts_of_cores():
                        channels.add_start(given["x_start"], strip, g.x.channel)
                        channels.add_start(given["dw_row"], strip, g.dw.channel)
                        with k.scope():
                            k.free(i, j, t)
                            if self.parts > 1:
                                k.free(part)
                            self._part(given, panel.size, strip.size)

    @property
    def _part_bytes(self) -> int:
        """Bytes of the gradient of a part of the lines."""
        g = self.g
        return self._item * g.groups * g.rows * g.channels * g.ys.taps * g.xs.taps

    def _load_lines(
        self, given: dict[str, Register], i: Register, part: Register, t: Register
    ) -> None:
        """Load which part of the lines the core has, its first line, and the one after its last;
        i is then the place in the grid of those that have the same part.
        """
        k = self.k
        least, extra = divmod(self.g.lines, self.parts)
        k.andi(part, i, self.parts - 1)
        k.srli(i, i, self.parts.bit_length() - 1)
        first, end = (given[name] for name in OF_PARTS)
        for line, ahead in ((first, 0), (end, 1)):
            k.addi(line, part, ahead)
            if extra:
                k.li(t, extra)
                k.by_field(("p_min", "cv_min"), rd=t, rs1=line, rs2=t)
            with k.scope():
                size = k.x()
                k.li(size, least)
                k.mul(line, line, size)
            if extra:
                k.add(line, line, t)

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

    def _load_pair(self, given: dict[str, Register], pair: Register, t: Register) -> None:
        """Load where the core's first pair of a row and a channel begins, and how many are left of
        the row; the number of the pair becomes that of its channel.
        """
        k, g = self.k, self.g
        with k.scope():
            row = k.x()
            k.li(t, -(-RECIPROCAL // g.of_row))
            k.mul(row, pair, t)
            k.srli(row, row, RECIPROCAL.bit_length() - 1)
            k.li(t, g.of_row)
            k.sub(given["left"], t, pair)
            k.mul(t, row, t)
            k.sub(pair, pair, t)
            k.add(given["left"], given["left"], t)
            for name, base, of_row, of_channel in (
                ("dy", g.dy.address, g.dy.group, 0),
                ("x_start", g.x.address, 0, g.x.group),
                ("dw_row", g.dw.address, g.dw.row, g.dw.group),
            ):
                if isinstance(base, int):
                    k.li(given[name], base)
                else:
                    k.mv(given[name], base)
                for index, step in ((row, of_row), (pair, of_channel)):
                    if step:
                        k.li(t, step)
                        k.by_field(("p_mac", "cv_mac"), rd=given[name], rs1=index, rs2=t)

    def _part(self, given: dict[str, Register], size: int, channels: int) -> None:
        """All of a core: its groups, or its rows of the only one."""
        k, g = self.k, self.g
        rows, groups = (size, 1) if g.groups == 1 else (g.rows, size)
        has_each = "each" in given
        inner, bases = self._inner, [g.dy.address, g.x.address, g.dw.address, *self.others]
        is_one = rows <= self.point.rows and channels <= self.point.channels
        self.x, self.dw = ("x_start", "dw_row") if is_one else ("x", "dw")
        unused = {"groups"} if has_each else set()
        unused |= {"x", "dw"} if is_one else set()
        names = [name for name in INNER if name not in unused]
        names += BASES if self.parts > 1 else ()
        with values(k, given, names, inner, bases) as homes:
            _let_return_have_ra(homes)
            self._take_registers(homes)
            if self.parts > 1:
                self.v.copy("dy_base", "dy")
                self.v.copy("x_base", "x_start")
            loop = self.v.loop_from("each", "each") if has_each else self.v.loop("groups", groups)
            with loop:
                self._group(rows, channels)
                if groups > 1 or has_each:
                    self._next_group()

    @property
    def _inner(self) -> int:
        """Registers of blocks."""
        own = 3 if self.k.has_float_registers else self.nest.sums + self.nest.pool
        return sum(self.addresses) + own

    def _take_registers(self, homes: dict[str, Kept]) -> None:
        """Take those of blocks, beside the homes of values."""
        k, nest = self.k, self.nest
        self.pointers, self.constants = map(k.x, self.addresses)
        scratch = k.x(3) if k.has_float_registers else []
        self.sums, self.pool = k.f(nest.sums), k.f(nest.pool)
        self.scratch = scratch or self.pool[:3]
        self.v = Values(k, homes, *self.scratch[:2])

    def _group(self, rows: int, channels: int) -> None:
        """All taps along y, one after the other: a routine of its own if there are several."""
        k, v, taps = self.k, self.v, self.g.ys.taps
        routine, done = k.label("tap"), k.label()
        self._start()
        if taps > 1:
            k.registers.used.add(RA)
            k.jal(RA, routine)
            if self.parts > 1:
                for tap in range(1, taps):
                    self._start_part(tap)
                    k.jal(RA, routine)
            else:
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

    def _start(self) -> None:
        """Begin with the first tap along y."""
        k, v = self.k, self.v
        if self.parts > 1:
            self._start_part(0)
            return
        for name, start in zip(STARTS, self._starts(0), strict=True):
            if name == "count":
                k.li(self.scratch[0], start)
                v.set(name, self.scratch[0])
            else:
                v.add(name, start)

    def _start_part(self, tap: int) -> None:
        """Begin with a tap along y: those of the core's lines that read through it."""
        k, v, g = self.k, self.v, self.g
        lines = g.ys.readers(tap) or [0]
        other, first, count = self.scratch
        k.li(other, lines[0] + g.first)
        k.by_field(("p_max", "cv_max"), rd=first, rs1=v.load("first_line", first), rs2=other)
        k.li(other, len(g.ys.readers(tap)) and lines[-1] + 1 + g.first)
        k.by_field(("p_min", "cv_min"), rd=count, rs1=v.load("end_line", count), rs2=other)
        k.sub(count, count, first)
        v.set("count", count)
        above = tap * g.ys.dilation - g.ys.pad + g.above - g.first * g.ys.stride
        for name, base, line, start in (
            ("dy", "dy_base", g.dy.line, 0),
            ("x_start", "x_base", g.ys.stride * g.x.line, above * g.x.line),
        ):
            k.li(other, line)
            k.mul(count, first, other)
            k.add(count, count, v.load(base, other))
            k.add_constant(count, count, start, other)
            v.set(name, count)

    def _starts(self, tap: int) -> tuple[int, int, int]:
        """How many lines are read through a tap along y, and bytes of dY and X before them."""
        g, lines = self.g, self.g.ys.readers(tap)
        first = next(iter(lines), 0)
        source = (g.ys.source(first, tap) or 0) + g.above
        return len(lines), (first + g.first) * g.dy.line, source * g.x.line

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
        v.add("dw_row", g.dw.group - g.ys.taps * g.dw.line)
        if self.parts > 1:
            v.add("dy_base", g.dy.group)
            v.add("x_base", g.x.group)
            return
        _, dy, x = self._starts(g.ys.taps - 1)
        v.add("x_start", g.x.group - x)
        if not g.of_row:
            v.add("dy", g.dy.group - dy)
            return
        v.add("dy", -dy)
        v.add("left", -1)
        with self.k.if_(EQ, v.load("left", self.scratch[0]), ZERO):
            v.add("x_start", -g.of_row * g.x.group)
            v.add("dy", g.dy.group)
            v.add("dw_row", g.dw.row - g.of_row * g.dw.group)
            self.k.li(self.scratch[0], g.of_row)
            v.set("left", self.scratch[0])

    def _rows(self, rows: int, channels: int) -> None:
        """All blocks of sums of a tap along y."""
        g, v = self.g, self.v
        if self.x == "x_start":
            self._blocks_of(rows, channels)
            v.add("dw_row", g.dw.line)
            return
        for height, panels in heights(rows, self.point.rows).items():
            with v.loop("rows", panels):
                v.copy("x", "x_start")
                v.copy("dw", "dw_row")
                for depth, times in heights(channels, self.point.channels).items():
                    with v.loop("channels", times):
                        self._blocks_of(height, depth)
                        v.add("x", depth * g.x.channel)
                        v.add("dw", depth * g.dw.channel)
                v.add("dw_row", height * g.dw.row)
                v.add("dy", height * g.dy.channel)
        v.add("dy", -rows * g.dy.channel)
        v.add("dw_row", g.dw.line - rows * g.dw.row)

    def _blocks_of(self, height: int, depth: int) -> None:
        """The blocks of sums of so many rows and channels."""
        for taps in self.tap_blocks:
            self._block(Nest(self.g, height, depth, taps, self.point.cols, self.nest.pool))

    def _block(self, nest: Nest) -> None:
        k, g = self.k, self.g
        sums = self.sums[: nest.sums]
        if g.accumulates:
            self._load_sums(nest)
        else:
            for register in sums:
                k.fzero(register)
        if nest.bodies[0].reaches:
            if self._always_reads:
                self._lines(nest, sums)
            else:
                with k.if_(LT, ZERO, self.v.load("count", self.scratch[0])):
                    self._lines(nest, sums)
            self._borders(nest, sums)
        self._store_sums(nest)

    def _borders(self, nest: Nest, sums: list[Register]) -> None:
        """The lines that are read through some taps alone: those on top belong to the first part of
        the lines, the others to the last one.
        """
        k, g = self.k, self.g
        above = [border for border in g.borders if border.line < g.first]
        below = g.borders[len(above) :]
        for some, line, end in ((above, "first_line", 0), (below, "end_line", g.lines)):
            skipped = k.label()
            if some and self.parts > 1:
                place, other, _ = self.scratch
                k.li(other, end)
                k.bne(self.v.load(line, place), other, skipped)
            for border in some:
                self._border(border, nest, sums)
            k.place(skipped)

    def _border(self, border: Border, nest: Nest, sums: list[Register]) -> None:
        """A line, for those taps along y that it is read through."""
        g, taps, channel = self.g, len(nest.taps), border.taps.start
        part = Nest(g, 1, len(border.taps), nest.taps, self.point.cols, nest.pool)
        down, bases = border.line - g.first, ("dy", self.x)
        above = down * g.ys.stride
        if self.parts > 1:  # a core's lines begin elsewhere
            down, bases = border.line, ("dy_base", "x_base")
            above += g.above
        place = above * g.x.line + channel * g.x.channel
        constants = self._load_constants(part)
        runs = range(len(part.runs))
        self._load_pointers(part, runs, bases, (down * g.dy.line, place))
        self._runs(part, runs, sums[channel * taps : border.taps.stop * taps], constants)

    @property
    def _always_reads(self) -> bool:
        """Does a core read something through each tap along y?"""
        readers = [len(self.g.ys.readers(tap)) for tap in range(self.g.ys.taps)]
        return min(readers) > 0 if self.parts == 1 else min(readers) == self.g.lines

    @property
    def _item(self) -> int:
        """Bytes of a sum."""
        return self.g.element.size * self.g.lanes

    def _lines(self, nest: Nest, sums: list[Register]) -> None:
        """All lines that are read through the tap, once for each loop of them."""
        constants = self._load_constants(nest)
        for runs in nest.loops:
            self._load_pointers(nest, runs)
            with self.k.hwloop(self.v.load("count", self.scratch[0])):
                self._runs(nest, runs, sums, constants, is_loop=True)

    def _load_constants(self, nest: Nest) -> dict[int, Register]:
        """Load steps of pointers that must be in registers, by their values."""
        steps = dict(zip(nest.constants, self.constants, strict=False))
        for constant, register in steps.items():
            self.k.li(register, constant)
        return steps

    def _load_pointers(
        self,
        nest: Nest,
        runs: range,
        bases: tuple[str, str] | None = None,
        after: tuple[int, int] = (0, 0),
    ) -> None:
        """Let pointers be those of the first of some runs, of lines so many bytes after values:
        those of dY and X, if nothing else is said.
        """
        bases = bases or ("dy", self.x)
        first, ahead = nest.bodies[runs.start], nest.ahead(runs.start)
        for stream, base, place in zip("gx", bases, after, strict=True):
            start = self.v.load(base, self.scratch[0])
            for pointer, register in zip(first.pointers, self.pointers, strict=False):
                if pointer.stream == stream:
                    distance = place + ahead[stream] + pointer.bias
                    self.k.add_constant(register, start, distance, self.scratch[1])

    def _runs(
        self,
        nest: Nest,
        runs: range,
        sums: list[Register],
        constants: Mapping[int, Register],
        *,
        is_loop: bool = False,
    ) -> None:
        """Some runs of a line, see emit_runs."""
        registers = sums, self.pool, self.pointers, constants, self.scratch[0]
        emit_runs(self.k, nest, runs, *registers, is_loop=is_loop)

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
        place = self.v.load(self.dw, self.scratch[0])
        access_each(self.k, access, floats, place, self.scratch[1], self.scratch[2])


class TaskCode(Code):
    """The code of one gradient whose blocks cores share as tasks: see trainlib.codegen.tasks."""

    def emit(self) -> None:
        """A loop over the core's tasks for each size of blocks."""
        k, g = self.k, self.g
        own = shares(g, self.point)
        table, size = own.table({task: self._words(task) for some in own.cores for task in some})
        self.x, self.dw = "x_start", "dw_row"
        bases = {"dy": g.dy.address, "x_start": g.x.address, "dw_row": g.dw.address}
        self.bases = {name: base for name, base in bases.items() if isinstance(base, int)}
        with k.scope():
            names = ["task", *(f"{name}_base" for name in bases if name not in self.bases)]
            given = dict(zip(names, k.x(len(names)), strict=True))
            for name, base in bases.items():
                if name not in self.bases:
                    k.mv(given[f"{name}_base"], base)
            core, t = k.x(2)
            self.team.core(core)
            k.li(given["task"], k.data("tasks", table))
            add_product(k, given["task"], core, size, t)
            k.free(core, t)
            live = [*bases.values(), *self.others]
            with values(k, given, ("count", *bases), self._inner, live) as homes:
                self._take_registers(homes)
                for block in own.blocks:
                    self._tasks(*block)

    def _words(self, task: Task) -> tuple[int, int]:
        """The words that stand for a task: where it begins in dY and X, in dW, and its lines."""
        g = self.g
        count, dy, x = self._starts(task.tap)
        dy += task.row * g.dy.channel
        x += task.channel * g.x.channel
        dw = task.row * g.dw.row + task.channel * g.dw.channel + task.tap * g.dw.line
        return dy | x << HALF, dw | count << HALF

    def _tasks(self, height: int, depth: int) -> None:
        """The core's tasks with blocks of a size; the pointer is then at those of the next."""
        k, v, (first, second, place) = self.k, self.v, self.scratch
        again, some, done = k.here(), k.label(), k.label()
        place = v.load("task", place)
        k.lw(second, WORD, place)
        k.lw(first, 0, place)
        k.addi(place, place, TASK)
        v.set("task", place)
        k.bge(second, ZERO, some)
        k.j(done)
        k.place(some)
        value, base = self.pointers[:2]
        for name, word, is_high in (
            ("dy", first, False),
            ("x_start", first, True),
            ("dw_row", second, False),
            ("count", second, True),
        ):
            if not is_high:
                k.slli(value, word, HALF)
            k.srli(value, value if not is_high else word, HALF)
            if name in self.bases:
                k.add_constant(value, value, self.bases[name], base)
            elif name != "count":
                k.add(value, value, v.load(f"{name}_base", base))
            v.set(name, value)
        self._blocks_of(height, depth)
        k.j(again)
        k.place(done)


def emit_runs(
    k: Kernel,
    nest: Nest,
    runs: range,
    sums: Sequence[Register],
    pool: Sequence[Register],
    pointers: Sequence[Register],
    constants: Mapping[int, Register],
    scratch: Register,
    *,
    is_loop: bool = False,
) -> None:
    """Emit some runs of a line, after which pointers are those of the first of them in the next.

    scratch    may be one of the pool that holds nothing between rounds
    is_loop    are they the body of a hardware loop?
    """
    for index in runs:
        run, body, further = nest.runs[index], nest.bodies[index], nest.further(index, runs)
        emit = partial(body.emit, k, sums, pool, pointers, constants)
        if run.times > 1 and body.macs:
            body.enter(k, pool, pointers)
            k.li(scratch, run.times)
            with k.hwloop(scratch):
                emit()
        else:  # its last loads step pointers on as far as they can
            own = (run.times * body.strides[pointer.stream] for pointer in body.pointers)
            whole = list(map(add, own, further))
            emit([stride if stride in STEPS else 0 for stride in whole])
            further = [0 if stride in STEPS else stride for stride in whole]
        stepped = [pair for pair in zip(pointers, further, strict=False) if pair[1]]
        for register, step in stepped:
            k.add_constant(register, register, step, scratch)
        if is_loop and run.times > 1 and index == runs[-1]:
            for _ in range(AFTER - len(stepped)):
                k.nop()


def _let_return_have_ra(homes: dict[str, Kept]) -> None:
    """If RA is a value's home, exchange it: a call changes RA."""
    for name, kept in homes.items():
        if kept.home == RA:
            homes[name], homes["return"] = homes["return"], kept
            return
