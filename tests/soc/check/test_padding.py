"""Kernels of halves at odd sizes run clean, and what is in the padding of rows changes no bit.

Rows of halves begin with words in L1, so an odd one ends with a half that nobody writes. Kernels
may load it with the half before it: the checks are told so (see soc.check.given), and this is why
they may be. `pytest --full tests/soc/check/test_padding.py`: every kernel of halves.
"""

import numpy as np
import pytest

from firmware.registers import ZERO
from firmware.runtime import new_kernel, team_of
from soc.chip.spec import load_chip
from soc.run import carry_out, prepare, run_program
from tests.trainlib.test_halves import NAMES, POINTS
from trainlib.launch import program
from trainlib.primitive.element import HALVES

NOT_A_NUMBER = 0x7FC07FC0
"""Of all three types."""

IMAGE = {"kernel": 3, "inputs": 3, "height": 7, "width": 7}
ODD_PRODUCTS: dict[str, tuple[dict, ...]] = {
    "matmul": (
        {"n": 5, "k": 7, "m": 9},
        {"n": 4, "k": 8, "m": 9, "accumulate": True},
        {"n": 3, "k": 9, "m": 4, "trans_b": True, "bias": "column"},
        {"n": 7, "k": 5, "m": 3, "trans_a": True},
        {"n": 7, "k": 5, "m": 3, "trans_a": True, "trans_b": True},
        {"n": 25, "k": 37, "m": 13, "tile": {"n": 9, "m": 5}},
    ),
    "matmul_batched": (
        {"batch": 3, "n": 5, "k": 7, "m": 9},
        {"batch": 2, "n": 3, "k": 9, "m": 5, "trans_b": True},
        {"batch": 2, "n": 7, "k": 5, "m": 3, "trans_a": True, "accumulate": True},
    ),
    **{
        f"linear_{step}": (
            {"inputs": 7, "outputs": 5},
            {"batch": 3, "inputs": 33, "outputs": 17},
        )
        for step in ("fw", "wg", "ig")
    },
    **{
        f"pwconv2d_{step}": (
            {"inputs": 3, "outputs": 7, "height": 5, "width": 5},
            {"inputs": 9, "outputs": 5, "height": 3, "width": 7, "batch": 2, "layout": "hwc"},
        )
        for step in ("fw", "wg", "ig")
    },
    **{
        f"{kind}_{step}": tuple(
            IMAGE | how | ({} if kind == "dwconv2d" else {"outputs": 5})
            for how in (
                {"padding": 1},
                {"height": 9, "width": 9, "stride": 2},
                {"padding": 1, "layout": "hwc", "batch": 2},
                *([{"padding": 1, "method": "columns"}] if kind == "conv2d" else []),
            )
        )
        for kind in ("conv2d", "dwconv2d", "tconv2d")
        for step in ("fw", "wg", "ig")
    },
}
ODD_CASTS = [
    (f"cast_{names[0]}_{names[1]}", {"shape": shape})
    for half in HALVES
    for names in (("f32", half.name), (half.name, "f32"))
    for shape in ((5, 7), (1,))
]
ALL = [
    *POINTS,
    *ODD_CASTS,
    *(
        (f"{stem}_{half.name}", how)
        for half in HALVES
        for stem, shapes in ODD_PRODUCTS.items()
        for how in shapes
    ),
]


def test_every_kernel_of_halves_is_there():
    assert {*NAMES} <= {kernel for kernel, _ in ALL}


@pytest.mark.sampled(40)
@pytest.mark.parametrize(("kernel", "how"), ALL, ids=str)
def test_an_odd_kernel_runs_clean_whatever_padding_holds(kernel, how):
    built = program(kernel, how)
    plain = run_program(built.program, "pulp", checks=("memory",))
    assert [finding.message for finding in plain.checked.findings] == []
    simulation = prepare(built.program, load_chip("pulp"), "compiled")
    simulation.chip.l1[:] = NOT_A_NUMBER
    filled = carry_out(simulation, None)
    for result in (plain, filled):
        assert (result.exit.reason, result.exit.code) == ("exit", 0)
    expected = built.read(plain)
    for name, array in built.read(filled).items():
        np.testing.assert_array_equal(array.view(np.uint8), expected[name].view(np.uint8))


def findings(name: str, stores: list[tuple[str, int]], load: str, offset: int) -> list[str]:
    """What the check says to a load, after stores to a buffer, a part of which has this name."""
    k = new_kernel(load_chip("pulp"), "padding")
    address = k.buffer(k.l1, "row", 16)
    k.name_part(name, address, 16)
    with team_of(k, load_chip("pulp"), 1), k.scope():
        place, value = k.x(2)
        k.li(place, address)
        for form, at in stores:
            getattr(k, form)(ZERO, at, place)
        getattr(k, load)(value, offset, place)
    return [f.kind for f in run_program(k.build(), checks=("memory",)).checked.findings]


@pytest.mark.parametrize(
    ("name", "stores", "load", "offset", "found"),
    [
        ("padded_halves_row", [("sh", 4)], "lw", 4, []),
        ("plain_row", [("sh", 4)], "lw", 4, ["unwritten"]),
        ("padded_halves_row", [("sh", 6)], "lw", 4, ["unwritten"]),
        ("padded_halves_row", [], "lw", 4, ["unwritten"]),
        ("padded_halves_row", [("sw", 0)], "lw", 4, ["unwritten"]),
        ("padded_halves_row", [("sb", 4)], "lw", 4, ["unwritten"]),
        ("padded_words_row", [("sw", 0)], "lw", 4, []),
        ("padded_words_row", [("sh", 0)], "lw", 4, ["unwritten"]),
        ("padded_words_row", [("sw", 0)], "lw", 8, ["unwritten"]),
        ("plain_row", [("sw", 0)], "lw", 4, ["unwritten"]),
        ("padded_words_row", [], "lw", 0, ["unwritten"]),
    ],
)
def test_padding_is_the_element_after_what_is_written(name, stores, load, offset, found):
    assert findings(name, stores, load, offset) == found
