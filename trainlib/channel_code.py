"""The code of correlations of one channel each, see trainlib.channel."""

from collections.abc import Iterator
from contextlib import contextmanager

from firmware.builder import LT, Kernel, Register
from firmware.registers import ZERO
from trainlib.axis import Run
from trainlib.channel import ADDRESSES, INPUTS, Input, Line, lines_of
from trainlib.correlate import Point
from trainlib.correlation import Correlation
from trainlib.kernels import WORD
from trainlib.lines import add_product, runs_of_blocks
from trainlib.strided import access_each
from trainlib.values import Values, values

VALUES = ("x_block", "y_block", "blocks", "panels", "groups")


def load_place(k: Kernel, x: Correlation, line: Register, x_start: Register, t: Register) -> None:
    """Add to the image's address what a line's place is."""
    add_product(k, x_start, line, x.ys.stride * x.x.line, t)
    k.add_constant(x_start, x_start, -x.ys.pad * x.x.line, t)


class Channels:
    """The registers of a core's part, and the code that works on it.

    px, py       places in the input and the output
    line, end    the next line, and where the core's end; if it has not all of them
    weights      all taps'; sums: of a line of a block; pool: inputs; start: of a sum, if biased
    """

    def __init__(self, k: Kernel, x: Correlation, point: Point) -> None:
        self.k, self.x, self.point = k, x, point
        self.has_all_lines = x.lines is None and point.split[1] == 1

    def part(self, given: dict[str, Register], size: int) -> None:
        """All of a core: its groups, or its rows of the only one.

        given    registers by name, see trainlib.correlator; at_start: the number of the first line
        """
        k, x = self.k, self.x
        rows, groups = (size, 1) if x.groups == 1 else (x.rows, size)
        taps, starts = x.ys.taps * x.xs.taps, int(x.bias is not None)
        floats = taps + self.point.cols + INPUTS + starts
        inner = ADDRESSES + (INPUTS if k.has_float_registers else floats)
        bases = [x.x.address, x.w.address, x.y.address, x.bias]
        with values(k, given, VALUES, inner, bases) as homes:
            self.px, self.py, self.line, self.end = k.x(ADDRESSES)
            scratch = k.x(INPUTS) if k.has_float_registers else []
            self.weights, self.sums = k.f(taps), k.f(self.point.cols)
            self.pool = k.f(INPUTS)
            self.start = k.f() if starts else None
            self.scratch = scratch or self.pool
            self.v = Values(k, homes, *self.scratch[:2])
            with self.v.loop("groups", groups):
                with self.v.loop("panels", rows):
                    self._row()
                    self._next_row()
                if groups > 1:
                    self.v.add("w_panel", x.w.group - rows * x.w.row)
                    self.v.add("y_panel", x.y.group - rows * x.y.channel)
                    self.v.add("x_start", x.x.group)

    def _next_row(self) -> None:
        x, v = self.x, self.v
        v.add("w_panel", x.w.row)
        v.add("y_panel", x.y.channel)
        if self.start:
            v.add("bias", WORD)

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
        v.copy("x_block", "x_start")
        v.copy("y_block", "y_panel")
        for run in runs_of_blocks(v, x, self.point.cols):
            self._block(run)

    def _block(self, block: Run) -> None:
        """All lines of a block."""
        k, v, t = self.k, self.v, self.scratch[0]
        k.mv(self.px, v.load("x_block", t))
        last = (block.first.width - 1) * self.x.y.place
        k.add_constant(self.py, v.load("y_block", t), last, self.scratch[1])
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
    def _each(self, lines: Run) -> Iterator[None]:
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

    def _line(self, line: Line) -> None:
        """Compute the next line of a block and store it."""
        k, x = self.k, self.x
        last = line.outputs[-1]
        if x.accumulates:
            for register, at in zip(self.sums, line.outputs, strict=False):
                k.fload(register, at - last, self.py)
        self._multiply(line)
        for register, at in zip(self.sums, line.outputs[:-1], strict=False):
            k.fstore(register, at - last, self.py)
        k.fstore_post(self.sums[len(line.outputs) - 1], x.y.line, self.py)

    def _multiply(self, line: Line) -> None:
        """Load inputs, two ahead, and add them to the sums that want them."""
        k, x = self.k, self.x
        is_begun = [x.accumulates] * len(line.outputs)
        ahead = INPUTS - 1
        for at in range(-ahead, len(line.inputs)):
            if at + ahead < len(line.inputs):
                self._load(line.inputs, at + ahead)
            for q, tap in line.inputs[at].uses if at >= 0 else ():
                acc, u, v = self.sums[q], self.pool[at % INPUTS], self.weights[tap]
                if is_begun[q]:
                    k.fmadd_s(acc, u, v, acc)
                elif self.start:
                    k.fmadd_s(acc, u, v, self.start)
                else:
                    k.fmul_s(acc, u, v)
                is_begun[q] = True
        if not line.inputs:
            k.addi(self.px, self.px, x.ys.stride * x.x.line)
        for q in (q for q, begun in enumerate(is_begun) if not begun):
            k.fzero(self.sums[q])
            if self.start:
                k.fadd_s(self.sums[q], self.sums[q], self.start)

    def _load(self, inputs: tuple[Input, ...], at: int) -> None:
        k, register = self.k, self.pool[at % INPUTS]
        if at == len(inputs) - 1:
            k.fload_post(register, self.x.ys.stride * self.x.x.line, self.px)
        else:
            k.fload(register, inputs[at].offset - inputs[-1].offset, self.px)
