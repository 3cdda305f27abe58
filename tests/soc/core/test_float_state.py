"""mstatus.FS of CV32E40P with F registers, and CSRs that read as its RTL has them."""

import pytest

from isa.words import u32
from soc.chip.spec import load_chip
from soc.run import ENGINES, run_program
from tests.soc.core.pipeline_bench import Bench
from trainlib.launch import program as kernel_program

CV32E40P = Bench()
OFF, INITIAL, CLEAN, DIRTY = range(0, 0x8000, 0x2000)
"""Values of FS in mstatus."""

WRITERS = (
    *("fadd.s f1, f2, f3", "fmadd.s f1, f2, f3, f4", "fdiv.s f1, f2, f3", "fsqrt.s f1, f2"),
    *("fmv.w.x f1, a1", "flw f1, 0(s0)", "c.flw f8, 0(s0)", "c.flwsp f1, 0(sp)"),
    *("feq.s a1, f1, f2", "fcvt.w.s a1, f1", "fclass.s a1, f1"),
    *("csrw fflags, a1", "csrw frm, x0", "csrrwi a1, fcsr, 0", "csrsi fflags, 1"),
)
READERS = ("fsw f1, 0(s0)", "c.fsw f8, 0(s0)", "csrr a1, fcsr", "csrr a1, frm", "csrr a1, fflags")

HANDLER = """
    .balign 256
    handler: csrr a0, mcause
    sw a0, 0(s11)
    j end
"""


def exit_code(bench: Bench, code: str, state: int, after: str = "csrr a0, mstatus") -> int:
    """What a0 is after the code, which begins with this FS; an exception's cause if one comes."""
    setup = f"la a2, handler; csrw mtvec, a2; mv sp, s0; li a2, {state:#x}; csrw mstatus, a2"
    result = bench.run(code, setup=setup, after=after, functions=HANDLER)
    return u32(result.to_json()["harts"][0]["exit_code"])


@pytest.mark.parametrize("code", [*WRITERS, *READERS])
def test_floats_are_illegal_while_fs_is_off(code: str) -> None:
    assert exit_code(CV32E40P, code, OFF) == 2


@pytest.mark.parametrize("code", [*WRITERS, *READERS])
def test_what_writes_float_state_makes_fs_dirty(code: str) -> None:
    for state in (INITIAL, CLEAN):
        after = 0x80000000 | DIRTY if code in WRITERS else state
        assert exit_code(CV32E40P, code, state) == 0x1800 | after
    assert exit_code(CV32E40P, code, DIRTY) == 0x1800 | 0x80000000 | DIRTY


def test_integer_instructions_leave_fs_as_it_is() -> None:
    code = "add a1, a2, a3; lw a1, 0(s0); sw a1, 0(s0); mul a1, a2, a3; csrw mscratch, a1"

    assert exit_code(CV32E40P, code, OFF) == 0x1800
    assert exit_code(CV32E40P, code, INITIAL) == 0x1800 | INITIAL


@pytest.mark.parametrize("bench", [Bench(floats="x"), Bench("ri5cy"), Bench("ri5cy", floats="x")])
def test_cores_without_fs_have_floats_at_once(bench: Bench) -> None:
    code = "fadd.s {0}1, {0}2, {0}3; csrr a1, fcsr".format("f" if bench.floats == "f" else "x1")

    assert exit_code(bench, code, OFF) == 0x1800


def test_a_mode_that_is_none_is_illegal_for_what_asks_for_it_alone() -> None:
    assert exit_code(CV32E40P, "csrwi frm, 5; fadd.s f1, f2, f3, rne", DIRTY, "li a0, 7") == 7
    assert exit_code(CV32E40P, "csrwi frm, 5; fadd.s f1, f2, f3, dyn", DIRTY, "li a0, 7") == 2


@pytest.mark.parametrize(
    ("access", "value"),
    [
        ("li a1, -1; csrw mie, a1; csrr a0, mie", 0xFFFF0888),
        ("csrr a0, tdata1", 0x28001040),
        ("csrr a0, tinfo", 4),
        ("csrr a0, tselect", 0),
    ],
)
def test_csrs_of_cv32e40p_read_as_in_its_rtl(access: str, value: int) -> None:
    assert exit_code(CV32E40P, "nop", OFF, access) == value


@pytest.mark.parametrize("engine", ENGINES)
def test_our_start_up_switches_floats_on(engine: str) -> None:
    """5 cycles of each core: li in one or two instructions, and a CSR access of four cycles."""
    chip = load_chip("pulp-cv32e40p", {"core.float_registers": "f"})
    launch = kernel_program("matmul_f32", {"n": 4, "m": 4, "k": 4}, chip)
    result = run_program(launch.program, chip, engine=engine, max_cycles=20_000)

    assert (result.exit.reason, result.exit.code) == ("exit", 0)
