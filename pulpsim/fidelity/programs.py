"""Programs measured on the RTL: every cycle, instruction and L1 access of every region and core.

119 programs for CV32E40P, 118 for RI5CY, of these 72 with small floats, in up to seven
configurations of the FPU. A region is the code between two markers.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isa.program import Program
from pulpsim.fidelity.archive import elfs_in, measured_in
from pulpsim.fidelity.comparison import Comparison, Deviation, Measurement, compared
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import run_program

PROGRAMS = Path(__file__).parent / "data" / "programs.tar.xz"
"""measured.json; ELF files by core, cv32e40p/ and ri5cy/; icache/."""

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "fpu_lat0": {"float_registers": "f", "fpu_latency": 0},
    "fpu_lat1": {"float_registers": "f"},
    "fpu_lat2": {"float_registers": "f", "fpu_latency": 2},
    "fpu_lat1_pulpdivsqrt": {"float_registers": "f", "divider": "pulp"},
    "zfinx_lat1": {"float_registers": "x"},
    "eventunit_lat1": {"float_registers": "f"},
    "nocluster_lat1": {"float_registers": "f", "wfi_sleeps": True},
    "ri5cy_fregs_lat1": {"float_registers": "f"},
    "ri5cy_zfinx_lat1": {"float_registers": "x"},
    "ri5cy_zfinx_f16_lat1": {"float_registers": "x"},
    "ri5cy_zfinx_f16_stock": {"float_registers": "x", "apu_wop": 6},
}
"""Fields of the core in each configuration that was measured."""

L1_BASE, L1_SIZE = 0x1000_0000, 0x1_0000


@dataclass(frozen=True)
class ProgramRun:
    """A program on a core in a configuration."""

    core: str
    program: str
    configuration: str

    def __str__(self) -> str:
        return f"{self.program}-{self.configuration}"

    @property
    def group(self) -> str:
        """What it is about, a key of GROUPS."""
        if self.program.startswith(("mm_", "mmz_", "mm16_", "c_")):
            return "kernels"
        return "contention" if measured()[self.core][self.program]["cores"] > 1 else "programs"

    @property
    def expected(self) -> dict[str, Any]:
        """What was measured: exit, regions, total_cycles, tcdm_sha256; lists are by core."""
        return measured()[self.core][self.program]["configs"][self.configuration]

    def simulate(self, engine: str = "compiled", **how: Any) -> RunResult:
        """Run it on the chip that stands for the RTL's test bench; `how` goes to run_program."""
        fields = CONFIGURATIONS[self.configuration]
        cores = measured()[self.core][self.program]["cores"]
        chip = load_chip(f"{self.core}-rtl", {"cores": cores, "core": fields})
        name = f"{self.core}/{self.program}.elf"
        program = Program.from_elf(elfs()[name], name)
        limit = 2 * self.expected["total_cycles"] + 1000
        return run_program(program, chip, engine=engine, max_cycles=limit, **how)

    def repeat(self, engine: str = "compiled") -> Comparison:
        """Hold the simulator's numbers against the RTL's."""
        result, expected = self.simulate(engine), self.expected
        if result.exit.reason != "exit":
            regions = tuple(Deviation(("not reached",), 1.0) for _ in expected["regions"])
            failed = Deviation((result.exit.message or result.exit.reason,), 1.0)
            return Comparison(expected["total_cycles"], result.cycles, regions, whole=failed)
        simulated = numbers(result, expected["regions"])
        parts = [
            compared(f"region {name}", region, simulated["regions"][name])
            for name, region in expected["regions"].items()
        ]
        whole = {key: value for key, value in expected.items() if key != "regions"}
        return Comparison(
            expected["total_cycles"],
            result.cycles,
            tuple(parts),
            sum(expected["exit"]["tcdm_stall"]),
            sum(simulated["exit"]["tcdm_stall"]),
            compared("run", whole, simulated),
        )


def measured() -> dict[str, Any]:
    """What was measured: core -> program -> cores, configs."""
    return measured_in(PROGRAMS)


def elfs() -> dict[str, bytes]:
    """The ELF files by name, "ri5cy/alu.elf"."""
    return elfs_in(PROGRAMS)


def runs() -> list[ProgramRun]:
    """All that was measured."""
    return [
        ProgramRun(core, program, configuration)
        for core, programs in measured().items()
        for program, entry in programs.items()
        for configuration in entry["configs"]
    ]


def measurements() -> Iterator[Measurement]:
    """Each program in each configuration."""
    for run in runs():
        cycles = run.expected["total_cycles"]
        yield Measurement(run.group, run.program, run.configuration, cycles, run.repeat)


def numbers(result: RunResult, regions: dict[str, Any]) -> dict[str, Any]:
    """A result in the form of what was measured; values are lists by core.

    regions    measured, for their ids and names
    """
    harts = result.to_json()["harts"]
    return {
        "exit": {
            "exit_code": [hart["exit_code"] for hart in harts],
            "exit_cycle": result.chip.harts["exit_cycle"].tolist(),
            "first_issue": result.chip.harts["first_issue"].tolist(),
            "instret": [hart["instructions"] for hart in harts],
            "tcdm_acc": [hart["counters"]["l1_accesses"] for hart in harts],
            "tcdm_stall": [hart["stalls"].get("l1_contention", 0) for hart in harts],
        },
        "regions": {
            number: {"name": region["name"], **_region_numbers(harts, int(number))}
            for number, region in regions.items()
        },
        "tcdm_sha256": hashlib.sha256(result.read(L1_BASE, L1_SIZE)).hexdigest(),
        "total_cycles": result.cycles,
    }


NOTHING: dict[str, Any] = {
    "cycles": 0,
    "instructions": 0,
    "first_start": 0,
    "l1_accesses": 0,
    "stalls": {},
}


def _region_numbers(harts: list[dict[str, Any]], number: int) -> dict[str, list[int]]:
    regions = [
        next((region for region in hart["regions"] if region["id"] == number), NOTHING)
        for hart in harts
    ]
    return {
        "cycles": [region["cycles"] for region in regions],
        "instret": [region["instructions"] for region in regions],
        "start": [region["first_start"] for region in regions],
        "tcdm_acc": [region["l1_accesses"] for region in regions],
        "tcdm_stall": [region["stalls"].get("l1_contention", 0) for region in regions],
    }
