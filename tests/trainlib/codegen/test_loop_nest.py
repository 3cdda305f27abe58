"""Nests of loops over elements: an operand that is given twice, and what cores have."""

import numpy as np
import pytest

from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.trainlib.primitives import WARM
from trainlib.codegen.nest_operands import Operand, dealt
from trainlib.elementwise.broadcast import broadcast_f32
from trainlib.elementwise.elementwise import map_nest
from trainlib.launch import launch
from trainlib.primitive.element import ELEMENTS

CHIP = load_chip("pulp")


def numbers(shape, dtype=np.float32):
    return np.random.default_rng(1).integers(-8, 9, shape).astype(dtype)


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("element", [*ELEMENTS], ids=lambda element: element.name)
@pytest.mark.parametrize("is_in_place", [False, True], ids=["apart", "in place"])
def test_its_elements_are_read_twice(is_in_place, element, cores):
    x = numbers(37, element.dtype)
    k = new_kernel(CHIP)
    with team_of(k, CHIP, cores) as team:
        at = k.data("x", x.tobytes())
        y = at if is_in_place else k.buffer(k.l2, "y", x.nbytes)
        broadcast_f32(k, team, "fmul", at, at, y, x.shape, x.shape, element=element)
    result = run_program(k.build(), CHIP)
    found = np.frombuffer(result.read(y, x.nbytes), element.dtype).astype(np.float32)
    np.testing.assert_array_equal(found, x.astype(np.float32) ** 2)


@pytest.mark.parametrize("row", [8, 1024], ids=["near", "far"])
@pytest.mark.parametrize("late", [(), (0,), (1,)], ids=str)
def test_its_elements_are_read_twice_whatever_lies_between_them(row, late):
    x = numbers((19, row))

    def product(k):
        def body(v, a, b):
            if callable(a):
                load, a = a, k.f(v.width)
                load(a)
            if callable(b):
                load, b = b, k.f(v.width)
                load(b)
            result = k.f(v.width)
            v.fmul_s(result, a, b)
            return [result]

        return body

    k = new_kernel(CHIP)
    with team_of(k, CHIP, 2) as team:
        at, y = k.data("x", x.tobytes()), k.buffer(k.l2, "y", 4 * len(x))
        column = Operand(at, (4 * row,), shift=4)
        map_nest(k, team, product, (len(x),), [column, column], [Operand(y, (4,))], late=late)
    result = run_program(k.build(), CHIP)
    np.testing.assert_array_equal(np.frombuffer(result.read(y, 4 * len(x)), "<f4"), x[:, 1] ** 2)


def test_cores_have_columns_in_different_banks():
    """Two instructions an element, where all elements of a column are in one bank."""
    _, report = launch("transpose_f32", {"shape": [64, 64], "axes": [1, 0]}, WARM)
    assert report.is_correct
    assert report.cycles < 1.3 * 2 * 64 * 64 / 8


def test_dealt_dimensions_have_the_same_elements():
    operands = [Operand(0, (4, 256)), Operand(0, (256, 4))]
    dims, moved = dealt((64, 64), operands, 8)
    assert dims == (8, 8, 64)
    for before, after in zip(operands, moved, strict=True):
        addresses = [
            sorted(sum(i * s for i, s in zip(at, steps, strict=True)) for at in np.ndindex(sizes))
            for sizes, steps in (((64, 64), before.steps), (dims, after.steps))
        ]
        assert addresses[0] == addresses[1]
    for unfit in ((20, 64), (64, 2)):
        assert dealt(unfit, operands, 8) == (unfit, operands)
