"""Small floats on a chip: what is illegal, what RI5CY's RTL does otherwise, and who is told."""

import re

import pytest

from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from soc.result import RunResult
from soc.run import ENGINES
from tests.soc.chip_bench import run
from tests.soc.core.pipeline_bench import RI5CY, Bench

IN_X = Bench("ri5cy", "x")
BY_THE_ISA = Bench("ri5cy", "x", {"rtl_defects": False})
STOCK = Bench("ri5cy", "x", {"apu_wop": 6})

ONES = "li a1, 0x3c003c00; li a2, 0x40004000; "  # 1 and 2 in FP16


def register(result: RunResult, number: int) -> int:
    """An x register of core 0 at the end, unsigned."""
    assert result.exit.reason == "exit", result.exit.message
    return int(result.chip.harts[0]["regs"][number]) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("bench", "code", "expected"),
    [
        (IN_X, "vfadd.h a3, a1, a2", 0x42004200),
        (STOCK, "vfadd.h a3, a1, a2", 0xFFFF4200),
        (IN_X, "fadd.h a3, a1, a2", 0xFFFF4200),
        (BY_THE_ISA, "fadd.h a3, a1, a2", 0xFFFF4200),
        (IN_X, "fmin.ah a3, a1, a2", 0xFFFF8081),
        (BY_THE_ISA, "fmin.ah a3, a1, a2", 0xFFFF3C00),
        (IN_X, "sh a1, 0(s0); li a3, 0; flh a3, 0(s0)", 0xFFFF3C00),
    ],
)
def test_a_result_is_the_isas_or_the_rtls(
    bench: Bench, code: str, expected: int, request: pytest.FixtureRequest
) -> None:
    if bench is STOCK and not request.config.getoption("--full"):
        pytest.skip("compiles an interpreter for one instruction; --full does")
    assert register(bench.run(ONES + code), 13) == expected


def test_the_rtl_loses_flags_and_causes_and_keeps_mtvec() -> None:
    code = "li a1, 0x3f800001; li t0, 0; fmul.s a2, a1, a1; nop; csrr a3, fflags; "
    assert register(BY_THE_ISA.run(code), 13) == 1
    assert register(IN_X.run(code), 13) == 0
    assert register(IN_X.run("csrwi fflags, 5; csrr a3, fflags"), 13) == 5
    code = "csrr a3, mtvec; li a1, 0x1c002000; csrw mtvec, a1; csrr a4, mtvec; xor a3, a3, a4"
    assert register(IN_X.run(code), 13) == 0
    assert register(BY_THE_ISA.run(code), 13) != 0


ROUND = "li a1, 0x3f800001; csrwi frm, 3; {wait}fmul.s a3, a1, a1; csrwi frm, 0"  # up


@pytest.mark.parametrize("wait", ["", "nop; "])
def test_the_rtl_rounds_by_the_old_mode_in_the_cycle_after_its_write(wait: str) -> None:
    up, nearest = 0x3F800003, 0x3F800002
    assert register(BY_THE_ISA.run(ROUND.format(wait=wait)), 13) == up
    assert register(IN_X.run(ROUND.format(wait=wait)), 13) == (up if wait else nearest)


def test_the_mode_that_is_read_is_the_one_written() -> None:
    assert register(IN_X.run("csrwi frm, 2; csrr a3, frm; csrr a4, fcsr; csrwi frm, 0"), 13) == 2
    assert register(IN_X.run("csrwi frm, 2; csrr a4, frm; csrr a3, fcsr; csrwi frm, 0"), 13) == 64


@pytest.mark.parametrize("code", ["fdiv.s a1, a2, a3", "vfsqrt.h a1, a2", "vfdiv.ah a1, a2, a3"])
def test_without_a_divider_division_is_illegal(code: str) -> None:
    result = run(code, cores=1, fields={"core.divider": "none"})
    assert result.exit.reason == "trap"
    assert "illegal instruction on this chip" in result.exit.message


@pytest.mark.parametrize("name", ["vfdotpex.s.h", "vfavg.ah", "fmulex.s.ah"])
def test_what_no_ri5cy_decodes_is_illegal_unless_a_field_has_it(name: str) -> None:
    having = {"core.dot_products": True}
    code = f"{name} a0, a1, a2"
    assert run(code, cores=1, fields=having).exit.reason == "exit"
    assert run(code, cores=1).exit.reason == "trap"


@pytest.mark.parametrize("engine", ENGINES)
def test_what_the_rtl_computes_wrong_is_told_once_a_place(engine: str) -> None:
    code = "li a5, 3; 1: fmin.ah a1, a2, a3; addi a5, a5, -1; bnez a5, 1b; vfcvt.x.h a1, a2"
    first, second = run(code, engine=engine, cores=1).warnings
    assert re.fullmatch(
        r"pc 0x1c01\w{4} in core\+0x\w+ at source:\d+ \(fmin.ah a1, a2, a3\): RI5CY's RTL takes "
        r"its funct3 for a rounding mode, and the result is undefined; core.rtl_defects = true "
        r"does as it does",
        first,
    )
    assert "(vfcvt.x.h a1, a2): RI5CY's RTL converts one integer of 32 bits" in second
    assert not RI5CY.run("nop").warnings


def test_the_rtl_itself_warns_of_nothing() -> None:
    assert not IN_X.run("fmin.ah a1, a2, a3; vfcvt.x.h a1, a2").warnings


def test_cv32e40p_has_no_such_defects() -> None:
    with pytest.raises(ConfigError, match=r"those are RI5CY's; set core.isa = 'ri5cy', or "):
        load_chip("pulp-cv32e40p", {"core.rtl_defects": True})


@pytest.mark.parametrize("name", ["pulp", "ri5cy-rtl"])
def test_small_floats_are_there_without_being_asked_for(name: str) -> None:
    assert load_chip(name).core.small_floats
    assert not load_chip("pulp-cv32e40p").core.small_floats
