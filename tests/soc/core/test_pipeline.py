"""The pipeline's rules as measured on RTL, one by one, in programs of a few instructions."""

import pytest

from tests.soc.core.pipeline_bench import CV32E40P, RI5CY, Bench

BOTH = (CV32E40P, RI5CY)

COSTS = {
    "add a0, a1, a2": 1,
    "mul a0, a1, a2": 1,
    "lw a0, 0(s0)": 1,
    "lw a0, 2(s0)": 2,
    "lh a0, 1(s0)": 1,
    "lh a0, 3(s0)": 2,
    "sw a0, 1(s0)": 2,
    "flw f1, 0(s0)": 1,
    "mulh a0, a1, a2": 5,
    "bne x0, x0, .+8": 1,
    "beq x0, x0, 1f; nop; 1:": 3,
    "beq x0, x0, 1f; c.nop; 1:": 4,  # to a 32-bit instruction at 2 mod 4
    "j 1f; nop; 1:": 2,
    "j 1f; c.nop; 1:": 3,
    "fence": 4,
    "fence.i": 4,
    "c.nop; fence": 6,  # rule O
}
"""Cycles of code by itself, alike on both cores."""

HAZARDS = {
    "lw a0, 0(s0); add a1, a0, a0": 3,
    "lw a0, 0(s0); nop; add a1, a0, a0": 3,
    "lw a0, 0(s0); sw a0, 0(s1)": 3,
    "lw a0, 0(s0); beq a0, x0, .+4": 5,
    "lw a0, 0(s0); li a0, 3": 3,  # overwritten right after
    "lw a0, 0(s0); lw a0, 4(s0)": 2,
    "lw x0, 0(s0); nop": 3,
    "lw x0, 0(s0); li a0, 1": 2,
    "lw a0, 2(s0); add a1, a0, a0": 4,
    "mulh a0, a1, a2; add a3, a0, a0": 6,
    "flw f1, 0(s0); fmadd.s f2, f3, f4, f1": 3,
    "lw x11, 0(s0); fadd.s f12, f11, f11": 2,
}
"""Cycles of instructions after others whose results they use or overwrite, on both cores."""


@pytest.mark.parametrize("bench", BOTH, ids=lambda bench: bench.core)
@pytest.mark.parametrize(("code", "cost"), [*COSTS.items(), *HAZARDS.items()])
def test_code_takes_the_cycles_that_were_measured(bench: Bench, code: str, cost: int) -> None:
    assert bench.cycles(code) == 1 + cost


@pytest.mark.parametrize(
    ("instruction", "divisor", "cycles"),
    [
        ("divu", 0x80000000, 3),
        ("divu", 1, 34),
        ("remu", 7, 32),
        ("div", 0, 35),
        ("div", 7, 32),
        ("div", -1, 34),
        ("rem", -0x80000000, 3),
    ],
)
def test_a_division_takes_cycles_by_its_divisor(
    instruction: str, divisor: int, cycles: int
) -> None:
    setup = f"li a1, 100; li a2, {divisor}"

    assert CV32E40P.cycles(f"{instruction} a0, a1, a2", setup=setup) == 1 + cycles
    assert RI5CY.cycles(f"{instruction} a0, a1, a2", setup=setup) == 1 + cycles


@pytest.mark.parametrize(
    ("before", "cycles"),
    [
        ("la a1, target; nop; nop; nop", 2),
        ("la a1, target", 3),
        ("la a1, target; nop", 2),
        ("lw a1, 0(s1)", 4),
        ("lw a1, 0(s1); nop", 3),
        ("lw a1, 0(s1); nop; nop", 2),
    ],
)
def test_jalr_waits_for_its_register_longer_than_others(before: str, cycles: int) -> None:
    setup = "la a0, target; sw a0, 0(s1); mv a1, a0"
    code = f"{before}; jr a1; nop; target:"

    for bench in BOTH:
        without = bench.cycles(f"{before}; bne x0, x0, .+8; nop; target:", setup=setup) - 2
        assert bench.cycles(code, setup=setup) == without + cycles


def test_a_jalr_that_overwrites_its_register_takes_one_cycle_more() -> None:  # rule A
    setup = "la t0, target"
    for bench in BOTH:
        assert bench.cycles("jalr ra, 0(t0); nop; target:", setup=setup) == 3
        assert bench.cycles("jalr t0, 0(t0); nop; target:", setup=setup) == 4


def test_ri5cy_hides_that_cycle_behind_the_fetch_of_a_split_target() -> None:  # rule A
    setup = "la t0, target"

    assert CV32E40P.cycles("jalr t0, 0(t0); c.nop; target:", setup=setup) == 5
    assert RI5CY.cycles("jalr t0, 0(t0); c.nop; target:", setup=setup) == 4


def test_that_cycle_is_saved_when_the_target_came_while_jalr_waited() -> None:  # rule A
    setup = "la t0, target"
    for bench in BOTH:
        for link in ("ra", "t0"):
            code = f"mulh a1, a2, a3; jalr {link}, 0(t0); nop; target:"
            assert bench.cycles(code, setup=setup) == 1 + 5 + 1


@pytest.mark.parametrize("busy", ["mulh a1, a2, a3", "lw a1, 2(s0)", "divu a1, a2, x0"])
def test_a_jump_fetches_while_ex_is_busy(busy: str) -> None:  # rule C
    for bench in BOTH:
        alone = bench.cycles(busy)
        assert bench.cycles(f"{busy}; j 1f; nop; 1:") == alone + 1


def test_ri5cy_hides_the_second_fetch_too() -> None:  # rule C
    code = "mulh a1, a2, a3; j 1f; c.nop; 1:"

    assert CV32E40P.cycles(code) == 1 + 5 + 2
    assert RI5CY.cycles(code) == 1 + 5 + 1


def test_mstatus_reads_what_the_core_has() -> None:  # rule I
    after = "csrr a0, mstatus"

    codes = [
        bench.run("nop", after=after).to_json()["harts"][0]["exit_code"]
        for bench in (CV32E40P, Bench(floats="x"), RI5CY)
    ]

    assert codes == [0x80007800, 0x1800, 0x1800]


def test_a_grant_in_the_issue_cycle_of_the_marker_is_not_the_regions() -> None:  # rule J
    counts = [
        CV32E40P.run(code).to_json()["harts"][0]["regions"][0]["l1_accesses"]
        for code in ("lw a0, 0(s0)", "lw a0, 0(s0); nop", "lw a0, 2(s0)", "lw a0, 2(s0); nop")
    ]

    assert counts == [0, 1, 1, 2]


def test_ri5cy_does_not_count_fences() -> None:  # rule K
    counts = [
        bench.run(code).to_json()["harts"][0]["regions"][0]["instructions"]
        for bench in BOTH
        for code in ("nop", "fence", "fence.i")
    ]

    assert counts == [2, 2, 2, 2, 1, 1]


def test_the_generator_writes_its_addresses() -> None:  # rule L
    setup = "li a0, 0x10000800; sw a0, 0x20(s11); li a0, 0x103; sw a0, 0x24(s11); li a0, 2"

    result = CV32E40P.run("sw a0, 0x28(s11)", setup=setup, after="nop; nop; nop; nop")

    words = [int.from_bytes(result.read(0x10000800 + 4 * k, 4), "little") for k in range(8)]
    assert words == [0xD0A00800, 0xD0A00804, 0, 0, 0xD0A00810, 0xD0A00814, 0, 0]


def test_mret_takes_five_cycles_and_one_more_to_a_split_target() -> None:  # rule O
    setup = "la a0, target; csrw mepc, a0"

    assert CV32E40P.cycles("mret; nop; target:", setup=setup) == 6
    assert CV32E40P.cycles("mret; c.nop; target:", setup=setup) == 7


@pytest.mark.parametrize(
    ("code", "cycles"),
    [
        *[
            (f"csrr a0, {csr}", 1)
            for csr in "mhartid mscratch misa mie mip mtval fcsr fflags frm 0xcc0 0xcd0".split()
        ],
        *[
            (f"csrr a0, {csr}", 4)
            for csr in (
                "mstatus mtvec mepc mcause mcycle mcycleh minstret mhpmcounter3 mcountinhibit"
                " mhpmevent3 cycle instret 0xcd1"
            ).split()
        ],
        *[(f"csrw {csr}, x0", 4) for csr in "fcsr frm mepc mcause mcountinhibit".split()],
        *[(f"csrw {csr}, x0", 1) for csr in "fflags mscratch mie mip mtval".split()],
    ],
)
def test_a_csr_access_takes_its_cycles(code: str, cycles: int) -> None:  # rule P
    assert CV32E40P.cycles(code) == 1 + cycles


@pytest.mark.parametrize("csr", ["mcycle", "minstret", "mtvec", "mepc", "mcause", "fcsr"])
def test_ri5cy_flushes_for_mstatus_alone(csr: str) -> None:
    assert RI5CY.cycles(f"csrr a0, {csr}") == 2
    assert RI5CY.cycles("csrr a0, mstatus") == 5


def test_a_flush_near_the_end_of_a_hardware_loop_costs_a_cycle_each_time_back() -> None:  # rule R
    body = ["nop", "nop", "nop", "nop"]
    cycles = []
    for place in range(4):
        code = [*body[:place], "csrr a0, mepc", *body[place + 1 :]]
        cycles.append(CV32E40P.cycles(f"cv.setupi 0, 3, 1f; {'; '.join(code)}; 1:"))

    loop = 1 + 1 + 3 * (4 + 3)
    assert cycles == [loop, loop + 2, loop + 2, loop]


@pytest.mark.parametrize(("divisor", "cycles"), [(0x80000000, 3), (7, 32), (0, 35)])
def test_ri5cy_divides_after_a_branch_taken(divisor: int, cycles: int) -> None:  # rule S
    setup = f"li a2, {divisor}"

    assert RI5CY.cycles("beq x0, x0, 1f; divu a0, a1, a2; 1:", setup=setup) == 1 + 2 + cycles
    assert CV32E40P.cycles("beq x0, x0, 1f; divu a0, a1, a2; 1:", setup=setup) == 1 + 3


def test_ri5cy_divides_twice_before_a_split_target() -> None:  # rule S
    code = "beq x0, x0, 1f; divu a0, a1, a2; c.nop; 1:"

    assert RI5CY.cycles(code, setup="li a2, 0x80000000") == 1 + 2 + 2 * 3


@pytest.mark.parametrize("bench", BOTH, ids=lambda bench: bench.core)
def test_a_program_sees_what_it_has_written_into_its_code_after_fence_i(bench: Bench) -> None:
    patch = "la a1, target; lw a2, 0(a1); li a3, 0x100000; add a2, a2, a3; sw a2, 0(a1); "
    after = "call target; " + patch + "fence.i; call target"

    result = bench.run("nop", after=after, functions="target: addi a0, a0, 1; ret")

    assert result.to_json()["harts"][0]["exit_code"] == 1 + 2


def test_a_hardware_loop_costs_nothing_but_its_set_up() -> None:
    assert CV32E40P.cycles("cv.setupi 0, 5, 1f; nop; nop; nop; 1:") == 1 + 1 + 5 * 3
    ri5cy = Bench("ri5cy", floats="x")
    assert ri5cy.cycles("lp.setupi x0, 5, 1f; nop; nop; 1: nop") == 1 + 1 + 5 * 3


def test_an_event_load_that_is_granted_at_once_takes_four_cycles() -> None:
    assert CV32E40P.cycles("cv.elw a0, 0x10(s11); add a1, a0, a0") == 1 + 4 + 1


# Interrupts (rule T). The handler opens with the closing marker: a region ends at its first issue.

NO_CLUSTER = Bench(fields={"wfi_sleeps": True})
HANDLER = ".balign 256; handler: slti x0, x0, 1; li a0, 0; sw a0, 0(s11); j end"
ENABLE = "la a2, handler; csrw mtvec, a2; li a2, 0x10000; csrw mie, a2; csrsi mstatus, 8; "


def test_a_handler_starts_four_cycles_after_the_interrupt() -> None:
    code = "sw a1, 0x30(s11); " + "nop; " * 40

    cycles = NO_CLUSTER.cycles(code, setup=ENABLE + "li a1, 20", functions=HANDLER)

    assert cycles == 2 + 20 + 4  # the store is granted in the second cycle


def test_a_handler_waits_for_the_instruction_in_ex() -> None:
    code = "sw a1, 0x30(s11); divu a2, a1, x0; nop"

    cycles = NO_CLUSTER.cycles(code, setup=ENABLE + "li a1, 4", functions=HANDLER)

    assert cycles == 2 + 35 + 1


def test_a_hart_in_wfi_goes_on_three_cycles_after_an_interrupt_that_it_does_not_take() -> None:
    setup = ENABLE + "csrci mstatus, 8; li a1, 60"

    assert NO_CLUSTER.cycles("sw a1, 0x30(s11); wfi", setup=setup, functions=HANDLER) == 2 + 60 + 3


def test_a_hart_in_wfi_takes_an_interrupt_as_fast_as_one_that_runs() -> None:
    cycles = NO_CLUSTER.cycles(
        "sw a1, 0x30(s11); wfi; nop; nop", setup=ENABLE + "li a1, 60", functions=HANDLER
    )

    assert cycles == 2 + 60 + 4


def test_wfi_does_not_sleep_if_an_interrupt_is_pending() -> None:
    setup = ENABLE + "csrci mstatus, 8; li a1, 1; sw a1, 0x30(s11); nop; nop; nop; nop"

    assert NO_CLUSTER.cycles("wfi", setup=setup, functions=HANDLER) == 1 + 6


def test_the_interrupt_can_be_cleared() -> None:
    setup = (
        ENABLE
        + "csrci mstatus, 8; li a1, 1; sw a1, 0x30(s11); nop; nop; nop; sw x0, 0x34(s11); nop"
    )

    assert NO_CLUSTER.cycles("csrsi mstatus, 8; nop", setup=setup, functions=HANDLER) == 1 + 4 + 1


def test_in_a_cluster_wfi_is_a_nop() -> None:
    assert CV32E40P.cycles("wfi") == 2
