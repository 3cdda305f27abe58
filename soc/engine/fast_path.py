"""Cycles in which harts ask for aligned words of L1 alone, or the DMA moves data besides.

Most cycles are of these kinds. They derive from soc.engine.cycle_loop: phases of a cycle that have
nothing to do in them are left out, and what cannot happen is not looked for.
"""

from collections.abc import Callable

import numpy as np

from soc.aot.units import (
    begin_streams,
    end_streams,
    grant_ports,
    request_lanes,
    step_icache,
)
from soc.chip.superblock_call import call_superblock
from soc.cluster.phases import advance_dma, answer_dma_ports, note_written_beat
from soc.dma.stream_beats import may_begin, pass_beats, stream_lanes
from soc.engine.aligned_words import share_banks
from soc.engine.aligned_words_dma import serve_alone, serve_lanes
from soc.prelude.bits import bit, lowest_index
from soc.prelude.hart_state import ENTERED, GO_ON, RESUMED, SERVED
from soc.prelude.step import cold_step, inlined_step
from soc.prelude.stop_reasons import END
from soc.prelude.trace_points import is_full, is_recorded
from soc.prelude.wheel import RING, SLOTS


def make_go_on(run_hart: Callable) -> Callable:
    """Return the step function for harts that go on by themselves: served by L1, or just running.

    What they do then is translated, if it is done often: see soc.jit.superblock_steps.
    """

    @inlined_step
    def go_on(chip, h, others, now, end, state):
        """Let a hart go on and enter its next request; others too, as far as superblocks go.

        Returns ENTERED if all have done so; else wheel.others are left.

        others    that are served by L1, too
        state     SERVED: with its aligned word of L1; RESUMED: it had run ahead far enough
        """
        wheel = chip.wheel[0]
        code = chip.harts[np.uint64(h)]["code"]
        if code and now <= end - chip.config[0]["lookahead"]:
            if state == RESUMED:
                wheel["running"] &= ~bit(h)
            state = call_superblock(code, chip, h, now, others)
            if state == ENTERED:
                return ENTERED
            h = wheel["turn"]
        else:
            wheel["others"] = others
        wheel["now"] = now  # superblocks do without
        run_hart(chip, h, now, end, state)
        return state

    return go_on


def make_run_alone(go_on: Callable) -> Callable:
    """Return the step function for a hart that goes on while no other one is due."""

    @cold_step
    def run_alone(chip, h, now, end, last):
        """Let it go on in this cycle, and in further ones before `last`, as far as superblocks go.

        No other hart asks for its bank then. Returns the last of these cycles.
        """
        hart = chip.harts[np.uint64(h)]
        wheel = chip.wheel[0]
        last = min(last, chip.icache[0]["wake"])
        while True:
            state = RESUMED if wheel["running"] & bit(h) else SERVED
            if go_on(chip, h, np.uint64(0), now, end, state) != ENTERED or is_full(chip):
                return now
            if hart["when"] >= last:
                return now
            now = hart["when"]
            wheel["now"] = now
            wheel["slots"][np.uint64(now) % np.uint64(SLOTS)] = np.uint64(0)

    return run_alone


def make_run_due(go_on: Callable) -> Callable:
    """Return the step function for all harts of a cycle that go on."""

    @inlined_step
    def run_due(chip, running, words, now, end):
        """Let harts go on: those that had run ahead far enough, and those that L1 serves.

        Returns True if superblocks have let all of them enter their next requests.
        """
        entered = True
        while running:
            h = lowest_index(running)
            running &= running - np.uint64(1)
            entered &= go_on(chip, h, np.uint64(0), now, end, RESUMED) == ENTERED
        while words:
            h = lowest_index(words)
            words &= words - np.uint64(1)
            if go_on(chip, h, words, now, end, SERVED) == ENTERED:
                break
            entered = False
            words = chip.wheel[0]["others"]
        return entered

    return run_due


def make_run_answered(run_hart: Callable) -> Callable:
    """Return the step function for harts that go on neither served by L1 nor just running on."""

    @cold_step
    def run_answered(chip, harts, now, end):
        """Let harts go on whose access a port of the DMA has taken."""
        while harts:
            h = lowest_index(harts)
            harts &= harts - np.uint64(1)
            run_hart(chip, h, now, end, GO_ON)

    return run_answered


def make_run_words(go_on: Callable) -> Callable:
    """Return the step function for cycles in which harts ask for aligned words of L1 alone."""
    run_alone, run_due = make_run_alone(go_on), make_run_due(go_on)

    @cold_step
    def run_words(chip, now, end):
        """Simulate such cycles, and idle ones; returns the first cycle that is not over then.

        NOTE: apart from the loop around it, which would take its registers away.
        """
        wheel = chip.wheel[0]
        icache = chip.icache[0]
        slots = wheel["slots"]
        last = min(end, chip.event_unit[0]["next"], chip.control[0]["irq_cycle"])
        wake = icache["wake"]
        while now < last:
            slot = np.uint64(now) % np.uint64(SLOTS)
            due = slots[slot]
            running = due & wheel["running"]
            words = due & wheel["words"]
            if due & ~(running | words):
                break
            entered = True
            if due:
                slots[slot] = np.uint64(0)
                if wheel["due"] & wheel["due"] - np.uint64(1):
                    if wheel["shared"][np.uint64(now) % np.uint64(RING)]:
                        words &= ~share_banks(chip, now)
                    entered = run_due(chip, running, words, now, end)
                else:
                    now = run_alone(chip, lowest_index(due), now, end, last)
                    entered = False
            elif wheel["due"] == 0:
                break
            if entered and now < wake and not is_full(chip):  # the rest is as it was
                now += 1
                continue
            wheel["now"] = now
            if wheel["resume"]:
                break
            if icache["wake"] <= now:
                step_icache(chip, now)
            wake = icache["wake"]
            now += 1
            if wheel["due"] and wheel["stop"] == END:
                until = min(last, wake)
                while now < until and slots[np.uint64(now) % np.uint64(SLOTS)] == 0:
                    now += 1
            wheel["now"] = now
            if wheel["stop"] != END or is_full(chip):
                break
        wheel["now"] = now
        return now

    return run_words


@inlined_step
def pass_alone(chip, now, last):
    """Pass cycles of streams before `last` up to that in which a hart or another part is due.

    Returns how many. It follows a cycle in which all lanes of the streams were served: as both go
    on by two words a cycle, they stay at banks of their own.
    """
    wheel, dma = chip.wheel[0], chip.dma[0]
    last = min(last, chip.event_unit[0]["next"], chip.icache[0]["wake"])
    cycle = now
    while cycle < last and wheel["slots"][np.uint64(cycle) % np.uint64(SLOTS)] == 0:
        serve_alone(chip, stream_lanes(dma))
        pass_beats(dma, chip.l1, chip.l2)
        note_written_beat(chip)
        cycle += 1
    return cycle - now


def make_run_words_beside_dma(go_on: Callable, run_answered: Callable) -> Callable:
    """Return the step function for cycles in which the DMA moves data besides."""
    run_due = make_run_due(go_on)

    @cold_step
    def run_words_beside_dma(chip, now, end):
        """Simulate such cycles; returns the first cycle that is not over then.

        In them no hart begins to ask the DMA for anything, and no event of its is due.
        """
        wheel = chip.wheel[0]
        dma = chip.dma[0]
        slots = wheel["slots"]
        last = min(end, chip.control[0]["irq_cycle"])
        left = 0  # cycles of streams
        while now < last and wheel["dma_busy"]:
            slot = np.uint64(now) % np.uint64(SLOTS)
            due = slots[slot]
            if left and due == 0:
                passed = pass_alone(chip, now, min(last, now + left))
                left -= passed
                now += passed
                if left == 0:
                    end_streams(dma)
                if passed:
                    wheel["now"] = now
                    continue
            running = due & wheel["running"]
            words = due & wheel["words"]
            if dma["event"] | dma["interrupt"] or chip.event_unit[0]["next"] <= now:
                break
            if due & ~(running | words):
                break
            ports = 0
            if left == 0:
                if dma["asked"] & ~dma["waiting"]:
                    ports = grant_ports(dma)
                else:
                    dma["granted"] = 0
            slots[slot] = np.uint64(0)
            if left == 0 and may_begin(dma) and not is_recorded(chip):
                left = begin_streams(dma, now)
            lanes = stream_lanes(dma) if left else request_lanes(dma)
            granted = 0
            if lanes:
                granted, lost = serve_lanes(chip, lanes, now)
                words &= ~lost
            if wheel["shared"][np.uint64(now) % np.uint64(RING)]:
                words &= ~share_banks(chip, now)
            if left and granted == lanes:
                pass_beats(dma, chip.l1, chip.l2)
                note_written_beat(chip)
                left -= 1
                if left == 0:
                    end_streams(dma)
            else:
                if left:
                    end_streams(dma)
                    left = 0
                advance_dma(chip, lanes, granted, now)
            run_due(chip, running, words, now, end)
            if ports:
                run_answered(chip, answer_dma_ports(chip, ports, now), now, end)
            if wheel["resume"]:
                break
            if chip.icache[0]["wake"] <= now:
                step_icache(chip, now)
            now += 1
            wheel["now"] = now
            if wheel["stop"] != END or is_full(chip):
                break
        if left:
            end_streams(dma)
        wheel["acted"] = now - 1
        return now

    return run_words_beside_dma
