"""Generators of the fabric controller's test bench, at L2's ports: who else asks there.

    0, 1, 2    the ports of the uDMA (TX, RX) and of the debug unit: a word at a time
    3, 4       the cluster's 64-bit AXI port, bursts that read and that write

A beat of 8 bytes is two words, of two ports side by side. In pulp_soc 5.0.1 (axi_to_mem_split)
either keeps up to two words that wait for grants, and up to two answers that wait for those of the
other half; a beat is taken if none of these four is full as the cycle begins, a burst once the one
before is taken.

In 3.0.1 (axi64_2_lint32) a beat's words are asked for in the cycle after both of the one before are
granted. Addresses pass a FIFO of four; that of a burst that reads leaves it as its first beat is
granted, that of one that writes as it is asked for (axi_read_ctrl.sv, axi_write_ctrl.sv,
lint64_to_32.sv). Writes come before reads among the masters (axi64_2_lint32_wrap.sv).

Source: the platform contract of the programs measured on RTL; their bus logs.
"""

import numpy as np

from soc.prelude.records import CONTROL
from soc.prelude.step import step
from soc.prelude.wheel import NEVER, wake_ports

WORD_GENERATORS, GENERATORS, REGISTERS_SIZE = 3, 5, 0x20
BASE, STRIDE, MODE, START = 0, 4, 8, 12
MOST_WAITING = 2
ADDRESSES = 4
"""Places of the FIFO of a burst's address, axi_ar_buffer and axi_aw_buffer."""
WRITTEN = 0xD0A00000
REGISTERS = CONTROL["registers"].shape[0]


@step
def generator_write(chip, offset, value, now):
    """Write a register of a generator at a port of L2: base, stride, mode, or start."""
    control = chip.control[0]
    k = offset // REGISTERS_SIZE
    register = offset % REGISTERS_SIZE
    if k >= GENERATORS:
        return
    if register == BASE:
        control["port_base"][k] = value
    elif register == STRIDE:
        control["port_stride"][k] = value
    elif register == MODE:
        control["port_mode"][k] = value
    elif register == START:
        control["port_count"][k] = value
        control["port_done"][k] = 0
        if k >= WORD_GENERATORS:
            control["begun"][k - WORD_GENERATORS] = 0
        control["port_next"][k] = now + 1
        wake_ports(chip.wheel[0], now + 1)


@step
def generator_address(control, k):
    """Return the address of a generator's next access or burst."""
    return control["port_base"][k] + control["port_stride"][k] * control["port_done"][k]


@step
def is_active(control, k):
    """Has a generator accesses or bursts to begin?"""
    return control["port_done"][k] < control["port_count"][k]


@step
def begin_access(control, k, now):
    """Let the next access or burst of a generator come after its gap."""
    control["port_done"][k] += 1
    control["port_next"][k] = now + 1 + (control["port_mode"][k] >> 8 & 0xFF)


@step
def write_word(chip, address):
    """Let a generator write a word of L2."""
    offset = np.uint64(address - chip.config[0]["l2_base"] & 0xFFFFFFFF)
    if offset < np.uint64(chip.config[0]["l2_size"]):
        chip.l2[offset >> np.uint64(2)] = (WRITTEN | address & 0xFFFF) - (1 << 32)


@step
def take_beat(control, way, now):
    """Take a beat of the AXI port in this cycle, if one is there and both halves have room.

    way    0 reads, 1 writes
    """
    low, high = 2 * way, 2 * way + 1
    waiting = control["waiting_words"]
    for half in range(low, high + 1):
        if waiting[half] == MOST_WAITING or control["answered"][half] >= MOST_WAITING:
            return
    k = WORD_GENERATORS + way
    if control["beats_left"][way] == 0:
        if not is_active(control, k) or control["port_next"][k] > now:
            return
        control["beat"][way] = generator_address(control, k)
        control["beats_left"][way] = (control["port_mode"][k] & 0xFF) + 1
        begin_access(control, k, now)
        control["begun"][way] += 1
    offer_beat(control, way)


@step
def take_beat_in_turn(control, way, now):
    """Take a beat in pulp_soc 3.0.1: once both words of the one before are granted.

    way    0 reads, 1 writes
    """
    waiting, begun = control["waiting_words"], control["begun"]
    k = WORD_GENERATORS + way
    is_granted = waiting[2 * way] == 0 and waiting[2 * way + 1] == 0
    if is_granted and control["leaving"][way]:
        control["leaving"][way] = 0
        begun[way] += 1
    held = control["port_done"][k] - begun[way]
    if is_active(control, k) and control["port_next"][k] <= now and held < ADDRESSES:
        begin_access(control, k, now)
    if not is_granted:
        return
    if control["beats_left"][way] == 0:
        if held == 0:
            return
        control["beat"][way] = control["port_base"][k] + control["port_stride"][k] * begun[way]
        control["beats_left"][way] = (control["port_mode"][k] & 0xFF) + 1
        begun[way] += way
        control["leaving"][way] = 1 - way
    offer_beat(control, way)


@step
def offer_beat(control, way):
    """Let both halves have a word of the next beat."""
    waiting = control["waiting_words"]
    low = 2 * way
    control["beats_left"][way] -= 1
    for half in range(low, low + 2):
        control["waiting_word"][half][waiting[half]] = control["beat"][way] + 4 * (half - low)
        waiting[half] += 1
    control["beat"][way] += 8


@step
def take_answers(control, way):
    """Take the answers of the words granted in the cycle before; both halves of a beat go."""
    low, high = 2 * way, 2 * way + 1
    answered = control["answered"]
    for half in range(low, high + 1):
        answered[half] += control["coming"][half]
        control["coming"][half] = 0
    if answered[low] and answered[high]:
        answered[low] -= 1
        answered[high] -= 1


@step
def leave_port(control, half):
    """Let the first word that waits at a half of the AXI port go: it is granted."""
    control["coming"][half] = 1
    control["waiting_words"][half] -= 1
    control["waiting_word"][half][0] = control["waiting_word"][half][1]


@step
def next_cycle(control, now):
    """Return the next cycle in which a generator asks for something, or NEVER."""
    found = NEVER
    for k in range(GENERATORS):
        if is_active(control, k):
            found = min(found, max(control["port_next"][k], now + 1))
    for half in range(4):
        open_words = control["waiting_words"][half] + control["coming"][half]
        if open_words + control["answered"][half] or control["beats_left"][half >> 1]:
            found = now + 1
    for way in range(2):
        if control["begun"][way] < control["port_done"][WORD_GENERATORS + way]:
            found = now + 1
    return found


@step
def bench_register(address):
    """Return the byte offset of what the test bench has in the place of a peripheral's register."""
    return ((address & 0x3F) | (address >> 12 & 0x3F) << 6) % (4 * REGISTERS)
