"""The interpreter's text, run by Python, does what each declaration means."""

import numpy as np
import pytest

from isa.compiled import HART_ACTS, execute_source, immediates, meanings
from isa.extensions.profiles import profile
from isa.words import i32, u32
from tests.isa.extensions.meanings import operands

ENTRIES = {"rs1": 1, "fs1": 1, "rs2": 2, "fs2": 2, "rs3": 3, "fs3": 3, "rd": 4, "fd": 4}
COLUMNS = ("imm", "imm2", "imm3")
PC = 0x1C000080


def executed(insn, number, execute, values):
    """What the instruction leaves: {token of `writes`: value}, words as unsigned 32 bits."""
    reads = dict(zip(insn.reads, values, strict=True))
    x = [0] * 65
    for name, value in reads.items():
        if name in ENTRIES:
            x[ENTRIES[name]] = value
    fields = [reads.get(name, 0) for name in immediates(insn)]
    row = {"rs1": 1, "rs2": 2, "rs3": 3, "rd": 4, "wd": 4, "rp": 5, "loop": 1}
    row |= dict(zip(COLUMNS, [*fields, 0, 0, 0], strict=False))
    row |= {"size": reads.get("size", 4), "rm": reads.get("rm", 0)}
    loop = {name: [0, 0] for name in ("lp_start", "lp_end", "lp_count")}
    hart = {"fflags": 0, "frm": reads.get("frm", 0), "boxed": reads.get("boxed", 0), **loop}
    out = execute(number, row, x, reads.get("pc", PC), hart)
    left = {"rd": x[4], "fd": x[4], "rs1": x[5], "addr": out, "pc": out, "flags": hart["fflags"]}
    left |= {name: hart[name][1] for name in loop}
    return {token: left[token] & 0xFFFFFFFF for token in insn.writes}


@pytest.mark.parametrize("registers", ["x", "f"])
@pytest.mark.parametrize("core", ["ri5cy", "cv32e40p"])
def test_the_text_of_every_instruction_does_what_it_means(core, registers, request):
    isa = profile(core, registers)
    extensions = {extension.name for extension in isa.extensions}
    called, names = meanings(isa, extensions)
    space = {"np": np, "i32": i32, "u32": u32, **called, **names}
    exec(execute_source(isa, extensions), space)
    wrong = []
    for insn in isa.insns:
        if insn.timing in HART_ACTS or not insn.writes:
            continue
        number = isa.insns.index(insn) + 1  # 0 is an undecoded row
        for values in operands(insn, 40 if request.config.getoption("--full") else 8):
            meant = insn.function(*values)
            meant = (meant,) if len(insn.writes) == 1 else meant
            words = {t: v & 0xFFFFFFFF for t, v in zip(insn.writes, meant, strict=True)}
            if executed(insn, number, space["execute"], values) != words:
                wrong.append(insn.key)
                break
    assert wrong == []


def test_instructions_of_other_extensions_are_left_to_their_functions():
    isa = profile("ri5cy", small_floats=True)
    apart = {
        name: {extension} for name, extension in (("vectors", "xpulpvect"), ("halves", "xf16"))
    }
    space = {"np": np, "i32": i32, "u32": u32, "vectors": lambda op, *_: ("vectors", op)}
    space["halves"] = lambda op, *_: ("halves", op)
    exec(execute_source(profile("ri5cy"), ["rv32i"], apart), space)
    row = dict.fromkeys(("rs1", "rs2", "imm", "size"), 0)
    for number, insn in enumerate(isa.insns, start=1):
        if insn.extension in ("xpulpvect", "xf16"):
            name = "vectors" if insn.extension == "xpulpvect" else "halves"
            assert space["execute"](number, row, [0], PC, {}) == (name, number)
