"""Programs measured on RTL: every cycle, instruction and L1 access of every region, every core.

The RTL: CV32E40P 1.8.3 and the RI5CY that pulp_cluster instantiates, PULP's TCDM interconnect, 16
single-cycle banks and event unit, in Verilator. data/rtl.tar.xz holds what was measured and the
programs of RI5CY, the archive of the oracles those of CV32E40P.
"""

import hashlib
import json
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from soc.result import RunResult
from soc.run import run_program
from soc.spec import load_chip

HERE = Path(__file__).parent
ARCHIVES = {
    "cv32e40p": (HERE.parent / "oracles" / "elfs.tar.xz", "rtl/elf"),
    "ri5cy": (HERE / "data" / "rtl.tar.xz", "ri5cy"),
}
"""Where the programs of each core are, and in which folder of the archive."""

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
}
"""Fields of the core in each configuration that was measured."""


@dataclass(frozen=True)
class Run:
    """A program on a core in a configuration."""

    core: str
    program: str
    configuration: str

    def __str__(self) -> str:
        return f"{self.program}-{self.configuration}"


@cache
def measured() -> dict[str, Any]:
    """What was measured: core -> program -> cores, configurations."""
    with tarfile.open(HERE / "data" / "rtl.tar.xz") as archive:
        file = archive.extractfile("measured.json")
        assert file is not None
        return json.load(file)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs, in a folder for each core."""
    folder = tmp_path_factory.mktemp("rtl")
    for archive, _ in ARCHIVES.values():
        with tarfile.open(archive) as files:
            files.extractall(folder, filter="data")
    return folder


def runs() -> list[Run]:
    """All that was measured."""
    return [
        Run(core, program, configuration)
        for core, programs in measured().items()
        for program, entry in programs.items()
        for configuration in entry["configs"]
    ]


def found(result: RunResult, regions: dict[str, Any]) -> dict[str, Any]:
    """A result in the form of what was measured; values are lists by core."""
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
            number: {"name": region["name"], **found_region(harts, int(number))}
            for number, region in regions.items()
        },
        "tcdm_sha256": hashlib.sha256(result.read(0x10000000, 0x10000)).hexdigest(),
        "total_cycles": result.cycles,
    }


def found_region(harts: list[dict[str, Any]], number: int) -> dict[str, list[int]]:
    nothing: dict[str, Any] = {
        "cycles": 0,
        "instructions": 0,
        "first_start": 0,
        "l1_accesses": 0,
        "stalls": {},
    }
    regions = [
        next((region for region in hart["regions"] if region["id"] == number), nothing)
        for hart in harts
    ]
    return {
        "cycles": [region["cycles"] for region in regions],
        "instret": [region["instructions"] for region in regions],
        "start": [region["first_start"] for region in regions],
        "tcdm_acc": [region["l1_accesses"] for region in regions],
        "tcdm_stall": [region["stalls"].get("l1_contention", 0) for region in regions],
    }


@pytest.mark.parametrize("run", runs(), ids=str)
def test_a_program_takes_the_cycles_of_the_rtl(run: Run, programs: Path) -> None:
    entry = measured()[run.core][run.program]
    fields = {f"core.{name}": value for name, value in CONFIGURATIONS[run.configuration].items()}
    chip = load_chip(f"{run.core}-rtl", {"cores": entry["cores"], **fields})

    result = run_program(programs / ARCHIVES[run.core][1] / f"{run.program}.elf", chip)

    expected = entry["configs"][run.configuration]
    assert result.exit.reason == "exit", result.exit.message
    assert found(result, expected["regions"]) == expected


def test_every_measured_program_is_there() -> None:
    assert {core: len(programs) for core, programs in measured().items()} == {
        "cv32e40p": 119,
        "ri5cy": 46,
    }
    assert len(runs()) == 266
