"""What a correlation computes, and where its operands lie: see trainlib.conv.correlate."""

from dataclasses import dataclass, replace
from functools import cached_property

from firmware.builder import Register
from trainlib.conv.axis import Axis, Outputs
from trainlib.conv.plan import Body, Mac, Value
from trainlib.primitive.tensor import Address


@dataclass(frozen=True)
class Images:
    """A tensor of images: bytes from one element to the next in each dimension."""

    address: Address
    group: int
    channel: int
    line: int
    place: int

    @property
    def turned(self) -> "Images":
        """Lines for columns."""
        return replace(self, line=self.place, place=self.line)


@dataclass(frozen=True)
class Weights:
    """The kernels, likewise; `offset` bytes behind the address is the first one."""

    address: Address
    group: int
    row: int
    channel: int
    line: int
    place: int
    offset: int = 0

    @property
    def turned(self) -> "Weights":
        """Lines for columns."""
        return replace(self, line=self.place, place=self.line)


@dataclass(frozen=True)
class Correlation:
    """What is computed.

    rows, channels    of each group
    ys, xs            the dimensions of the images
    bias              one for each row of each group, what the sums start with; None: 0, or
    accumulates       what Y holds
    lines             registers that say which lines are computed, all of them by each core: the
                      first one, and how many, at least one; the code sets them free. None: all
    each        a register that says how many groups each core has, `groups` of all cores at most;
                the code sets it free. None: they are dealt out here
    """

    groups: int
    rows: int
    channels: int
    ys: Axis
    xs: Axis
    x: Images
    w: Weights
    y: Images
    bias: Address | None = None
    accumulates: bool = False
    lines: tuple[Register, Register] | None = None
    each: Register | None = None

    @cached_property
    def turned(self) -> "Correlation":
        """The same with lines for columns."""
        return replace(
            self, ys=self.xs, xs=self.ys, x=self.x.turned, w=self.w.turned, y=self.y.turned
        )

    @cached_property
    def straight(self) -> "Correlation":
        """The same, lines read forward where that is possible."""
        if not self.ys.is_transposed or self.ys.stride > 1:
            return self
        offset = self.w.offset + (self.ys.taps - 1) * self.w.line
        return replace(
            self, ys=self.ys.flipped, w=replace(self.w, line=-self.w.line, offset=offset)
        )

    @property
    def starts(self) -> bool:
        """Do the sums start with something that is loaded?"""
        return self.accumulates or self.bias is not None

    def body(self, height: int, block: Outputs, pool: int) -> Body:
        """The inner loop of a block: all taps along x."""
        macs = [
            Mac(
                r * block.width + read.q,
                Value("w", r * self.w.row + read.tap * self.w.place),
                Value("x", read.place * self.x.place),
            )
            for tap in range(self.xs.taps)
            for r in range(height)
            for read in block.reads
            if read.tap == tap
        ]
        w_step = self.w.line * self.ys.tap_step
        x_step = self.x.line * self.ys.source_step
        if self.channels > 1:
            w_step, x_step = self.w.channel, self.x.channel
        elif self.ys.taps == 1:
            w_step = x_step = 0
        return Body(macs, pool, {"w": w_step, "x": x_step})
