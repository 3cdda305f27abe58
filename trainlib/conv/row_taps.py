"""The taps that each line of a correlation reads: their number, and where the first one reads.

even          every line reads through all taps: nothing is to be found out
otherwise     taps that would read above or below the image are left out: some arithmetic; and so
              are those of a gradient that lie between inputs, where its stride is a power of two
table         of other gradients with a stride, or dilated: a word for each line in L2

And the loops around lines: over blocks of columns, rows and groups of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from firmware.builder import Kernel, KernelError, Register
from firmware.registers import ZERO
from trainlib.codegen.spill import Values
from trainlib.conv.axis import BlockRun
from trainlib.conv.correlation import Correlation
from trainlib.primitive.tensor import WORD

COUNT, TAP, SOURCE = (0, 8), (8, 8), (16, 16)  # first bit and bits of a field of the table


class Lines:
    """The lines of one correlation.

    at       stands for a line: where its first tap reads, or what all taps of a gradient do that
             are a stride apart; or the address of its word in the table
    reads    through how many taps every line reads; None: some through others than others

    raises    KernelError if the table cannot say it
    """

    def __init__(self, k: Kernel, x: Correlation) -> None:
        self.k, self.x = k, x
        lines = [x.ys.line(y) for y in range(x.ys.outputs)]
        self.is_even = not x.ys.is_transposed and all(line.reads == x.ys.taps for line in lines)
        counts = {line.reads for line in lines}
        self.reads = counts.pop() if len(counts) == 1 else None
        stride = x.ys.stride if x.ys.is_transposed else 1
        self.shift = stride.bit_length() - 1  # of a number of outputs to one of inputs
        is_plain = x.ys.dilation == 1 and stride == 1 << self.shift
        self.has_table = not self.is_even and not is_plain
        self.may_read_nothing = any(line.reads == 0 for line in lines)
        if not self.has_table:
            return
        if x.ys.taps >> TAP[1] or x.ys.inputs >> SOURCE[1]:
            raise KernelError(
                f"{k.name}: {x.ys.taps} taps over {x.ys.inputs} lines; with dilation or transposed "
                f"there are less than {1 << TAP[1]} taps and {1 << SOURCE[1]} lines"
            )
        words = b""
        for line in lines:
            fields = zip((COUNT, TAP, SOURCE), line, strict=True)
            words += sum(value << first for (first, _), value in fields).to_bytes(WORD, "little")
        self.table = k.data("lines", words)

    @property
    def begins(self) -> tuple[str, ...]:
        """The values that a line begins with."""
        return ("w_panel", "x_line") if self.is_even else ("at", "x_line", "w_panel")

    @property
    def steps(self) -> dict[str, int]:
        """What `step` adds to values."""
        if self.has_table:
            return {"at": WORD}
        if self.x.ys.is_transposed:
            return {"at": 1}
        of_image = {"x_line": self.x.ys.stride * self.x.x.line}
        return of_image if self.is_even else of_image | {"at": self.x.ys.stride}

    def load_place(self, line: Register, x_start: Register, t: Register) -> None:
        """Turn the number of a line into what stands for it, and add to the image's address."""
        k, x = self.k, self.x
        if self.has_table:
            k.slli(line, line, WORD.bit_length() - 1)
            k.li(t, self.table)
            k.add(line, line, t)
            return
        if x.ys.is_transposed:
            k.add_constant(line, line, x.ys.pad, t)
            return
        if x.ys.stride > 1:
            k.li(t, x.ys.stride)
            k.mul(line, line, t)
        k.add_constant(line, line, -x.ys.pad, t)
        add_product(k, x_start, line, x.x.line, t)

    def step(self, v: Values) -> None:
        """Go on to the next line."""
        for name, step in self.steps.items():
            v.add(name, step)

    def begin(self, v: Values, scratch: Sequence[Register]) -> None:
        """Load how much the line reads, and from where."""
        k, x = self.k, self.x
        if self.is_even:
            v.copy("w_line", "w_panel")
            v.copy("x_block", "x_line")
            return
        count, tap, t = scratch
        if self.has_table:
            k.lw(t, 0, v.load("at", t))
            self._extract(count, t, SOURCE)
            k.li(tap, x.x.line)
            k.mul(count, count, tap)
            k.add(count, count, v.load("x_line", tap))
            v.set("x_block", count)
            if self.reads is None:
                self._extract(count, t, COUNT)
                v.set("reads", count)
            self._extract(tap, t, TAP)
        elif x.ys.is_transposed:
            self._begin_between(v, count, tap, t)
        else:
            at = v.load("at", t)
            k.sub(tap, ZERO, at)
            k.by_field(("p_max", "cv_max"), rd=tap, rs1=tap, rs2=ZERO)
            if self.reads is None:
                k.li(count, x.ys.inputs)
                k.sub(count, count, at)
                k.li(t, x.ys.taps)
                k.by_field(("p_min", "cv_min"), rd=count, rs1=count, rs2=t)
                k.sub(count, count, tap)
                v.set("reads", count)
            k.li(count, x.x.line)
            k.mul(count, tap, count)
            k.add(count, count, v.load("x_line", t))
            v.set("x_block", count)
        k.li(count, x.w.line)
        k.mul(count, tap, count)
        k.add(count, count, v.load("w_panel", t))
        v.set("w_line", count)

    def _begin_between(self, v: Values, source: Register, tap: Register, t: Register) -> None:
        """Likewise of a gradient with a stride: it reads through taps that far apart."""
        k, x, shift = self.k, self.x, self.shift
        at = v.load("at", t)
        k.andi(tap, at, x.ys.stride - 1)
        k.srai(source, at, shift)
        if (x.ys.outputs - 1 + x.ys.pad) // x.ys.stride >= x.ys.inputs:
            k.add_constant(t, source, 1 - x.ys.inputs, t)
            k.by_field(("p_max", "cv_max"), rd=t, rs1=t, rs2=ZERO)
            k.sub(source, source, t)
            k.slli(t, t, shift)
            k.add(tap, tap, t)
        if self.reads is None:
            k.li(t, x.ys.taps + x.ys.stride - 1)
            k.sub(t, t, tap)
            k.srai(t, t, shift)
            if x.ys.pad // x.ys.stride + 1 < -(-x.ys.taps // x.ys.stride):
                k.addi(source, source, 1)
                k.by_field(("p_min", "cv_min"), rd=t, rs1=t, rs2=source)
                k.addi(source, source, -1)
            v.set("reads", t)
        k.li(t, x.x.line)
        k.mul(source, source, t)
        k.add(source, source, v.load("x_line", t))
        v.set("x_block", source)

    def _extract(self, rd: Register, rs1: Register, field: tuple[int, int]) -> None:
        first, bits = field
        self.k.slli(rd, rs1, 32 - first - bits)
        self.k.srli(rd, rd, 32 - bits)


def runs_of_blocks(
    v: Values, x: Correlation, cols: int
) -> Iterator[tuple[BlockRun, tuple[str, ...], str | None]]:
    """Emit the loop's body for each run of blocks of a line, x_block and y_block at a block's.

    yields    the run, which of these are added to after a block, and what counts its blocks, if
              there are several
    """
    for run, following in pairwise([*x.xs.runs(cols), None]):
        assert run
        is_many = run.times > 1
        steps = ("y_block", "x_block") if following or is_many else ()
        with v.loop("blocks", run.times):
            yield run, steps, "blocks" if is_many else None
            if steps:
                v.add("y_block", run.first.width * x.y.place)
            if is_many:
                v.add("x_block", run.step * x.x.place)
        if following:
            done = run.first.base + is_many * run.times * run.step
            v.add("x_block", (following.first.base - done) * x.x.place)


def next_panel(v: Values, x: Correlation, rows: int = 1) -> None:
    """Advance to what comes after so many rows of a panel."""
    v.add("w_panel", rows * x.w.row)
    v.add("y_panel", rows * x.y.channel)
    if x.bias is not None:
        v.add("bias", rows * x.row_size)


def next_group(v: Values, x: Correlation, rows: int) -> None:
    """Advance from after all rows of a group to the next one."""
    v.add("w_panel", x.w.group - rows * x.w.row)
    v.add("y_panel", x.y.group - rows * x.y.channel)
    v.add("x_start", x.x.group)


def each_row(v: Values, x: Correlation, rows: int, groups: int, emit: Callable[[], None]) -> None:
    """Loops around the code of a row: over rows, and over groups of them."""
    with v.loop("groups", groups):
        with v.loop("panels", rows):
            emit()
            next_panel(v, x)
        if groups > 1:
            next_group(v, x, rows)


def add_product(
    k: Kernel, rd: Register, index: Register, step: int, t: Register, *, is_new: bool = True
) -> None:
    """Add a number of steps: rd += index * step; t is the product, if not is_new already before."""
    if is_new:
        k.li(t, step)
        k.mul(t, index, t)
    k.add(rd, rd, t)
