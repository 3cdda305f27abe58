"""Binary32 arithmetic on the host's floating-point unit: equal to its definition, flags included.

`--full` compares five million operand triples per operation instead of some hundred thousand.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import numba
import numpy as np
import pytest
from numba import types

from isa.compiled import NX_RAISED
from isa.floats import hostfloat
from isa.floats.format import F32, NX, RNE, TOP, normalize
from isa.floats.softfloat import (
    add,
    divide,
    f32_add,
    f32_divide,
    f32_from_integer,
    f32_multiply,
    f32_multiply_add,
    f32_square_root,
    f32_subtract,
    from_integer,
    multiply,
    multiply_add,
    square_root,
    subtract,
)
from isa.words import JITABLE, i32, u32
from tests.isa.floats.compiled_forms import FORM, OPERANDS, comparison, compiled
from tests.isa.floats.float_vectors import file_names, first_difference, read_vectors

CHUNK = 250_000
EDGE_EXPONENTS = np.array([0, 0, 1, 1, 2, 3, 24, 103, 104, 126, 127, 128, 150, 252, 253, 254, 255])
EDGE_FRACTIONS = np.array([0, 0, 1, 2, 0x3FFFFF, 0x400000, 0x400001, 0x555555, 0x7FFFFE, 0x7FFFFF])

FAST = {  # operation -> its compiled form, its definition
    "f32_add": (lambda a, b, c, rm: f32_add(a, b, rm), lambda a, b, c, rm: add(F32, a, b, rm)),
    "f32_sub": (
        lambda a, b, c, rm: f32_subtract(a, b, rm),
        lambda a, b, c, rm: subtract(F32, a, b, rm),
    ),
    "f32_mul": (
        lambda a, b, c, rm: f32_multiply(a, b, rm),
        lambda a, b, c, rm: multiply(F32, a, b, rm),
    ),
    "f32_mulAdd": (
        lambda a, b, c, rm: f32_multiply_add(a, b, c, rm),
        lambda a, b, c, rm: multiply_add(F32, a, b, c, rm),
    ),
    "f32_div": (
        lambda a, b, c, rm: f32_divide(a, b, rm),
        lambda a, b, c, rm: divide(F32, a, b, rm),
    ),
    "f32_sqrt": (
        lambda a, b, c, rm: f32_square_root(a, rm),
        lambda a, b, c, rm: square_root(F32, a, rm),
    ),
    "i32_to_f32": (
        lambda a, b, c, rm: f32_from_integer(i32(a), rm),
        lambda a, b, c, rm: from_integer(F32, i32(a), rm),
    ),
    "ui32_to_f32": (
        lambda a, b, c, rm: f32_from_integer(u32(a), rm),
        lambda a, b, c, rm: from_integer(F32, u32(a), rm),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    hostfloat.register()


@pytest.fixture(scope="module")
def forms() -> dict:
    return {key: tuple(map(compiled, both)) for key, both in FAST.items()}


def patterns(rng: np.random.Generator, count: int) -> np.ndarray:
    """Words whose exponents and fractions are random or, as often, at the edges of their ranges."""
    exponent = np.where(
        rng.random(count) < 0.5, rng.choice(EDGE_EXPONENTS, count), rng.integers(0, 256, count)
    )
    fraction = np.where(
        rng.random(count) < 0.3, rng.choice(EDGE_FRACTIONS, count), rng.integers(0, 1 << 23, count)
    )
    return rng.integers(0, 2, count) << 31 | exponent << 23 | fraction


def triples(rng: np.random.Generator, count: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Chunks of operands: any three, some near cancellation in a * b + c or a - b, some zeros."""
    while count > 0:
        a, b, c = (patterns(rng, CHUNK) for _ in range(3))
        kind = rng.integers(0, 4, CHUNK)
        with np.errstate(all="ignore"):
            product = a.astype(np.uint32).view(np.float32) * b.astype(np.uint32).view(np.float32)
        opposite = product.view(np.uint32).astype(np.int64) ^ 1 << 31
        c = np.where(kind == 1, opposite + rng.integers(-2, 3, CHUNK) & 0xFFFFFFFF, c)
        b = np.where(kind == 2, a + rng.integers(-2, 3, CHUNK) & 0xFFFFFFFF, b)
        a = np.where((kind == 3) & (rng.random(CHUNK) < 0.5), a & 1 << 31, a)
        c = np.where((kind == 3) & (rng.random(CHUNK) < 0.5), c & 1 << 31, c)
        yield a, b, c
        count -= CHUNK


def first_unequal(one, other, a, b, c, rm):
    for i in range(a.size):
        if one(a[i], b[i], c[i], rm[i]) != other(a[i], b[i], c[i], rm[i]):
            return i
    return -1


def differing_operands(one, other, seed: int, count: int) -> list[str]:
    """Operands and rounding mode of a case in which two compiled functions differ, or []."""
    rng = np.random.default_rng(seed)
    for a, b, c in triples(rng, count):
        rm = np.where(rng.random(CHUNK) < 0.9, RNE, rng.integers(0, 5, CHUNK))
        index = comparison(first_unequal, FORM, FORM, *OPERANDS)(one, other, a, b, c, rm)
        if index >= 0:
            return [f"{operand[index]:x}" for operand in (a, b, c, rm)]
    return []


@pytest.mark.parametrize("key", FAST)
def test_results_and_flags_are_those_of_the_vectors(
    key: str, forms: dict, request: pytest.FixtureRequest
) -> None:
    directory = request.config.getoption("--vectors")
    names = [name for name in file_names(directory) if name.startswith(f"testfloat/{key}_")]
    assert len(names) == 5
    check = comparison(first_difference, FORM, types.int64, types.int64[:, ::1])
    for name in names:
        vectors = read_vectors(name, directory)
        rows = np.array(vectors.rows, dtype=np.int64)
        index = check(forms[key][0], vectors.rm, rows)
        assert index < 0, f"{name}: {vectors.rows[index]}"


@pytest.mark.parametrize("key", FAST)
def test_results_and_flags_are_those_of_the_definition(
    key: str, forms: dict, request: pytest.FixtureRequest
) -> None:
    count = 5_000_000 if request.config.getoption("--full") else 200_000
    assert differing_operands(*forms[key], seed=1, count=count) == []


def first_unequal_but_for_nx(one, other, a, b, c, rm):
    for i in range(a.size):
        value, flags = one(a[i], b[i], c[i], rm[i] | NX_RAISED)
        expected, its_flags = other(a[i], b[i], c[i], rm[i])
        if value != expected or (flags | NX) != (its_flags | NX):
            return i
    return -1


@pytest.mark.parametrize("key", ["f32_add", "f32_sub", "f32_mul", "f32_mulAdd"])
def test_where_nx_is_raised_already_nothing_else_differs(key: str, forms: dict) -> None:
    rng = np.random.default_rng(4)
    for a, b, c in triples(rng, 2 * CHUNK):
        rm = np.where(rng.random(CHUNK) < 0.9, RNE, rng.integers(0, 5, CHUNK))
        index = comparison(first_unequal_but_for_nx, FORM, FORM, *OPERANDS)(
            *forms[key], a, b, c, rm
        )
        assert index < 0, [f"{operand[index]:x}" for operand in (a, b, c, rm)]


def test_a_product_and_a_sum_are_not_contracted_into_a_fused_operation() -> None:
    @compiled
    def one(a, b, c, rm):
        product, flags = f32_multiply(a, b, rm)
        total, more_flags = f32_add(product, c, rm)
        return total, flags | more_flags

    @compiled
    def other(a, b, c, rm):
        product, flags = multiply(F32, a, b, rm)
        total, more_flags = add(F32, product, c, rm)
        return total, flags | more_flags

    assert differing_operands(one, other, seed=2, count=CHUNK) == []


def test_the_search_for_differences_finds_a_fused_operation_in_place_of_two() -> None:
    @compiled
    def two(a, b, c, rm):
        product, flags = multiply(F32, a, b, rm)
        total, more_flags = add(F32, product, c, rm)
        return total, flags | more_flags

    fused = compiled(FAST["f32_mulAdd"][0])
    assert differing_operands(fused, two, seed=2, count=CHUNK) != []


def test_leading_zeros_normalize_as_the_definition_does() -> None:
    normalized = numba.njit(lambda exponent, significand: normalize(exponent, significand))
    for bit in range(TOP + 1):
        for significand in (1 << bit, (2 << bit) - 1, 1 << bit | 1):
            assert normalized(7, significand) == normalize(7, significand)


def test_no_function_has_two_compiled_forms() -> None:
    assert hostfloat.COMPILED.keys() & set(JITABLE) == set()


NO_FMA = """
import numba
from isa.floats import hostfloat
from tests.isa.floats.compiled_forms import SIGNATURE
from tests.isa.floats.test_hostfloat import FAST, differing_operands

hostfloat.register()
one, other = (numba.njit(SIGNATURE)(form) for form in FAST["f32_mulAdd"])
print(differing_operands(one, other, seed=3, count=1))
code = "".join(one.inspect_asm().values())
print("fmaf" in code, "vfmadd" in code)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors always have fma")
def test_a_host_without_fused_multiply_add_gives_the_same() -> None:
    env = os.environ | {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"}
    done = subprocess.run(
        [sys.executable, "-c", NO_FMA], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "True False"]


def test_declarations_do_not_import_numba() -> None:
    script = (
        "import sys, isa.extensions.profiles; print('numba' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]
