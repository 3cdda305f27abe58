"""Control page of the RTL test benches: exit, characters, magic barrier, DMA-like generator, irq.

The generator is wired to the banks: bank and row are bits of its address, and the upper bits lead
nowhere. So it never leaves L1, and goes on at the start of L1 past the end.

Source: the platform contract of the programs measured on RTL; rules J, L and T.
"""

import numpy as np

from soc.cluster.port_generators import generator_write
from soc.core.interrupts import raise_interrupt
from soc.interconnect.tcdm import DMA_PORTS, ask_bank
from soc.prelude.bits import bit
from soc.prelude.records import CONTROL
from soc.prelude.step import cold_step, step
from soc.prelude.trace_points import note_beat
from soc.prelude.wheel import NEVER, RING

EXIT, PUT_CHARACTER, BARRIER, CORES, CYCLE = 0x00, 0x04, 0x10, 0x14, 0x18
GENERATOR_BASE, GENERATOR_MODE, GENERATOR_START = 0x20, 0x24, 0x28
INTERRUPT, INTERRUPT_CLEAR = 0x30, 0x34

FIRST_PORT_GENERATOR = 0x100
"""Registers of the generators at L2's ports: soc.cluster.port_generators."""

WRITE_BIT = 8
INTERRUPT_LINE = 16
GENERATOR_WORD = 0xD0A00000


@step
def control_read(chip, offset, now):
    """Return a register's value."""
    if offset == CORES:
        return chip.config[0]["cores"]
    if offset == CYCLE:
        return now
    return 0


@step
def control_write(chip, h, offset, value, now):
    """Write a register. EXIT ends the hart."""
    control = chip.control[0]
    hart = chip.harts[h]
    if offset == EXIT:
        hart["exited"] = 1
        hart["exit_code"] = value
        hart["exit_cycle"] = now
    elif offset == PUT_CHARACTER:
        if control["length"] < control["text"].size:
            control["text"][control["length"]] = value & 255
        control["length"] += 1
    elif offset == GENERATOR_BASE:
        control["base"] = value
    elif offset == GENERATOR_MODE:
        control["ports"] = value & 15
        control["write"] = value >> WRITE_BIT & 1
    elif offset == GENERATOR_START:
        control["count"] = value
        for port in range(DMA_PORTS):
            control["done"][port] = 0
            running = control["ports"] >> port & 1 and value
            control["next"][port] = now + 1 if running else NEVER
        control["busy"] = 1
    elif FIRST_PORT_GENERATOR <= offset:
        generator_write(chip, offset - FIRST_PORT_GENERATOR, value, now)
    elif offset == INTERRUPT:
        control["irq_cycle"] = now + value
    elif offset == INTERRUPT_CLEAR:
        control["irq_cycle"] = NEVER
        for core in range(chip.config[0]["cores"]):
            chip.harts[core]["mip"] &= ~(1 << INTERRUPT_LINE)
        hart["mip"] &= ~(1 << INTERRUPT_LINE)


@step
def barrier_arrive(chip, h):
    """Return the set of harts that the magic barrier lets go: all, once all have come."""
    control = chip.control[0]
    control["waiting"] |= bit(h)
    everybody = bit(chip.config[0]["cores"]) - bit(0)
    if control["waiting"] != everybody:
        return bit(0) - bit(0)
    control["waiting"] = bit(0) - bit(0)
    return everybody


@step
def generator_address(control, port):
    """Return the address that a port of the generator asks for."""
    return control["base"] + 16 * control["done"][port] + 4 * port & 0xFFFFFFFF


@step
def generator_request(chip, now):
    """Put the generator's requests of this cycle to the banks."""
    control = chip.control[0]
    last_bank = chip.config[0]["banks"] - 1
    first = chip.config[0]["inputs"] - DMA_PORTS
    busy = 0
    for port in range(DMA_PORTS):
        if control["next"][port] != NEVER:
            busy = 1
        if control["next"][port] == now:
            bank = chip.banks[np.uint64(generator_address(control, port) >> 2 & last_bank)]
            ask_bank(bank, first + port)
    if control["device_busy"]:
        device_request(chip)
        busy = 1
    control["busy"] = busy


@cold_step
def device_request(chip):
    """Note what the banks have served for which ports of the user's own components ask."""
    control = chip.control[0]
    for port in range(control["device_ports"]):
        if control["device_busy"] >> port & 1:
            number = control["device_address"][port] >> 2 & chip.config[0]["banks"] - 1
            control["device_seen"][port] = chip.banks[np.uint64(number)]["accesses"]


@cold_step
def device_access(chip, now):
    """Perform accesses of the user's own components to banks that serve no other initiator.

    So a HWPE is served (hci_interconnect.sv: its side of hci_arbiter has the low priority, and no
    limit of stalls); of ports that ask for the same bank, the lowest.
    """
    control = chip.control[0]
    asking = chip.wheel[0]["asking"][np.uint64(now) % np.uint64(RING)]
    first = chip.config[0]["inputs"]
    for port in range(control["device_ports"]):
        if control["device_busy"] >> port & 1 == 0:
            continue
        address = control["device_address"][port]
        number = np.uint64(address >> 2 & chip.config[0]["banks"] - 1)
        bank = chip.banks[number]
        # A core that has won and goes on after this has left its arbiter's state in `asking`.
        granted = asking[number] == 0 and bank["accesses"] == control["device_seen"][port]
        write = control["device_write"][port]
        note_beat(chip, first + port, address, granted, write, now)
        if not granted:
            continue
        bank["accesses"] += 1
        word = np.uint64(address - chip.config[0]["l1_base"] >> 2)
        done = control["device_done"][port]
        if write:
            chip.l1[word] = control["device_data"][port][done]
        else:
            control["device_data"][port][done] = chip.l1[word]
        control["device_done"][port] = done + 1
        control["device_address"][port] = address + control["device_stride"][port]
        if done + 1 == control["device_count"][port]:
            control["device_busy"] &= ~(1 << port)


@step
def generator_access(chip, port, won, now):
    """Perform a port's access if it won its bank; a loser asks again."""
    control = chip.control[0]
    address = generator_address(control, port)
    control["next"][port] = now + 1
    if not won:
        return
    if control["write"]:
        value = GENERATOR_WORD | address & 0xFFFF
        offset = np.uint64(address - chip.config[0]["l1_base"] & 0xFFFFFFFF)
        word = offset % np.uint64(chip.config[0]["l1_size"]) >> np.uint64(2)
        chip.l1[word] = value - (1 << 32)
    control["done"][port] += 1
    if control["done"][port] == control["count"]:
        control["next"][port] = NEVER


def control_state() -> np.ndarray:
    """The page's state at reset: CONTROL[1]."""
    control = np.zeros(1, CONTROL)
    control["irq_cycle"] = NEVER
    control["next"] = NEVER
    return control


@cold_step
def interrupt_from_control_page(chip, now):
    """Raise the test bench's interrupt in every core."""
    chip.control[0]["irq_cycle"] = NEVER
    for h in range(chip.config[0]["cores"]):
        raise_interrupt(chip, h, INTERRUPT_LINE, now)
