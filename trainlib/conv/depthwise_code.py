"""The code of correlations of one channel each, see trainlib.conv.depthwise_schedule."""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.builder import LT, Kernel, Label, Register
from firmware.registers import ZERO
from trainlib.codegen.spill import Values, values
from trainlib.codegen.strided_access import access_each
from trainlib.conv.axis import BlockRun
from trainlib.conv.correlation import Correlation
from trainlib.conv.correlation_schedule import Point
from trainlib.conv.depthwise_schedule import (
    ADDRESSES,
    INPUTS,
    Carried,
    Input,
    Line,
    Round,
    carried_row,
    height_of,
    lines_of,
    round_of,
    steps_of,
)
from trainlib.conv.row_taps import next_group, next_panel, runs_of_blocks


class Channels:
    """The registers of a core's part, and the code that works on it.

    px, py       places in the input and the output
    line, end    the next line, and where the core's end; if it has not all of them
                 and all blocks have rounds: how many, and how many lines are after the core's
    cut          for each block of rounds, what ends its last line if lines follow: where that is,
                 and where it goes on
    last         bytes from a block's first output to that which py is the address of
    weights      all taps'; sums: of a line of a block; pool: inputs; start: of a sum, if biased
    """

    def __init__(self, k: Kernel, x: Correlation, point: Point) -> None:
        self.k, self.x, self.point = k, x, point
        self.has_all_lines = point.split[1] == 1
        self.blocks = x.xs.runs(point.cols)
        rounds = [round_of(x, block) for block in self.blocks]
        may_enter = k.isa.loop_end == "last"  # CV32E40P enters loops at their start only
        self.rounds = [r for r in rounds if r] if may_enter and all(rounds) else []
        self.carried = carried_row(x, point.cols, point.split[1]) if may_enter else ()
        self.cut: list[tuple[Label, Label, Round]] = []
        self.last = 0
        self.x_step, self.y_step = steps_of(x)

    def part(self, given: dict[str, Register], size: int) -> None:
        """All of a core: its groups, or its rows of the only one.

        given    registers by name, see trainlib.conv.correlation_code; at_start: the number of the
                 first line
        """
        k, x = self.k, self.x
        rows, groups = (size, 1) if x.groups == 1 else (x.rows, size)
        has_each = "each" in given
        taps, starts = x.ys.taps * x.xs.taps, int(x.bias is not None)
        sums = height_of(x.ys) * self.point.cols
        inputs = max([INPUTS, *(each.inputs for each in self.carried)])
        sums *= self.carried[0].held if self.carried else 1
        floats = taps + sums + inputs + starts
        inner = ADDRESSES + (INPUTS if k.has_float_registers else floats)
        bases = [x.x.address, x.w.address, x.y.address, x.bias]
        with values(k, given, self._values(rows, groups), inner, bases) as homes:
            self.px, *pool = k.short(1 + INPUTS)
            pool += [] if k.has_float_registers else k.x(inputs - INPUTS)
            self.py, self.line, self.end = k.x(ADDRESSES - 1)
            scratch = pool if k.has_float_registers else []
            self.weights, self.sums = k.f(taps), k.f(sums)
            self.pool = k.f(inputs) if k.has_float_registers else pool
            self.start = k.f() if starts else None
            self.scratch = (scratch or self.pool)[:INPUTS]
            self.v = Values(k, homes, *self.scratch[:2])
            if (self.rounds or self.carried) and not self.has_all_lines:
                self._count_rounds()
            loop = self.v.loop_from("each", "each") if has_each else self.v.loop("groups", groups)
            with loop:
                with self.v.loop("panels", rows):
                    self._row()
                    next_panel(self.v, x)
                if groups > 1 or has_each:
                    next_group(self.v, x, rows)
            self._end_cut_lines()

    def _values(self, rows: int, groups: int) -> list[str]:
        """The values that there are beside those given."""
        names = ["x_block", "y_block"] if len(self.blocks) > 1 else []
        names += ["x_block", "y_block", "blocks"] if self.blocks[0].times > 1 else []
        times = {"blocks": max(block.times for block in self.blocks)}
        times |= {"panels": rows, "groups": groups}
        return list(dict.fromkeys([*names, *(name for name, n in times.items() if n > 1)]))

    def _row(self) -> None:
        """All lines of a row: block by block."""
        k, x, v = self.k, self.x, self.v
        taps = range(x.xs.taps)
        offsets = [y * x.w.line + t * x.w.place for y in range(x.ys.taps) for t in taps]
        weights = dict(zip(offsets, self.weights, strict=True))
        place = v.load("w_panel", self.scratch[0])
        access_each(k, k.fload, weights, place, self.scratch[1], self.scratch[2])
        if self.start:
            k.fload(self.start, 0, v.load("bias", self.scratch[0]))
        if "x_block" not in v.homes:
            self._block(0, "x_start", "y_panel")
            return
        v.copy("x_block", "x_start")
        v.copy("y_block", "y_panel")
        for number, _ in enumerate(runs_of_blocks(v, x, self.point.cols)):
            self._block(number, "x_block", "y_block")

    def _block(self, number: int, x_block: str, y_block: str) -> None:
        """All lines of a block."""
        k, v, t = self.k, self.v, self.scratch[0]
        block = self.blocks[number]
        self.last = lines_of(self.x, block)[0].outputs[-1]
        k.add_constant(self.py, v.load(y_block, t), self.last, self.scratch[1])
        above = 0 if self.x.ys.is_transposed else -self.x.ys.pad * self.x.x.line
        if self.carried:
            self._carry(self.carried[number], x_block, y_block)
            return
        if self.rounds:
            first = self.rounds[number].heads[0][0].offset
            k.add_constant(self.px, v.load(x_block, t), first + above, self.scratch[1])
            self._all_rounds(self.rounds[number])
            return
        k.add_constant(self.px, v.load(x_block, t), above, self.scratch[1])
        if not self.has_all_lines:
            k.mv(self.line, v.load("at_start", t))
            k.add(self.end, self.line, v.load("line_count", t))
        at = 0
        for line in lines_of(self.x, block):
            if line.inputs:
                k.add_constant(self.px, self.px, line.inputs[-1].offset - at, t)
                at = line.inputs[-1].offset
            with self._each(line.lines):
                self._line(line)

    @contextmanager
    def _each(self, lines: BlockRun) -> Iterator[None]:
        """Run the body for those of some lines that are the core's."""
        k, (count, t, _) = self.k, self.scratch
        if self.has_all_lines and lines.times == 1:
            yield
            return
        if self.has_all_lines:
            k.li(count, lines.times)
            with k.hwloop(count):
                yield
            return
        stop = lines.first.start + lines.times
        k.li(t, stop)
        k.by_field(("p_min", "cv_min"), rd=count, rs1=t, rs2=self.end)
        k.sub(count, count, self.line)
        with k.if_(LT, ZERO, count):
            with k.hwloop(count):
                yield
            k.li(self.line, stop)

    def _count_rounds(self) -> None:
        """Count those of a part of the lines, and the lines that follow it."""
        k, v, (count, first, _) = self.k, self.v, self.scratch
        count, first = v.load("line_count", count), v.load("at_start", first)
        k.add(self.line, first, count)
        k.li(self.end, self.x.ys.outputs)
        k.sub(self.end, self.end, self.line)
        k.mv(self.line, count)
        if self.carried and self.carried[0].missing[1]:
            more = k.label()
            k.bnez(self.end, more)
            k.addi(self.line, self.line, -self.carried[0].missing[1])
            k.place(more)

    def _carry(self, block: Carried, x_block: str, y_block: str) -> None:
        """Compute the core's lines of a block, sums carried from line to line.

        NOTE: the loop runs twice: once to fill the sums, then for the lines. In between, `line` is
        what is left less than 0. With nothing to fill, it runs once.
        """
        k, x, v, (filled, t, _) = self.k, self.x, self.v, self.scratch
        (front, back), width = block.missing, len(block.line.outputs)
        last, start = block.taps[0][-1].offset, k.label()
        if self.has_all_lines:
            k.add_constant(self.px, v.load(x_block, t), last, t)
            k.li(self.line, x.ys.outputs - back)
            self._count_filled(block, filled)
        else:
            k.add_constant(self.px, v.load(x_block, t), last - front * x.x.line, t)
            k.li(filled, block.held)
            if front:
                inside = k.label()
                k.bnez(v.load("at_start", t), inside)
                self._count_filled(block, filled)
                k.add_constant(self.px, self.px, front * x.x.line, t)
                k.place(inside)
        for register in self.sums[(block.held - front) * width : block.held * width]:
            self._start_sum(register)
        with k.hwloop(filled):
            k.place(start)
            self._carried_line(block)
        k.sub(self.line, ZERO, self.line)
        with k.if_(LT, self.line, ZERO):
            k.sub(filled, ZERO, self.line)
            k.lp_count(0, filled)
            k.add_constant(self.py, v.load(y_block, t), self.last, t)
            k.j(start)
        ended = k.label()
        if back and not self.has_all_lines:
            k.bnez(self.end, ended)
        for line in range(back):
            self._store(block.line, line * width)
        k.place(ended)

    def _count_filled(self, block: Carried, filled: Register) -> None:
        """Count the rounds that fill the sums from a block's first line on; if there are none,
        those of its lines, as the second time that the loop runs.
        """
        k = self.k
        if count := block.held - block.missing[0]:
            k.li(filled, count)
        else:
            k.mv(filled, self.line)
            k.sub(self.line, ZERO, self.line)

    def _carried_line(self, block: Carried, ended: int = 0, *, is_first: bool = False) -> None:
        """Emit a round: load a line of the input, end a line of sums with it and carry others on.

        ended       of the lines of sums that it is added to, those before the block's first
        is_first    of the block's lines, is that of the input the first one?

        NOTE: what is added to a sum comes in the order in which a Round adds it.
        """
        k, x, width = self.k, self.x, len(block.line.outputs)
        places = [each.offset for each in block.taps[0]]
        pool = dict(zip(places, self.pool, strict=False))
        for place in places[:-1]:
            k.fload(pool[place], place - places[-1], self.px)
        k.fload_post(pool[places[-1]], x.x.line, self.px)
        for down in reversed(range(len(block.taps) - ended)):
            into = (len(block.taps) - 1 - down - (down < block.held)) * width
            is_begun = [down == block.held] * width
            inputs = block.taps[down]
            for each in inputs if down or not any(block.missing) else _turned(inputs):
                u = pool[each.offset - down * x.x.line]
                for q, tap in each.uses:
                    acc, w = self.sums[into + q], self.weights[tap]
                    if is_begun[q]:
                        k.fmadd_s(acc, u, w, acc)
                    elif down and not is_first:
                        k.fmadd_s(acc, u, w, self.sums[into + width + q])
                    elif self.start:
                        k.fmadd_s(acc, u, w, self.start)
                    else:
                        k.fmul_s(acc, u, w)
                    is_begun[q] = True
            if down == block.held:
                self._store(block.line)

    def _all_rounds(self, round_: Round) -> None:
        """Compute the core's lines of a block.

        NOTE: where lines follow those of the core, its last one has taps at its end as all others,
        but no further round, which would read inputs of the line after it: they may not be there.
        """
        k, whole, after = self.k, self.k.label(), self.k.label()

        def enter() -> None:
            if round_.missing[0] and not self.has_all_lines:
                k.bnez(self.v.load("at_start", self.scratch[0]), whole)
            self.enter(round_, whole, after)

        with k.hwloop(self.x.ys.outputs if self.has_all_lines else self.line, enter):
            self.round(round_, whole, after)
        if round_.tails:
            if not self.has_all_lines:
                self.cut.append((k.label(), k.label(), round_))
                cut, ended, _ = self.cut[-1]
                k.bnez(self.end, cut)
                k.place(ended)
            self._store(round_.line)

    def _end_cut_lines(self) -> None:
        """Emit, out of the way, what ends the last line of parts of the lines."""
        k, done = self.k, self.k.label()
        if not self.cut:
            return
        k.j(done)
        for cut, ended, round_ in self.cut:
            k.place(cut)
            self._end_line(round_)
            k.j(ended)
        self.cut.clear()
        k.place(done)

    def enter(self, round_: Round, whole: Label, after: Label) -> None:
        """Jump into the first round of a block."""
        k, x = self.k, self.x
        if round_.missing[0]:
            self._start_sums(round_.line)
            k.addi(self.px, self.px, x.ys.stride * x.x.line)
            k.j(after)
        elif round_.tails:
            k.j(whole)

    def round(self, round_: Round, whole: Label, after: Label) -> None:
        """Emit a round; place where a line begins, and what is after the taps it may lack."""
        k, x, line = self.k, self.x, round_.line
        first, step = round_.heads[0][0].offset, x.ys.stride * x.x.line
        if round_.tails:
            self._end_line(round_)
            self._store(line)
        k.place(whole)
        if x.accumulates:
            self._start_sums(line)
        is_begun = [x.accumulates] * len(line.outputs)
        self._multiply(_turned(round_.heads[0]), first, is_begun, step)
        for number, inputs in enumerate(round_.heads[1:], 1):
            if number == round_.missing[0]:
                k.place(after)
            self._multiply(inputs, first + step, is_begun)
        if not round_.tails:
            self._store(line)

    def _end_line(self, round_: Round) -> None:
        """Add the taps that a round begins with, of the line before."""
        step = self.x.ys.stride * self.x.x.line
        for inputs in round_.tails:
            is_begun = [True] * len(round_.line.outputs)
            self._multiply(inputs, round_.heads[0][0].offset + step, is_begun)

    def _start_sums(self, line: Line) -> None:
        """Load what the sums of a line start with."""
        k = self.k
        for register, at in zip(self.sums, line.outputs, strict=False):
            if self.x.accumulates:
                k.fload(register, at - self.last, self.py)
            else:
                self._start_sum(register)

    def _start_sum(self, register: Register) -> None:
        """Let a sum be what sums start with."""
        k = self.k
        if not self.start:
            k.fzero(register)
        elif k.has_float_registers:
            k.fsgnj_s(register, self.start, self.start)
        else:
            k.mv(register, self.start)

    def _line(self, line: Line) -> None:
        """Compute the next line of a block and store it."""
        k, x = self.k, self.x
        if x.accumulates:
            self._start_sums(line)
        is_begun = [x.accumulates] * len(line.outputs)
        if line.inputs:
            self._multiply(line.inputs, line.inputs[-1].offset, is_begun, self.x_step)
        else:
            k.addi(self.px, self.px, self.x_step)
        for q in (q for q, begun in enumerate(is_begun) if not begun):
            k.fzero(self.sums[q])
            if self.start:
                k.fadd_s(self.sums[q], self.sums[q], self.start)
        self._store(line)

    def _store(self, line: Line, first: int = 0) -> None:
        """Store the sums of a line, and go on to the next one, if py is the last one's address."""
        k = self.k
        for register, at in zip(self.sums[first:], line.outputs, strict=False):
            if at == self.last:
                k.fstore_post(register, self.y_step, self.py)
            else:
                k.fstore(register, at - self.last, self.py)

    def _multiply(
        self,
        inputs: tuple[Input, ...],
        origin: int,
        is_begun: list[bool],
        step: int = 0,
    ) -> None:
        """Load inputs, two ahead, and add them to the sums that want them.

        origin     offset of the input whose address px is
        is_begun   by sum; all that are added to are, then
        step       bytes that px goes on with the last load; 0: it does not
        """
        k, ahead, last = self.k, INPUTS - 1, len(inputs) - 1
        for at in range(-ahead, len(inputs)):
            load, register = at + ahead, self.pool[(at + ahead) % INPUTS]
            if load == last and step:
                k.fload_post(register, step, self.px)
            elif load <= last:
                k.fload(register, inputs[load].offset - origin, self.px)
            for q, tap in inputs[at].uses if at >= 0 else ():
                acc, u, v = self.sums[q], self.pool[at % INPUTS], self.weights[tap]
                if is_begun[q]:
                    k.fmadd_s(acc, u, v, acc)
                elif self.start:
                    k.fmadd_s(acc, u, v, self.start)
                else:
                    k.fmul_s(acc, u, v)
                is_begun[q] = True


def _turned(inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """The first one last: where px is stepped on, no other one lies before it.

    NOTE: 16-bit loads have no offset below 0.
    """
    return inputs[1:] + inputs[:1]
