"""A run that is checked: the recorder whose events go to the checks instead of a file."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from isa.program import Program
from soc.aot.unit import require
from soc.aot.units import CHECKS as UNIT
from soc.aot.units import check_events
from soc.check.given import lay_out
from soc.check.report import CHECKS, checked
from soc.chip.shadow import COUNTERS
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.core.sync_points import Sync
from soc.guards import DEFAULT_GUARDS, Guards
from soc.jit.code_cache import SHARED, CodeCache
from soc.prelude.trace_event import ALL_ADDRESSES, Kind
from soc.result import Exit, RunResult
from soc.simulation import Simulation
from soc.trace.recorder import Recorder, Recording, buffer_limit

MOST_CYCLES = 1 << 31
"""After which the cycles of events count anew."""
MARGIN = 1 << 16
"""Cycles before now from which events may still come."""

MEMORY_KINDS = Kind.MEMORY, Kind.TRANSFER, *Sync
KINDS = {
    "memory": MEMORY_KINDS,
    "races": MEMORY_KINDS,
    "stack": (),
    "performance": (Kind.MEMORY, Kind.CONFLICT),
}
"""What is noted for each check."""


class Checker(Recorder):
    """Checks what is noted, whenever the buffer is full; takes the place of a file's recorder."""

    def __init__(
        self, checks: Collection[str], chip: Chip, spec: SocSpec, program: Program, *_: Any
    ):
        self.chip, self.spec, self.program = chip, spec, program
        self.is_on, self.end = True, MOST_CYCLES
        recorder, check = chip.recorder[0], chip.check[0]
        for name in CHECKS:
            if name in check.dtype.names:
                check[name] = name in checks
        recorder["kinds"] = sum(1 << kind for kind in {k for name in checks for k in KINDS[name]})
        recorder["harts"], recorder["cycles"] = -1 % (1 << 64), 1 << 32
        recorder["pcs"] = recorder["addresses"] = ALL_ADDRESSES
        recorder["limit"] = buffer_limit(spec)
        harts = chip.harts.size
        check["cores"], check["threads"] = spec.cores, harts + COUNTERS
        check["places"] = chip.readers.size // int(check["threads"])
        check["holder"] = -1
        for thread in range(harts):
            check["clock"][thread][thread] = 1
        lay_out(chip, spec, program)

    @property
    def events(self) -> None:
        """There is no file that has any."""

    def drop(self) -> None:
        """Leave it all to another one, of a chip at reset."""

    def write(self) -> None:
        """Check what is noted, and make room in the buffer."""
        recorder = self.chip.recorder[0]
        check_events.unlocked(self.chip, 0, recorder["count"])
        recorder["count"] = 0
        now = int(self.chip.wheel[0]["now"])
        if now >= self.end:
            recorder["first"] = now - MARGIN
            self.end = now + MOST_CYCLES

    def close(self, rest: np.ndarray, cycles: int, why: str, **known: Any) -> None:
        """Check what is left."""
        self.write()


class CheckedSimulation(Simulation):
    """A simulation that is checked; cycles and counters are those of any other."""

    is_checked = True

    def __init__(
        self,
        program: Program,
        spec: SocSpec,
        engine: str,
        on_console: Callable[[str], None],
        progress: Callable[[str], AbstractContextManager],
        checks: Collection[str],
        guards: Guards = DEFAULT_GUARDS,
        code_cache: CodeCache = SHARED,
    ):
        require((UNIT,), progress)
        self.checks = checks
        self.recorder_of = partial(Checker, checks)  # type: ignore[assignment]
        recording = Recording(Path())
        super().__init__(program, spec, engine, on_console, progress, recording, guards, code_cache)

    def result(self, end: Exit, seconds: float) -> RunResult:
        """What the run leaves, with what the checks have found."""
        result = super().result(end, seconds)
        return replace(result, checked=checked(self.chip, self.spec, self.program, self.checks))
