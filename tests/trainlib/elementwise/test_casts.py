"""Casts between single precision and halves, against PyTorch and against the instructions."""

import numpy as np
import pytest

from firmware.builder import KernelError
from tests.trainlib.primitives import GUARD, LONGEST, WARM
from trainlib.launch import launch, program
from trainlib.primitive.element import BF16, F16, F32

SHAPES = [(1,), (7,), (16, 8), (5, 3), (3, 4, 9)]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 6e-8, 2.98e-8, 65519.9, 65520.0, 3.4e38, 1.0]
HALVES = pytest.mark.parametrize("half", [F16, BF16], ids=lambda half: half.name)


def cast(source, target, values, **arguments):
    """What the chip makes of values; nothing else is written."""
    name = f"cast_{source.name}_{target.name}"
    how = {"shape": list(values.shape), **arguments}
    outputs, report = launch(name, how, WARM, {"X": values}, guard=GUARD, max_cycles=LONGEST)
    assert report.is_correct
    assert report.stray_writes == []
    assert report.result.warnings == ()
    return outputs["Y"]


def drawn(shape):
    numbers = np.random.default_rng(5)
    values = numbers.standard_normal(shape).astype(np.float32) * np.float32(100)
    return np.where(numbers.random(shape) < 0.3, numbers.choice(SPECIAL, shape), values)


@HALVES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_casts_round_as_pytorch_does(half, shape):
    torch = pytest.importorskip("torch")
    kind = {"f16": torch.float16, "bf16": torch.bfloat16}[half.name]
    with np.errstate(over="ignore"):
        values = drawn(shape).astype(np.float32)
    narrow = cast(F32, half, values)
    expected = torch.from_numpy(values).to(kind)
    np.testing.assert_array_equal(narrow.astype(np.float32), expected.float().numpy())
    signs = np.signbit(narrow.astype(np.float32)), np.signbit(expected.float().numpy())
    np.testing.assert_array_equal(*(s[~np.isnan(values)] for s in signs))
    with np.errstate(invalid="ignore"):
        back = cast(half, F32, narrow)
    np.testing.assert_array_equal(back, expected.float().numpy())


@HALVES
def test_tiles_of_odd_sizes_are_cast_alone(half):
    values = drawn((6, 11)).astype(np.float32)
    narrow = cast(F32, half, values, tile={"d0": 4, "d1": 5}, unroll=3)
    cast(half, F32, narrow, tile={"d0": 4, "d1": 5}, cores=3)


def test_casts_need_small_floats():
    with pytest.raises(KernelError, match=r"^cast_f32_f16: the chip.s cores have no small "):
        program("cast_f32_f16", {"shape": [4]}, "pulp-cv32e40p")
