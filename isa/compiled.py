"""Declarations -> source of the interpreter -> Numba.

The generated function performs one decoded instruction on one hart's registers. It is what a person
would have written, one branch per instruction. A meaning that is one expression stands there as
such, which compiles several times faster than a call; others are called:

    elif op == 25:  # p.lw rd, imm(rs1!)
        out = rs1
        x[row["rp"]] = i32(rs1 + imm)
    elif op == 42:  # div rd, rs1, rs2
        value = div(rs1, rs2)

Registers lie in one file, `x`: entries 0..31 are the x registers, 32..63 the float registers of a
hart that has its own, SINK takes what is written to x0. What does not depend on the instruction
alone (memory, CSRs, time) is the hart's business.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from isa.declare import LOST, Insn, Isa

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

NX_RAISED = 8
"""Added to the rounding mode of sums and products: NX is raised already, it need not be found out.

It stays so until the program clears it, which programs hardly ever do.
"""

KNOW_RAISED = frozenset({"f32_add", "f32_subtract", "f32_multiply", "f32_multiply_add"})
"""Operations that understand this."""

HOISTED = {"rs1", "fs1", "rs2", "fs2"}
IMMEDIATE_COLUMNS = ("imm", "imm2", "imm3")

HEADER = '''\
def execute(op, row, x, pc, hart):
    """Perform one instruction; return the address of its access or of the next instruction."""
    rs1 = np.int64(x[row["rs1"]])
    rs2 = np.int64(x[row["rs2"]])
    imm = np.int64(row["imm"])
    size = np.int64(row["size"])
    out = 0
    value = 0
'''


FOOTER = """\
    x[row["wd"]] = i32(value)
    return u32(out)
"""


def immediates(insn: Insn) -> list[str]:
    """Fields that are neither registers nor the rounding mode nor the loop, in encoding order."""
    other = {*REGISTER_COLUMNS, "rm", "L"}
    return [name for name in insn.encoding.fields if name not in other]


def execute_source(
    isa: Isa, extensions: Iterable[str], apart: Mapping[str, Collection[str]] | None = None
) -> str:
    """Return the text of `execute` for the instructions of these extensions.

    apart    functions for those of other extensions, whose numbers follow one another, or follow
             all of this instruction set's if it has none of them: name(op, row, pc, hart)
    """
    chosen = set(extensions)
    lines = [HEADER]
    keyword = "if"
    for number, insn in enumerate(isa.insns, start=1):
        if insn.extension in chosen and insn.timing not in HART_ACTS:
            lines.append(f"    {keyword} op == {number}:  # {insn.syntax}\n")
            lines.extend(f"        {line}\n" for line in _branch(insn))
            keyword = "elif"
    for name, others in (apart or {}).items():
        numbers = [n for n, insn in enumerate(isa.insns, start=1) if insn.extension in others]
        condition = f"{numbers[0]} <= op <= {numbers[-1]}" if numbers else f"op > {len(isa.insns)}"
        lines.append(f"    {keyword} {condition}:\n        return {name}(op, row, pc, hart)\n")
        keyword = "elif"
    lines.append(FOOTER)
    return "".join(lines)


def meanings(isa: Isa, extensions: Iterable[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the text of execute_source refers to: declared functions by key, other names."""
    chosen = set(extensions)
    called, names = {}, {}
    for insn in isa.insns:
        if insn.extension in chosen and insn.timing not in HART_ACTS:
            expressions = _expressions(insn)
            if expressions is None:
                called[insn.key] = insn.function
            else:
                names.update(expressions[1])
    return called, names


def _branch(insn: Insn) -> Iterator[str]:
    """Yield the statements that execute an instruction."""
    inlined = _expressions(insn)
    if inlined is not None:
        values = inlined[0]
    else:
        call = f"{insn.key}({', '.join(_argument(insn, name) for name in insn.reads)})"
        values = [f"v{index}" for index in range(len(insn.writes))]
        if len(values) > 1:
            yield f"{', '.join(values)} = {call}"
        else:
            values = [call]
    for value, token in zip(values, insn.writes, strict=True):
        if token != LOST:
            yield _store(token, value)


def _expressions(insn: Insn) -> tuple[list[str], dict[str, Any]] | None:
    """Return a meaning's results as expressions of the row, with the names they use.

    None if the meaning is more than one expression, or a closure.
    """
    function = insn.function
    assert function is not None
    if function.__closure__:
        return None
    definition = _definition(function)
    statements = [s for s in definition.body if not _is_docstring(s)]
    if len(statements) != 1 or not isinstance(statements[0], ast.Return):
        return None
    returned = statements[0].value
    assert returned is not None
    parameters = [argument.arg for argument in definition.args.args]
    arguments = {
        parameter: ast.parse(_argument(insn, name), mode="eval").body
        for parameter, name in zip(parameters, insn.reads, strict=True)
    }
    replacer = _Substitution(arguments)
    value = replacer.visit(deepcopy(returned))
    parts = value.elts if len(insn.writes) > 1 and isinstance(value, ast.Tuple) else [value]
    if len(parts) != len(insn.writes):
        return None
    names = {
        name: function.__globals__[name] for name in replacer.names if name in function.__globals__
    }
    texts = [ast.unparse(part) for part in parts]
    if any("x[" in text for text in texts[1:]):
        return None  # it would read a register that the first part has written
    return texts, names


@cache
def _definition(function: Callable) -> ast.FunctionDef:
    """Return the syntax tree of a function."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _Substitution(ast.NodeTransformer):
    """A transformer that replaces parameters by arguments, and collects the other names."""

    def __init__(self, arguments: dict[str, ast.expr]):
        self.arguments = arguments
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.arguments:
            return self.arguments[node.id]
        self.names.add(node.id)
        return node


def _argument(insn: Insn, name: str) -> str:
    if name in HOISTED:
        return name.replace("f", "r") if name.startswith("f") else name
    if name in REGISTER_COLUMNS:
        return f'np.int64(x[row["{REGISTER_COLUMNS[name]}"]])'
    if name in ("pc", "boxed"):
        return {"pc": "pc", "boxed": 'int(hart["boxed"])'}[name]
    if name == "rm":
        mode = 'np.int64(row["rm"]) if row["rm"] != 7 else int(hart["frm"])'
        assert insn.function is not None
        if KNOW_RAISED & set(insn.function.__code__.co_names):
            if LOST in insn.writes:
                return f"({mode}) | {NX_RAISED}"
            return f'({mode}) | int(hart["fflags"]) << 3 & {NX_RAISED}'
        return mode
    if name in ("frm", "fflags"):
        return f'int(hart["{name}"])'
    if name == "size":
        return "size"
    if name == "L":
        return 'np.int64(row["loop"])'
    column = IMMEDIATE_COLUMNS[immediates(insn).index(name)]
    return "imm" if column == "imm" else f'np.int64(row["{column}"])'


def _store(token: str, value: str) -> str:
    if token in ("rd", "fd"):
        return f"value = {value}"
    if token == "rs1":
        return f'x[row["rp"]] = i32({value})'
    if token in ("addr", "pc"):
        return f"out = {value}"
    if token == "flags":
        return f'hart["fflags"] |= {value}'
    return f'hart["{token}"][row["loop"]] = u32({value})'
