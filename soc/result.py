"""What a run leaves: the state at its end, as numbers a program reads."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isa.program import Program
from soc.chip_state import Chip
from soc.spec import SocSpec
from soc.state import CAUSES, COUNT, COUNTS, REGIONS

SCHEMA = "pulpsim.run/1"


@dataclass(frozen=True)
class Exit:
    """How a run ended.

    reason     "exit", "max_cycles", "deadlock", "trap", "warning" or "interrupted"
    code       what the program returned; 0 where it did not
    message    a sentence for the person, "" for an exit
    """

    reason: str
    code: int = 0
    message: str = ""


def read_memory(chip: Chip, spec: SocSpec, address: int, size: int) -> bytes:
    """Bytes of L1 or L2 as they are now.

    raises    ValueError if they are not in one memory
    """
    for base, words in (
        (spec.l1.base, chip.l1),
        (spec.l2.base, chip.l2),
    ):
        if base <= address and address + size <= base + words.nbytes:
            start = address - base
            return words.view(np.uint8)[start : start + size].tobytes()
    raise ValueError(
        f"{size} bytes at {address:#010x} are not in L1 ({spec.l1.base:#010x}, "
        f"{spec.l1.size} bytes) or L2 ({spec.l2.base:#010x}, {spec.l2.size})"
    )


@dataclass(frozen=True)
class RunResult:
    """The end of a run.

    seconds              that the simulation took, without what comes before it
    processor_seconds    the same, as processor time of its thread
    issues               ISSUE[n], the instructions in order, if a trace was asked for
    trace_events         how many the trace's file has, if there is one
    """

    exit: Exit
    cycles: int
    console: str
    spec: SocSpec
    chip: Chip
    program: Program
    engine: str
    seconds: float
    warnings: tuple[str, ...] = ()
    region_names: dict[int, str] = field(default_factory=dict)
    processor_seconds: float = 0.0
    issues: np.ndarray | None = None
    trace_events: int | None = None

    @property
    def instructions(self) -> int:
        """Instructions retired, all harts together."""
        return int(self.chip.harts["counts"][:, COUNT.instructions].sum())

    def read(self, address: int, size: int) -> bytes:
        """Bytes of L1 or L2 as the run left them.

        raises    ValueError if they are not in one memory
        """
        return read_memory(self.chip, self.spec, address, size)

    def to_json(self) -> dict[str, Any]:
        """The result as the contract of `pulpsim run --json` has it."""
        exit = {"reason": self.exit.reason, "code": self.exit.code}
        if self.exit.message:
            exit["message"] = self.exit.message
        return {
            "schema": SCHEMA,
            "exit": exit,
            "cycles": self.cycles,
            "instructions": self.instructions,
            "host": {
                "seconds": self.seconds,
                "mips": self.instructions / self.seconds / 1e6 if self.seconds else 0.0,
                "engine": self.engine,
            },
            "console": self.console,
            "harts": [self._hart(h) for h in range(self.chip.harts.size)],
            "l1": {
                "banks": [
                    {"accesses": int(bank["accesses"]), "conflicts": int(bank["conflicts"])}
                    for bank in self.chip.banks
                ]
            },
            "dma": self._dma(),
            "warnings": list(self.warnings),
        }

    def _hart(self, h: int) -> dict[str, Any]:
        hart = self.chip.harts[h]
        counts = hart["counts"]
        stalls = _stalls(counts)
        return {
            "name": "fc" if hart["external"] else f"core{h}",
            "hart_id": int(hart["hart_id"]),
            "cycles": int(counts[COUNT.instructions]) + sum(stalls.values()),
            "instructions": int(counts[COUNT.instructions]),
            "stalls": stalls,
            "counters": {
                name: int(counts[index])
                for index, name in enumerate(COUNTS)
                if name not in CAUSES and name != "instructions"
            },
            "exit_code": int(hart["exit_code"]) if hart["exited"] else None,
            "regions": [
                self._region(int(number), self.chip.regions[h * REGIONS + number])
                for number in np.flatnonzero(
                    self.chip.regions["count"][h * REGIONS : (h + 1) * REGIONS]
                )
            ],
        }

    def _region(self, number: int, region: np.void) -> dict[str, Any]:
        total = region["total"]
        return {
            "id": number,
            "name": self.region_names.get(number, f"region {number}"),
            "count": int(region["count"]),
            "first_start": int(region["first_start"]),
            "cycles": int(region["cycles"]),
            "instructions": int(total[COUNT.instructions]),
            "l1_accesses": int(total[COUNT.l1_accesses]),
            "stalls": _stalls(total),
        }

    def _dma(self) -> dict[str, Any]:
        dma = self.chip.dma[0]
        return {
            "beats": [int(channel["moved"]) for channel in dma["channel"]],
            "l1_accesses": int(dma["accesses"]),
            "l1_conflicts": int(dma["conflicts"]),
        }


def _stalls(counts: np.ndarray) -> dict[str, int]:
    """Stall cycles by cause, those that occurred."""
    return {name: int(counts[COUNTS.index(name)]) for name in CAUSES if counts[COUNTS.index(name)]}
