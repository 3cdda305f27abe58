"""Meanings compiled by Numba give what they give in Python.

Regular runs compile one member of every eighth family of integer instructions (closures of one
function share its text); `--full` compiles every instruction of every profile.
"""

from collections.abc import Callable
from itertools import islice

import numba
import numpy as np

from isa.declare import Insn
from isa.extensions.profiles import profile
from isa.floats import hostfloat
from tests.isa.extensions.meanings import operands

CASES = 200
GROUP = 40  # meanings per compiled function: what they share is compiled once


def meanings(is_full: bool) -> list[Insn]:
    """Instructions of all profiles, one for each meaning or, in part, for some texts of one."""
    isas = [profile(core, "f", is_full) for core in ("ri5cy", "cv32e40p")]
    insns = [insn for isa in isas for insn in isa.insns if insn.writes]
    if is_full:
        return list({insn.function: insn for insn in insns}.values())
    return families(insns)[::8]


def families(insns: list[Insn]) -> list[Insn]:
    """One of the integer instructions of each text of a meaning."""
    integer = [insn for insn in insns if insn.extension != "rv32f"]
    return list({insn.function.__code__: insn for insn in integer}.values())


def compiled(insns: list[Insn]) -> Callable[[int, np.ndarray, np.ndarray], None]:
    """Return run(index, arguments, results): meaning of insns[index] for each row of arguments."""
    lines = ["def run(index, arguments, results):"]
    lines += ["    for row in range(arguments.shape[0]):"]
    for index, insn in enumerate(insns):
        call = ", ".join(f"arguments[row, {column}]" for column in range(len(insn.reads)))
        targets = ", ".join(f"results[row, {column}]" for column in range(len(insn.writes)))
        lines += [f"        if index == {index}:", f"            {targets} = f{index}({call})"]
    names = {f"f{index}": numba.njit(insn.function) for index, insn in enumerate(insns)}
    exec("\n".join(lines), names)
    return numba.njit(names["run"])


def test_compiled_meanings_equal_those_in_python(request):
    remaining = iter(meanings(request.config.getoption("--full")))
    hostfloat.register()  # what the modules of these have made callable, too
    wrong = []
    while insns := list(islice(remaining, GROUP)):
        run = compiled(insns)
        for index, insn in enumerate(insns):
            arguments = list(operands(insn, CASES))
            expected = [insn.function(*row) for row in arguments]
            if len(insn.writes) == 1:
                expected = [(value,) for value in expected]
            results = np.zeros((CASES, len(insn.writes)), dtype=np.int64)
            run(index, np.array(arguments, dtype=np.int64), results)
            if results.tolist() != [list(row) for row in expected]:
                wrong.append(insn)
    assert wrong == []
