"""The code of a correlation: loops over rows, lines and blocks around the planned inner loops."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product

from firmware.builder import LT, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.codegen.inner_loop import Body
from trainlib.codegen.spill import Values, values
from trainlib.codegen.strided_access import access_each
from trainlib.codegen.work_split import EqualParts, Partition, grid_of, heights
from trainlib.conv.axis import Outputs
from trainlib.conv.correlation import Correlation
from trainlib.conv.correlation_schedule import POOL, Point, choose, fastest_phases, pool_of
from trainlib.conv.depthwise_code import Channels
from trainlib.conv.depthwise_schedule import is_single
from trainlib.conv.paired_code import PairedChannels, StridedPairs
from trainlib.conv.row_taps import Lines, add_product, next_group, next_panel, runs_of_blocks
from trainlib.primitive.element import load, store
from trainlib.primitive.tensor import WORD, Address

GIVEN = ("w_panel", "y_panel", "x_start", "at_start", "line_count")
INNER = ("reads", "w_line", "x_block", "y_block", "blocks", "x_line", "y_line", "at", "lines")
OUTER = ("panels", "groups")
LEFT = "left"  # lines of a core, where all have as many
OF_PARTS = ("channels", "w_back", "x_back")  # given, where cores have parts of the channels


def correlate(
    name: str,
    k: Kernel,
    team: Team,
    x: Correlation,
    *,
    rows: int | None = None,
    cols: int | None = None,
    split: tuple[int, int] | None = None,
    is_turned: bool | None = None,
    others: Sequence[Address] = (),
    parts: int = 1,
) -> None:
    """Emit a correlation; see Point for the options, None: chosen.

    others    what else is live: registers among them make room where it is needed
    parts     of the channels, a power of two: each has an Y of its own, one after the other

    raises    KernelError if there is no such point
    """
    given = {"rows": rows, "cols": cols, "split": split, "is_turned": is_turned}
    x = replace(x, carries=x.carries and k.isa.loop_end == "last")
    is_free = parts == 1 and not any(value is not None for value in given.values())
    if is_free and len(phases := fastest_phases(x, team.cores)) > 1:
        for phase in phases:
            correlate(name, k, team, phase, others=others)
        return
    part = replace(x, channels=-(-x.channels // parts))
    point = choose(name, part, team.cores // parts, given, may_be_even=parts == 1)
    turned = (x.turned if point.is_turned else x).straight
    Correlator(k, team, turned, point, others, parts).emit()


class Correlator:
    """The code of one correlation on all cores."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        x: Correlation,
        point: Point,
        others: Sequence[Address],
        parts: int = 1,
    ) -> None:
        self.k, self.team, self.x, self.point, self.others = k, team, x, point, others
        self.parts = parts
        self.is_single = x.is_paired or is_single(x, point.rows, point.cols, point.split[1])
        if not self.is_single:
            self.lines = Lines(k, x)

    def emit(self) -> None:
        """Partition the work, and do it."""
        k, x, point = self.k, self.x, self.point
        if point.is_even:
            first = 0
            for height, panels in heights(x.rows, point.rows).items():
                self._even(first, height, panels)
                first += height * panels
            return
        with k.scope():
            names = GIVEN if x.bias is None else (*GIVEN, "bias")
            has_uneven = x.groups > 1 and x.groups % point.split[0] > 0 and not x.is_paired
            names = (*names, "each") if has_uneven else names
            names = names if self.parts == 1 else (*names, *OF_PARTS)
            given = dict(zip(names, k.x(len(names)), strict=True))
            i, j, t = k.x(3)
            part_of_sums = k.x() if self.parts > 1 else t
            partition = Partition(k, x.rows if x.groups == 1 else x.groups, point.split[0], i, t)
            split = point.split[0] * self.parts, point.split[1]
            with grid_of(k, self.team, split, i, j, t):
                if self.parts > 1:
                    k.andi(part_of_sums, i, self.parts - 1)
                    k.srli(i, i, self.parts.bit_length() - 1)
                self._load_lines(given, j, t)
                for part in partition.parts_of_cores(given.get("each")):
                    self._load_starts(given, partition, part)
                    if self.parts > 1:
                        self._load_channels(given, part_of_sums, t)
                    with k.scope():
                        k.free(i, j, t)
                        if self.parts > 1:
                            k.free(part_of_sums)
                        if x.is_paired and x.xs.stride > 1:
                            StridedPairs(k, x).part(given, part.size)
                        elif x.is_paired:
                            PairedChannels(k, x, point.cols).part(given, part.size)
                        elif self.is_single:
                            Channels(k, x, point).part(given, part.size)
                        else:
                            self._part(given, part.size)

    def _load_lines(self, given: dict[str, Register], j: Register, t: Register) -> None:
        """Load how many lines the core has, and the place of their first."""
        k, x, parts = self.k, self.x, self.point.split[1]
        count, first = given["line_count"], given["at_start"]
        least, extra = divmod(x.ys.outputs, parts)
        k.li(count, least)
        if parts == 1:
            k.mv(first, ZERO)
            return
        k.li(t, least)
        k.mul(first, j, t)
        if extra:
            k.li(t, extra)
            k.slt(t, j, t)
            k.add(count, count, t)
            self._pass_longer(first, j, extra, t)

    def _pass_longer(self, rd: Register, part: Register, extra: int, t: Register) -> None:
        """Add to rd how many of the parts before this one are longer by one: the first `extra`."""
        k = self.k
        k.li(t, extra)
        k.by_field(("p_min", "cv_min"), rd=t, rs1=part, rs2=t)
        k.add(rd, rd, t)

    def _even(self, first: int, height: int, panels: int) -> None:
        """The core's lines of some panels, of which all cores have as many, nearly: those that have
        one less of one height have one more of the next.

        first    row of the first panel
        """
        k, x, cores = self.k, self.x, self.point.split[1]
        names = (*GIVEN, LEFT) if x.bias is None else (*GIVEN, LEFT, "bias")
        with k.scope():
            given = dict(zip(names, k.x(len(names)), strict=True))
            line, panel, t = k.x(3)
            skip = k.label()
            self.team.core(line)
            if first:
                k.li(t, cores - 1)
                k.sub(line, t, line)
            partition = Partition(k, panels * x.ys.outputs, cores, line, t)
            for _ in partition.parts_of_cores(given[LEFT]):
                if partition.total < cores:
                    with_lines = k.label()
                    k.bnez(given[LEFT], with_lines)
                    k.j(skip)
                    k.place(with_lines)
                self._load_panel(given, (first, height, panels), line, panel, t)
                with k.scope():
                    k.free(line, panel, t)
                    self._part(given, height)
            k.place(skip)

    def _load_panel(
        self,
        given: dict[str, Register],
        panels: tuple[int, int, int],
        line: Register,
        panel: Register,
        t: Register,
    ) -> None:
        """Load the addresses of the core's first panel and line, and how many lines it has there.

        panels    row of the first of all, rows of each, how many there are
        line      the core's first one, counted through all panels; changes
        """
        k, x, count = self.k, self.x, given["line_count"]
        first, height, times = panels
        k.li(count, x.ys.outputs)
        if times > 1:
            k.divu(panel, line, count)
            k.mul(t, panel, count)
            k.sub(line, line, t)
        k.sub(count, count, line)
        k.by_field(("p_min", "cv_min"), rd=count, rs1=count, rs2=given[LEFT])
        k.mv(given["at_start"], line)
        starts = {
            "w_panel": (x.w.address, x.w.offset, x.w.row),
            "y_panel": (x.y.address, x.y.offset, x.y.channel),
            "x_start": (x.x.address, 0, 0),
        }
        if x.bias is not None:
            starts["bias"] = x.bias, 0, x.row_size
        for name, (base, offset, row) in starts.items():
            if isinstance(base, int):
                k.li(given[name], base + offset + first * row)
            else:
                k.add_constant(given[name], base, offset + first * row, t)
            if times > 1 and row:
                add_product(k, given[name], panel, height * row, t)
        add_product(k, given["y_panel"], line, x.y.line, t)
        self.lines.load_place(given["at_start"], given["x_start"], t)

    def _load_channels(self, given: dict[str, Register], part: Register, t: Register) -> None:
        """Load how many channels the core has, where they and their sums begin, and how far it is
        from after them to the next tap along y.
        """
        k, x = self.k, self.x
        count, *back = (given[name] for name in OF_PARTS)
        least, extra = divmod(x.channels, self.parts)
        k.li(t, least)
        k.mul(count, part, t)
        if extra:
            self._pass_longer(count, part, extra, t)
        for name, step in (("w_panel", x.w.channel), ("x_start", x.x.channel)):
            add_product(k, given[name], count, step, t)
        add_product(k, given["y_panel"], part, WORD * x.rows * x.ys.outputs * x.xs.outputs, t)
        k.li(count, extra)
        k.slt(count, part, count)
        k.addi(count, count, least)
        steps = x.w.line * x.ys.tap_step, x.x.line * x.ys.source_step
        for register, step, channel in zip(back, steps, (x.w.channel, x.x.channel), strict=True):
            k.li(t, -channel)
            k.mul(register, count, t)
            k.add_constant(register, register, step, t)

    def _load_starts(
        self, given: dict[str, Register], partition: Partition, part: EqualParts
    ) -> None:
        """Load the addresses of the core's first panel and line, and what stands for the line.

        NOTE: a product that two addresses need is made once.
        """
        k, x, t = self.k, self.x, partition.t
        is_row = x.groups == 1
        w_step = x.w.row if is_row else x.w.group
        y_step = x.y.channel if is_row else x.y.group
        if x.bias is not None:
            step = x.row_size * (1 if is_row else x.rows)
            partition.load_start(given["bias"], part, x.bias, step)
        partition.load_start(given["w_panel"], part, x.w.address, w_step)
        k.add_constant(given["w_panel"], given["w_panel"], x.w.offset, t)
        x_step = 0 if is_row else x.x.group
        if x_step == y_step and partition.parts > 1 and part.first == 0:
            k.li(t, part.size * y_step)
            k.mul(t, partition.index, t)
            for name, base in (("y_panel", x.y.address), ("x_start", x.x.address)):
                if isinstance(base, int):
                    k.li(given[name], base)
                k.add(given[name], given[name] if isinstance(base, int) else base, t)
        else:
            partition.load_start(given["y_panel"], part, x.y.address, y_step)
            partition.load_start(given["x_start"], part, x.x.address, x_step)
        k.add_constant(given["y_panel"], given["y_panel"], x.y.offset, t)
        if not self.is_single:
            add_product(k, given["y_panel"], given["at_start"], x.y.line, t)
            self.lines.load_place(given["at_start"], given["x_start"], t)
        elif self.point.split[1] > 1:
            add_product(k, given["y_panel"], given["at_start"], x.y.line, t)
            x_line = x.ys.stride * x.x.line
            add_product(
                k, given["x_start"], given["at_start"], x_line, t, is_new=x_line != x.y.line
            )

    def _part(self, given: dict[str, Register], size: int) -> None:
        """All of a core: its groups, or its rows of the only one."""
        k, x, point = self.k, self.x, self.point
        rows, groups = (size, 1) if x.groups == 1 else (x.rows, size)
        has_each = "each" in given
        bodies = [
            x.body(height, run.first, POOL)
            for height, run in product(heights(rows, point.rows), x.xs.runs(point.cols))
        ]
        pointers = max(len(body.reaches) for body in bodies)
        constants = max(len(body.constants) for body in bodies)
        pool = pool_of(x, point.rows, point.cols)
        sums = point.rows * x.sums(point.cols)
        floats = sums + pool
        inner = pointers + constants + (3 if k.has_float_registers else floats)
        bases = [x.x.address, x.w.address, x.y.address, x.bias, *self.others]
        with values(k, given, self._names(rows, groups), inner, bases) as homes:
            self.pointers, self.constants = k.x(pointers), k.x(constants)
            scratch = k.x(3) if k.has_float_registers else []
            self.sums = k.f(sums)
            self.pool = k.f(pool)
            self.scratch = scratch or self.pool[:3]
            spare = [] if k.has_float_registers else self.pool[POOL:]
            self.v = Values(k, homes, *self.scratch[:2], spare=spare)
            loop = self.v.loop_from("each", "each") if has_each else self.v.loop("groups", groups)
            with loop:
                self._group(rows)
                if groups > 1 or has_each:
                    next_group(self.v, x, rows)

    def _names(self, rows: int, groups: int) -> list[str]:
        """The values that there are beside those given."""
        runs = self.x.xs.runs(self.point.cols)
        unused = {
            "reads": self.lines.reads is not None,
            "at": self.lines.is_even,
            "blocks": all(run.times == 1 for run in runs),
            "panels": all(panels == 1 for panels in heights(rows, self.point.rows).values()),
            "groups": groups == 1,
        }
        return [name for name in (*INNER, *OUTER) if not unused.get(name)]

    def _group(self, rows: int) -> None:
        x, v = self.x, self.v
        if self.point.is_even:
            self._panels(rows)
            return
        for height, panels in heights(rows, self.point.rows).items():
            with v.loop("panels", panels):
                self._panel(height)
                next_panel(v, x, height)

    def _panels(self, height: int) -> None:
        """All lines of a core, one panel after the other: after the last line of one comes the
        first of the next.
        """
        k, x, v, lines = self.k, self.x, self.v, self.x.ys.outputs
        following, done, (left, count, _) = k.here(), k.label(), self.scratch
        self._panel(height)
        v.forget()
        left, count = v.load(LEFT, left), v.load("line_count", count)
        k.sub(left, left, count)
        k.beqz(left, done)
        v.set(LEFT, left)
        k.li(count, lines)
        k.by_field(("p_min", "cv_min"), rd=count, rs1=count, rs2=left)
        v.set("line_count", count)
        v.add("w_panel", height * x.w.row)
        if x.bias is not None:
            v.add("bias", height * x.row_size)
        steps = {"y_line": x.y.line, **self.lines.steps}
        for name, start in (("y_line", "y_panel"), ("x_line", "x_start"), ("at", "at_start")):
            if name in steps:
                v.copy(start, name)
                v.add(start, -lines * steps[name])
        v.add("y_panel", height * x.y.channel)
        k.j(following)
        k.place(done)

    def _panel(self, height: int) -> None:
        """All lines of some rows."""
        x, v = self.x, self.v
        v.copy("x_line", "x_start")
        v.copy("y_line", "y_panel")
        if not self.lines.is_even:
            v.copy("at", "at_start")
        with v.loop_from("lines", "line_count"):
            v.load_ahead(["y_line", *self.lines.begins])
            v.copy("y_block", "y_line")
            self.lines.begin(v, self.scratch)
            v.forget()
            for run, steps, counter in runs_of_blocks(v, x, self.point.cols):
                self._block(height, run.first, steps, counter)
            v.load_ahead(["y_line", *self.lines.steps], "lines")
            v.add("y_line", x.y.line)
            self.lines.step(v)

    def _block(
        self, height: int, block: Outputs, steps: Sequence[str], counter: str | None
    ) -> None:
        """Compute one block of sums and store it.

        steps, counter    the values that are added to next, see runs_of_blocks
        """
        k, x = self.k, self.x
        sums = self.sums[: height * x.sums(block.width)]
        body = x.body(height, block, len(self.pool))
        has_sum = bool(body.macs) and self.lines.reads != 0
        is_read_early = has_sum and not x.starts
        self.v.forget()
        if is_read_early:
            self._load_reads()
        if x.accumulates and (x.apart > 1 or x.has_row_pairs):
            self._load_apart(sums, height, block.width)
        elif x.accumulates:
            self._each_sum(self._load_start, sums, height)
        elif x.bias is not None:
            bias = self.v.load("bias", self.scratch[0])
            for at, register in enumerate(sums):
                row = at // x.sums(block.width)
                load(k, x.row_size, register, row * x.row_size, bias)
            for register in sums if x.lanes > 1 else ():
                k.p_insert(register, register, 15, 16)
        else:
            for register in sums:
                k.fzero(register)
        if has_sum:
            if not is_read_early:
                self._load_reads()
            with self._where_it_reads():
                self._sum(body, sums)
        ends = list(dict.fromkeys(("y_block", *steps)))
        self.v.load_ahead(ends, counter, with_first=True)  # 16-bit stores can name that, mostly
        self._store(sums, height, block.width)

    def _store(self, sums: list[Register], height: int, width: int) -> None:
        """Store a block; outputs that lie apart, or are two rows', one by one."""
        k, x = self.k, self.x
        if x.apart == 1 and not x.has_row_pairs:
            self._each_sum(partial(store, k, x.lanes * x.element.size), sums, height)
            return
        for lane in range(2):
            floats = self._lane(sums, height, width, lane)
            for register in floats.values() if lane else ():
                k.srli(register, register, 8 * x.element.size)
            self._access(partial(store, k, x.element.size), floats)

    def _load_apart(self, sums: list[Register], height: int, width: int) -> None:
        """Load what sums of outputs that lie apart start with, one by one."""
        k, size, high = self.k, self.x.element.size, self.pool[POOL]

        def load_high(acc: Register, offset: int, p: Register) -> None:
            load(k, size, high, offset, p)
            k.p_insert(acc, high, 15, 16)

        self._access(partial(load, k, size), self._lane(sums, height, width, 0))
        self._access(load_high, self._lane(sums, height, width, 1))

    def _lane(
        self, sums: list[Register], height: int, width: int, lane: int
    ) -> dict[int, Register]:
        """By its distance from a block's first output, the sum that has it in this lane."""
        x, count, floats = self.x, len(sums) // height, dict[int, Register]()
        if x.has_row_pairs:
            second = lane * x.y.channel // 2
            return {
                at // count * x.y.channel + second + at % count * x.y.place: register
                for at, register in enumerate(sums)
            }
        for at, register in enumerate(sums):
            outputs = x.outputs_of(at % count, width)
            if lane < len(outputs):
                floats[at // count * x.y.channel + outputs[lane] * x.y.place] = register
        return floats

    def _load_start(self, acc: Register, offset: int, p: Register) -> None:
        """Load what a sum starts with."""
        load(self.k, self.x.lanes * self.x.element.size, acc, offset, p)

    def _load_reads(self) -> None:
        """Load how many taps a line reads through, some time before that is needed."""
        if self.lines.reads is None:
            self.reads = self.v.load("reads", self.scratch[0])

    @contextmanager
    def _where_it_reads(self) -> Iterator[None]:
        """Skip the body in lines that read nothing."""
        if self.lines.may_read_nothing and self.lines.reads is None:
            with self.k.if_(LT, ZERO, self.reads):
                yield
        else:
            yield

    def _sum(self, body: Body, sums: list[Register]) -> None:
        """Add up what all channels and taps say."""
        k, x, v = self.k, self.x, self.v
        constants = dict(zip(body.constants, self.constants, strict=False))
        for constant, register in constants.items():
            k.li(register, constant)
        pointers = list(zip(body.pointers, self.pointers, strict=False))
        places = [
            v.load("w_line" if pointer.stream == "w" else "x_block", register)
            for pointer, register in pointers
        ]
        for place, (pointer, register) in zip(places, pointers, strict=True):
            k.add_constant(register, place, pointer.bias, self.scratch[1])
        has_lines = self.lines.reads != 1
        back = {
            "w": x.w.line * x.ys.tap_step - x.channels * x.w.channel,
            "x": x.x.line * x.ys.source_step - x.channels * x.x.channel,
        }

        def inner() -> None:
            body.emit(k, sums, self.pool, self.pointers, constants)

        if not has_lines:
            self._channels(inner)
        elif x.channels == 1:
            self._lines(inner)
        else:

            def outer() -> None:
                self._channels(inner)
                if self.parts > 1:
                    scratch = zip("wx", self.scratch[:2], strict=True)
                    steps = {stream: v.load(f"{stream}_back", t) for stream, t in scratch}
                    for pointer, register in pointers:
                        k.add(register, register, steps[pointer.stream])
                    return
                for pointer, register in pointers:
                    k.add_constant(register, register, back[pointer.stream], self.scratch[0])
                    if not back[pointer.stream]:
                        k.mv(register, register)

            self._lines(outer)

    def _channels(self, body: Callable[[], None]) -> None:
        """Once for each channel that the core has."""
        if self.parts == 1:
            self._times(self.x.channels, body)
            return
        with self.k.hwloop(self.v.load("channels", self.scratch[0])):
            body()

    def _times(self, count: int, body: Callable[[], None]) -> None:
        if count == 1:
            body()
            return
        self.k.li(self.scratch[0], count)
        with self.k.hwloop(self.scratch[0]):
            body()

    def _lines(self, body: Callable[[], None]) -> None:
        """Once for each line that is read."""
        if self.lines.reads is not None:
            self._times(self.lines.reads, body)
            return
        with self.k.hwloop(self.reads):
            body()

    def _each_sum(self, access: Callable, sums: list[Register], height: int) -> None:
        """Load or store the sums of a block."""
        width, y = len(sums) // height, self.x.y
        floats = {
            at // width * y.channel + at % width * self.x.lanes * y.place: register
            for at, register in enumerate(sums)
        }
        self._access(access, floats)

    def _access(self, access: Callable, floats: dict[int, Register]) -> None:
        """Load or store registers by their distance from the block's first output."""
        place = self.v.load("y_block", self.scratch[0])
        access_each(self.k, access, floats, place, self.scratch[1], self.scratch[2])
