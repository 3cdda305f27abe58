"""Components of the user's own: Python classes that a chip file names.

    [[device]]
    name = "engine"
    module = "mine.py:Engine"

A class derives from Device and declares its registers; what takes time is a process.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import ClassVar

import numpy as np
from simpy import Environment, Event

from soc.address_map.events import CLUSTER_EVENTS, event_line
from soc.address_map.register import Block, Field, Register
from soc.chip.device_spec import DeviceSpec
from soc.chip.state import Chip
from soc.peripherals.l2_store import store_l2
from soc.peripherals.register_block import RegisterBlock, loads, stores

__all__ = ["Block", "Device", "Field", "Register", "loads", "stores"]

MOST_WORDS = 256
"""Of an access of a port: what its buffer holds."""

WORD = 0xFFFFFFFF

L2_BEAT = 8
"""Bytes of L2 a cycle."""


@dataclass(frozen=True)
class DevicePorts:
    """Ports that a simulation gives to a device.

    first_port       number of its first port into L1
    read_latency     cycles from asking L2 to its first beat
    cluster_event    out   line of the event unit, to all cores
    interrupt        out   line of the fabric controller
    soc_event        out   number
    changed          out   the clocked parts have something to do
    fail             out   a sentence: the run ends, the device's code has gone wrong
    """

    env: Environment
    spec: DeviceSpec
    chip: Chip
    first_port: int
    read_latency: int
    warn: Callable[[str], None]
    cluster_event: Callable[[int], None]
    interrupt: Callable[[int], None]
    soc_event: Callable[[int], None]
    changed: Callable[[], None]
    fail: Callable[[str], None]


def failure(spec: DeviceSpec, error: Exception) -> str:
    """What has gone wrong in a device's code, and in which line of its file."""
    source = Path(spec.module.rpartition(":")[0]).name
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).name == source] or list(frames)
    where = f" ({source}:{own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"device {spec.name}: {type(error).__name__}: {error}{where}"


Process = Generator[Event, None, None]
Words = Generator[Event, None, np.ndarray]


class Device(RegisterBlock):
    """A component of the user's own, to derive from.

    REGISTERS    its registers, by a class; what they do is declared by @loads and @stores

    State: `words`, as in RegisterBlock. What a process remembers besides is no part of a
    checkpoint.
    """

    REGISTERS: ClassVar[tuple[Register, ...]] = ()

    def __init__(self, ports: DevicePorts):
        name = ports.spec.name
        super().__init__(name, Block(name, ports.spec.module, self.REGISTERS), ports.warn)
        self.ports = ports
        self.env = ports.env

    @property
    def now(self) -> int:
        """The cycle."""
        return int(self.env.now)

    def loading(self, offset: int) -> Callable[[], int]:
        """As in RegisterBlock; what goes wrong ends the run."""
        load = super().loading(offset)

        def guarded() -> int:
            try:
                return int(load())
            except Exception as error:
                self._fail(error)
                return 0

        return guarded

    def storing(self, offset: int) -> Callable[[int], object]:
        """As in RegisterBlock; what goes wrong ends the run."""
        store = super().storing(offset)

        def guarded(value: int) -> None:
            try:
                store(value)
            except Exception as error:
                self._fail(error)

        return guarded

    def process(self, steps: Process) -> Event:
        """Start a process; it may wait for the event that is returned: its end."""
        return self.env.process(self._guarded(steps))

    def _guarded(self, steps: Process) -> Process:
        try:
            yield from steps
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.ports.fail(failure(self.ports.spec, error))

    def wait(self, cycles: int) -> Event:
        """An event so many cycles from now."""
        return self.env.timeout(cycles)

    def event(self, line: int = 0) -> None:
        """Set one of the four accelerator events of all cores: line 12 + `line`."""
        self.ports.cluster_event(event_line(CLUSTER_EVENTS, "accelerator") + line)

    def interrupt(self, line: int) -> None:
        """Set an interrupt line of the fabric controller."""
        self.ports.interrupt(line)

    def soc_event(self, number: int) -> None:
        """Trigger a SoC event."""
        self.ports.soc_event(number)

    def read_l1(self, address: int, count: int, stride: int = 4, port: int = 0) -> Words:
        """Read words of L1 through a port, one a cycle where no other initiator has the bank.

        address    of the first, a multiple of 4
        count      words, at most MOST_WORDS
        stride     bytes from one to the next, a multiple of 4
        returns    int32[count]
        raises     ValueError for what is outside of L1, or no port of this device
        """
        yield from self._access(address, count, stride, port, None)
        return self._record["device_data"][self.ports.first_port + port][:count].copy()

    def write_l1(self, address: int, words: np.ndarray, stride: int = 4, port: int = 0) -> Process:
        """Write words to L1 through a port; arguments as for read_l1. words: 32 bits each."""
        data = np.ascontiguousarray(words).view(np.int32).reshape(-1)
        yield from self._access(address, data.size, stride, port, data)

    @property
    def _record(self) -> np.void:
        return self.ports.chip.control[0]

    def _access(
        self, address: int, count: int, stride: int, port: int, data: np.ndarray | None
    ) -> Process:
        self._check(address, count, stride, port)
        if not count:
            return
        record, number = self._record, self.ports.first_port + port
        if int(record["device_busy"]) >> number & 1:
            raise ValueError(f"{self.name}: port {port} is busy; one access of a port at a time")
        record["device_address"][number] = address
        record["device_stride"][number] = stride
        record["device_count"][number] = count
        record["device_done"][number] = 0
        record["device_write"][number] = data is not None
        if data is not None:
            record["device_data"][number][:count] = data
        record["device_busy"] |= 1 << number
        record["busy"] = 1
        self.ports.changed()
        while left := count - int(record["device_done"][number]):
            yield self.env.timeout(left)  # it takes that long at least

    def _check(self, address: int, count: int, stride: int, port: int) -> None:
        config = self.ports.chip.config[0]
        if not 0 <= port < self.ports.spec.ports:
            raise ValueError(f"{self.name}: port {port}; ports = {self.ports.spec.ports}")
        if not 0 <= count <= MOST_WORDS:
            raise ValueError(f"{self.name}: {count} words; at most {MOST_WORDS} in an access")
        if address % 4 or stride % 4:
            raise ValueError(f"{self.name}: {address:#010x}, stride {stride}: no multiples of 4")
        first = int(config["l1_base"])
        last = first + int(config["l1_size"]) - 4
        for place in (address, address + stride * max(0, count - 1)):
            if not first <= place <= last:
                raise ValueError(
                    f"{self.name}: {place:#010x} is outside of L1 ({first:#010x}..{last + 3:#010x})"
                )

    def read_l2(self, address: int, size: int) -> Generator[Event, None, bytes]:
        """Read bytes of L2, 8 a cycle after its latency. Contention is not modelled."""
        place = self._place(address, size)
        yield self.env.timeout(self.ports.read_latency + -(-size // L2_BEAT))
        return self.ports.chip.l2.view(np.uint8)[place : place + size].tobytes()

    def write_l2(self, address: int, data: bytes) -> Process:
        """Write bytes to L2, 8 a cycle; contention is not modelled. Code counts after a fence.i."""
        place = self._place(address, len(data))
        yield self.env.timeout(-(-len(data) // L2_BEAT))
        store_l2(self.ports.chip, place, data)

    def _place(self, address: int, size: int) -> int:
        config = self.ports.chip.config[0]
        place = address - int(config["l2_base"])
        if place < 0 or place + size > int(config["l2_size"]):
            raise ValueError(f"{self.name}: {size} bytes at {address:#010x} are outside of L2")
        return place
