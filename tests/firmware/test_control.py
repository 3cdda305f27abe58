"""Loops, hardware loops, conditions and functions: run without time, and what is refused."""

import itertools

import pytest

from firmware.builder import EQ, GE, GEU, LT, LTU, NE, KernelError
from firmware.registers import RA, SP, ZERO, A, Registers, S
from firmware.runtime import exit_
from tests.firmware.kernels import PROFILES, new_kernel, refusal, returned
from tests.firmware.machine import Machine


@pytest.mark.parametrize(("count", "step", "passes"), [(1, 1, 1), (7, 1, 7), (7, 3, 3), (2, 5, 1)])
@pytest.mark.parametrize("is_register", [False, True])
def test_a_loop_repeats_while_its_count_is_above_zero(count, step, passes, is_register):
    k = new_kernel()
    total, n = k.x(2)
    k.li(total, 0)
    k.li(n, count)
    with k.loop(n if is_register else count, step):
        k.addi(total, total, 1)
    assert returned(k, total) == passes


def test_a_loop_that_is_longer_than_a_branch_reaches_jumps():
    k = new_kernel()
    total = k.x()
    k.li(total, 0)
    with k.loop(3):
        for _ in range(1100):
            k.addi(total, total, 1)
    assert returned(k, total) == 3300


def test_the_counter_of_a_loop_is_free_after_it():
    k = new_kernel()
    with k.loop(4):
        inside = k.x()
    assert set(k.registers.live) == {inside}


def test_loops_of_no_passes_are_refused():
    k = new_kernel()
    for count, step in ((0, 1), (-1, 1), (4, 0)):
        message = f"loop: count {count}, step {step}; both are at least 1"
        assert refusal(k.loop(count, step).__enter__) == message


@pytest.mark.parametrize(("core", "registers"), PROFILES)
@pytest.mark.parametrize("counts", [(1, 1), (1, 5), (3, 1), (3, 5)])
@pytest.mark.parametrize("is_register", [False, True])
@pytest.mark.parametrize("length", [3, 15, 30, 31])
def test_nested_hardware_loops_repeat_their_bodies(core, registers, counts, is_register, length):
    k = new_kernel(core, registers)
    total, n, m = k.x(3)
    for register, value in ((total, 0), (n, counts[0]), (m, counts[1])):
        k.li(register, value)
    with k.hwloop(n if is_register else counts[0]):
        with k.hwloop(m if is_register else counts[1]):
            for _ in range(length):
                k.addi(total, total, 1)
        k.slli(total, total, 1)
        k.addi(total, total, 1)
    expected = 0
    for _ in range(counts[0]):
        expected = (expected + counts[1] * length) * 2 + 1
    assert returned(k, total) == expected


def test_hardware_loops_follow_each_other_inside_one():
    k = new_kernel()
    total = k.x()
    k.li(total, 0)
    with k.hwloop(2):
        for _ in range(2):
            with k.hwloop(3):
                for _ in range(4):
                    k.addi(total, total, 1)
        k.nop()
    assert returned(k, total) == 48


def test_hardware_loops_of_ri5cy_hold_branches_but_do_not_end_in_one():
    k = new_kernel()
    total, zero = k.x(2)
    k.li(total, 0)
    k.li(zero, 0)
    with k.hwloop(5):
        with k.if_(EQ, total, zero):
            k.addi(total, total, 10)
        k.addi(total, total, 1)
        k.nop()
    assert returned(k, total) == 15


def hwloop_refusal(core, emit, count=4):
    k = new_kernel(core)

    def attempt():
        with k.hwloop(count):
            emit(k)

    return refusal(attempt)


def nops(count):
    def emit(k):
        for _ in range(count):
            k.nop()

    return emit


@pytest.mark.parametrize("core", ["ri5cy", "cv32e40p"])
def test_hardware_loops_that_no_core_can_have_are_refused(core):
    assert hwloop_refusal(core, nops(2)) == (
        "hwloop: a body of 2 instructions; it has at least 3, unroll it"
    )
    assert hwloop_refusal(core, nops(0)) == (
        "hwloop: a body of 0 instructions; it has at least 3, unroll it"
    )
    assert hwloop_refusal(core, nops(3), 0) == (
        "hwloop: count 0; a number is from 1 to 4095, a register any"
    )
    assert hwloop_refusal(core, nops(3), 4096) == (
        "hwloop: count 4096; a number is from 1 to 4095, a register any"
    )

    def three(k):
        with k.hwloop(2):
            with k.hwloop(2):
                nops(3)(k)
            nops(2)(k)
        nops(2)(k)

    assert hwloop_refusal(core, three) == (
        "hwloop: three are nested; a core has two, make the outermost a loop"
    )

    def label_last(k):
        nops(3)(k)
        k.here()

    assert hwloop_refusal(core, label_last) == (
        "hwloop: a label stands after the last instruction; the loop ends with it, so add one"
    )


@pytest.mark.parametrize(("core", "least"), [("ri5cy", 1), ("cv32e40p", 2)])
def test_nested_hardware_loops_end_apart(core, least):
    def nested(after):
        def emit(k):
            with k.hwloop(2):
                nops(3)(k)
            nops(after)(k)

        return emit

    assert hwloop_refusal(core, nested(least - 1)) == (
        f"hwloop: {least - 1} instructions between the ends of two nested ones; "
        f"there are at least {least}"
    )
    k = new_kernel(core)
    with k.hwloop(2):
        nested(least)(k)
        nops(1)(k)


def test_a_hardware_loop_of_ri5cy_does_not_end_in_a_jump():
    def ends(k):
        nops(3)(k)
        k.bnez(A[0], k.label())

    assert hwloop_refusal("ri5cy", ends) == ("hwloop: the body ends in bnez; no jump may end it")

    def ends_compressed(k):
        nops(3)(k)
        k.c_j(k.label())

    assert hwloop_refusal("ri5cy", ends_compressed) == (
        "hwloop: the body ends in c.j; no jump may end it"
    )


@pytest.mark.parametrize("is_register", [False, True])
def test_a_hardware_loop_of_ri5cy_may_be_entered_in_its_middle(is_register):
    k = new_kernel("ri5cy")
    total, count = k.x(2)
    k.li(total, 0)
    k.li(count, 3)
    inside = k.label()
    with k.hwloop(count if is_register else 3, lambda: k.j(inside)):
        k.addi(total, total, 1)
        k.nop()
        k.place(inside)
        k.addi(total, total, 10)
        k.nop()
    assert returned(k, total) == 32


def test_a_hardware_loop_of_cv32e40p_is_entered_at_its_start():
    k = new_kernel("cv32e40p")
    with pytest.raises(KernelError) as caught, k.hwloop(3, k.nop):
        pass
    assert str(caught.value) == (
        "hwloop: CV32E40P enters a loop at its start only; leave `before` out"
    )


@pytest.mark.parametrize(
    ("mnemonic", "emit"),
    [
        ("beqz", lambda k: k.beqz(A[0], k.label())),
        ("j", lambda k: k.j(k.label())),
        ("ret", lambda k: k.ret()),
        ("fence", lambda k: k.fence()),
        ("fence.i", lambda k: k.fence_i()),
        ("wfi", lambda k: k.wfi()),
        ("mret", lambda k: k.mret()),
        ("c.nop", lambda k: k.c_nop()),
    ],
)
def test_hardware_loops_of_cv32e40p_hold_no_jumps_fences_or_16_bit_instructions(mnemonic, emit):
    def body(k):
        nops(2)(k)
        emit(k)
        k.nop()

    message = hwloop_refusal("cv32e40p", body)
    assert message.startswith(f"hwloop: {mnemonic} (tests/firmware/test_control.py:")
    assert message.endswith(
        ") in the body; CV32E40P allows no jump, branch, fence, privileged or 16-bit instruction "
        "there"
    )


def test_hardware_loops_of_cv32e40p_may_hold_traps():
    k = new_kernel("cv32e40p")
    with k.hwloop(2):
        k.ecall()
        k.ebreak()
        k.nop()


def test_a_hardware_loop_of_cv32e40p_starts_at_a_multiple_of_4():
    k = new_kernel("cv32e40p")
    k.c_nop()
    with k.hwloop(2):
        nops(3)(k)
    message = refusal(k.build)
    assert message.startswith("tests/firmware/test_control.py:")
    assert message.endswith(
        "cv.setupi at 0x1c010082, which is no multiple of 4; let 16-bit instructions come in pairs"
    )
    k = new_kernel("ri5cy")
    k.c_nop()
    with k.hwloop(2):
        nops(3)(k)
    k.build()


@pytest.mark.parametrize("values", list(itertools.product((0, 1, -1, 0x7FFFFFFF), repeat=2)))
@pytest.mark.parametrize("filler", [0, 1100])
def test_conditions_choose_one_of_two_bodies(values, filler):
    a, b = values
    unsigned = [value & 0xFFFFFFFF for value in values]
    expected = [
        a == b,
        a != b,
        a < b,
        a >= b,
        unsigned[0] < unsigned[1],
        unsigned[0] >= unsigned[1],
    ]
    k = new_kernel()
    x, y, bits = k.x(3)
    k.li(x, a)
    k.li(y, b)
    k.li(bits, 1)
    for condition in (EQ, NE, LT, GE, LTU, GEU):
        k.slli(bits, bits, 1)
        with k.if_(condition, x, y):
            k.ori(bits, bits, 1)
            if condition is EQ:
                nops(filler)(k)
        with k.else_():
            k.ori(bits, bits, 0)
            if condition is NE:
                nops(filler)(k)
    assert returned(k, bits) == int("1" + "".join(str(int(e)) for e in expected), 2)


def test_a_condition_without_else_skips_its_body():
    k = new_kernel()
    x, total = k.x(2)
    k.li(x, 1)
    k.li(total, 5)
    with k.if_(EQ, x, ZERO):
        k.li(total, 6)
    assert returned(k, total) == 5


def test_an_else_needs_its_if_right_before_it():
    k = new_kernel()
    assert refusal(k.else_().__enter__) == "else_: no if_ ends right before it"
    with k.if_(EQ, A[0], A[1]):
        k.nop()
    k.nop()
    assert refusal(k.else_().__enter__) == "else_: no if_ ends right before it"


def test_functions_return_results_and_restore_the_saved_registers_that_they_take():
    k = new_kernel("ri5cy", "f")
    k.li(SP, 0x1000F000)
    kept = k.saved(12)
    for register in kept:
        k.li(register, register.number)
    with k.function("square", arguments=1) as square:
        k.mul(A[0], A[0], A[0])
    with k.function("sum_of_squares", arguments=2) as sum_of_squares:
        total, second = k.saved(2)
        with k.scope():
            wide = k.f(25)
            k.fzero(wide[-1])
        k.mv(second, A[1])
        k.free(*A[:2])
        k.call(square, A[0])
        k.mv(total, A[0])
        k.call(square, second)
        k.add(A[0], A[0], total)
    k.call(sum_of_squares, 3, 4)
    wrong = k.x()
    k.li(wrong, 0)
    for register in kept:
        k.addi(register, register, -register.number)
        k.or_(wrong, wrong, register)
    with k.if_(NE, wrong, ZERO):
        k.li(A[0], 0)
    exit_(k, A[0])
    machine = Machine(k.build(), k.isa).run()
    assert machine.code == 25
    hart = machine.harts[0]
    assert hart.x[SP.number] == 0x1000F000
    assert all(hart.f[register.number] != 0 for register in wide if register.is_saved)


def test_functions_call_themselves_and_return_early():
    k = new_kernel()
    k.li(SP, 0x1000F000)
    with k.function("factorial", arguments=1) as factorial:
        n, t = k.saved(2)
        k.mv(n, A[0])
        k.li(A[0], 1)
        k.li(t, 2)
        with k.if_(LT, n, t):
            k.return_()
        k.addi(A[0], n, -1)
        k.call(factorial, A[0])
        k.mul(A[0], A[0], n)
    k.call(factorial, 6)
    result = k.x()
    k.mv(result, A[0])
    assert returned(k, result) == 720


def test_a_function_lies_after_the_code_around_it_with_its_size_in_the_symbols():
    k = new_kernel()
    with k.function("nothing") as nothing:
        k.nop()
    k.here("main")
    k.call(nothing)
    symbols = {symbol.name: symbol for symbol in k.build().symbols}
    assert symbols["main"].address == k.code_at.base
    assert symbols["nothing"].address == k.code_at.base + 4
    assert (symbols["nothing"].size, symbols["nothing"].kind) == (8, "function")


def test_calls_that_would_lose_something_are_refused():
    k = new_kernel()
    with k.function("f", arguments=2) as f:
        k.nop()
    survives = k.saved()
    with k.scope():
        live = k.x()
        assert refusal(k.call, f, survives) == (
            "call of f: t0 would be lost; take what survives calls from saved(), free the rest"
        )
        k.call(f, live)
    with k.scope():
        k.registers.hold(RA)
        assert refusal(k.call, f).startswith("call of f: ra would be lost;")
    assert refusal(k.call, f, *range(9)) == "call of f: 9 arguments; registers carry 8"
    assert refusal(k.call, f, S[0], A[0]) == "call of f: a0 is overwritten too early"
    with k.hwloop(2):
        assert refusal(k.call, f) == "call of f: its loops would end the hardware loop"
        nops(3)(k)
    assert refusal(k.return_) == "return_: not in a function"


def test_saved_registers_are_those_of_the_calling_convention():
    names = "ra gp tp s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11"
    assert {r.name for r in Registers().free("x") if r.is_saved} == set(names.split())
    floats = {r.name for r in Registers().free("f") if r.is_saved}
    assert floats == {f"fs{n}" for n in range(12)}
