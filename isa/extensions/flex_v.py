"""RI5CY's RTL where it computes something else than the ISA says: flex-v with cvfpu.

    fsgnj*.ah, fmin.ah, fmax.ah,  funct3 reaches the FPU as a rounding mode: 4 and 5 select nothing,
    feq.ah, flt.ah, fle.ah        and the lowest bit of each field is set; 6 is taken for 0, so that
                                  feq.ah is fle.ah and fsgnjx.ah is fsgnj.ah
    vfcpka, vfcpkb                nothing is converted: low elements of both, others are zero
    vfcvt.x[u].F, vfcvt.F.x[u]    the integer has 32 bits: one element
    vfne                          false if an operand is a signaling NaN
    fcvt.F.G, vfcvt.F.G           an infinity is rounded like an overflow
    fdiv, fsqrt, vfdiv, vfsqrt    see isa.floats.div_sqrt_mvp
    fflags                        is not written by what raises flags

APU_WOP_CPU is the number of bits of an FPU operation that leave the decoder. They are 7, of which
the highest says that it is one on vectors. With 6, the public default, every vector operation is
executed on scalars.

Sources: flex-v e9355c2, riscv_decoder.sv (fp_rnd_mode_o, fpu_int_fmt_o, fpu_src_fmt_o, apu_op_o);
cvfpu pulp-v0.1.3, fpnew_noncomp.sv (DONT_CARE), fpnew_opgroup_multifmt_slice.sv,
fpnew_cast_multi.sv (of_before_round); all of it held against operands executed on RTL. Of .b only
the text is known.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from isa.declare import LOST, Extension, Insn
from isa.extensions import xf_scalar, xfvec
from isa.extensions.smallfloat import AH, B, H, S, Small, box
from isa.floats.div_sqrt_mvp import unit_divide, unit_square_root
from isa.floats.format import F8, NV, is_infinite, is_nan, is_signaling, overflow, sign_of
from isa.floats.softfloat import (
    add,
    convert,
    equal,
    from_integer,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    select_number,
    subtract,
)
from isa.words import jitable

FORMATS: dict[str, Small] = {small.letter: small for small in (S, H, AH, B)}

UNDEFINED = "RI5CY's RTL takes its funct3 for a rounding mode, and the result is undefined"
UNCONVERTED = "RI5CY's RTL packs the low halves of the operands without converting them"
ONE_WORD = "RI5CY's RTL converts one integer of 32 bits"

ALWAYS_WRONG = {
    **{f"{stem}.ah": UNDEFINED for stem in "fsgnj fsgnjn fsgnjx fmin fmax feq flt fle".split()},
    **{f"{name}.s": UNCONVERTED for name in ("vfcpka.h", "vfcpka.ah", "vfcpka.b", "vfcpkb.b")},
    **{f"vfcvt.{i}.{x}": ONE_WORD for i in ("x", "xu") for x in ("h", "ah", "b")},
    **{f"vfcvt.{x}.{i}": ONE_WORD for i in ("x", "xu") for x in ("h", "ah", "b")},
}
"""What no choice of operands makes right, and why: what is to run on this RTL cannot use it."""


@jitable
def undefined(f):
    """What the FPU returns where its source says that it does not care."""
    return 1 << f.width - 1 | 1 << f.fraction | 1


@jitable
def rounded_convert(f, g, a, rm):
    """a in format g, an infinity as a number that is too large."""
    return overflow(g, sign_of(f, a), rm) if is_infinite(f, a) else convert(f, g, a, rm)


@jitable
def undefined_selection(f, a, b):
    if is_nan(f, a) or is_nan(f, b):
        return select_number(f, a, b, False)
    return undefined(f), 0


@jitable
def undefined_comparison(f, a, b):
    if is_signaling(f, a) or is_signaling(f, b):
        return 0, NV
    return undefined(f), 0


@jitable
def quiet_unequal(f, a, b):
    holds, flags = equal(f, a, b)
    return (holds ^ 1, flags) if flags == 0 else (0, flags)


@jitable
def greater_equal(f, a, b):
    return less_equal(f, b, a)


@jitable
def greater(f, a, b):
    return less(f, b, a)


def undefined_sign(f):
    def meaning(fs1, fs2, boxed):
        return box(f, undefined(f))

    return meaning


def packing(f, position):
    def meaning(fs1, fs2, rm):
        low, flags = rounded_convert(f, f, fs1, rm)
        high, raised = rounded_convert(f, f, fs2, rm)
        return (high << f.width | low) << position, flags | raised

    return meaning


def from_one_word(f, mask):
    def meaning(rs1, rm):
        return from_integer(f, rs1 & mask, rm)

    return meaning


def narrowing(f, g):
    """Elements above the converted ones are ones."""
    width, target_width, count = f.width, g.width, 32 // f.width

    def meaning(fs1, rm):
        result, flags = -1 << count * target_width, 0
        for i in range(count):
            pattern, raised = rounded_convert(f, g, fs1 >> i * width, rm)
            result |= pattern << i * target_width
            flags |= raised
        return result, flags

    return meaning


INTEGERS = dict(zip(("x", "xu"), (row[2:5] for row in xf_scalar.INTEGERS), strict=True))
"""Lowest, highest and mask of the integers of vector conversions."""

ALTERNATIVE: dict[str, Callable] = {  # scalar instructions of .ah
    "fsgnj": undefined_sign,
    "fsgnjn": undefined_sign,
    "fsgnjx": lambda f: xf_scalar.sign_injection(f, 0, 0),
    "fmin": lambda f: xf_scalar.selection(f, undefined_selection),
    "fmax": lambda f: xf_scalar.selection(f, undefined_selection),
    "feq": lambda f: xf_scalar.comparison(f, less_equal),
    "flt": lambda f: xf_scalar.comparison(f, undefined_comparison),
    "fle": lambda f: xf_scalar.comparison(f, undefined_comparison),
}
ON_SCALARS: dict[str, tuple[Callable, str]] = {  # vector instructions whose vector bit is lost
    "vfadd": (lambda f: xf_scalar.binary(f, add), "fs1 fs2 frm boxed"),
    "vfsub": (lambda f: xf_scalar.binary(f, subtract), "fs1 fs2 frm boxed"),
    "vfmul": (lambda f: xf_scalar.binary(f, multiply), "fs1 fs2 frm boxed"),
    "vfdiv": (lambda f: xf_scalar.binary(f, unit_divide), "fs1 fs2 frm boxed"),
    "vfsqrt": (lambda f: xf_scalar.root(f, unit_square_root), "fs1 frm boxed"),
    "vfmin": (lambda f: xf_scalar.selection(f, minimum), "fs1 fs2 boxed"),
    "vfmax": (lambda f: xf_scalar.selection(f, maximum), "fs1 fs2 boxed"),
    "vfmac": (lambda f: xf_scalar.fused(f, 0, 0), "fs1 fs2 fd frm boxed"),
    "vfmre": (lambda f: xf_scalar.fused(f, 0, 1), "fs1 fs2 fd frm boxed"),
    "vfclass": (xf_scalar.classification, "fs1 boxed"),
    "vfcpka": (lambda f: xf_scalar.conversion(f, f, rounded_convert), "fs1 frm boxed"),
    "vfcpkb": (lambda f: xf_scalar.conversion(f, f, rounded_convert), "fs1 frm boxed"),
}
for name, _, first, ones, _ in xf_scalar.SIGNS:
    ON_SCALARS[f"v{name}"] = (
        lambda f, first=first, ones=ones: xf_scalar.sign_injection(f, first, ones),
        "fs1 fs2 boxed",
    )
for name, operation in {
    "eq": equal,
    "ne": quiet_unequal,
    "lt": less,
    "ge": greater_equal,
    "le": less_equal,
    "gt": greater,
}.items():
    ON_SCALARS[f"vf{name}"] = (
        lambda f, operation=operation: xf_scalar.comparison(f, operation),
        "fs1 fs2 boxed",
    )


def as_computed(extension: Extension, apu_wop: int) -> Extension:
    """Return the instructions of an extension with the meanings that the RTL gives them.

    apu_wop    APU_WOP_CPU: 7, or 6, which makes scalar operations of those on vectors
    """
    return _as_computed(extension, apu_wop)


@cache
def _as_computed(extension: Extension, apu_wop: int) -> Extension:
    changed = Extension(extension.name)
    for insn in extension.insns:
        meaning = _meaning(insn, apu_wop == 6) if insn.function else None
        if meaning:
            insn = replace(insn, function=meaning[0], reads=tuple(meaning[1].split()))
        writes = tuple(LOST if token == "flags" else token for token in insn.writes)
        changed.add(replace(insn, writes=writes))
    return changed


def _meaning(insn: Insn, is_cut: bool) -> tuple[Callable, str] | None:
    """Return the RTL's meaning and its operands; None where it is the ISA's."""
    stem, *kinds = insn.name.replace(".r.", ".").split(".")
    if stem in ("vfcvt", "fcvt"):
        return _conversion(stem, kinds, insn, is_cut)
    if stem in ("fdiv", "fsqrt"):
        return _division(stem, FORMATS[kinds[0]])
    if kinds == ["ah"] and stem in ALTERNATIVE:
        return ALTERNATIVE[stem](AH.format), " ".join(insn.reads)
    if insn.extension == "xfvec":
        return _on_scalars(stem, kinds) if is_cut else _on_vectors(stem, kinds, insn)
    return None


def _division(stem: str, small: Small) -> tuple[Callable, str] | None:
    if small is B:  # not executed
        return None
    if stem == "fdiv":
        return xf_scalar.binary(small.format, unit_divide), f"fs1 fs2 {_mode(small)} boxed"
    return xf_scalar.root(small.format, unit_square_root), f"fs1 {_mode(small)} boxed"


def _mode(small: Small) -> str:
    return "rm" if small.rm == "rm" else "frm"


def _on_scalars(stem: str, kinds: list[str]) -> tuple[Callable, str]:
    if stem == "vfmv":
        to_x = kinds[0] == "x"
        small = FORMATS[kinds[1 if to_x else 0]]
        if to_x:
            return xf_scalar.move_to_x(small.format), "fs1"
        return xf_scalar.move_from_x(small.format), "rs1"
    meaning, reads = ON_SCALARS[stem]
    return meaning(FORMATS[kinds[0]].format), reads


def _on_vectors(stem: str, kinds: list[str], insn: Insn) -> tuple[Callable, str] | None:
    f, reads = FORMATS.get(kinds[0], S).format, " ".join(insn.reads)
    step = 0 if ".r." in insn.name else f.width
    if stem == "vfne":
        return xfvec.comparison(f, quiet_unequal, False, 0, step), reads
    if stem in ("vfcpka", "vfcpkb"):
        return packing(f, 16 if stem == "vfcpkb" else 0), "fs1 fs2 frm"
    if stem == "vfdiv" and f is not F8:
        return xfvec.binary(f, unit_divide, step), reads
    if stem == "vfsqrt" and f is not F8:
        return xfvec.root(f, unit_square_root), reads
    return None


def _conversion(
    stem: str, kinds: list[str], insn: Insn, is_cut: bool
) -> tuple[Callable, str] | None:
    target, source = kinds
    is_vector = stem == "vfcvt"
    if target in INTEGERS:
        lowest, highest, _ = INTEGERS[target]
        return xf_scalar.to_word(FORMATS[source].format, lowest, highest), "fs1 frm boxed"
    if source in INTEGERS:
        f, mask = FORMATS[target].format, INTEGERS[source][2]
        return (xf_scalar.from_word if is_cut else from_one_word)(f, mask), "rs1 frm"
    if target not in FORMATS or source not in FORMATS or not {"rm", "frm"} & set(insn.reads):
        return None
    f, g = FORMATS[source].format, FORMATS[target].format
    if not is_vector or is_cut:
        mode = "rm" if "rm" in insn.reads else "frm"
        return xf_scalar.conversion(f, g, rounded_convert), f"fs1 {mode} boxed"
    if g.width < f.width:
        return narrowing(f, g), "fs1 frm"
    return xfvec.conversion(f, g, rounded_convert), "fs1 frm"
