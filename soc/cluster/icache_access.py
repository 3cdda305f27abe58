"""The instruction cache in the chip: harts that wait for it, and its control registers."""

import numpy as np

from soc.aot.units import fetch_reset
from soc.chip.state import Chip
from soc.core.decoded_index import row_index
from soc.core.if_stage import hand_over_after_access
from soc.icache.hierarchy import (
    ICACHE,
    IcacheSpec,
    banks_flush,
    banks_switch,
    icache_step,
    private_flush,
    private_switch,
)
from soc.icache.prefetch_buffer import fetch_jump
from soc.icache.private_cache import FETCH, LINE_BYTES
from soc.icache.shared_bank import BYPASS, NONE, OPERATE, icache_note
from soc.prelude.bits import bit, lowest_index
from soc.prelude.decoded import LOAD, STORE
from soc.prelude.hart_state import ACCESS, FETCHING, L1_REQUEST, RUN, WAIT
from soc.prelude.step import step
from soc.prelude.wheel import NEVER, schedule, wake_ports


def private_sets(spec: IcacheSpec) -> int:
    """Sets of a core's private cache; 0: it has none, its fetches are ideal."""
    if spec.kind == "ideal":
        return 0
    return spec.private_size // LINE_BYTES // spec.private_ways


def icache_state(spec: IcacheSpec, cores: int, others: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The caches at reset: ICACHE[1] and FETCH[cores + others].

    others    harts outside the cluster, after the cores: they fetch in the ideal two cycles
    """
    icache = np.zeros(1, ICACHE)
    fetch = np.zeros(cores + others, FETCH)
    sets = private_sets(spec)
    fetch_reset(fetch[0], sets, spec.private_ways, int(spec.enabled))
    fetch[1:cores] = fetch[0]
    for h in range(cores, cores + others):
        fetch_reset(fetch[h], 0, spec.private_ways, int(spec.enabled))
    icache["ports"] = 1 << (cores - 1).bit_length()
    icache["banks"] = spec.banks
    icache["bank_bits"] = (spec.banks - 1).bit_length()
    icache["ways"] = spec.shared_ways
    icache["sets"] = spec.shared_size // LINE_BYTES // spec.banks // spec.shared_ways
    icache["refills"] = spec.refills
    icache["private_sets"] = sets
    icache["wake"] = NEVER
    icache["bank"]["state"] = OPERATE if spec.enabled else BYPASS
    icache["bank"]["hart"] = icache["bank"]["order"] = NONE
    icache["bank"]["lines"] = NONE
    return icache, fetch


@step
def step_icache(chip: Chip, now: int) -> None:
    """Clock the instruction cache; harts whose line has come go on in the next cycle.

    After a load or store that is not granted yet, the next instruction enters the decode stage.
    """
    answered = icache_step(chip.icache[0], chip.fetch, chip.l2_port[0], now)
    while answered:
        h = lowest_index(answered)
        answered &= answered - np.uint64(1)
        hart = chip.harts[np.uint64(h)]
        if hart["state"] == FETCHING:
            hart["state"] = RUN
            schedule(chip, h, now + 1)
            chip.wheel[0]["running"] |= bit(h)
        elif hart["id_valid"] == 0 and waits_for_grant(chip, hart):
            hand_over_after_access(chip, hart, chip.fetch[np.uint64(h)])
            icache_note(chip.icache[0], chip.fetch[np.uint64(h)], h)


@step
def waits_for_grant(chip, hart):
    """Is a load or store of the hart under way?"""
    state = hart["state"]
    kind = chip.code[np.uint64(hart["row"])]["kind"]
    is_access = kind == LOAD or kind == STORE
    return is_access and (L1_REQUEST <= state <= ACCESS or state == WAIT)


@step
def start_fetching(chip: Chip, h: int, pc: int, cycle: int) -> None:
    """Let a hart fetch its first instruction, which the decode stage can have in this cycle."""
    fetch = chip.fetch[np.uint64(h)]
    chip.harts[np.uint64(h)]["id_valid"] = 0
    fetch_jump(fetch, pc, -1, cycle - 2)
    if fetch["port"]:
        fetch["fresh"] = 0
        wake_ports(chip.wheel[0], max(cycle - 2, chip.wheel[0]["now"]))
        chip.harts[np.uint64(h)]["state"] = FETCHING
        return
    icache_note(chip.icache[0], fetch, h)


@step
def handed_over_next(chip: Chip, h: int) -> int:
    """Return the address of the instruction that a hart is handed over next."""
    hart = chip.harts[np.uint64(h)]
    pc = hart["pc"]
    if hart["id_valid"] == 0:
        return pc
    index = np.uint64(row_index(chip.config[0], pc))
    return pc + chip.code[index]["size"]


@step
def switch_icache(chip: Chip, now: int, on: int) -> None:
    """Switch the instruction cache on or off: ENABLE is written in this cycle."""
    icache = chip.icache[0]
    for h in range(chip.fetch.size):
        private_switch(icache, chip.fetch[h], h, handed_over_next(chip, h), now, on)
    banks_switch(icache, now, on)


@step
def flush_icache(chip: Chip, now: int, shared: int) -> None:
    """Invalidate the private caches, and the shared one: FLUSH is written in this cycle."""
    icache = chip.icache[0]
    for h in range(chip.fetch.size):
        private_flush(icache, chip.fetch[h], h, handed_over_next(chip, h), now)
    if shared:
        banks_flush(icache, now)
