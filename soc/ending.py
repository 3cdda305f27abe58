"""How a run ends: the program's exit, faults, its cycle limit, deadlock; and its warnings."""

import numpy as np
from simpy import Environment

from soc.chip.state import Chip
from soc.console_text import ConsoleText
from soc.core.decode_cache import CodeMemory
from soc.diagnosis import Diagnosis
from soc.dma.mchan import error_message
from soc.guards import (
    Guards,
    console_warning,
    lost_entries_warning,
    told,
    wrong_on_rtl_warning,
)
from soc.peripherals.bus import later
from soc.prelude import hart_state as harts_module
from soc.result import Exit

PERIPHERAL = 1 << 8
"""Stands for a peripheral where a hart's number, or the DMA's, says what stopped a run."""


class Ending:
    """The end of a run, and the warnings before it.

    exit        how it ended, None while it goes on
    limit       the cycle that it ends at if nothing else ends it, None: no limit
    faults      (cycle, what did it, message, reason) that are known and not past yet
    warnings    their texts, in order
    nulls       accesses through null pointers that have been warned of
    """

    def __init__(
        self, chip: Chip, env: Environment, diagnosis: Diagnosis, guards: Guards, text: ConsoleText
    ):
        self.chip, self.env, self.diagnosis, self.guards = chip, env, diagnosis, guards
        self.console = text
        self.now, self.noted = (chip.wheel[name].data for name in ("now", "nulls"))
        self.exit: Exit | None = None
        self.limit: int | None = None
        self.faults: list[tuple[int, int, str, str]] = []
        self.warnings: list[str] = []
        self.nulls = 0

    def returned(self, code: int) -> None:
        """The program has said that it is at its end."""
        self.exit = Exit("exit", code)

    def interrupt(self) -> None:
        """Let the run end in the cycles under way; any thread may say so."""
        self.exit = Exit("interrupted", 0, f"interrupted in cycle {self.now[0]}")

    def reach_limit(self) -> None:
        """The cycle limit is reached."""
        self.exit = Exit("max_cycles", 0, f"cycle limit of {self.limit} reached")

    def warn(self, text: str, who: int = PERIPHERAL) -> None:
        """Tell what is legal but hardly meant; see `stop` for `who`."""
        self.warnings.append(text)
        if self.guards.is_strict and self.exit is None:
            self.stop(max(int(self.env.now), self.now[0] - 1), who, text, "warning")

    def warn_of_nulls(self) -> None:
        """Tell of accesses through null pointers that are new."""
        for place in range(self.nulls, self.noted[0]):
            self.warn(*self.diagnosis.null_warning(place))
        self.nulls = self.noted[0]

    def warn_of_wrong_instructions(self, code: CodeMemory) -> None:
        """Tell of what is decoded since and the RTL computes otherwise."""
        program, spec, isa = self.diagnosis.program, self.diagnosis.spec, self.diagnosis.isa
        for row, is_told in code.wrong.items():
            if not is_told:
                code.wrong[row] = True
                pc, word = spec.l2.base + 2 * row, int(self.chip.code[row]["word"])
                self.warn(wrong_on_rtl_warning(program, isa, pc, word))

    def printed(self) -> None:
        """A character was printed: the one beyond the limit is warned of."""
        limit = self.console.limit
        if self.console.printed == limit + 1 and self.guards.is_strict:
            self.stop(int(self.env.now), PERIPHERAL, console_warning(limit), "warning")

    def note_faults(self) -> None:
        """What stops the simulation: harts, perhaps several in a cycle, and the DMA."""
        for h in np.flatnonzero(self.chip.harts["state"] == harts_module.STOPPED).tolist():
            self.stop(self.diagnosis.fault_cycle(h), h, self.diagnosis.fault_message(h))
        if self.chip.dma[0]["error"]:
            cycle = self.now[0] - 1
            text = f"cycle {cycle}: dma: {error_message(self.chip.dma[0])}"
            self.stop(cycle, self.chip.harts.size, text)

    def fault_at_bus(self, h: int, why: str) -> None:
        """A hart's request to a peripheral leads nowhere: that stops the run."""
        cycle = int(self.env.now)
        self.stop(cycle, h, self.diagnosis.located_access(h, why, cycle))

    def fail(self, text: str) -> None:
        """The code of a user's device has gone wrong: that stops the run."""
        cycle = int(self.env.now)
        self.stop(cycle, PERIPHERAL, f"cycle {cycle}: {text}")

    def stop(self, cycle: int, who: int, message: str, reason: str = "trap") -> None:
        """End the run because of what happened in this cycle, where no hart is ahead of it.

        who    did it: a hart, or after all harts the DMA, or PERIPHERAL; the order in which those
               of one cycle are told
        """
        if all(who != other for _, other, *_ in self.faults):
            self.faults.append((cycle, who, message, reason))
            last = cycle + int(self.chip.config[0]["lookahead"])
            later(self.env, max(0, last - self.env.now), self._stopped)

    def _stopped(self) -> None:
        if self.exit is None:
            _, who, message, reason = min(self.faults)
            is_hart = 0 <= who < self.chip.harts.size
            self.exit = Exit(reason, 0, message, who if is_hart else None)

    def deadlock(self, last: int) -> None:
        """Nothing happens any more: told in the cycle after the last in which something did.

        last    cycle in which a part did, but for instructions of harts that ran ahead
        """
        last = max(last, int(self.chip.harts["issued"].max()))
        if self.limit is not None and last + 1 >= self.limit:
            self.now[0] = self.limit
            self.reach_limit()
        else:
            self.now[0] = last + 1
            self.exit = Exit("deadlock", 0, self.diagnosis.deadlock_message())

    def note_exits(self) -> None:
        """On the test benches the program has ended when all cores have."""
        spec = self.diagnosis.spec
        if not spec.control_page:
            return
        first = spec.cores if spec.fabric_controller.present else 0
        cores = self.chip.harts[first:]
        if cores["exited"].all():
            codes = [int(code) for code in cores["exit_code"] if code]
            self.exit = Exit("exit", codes[0] if codes else 0)

    def said(self) -> tuple[str, tuple[str, ...]]:
        """What the program has printed, and the warnings, one of which may be of that."""
        text, printed = self.console.everything, self.console.printed
        limit = self.console.limit
        if self.diagnosis.spec.control_page:
            page = self.chip.control[0]
            printed, limit = int(page["length"]), min(limit, page["text"].size)
            text = bytes(page["text"][: min(printed, limit)]).decode("utf-8", "replace")
        warnings = told(self.warnings)
        if lost := int(self.chip.dma[0]["lost_entries"]):
            warnings = (*warnings, lost_entries_warning(lost))
        if printed > limit:
            warnings = (*warnings, console_warning(limit, printed - limit))
        return text, warnings
