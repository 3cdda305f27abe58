"""Every instruction as a method, and operands that are refused."""

import random

import pytest

from firmware.builder import KernelError
from firmware.registers import RA, SP, ZERO, A, F, Register, X
from isa.assembler.asm import assemble
from isa.assembler.disasm import disassemble
from isa.assembler.names import CSRS, ROUNDING_MODES
from isa.assembler.syntax import Operand, syntax_of
from tests.firmware.kernels import PROFILES, new_kernel, refusal, words
from tests.isa.extensions.meanings import field_value


@pytest.mark.parametrize(("core", "registers"), PROFILES)
def test_every_instruction_is_a_method_with_operands_in_the_order_of_its_syntax(core, registers):
    k = new_kernel(core, registers)
    file = {"x": X, "f": F if registers == "f" else X}
    generator = random.Random(0)
    expected = []
    for insn in k.isa.insns:
        form = next(f for f in syntax_of(k.isa).by_key[insn.key] if f.text == insn.syntax)
        fields = {n: field_value(f, generator) for n, f in insn.encoding.fields.items()}
        fields |= form.fixed
        fields |= {"L": 0} if "L" in fields else {}
        if any(part.kind == "target" for part in form.parts if isinstance(part, Operand)):
            continue  # loops and branches: by labels, below
        if insn.constraint is not None and not insn.constraint(fields):
            continue
        arguments = []
        for part in form.parts:
            if isinstance(part, Operand):
                value = fields[part.field.name]
                is_register = part.kind in ("x", "f")
                arguments.append(
                    file[part.kind][value]
                    if is_register
                    else value >> part.shift
                    if part.shift >= 0
                    else value << -part.shift
                )
        getattr(k, insn.key)(*arguments)
        expected.append(k.isa.encode(insn, **fields))
    assert len(expected) > 250
    assert words(k) == expected


def test_methods_write_what_the_assembler_reads():
    k = new_kernel()
    done, top = k.label("done"), k.here("top")
    k.p_lw(A[0], 4, A[1])
    k.p_lw_rrpost(A[0], A[2], A[1])
    k.sw(A[0], -8, SP)
    k.lui(A[0], 0x10204)
    k.csrr(A[3], CSRS["mhartid"])
    k.fmadd_s(A[0], A[1], A[2], A[3])
    k.fmadd_s(A[0], A[1], A[2], A[3], ROUNDING_MODES["rtz"])
    k.beqz(A[0], done)
    k.bltu(A[0], A[1], top)
    k.not_(A[0], A[1])
    k.or_(A[0], A[1], A[2])
    k.p_elw(A[0], 0x21C, A[0])
    k.jal(RA, done)
    k.jalr(RA, 4, A[0])
    k.jalr(A[5])
    k.place(done)
    k.ret()
    source = """
    top: p.lw a0, 4(a1!)
        p.lw a0, a2(a1!)
        sw a0, -8(sp)
        lui a0, 0x10204
        csrr a3, mhartid
        fmadd.s a0, a1, a2, a3
        fmadd.s a0, a1, a2, a3, rtz
        beqz a0, done
        bltu a0, a1, top
        not a0, a1
        or a0, a1, a2
        p.elw a0, 0x21c(a0)
        jal ra, done
        jalr ra, 4(a0)
        jalr a5
    done: ret
    """
    assembled = assemble(source, k.isa, text_base=k.code_at.base)
    assert k.build().segments[0].data == assembled.segments[0].data


def test_instructions_that_a_chip_does_not_have_are_attributes_that_do_not_exist():
    k = new_kernel("cv32e40p")
    assert not hasattr(k, "p_lw")
    with pytest.raises(
        AttributeError, match=r"^cv32e40p-x has no instruction cv_lww; did you mean cv_lw\?$"
    ):
        k.cv_lww(A[0], A[1], 4)
    with pytest.raises(AttributeError, match=r"^cv32e40p-x has no instruction qqqqqqq$"):
        k.qqqqqqq()


def test_operands_that_do_not_fit_are_refused_where_they_are_written():
    k = new_kernel("ri5cy", "f")
    assert refusal(k.addi, A[0], A[1]) == "addi: 2 operands are given; write addi rd, rs1, imm"
    assert refusal(k.fence, 1) == "fence: 1 operands are given; write fence pred, succ or fence"
    assert refusal(k.add, A[0], 5, A[1]) == "add: rs1 is 5; it takes an x register"
    assert refusal(k.add, A[0], F[5], A[1]) == "add: rs1 is ft5; it takes an x register"
    assert refusal(k.add, A[0], [A[2]], A[1]) == "add: rs1 is [a2]; it takes an x register"
    assert refusal(k.fadd_s, F[0], A[1], F[1]) == "fadd_s: fs1 is a1; it takes an f register"
    assert refusal(k.addi, A[0], A[1], A[2]) == "addi: imm is a2; it takes a number"
    assert refusal(k.j, A[2]) == "j: imm is a2; it takes a label"
    here = "tests/firmware/test_emitter.py"
    label = k.label("end")
    line = label.source.line
    message = f"addi: imm is label end of {here}:{line}; it takes a number"
    assert refusal(k.addi, A[0], A[1], label) == message
    message = refusal(k.lw, A[0], 2048, A[1])
    assert message.endswith(": lw rd, imm(rs1): imm: 2048 is not from -2048 to 2047")
    message = refusal(k.slli, A[0], A[1], 32)
    assert message.endswith(": slli rd, rs1, shamt: shamt: 32 is not from 0 to 31")
    assert words(k) == []


def test_fields_of_instructions_that_no_core_here_has_are_refused():
    k = new_kernel("cv32e40p")
    message = refusal(k.by_field, ("p_clip", "p_lw"), rd=A[0])
    assert message == "cv32e40p-x has none of p_clip, p_lw"


def test_a_label_is_placed_once_and_before_the_program_is_built():
    k = new_kernel()
    end = k.label("end")
    k.j(end)
    line = end.source.line
    name = f"label end of tests/firmware/test_emitter.py:{line}"
    assert refusal(k.build) == (
        f"tests/firmware/test_emitter.py:{line + 1}: j pc+imm: {name} is used but never placed"
    )
    k.place(end)
    assert refusal(k.place, end) == f"{name} is placed twice"
    nameless = k.label()
    assert str(nameless).startswith("label (without a name) of tests/firmware/test_emitter.py:")


def test_a_branch_that_does_not_reach_is_refused_with_its_line():
    k = new_kernel()
    top = k.here()
    for _ in range(1025):
        k.nop()
    k.bnez(A[0], top)
    message = refusal(k.build)
    assert message.startswith(f"tests/firmware/test_emitter.py:{top.source.line + 3}: bnez rs1")
    assert message.endswith(
        "the target 0x1c010080 is -4100 bytes away; bnez reaches a multiple of 2 from -4096 to 4094"
    )


def test_registers_are_given_out_in_order_and_come_back_at_the_end_of_a_scope():
    k = new_kernel()
    first = k.x()
    with k.scope():
        inner = k.x(2)
        nested = k.x(2, 2)
        assert [len(row) for row in nested] == [2, 2]
    again = k.x(2)
    assert again == inner
    assert len({first, *inner, *nested[0], *nested[1]}) == 7
    assert first.name == "t0"
    saved = k.saved(12)
    assert [r.name for r in saved] == [f"s{n}" for n in range(12)]
    assert not {ZERO, SP} & set(k.x(15))
    assert refusal(k.x) == (
        "test: out of x registers: 1 more wanted, 0 of 30 free; make the blocking smaller or free "
        "some in a scope"
    )
    assert refusal(k.saved) == (
        "test: out of saved x registers: 1 more wanted, 0 of 12 free; make the blocking smaller or "
        "free some in a scope"
    )


def test_floats_take_registers_of_the_file_where_they_live():
    assert new_kernel("ri5cy", "f").f() == Register(0, "f")
    assert new_kernel("ri5cy", "x").f().file == "x"
    k = new_kernel("ri5cy", "f")
    assert len({register for row in k.f(4, 8) for register in row}) == 32
    with pytest.raises(KernelError, match=r"^test: out of f registers: 1 more wanted, 0 of 32 "):
        k.f()


NEAR, FAR = X[8:11], X[28:31]  # s0 s1 a0, t3 t4 t5
SHORT = (
    (lambda k: k.addi(FAR[0], FAR[0], -32), "c.addi t3, -32"),
    (lambda k: k.addi(FAR[0], FAR[0], 32), None),
    (lambda k: k.addi(FAR[0], FAR[1], 1), None),
    (lambda k: k.addi(SP, SP, -64), "c.addi16sp sp, -64"),
    (lambda k: k.li(FAR[0], 31), "c.li t3, 31"),
    (lambda k: k.mv(FAR[0], FAR[1]), "c.mv t3, t4"),
    (lambda k: k.add(FAR[0], FAR[0], FAR[1]), "c.add t3, t4"),
    (lambda k: k.add(FAR[0], FAR[1], FAR[0]), "c.add t3, t4"),
    (lambda k: k.add(FAR[0], FAR[1], FAR[2]), None),
    (lambda k: k.sub(NEAR[0], NEAR[1], NEAR[0]), None),
    (lambda k: k.and_(NEAR[0], NEAR[1], NEAR[0]), "c.and s0, s1"),
    (lambda k: k.and_(FAR[0], FAR[0], FAR[1]), None),
    (lambda k: k.lw(NEAR[0], 124, NEAR[1]), "c.lw s0, 124(s1)"),
    (lambda k: k.lw(NEAR[0], -4, NEAR[1]), None),
    (lambda k: k.lw(FAR[0], 4, NEAR[1]), None),
    (lambda k: k.sw(FAR[0], 252, SP), "c.swsp t3, 252(sp)"),
    (lambda k: k.nop(), "c.nop"),
    (lambda k: k.jr(FAR[0]), "c.jr t3"),
    (lambda k: k.mul(NEAR[0], NEAR[0], NEAR[1]), None),
    (lambda k: k.c_li(FAR[0], 1), "c.li t3, 1"),
    (lambda k: k.beqz(NEAR[0], k.here()), None),
)


@pytest.mark.parametrize(("emit", "text"), SHORT, ids=[text or "four bytes" for _, text in SHORT])
def test_16_bit_instructions_are_emitted_where_there_are_any_and_they_are_asked_for(emit, text):
    k = new_kernel("ri5cy")
    with k.compressing():
        emit(k)
    code = k.build().segments[0].data
    assert len(code) == (2 if text else 4)
    if text:
        assert disassemble(int.from_bytes(code, "little"), k.isa) == text
    plain = new_kernel("ri5cy")
    emit(plain)
    assert plain.code.size == (2 if text == "c.li t3, 1" else 4)


def test_cv32e40p_has_no_16_bit_instructions_unless_they_are_written():
    k = new_kernel("cv32e40p")
    with k.compressing():
        k.mv(FAR[0], FAR[1])
    assert k.code.size == 4
