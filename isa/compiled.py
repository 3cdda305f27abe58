"""Declarations -> source of the interpreter -> Numba.

The generated function performs one decoded instruction on one hart's registers. It is what a person
would have written, one branch per instruction, each calling the declared function:

    elif op == 25:  # p.lw rd, imm(rs1!)
        out, v1 = p_lw(rs1, imm)
        x[row["rp"]] = i32(v1)

Registers lie in one file, `x`: entries 0..31 are the x registers, 32..63 the float registers of a
hart that has its own, SINK takes what is written to x0. What does not depend on the instruction
alone (memory, CSRs, time) is the hart's business.
"""

from collections.abc import Iterable, Iterator

from isa.declare import Insn, Isa

SINK = 64
"""Register-file entry that takes writes to x0."""

HART_ACTS = ("csr", "system", "fence", "fencei")
"""Timing classes whose effect is the hart's: nothing is generated for them."""

REGISTER_COLUMNS = {
    "rs1": "rs1",
    "fs1": "rs1",
    "rs2": "rs2",
    "fs2": "rs2",
    "rs3": "rs3",
    "fs3": "rs3",
    "rd": "rd",
    "fd": "rd",
}
"""Register field of an encoding -> column of the decoded row that holds its index in `x`."""

HOISTED = {"rs1", "fs1", "rs2", "fs2"}
IMMEDIATE_COLUMNS = ("imm", "imm2", "imm3")

HEADER = '''\
def execute(op, row, x, pc, hart):
    """Perform one instruction; return the address of its access or of the next instruction."""
    rs1 = int(x[row["rs1"]])
    rs2 = int(x[row["rs2"]])
    imm = int(row["imm"])
    out = 0
'''


def op_number(isa: Isa, insn: Insn) -> int:
    """Number of an instruction in decoded rows; 0 is an undecoded row."""
    return isa.insns.index(insn) + 1


def immediates(insn: Insn) -> list[str]:
    """Fields that are neither registers nor the rounding mode nor the loop, in encoding order."""
    other = {*REGISTER_COLUMNS, "rm", "L"}
    return [name for name in insn.encoding.fields if name not in other]


def execute_source(isa: Isa, extensions: Iterable[str]) -> str:
    """Return the text of `execute` for the instructions of these extensions."""
    chosen = set(extensions)
    lines = [HEADER]
    keyword = "if"
    for number, insn in enumerate(isa.insns, start=1):
        if insn.extension in chosen and insn.timing not in HART_ACTS:
            lines.append(f"    {keyword} op == {number}:  # {insn.syntax}\n")
            lines.extend(f"        {line}\n" for line in _branch(insn))
            keyword = "elif"
    lines.append("    return out\n")
    return "".join(lines)


def functions(isa: Isa, extensions: Iterable[str]) -> dict[str, object]:
    """Return the declared functions which execute_source calls, by key."""
    chosen = set(extensions)
    return {
        insn.key: insn.function
        for insn in isa.insns
        if insn.extension in chosen and insn.timing not in HART_ACTS
    }


def _branch(insn: Insn) -> Iterator[str]:
    arguments = ", ".join(_argument(insn, name) for name in insn.reads)
    if len(insn.writes) == 1:
        targets = ["v0"]
    else:
        targets = [f"v{index}" for index in range(len(insn.writes))]
    yield f"{', '.join(targets)} = {insn.key}({arguments})"
    for value, token in zip(targets, insn.writes, strict=True):
        yield _store(token, value)


def _argument(insn: Insn, name: str) -> str:
    if name in HOISTED:
        return name.replace("f", "r") if name.startswith("f") else name
    if name in REGISTER_COLUMNS:
        return f'int(x[row["{REGISTER_COLUMNS[name]}"]])'
    if name in ("pc", "boxed"):
        return {"pc": "pc", "boxed": 'int(hart["boxed"])'}[name]
    if name == "rm":
        return 'int(row["rm"]) if row["rm"] != 7 else int(hart["frm"])'
    if name in ("frm", "fflags"):
        return f'int(hart["{name}"])'
    if name == "size":
        return 'int(row["size"])'
    if name == "L":
        return 'int(row["loop"])'
    column = IMMEDIATE_COLUMNS[immediates(insn).index(name)]
    return "imm" if column == "imm" else f'int(row["{column}"])'


def _store(token: str, value: str) -> str:
    if token in ("rd", "fd"):
        return f'x[row["rd"]] = i32({value})'
    if token == "rs1":
        return f'x[row["rp"]] = i32({value})'
    if token in ("addr", "pc"):
        return f"out = {value} & 0xFFFFFFFF"
    if token == "flags":
        return f'hart["fflags"] |= {value}'
    return f'hart["{token}"][row["loop"]] = {value} & 0xFFFFFFFF'
