"""The uDMA: its core, which gates the clocks of the peripherals that it serves, and its way to L2.

Source: udma_core 1.1.2 (udma_apb_if.sv, udma_ctrl.sv), pulp_soc 3.0.1 udma_subsystem.sv.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from simpy import Environment

from soc.address_map.register import Block, Register
from soc.address_map.udma import BLOCK_SIZE, BLOCKS, EVENTS, HYPERBUS_ID, NAMES, UDMA_CORE
from soc.chip.state import Chip
from soc.peripherals.bus import BusError
from soc.peripherals.l2_store import store_l2
from soc.peripherals.register_block import RegisterBlock, stores
from soc.prelude.warns_once import WarnsOnce

ADDRESSES = 0x1FFF
"""Bits of an address in the uDMA's region; those from 12 on are not decoded."""

NOT_MODELLED = (Register("WORD", 0, "", count=BLOCK_SIZE // 4),)

HYPERBUS_GATE = HYPERBUS_ID
"""One clock gate serves all blocks of HyperBus."""


TRIGGERS = 4
"""SoC events that EVENT_IN chooses, a byte each."""


class L2Window(WarnsOnce):
    """L2 as the uDMA sees it: a power of two of bytes, past whose end addresses begin anew.

    Source: udma_core keeps the lower bits of an address and forces its top byte.
    """

    def __init__(self, chip: Chip, base: int, size: int, warn: Callable[[str], None]):
        super().__init__("udma", warn)
        self.chip, self.base = chip, base
        self.mask = (1 << size.bit_length() - 1) - 1

    @property
    def memory(self) -> np.ndarray:
        """All of L2, uint8[size]."""
        return self.chip.l2.view(np.uint8)

    def place(self, address: int, size: int) -> int:
        """Offset of an address from the start of L2; warns of what goes past the end."""
        offset = address & self.mask
        if offset + size > self.mask + 1:
            last = self.base + self.mask
            self.warn_once(
                f"{size} bytes at {self.base + offset:#010x} go past {last:#010x}, the last byte "
                f"that the uDMA reaches; it goes on at {self.base:#010x}",
                "past the end",
            )
        return offset

    def load(self, offset: int, size: int) -> bytes:
        """Read bytes, from an offset of `place` on."""
        offset &= self.mask
        rest = max(0, offset + size - self.mask - 1)
        return self.memory[offset : offset + size].tobytes() + self.memory[:rest].tobytes()

    def store(self, offset: int, data: bytes) -> None:
        """Write bytes; code that they change is decoded anew after a fence.i."""
        offset &= self.mask
        first = self.mask + 1 - offset
        store_l2(self.chip, offset, data[:first])
        if data[first:]:
            self.store(0, data[first:])


@dataclass(frozen=True)
class UdmaPorts:
    """Ports that the uDMA gives to a peripheral.

    name, number    of the peripheral
    l2              the way to L2
    warn            out   a sentence
    event           out   0..3: an event of this peripheral, in this cycle
    clocked         out   the cycle from which its clock runs: this one, if it does not
    """

    env: Environment
    name: str
    number: int
    l2: L2Window
    warn: Callable[[str], None]
    event: Callable[[int], None]
    clocked: Callable[[], int]


Maker = Callable[[UdmaPorts], RegisterBlock]


class Udma(RegisterBlock):
    """Passes accesses on to peripherals, each made at its first one; their clocks are off at reset.

    makers    of peripherals, by their names; of others, registers only remember

    Ports
        warn       out   see RegisterBlock
        trigger    out   number of a SoC event
        hear       in    number of one that passes PERIPHERAL_MASK
    """

    def __init__(
        self,
        env: Environment,
        l2: L2Window,
        warn: Callable[[str], None],
        trigger: Callable[[int], None],
        makers: Mapping[str, Maker],
    ):
        super().__init__("udma", UDMA_CORE, warn)
        self.env, self.l2, self.trigger, self.makers = env, l2, trigger, makers
        self.blocks: dict[str, RegisterBlock] = {}
        self.clocked: dict[int, int] = {}  # by clock gates that are open, the cycle from which on

    def parts(self) -> Iterator[object]:
        """What has state besides, in a fixed order."""
        yield self.l2
        for number in NAMES:
            part = self.part(number)
            yield part
            yield from getattr(part, "parts", tuple)()

    def hear(self, number: int) -> None:
        """A SoC event that passes to peripherals: those that wait for it by EVENT_IN go on."""
        chosen = self.word("EVENT_IN")
        for trigger in range(TRIGGERS):
            if chosen >> 8 * trigger & 0xFF == number:
                for part in [*self.blocks.values()]:
                    getattr(part, "triggered", lambda _: None)(trigger)

    @stores("CLOCK_GATE")
    def _store_gates(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value)
        now = int(self.env.now)
        gates = [gate for gate in range(HYPERBUS_GATE + 1) if value >> gate & 1]
        clocked = {gate: self.clocked.get(gate, now) for gate in gates}
        self.clocked.clear()
        self.clocked.update(clocked)

    def loading(self, offset: int) -> Callable[[], int]:
        """What a load of the word at an offset calls; raises BusError if none answers."""
        block, register = self._decode(offset)
        return super().loading(register) if block < 0 else self.part(block).loading(register)

    def storing(self, offset: int) -> Callable[[int], object]:
        """What a store to the word at an offset calls; raises BusError if none answers."""
        block, register = self._decode(offset)
        if block < 0:
            return super().storing(register)
        store = self.part(block).storing(register)
        gate = 1 << min(block, HYPERBUS_GATE)

        def gated(value: int) -> None:
            if self.word("CLOCK_GATE") & gate:
                store(value)
            else:
                self._lose(block)

        return gated

    def part(self, number: int) -> RegisterBlock:
        """The peripheral with a number."""
        name = NAMES[number]
        made = self.blocks.get(name)
        if made is None:
            made = self.blocks[name] = self._make(number, name)
        return made

    def _make(self, number: int, name: str) -> RegisterBlock:
        first = EVENTS * min(number, HYPERBUS_ID)
        event = lambda which: self.trigger(first + which)  # noqa: E731
        gate = min(number, HYPERBUS_GATE)
        clocked = lambda: self.clocked.get(gate, int(self.env.now))  # noqa: E731
        ports = UdmaPorts(self.env, name, number, self.l2, self.warn, event, clocked)
        return self.makers.get(name, NotModelled)(ports)

    def _decode(self, offset: int) -> tuple[int, int]:
        """Number of the peripheral of an offset, -1: the core; offset in its block."""
        block, register = divmod(offset & ADDRESSES & 0xFFF, BLOCK_SIZE)
        if block >= BLOCKS:
            raise BusError(
                f"udma: block {block} does not exist (there are 0 to {BLOCKS - 1}) and never "
                "answers: the hart waits for ever"
            )
        return block - 1, register

    def _lose(self, number: int) -> None:
        name = NAMES[number]
        bit = min(number, HYPERBUS_GATE)
        self.warn_once(f"store to {name}, whose clock is off, is lost: set bit {bit} at 0x0")


class NotModelled(RegisterBlock):
    """A peripheral whose registers only remember; it says so once."""

    def __init__(self, ports: UdmaPorts):
        super().__init__(ports.name, Block(ports.name, "not modelled", NOT_MODELLED), ports.warn)

    def loading(self, offset: int) -> Callable[[], int]:
        """As in RegisterBlock."""
        self._tell()
        return super().loading(offset)

    def storing(self, offset: int) -> Callable[[int], object]:
        """As in RegisterBlock."""
        self._tell()
        return super().storing(offset)

    def _tell(self) -> None:
        self.warn_once("this peripheral is not modelled: its registers only remember")
