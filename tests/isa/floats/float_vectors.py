"""Vectors of operands, results and flags, and which function of isa.floats.softfloat each file is
about.

A line is `operands result flags`, in hexadecimal; a file is named after its operation, formats and
rounding mode: `testfloat/f32_mulAdd_rne.txt`. Those of `testfloat` come from Berkeley TestFloat 3e,
RISC-V specialisation; those of `smallfloat` have the same form, for what TestFloat lacks.

`tests/oracles/floats.tar.xz` holds up to 300 lines of each file, evenly spaced. All lines, from a
directory with both folders, each file compressed by gzip:

    pytest tests/isa/floats/test_softfloat.py tests/isa/floats/test_hostfloat.py --vectors DIR
"""

import gzip
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from isa.floats.format import BF16, F8, F16, F32, RDN, RMM, RNE, RTZ, RUP, Format
from isa.floats.softfloat import (
    add,
    classify,
    convert,
    divide,
    equal,
    from_integer,
    less,
    less_equal,
    maximum,
    minimum,
    multiply,
    multiply_add,
    multiply_add_to,
    multiply_to,
    square_root,
    subtract,
    to_integer,
)
from isa.words import i32

ARCHIVE = Path(__file__).parents[2] / "oracles" / "floats.tar.xz"

FORMATS = {"f32": F32, "f16": F16, "bf16": BF16, "f8": F8}
MODES = {"rne": RNE, "rtz": RTZ, "rdn": RDN, "rup": RUP, "rmm": RMM}

Operation = Callable[[int, int, int, int], tuple[int, int]]  # a, b, c, rm -> result, flags


class Vectors(NamedTuple):
    """One file."""

    operation: Operation
    rm: int
    rows: list[tuple[int, int, int, int, int]]  # a, b, c (0 where not used), result, flags


def file_names(directory: Path | None) -> list[str]:
    """Names of files, without `.txt`: those in the archive or, if given, in a directory.

    Rounding to an integer of the same format is left out: no instruction does it.
    """
    if directory is None:
        names = [name.removesuffix(".txt") for name in _archive()]
    else:
        paths = [*directory.glob("testfloat/*.txt.gz"), *directory.glob("smallfloat/*.txt.gz")]
        names = [f"{path.parent.name}/{path.name.removesuffix('.txt.gz')}" for path in paths]
    return sorted(name for name in names if "_roundToInt_" not in name)


def read_vectors(name: str, directory: Path | None) -> Vectors:
    """Read a file from the archive or from a directory."""
    if directory is None:
        text = _archive()[f"{name}.txt"]
    else:
        text = gzip.decompress((directory / f"{name}.txt.gz").read_bytes())
    key, _, mode = name.partition("/")[2].rpartition("_")
    if mode not in MODES:
        key, mode = f"{key}_{mode}", "rne"  # an operation that does not round
    return Vectors(operation(key), MODES[mode], [_row(line) for line in text.decode().splitlines()])


@cache
def _archive() -> dict[str, bytes]:
    with tarfile.open(ARCHIVE) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def _row(line: str) -> tuple[int, int, int, int, int]:
    *operands, result, flags = (int(field, 16) for field in line.split())
    a, b, c = (*operands, 0, 0)[:3]
    return a, b, c, result, flags


@cache
def operation(key: str) -> Operation:
    """The function that a file is about: `f32_mulAdd`, `f32_to_i32`, `f16_mulex_s`."""
    source, name, *target = key.split("_")
    if name == "to":
        return _conversion(source, target[0])
    return OPERATIONS[name](FORMATS[source])


def _conversion(source: str, target: str) -> Operation:
    if source in ("i32", "ui32"):
        return _from_integer(FORMATS[target], source == "i32")
    if target in ("i32", "ui32"):
        return _to_integer(FORMATS[source], target == "i32")
    return _convert(FORMATS[source], FORMATS[target])


def _convert(f: Format, g: Format) -> Operation:
    return lambda a, b, c, rm: convert(f, g, a, rm)


def _from_integer(f: Format, is_signed: bool) -> Operation:
    if is_signed:
        return lambda a, b, c, rm: from_integer(f, i32(a), rm)
    return lambda a, b, c, rm: from_integer(f, a, rm)


def _to_integer(f: Format, is_signed: bool) -> Operation:
    lowest = -(1 << 31) if is_signed else 0

    def operation(a, b, c, rm):
        value, flags = to_integer(f, a, lowest, lowest + (1 << 32) - 1, rm)
        return value & 0xFFFFFFFF, flags

    return operation


def _binary(function: Callable) -> Callable[[Format], Operation]:
    return lambda f: lambda a, b, c, rm: function(f, a, b, rm)


def _unary(function: Callable) -> Callable[[Format], Operation]:
    return lambda f: lambda a, b, c, rm: function(f, a, rm)


def _unrounded(function: Callable) -> Callable[[Format], Operation]:
    return lambda f: lambda a, b, c, rm: function(f, a, b)


OPERATIONS: dict[str, Callable[[Format], Operation]] = {
    "add": _binary(add),
    "sub": _binary(subtract),
    "mul": _binary(multiply),
    "div": _binary(divide),
    "sqrt": _unary(square_root),
    "mulAdd": lambda f: lambda a, b, c, rm: multiply_add(f, a, b, c, rm),
    "mulex": lambda f: lambda a, b, c, rm: multiply_to(f, F32, a, b, rm),
    "macex": lambda f: lambda a, b, c, rm: multiply_add_to(f, F32, a, b, c, rm),
    "eq": _unrounded(equal),
    "lt": _unrounded(less),
    "le": _unrounded(less_equal),
    "min": _unrounded(minimum),
    "max": _unrounded(maximum),
    "class": lambda f: lambda a, b, c, rm: (classify(f, a), 0),
}


def first_difference(function, rm, rows):
    """Index of the first row whose result or flags are not the function's; -1 if there is none.

    Plain Python, and compilable: rows may be a list or an array.
    """
    for i in range(len(rows)):
        a, b, c, expected, expected_flags = rows[i]
        result, flags = function(a, b, c, rm)
        if result != expected or flags != expected_flags:
            return i
    return -1
