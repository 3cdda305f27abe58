"""RV32F: single-precision floating point.

RV32F_REGISTERS holds what exists only where floats have registers of their own: loads, stores and
moves between the two register files. With floats in x registers (Zfinx) the rest is all there is.

Source: RISC-V unprivileged manual, chapters "F Extension for Single-Precision Floating-Point" and
"Zfinx".
"""

from isa.declare import Extension
from isa.floats.format import F32
from isa.floats.softfloat import (
    classify,
    copy_sign,
    equal,
    f32_add,
    f32_divide,
    f32_from_integer,
    f32_multiply,
    f32_multiply_add,
    f32_square_root,
    f32_subtract,
    less,
    less_equal,
    maximum,
    minimum,
    to_integer,
)
from isa.words import u32

RV32F = Extension("rv32f")
RV32F_REGISTERS = Extension("rv32f")
insn = RV32F.insn
registers = RV32F_REGISTERS.insn

SIGN = 1 << 31  # exclusive or with it negates


@registers("imm[11:0] rs1 010 fd 0000111", "flw fd, imm(rs1)", "load", access="i32", writes="addr")
def flw(rs1, imm):
    """Load float: fd = M[rs1 + imm]."""
    return rs1 + imm


@registers(
    "imm[11:5] fs2 rs1 010 imm[4:0] 0100111",
    "fsw fs2, imm(rs1)",
    "store",
    access="i32",
    writes="addr",
)
def fsw(rs1, imm):
    """Store float: M[rs1 + imm] = fs2."""
    return rs1 + imm


@registers("1110000 00000 fs1 000 rd 1010011", "fmv.x.w rd, fs1", "fpu")
def fmv_x_w(fs1):
    """Move the pattern of a float to an x register."""
    return fs1


@registers("1111000 00000 rs1 000 fd 1010011", "fmv.w.x fd, rs1", "fpu", writes="fd")
def fmv_w_x(rs1):
    """Move a pattern from an x register to a float."""
    return rs1


@insn("fs3 00 fs2 fs1 rm fd 1000011", "fmadd.s fd, fs1, fs2, fs3, rm", "fpu", writes="fd flags")
def fmadd_s(fs1, fs2, fs3, rm):
    """Multiply-add: fd = fs1 * fs2 + fs3, rounded once."""
    return f32_multiply_add(fs1, fs2, fs3, rm)


@insn("fs3 00 fs2 fs1 rm fd 1000111", "fmsub.s fd, fs1, fs2, fs3, rm", "fpu", writes="fd flags")
def fmsub_s(fs1, fs2, fs3, rm):
    """Multiply-subtract: fd = fs1 * fs2 - fs3, rounded once."""
    return f32_multiply_add(fs1, fs2, fs3 ^ SIGN, rm)


@insn("fs3 00 fs2 fs1 rm fd 1001011", "fnmsub.s fd, fs1, fs2, fs3, rm", "fpu", writes="fd flags")
def fnmsub_s(fs1, fs2, fs3, rm):
    """Negated multiply-subtract: fd = -(fs1 * fs2) + fs3, rounded once."""
    return f32_multiply_add(fs1 ^ SIGN, fs2, fs3, rm)


@insn("fs3 00 fs2 fs1 rm fd 1001111", "fnmadd.s fd, fs1, fs2, fs3, rm", "fpu", writes="fd flags")
def fnmadd_s(fs1, fs2, fs3, rm):
    """Negated multiply-add: fd = -(fs1 * fs2) - fs3, rounded once."""
    return f32_multiply_add(fs1 ^ SIGN, fs2, fs3 ^ SIGN, rm)


@insn("0000000 fs2 fs1 rm fd 1010011", "fadd.s fd, fs1, fs2, rm", "fpu", writes="fd flags")
def fadd_s(fs1, fs2, rm):
    """Add: fd = fs1 + fs2."""
    return f32_add(fs1, fs2, rm)


@insn("0000100 fs2 fs1 rm fd 1010011", "fsub.s fd, fs1, fs2, rm", "fpu", writes="fd flags")
def fsub_s(fs1, fs2, rm):
    """Subtract: fd = fs1 - fs2."""
    return f32_subtract(fs1, fs2, rm)


@insn("0001000 fs2 fs1 rm fd 1010011", "fmul.s fd, fs1, fs2, rm", "fpu", writes="fd flags")
def fmul_s(fs1, fs2, rm):
    """Multiply: fd = fs1 * fs2."""
    return f32_multiply(fs1, fs2, rm)


@insn("0001100 fs2 fs1 rm fd 1010011", "fdiv.s fd, fs1, fs2, rm", "fdiv", writes="fd flags")
def fdiv_s(fs1, fs2, rm):
    """Divide: fd = fs1 / fs2."""
    return f32_divide(fs1, fs2, rm)


@insn("0101100 00000 fs1 rm fd 1010011", "fsqrt.s fd, fs1, rm", "fsqrt", writes="fd flags")
def fsqrt_s(fs1, rm):
    """Square root: fd = sqrt(fs1)."""
    return f32_square_root(fs1, rm)


@insn("0010000 fs2 fs1 000 fd 1010011", "fsgnj.s fd, fs1, fs2", "fpu", writes="fd")
def fsgnj_s(fs1, fs2):
    """Inject the sign: fd = fs1 with the sign of fs2."""
    return copy_sign(F32, fs1, fs2)


@insn("0010000 fs2 fs1 001 fd 1010011", "fsgnjn.s fd, fs1, fs2", "fpu", writes="fd")
def fsgnjn_s(fs1, fs2):
    """Inject the negated sign: fd = fs1 with the opposite of the sign of fs2."""
    return copy_sign(F32, fs1, ~fs2)


@insn("0010000 fs2 fs1 010 fd 1010011", "fsgnjx.s fd, fs1, fs2", "fpu", writes="fd")
def fsgnjx_s(fs1, fs2):
    """Inject the product of signs: fd = fs1, negated if fs2 is negative."""
    return copy_sign(F32, fs1, fs1 ^ fs2)


@insn("0010100 fs2 fs1 000 fd 1010011", "fmin.s fd, fs1, fs2", "fpu", writes="fd flags")
def fmin_s(fs1, fs2):
    """The smaller number; -0 is less than +0, a NaN loses against a number."""
    return minimum(F32, fs1, fs2)


@insn("0010100 fs2 fs1 001 fd 1010011", "fmax.s fd, fs1, fs2", "fpu", writes="fd flags")
def fmax_s(fs1, fs2):
    """The larger number; -0 is less than +0, a NaN loses against a number."""
    return maximum(F32, fs1, fs2)


@insn("1010000 fs2 fs1 010 rd 1010011", "feq.s rd, fs1, fs2", "fpu", writes="rd flags")
def feq_s(fs1, fs2):
    """rd = 1 if fs1 == fs2, else 0; invalid if either is a signaling NaN."""
    return equal(F32, fs1, fs2)


@insn("1010000 fs2 fs1 001 rd 1010011", "flt.s rd, fs1, fs2", "fpu", writes="rd flags")
def flt_s(fs1, fs2):
    """rd = 1 if fs1 < fs2, else 0; invalid if either is a NaN."""
    return less(F32, fs1, fs2)


@insn("1010000 fs2 fs1 000 rd 1010011", "fle.s rd, fs1, fs2", "fpu", writes="rd flags")
def fle_s(fs1, fs2):
    """rd = 1 if fs1 <= fs2, else 0; invalid if either is a NaN."""
    return less_equal(F32, fs1, fs2)


@insn("1110000 00000 fs1 001 rd 1010011", "fclass.s rd, fs1", "fpu")
def fclass_s(fs1):
    """Class of fs1, one bit of 0..9: -infinity, -normal, -subnormal, -0, +0, +subnormal, +normal,
    +infinity, signaling NaN, quiet NaN."""
    return classify(F32, fs1)


@insn("1100000 00000 fs1 rm rd 1010011", "fcvt.w.s rd, fs1, rm", "fpu", writes="rd flags")
def fcvt_w_s(fs1, rm):
    """Convert to a signed integer; out of range: the nearest one, of a NaN 2^31 - 1."""
    return to_integer(F32, fs1, -(1 << 31), (1 << 31) - 1, rm)


@insn("1100000 00001 fs1 rm rd 1010011", "fcvt.wu.s rd, fs1, rm", "fpu", writes="rd flags")
def fcvt_wu_s(fs1, rm):
    """Convert to an unsigned integer; out of range: the nearest one, of a NaN 2^32 - 1."""
    return to_integer(F32, fs1, 0, (1 << 32) - 1, rm)


@insn("1101000 00000 rs1 rm fd 1010011", "fcvt.s.w fd, rs1, rm", "fpu", writes="fd flags")
def fcvt_s_w(rs1, rm):
    """Convert from a signed integer."""
    return f32_from_integer(rs1, rm)


@insn("1101000 00001 rs1 rm fd 1010011", "fcvt.s.wu fd, rs1, rm", "fpu", writes="fd flags")
def fcvt_s_wu(rs1, rm):
    """Convert from an unsigned integer."""
    return f32_from_integer(u32(rs1), rm)
