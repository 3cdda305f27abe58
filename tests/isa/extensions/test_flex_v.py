"""Float instructions as RI5CY's RTL executed them: 66,400 operands of 166 instructions.

data/flex_v_values.csv.gz: instruction, frm, rs1, rs2, old rd (rs3 of fmadd and its like), result.
"""

import csv
import gzip
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from isa.declare import Insn, Isa
from isa.extensions.flex_v import ALWAYS_WRONG
from isa.extensions.profiles import profile
from isa.words import i32

VALUES = Path(__file__).parents[1] / "data" / "flex_v_values.csv.gz"
WITHOUT = profile("ri5cy", "x", small_floats=True)
RTL, STOCK = (profile("ri5cy", "x", small_floats=True, apu_wop=wop) for wop in (7, 6))

SOMETIMES_WRONG = {  # infinities in directed modes, signaling NaNs, cut-off quotients and roots
    *("fcvt.h.s", "fcvt.ah.s", "fcvt.h.ah", "fcvt.ah.h", "vfcvt.h.ah", "vfcvt.ah.h"),
    *(f"vfne{dot}.{x}" for dot in ("", ".r") for x in ("h", "ah")),
    *(f"{name}.{x}" for name in ("fdiv", "fsqrt") for x in ("s", "h", "ah")),
    *(f"{name}.{x}" for name in ("vfdiv", "vfdiv.r", "vfsqrt") for x in ("h", "ah")),
}
"""What the RTL computes otherwise for some operands."""


@cache
def rows() -> list[tuple[str, int, int, int, int, int]]:
    """Instruction, frm, a, b, c, and the register that the RTL wrote."""
    with gzip.open(VALUES, "rt") as file:
        _, *lines = csv.reader(file)
    return [(name, int(rm), *(int(word, 16) for word in words)) for name, rm, *words in lines]


def result(insn: Insn, frm: int, a: int, b: int, c: int) -> int:
    """The register that an instruction writes, unsigned."""
    a, b, c = i32(a), i32(b), i32(c)
    values = {"rs1": a, "fs1": a, "rs2": b, "fs2": b, "fs3": c, "fd": c, "boxed": 0}
    values |= {"rm": frm, "frm": frm}
    results = insn.function(*(values[name] for name in insn.reads))
    return (results[0] if isinstance(results, tuple) else results) & 0xFFFFFFFF


def different(isa: Isa) -> Iterator[str]:
    """Mnemonics of the rows where this instruction set has another result than the RTL."""
    for name, frm, a, b, c, expected in rows():
        if result(isa[name.replace(".", "_")], frm, a, b, c) != expected:
            yield name


def test_there_are_400_operands_of_166_instructions() -> None:
    assert len(rows()) == 66_400
    assert set(Counter(name for name, *_ in rows()).values()) == {400}


def test_with_its_defects_every_result_is_the_rtls() -> None:
    assert Counter(different(RTL)) == {}


def test_without_them_only_what_is_known_to_be_wrong_differs() -> None:
    found = Counter(different(WITHOUT))
    executed = {name for name, *_ in rows()}
    assert set(found) == SOMETIMES_WRONG | ALWAYS_WRONG.keys() & executed
    assert found.total() == 6892


def is_vector(name: str) -> bool:
    return name.startswith("v")


def test_without_the_vector_bit_scalars_are_as_with_it() -> None:
    scalars = {name for name, *_ in rows() if not is_vector(name)}
    assert not scalars & set(different(STOCK))


@pytest.mark.parametrize("x", ["h", "ah"])
@pytest.mark.parametrize("stem", "add sub mul div min max sgnj sgnjn sgnjx".split())
def test_without_the_vector_bit_element_0_is_computed_and_boxed(stem: str, x: str) -> None:
    vector, cut = RTL[f"vf{stem}_{x}"], STOCK[f"vf{stem}_{x}"]
    for name, frm, a, b, c, _ in rows():
        if name == vector.name:
            both = result(vector, frm, a, b, c)
            assert result(cut, frm, a, b, c) == both & 0xFFFF | 0xFFFF0000


def test_flags_are_lost_but_where_the_isa_says_what_to_do_with_them() -> None:
    raising = {insn.name for insn in WITHOUT.insns if "flags" in insn.writes}
    assert {insn.name for insn in RTL.insns if "-" in insn.writes} == raising
    assert not any("flags" in insn.writes for insn in RTL.insns)


@pytest.mark.parametrize(
    ("name", "a", "b", "c", "expected"),
    [
        ("vfcpka.b.s", 0x4778_4AC9, 0x8000_0000, 0x373D_0080, 0x0000_00C9),
        ("vfcpkb.b.s", 0x007F_FFFF, 0x430F_FFFF, 0x7C4D_55FB, 0x7E7E_0000),
        ("vfcvt.x.b", 0x9A0B_7B7B, 0, 0, 0x0000_E000),
        ("vfcvt.b.h", 0x1401_8FDA, 0, 0, 0xFFFF_1490),
        ("vfne.b", 0x03F3_897E, 0x7D02_6F08, 0, 0x0001_0101),
    ],
)
def test_fp8_executed_on_the_rtl(name: str, a: int, b: int, c: int, expected: int) -> None:
    (insn,) = RTL.by_name(name)
    assert result(insn, 0, a, b, c) == expected


def test_cv32e40p_has_no_such_rtl() -> None:
    with pytest.raises(ValueError, match=r"^profile: apu_wop is 7 of cv32e40p; it is 6 or 7, of "):
        profile("cv32e40p", apu_wop=7)
