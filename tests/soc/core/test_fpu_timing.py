"""The FPU's rules as measured on RTL, one by one, in programs of a few instructions."""

import struct

import pytest

from tests.soc.core.pipeline_bench import CV32E40P, RI5CY, Bench, latency

LATENCIES = [latency(registers) for registers in range(3)]
PULP = Bench(fields={"divider": "pulp"})

ADD = "fadd.s f1, f2, f3; "
USE = "fsw f1, 0(s1)"
DIVIDE = "fdiv.s f1, f2, f3; "  # 0/0: three cycles
"""With f2 = f3 = 0."""


def on_each(code: str, **parts: str) -> list[int]:
    """Cycles of code at latency 0, 1 and 2."""
    return [bench.cycles(code, **parts) for bench in LATENCIES]


def loaded(*values: float) -> str:
    """Code that puts numbers into f2, f3."""
    patterns = [struct.unpack("<I", struct.pack("<f", value))[0] for value in values]
    return "; ".join(
        f"li a0, {pattern:#x}; fmv.w.x f{number}, a0"
        for number, pattern in enumerate(patterns, start=2)
    )


def test_a_result_is_there_one_two_or_three_cycles_after_its_issue() -> None:  # rule D
    assert on_each(ADD + USE) == [3, 4, 5]
    assert on_each(ADD + "nop; " + USE) == [4, 4, 5]
    assert on_each("feq.s a0, f2, f3; add a1, a0, a0") == [3, 4, 5]
    assert on_each(ADD + "fadd.s f4, f1, f1") == [3, 4, 5]


def test_two_registers_are_no_pipeline() -> None:  # rule D
    adds = "".join(f"fadd.s f{k}, f10, f11; " for k in range(1, 9))

    assert on_each(adds) == [9, 9, 2 + 7 * 3]


def test_writes_to_the_destination_wait_and_fp_operations_do_not() -> None:
    assert on_each(ADD + "flw f1, 0(s0)") == [3, 4, 5]
    assert on_each("feq.s a0, f2, f3; li a0, 3") == [3, 4, 5]
    assert on_each(ADD + "fadd.s f1, f4, f5")[:2] == [3, 3]


@pytest.mark.parametrize(
    ("unary", "register"),
    [
        ("fcvt.w.s a0, f5", 0),
        ("fcvt.wu.s a0, f5", 1),
        ("fcvt.s.w f5, a0", 0),
        ("fcvt.s.wu f5, a0", 1),
        ("fclass.s a0, f5", 0),
    ],
)
def test_a_unary_operation_also_waits_for_the_register_in_its_other_field(
    unary: str, register: int
) -> None:  # rule B
    assert CV32E40P.cycles(f"fadd.s f{register}, f2, f3; {unary}") == 4
    assert CV32E40P.cycles(f"fadd.s f{7 + register}, f2, f3; {unary}") == 3
    assert CV32E40P.cycles(f"flw f{register}, 0(s0); {unary}") == 3


def test_a_move_does_not_wait_for_the_register_in_its_other_field() -> None:  # rule B
    assert CV32E40P.cycles("fadd.s f0, f2, f3; fmv.x.w a0, f5") == 3
    assert CV32E40P.cycles("fadd.s f0, f2, f3; fmv.w.x f5, a0") == 3


def test_a_jump_fetches_while_an_operation_waits_for_the_fpu() -> None:  # rule C
    assert latency(2).cycles(ADD + "fadd.s f4, f5, f6; j 1f; nop; 1:") == 6


@pytest.mark.parametrize("writer", ["nop", "lui a0, 1", "mul a0, a1, a2", "cv.mac a0, a1, a2"])
@pytest.mark.parametrize("result", [ADD, DIVIDE], ids=["add", "divide"])
def test_an_instruction_that_writes_stays_in_ex_when_a_result_returns(
    result: str, writer: str
) -> None:  # rule E
    benches = LATENCIES if result == DIVIDE else LATENCIES[2:]
    for bench in benches:
        assert bench.cycles(f"{result} nop; {writer}; nop") == 6


@pytest.mark.parametrize(
    "other",
    ["lw a0, 0(s0)", "sw a0, 0(s0)", "bne x0, x0, .+4", "cv.counti 0, 0", "lh a0, 1(s0)"],
)
def test_an_instruction_that_does_not_write_goes_on(other: str) -> None:  # rule E
    assert latency(2).cycles(f"{ADD} nop; {other}; nop") == 5


def test_a_jump_that_stays_reaches_its_target_later() -> None:  # rule E
    assert latency(2).cycles(ADD + "nop; j 1f; nop; 1:") == 6
    assert latency(2).cycles(ADD + "nop; nop; nop; j 1f; nop; 1:") == 8
    assert latency(2).cycles("nop; nop; nop; j 1f; nop; 1:") == 6


def test_a_result_is_held_while_a_misaligned_access_is_in_ex() -> None:  # rule F1
    assert latency(2).cycles(ADD + "nop; lw a1, 2(s0); " + USE) == 7
    assert latency(2).cycles(ADD + "nop; lw a1, 2(s0); fsw f5, 0(s1)") == 6
    assert latency(2).cycles(ADD + "nop; lh a1, 1(s0); " + USE) == 5


def test_a_result_is_held_while_a_pointer_is_being_advanced() -> None:  # rule F2
    assert latency(2).cycles(ADD + "nop; cv.lw a1, (s0), 4; " + USE) == 6
    assert latency(2).cycles(ADD + "nop; cv.sw a1, (s0), 4; " + USE) == 6
    assert latency(2).cycles(ADD + "nop; lw a1, 4(s0); " + USE) == 5


def test_a_result_is_held_from_an_instruction_right_after_an_access() -> None:  # rule F3
    assert latency(2).cycles(ADD + "lw a1, 0(s0); nop; sw a0, 0(s0); sw a0, 0(s0)") == 6
    assert latency(2).cycles(ADD + "nop; nop; sw a0, 0(s0); sw a0, 0(s0)") == 7


def test_a_result_is_held_from_the_second_cycle_of_mulh() -> None:  # rule F4
    assert latency(2).cycles(ADD + "mulh a0, a1, a2; " + USE) == 9
    assert latency(2).cycles(ADD + "nop; mulh a0, a1, a2; " + USE) == 9
    assert latency(2).cycles(ADD + "nop; nop; mulh a0, a1, a2; " + USE) == 11


def test_a_result_is_held_while_jalr_waits_after_a_writer() -> None:  # rule F5
    code = ADD + "nop; nop; jr a1; nop; target: " + USE

    assert latency(2).cycles(code, setup="la a1, target") == 7


def test_a_result_is_not_held_from_the_jalr_that_waits_for_it() -> None:  # rule F5
    code = "fmv.x.w a1, f1; nop; nop; jr a1; nop; target:"

    assert latency(2).cycles(code, setup="la a1, target; fmv.w.x f1, a1; nop; nop") == 7


def test_jalr_waits_for_a_result_also_after_another_operation() -> None:
    setup = "la a1, target; fmv.w.x f1, a1; nop; nop"
    code = "fmv.x.w a1, f1; {}; jr a1; nop; target:"

    assert on_each(code.format("nop"), setup=setup) == [5, 6, 7]
    assert on_each(code.format("fadd.s f4, f5, f6"), setup=setup) == [5, 6, 7]


def test_a_result_does_not_disturb_a_division_but_in_its_last_cycle() -> None:
    setup = "li a2, 0x80000000; " + loaded(3.0, 3.0)  # three cycles, and twelve

    cycles = [
        PULP.cycles(DIVIDE + "nop; " * count + "divu a0, a1, a2", setup=setup)
        for count in (6, 7, 8, 9)
    ]

    assert cycles == [11, 12, 14, 14]


def test_set_up_of_a_hardware_loop_compares_its_immediates() -> None:  # rule G
    assert CV32E40P.cycles("feq.s a0, f1, f2; cv.counti 0, 10") == 4
    assert CV32E40P.cycles("feq.s a0, f1, f2; cv.counti 0, 9") == 3


def test_a_csr_access_waits_until_the_fpu_is_empty() -> None:  # rule H
    assert on_each(ADD + "csrr a0, mscratch") == [3, 5, 6]
    assert on_each(ADD + "csrr a0, fflags") == [3, 5, 6]
    assert on_each(DIVIDE + "csrr a0, mscratch") == [6, 6, 6]


QUOTIENTS = [
    (6.0, 3.0, 6),
    (3.0, 2.0, 7),
    (9.0, 8.0, 8),
    (5.0, 1.0, 7),
    (35.0, 7.0, 8),  # 1.09375 / 1.75: below one, a bit more after the point
    (1.0, 3.0, 19),
    (0.0, 1.0, 3),
    (1.0, 0.0, 3),
    (float("inf"), 2.0, 3),
    (1.0, float("nan"), 3),
    (2.0**127, 2.0**-2, 5),
    (2.0**126, 2.0**-2, 6),
    (2.0**-126, 2.0**25, 5),
    (2.0**-126, 2.0**24, 6),
    (2.0**-126, 2.0**-127, 7),
    (1.0, 2.0**-149, 6),
    (0.0, 2.0**-127, 3),
    (2.0**-127, 3.0, 19),
]
"""Dividend, divisor, cycles to a dependent instruction on the T-Head unit (rule M)."""

ROOTS = [
    (4.0, 6),
    (9.0, 7),
    (6.25, 7),
    (2.0, 19),
    (0.0, 3),
    (-1.0, 3),
    (float("inf"), 3),
    (2.0**-148, 6),
]


@pytest.mark.parametrize(("dividend", "divisor", "cycles"), QUOTIENTS)
def test_a_division_stops_when_the_quotient_is_exact(
    dividend: float, divisor: float, cycles: int
) -> None:  # rule M
    setup = loaded(dividend, divisor) + "; nop; nop"

    assert on_each(DIVIDE + USE, setup=setup) == [2 + cycles] * 3


@pytest.mark.parametrize(("operand", "cycles"), ROOTS)
def test_a_root_stops_when_it_is_exact(operand: float, cycles: int) -> None:  # rule M
    setup = loaded(operand) + "; nop; nop"

    assert on_each("fsqrt.s f1, f2; " + USE, setup=setup) == [2 + cycles] * 3


def test_a_subnormal_divisor_keeps_ex_for_a_cycle() -> None:  # rule M
    assert CV32E40P.cycles(DIVIDE + "sw a0, 0(s1)", setup=loaded(1.0, 2.0**-127)) == 4
    assert CV32E40P.cycles(DIVIDE + "sw a0, 0(s1)", setup=loaded(2.0**-127, 1.0)) == 3
    assert CV32E40P.cycles(DIVIDE + "sw a0, 0(s1)", setup=loaded(0.0, 2.0**-127)) == 3


@pytest.mark.parametrize(("bench", "cycles"), [(PULP, 12), (RI5CY, 13)], ids=["pulp", "ri5cy"])
def test_pulps_unit_takes_the_same_time_for_all_but_special_operands(
    bench: Bench, cycles: int
) -> None:  # rule M
    assert bench.cycles(DIVIDE + USE, setup=loaded(6.0, 3.0)) == 2 + cycles
    assert bench.cycles(DIVIDE + USE, setup=loaded(1.0, 3.0)) == 2 + cycles
    assert bench.cycles(DIVIDE + USE, setup=loaded(0.0, 3.0)) == 2 + cycles - 9
    assert bench.cycles("fsqrt.s f1, f2; " + USE, setup=loaded(2.0)) == 2 + cycles
    assert bench.cycles("fsqrt.s f1, f2; " + USE, setup=loaded(-2.0)) == 2 + cycles - 9


def test_an_operation_after_a_division_waits_for_it() -> None:  # rule D
    setup = loaded(1.0, 3.0)

    assert on_each(DIVIDE + "fadd.s f4, f5, f6", setup=setup) == [2 + 19] * 3
    assert on_each(DIVIDE + "fdiv.s f4, f2, f3; fsw f4, 0(s1)", setup=setup) == [2 + 38] * 3


def test_a_division_waits_for_the_operation_before() -> None:  # rule D
    assert on_each("fadd.s f9, f8, f8; " + DIVIDE + USE) == [6, 7, 8]


def test_a_csr_access_after_a_branch_taken_waits_too() -> None:  # rule Q
    taken = "beq x0, x0, 1f; csrr a0, mscratch; 1:"

    assert on_each(ADD + taken) == [5, 5, 6]
    assert on_each(ADD + taken.replace("csrr a0, mscratch", "nop")) == [5, 5, 5]
    assert latency(2).cycles(ADD + "nop; " + taken) == 6
    assert latency(0).cycles(DIVIDE + taken, setup=loaded(1.0, 3.0)) == 3 + 19


def test_a_jalr_after_a_branch_taken_waits_for_a_register_being_written() -> None:  # rule Q
    taken = "beq x0, x0, 1f; jalr x0, 0(a1); 1:"

    assert latency(2).cycles("feq.s a1, f2, f3; " + taken) == 6
    assert latency(2).cycles("feq.s a2, f2, f3; " + taken) == 5
    assert latency(2).cycles("feq.s a1, f2, f3; nop; " + taken) == 6
