"""The uDMA's I2C masters: a stream of commands moves bytes between L2 and devices on a bus.

Source: udma_i2c rtl/udma_i2c_control.sv, udma_i2c_reg_if.sv, udma_i2c_top.sv, read; no program was
measured. Its states take one cycle each, and bits those of soc.peripherals.i2c_bus. What is before
the controller, and after it, is that of soc.peripherals.udma_channel. Where the counter of the
clock's divider stands at first depends on when the clock was switched on: it is taken to run since
then, and not to stand where it is switched off again.

As in the RTL, a read waits while its byte has no room; an arbitration that is lost leaves the
master hanging, until SETUP resets it; REPEAT counts reads and writes alone, from whose second time
on bytes are those of TX; REPEAT of a multiple of 256 takes a byte of TX, and repeats nothing. In
reset the master drops all commands and bytes of TX, and RX gets zeros.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from soc.address_map.i2c import I2C, Command
from soc.peripherals.bus import later
from soc.peripherals.i2c_bus import RESET_DIVIDER, Bit, BusState, advance, rest
from soc.peripherals.register_block import loads, stores
from soc.peripherals.udma import UdmaPorts
from soc.peripherals.udma_channel import CommandBlock

END = 3
"""Its event besides those of its channels."""
DEPTH = 4
"""Elements that each udma_dc_fifo holds."""
CROSSING = 4
"""Cycles of an element, or of its place, through udma_dc_fifo."""
EDGE = 3
"""Cycles of an event through edge_propagator: a flip-flop, two of the synchroniser."""
BUSY, LOST = 1 << 0, 1 << 1
ACKNOWLEDGE = 8
"""The number of a byte's last bit."""


class I2cDevice(Protocol):
    """What is on the lines of I2C."""

    def answers(self, control: int) -> bool:
        """Is the first byte after a start its own?"""
        ...

    def lines(self, scl: int, sda: int, cycle: int) -> int:
        """The lines are so from a cycle on: what the device lets SDA be."""
        ...


class I2c(CommandBlock[I2cDevice]):
    """Carries out commands one by one.

    devices    on its bus

    Ports
        ports    see UdmaPorts

    State: `bus`, the registers of the bus controller, as they are in cycle `bus_cycle`; `byte` and
    `bit`, what moves; `times`, how often the next read or write is repeated; `run`, a number that
    changes where what is under way is given up.
    """

    def __init__(self, ports: UdmaPorts, devices: Sequence[I2cDevice] = ()):
        setup = Command.SET_ADDRESS, Command.SET_SIZE
        super().__init__(ports, I2C, devices, setup, DEPTH, 1)
        self.rx.taken = self._rx_taken
        self.bus: tuple[int, ...] = BusState()
        self.bus_cycle = ports.clocked()
        self.driven = 1
        self.divider = RESET_DIVIDER
        self.is_executing = self.is_reset = False
        self.is_control = False  # the byte that moves is the first one after a start
        self.byte = self.bit = self.times = self.left = self.run = self.arriving = 0
        self.refusal = 0  # what the master lets SDA be as it acknowledges
        self.awaited = -1  # trigger
        self.is_waiting_tx = self.is_waiting_rx = False

    def size_bits(self, name: str) -> int:
        """As in ChannelBlock: elements of CMD are words."""
        return 4 if name.startswith("CMD") else 0

    def triggered(self, number: int) -> None:
        """A trigger of the uDMA's core, 0 to 3, in this cycle."""
        later(self.env, EDGE, self._hear, number)

    def _hear(self, number: int) -> None:
        if number == self.awaited:
            self.awaited = -1
            self._end_in(1)

    @loads("STATUS", "NACK")
    def _load_once(self, name: str, index: int) -> int:
        value = self.word(name)
        self.put(name, index, 0)
        return value

    @stores("STATUS", "NACK")
    def _keep(self, name: str, index: int, value: int) -> None:
        pass

    def _note(self, name: str, bits: int) -> None:
        self.put(name, 0, self.word(name) | bits)

    # Reset

    @stores("SETUP")
    def _store_setup(self, name: str, index: int, value: int) -> None:
        self.put(name, index, value & 1)
        if value & 1 and not self.is_reset:
            self.run += 1
            self.is_executing = self.is_control = False
            self.is_waiting_tx = self.is_waiting_rx = False
            self.bit = self.times = 0
            self.awaited, self.divider = -1, RESET_DIVIDER
            later(self.env, 1, self._clear)
            self.warn_once("held in reset, its RX gets zeros, as in the RTL", "reset")
        self.is_reset = bool(value & 1)
        if not self.is_reset:
            self.bus, self.bus_cycle = BusState(), self.now + 1
            later(self.env, 1, self.go_on)

    def _clear(self) -> None:
        """The first cycle in reset: the lines are let go."""
        self._move_lines(1, 1, self.now)
        self._drop()
        self._flood()

    def _drop(self) -> None:
        """Commands and bytes that wait pass by, one a cycle each."""
        if not self.is_reset:
            return
        for channel in (self.cmd, self.tx):
            if channel.waiting:
                channel.take()
        if self.cmd.waiting or self.tx.waiting:
            later(self.env, 1, self._drop)

    def _flood(self) -> None:
        if self.is_reset and self._has_room():
            self._send_on(0)
            later(self.env, 1, self._flood)

    # Commands

    def go_on(self) -> None:
        """Take the next command, if none is under way and there is one."""
        if self.is_reset:
            self._drop()
        elif not self.is_executing and self.cmd.waiting:
            self.is_executing = True
            self._execute(self.cmd.take())

    def _end_in(self, cycles: int) -> None:
        self._in(cycles, self._ended)

    def _in(self, cycles: int, action: Callable[[], None]) -> None:
        """Do something in so many cycles, unless a reset comes before."""
        later(self.env, cycles, self._if_it_runs, self.run, action)

    def _if_it_runs(self, run: int, action: Callable[[], None]) -> None:
        if run == self.run:
            action()

    def _ended(self) -> None:
        self.is_executing = False
        self.go_on()

    def _execute(self, word: int) -> None:
        command = word >> 28
        if command in (Command.START, Command.STOP):
            self.is_control = command == Command.START
            self._begin(Bit.START if self.is_control else Bit.STOP, self._bus_ended)
        elif command in (Command.READ_ACK, Command.READ_NACK):
            self.refusal = int(command == Command.READ_NACK)
            self._read()
        elif command == Command.WRITE:
            self._in(1, self._fetch)
        elif command == Command.WRITE_BYTE:
            self.byte = word & 0xFF
            self._in(1, self._write)
        elif command == Command.WAIT:
            self.left = word & 0xFF
            self._in(1, self._wait)
        elif command == Command.WAIT_EVENT:
            self._in(1, lambda: self._await(word >> 24 & 3))
        elif command == Command.CONFIG:
            self._in(2, lambda: self._configure(word & 0xFFFF))
        elif command == Command.REPEAT:
            self._repeat(word)
        else:
            if command == Command.END:
                later(self.env, EDGE, self.event, END)
            self._end_in(1)

    def _await(self, trigger: int) -> None:
        self.awaited = trigger

    def _configure(self, divider: int) -> None:
        self._rest()
        self.divider = divider
        self._ended()

    def _repeat(self, word: int) -> None:
        if word & 0xFF:
            self.times = (word & 0xFFFF) - 1
            self._end_in(2)
        else:
            self.times = 0
            self._in(2, self._skip)

    def _skip(self) -> None:
        if self.tx.waiting:
            self.tx.take()
        self._end_in(1)

    def _wait(self) -> None:
        self._begin(Bit.WAIT, self._waited)

    def _waited(self) -> None:
        if self.left:
            self.left -= 1
            self._wait()
        else:
            self._end_in(1)

    def _bus_ended(self) -> None:
        self._end_in(1)

    # Bytes

    def _fetch(self) -> None:
        """Write the next byte of TX, once it is there."""
        self.is_waiting_tx = not self.tx.waiting
        if self.tx.waiting:
            self.byte = self.tx.take()
            self._write()

    def tx_arrived(self) -> None:
        if self.is_reset:
            self._drop()
        elif self.is_waiting_tx:
            self._fetch()

    def _write(self) -> None:
        self.bit = 0
        self._begin(Bit.WRITE, self._bit_written)

    def _bit_written(self) -> None:
        self.bit += 1
        if self.bit < ACKNOWLEDGE:
            self._begin(Bit.WRITE, self._bit_written)
        elif self.bit == ACKNOWLEDGE:
            self._begin(Bit.READ, self._bit_written)
        else:
            self._written()

    def _written(self) -> None:
        if BusState(*self.bus).got:
            later(self.env, 1, self._note, "NACK", 1)
            if self.is_control and not any(each.answers(self.byte) for each in self.devices):
                address = self.byte >> 1
                self.warn_once(f"no device on its bus has address {address:#04x}", "no device")
        self.is_control = False
        if self.times:
            self.times -= 1
            self._in(1, self._fetch)
        else:
            self._end_in(1)

    def _read(self) -> None:
        self.bit = self.byte = 0
        self._begin(Bit.READ, self._bit_read)

    def _bit_read(self) -> None:
        if self.bit < ACKNOWLEDGE:
            self.byte = self.byte << 1 | BusState(*self.bus).got
        self.bit += 1
        if self.bit < ACKNOWLEDGE:
            self._begin(Bit.READ, self._bit_read)
        elif self.bit == ACKNOWLEDGE:
            self._begin(Bit.WRITE, self._bit_read)
        else:
            self.is_control = False
            self._in(1, self._store)

    def _store(self) -> None:
        """Send on the byte that was read, once it has room."""
        self.is_waiting_rx = not self._has_room()
        if self.is_waiting_rx:
            return
        self._send_on(self.byte)
        if self.times:
            self.times -= 1
            self._read()
        else:
            self._end_in(1)

    def _has_room(self) -> bool:
        return len(self.rx.received) + self.arriving < self.rx.room

    def _send_on(self, byte: int) -> None:
        self.arriving += 1
        later(self.env, CROSSING, self._arrive, byte)

    def _arrive(self, byte: int) -> None:
        self.arriving -= 1
        self.rx.put(byte)

    def _rx_taken(self) -> None:
        later(self.env, CROSSING, self._rx_freed)

    def _rx_freed(self) -> None:
        self._flood()
        if self.is_waiting_rx:
            self._store()

    # Bits

    def _rest(self) -> None:
        """Let the bus controller's registers be those of this cycle."""
        waited = self.now - self.bus_cycle
        self.bus = rest(BusState(*self.bus), self.divider, waited, self.driven)
        self.bus_cycle = self.now

    def _begin(self, bit: Bit, ended: Callable[[], None]) -> None:
        """Begin a command of the bus controller, and call what is to come in its last cycle."""
        self._rest()
        state, cycle, command = BusState(*self.bus), self.now, int(bit)
        data = self.byte >> 7 - self.bit & 1 if self.bit < ACKNOWLEDGE else self.refusal
        while command or not state.is_done:
            before = state
            passed, state = advance(state, self.divider, command, data, self.driven)
            cycle, command = cycle + passed, int(Bit.NONE)
            if (state.scl, state.sda) != (before.scl, before.sda):
                self._move_lines(state.scl, state.sda, cycle)
            if state.is_busy > before.is_busy:
                later(self.env, cycle + 1 - self.now, self._note, "STATUS", BUSY)
            if state.is_lost > before.is_lost:
                later(self.env, cycle + 1 - self.now, self._note, "STATUS", LOST)
                self.warn_once(
                    f"arbitration is lost with a divider of {self.divider}: it hangs, as the RTL "
                    "does, until SETUP resets it"
                )
                break
        self.bus, self.bus_cycle = state, cycle
        if state.is_done:
            self._in(cycle - self.now, ended)

    def _move_lines(self, scl: int, sda: int, cycle: int) -> None:
        """The master lets the lines be so: the devices see them, and answer."""
        seen = sda & self.driven
        for _ in range(2):  # a device that lets SDA be something else changes what all see
            answers = [device.lines(scl, seen, cycle) for device in self.devices]
            self.driven = int(all(answers))
            if seen == sda & self.driven:
                break
            seen = sda & self.driven
