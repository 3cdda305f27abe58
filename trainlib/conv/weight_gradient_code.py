"""The code of a gradient of weights: loops over rows, channels and taps around the inner loops."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from firmware.builder import LT, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.conv.weight_gradient import Nest, Point, WeightGradient, choose, fitting, tap_blocks
from trainlib.loops.deal import Dealt, Part, grid_of, heights
from trainlib.loops.strided import access_each
from trainlib.loops.values import Values, values
from trainlib.primitive.tensor import WORD, Address

GIVEN = ("dy", "x_start", "dw_row")
INNER = ("at", "taps", "dw_line", "x", "dw", "channels", "rows", "groups")
COUNT, DY, X, ENTRY = 0, 4, 8, 12  # bytes of an entry of the table of taps


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

    raises    KernelError if there is no such point
    """
    given = {"rows": rows, "channels": channels, "cols": cols, "split": split}
    point = choose(name, g, team.cores, given | {"is_turned": is_turned})
    Code(k, team, g.turned if point.is_turned else g, point, others).emit()


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
        self.table = self._table()

    def _table(self) -> int:
        """Put what each tap along y reads into memory: lines, and where they begin."""
        g, words = self.g, b""
        for tap in range(g.ys.taps):
            lines = g.ys.readers(tap)
            first = lines[0] if lines else 0
            entry = (len(lines), first * g.dy.line, (g.ys.source(first, tap) or 0) * g.x.line)
            words += b"".join(value.to_bytes(WORD, "little") for value in entry)
        return self.k.data("taps", words)

    def emit(self) -> None:
        """Deal the work out, and do it."""
        k, g, point = self.k, self.g, self.point
        with k.scope():
            given = dict(zip(GIVEN, k.x(len(GIVEN)), strict=True))
            i, j, t = k.x(3)
            is_row = g.groups == 1
            rows = Dealt(k, g.rows if is_row else g.groups, point.split[0], i, t)
            channels = Dealt(k, g.channels, point.split[1], j, t)
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
        self, given: dict[str, Register], dealt: Dealt, part: Part, is_row: bool
    ) -> None:
        g = self.g
        dealt.load_start(given["dy"], part, g.dy.address, g.dy.channel if is_row else g.dy.group)
        dealt.load_start(given["x_start"], part, g.x.address, 0 if is_row else g.x.group)
        dealt.load_start(given["dw_row"], part, g.dw.address, g.dw.row if is_row else g.dw.group)

    def _part(self, given: dict[str, Register], size: int, channels: int) -> None:
        """All of a core: its groups, or its rows of the only one."""
        k, g, nest = self.k, self.g, self.nest
        rows, groups = (size, 1) if g.groups == 1 else (g.rows, size)
        own = nest.sums + nest.pool
        inner = nest.addresses + (3 if k.has_float_registers else own)
        bases = [g.dy.address, g.x.address, g.dw.address, *self.others]
        with values(k, given, INNER, inner, bases) as homes:
            pointers = len(nest.bodies[0].reaches)
            self.pointers, self.constants = k.x(pointers), k.x(nest.addresses - pointers)
            scratch = k.x(3) if k.has_float_registers else []
            self.sums, self.pool = k.f(nest.sums), k.f(nest.pool)
            self.scratch = scratch or self.pool[:3]
            self.v = Values(k, homes, *self.scratch[:2])
            with self.v.loop("groups", groups):
                self._group(rows, channels)

    def _group(self, rows: int, channels: int) -> None:
        g, v = self.g, self.v
        for height, panels in heights(rows, self.point.rows).items():
            with v.loop("rows", panels):
                v.copy("x", "x_start")
                v.copy("dw", "dw_row")
                for depth, times in heights(channels, self.point.channels).items():
                    with v.loop("channels", times):
                        for taps in self.tap_blocks:
                            self._taps(height, depth, taps)
                        v.add("x", depth * g.x.channel)
                        v.add("dw", depth * g.dw.channel)
                v.add("dw_row", height * g.dw.row)
                v.add("dy", height * g.dy.channel)
        v.add("dy", g.dy.group - rows * g.dy.channel)
        v.add("dw_row", g.dw.group - rows * g.dw.row)
        v.add("x_start", g.x.group)

    def _taps(self, height: int, depth: int, taps: range) -> None:
        """A block of sums for each tap along y."""
        k, g, v = self.k, self.g, self.v
        v.copy("dw_line", "dw")
        k.li(self.scratch[0], self.table)
        v.set("at", self.scratch[0])
        nest = Nest(g, height, depth, taps, self.point.cols, self.nest.pool)
        with v.loop("taps", g.ys.taps):
            self._block(nest)
            v.add("dw_line", g.dw.line)
            v.add("at", ENTRY)

    def _block(self, nest: Nest) -> None:
        k, g = self.k, self.g
        sums = self.sums[: nest.sums]
        if g.accumulates:
            self._each_sum(k.fload, nest)
        else:
            for register in sums:
                k.fzero(register)
        if nest.bodies[0].reaches:
            self._load_pointers(nest)
            entry = self.v.load("at", self.scratch[0])
            count = self.scratch[0]
            k.lw(count, COUNT, entry)
            if all(g.ys.readers(tap) for tap in range(g.ys.taps)):
                self._lines(nest, sums, count)
            else:
                with k.if_(LT, ZERO, count):
                    self._lines(nest, sums, count)
        self._each_sum(k.fstore, nest)

    def _load_pointers(self, nest: Nest) -> None:
        k, first = self.k, nest.bodies[0]
        for stream, base, field in (("g", "dy", DY), ("x", "x", X)):
            start, t = self.scratch[:2]
            k.lw(start, field, self.v.load("at", start))
            k.add(start, start, self.v.load(base, t))
            for pointer, register in zip(first.pointers, self.pointers, strict=False):
                if pointer.stream == stream:
                    k.add_constant(register, start, pointer.bias, t)

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

    def _each_sum(self, access: Callable, nest: Nest) -> None:
        """Load or store the sums of a block."""
        dw, floats, registers = self.g.dw, {}, iter(self.sums)
        for r in range(nest.rows):
            for c in range(nest.channels):
                for tap in nest.taps:
                    floats[r * dw.row + c * dw.channel + tap * dw.place] = next(registers)
        place = self.v.load("dw_line", self.scratch[0])
        access_each(self.k, access, floats, place, self.scratch[1], self.scratch[2])
