"""The fabric controller on the RTL of pulp_soc: its fetch and data at L2's ports, registers, ROM.

Programs in each of L2's memories (two private banks, the interleaved ones), with data in each, in
three configurations: RI5CY in pulp_soc 3.0.1 and 5.0.1, PULP's fork of CV32E40P in 5.0.1. Of 24
random programs (`rnd_*`) those are here that do not depend on words of the boot ROM, which is not
part of this repository; where they only store such words, the content of L2 is not compared.
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

DATA = Path(__file__).parent / "data" / "controller.tar.xz"
"""measured.json; ELF files by program, one for all configurations."""

CHIPS = {
    "fc_ri5cy_soc3": "fc-ri5cy-soc3-rtl",
    "fc_ri5cy": "fc-ri5cy-soc5-rtl",
    "fc_cv32e40p": "fc-cv32e40p-soc5-rtl",
}
"""The chip that stands for each configuration."""

L2_BASE, L2_SIZE = 0x1C00_0000, 0x9_0000


@dataclass(frozen=True)
class ControllerRun:
    """A program in a configuration, a key of CHIPS."""

    program: str
    configuration: str

    def __str__(self) -> str:
        return f"{self.program}-{self.configuration}"

    @property
    def expected(self) -> dict[str, Any]:
        """What was measured: total_cycles, first_issue, exit, regions, l2_sha256."""
        return measured()[self.program]["configs"][self.configuration]

    def simulate(self, engine: str = "compiled", **how: Any) -> RunResult:
        """Run it on the chip that stands for the RTL's test bench; `how` goes to run_program."""
        chip = load_chip(CHIPS[self.configuration], {"core.float_registers": "x"})
        program = Program.from_elf(elfs()[f"{self.program}.elf"], self.program)
        limit = 2 * self.expected["total_cycles"] + 1000
        return run_program(program, chip, engine=engine, max_cycles=limit, **how)

    def repeat(self, engine: str = "compiled") -> Comparison:
        """Hold the simulator's numbers against the RTL's."""
        result, expected = self.simulate(engine), self.expected
        controller = result.to_json()["harts"][-1]
        regions = {region["id"]: region for region in controller["regions"]}
        parts = []
        for region in expected["regions"]:
            found = regions.get(region["id"], {"cycles": 0, "instructions": 0, "first_start": 0})
            simulated = {
                "cycles": found["cycles"],
                "instret": found["instructions"],
                "start": found["first_start"],
            }
            rtl = {key: region[key] for key in simulated}
            parts.append(compared(f"region {region['name']}", rtl, simulated))
        whole = {
            "total_cycles": result.cycles,
            "exit_code": controller["exit_code"],
            "instret": controller["instructions"],
            "first_issue": int(result.chip.harts["first_issue"][-1]),
            "l2_sha256": hashlib.sha256(result.read(L2_BASE, L2_SIZE)).hexdigest(),
        }
        rtl = {**{key: expected[key] for key in whole if key in expected}, **expected["exit"][0]}
        whole = {key: value for key, value in whole.items() if key in rtl}
        rtl = {key: rtl[key] for key in whole}
        ended = (
            Deviation()
            if result.exit.reason == "exit"
            else Deviation((str(result.exit.message),), 1.0)
        )
        difference = compared("run", rtl, whole)
        return Comparison(
            expected["total_cycles"],
            result.cycles,
            tuple(parts),
            whole=Deviation(ended.differences + difference.differences, ended.error),
        )


def measured() -> dict[str, Any]:
    """What was measured: program -> code, configs."""
    return measured_in(DATA)


def elfs() -> dict[str, bytes]:
    """The ELF files by name, "line_pri0.elf"."""
    return elfs_in(DATA)


def runs() -> list[ControllerRun]:
    """All that was measured."""
    return [
        ControllerRun(program, configuration)
        for program, entry in measured().items()
        for configuration in entry["configs"]
    ]


def measurements() -> Iterator[Measurement]:
    """Each program in each configuration."""
    for run in runs():
        cycles = run.expected["total_cycles"]
        yield Measurement("controller", run.program, run.configuration, cycles, run.repeat)
