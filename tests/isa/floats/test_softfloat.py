"""Arithmetic on bit patterns against Berkeley TestFloat and vectors of the small formats."""

from functools import cache
from pathlib import Path

import numba
import numpy as np
import pytest
from numba import types

from isa.floats import hostfloat
from isa.floats.format import BF16, F8, F16, F32, NV, NX, OF, RNE, UF, Format, binary
from isa.floats.softfloat import add, multiply, multiply_add
from tests.isa.floats.compiled_forms import FORM, SIGNATURE, comparison
from tests.isa.floats.float_vectors import Vectors, file_names, first_difference, read_vectors


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "vectors" in metafunc.fixturenames:
        directory = metafunc.config.getoption("--vectors")
        metafunc.parametrize("vectors", file_names(directory), indirect=True)


@pytest.fixture
def vectors(request: pytest.FixtureRequest) -> Vectors:
    return read_vectors(request.param, request.config.getoption("--vectors"))


@pytest.fixture(scope="module")
def compiled_first_difference():
    """first_difference for functions compiled by Numba."""
    hostfloat.register()
    check = comparison(first_difference, FORM, types.int64, types.int64[:, ::1])
    compiled = cache(numba.njit(SIGNATURE))

    def run(vectors: Vectors) -> int:
        function = compiled(vectors.operation)
        return check(function, vectors.rm, np.array(vectors.rows, dtype=np.int64))

    return run


def line(vectors: Vectors, index: int) -> str:
    return "none" if index < 0 else " ".join(f"{field:x}" for field in vectors.rows[index])


def test_results_and_flags_are_those_of_the_vectors(vectors: Vectors) -> None:
    index = first_difference(vectors.operation, vectors.rm, vectors.rows)
    assert line(vectors, index) == "none"


@pytest.mark.sampled(28)
def test_compiled_results_and_flags_are_those_of_the_vectors(
    vectors: Vectors, compiled_first_difference
) -> None:
    assert line(vectors, compiled_first_difference(vectors)) == "none"


def test_a_directory_of_vectors_has_every_file_of_the_archive(request) -> None:
    directory: Path | None = request.config.getoption("--vectors")
    if directory is None:
        pytest.skip("needs --vectors DIR")
    assert file_names(directory) == file_names(None)


def test_the_archive_has_the_operations_of_all_four_formats() -> None:
    formats = {name.split("/")[1].split("_")[0] for name in file_names(None)}
    assert formats == {"f32", "f16", "bf16", "f8", "i32", "ui32"}
    assert len(file_names(None)) == 274
    assert sum(len(read_vectors(name, None).rows) for name in file_names(None)) > 80_000


@pytest.mark.parametrize(
    ("f", "emin", "infinity", "nan"),
    [
        (F32, -126, 0x7F800000, 0x7FC00000),
        (F16, -14, 0x7C00, 0x7E00),
        (BF16, -126, 0x7F80, 0x7FC0),
        (F8, -14, 0x7C, 0x7E),
    ],
)
def test_formats_have_the_patterns_of_the_manual(
    f: Format, emin: int, infinity: int, nan: int
) -> None:
    assert (f.emin, f.infinity, f.nan) == (emin, infinity, nan)


def test_patterns_may_be_signed_words() -> None:
    minus_one = 0xBF800000 - (1 << 32)
    assert add(F32, minus_one, minus_one, RNE) == (0xC0000000, 0)
    assert add(F16, 0xBC00 - (1 << 16), 0xFFFF_3C00, RNE) == (0, 0)


def test_a_value_is_tiny_if_it_is_below_the_normal_numbers_when_rounded_to_full_precision() -> None:
    below_one = 0x3F7FFFFF  # 1 - 2^-24
    smallest_normal, one_above = 0x00800000, 0x00800001
    assert multiply(F32, smallest_normal, below_one, RNE) == (smallest_normal, NX | UF)
    assert multiply(F32, one_above, below_one, RNE) == (smallest_normal, NX)


def test_infinity_times_zero_is_invalid_even_if_a_quiet_nan_is_added() -> None:
    assert multiply_add(F32, F32.infinity, 0, F32.nan, RNE) == (F32.nan, NV)


@pytest.mark.parametrize(
    ("rm", "positive", "negative"),
    [(0, 0x7C, 0xFC), (1, 0x7B, 0xFB), (2, 0x7B, 0xFC), (3, 0x7C, 0xFB), (4, 0x7C, 0xFC)],
)
def test_overflow_gives_infinity_or_the_largest_number_by_rounding_mode(
    rm: int, positive: int, negative: int
) -> None:
    largest = 0x7B
    assert add(F8, largest, largest, rm) == (positive, OF | NX)
    assert add(F8, largest | 0x80, largest | 0x80, rm) == (negative, OF | NX)


def test_a_format_is_described_by_the_widths_of_its_fields() -> None:
    assert binary(4, 3) == Format(width=8, fraction=3, emin=-6, infinity=0x78, nan=0x7C)
