"""Cycles in which nothing but plain words of L1 is asked for, or the DMA moves data besides.

Most cycles are of these kinds, and what cannot happen in them need not be looked for.
"""

from collections.abc import Callable

import numpy as np

from soc.bits import bit, lowest_index
from soc.dma_sharing import share_with_lanes
from soc.hart_status import ENTERED, RESUMED, SERVED
from soc.hot_code import call_segment
from soc.l1_access import share_banks
from soc.links import request_lanes, step_icache
from soc.phases import advance_dma
from soc.state import RING, SLOTS
from soc.step import cold_step, inlined_step
from soc.stop_reasons import END
from soc.trace_points import is_full


def make_go_on(run_hart: Callable) -> Callable:
    """Return the step function for harts that go on by themselves: served by L1, or just running.

    What they do then is translated, if it is done often: see soc.segments.
    """

    @inlined_step
    def go_on(chip, h, others, now, end, state):
        """Let a hart go on and enter its next request, and others behind it as far as segments go.

        Returns ENTERED if all have done so; else wheel.others are left.

        others    that are served by L1, too
        state     SERVED: with its plain word of L1; RESUMED: it had run ahead far enough
        """
        wheel = chip.wheel[0]
        code = chip.harts[np.uint64(h)]["code"]
        if code and now <= end - chip.config[0]["lookahead"]:
            if state == RESUMED:
                wheel["running"] &= ~bit(h)
            state = call_segment(code, chip, h, now, others)
            if state == ENTERED:
                return ENTERED
            h = wheel["turn"]
        else:
            wheel["others"] = others
        wheel["now"] = now  # segments do without
        run_hart(chip, h, now, end, state)
        return state

    return go_on


def make_run_alone(go_on: Callable) -> Callable:
    """Return the step function for a hart that goes on while no other one is due."""

    @cold_step
    def run_alone(chip, h, now, end, last):
        """Let it go on in this cycle, and in further ones before `last`, as far as segments go.

        There is nobody to share a bank with. Returns the last of these cycles.
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
    def run_due(chip, running, plain, now, end):
        """Let harts go on: those that had run ahead far enough, and those that L1 serves.

        Returns True if segments have let all of them enter their next requests.
        """
        entered = True
        while running:
            h = lowest_index(running)
            running &= running - np.uint64(1)
            entered &= go_on(chip, h, np.uint64(0), now, end, RESUMED) == ENTERED
        while plain:
            h = lowest_index(plain)
            plain &= plain - np.uint64(1)
            if go_on(chip, h, plain, now, end, SERVED) == ENTERED:
                break
            entered = False
            plain = chip.wheel[0]["others"]
        return entered

    return run_due


def make_run_plain(go_on: Callable) -> Callable:
    """Return the step function for cycles in which nothing but plain words of L1 is asked for."""
    run_alone, run_due = make_run_alone(go_on), make_run_due(go_on)

    @cold_step
    def run_plain(chip, now, end):
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
            plain = due & wheel["plain"]
            if due != running | plain:
                break
            entered = True
            if due:
                slots[slot] = np.uint64(0)
                if wheel["due"] & wheel["due"] - np.uint64(1) == 0:
                    now = run_alone(chip, lowest_index(due), now, end, last)
                    entered = False
                else:
                    if wheel["shared"][np.uint64(now) % np.uint64(RING)]:
                        plain &= ~share_banks(chip, now)
                    entered = run_due(chip, running, plain, now, end)
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
            if wheel["due"]:
                until = min(last, wake)
                while now < until and slots[np.uint64(now) % np.uint64(SLOTS)] == 0:
                    now += 1
            wheel["now"] = now
            if wheel["stop"] != END or is_full(chip):
                break
        wheel["now"] = now
        return now

    return run_plain


def make_run_beside_dma(go_on: Callable) -> Callable:
    """Return the step function for cycles in which the DMA moves data besides."""
    run_due = make_run_due(go_on)

    @cold_step
    def run_beside_dma(chip, now, end):
        """Simulate such cycles; returns the first cycle that is not over then.

        Nobody asks the DMA for anything in them, and no event of its is due.
        """
        wheel = chip.wheel[0]
        dma = chip.dma[0]
        slots = wheel["slots"]
        last = min(end, chip.control[0]["irq_cycle"])
        while now < last and wheel["dma_busy"]:
            slot = np.uint64(now) % np.uint64(SLOTS)
            due = slots[slot]
            running = due & wheel["running"]
            plain = due & wheel["plain"]
            if due != running | plain or chip.event_unit[0]["next"] <= now:
                break
            if dma["asked"] | dma["event"] | dma["interrupt"]:
                break
            dma["granted"] = 0
            slots[slot] = np.uint64(0)
            lanes = request_lanes(dma)
            granted = 0
            if lanes:
                granted, lost = share_with_lanes(chip, lanes, now)
                plain &= ~lost
            if wheel["shared"][np.uint64(now) % np.uint64(RING)]:
                plain &= ~share_banks(chip, now)
            advance_dma(chip, lanes, granted, now)
            run_due(chip, running, plain, now, end)
            if wheel["resume"]:
                break
            if chip.icache[0]["wake"] <= now:
                step_icache(chip, now)
            now += 1
            wheel["now"] = now
            if wheel["stop"] != END or is_full(chip):
                break
        return now

    return run_beside_dma
