"""The cluster DMA, as emitted code.

Register addresses, and what the registers mean: soc.address_map.registers.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

from firmware.builder import Kernel, KernelError, Label, Register
from firmware.platform import DMA, DMA_EVENT, EVENT_UNIT, WAITED_FOR, in_event_unit
from firmware.team import WAIT
from soc.address_map import registers

COMMAND, STATUS = (registers.DMA.offset(name) for name in ("COMMAND", "STATUS"))
FIELDS = {field.name: field for field in registers.DMA.register("COMMAND").fields}
LONGEST = FIELDS["length"].mask  # bytes of one command
ABOVE = next(32 - f.width for f in registers.DMA.register("STATUS").fields if f.name == "busy")
"""Bits of STATUS above those of counters with copies under way."""
CONTROL = DMA - EVENT_UNIT  # from one base register both are in reach

Address = Register | int


def command_words(
    to_l1: bool,
    l1: Address,
    l2: Address,
    size: int,
    line: int = 0,
    stride: int = 0,
    l1_line: int = 0,
    l1_stride: int = 0,
    to_all: bool = False,
) -> list[Address]:
    """What is stored to COMMAND, one after the other, for a copy of size bytes.

    Where one side has lines, those of the other are told, too: MCHAN loses entries of its queues
    of lines if commands with lines on both sides meet others, see docs/timing-rules.md.

    to_all    its end is an event for all cores, not just the one that starts it

    raises    KernelError if no command can say it
    """
    if not 1 <= size <= LONGEST:
        raise KernelError(f"dma: {size} bytes; a command copies 1 to {LONGEST}, make several")
    for a_line in (line, l1_line):
        if a_line and size % a_line:
            raise KernelError(f"dma: {size} bytes are not a whole number of {a_line}-byte lines")
    has_lines = bool(line or l1_line)
    command = size | FIELDS["increment"].mask | FIELDS["event"].mask
    command |= FIELDS["to_l1"].mask if to_l1 else 0
    command |= FIELDS["l2_2d"].mask | FIELDS["l1_2d"].mask if has_lines else 0
    command |= FIELDS["broadcast"].mask if to_all else 0
    far = (line, stride) if line else (l1_line, l1_line)
    near = (l1_line, l1_stride) if l1_line else (line, line)
    return [command, l1, l2, *far, *near] if has_lines else [command, l1, l2]


class Dma:
    """The DMA as one core uses it: a counter, copies under it, a wait for all of them.

        counter = k.x()
        dma.begin(counter)
        dma.to_l1(l1_address, l2_address, size)
        dma.wait(counter)

    Copies run without the core. With line and stride, L2 holds lines of `line` bytes, each
    `stride` bytes after the one before, before it if that is negative; with l1_line and l1_stride,
    so does L1. The other side holds them without gaps, or in lines of its own.
    """

    def __init__(self, k: Kernel) -> None:
        self.k = k

    def begin(self, counter: Register) -> None:
        """Allocate a counter for the copies that follow: counter = its bit in STATUS."""
        k = self.k
        with k.scope():
            one = k.x()
            k.li(counter, EVENT_UNIT)
            k.lw(counter, CONTROL + COMMAND, counter)
            k.li(one, 1)
            k.sll(counter, one, counter)

    def to_l1(self, l1: Address, l2: Address, size: int, **lines: Any) -> None:
        """Start a copy of size bytes from L2 to L1; lines are line, stride, l1_line, l1_stride.

        raises    KernelError if no command can say it
        """
        self.start(command_words(True, l1, l2, size, **lines))

    def to_l2(self, l1: Address, l2: Address, size: int, **lines: Any) -> None:
        """Start a copy of size bytes from L1 to L2; lines are line, stride, l1_line, l1_stride.

        raises    KernelError if no command can say it
        """
        self.start(command_words(False, l1, l2, size, **lines))

    def start(self, words: Sequence[Address]) -> None:
        """Start what the words of a command say."""
        k = self.k
        with k.scope():
            base, value = k.x(2)
            k.li(base, EVENT_UNIT)
            for word in words:
                if isinstance(word, int):
                    k.li(value, word)
                k.sw(value if isinstance(word, int) else word, CONTROL + COMMAND, base)

    def wait(self, counter: Register) -> None:
        """Sleep until the copies under a counter are done, and free it."""
        self.wait_open(counter)
        self.free(counter)

    def free(self, counter: Register) -> None:
        """Free counters whose copies are done: bits of STATUS, or 0."""
        k = self.k
        with k.scope():
            base = k.x()
            k.li(base, EVENT_UNIT)
            k.sw(counter, CONTROL + STATUS, base)

    def wait_for_all(self) -> None:
        """Sleep until no copy is under way, of any core; counters stay taken.

        NOTE: copies that are to be waited for have been started, and with events for this core.
        """
        k = self.k
        with k.scope():
            base, value = k.x(2)
            k.li(base, EVENT_UNIT)

            def load_running() -> None:
                k.lw(value, CONTROL + STATUS, base)  # waits until the last command has begun
                k.slli(value, value, ABOVE)

            self._sleep_while(load_running, base, value, k.label())

    def wait_open(self, counter: Register, region: str | None = None) -> None:
        """Sleep until the copies under a counter are done, and keep it for others.

        counter    a bit of STATUS; 0: nothing to wait for
        region     what measures it
        """
        k = self.k
        with k.scope():
            base, value = k.x(2)
            k.li(base, EVENT_UNIT)
            done = k.label()

            def load_running() -> None:
                k.lw(value, CONTROL + STATUS, base)  # waits until the last command has begun
                k.and_(value, value, counter)

            with k.region(region) if region else nullcontext():
                self._sleep_while(load_running, base, value, done)

    def _sleep_while(
        self, load_running: Callable[[], None], base: Register, value: Register, done: Label
    ) -> None:
        """Sleep while the word loaded to value is not 0, then go on at `done`, which is placed."""
        k = self.k
        load_running()
        k.beqz(value, done)
        k.li(value, DMA_EVENT)
        k.sw(value, in_event_unit("MASK"), base)
        again = k.here()
        k.by_field(WAIT, rd=value, imm=in_event_unit("WAIT_CLEAR"), rs1=base)
        load_running()
        k.bnez(value, again)
        k.li(value, WAITED_FOR)
        k.sw(value, in_event_unit("MASK"), base)
        k.place(done)
