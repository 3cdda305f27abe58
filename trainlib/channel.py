"""Correlations of one channel each, the body of depthwise convolutions: weights stay in registers.

    for each group and row:  load all weights
        for each block of columns:  for each run of lines that read alike:  for each line

A line of a block loads each input once, multiplies it with all weights that want it, and stores its
sums: no loop over taps, and no weight is loaded again.
"""

from functools import cache
from typing import NamedTuple

from trainlib.axis import Axis, Run
from trainlib.correlation import Correlation
from trainlib.plan import CACHED, STEPS
from trainlib.strided import REACH

INPUTS = 3  # registers for inputs: two loads are ahead of the multiply-adds
ADDRESSES = 4  # registers inside of a block: of input and output, the line, and where lines end
REGISTERS = 28  # for all of it; others hold what stands around
LARGEST_CODE = 600  # instructions of all lines: they share the cache with other functions
BLOCK, RUN, ROW = 10, 7, 20  # instructions around a block, around a run of lines, around a row


class Input(NamedTuple):
    """An input of a line: its bytes from the block's place, and which sums want it times what.

    uses    of each, the sum and the weight
    """

    offset: int
    uses: tuple[tuple[int, int], ...]


class Line(NamedTuple):
    """What is done for each of some lines of a block.

    lines      that read alike
    inputs     in the order of their loads
    outputs    bytes of each sum from the block's place
    """

    lines: Run
    inputs: tuple[Input, ...]
    outputs: tuple[int, ...]

    @property
    def instructions(self) -> int:
        """How many, if sums start with nothing that is loaded."""
        return len(self.outputs) + sum(1 + len(each.uses) for each in self.inputs)

    @property
    def is_near(self) -> bool:
        """Do loads and stores reach all of it?"""
        inputs = [each.offset for each in self.inputs] or [0]
        return all(max(at) - min(at) in REACH for at in (inputs, self.outputs))


def lines_of(x: Correlation, block: Run) -> list[Line]:
    """The lines of a block, those that read alike taken together."""
    return list(_lines(x.ys, x.xs.taps, block, x.x.line, x.x.place, x.y.place))


@cache
def _lines(
    ys: Axis, taps: int, block: Run, line_bytes: int, place_bytes: int, output_bytes: int
) -> tuple[Line, ...]:
    found = []
    for lines in ys.runs(1):
        uses: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for down in lines.first.reads:
            for across in block.first.reads:
                place = down.place + ys.pad, across.place
                use = across.q, down.tap * taps + across.tap
                uses.setdefault(place, []).append(use)
        inputs = tuple(
            Input(down * line_bytes + across * place_bytes, tuple(uses[down, across]))
            for down, across in sorted(uses)
        )
        outputs = tuple(output_bytes * q for q in range(block.first.width))
        found.append(Line(lines, inputs, outputs))
    return tuple(found)


def is_single(x: Correlation, rows: int, cols: int) -> bool:
    """Can it be computed in this way, with so many sums?"""
    x, taps = x.straight, x.ys.taps * x.xs.taps
    floats = taps + cols + INPUTS + (x.bias is not None)
    if x.channels > 1 or rows > 1 or x.ys.is_transposed or ADDRESSES + floats > REGISTERS:
        return False
    if x.ys.stride * x.x.line not in STEPS or x.y.line not in STEPS:
        return False
    lines = [line for block in x.xs.runs(cols) for line in lines_of(x, block)]
    most = max(line.instructions for line in lines)
    total = sum(line.instructions + RUN for line in lines)
    return most <= CACHED and total <= LARGEST_CODE and all(line.is_near for line in lines)


def cycles_of_row(x: Correlation, cols: int, parts: int) -> float:
    """Cycles of a row of a group on one core of those that share its lines, nearly."""
    x = x.straight
    total = float(ROW + x.ys.taps * x.xs.taps)
    for block in x.xs.runs(cols):
        lines = lines_of(x, block)
        own = sum(each.lines.times * each.instructions for each in lines) / parts
        total += block.times * (BLOCK + RUN * len(lines) + own)
    return total
