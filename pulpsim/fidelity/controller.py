"""The fabric controller on the RTL of pulp_soc: its fetch and data at L2's ports, registers, ROM.

Programs in each of L2's memories (two private banks, the interleaved ones), with data in each, in
three configurations: RI5CY in pulp_soc 3.0.1 and 5.0.1, PULP's fork of CV32E40P in 5.0.1. Of 24
random programs (`rnd_*`) 18 depend on words of the boot ROM, which is not part of this repository.
Without a file of it, the 15 whose cycles do so are left out, and of the three that only store such
words the content of L2 is not compared.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isa.program import Program
from pulpsim.fidelity.archive import elfs_in, measured_in
from pulpsim.fidelity.comparison import Comparison, Deviation, Measurement, compared
from soc.chip.boot_rom import boot_rom
from soc.chip.peripherals_spec import BootRomSpec
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
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

ROM_START = 1024
ROM_SHA256 = "49b644f2466a495cdb0ccf27c78daf239d28bfcea8128a4666e4c340419cf0e1"
"""Of the first ROM_START bytes of the ROM, with which was measured: PULPissimo 8.0.0's. No program
loads others."""


@dataclass(frozen=True)
class ControllerRun:
    """A program in a configuration, a key of CHIPS; with the ROM of a file if one is given."""

    program: str
    configuration: str
    boot_rom: str = ""

    def __str__(self) -> str:
        return f"{self.program}-{self.configuration}"

    @property
    def expected(self) -> dict[str, Any]:
        """What was measured: total_cycles, first_issue, exit, regions, l2_sha256."""
        entry = measured()[self.program]
        numbers: dict[str, Any] = dict(entry["configs"][self.configuration])
        if "boot_rom" in entry and not self.boot_rom:
            del numbers["l2_sha256"]
        return numbers

    def simulate(self, engine: str = "compiled", **how: Any) -> RunResult:
        """Run it on the chip that stands for the RTL's test bench; `how` goes to run_program."""
        fields = {"core.float_registers": "x", "boot_rom.load": self.boot_rom}
        chip = load_chip(CHIPS[self.configuration], fields)
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
    """What was measured: program -> code, configs, what depends on the boot ROM if anything does.

    That is "cycles", or "memory" if no cycle does.
    """
    return measured_in(DATA)


def elfs() -> dict[str, bytes]:
    """The ELF files by name, "line_pri0.elf"."""
    return elfs_in(DATA)


def runs(rom: str = "") -> list[ControllerRun]:
    """All that was measured and can be repeated, with the boot ROM of this file or without."""
    return [
        ControllerRun(program, configuration, rom)
        for program, entry in measured().items()
        if rom or entry.get("boot_rom") != "cycles"
        for configuration in entry["configs"]
    ]


def check_rom(file: str) -> None:
    """Raises ConfigError if a file is not the boot ROM with which was measured."""
    start = boot_rom(BootRomSpec(load=file), True).tobytes()[:ROM_START]
    found = hashlib.sha256(start).hexdigest()
    if found != ROM_SHA256:
        raise ConfigError(
            [
                f"--boot-rom {file}: not PULPissimo 8.0.0's, with which was measured: the SHA-256 "
                f"of its first {ROM_START} bytes is {found}, not {ROM_SHA256}"
            ]
        )


def measurements(rom: str = "") -> Iterator[Measurement]:
    """Each program in each configuration."""
    for run in runs(rom):
        cycles = run.expected["total_cycles"]
        yield Measurement("controller", run.program, run.configuration, cycles, run.repeat)
