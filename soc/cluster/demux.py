"""Requests of harts to anything but L1: who serves them, and how they are granted."""

import numpy as np

from soc.address_map.memory_map import CLUSTER_ALIAS_SIZE
from soc.aot.units import ask, eu_access, start_fetching
from soc.chip.state import Chip
from soc.cluster import testbench as control_page
from soc.cluster.rom_access import is_in_rom, rom_access
from soc.cluster.testbench import barrier_arrive, control_read, control_write
from soc.core.bounds import is_in_l1, is_in_l2
from soc.core.decoded_index import note_write
from soc.core.lsu import access_granted, end_access, extended, transact, turn_to_second_half
from soc.core.null_accesses import NULL_SIZE, note_null_access
from soc.core.sync_points import note_answer, note_kept, note_request, note_start, note_wait
from soc.event_unit.offsets import BARRIER
from soc.event_unit.state import FAULT, LOADING, STALLED
from soc.interconnect.axi_l2 import l2_controller_access, l2_core_request
from soc.prelude.bits import bit, lowest_index
from soc.prelude.counters import COUNT
from soc.prelude.decoded import ELW, LOAD, STORE, WIDTH
from soc.prelude.hart_state import (
    ACCESS,
    ASKS_ADDRESS,
    ASKS_EXTERNAL,
    ASKS_SIZE,
    ASKS_STORE,
    FAULT_EVENT_UNIT,
    FAULT_LOAD,
    FAULT_STORE,
    L1_REQUEST,
    REQUEST,
    RUN,
    SLEEP,
    WAIT,
    add_stall,
    stop_at,
)
from soc.prelude.step import step
from soc.prelude.trace_points import note_accessed, note_memory, note_sleep, note_stall
from soc.prelude.wheel import schedule

EVENT_STALL = COUNT.event
LOADS, STORES = COUNT.loads, COUNT.stores
LOAD_EXTERNAL, STORE_EXTERNAL = COUNT.load_external, COUNT.store_external
EXTERNAL_LOADS, EXTERNAL_STORES = COUNT.external_loads, COUNT.external_stores

EVENT_UNIT_PORT, DMA_PORT, PORT_SIZE = 0x4000, 0x4400, 0x400
"""Private ports of a core, from the cluster's base."""

PRIVATE_BANK = 0x8000
"""Bytes of L2's first private bank."""

TEST_AND_SET = 0x100000
"""Alias of L1 whose loads leave -1 behind, from the start of L1."""


@step
def add_access_stall(chip, hart, row):
    """Count the cycles that an access outside L1 kept the hart from issuing."""
    cycles = max(hart["ex_ready"], hart["in_id"]) - hart["issued"] - 1
    if row["kind"] == ELW:
        offset = hart["address"] - chip.config[0]["cluster_base"] - EVENT_UNIT_PORT
        note_sleep(chip, hart, offset & 0x3FC >= BARRIER, cycles)
        add_stall(chip, hart, EVENT_STALL, cycles)
    elif row["kind"] == LOAD:
        add_stall(chip, hart, LOAD_EXTERNAL, cycles)
    else:
        add_stall(chip, hart, STORE_EXTERNAL, cycles)


@step
def start_hart(chip: Chip, h: int, pc: int, cycle: int) -> None:
    """Let a hart fetch its first instruction so that it issues in this cycle."""
    hart = chip.harts[np.uint64(h)]
    hart["pc"] = pc
    hart["ex_ready"] = hart["in_id"] = hart["first_issue"] = cycle
    hart["issued"] = cycle - 1
    hart["counts"][COUNT.off] += cycle
    note_stall(chip, hart, COUNT.off, cycle)
    note_start(chip, h, pc, cycle)
    hart["state"] = RUN
    start_fetching(chip, h, pc, cycle)
    if hart["state"] == RUN:
        schedule(chip, h, cycle)


@step
def count_external(hart, row):
    """Count a core's transaction past L1 (perf_l2_ld and perf_l2_st of data_periph_demux.sv)."""
    if hart["external"] == 0:
        hart["counts"][EXTERNAL_STORES if row["kind"] == STORE else EXTERNAL_LOADS] += 1


@step
def answer(chip, h, value, now):
    """Complete an access to a register: grant in this cycle, with this value."""
    hart = chip.harts[np.uint64(h)]
    index = hart["row"]
    row = chip.code[np.uint64(index)]
    access_granted(hart, row, now)
    count_external(hart, row)
    note_memory(chip, h, row, index, hart["second"], True, now)
    note_answer(chip, h, row, value, now)
    if row["kind"] == STORE:
        hart["counts"][STORES] += 1
    else:
        hart["counts"][LOADS] += 1
        shifted = (value & 0xFFFFFFFF) >> 8 * (hart["address"] & 3)
        hart["regs"][row["rd"]] = extended(shifted, int(row["access"]))
    note_accessed(chip, h, row, now)
    if row["kind"] == ELW:
        hart["in_id"] = now + chip.config[0]["elw_resume"]
        hart["waited"] = now
    add_access_stall(chip, hart, row)
    hart["state"] = RUN


@step
def answer_of_peripherals(chip: Chip, harts: int, now: int) -> None:
    """Complete accesses to peripherals: the harts go on in this cycle.

    What loads find is in the harts' `value`.
    """
    rest = np.uint64(harts)
    while rest:
        h = lowest_index(rest)
        rest &= rest - np.uint64(1)
        answer(chip, h, chip.harts[np.uint64(h)]["value"], now)
        schedule(chip, h, now)


@step
def store_value(hart, row):
    """Return the data of a store, unsigned."""
    width = 8 * int(row["access"] & WIDTH)
    return int(hart["regs"][row["rs2"]]) & ((1 << width) - 1)


@step
def stored(chip, h):
    """Return the data of a hart's request, if that is a store; else 0."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    return store_value(hart, row) if row["kind"] == STORE else 0


@step
def ask_peripheral(hart, row):
    """Say what a hart asks of a peripheral."""
    asks = hart["address"] << ASKS_ADDRESS | int(row["access"] & WIDTH) << ASKS_SIZE
    hart["value"] = 0
    if row["kind"] == STORE:
        hart["value"] = store_value(hart, row)
        asks |= ASKS_STORE
    if hart["external"]:
        asks |= ASKS_EXTERNAL
    hart["asks"] = asks


@step
def control_request(chip, h, now):
    """Serve a request to the control page; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    offset = hart["address"] - chip.config[0]["control_page"]
    if offset == control_page.BARRIER:
        released = barrier_arrive(chip, h)
        hart["state"] = WAIT
        rest = released
        while rest:
            other = lowest_index(rest)
            rest &= rest - np.uint64(1)
            answer(chip, other, 0, now)
        return released
    if row["kind"] == STORE:
        control_write(chip, h, offset, store_value(hart, row), now)
        answer(chip, h, 0, now)
    else:
        answer(chip, h, control_read(chip, offset, now), now)
    return bit(h)


@step
def event_unit_request(chip, h, now):
    """Pass a request on to the event unit; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    wheel = chip.wheel[0]
    write = row["kind"] == STORE
    value = stored(chip, h)
    offset = hart["address"] - chip.config[0]["cluster_base"] - EVENT_UNIT_PORT
    if not write:
        note_wait(chip, h, offset, now)
    result = eu_access(chip.event_unit[0], h, write, row["kind"] == ELW, offset, value, now)
    if result == STALLED:
        schedule(chip, h, now + 1)
    elif result == LOADING:
        hart["state"] = SLEEP
        wheel["at_event_unit"] |= bit(h)
    elif result == FAULT:
        hart["state"] = stop_at(hart, FAULT_EVENT_UNIT, hart["address"])
    else:
        answer(chip, h, 0, now)
        return bit(h)
    return np.uint64(0)


@step
def dma_request(chip, h):
    """Put a request to the core's port of the DMA; grant_dma serves it.

    The port looks at no byte enables: a store of a byte or a half writes the whole register.
    """
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    write = row["kind"] == STORE
    value = int(hart["regs"][row["rs2"]]) if write else 0
    offset = hart["address"] - chip.config[0]["cluster_base"] - DMA_PORT
    ask(chip.dma[0], h, write, offset, value)
    hart["state"] = WAIT
    chip.wheel[0]["at_dma"] |= bit(h)
    chip.wheel[0]["dma_busy"] = max(chip.wheel[0]["dma_busy"], 1)


@step
def l2_access(chip, h):
    """Perform one transaction on L2 or the ROM; returns True if its second half is due."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    count_external(hart, row)
    if is_in_l2(chip, hart["address"]):
        offset = hart["address"] - chip.config[0]["l2_base"]
        if row["kind"] == STORE:
            note_write(chip, offset >> 2)
        is_due = transact(hart, row, chip.l2, offset)
    else:
        is_due = rom_access(chip, hart, row)
    if is_due:
        turn_to_second_half(hart)
        return True
    end_access(hart)
    return False


@step
def l2_request(chip, h, now):
    """Send a transaction to L2 or the ROM; it takes place when its grant comes back."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    address = hart["address"]
    if hart["external"]:
        grant = l2_controller_access(chip.l2_port[0], now, address)
    elif chip.config[0]["ideal_l2"]:
        grant = now
    else:
        grant = l2_core_request(chip.l2_port[0], now, address, row["kind"] == STORE)
    hart["state"] = ACCESS
    if grant > now:
        schedule(chip, h, grant)
        return np.uint64(0)
    return l2_grant(chip, h, now)


@step
def l2_grant(chip, h, now):
    """Complete a transaction with L2 or the ROM; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    index = hart["row"]
    note_memory(chip, h, chip.code[np.uint64(index)], index, hart["second"], True, now)
    note_kept(chip, h, chip.code[np.uint64(index)], now)
    if l2_access(chip, h):
        hart["state"] = REQUEST
        schedule(chip, h, now + 1)
        return np.uint64(0)
    row = chip.code[np.uint64(hart["row"])]
    note_accessed(chip, h, row, now)
    access_granted(hart, row, now)
    add_access_stall(chip, hart, row)
    hart["state"] = RUN
    return bit(h)


@step
def redirect(chip, h, now):
    """Turn a request to an alias into one to what it stands for; is that L1?

    Cores see their cluster at 0 as well, the fabric controller the first private bank of L2, and
    on the RTL's test bench the code memory answers there. Of the fabric controller's requests to
    L1 the first cycles are spent on the way.
    """
    hart = chip.harts[np.uint64(h)]
    config = chip.config[0]
    if 0 <= hart["address"] < config["code_alias"]:
        if hart["address"] < NULL_SIZE:
            note_null_access(chip, h)
        hart["address"] += config["code_base"]
    elif 0 <= hart["address"] < (PRIVATE_BANK if hart["external"] else CLUSTER_ALIAS_SIZE):
        if hart["address"] < NULL_SIZE:
            note_null_access(chip, h)
        hart["address"] += config["l2_base"] if hart["external"] else config["l1_base"]
    if is_in_l1(chip, hart["address"] - TEST_AND_SET):
        hart["address"] -= TEST_AND_SET
        hart["test_and_set"] = 1
    if not is_in_l1(chip, hart["address"]):
        return False
    hart["state"] = L1_REQUEST
    if hart["external"]:
        schedule(chip, h, now + config["controller_to_l1"])
    return True


@step
def serve(chip, h, now):
    """Serve a request that is not for L1; returns the harts that go on in this cycle."""
    config = chip.config[0]
    hart = chip.harts[np.uint64(h)]
    address = hart["address"]
    if is_in_l2(chip, address) or is_in_rom(chip, address):
        return l2_request(chip, h, now)
    port = address - config["cluster_base"]
    if hart["external"] == 0 and EVENT_UNIT_PORT <= port < EVENT_UNIT_PORT + PORT_SIZE:
        return event_unit_request(chip, h, now)
    if hart["external"] == 0 and DMA_PORT <= port < DMA_PORT + PORT_SIZE:
        dma_request(chip, h)
        return np.uint64(0)
    note_request(chip, h, chip.code[np.uint64(hart["row"])], now)
    if config["control_page"] and 0 <= address - config["control_page"] < 0x1000:
        return control_request(chip, h, now)
    if config["control_page"]:
        row = chip.code[np.uint64(hart["row"])]
        fault = FAULT_STORE if row["kind"] == STORE else FAULT_LOAD
        hart["state"] = stop_at(hart, fault, address)
        return np.uint64(0)
    ask_peripheral(hart, chip.code[np.uint64(hart["row"])])
    hart["state"] = WAIT
    chip.wheel[0]["host"] |= bit(h)
    return np.uint64(0)
