"""Instructions as 16-bit ones, where there is one that means the same."""

import re
from functools import cache

from isa.assembler.names import X_NUMBERS
from isa.declare import Insn, Isa

NAME = re.compile(r"-?\w+")
EITHER_WAY = ("add", "and_", "or_", "xor")  # operands may be exchanged
Short = tuple[Insn, dict[str, int]]
JUMPS = "pc"  # in what a 16-bit instruction stands for: its target is not known yet


@cache
def _shorter(isa: Isa) -> dict[str, list[tuple[Insn, tuple[str, ...], tuple[str, ...]]]]:
    """Return, by key of a 32-bit instruction, its 16-bit forms with both syntaxes' operands."""
    found: dict[str, list[tuple[Insn, tuple[str, ...], tuple[str, ...]]]] = {}
    for short in isa.compressed:
        assert short.expands is not None
        name, _, written = short.expands.partition(" ")
        if JUMPS in written or ">>" in written:
            continue
        for insn in isa.by_name(name):
            names = NAME.findall(insn.syntax.partition(" ")[2])
            found.setdefault(insn.key, []).append((short, (*names,), (*NAME.findall(written),)))
    return found


def compressed(isa: Isa, insn: Insn, operands: dict[str, int]) -> Short | None:
    """The 16-bit instruction that means the same as another one, and its operands, if any."""
    same = [(insn, operands)]
    if insn.key == "addi" and operands["imm"] == 0:
        same.append((isa["add"], {"rd": operands["rd"], "rs1": 0, "rs2": operands["rs1"]}))
    if insn.key in EITHER_WAY:
        same.append((insn, operands | {"rs1": operands["rs2"], "rs2": operands["rs1"]}))
    found = (_compressed(isa, *each) for each in same)
    return next((short for short in found if short), None)


def _compressed(isa: Isa, insn: Insn, operands: dict[str, int]) -> Short | None:
    for short, names, written in _shorter(isa).get(insn.key, []):
        pairs = [(operands[name], text) for name, text in zip(names, written, strict=True)]
        own: dict[str, int] = {}
        fits = True
        for value, text in pairs:
            if text in short.encoding.fields:
                fits &= own.setdefault(text, value) == value
            else:
                fits &= (X_NUMBERS[text] if text in X_NUMBERS else int(text)) == value
        if not fits:
            continue
        try:
            word = isa.encode(short, **own)
        except ValueError:
            continue
        meant = isa.decode(word)
        if meant and (meant.insn.key, dict(meant.operands)) == (insn.key, operands):
            return short, own
    return None
