"""Calls of primitives in a network."""

import pytest
from pydantic import ValidationError

from trainlib.calls.call import Call, point_of
from trainlib.calls.primitives import FILES, PRIMITIVES


def test_each_primitive_has_a_name_of_its_own() -> None:
    families = [family for file in FILES for family in file.FAMILIES]
    assert len(families) == len(PRIMITIVES) == len({family.name for family in families})


def test_a_call_has_the_arguments_of_its_primitive_and_its_network_s_cores() -> None:
    call = Call("fc", "matmul_f32", {"n": 4, "k": 8, "m": 2}, {"A": "x", "B": "w", "C": "y"})
    family, point = point_of(call, cores=4)
    assert family.name == "matmul_f32"
    assert (point.n, point.k, point.m, point.cores) == (4, 8, 2, 4)
    assert call.operands.keys() == family.tensors(point).keys()


def test_arguments_that_a_primitive_does_not_have_are_refused() -> None:
    with pytest.raises(ValidationError, match="depth"):
        point_of(Call("fc", "matmul_f32", {"n": 4, "k": 8, "m": 2, "depth": 1}, {}), cores=None)
