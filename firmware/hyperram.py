"""Copies between L2 and the HyperRAM, by the fabric controller and the uDMA, as emitted code.

Registers and cycles: docs/peripherals/hyperbus.md. Settings are those of pulp-sdk's driver.
"""

from firmware.builder import EQ, Kernel, KernelError, Register
from firmware.platform import REGIONS, address_of
from firmware.registers import ZERO
from soc.address_map.events import FABRIC_EVENTS, event_line
from soc.address_map.hyperbus import HYPERBUS, HYPERBUS_COMMON
from soc.address_map.udma import (
    BLOCK_SIZE,
    ENABLE,
    EVENTS,
    HYPERBUS_COMMON_ID,
    HYPERBUS_ID,
    HYPERBUS_QUEUES,
)

Address = Register | int

LARGEST = (1 << 20) - 1  # bytes of one copy
SOC_EVENT = 1 << event_line(FABRIC_EVENTS, "soc")
ENDS = EVENTS * HYPERBUS_ID + 2, EVENTS * HYPERBUS_ID + 3  # of reads, of writes
READ, WRITE = 5, 1  # COMMAND: linear bursts
SETTINGS = {"LATENCY_ADD": 1, "DEVICE": 0, "SELECT_MAX": 0xFFFFFFFF, "LATENCY": 6, "PAGE_BOUND": 3}
DATA = {True: "RX", False: "TX"}
SIDES = {"DEVICE": "line", "L2": "l2_line"}


def _block(number: int) -> int:
    return REGIONS["udma"].base + BLOCK_SIZE * (number + 1)


def reach(size: int) -> int:
    """Bytes of an L2 of this size that the uDMA reaches: a power of two, see docs/peripherals."""
    return 1 << size.bit_length() - 1


class HyperRam:
    """The HyperRAM as the fabric controller uses it: one copy at a time through queue `number`.

        ram = HyperRam(k)
        ram.begin()
        ram.to_l2(l2, address, size)
        ram.wait()

    A copy runs without the controller. Addresses in the HyperRAM count from 0. With line and
    stride, the HyperRAM holds lines of `line` bytes, each `stride` bytes after the one before;
    with l2_line and l2_stride, so does L2.
    """

    def __init__(self, k: Kernel, number: int = 0) -> None:
        if not 0 <= number < HYPERBUS_QUEUES:
            raise KernelError(f"hyperram: queue {number}; there are 0 to {HYPERBUS_QUEUES - 1}")
        self.k, self.base = k, _block(HYPERBUS_ID + number)

    def begin(self) -> None:
        """Switch the clock on, choose the device's times, let ends of copies interrupt."""
        k = self.k
        with k.scope():
            at, value = k.x(2)
            k.li(at, REGIONS["udma"].base)
            k.lw(value, 0, at)
            k.ori(value, value, 1 << HYPERBUS_ID)
            k.sw(value, 0, at)
            common = _block(HYPERBUS_COMMON_ID)
            k.li(at, common)
            for name, setting in SETTINGS.items():
                k.li(value, setting)
                k.sw(value, HYPERBUS_COMMON.offset(name), at)
            k.li(at, address_of("soc_events", "FC_MASK", ENDS[0] // 32))
            k.lw(value, 0, at)
            k.andi(value, value, ~sum(1 << end % 32 for end in ENDS))
            k.sw(value, 0, at)
            k.li(at, address_of("interrupt_controller", "MASK_SET"))
            k.li(value, SOC_EVENT)
            k.sw(value, 0, at)

    def to_l2(self, l2: Address, ram: Address, size: Address, **lines: int) -> None:
        """Start a copy of size bytes to L2; lines are line, stride, l2_line, l2_stride.

        raises    KernelError for a size of none, or of more than LARGEST
        """
        self._start(True, l2, ram, size, lines)

    def to_ram(self, l2: Address, ram: Address, size: Address, **lines: int) -> None:
        """Start a copy of size bytes to the HyperRAM; lines are line, stride, l2_line, l2_stride.

        raises    KernelError for a size of none, or of more than LARGEST
        """
        self._start(False, l2, ram, size, lines)

    def _start(
        self, to_l2: bool, l2: Address, ram: Address, size: Address, lines: dict[str, int]
    ) -> None:
        if isinstance(size, int) and not 1 <= size <= LARGEST:
            raise KernelError(f"hyperram: {size} bytes; a copy has 1 to {LARGEST}")
        side = DATA[to_l2]
        values: dict[str, Address] = {}
        for where, name in SIDES.items():
            line = lines.get(name, 0)
            values[f"{where}_2D"] = int(line > 0)
            if line:
                values[f"{where}_COUNT"] = line
                values[f"{where}_STRIDE"] = lines[name.replace("line", "stride")]
        values |= {"COMMAND": READ if to_l2 else WRITE, "ADDRESS": ram}
        values |= {f"{side}_ADDRESS": l2, f"{side}_SIZE": size, f"{side}_CONFIG": ENABLE}
        k = self.k
        with k.scope():
            at, scratch = k.x(2)
            k.li(at, self.base)
            for register, value in values.items():
                if isinstance(value, int):
                    if value:
                        k.li(scratch, value)
                    value = scratch if value else ZERO
                k.sw(value, HYPERBUS.offset(register), at)

    def wait(self, others: int = 0) -> None:
        """Sleep until no copy of this queue is under way.

        others    further lines of the interrupt controller that are let pass: a bit each
        """
        k = self.k
        with k.scope():
            queue, interrupts, value = k.x(3)
            k.li(queue, self.base)
            k.li(interrupts, address_of("interrupt_controller", "STATUS_CLEAR"))
            again, done = k.here(), k.label()
            k.li(value, SOC_EVENT | others)
            k.sw(value, 0, interrupts)  # an end after this is not missed
            k.lw(value, HYPERBUS.offset("STATUS"), queue)
            k.andi(value, value, 1)
            with k.if_(EQ, value, ZERO):
                k.j(done)
            k.wfi()
            k.j(again)
            k.place(done)
