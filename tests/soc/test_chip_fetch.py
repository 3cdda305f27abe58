"""Harts behind the instruction cache: loops and whole programs as the RTL ran them.

data/icache_programs.tar.xz holds the programs: loops of six iterations whose region 0 is one, and
matrix products on eight cores.
"""

import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from isa.program import Program
from pulpsim.fidelity.icache import measured_loops
from soc.result import RunResult
from soc.run import run_program
from soc.spec import load_chip

DATA = Path(__file__).parent / "data"

PRODUCTS = {
    "mmz_4x4_16x16x16_c8": {10: 2450, 30: 3030},
    "mmz_2x2_16x16x16_c8": {10: 1938, 30: 2336},
    "mmz_2x4_32x32x32_c8": {10: 8734, 30: 9215},
    "mmz_4x4_32x32x32_c8": {10: 7483, 30: 8058},
}
"""Cycles on the RTL with cold caches, by the latency of L2."""

START_UP = 102
"""Cycles in them before the RTL's harts fetch, which its measurement contains."""


@cache
def program(name: str) -> Program:
    with tarfile.open(DATA / "icache_programs.tar.xz") as archive:
        file = archive.extractfile(f"./{name}.elf")
        assert file is not None
        return Program.from_elf(file.read(), name)


def run(name: str, cores: int, latency: int, engine: str = "compiled") -> RunResult:
    fields: dict[str, Any] = {
        "cores": cores,
        "core.float_registers": "x",
        "icache.kind": "hierarchical",
        "icache.enabled": True,
        "l2.bank_latency": latency,
        "l2.cluster_synchronizer_stages": 0,
        "l2.soc_synchronizer_stages": 0,
    }
    chip = load_chip("ri5cy-rtl", fields)
    return run_program(program(name), chip, engine=engine, max_cycles=1_000_000)


@pytest.mark.parametrize(
    "loop",
    measured_loops(),
    ids=lambda loop: f"{loop['name']}-{len(loop['cycles'])}-{loop['latency']}",
)
def test_a_loop_takes_the_cycles_of_the_rtl_on_every_core(loop: dict) -> None:
    report = run(loop["name"], len(loop["cycles"]), loop["latency"]).to_json()

    assert [
        (region["count"], region["cycles"])
        for hart in report["harts"]
        for region in hart["regions"]
    ] == [(len(iterations), sum(iterations)) for iterations in loop["cycles"]]


@pytest.mark.parametrize("latency", [10, 30])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_from_cold_caches_takes_the_cycles_of_the_rtl(name: str, latency: int) -> None:
    result = run(name, 8, latency)

    assert result.exit.reason == "exit"
    assert result.cycles == PRODUCTS[name][latency] - START_UP


def test_the_event_engine_fetches_alike() -> None:
    result = run("mmz_2x2_16x16x16_c8", 8, 10, "event")

    assert result.cycles == PRODUCTS["mmz_2x2_16x16x16_c8"][10] - START_UP
