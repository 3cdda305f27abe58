"""The cycle loop: the step functions of all clocked parts, fused.

In every cycle all phases (soc.cluster.phases.Phase) are passed that have something to do; in cycles
in which nothing is due, none. For the most frequent kinds of cycles there is a shorter way:
soc.engine.fast_path.
"""

from collections.abc import Callable

import numpy as np

from soc.aot.units import grant_ports, step_icache
from soc.chip.state import Chip
from soc.cluster import testbench
from soc.cluster.demux import l2_grant, redirect, serve
from soc.cluster.l1_access import access_l1, bank_of, l1_word
from soc.cluster.l2_access import (
    collect_ports,
    controller_request,
    grant_ports_of_l2,
    note_fetch,
)
from soc.cluster.phases import (
    clock_event_unit,
    cycle_dma,
    cycle_generator,
    request_dma_lanes,
    signal_dma,
)
from soc.cluster.testbench import interrupt_from_control_page
from soc.core.decoded_index import RUN_AHEAD, row_index
from soc.core.deferred_state import is_implied, write_all_open, write_open
from soc.core.hotness import ACCESS as BY_ACCESS
from soc.core.hotness import ISSUE as BY_ISSUE
from soc.core.hotness import note_hotness
from soc.core.interrupts import INTERRUPT_SEEN, interrupt_pending, take_interrupt
from soc.core.traps import interrupts_enabled
from soc.engine.aligned_words import (
    enter_request,
    grant_words,
    l1_word_access,
    request_words,
    take_bank,
)
from soc.engine.aligned_words_dma import INPUTS
from soc.engine.fast_path import (
    make_go_on,
    make_run_answered,
    make_run_words,
    make_run_words_beside_dma,
)
from soc.icache.prefetch_buffer import fetch_stop
from soc.icache.shared_bank import icache_note
from soc.interconnect.tcdm import ask_bank
from soc.prelude.bits import bit, lowest_index
from soc.prelude.hart_state import (
    ACCESS,
    GO_ON,
    L1_REQUEST,
    NEEDS_DECODER,
    OFF,
    REQUEST,
    RESUMED,
    RUN,
    SERVED,
    STOPPED,
)
from soc.prelude.step import cold_step, step
from soc.prelude.stop_reasons import ASLEEP, DECODE, END, HALT, HOST, POLL, TRACE
from soc.prelude.trace_points import is_full
from soc.prelude.wheel import NEVER, PORTS, SLOTS, enter_wheel, schedule


@step
def collect_hart(chip, h, now):
    """Serve a hart that is due: its request goes to a bank of L1 or is answered.

    Returns the harts that go on without L1.
    """
    hart = chip.harts[np.uint64(h)]
    going = np.uint64(0)
    if hart["when"] > now:
        schedule(chip, h, hart["when"])
        return going
    if hart["external"] and chip.config[0]["controller_ports"] and hart["state"] == REQUEST:
        going = controller_request(chip, h, now)
    elif hart["state"] == REQUEST and not redirect(chip, h, now):
        going = serve(chip, h, now)
        if hart["state"] == STOPPED:
            chip.wheel[0]["stop"] = HALT
    elif hart["state"] == ACCESS:
        going = l2_grant(chip, h, now)
    elif hart["state"] == RUN:
        going = bit(h)
    if hart["state"] == L1_REQUEST and hart["when"] <= now:
        ask_bank(bank_of(chip, l1_word(hart)), h)
    return going


@cold_step
def collect(chip, due, now):
    """Collect the requests of this cycle; returns the harts that go on without L1."""
    going = np.uint64(0)
    while due:
        h = lowest_index(due)
        due &= due - np.uint64(1)
        if h == PORTS:
            collect_ports(chip, now)
        else:
            going |= collect_hart(chip, h, now)
    return going


@cold_step
def pass_phases(chip, due, now):
    """Pass the phases of a cycle, up to the one in which harts go on, with the harts that are due.

    Returns the harts that go on, and those of them that L1 serves with an aligned word: they have
    still to access it.
    """
    wheel = chip.wheel[0]
    control = chip.control[0]
    wheel["due"] &= ~due
    words = due & wheel["words"]
    others = due & ~words
    going = np.uint64(0)
    granted = lanes = 0
    if wheel["dma_busy"]:
        signal_dma(chip, now)
    if others:
        going = collect(chip, others, now)
        if control["irq_cycle"] == now:
            interrupt_from_control_page(chip, now)
    if control["busy"]:
        testbench.generator_request(chip, now)
    if wheel["dma_busy"]:
        granted = grant_ports(chip.dma[0])
        lanes = request_dma_lanes(chip, now)
    request_words(chip, words, now)
    served = grant_words(chip, words, now)
    if others:
        going |= access_l1(chip, others & ~bit(PORTS), now)
        if wheel["asked"]:
            going |= np.uint64(grant_ports_of_l2(chip, now))
    if wheel["dma_busy"]:
        going |= cycle_dma(chip, granted, lanes, now)
    if control["busy"]:
        cycle_generator(chip, now)
    if chip.event_unit[0]["next"] <= now:
        going |= clock_event_unit(chip, now)
    return going | served, served


@cold_step
def have_exited(chip):
    """Have all cores ended? Then the run has, whatever the test bench still sends to L1."""
    for h in range(chip.harts.size):
        hart = chip.harts[np.uint64(h)]
        if hart["first_issue"] and (hart["exited"] == 0 or hart["state"] != OFF):
            return False
    return True


def make_run_hart(advance: Callable) -> Callable:
    """Return the step function that lets a hart run on."""

    @cold_step
    def run_hart(chip, h, now, end, state):
        """Let a hart run on, in cycles before `end`, and enter its next request into the wheel.

        state    SERVED: by L1, with its aligned word, the access comes first; RESUMED: it had run
                 ahead far enough; GO_ON: else; or its new state, if a superblock has left it there
        """
        hart = chip.harts[np.uint64(h)]
        wheel = chip.wheel[0]
        fetch = chip.fetch[np.uint64(h)]
        wheel["now"] = now
        if state == SERVED:
            row = hart["row"]
            write_open(chip, h)
            if note_hotness(chip, row, BY_ACCESS) and wheel["stop"] == END:
                wheel["stop"] = POLL
            take_bank(chip, h, now)
            l1_word_access(chip, h, chip.code[np.uint64(row)], row, now)
            state = GO_ON
        elif state == RESUMED:
            row = row_index(chip.config[0], hart["pc"])
            may_begin = hart["id_valid"] or fetch["mode"] == chip.config[0]["steady_fetch"]
            if may_begin and 0 <= row < chip.config[0]["rows"]:  # else its line has just come
                if note_hotness(chip, row, BY_ISSUE) and wheel["stop"] == END:
                    wheel["stop"] = POLL
            state = GO_ON
        hart["code"] = np.uint64(0)
        until = min(end, now + chip.config[0]["lookahead"])
        if hart["exited"]:
            until = now + 1
        elif interrupts_enabled(hart):
            until = now
        while state == GO_ON:
            state = advance(chip, h, until)
            if until == now and state == RUN and hart["when"] == now:
                if interrupt_pending(hart) and now >= hart["irq_cycle"] + INTERRUPT_SEEN:
                    take_interrupt(chip, h, now, now)
                else:
                    until = now + 1
                    state = GO_ON
        if state != L1_REQUEST or hart["exited"]:
            wheel["words"] &= ~bit(h)
            wheel["due"] &= ~bit(h)
        wheel["running"] &= ~bit(h)
        if hart["exited"]:
            hart["state"] = OFF
            fetch_stop(fetch)
            if have_exited(chip):
                wheel["stop"] = ASLEEP
        elif state == L1_REQUEST:
            wheel["due"] |= bit(h)
            is_word = wheel["words"] & bit(h) != 0
            enter_request(chip, h, is_word)
            row = hart["row"]
            if is_word and fetch["mode"] == chip.config[0]["steady_fetch"]:
                code = chip.superblocks[np.uint64(row)]["code"][BY_ACCESS]
                if code and is_implied(chip, h, chip.code[np.uint64(row)], row):
                    if not interrupts_enabled(hart):
                        hart["code"] = code
        elif state <= REQUEST:
            enter_wheel(wheel, bit(h), hart["when"])
            if state == RUN and hart["when"] < now + SLOTS:
                wheel["running"] |= bit(h)
                row = row_index(chip.config[0], hart["pc"])
                if 0 <= row < chip.config[0]["rows"] and not interrupts_enabled(hart):
                    hart["code"] = chip.superblocks[np.uint64(row)]["code"][BY_ISSUE]
        elif state == NEEDS_DECODER:
            hart["state"] = RUN
            wheel["resume"] |= bit(h)
        elif state == STOPPED:
            wheel["stop"] = HALT
        if fetch["fresh"]:
            if fetch["port"]:
                note_fetch(chip, h)
            else:
                icache_note(chip.icache[0], fetch, h)

    return run_hart


def make_run_others(run_hart: Callable) -> Callable:
    """Return the step function with which code changes for all harts at once."""

    @cold_step
    def run_others(chip, now):
        """Let harts that run, but for those that wait for the decoder, run ahead as far as any may.

        A hart may have done so already, with the rows that are about to change.
        """
        wheel = chip.wheel[0]
        wheel["fence"] = 0
        for h in range(chip.harts.size):
            if chip.harts[np.uint64(h)]["state"] == RUN and wheel["resume"] & bit(h) == 0:
                for slot in range(SLOTS):
                    wheel["slots"][slot] &= ~bit(h)
                run_hart(chip, h, now, NEVER, GO_ON)

    return run_others


def make_run(advance: Callable) -> Callable:
    """Return the loop around this `advance`."""
    run_hart = make_run_hart(advance)
    run_others = make_run_others(run_hart)
    go_on = make_go_on(run_hart)
    run_answered = make_run_answered(run_hart)
    run_words = make_run_words(go_on)
    run_words_beside_dma = make_run_words_beside_dma(go_on, run_answered)

    @cold_step
    def run_cycles(chip, end):
        """Simulate cycles before `end`, as run does; what requests imply of harts is left open."""
        wheel = chip.wheel[0]
        control = chip.control[0]
        unit = chip.event_unit[0]
        icache = chip.icache[0]
        slots = wheel["slots"]
        now = wheel["now"]
        if wheel["resume"] == 0:
            wheel["stop"] = END
        if wheel["fence"] == RUN_AHEAD:
            run_others(chip, now)
            return DECODE
        while now < end:
            if is_full(chip):
                return TRACE
            if wheel["resume"] == 0 and control["busy"] == 0:
                if wheel["dma_busy"] == 0:
                    now = run_words(chip, now, end)
                elif chip.config[0]["inputs"] <= INPUTS:
                    now = run_words_beside_dma(chip, now, end)
                if wheel["resume"]:
                    wheel["now"] = now
                    return DECODE
                if wheel["stop"] != END:
                    return wheel["stop"]
                if is_full(chip):
                    return TRACE
                if now == end:
                    break
            going = wheel["resume"]
            served = np.uint64(0)
            if going:
                wheel["resume"] = np.uint64(0)
            else:
                slot = np.uint64(now) % np.uint64(SLOTS)
                is_raised = control["irq_cycle"] == now
                if is_raised:
                    interrupt_from_control_page(chip, now)
                    wheel["acted"] = now
                due = slots[slot]
                next_part = min(unit["next"], icache["wake"])
                if due == 0 and control["busy"] | wheel["dma_busy"] == 0 and next_part > now:
                    quiet = next_part == NEVER and control["irq_cycle"] == NEVER
                    if wheel["due"] == 0 and quiet and not is_raised:
                        wheel["now"] = now
                        return ASLEEP
                    now += 1
                    wheel["now"] = now
                    continue
                slots[slot] = np.uint64(0)
                if due or control["busy"] | wheel["dma_busy"] or unit["next"] <= now:
                    wheel["acted"] = now
                going, served = pass_phases(chip, due, now)
            while going:
                h = lowest_index(going)
                going &= going - np.uint64(1)
                if served >> np.uint64(h) & np.uint64(1):
                    wheel["due"] |= bit(h)
                    go_on(chip, h, np.uint64(0), now, end, SERVED)
                else:
                    run_hart(chip, h, now, end, GO_ON)
            if wheel["resume"]:
                wheel["now"] = now
                return DECODE
            if icache["wake"] <= now:
                step_icache(chip, now)
            if wheel["host"] and (wheel["stop"] == END or wheel["stop"] == POLL):
                wheel["stop"] = HOST
            now += 1
            wheel["now"] = now
            if wheel["stop"] != END:
                return wheel["stop"]
        return END

    @step
    def run(chip: Chip, end: int) -> int:
        """Simulate cycles before `end`; returns why it stopped, at wheel.now."""
        reason = run_cycles(chip, end)
        write_all_open(chip)
        return reason

    return run
