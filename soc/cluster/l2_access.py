"""The fabric controller at L2's ports: its loads and stores, its fetches, and who else asks there.

    a cycle    1. all who are due ask a port: the controller's data, its prefetch buffer, others
               2. each port chooses; what is granted takes place, the others ask again

A load or store that does not go to L2 is granted at once and answered late. The instruction after
it still issues, into EX, where it waits for the answer; an access by it is asked for then, one
cycle later if both are loads, or stores, beyond L2 (axi_demux frees a channel after the answer).

Sources: fc_subsystem.sv, soc_interconnect_wrap.sv of pulp_soc 5.0.1 and 3.0.1; measured on RTL with
RI5CY and CV32E40P, all accesses of 54 programs.
"""

import numpy as np

from soc.chip.state import Chip
from soc.cluster.demux import control_request, l2_grant
from soc.cluster.icache_access import waits_for_grant
from soc.cluster.port_generators import (
    WORD_GENERATORS,
    begin_access,
    bench_register,
    generator_address,
    is_active,
    leave_port,
    next_cycle,
    take_answers,
    take_beat,
    take_beat_in_turn,
    write_word,
)
from soc.cluster.rom_access import is_in_rom
from soc.core.bounds import is_in_l1, is_in_l2
from soc.core.if_stage import hand_over_after_access
from soc.core.lsu import access_granted, end_access, transact, turn_to_second_half
from soc.icache.prefetch_buffer import fetch_asks, fetch_granted
from soc.interconnect.l2_banks import AXI, DATA, FETCH, UDMA_TX, l2_bank_of
from soc.interconnect.tcdm import ask_bank, grant_bank
from soc.prelude.bits import bit
from soc.prelude.decoded import LOAD, STORE
from soc.prelude.hart_state import ACCESS, FETCHING, REQUEST, RUN
from soc.prelude.step import cold_step, step
from soc.prelude.wheel import NEVER, schedule, wake_ports

CLUSTER, CLUSTER_END = 0x10000000, 0x10400000
FAR_LOAD, FAR_STORE = 1, 2
"""The last access was beyond L2."""


@step
def port_of(chip, address):
    """Return the port of L2 at an address; the controller sees L2 at 0, too."""
    config = chip.config[0]
    if 0 <= address < config["code_alias"]:
        address += config["l2_base"]
    return chip.l2_banks[np.uint64(l2_bank_of(config, chip.l2_port[0], address))]


@step
def ask_for_port(chip, master, address):
    """Put a request to a port in this cycle."""
    ask_bank(port_of(chip, address), master)
    chip.wheel[0]["asked"] |= bit(master)


@step
def note_fetch(chip, h):
    """Take note of the word that the controller's prefetch buffer asks for next."""
    fetch = chip.fetch[np.uint64(h)]
    if fetch["fresh"]:
        fetch["fresh"] = 0
        wake_ports(chip.wheel[0], fetch["miss"])


@step
def answer_cycles(chip, hart, row):
    """Cycles from the grant of an access of the controller's to its answer."""
    config = chip.config[0]
    address = hart["address"]
    if CLUSTER <= address < CLUSTER_END:
        if is_in_l1(chip, address):
            return config["controller_to_l1"] + config["l1_to_controller"] + 1
        return config["controller_to_cluster"] + (2 if row["kind"] == STORE else 1)
    return config["controller_register"] + 1


@step
def access_far(chip, h, now):
    """Carry out an access beyond L2, on the test bench; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    row = chip.code[np.uint64(hart["row"])]
    config = chip.config[0]
    way = FAR_STORE if row["kind"] == STORE and config["one_way"] == 0 else FAR_LOAD
    if hart["far"] == way and now == hart["answer"]:
        schedule(chip, h, now + 1)
        return np.uint64(0)
    cycles = answer_cycles(chip, hart, row)
    hart["far"] = way
    if is_in_l1(chip, hart["address"]):
        is_due = transact(hart, row, chip.l1, hart["address"] - config["l1_base"])
    else:
        registers = chip.control[0]["registers"]
        is_due = transact(hart, row, registers, bench_register(hart["address"]))
    if is_due:
        turn_to_second_half(hart)
        hart["answer"] = now + cycles
        schedule(chip, h, hart["answer"])
        return np.uint64(0)
    end_access(hart)
    access_granted(hart, row, now)
    hart["answer"] = now + cycles
    hart["forwarded"] = hart["answer"]
    if row["kind"] == LOAD:
        hart["load_grant"] = hart["answer"] - 1
    hart["state"] = RUN
    return bit(h)


@step
def controller_request(chip, h, now):
    """Serve a load or store of the fabric controller; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    if now < hart["answer"]:
        schedule(chip, h, hart["answer"])
        return np.uint64(0)
    address = hart["address"]
    config = chip.config[0]
    if 0 <= address < config["code_alias"]:
        hart["address"] = address = address + config["l2_base"]
    if is_in_l2(chip, address) or is_in_rom(chip, address):
        ask_for_port(chip, DATA, address)
        hart["state"] = ACCESS
        return np.uint64(0)
    if config["control_page"] and 0 <= address - config["control_page"] < 0x1000:
        hart["far"] = 0
        hart["answer"] = now + 1
        return control_request(chip, h, now)
    return access_far(chip, h, now)


@step
def data_granted(chip, h, now):
    """Carry out a granted transaction on L2 or the ROM; returns the harts that go on."""
    hart = chip.harts[np.uint64(h)]
    hart["far"] = 0
    hart["answer"] = now + 1
    return l2_grant(chip, h, now)


@step
def wake_again(chip, now):
    """Let the masters that are no harts act when the next of them asks for something."""
    fetch = chip.fetch[np.uint64(chip.harts.size - 1)]
    fetch["fresh"] = 0
    cycle = next_cycle(chip.control[0], now)
    if fetch["miss"] != NEVER:
        cycle = min(cycle, max(fetch["miss"], now + 1))
    wake_ports(chip.wheel[0], cycle)


@cold_step
def collect_ports(chip: Chip, now: int) -> None:
    """Let masters that are no harts ask for ports."""
    wheel = chip.wheel[0]
    wheel["ports"] = NEVER
    fetch = chip.fetch[np.uint64(chip.harts.size - 1)]
    if fetch_asks(fetch, now):
        ask_for_port(chip, FETCH, 4 * fetch["word"])
    control = chip.control[0]
    for k in range(WORD_GENERATORS):
        if is_active(control, k) and control["port_next"][k] <= now:
            ask_for_port(chip, UDMA_TX + k, generator_address(control, k))
    for way in range(2):
        if chip.config[0]["one_way"]:
            take_beat_in_turn(control, way, now)
        else:
            take_beat(control, way, now)
        take_answers(control, way)
    for half in range(4):
        if control["waiting_words"][half]:
            ask_for_port(chip, axi_master(chip, half), control["waiting_word"][half][0])
    if wheel["asked"] == 0:
        wake_again(chip, now)


@step
def axi_master(chip, half):
    """Return the index of a half of the AXI port: of the beats that read, then that write."""
    return AXI + (half ^ 2 if chip.config[0]["one_way"] else half)


@step
def grant_generators(chip, asked, now):
    """Let generators hear whether their ports have chosen them."""
    control = chip.control[0]
    for k in range(WORD_GENERATORS):
        if asked & bit(UDMA_TX + k):
            address = generator_address(control, k)
            if grant_bank(port_of(chip, address), UDMA_TX + k):
                begin_access(control, k, now)
                if control["port_mode"][k] & 1:
                    write_word(chip, address)
    for half in range(4):
        master = axi_master(chip, half)
        if asked & bit(master):
            address = control["waiting_word"][half][0]
            if grant_bank(port_of(chip, address), master):
                leave_port(control, half)
                if half >= 2:
                    write_word(chip, address)


@cold_step
def grant_ports_of_l2(chip: Chip, now: int) -> np.uint64:
    """Let the ports choose; returns the harts that go on."""
    wheel = chip.wheel[0]
    asked = wheel["asked"]
    wheel["asked"] = np.uint64(0)
    h = chip.harts.size - 1
    hart = chip.harts[np.uint64(h)]
    fetch = chip.fetch[np.uint64(h)]
    going = np.uint64(0)
    if asked & bit(DATA):
        if grant_bank(port_of(chip, hart["address"]), DATA):
            going |= data_granted(chip, h, now)
        else:
            hart["state"] = REQUEST
            schedule(chip, h, now + 1)
    if asked & bit(FETCH):
        if grant_bank(port_of(chip, 4 * fetch["word"]), FETCH):
            fetch_granted(fetch, now)
            if hart["state"] == FETCHING:
                hart["state"] = RUN
                schedule(chip, h, now + 1)
            elif hart["id_valid"] == 0 and waits_for_grant(chip, hart):
                hand_over_after_access(chip, hart, fetch)
    if asked >= bit(UDMA_TX):
        grant_generators(chip, asked, now)
    wake_again(chip, now)
    return going
