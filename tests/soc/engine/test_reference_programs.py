"""Programs made for GVSoC's pulp-open, unmodified, to their exit: what they print and compute.

Cycles are those of the RTL, by the rules measured on it; GVSoC's own differ.
"""

import re
import tarfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from isa.program import Program
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import run_program

ELFS = Path(__file__).parents[2] / "oracles" / "elfs.tar.xz"
CORES = (1, 2, 4, 8)
OPERATIONS = {
    64: """
        add_dep add_ind mul_dep mul_ind mulh_dep mulh_ind div_small div_one div_big div_neg div_zero
        divu_small rem_small remu_small br_nt br_t jal callret loop hwl1 hwl4 fadd_dep fadd_ind
        fmul_dep fmul_ind fma_dep fma_ind fdiv_dep fdiv_ind fsqrt_dep fcvt_sw fcvt_ws fsgnj fmin fle
        lw_ind lw_ptr sw lw_mis sw_mis lw_post mac_dep lw_diff lw_same sw_diff sw_same
    """,
    32: """
        jalr lw_use lw_store lb_use tas lw_l2 lw_l2u lw_l2d sw_l2 eu_rd per_rd apb_rd apb_wr jrtrio
        div9876 divmsb divu0 rem0
    """,
    21: "lw_1_use l2trio",
    8: "bar8",
    3: "fdiv_sp",
    1: "bar mutex",
    0: "empty",
}
"""Kernels of ubench by the number of operations in each."""

COUNTS = {f"k_{name}": count for count, names in OPERATIONS.items() for name in names.split()}
NOT_BY_CONTROLLER = {"k_bar", "k_bar8", "k_mutex", "k_eu_rd"}

# Cycles between a kernel's two reads of mcycle: 1 for the first read, and its operations.
CORE_CYCLES = {
    "k_empty": 1,
    **dict.fromkeys(("k_add_dep", "k_add_ind", "k_mul_dep", "k_mul_ind", "k_mac_dep"), 1 + 64),
    **dict.fromkeys(("k_mulh_dep", "k_mulh_ind"), 1 + 64 * 5),
    # A division: 3 and the leading zeros of the divisor, of a negative one its leading ones less 1
    **dict.fromkeys(("k_div_small", "k_divu_small", "k_rem_small", "k_remu_small"), 1 + 64 * 33),
    **{"k_div_one": 1 + 64 * 34, "k_div_big": 1 + 64 * 4, "k_div_neg": 1 + 64 * 32},
    **{"k_div_zero": 1 + 64 * 35, "k_div9876": 1 + 32 * 19, "k_divmsb": 1 + 32 * 4},
    **{"k_divu0": 1 + 32 * 35, "k_rem0": 1 + 32 * 35},
    # Branches 1, taken 3; jumps 2; jalr one more if its register comes from right before
    **{"k_br_nt": 1 + 64, "k_br_t": 1 + 64 * 3, "k_jal": 1 + 64 * 2, "k_callret": 1 + 64 * 4},
    **{"k_jalr": 1 + 32 * (1 + 3), "k_jrtrio": 1 + 32 * (2 + 3)},
    **{"k_loop": 1 + 63 * (1 + 3) + 2, "k_hwl1": 1 + 1 + 64, "k_hwl4": 1 + 1 + 64 * 4},
    # FPU operations 1, 2 to a dependent one; a CSR access right after waits for 2
    **dict.fromkeys(("k_fadd_dep", "k_fmul_dep", "k_fma_dep"), 1 + 63 * 2 + 1 + 2),
    **dict.fromkeys(("k_fadd_ind", "k_fmul_ind", "k_fma_ind"), 1 + 64 + 2),
    **dict.fromkeys(("k_fcvt_sw", "k_fcvt_ws", "k_fsgnj", "k_fmin", "k_fle"), 1 + 64 + 2),
}
"""Kernels that stay in the core."""

UNIT_CYCLES = {
    "k_eu_rd": 1 + 32,
    "k_bar": 1 + 6,
    "k_bar8": 1 + 8 * 6,
}
"""Kernels at the event unit: a register 1, a barrier that all reach together 6."""

L1_CYCLES = {
    **dict.fromkeys(("k_lw_ind", "k_sw", "k_lw_post"), 1 + 64),
    **dict.fromkeys(("k_lw_use", "k_lb_use", "k_lw_store"), 1 + 32 * 3),
    **{"k_lw_1_use": 1 + 21 * 3, "k_lw_ptr": 1 + 63 * 2 + 1, "k_mutex": 1 + 5 + 1},
    **dict.fromkeys(("k_lw_mis", "k_sw_mis"), 1 + 64 * 2),
    **dict.fromkeys(("k_lw_same", "k_sw_same", "k_lw_diff", "k_sw_diff"), 1 + 64),
}
"""Kernels at L1 or a mutex that one core has to itself: load-use 1 more, two words 2."""


@cache
def run(name: str, fetch: str = "hierarchical") -> RunResult:
    with tarfile.open(ELFS) as archive:
        file = archive.extractfile(f"pulp_open/{name}.elf")
        assert file is not None
        chip = load_chip("pulp", {"icache.kind": fetch})
        return run_program(Program.from_elf(file.read(), name), chip, max_cycles=100_000_000)


@cache
def lines(unit: str) -> list[list[str]]:
    """What ubench prints about the cores ("UB") or the fabric controller ("FC"), in words.

    The rules are about a core that never waits for its instructions.
    """
    console = run("ubench", "ideal").console
    return [words for line in console.splitlines() if (words := line.split())[0] == unit]


def cycles(kernel: str, cores: int) -> tuple[int, int]:
    """Of the fastest and the slowest core."""
    (line,) = (line for line in lines("UB") if line[1:3] == [kernel, str(cores)])
    return int(line[4]), int(line[5])


@pytest.mark.parametrize(
    "name", ["hello", "ubench", *(f"speed2_mm_{k}" for k in ("hwl", "2x2", "naive"))]
)
@pytest.mark.sampled(2)
def test_a_program_runs_to_its_exit(name: str) -> None:
    result = run(name)

    assert result.exit.reason == "exit", result.exit.message
    assert result.exit.code == 0
    assert not result.warnings


@pytest.mark.parametrize(
    "name", ["hello", "ubench", *(f"speed2_mm_{k}" for k in ("hwl", "2x2", "naive"))]
)
def test_every_cycle_of_a_hart_is_accounted_for(name: str) -> None:
    report = run(name).to_json()

    assert [hart["cycles"] for hart in report["harts"]] == [report["cycles"]] * 9


def test_hello_prints_what_each_core_wrote() -> None:
    assert run("hello").console == (
        "hello from FC\n" + "".join(f"{0x100 + core:08x} " for core in range(8)) + "\n"
    )


def test_ubench_prints_a_line_for_each_kernel_and_number_of_cores() -> None:
    for cores in CORES:
        found = {line[1]: int(line[3]) for line in lines("UB") if line[2] == str(cores)}
        assert found == COUNTS
    assert len(lines("UB")) == len(COUNTS) * len(CORES)
    assert {line[1]: int(line[2]) for line in lines("FC")} == {
        name: count for name, count in COUNTS.items() if name not in NOT_BY_CONTROLLER
    }
    console = run("ubench", "ideal").console
    assert len(lines("UB")) + len(lines("FC")) == len(console.splitlines())


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("kernel", [*CORE_CYCLES, *UNIT_CYCLES])
def test_a_kernel_without_memory_takes_the_cycles_of_the_rules(kernel: str, cores: int) -> None:
    expected = (CORE_CYCLES | UNIT_CYCLES)[kernel]

    assert cycles(kernel, cores) == (expected, expected)


@pytest.mark.parametrize("kernel", CORE_CYCLES)
def test_the_fabric_controller_takes_the_cycles_of_the_rules(kernel: str) -> None:
    (line,) = (line for line in lines("FC") if line[1] == kernel)

    assert int(line[3]) == CORE_CYCLES[kernel]


@pytest.mark.parametrize("kernel", L1_CYCLES)
def test_a_core_alone_at_the_l1_takes_the_cycles_of_the_rules(kernel: str) -> None:
    assert cycles(kernel, 1) == (L1_CYCLES[kernel],) * 2


@pytest.mark.parametrize("cores", CORES)
@pytest.mark.parametrize("kernel", ["k_lw_diff", "k_sw_diff"])
def test_cores_at_banks_of_their_own_do_not_wait(kernel: str, cores: int) -> None:
    assert cycles(kernel, cores) == (65, 65)


@pytest.mark.parametrize("kernel", ["k_lw_same", "k_sw_same", "k_lw_ind", "k_sw"])
def test_eight_cores_at_one_bank_take_eight_cycles_an_access(kernel: str) -> None:
    """513 for who is served last, 506 for who is served first; the best of six for each core."""
    fastest, slowest = cycles(kernel, 8)

    assert 506 <= fastest <= slowest <= 1 + 64 * 8


@pytest.mark.parametrize("kernel", ["mm_hwl", "mm_2x2", "mm_naive"])
def test_a_matmul_leaves_the_product_in_l1(kernel: str) -> None:
    result = run(f"speed2_{kernel}")
    a, b, c = (matrix(result, name) for name in "ABC")

    assert (a == np.resize(np.arange(32 * 32) % 7 - 3, (32, 32))).all()
    assert (b == np.resize(np.arange(32 * 32) % 5 - 2, (32, 32))).all()
    assert (c == a @ b).all()  # small integers: exact in any order
    assert c.any()


def matrix(result: RunResult, name: str) -> np.ndarray:
    symbol = result.program.symbol(name)
    return np.frombuffer(result.read(symbol.address, symbol.size), np.float32).reshape(32, 32)


@pytest.mark.parametrize("kernel", ["mm_hwl", "mm_2x2", "mm_naive"])
def test_a_matmul_prints_its_cycles(kernel: str) -> None:
    result = run(f"speed2_{kernel}")

    line = re.fullmatch(r"SPEED2 rep=(\d+) instr_per_rep=(\d+) cycles=(\d+)\n", result.console)
    assert line
    repetitions, instructions, total = map(int, line.groups())
    assert 0 < total < result.cycles
    assert total * 8 > repetitions * instructions  # a core issues one a cycle at most
