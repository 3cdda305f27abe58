"""The result of a run: the state at its end, as numbers a program reads."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isa.program import Program
from soc.address_map.memory_map import BOOT_ROM
from soc.check.report import Checked, stack_use
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.host.notebook import frame, html_table
from soc.prelude.counters import CAUSES, COUNT, COUNTS, REGIONS

SCHEMA = "pulpsim.run/1"


@dataclass(frozen=True)
class Exit:
    """How a run ended.

    reason     "exit", "max_cycles", "deadlock", "trap", "warning" or "interrupted"
    code       what the program returned; 0 where it did not
    message    a sentence for the person, "" for an exit
    hart       whose doing a trap or a warning is; None: no hart's
    """

    reason: str
    code: int = 0
    message: str = ""
    hart: int | None = field(default=None, compare=False)


def read_memory(chip: Chip, spec: SocSpec, address: int, size: int) -> bytes:
    """Bytes of L1, L2 or the boot ROM as they are now.

    raises    ValueError if they are not in one memory
    """
    for base, words in (
        (spec.l1.base, chip.l1),
        (spec.l2.base, chip.l2),
        (BOOT_ROM, chip.rom),
    ):
        if base <= address and address + size <= base + words.nbytes:
            start = address - base
            return words.view(np.uint8)[start : start + size].tobytes()
    raise ValueError(
        f"{size} bytes at {address:#010x} are not in L1 ({spec.l1.base:#010x}, "
        f"{spec.l1.size} bytes) or L2 ({spec.l2.base:#010x}, {spec.l2.size})"
    )


@dataclass(frozen=True, repr=False)
class RunResult:
    """The end of a run.

    seconds              that the simulation took, without what comes before it
    processor_seconds    the same, as processor time of its thread
    issues               ISSUE[n], the instructions in order, if a trace was asked for
    effects              what each of them did, by its number, if that was asked for
    trace_events         how many the trace's file has, if there is one
    checked              what the checks have found, if any were made
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
    processor_seconds: float = 0.0
    issues: np.ndarray | None = None
    effects: dict[int, list[str]] | None = None
    trace_events: int | None = None
    checked: Checked | None = None

    @property
    def instructions(self) -> int:
        """Instructions retired, all harts together."""
        return int(self.chip.harts["counts"][:, COUNT.instructions].sum())

    def read(self, address: int, size: int) -> bytes:
        """Bytes of L1 or L2 as the run left them.

        raises    ValueError if they are not in one memory
        """
        return read_memory(self.chip, self.spec, address, size)

    def __repr__(self) -> str:
        end = self.exit
        how = end.message or (f"exit {end.code}" if end.reason == "exit" else end.reason)
        return (
            f"<RunResult {Path(self.program.name).name} on {self.spec.name}: {how}, "
            f"{self.cycles:,} cycles, {self.instructions:,} instructions>"
        )

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], (_short(row) for row in self.rows("harts")))

    def rows(self, what: str = "harts") -> list[dict[str, Any]]:
        """Figures of the run, a dictionary each.

        what    "harts": cycles, instructions, IPC, cycles by cause of a stall
                "regions": the same for each region of each hart
                "banks": accesses and conflicts of each bank of L1

        raises    ValueError for another
        """
        result = self.to_json()
        if what == "harts":
            return [_spent(hart) for hart in result["harts"]]
        if what == "regions":
            harts = (
                (hart["name"], region) for hart in result["harts"] for region in hart["regions"]
            )
            return [{"hart": hart, "count": r["count"]} | _spent(r, "region") for hart, r in harts]
        if what == "banks":
            return [{"bank": number, **bank} for number, bank in enumerate(result["l1"]["banks"])]
        raise ValueError(f"rows {what!r}; there are harts, regions and banks")

    def to_frame(self, what: str = "harts") -> Any:
        """The rows as a pandas.DataFrame.

        raises    ImportError without pandas; ValueError as rows does
        """
        return frame(self.rows(what))

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
            **({"checks": self.checked.to_json()} if self.checked else {}),
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
            "stack": stack_use(hart),
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
            "name": self.program.regions.get(number, f"region {number}"),
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


def _spent(part: dict[str, Any], what: str = "hart") -> dict[str, Any]:
    """Where the cycles of a hart or a region went."""
    cycles, instructions = part["cycles"], part["instructions"]
    stalls = {cause: part["stalls"].get(cause, 0) for cause in CAUSES}
    ipc = instructions / cycles if cycles else 0.0
    return {
        what: part["name"],
        "cycles": cycles,
        "instructions": instructions,
        "ipc": ipc,
        **stalls,
    }


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """Without the causes of no stall."""
    return {name: value for name, value in row.items() if value}


def _stalls(counts: np.ndarray) -> dict[str, int]:
    """Stall cycles by cause, those that occurred."""
    return {name: int(counts[COUNTS.index(name)]) for name in CAUSES if counts[COUNTS.index(name)]}
