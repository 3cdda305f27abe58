"""What inner loops are made of: which inputs outputs read, and the order of loads and sums."""

import os
import subprocess
import sys

import numpy as np
import pytest

from trainlib.codegen.inner_loop import Body, Load, Mac, Use, Value, plan, reaches_of, window_of
from trainlib.conv.axis import Axis, Line, Read

AXES = (
    Axis(6, 8, 3),
    Axis(8, 8, 3, pad=1),
    Axis(4, 8, 3, stride=2, pad=1),
    Axis(5, 7, 2, stride=2, dilation=3, pad=2),
    Axis(3, 1, 2, pad=1, stride=2),
)


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_the_inverse_of_an_axis_has_the_same_reads(axis):
    reads = {
        (o, t, axis.source(o, t))
        for o in range(axis.outputs)
        for t in range(axis.taps)
        if axis.source(o, t) is not None
    }
    inverse = axis.inverse
    back = {
        (inverse.source(i, t), t, i)
        for i in range(inverse.outputs)
        for t in range(inverse.taps)
        if inverse.source(i, t) is not None
    }
    assert reads == back


@pytest.mark.parametrize("axis", [a for a in AXES if a.stride == 1], ids=str)
def test_an_inverse_of_stride_1_is_straight_with_its_taps_flipped(axis):
    inverse, flipped = axis.inverse, axis.inverse.flipped
    assert not flipped.is_transposed
    for o in range(inverse.outputs):
        for t in range(inverse.taps):
            assert flipped.source(o, inverse.taps - 1 - t) == inverse.source(o, t)


@pytest.mark.parametrize("axis", [*AXES, *(a.inverse for a in AXES)], ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("is_trimmed", [False, True])
def test_runs_have_all_reads_once(axis, width, is_trimmed):
    seen = []
    start = 0
    for run in axis.runs(width, is_trimmed=is_trimmed):
        assert run.first.start == start
        for time in range(run.times):
            base = run.first.base + time * run.step
            seen += [(start + r.q, r.tap, base + r.place) for r in run.first.reads]
            start += run.first.width
    assert start == axis.outputs
    assert sorted(seen) == sorted(
        (o, t, axis.source(o, t))
        for o in range(axis.outputs)
        for t in range(axis.taps)
        if axis.source(o, t) is not None
    )


@pytest.mark.parametrize("axis", [*AXES, *(a.inverse for a in AXES)], ids=str)
def test_a_line_is_its_reads_at_even_distances(axis):
    for o in range(axis.outputs):
        line = axis.line(o)
        reads = [(t, axis.source(o, t)) for t in range(axis.taps)]
        assert [read for read in reads if read[1] is not None] == [
            (line.tap + n * axis.tap_step, line.source + n * axis.source_step)
            for n in range(line.reads)
        ]


def test_the_middle_reads_nothing_outside():
    assert Axis(8, 8, 3, pad=1).middle == range(1, 7)
    assert Axis(4, 8, 3, stride=2, pad=1).middle == range(1, 4)
    assert Axis(6, 8, 3).middle == range(6)
    assert not Axis(3, 1, 2, pad=1, stride=2).middle


def test_borders_are_trimmed_to_where_the_middle_begins():
    assert Axis(8, 8, 3, pad=1).starts(4, is_trimmed=False) == [0, 4, 8]
    assert Axis(8, 8, 3, pad=1).starts(4, is_trimmed=True) == [0, 1, 5, 8]
    block = Axis(8, 8, 3, pad=1).block(0, 1)
    assert block.reads == (Read(0, 1, 0), Read(0, 2, 1))
    assert Axis(8, 8, 3, pad=1).line(0) == Line(2, 1, 0)


def macs_of(seed, count=60):
    """Random multiply-adds of few values, as a convolution has them."""
    random = np.random.default_rng(seed)
    return [
        Mac(
            int(random.integers(8)),
            Value("w", 4 * int(random.integers(9))),
            Value("x", 4 * (at // 6 + int(random.integers(5)))),
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("pool", [2, 3, 5, 9])
@pytest.mark.parametrize("seed", range(4))
def test_a_plan_does_every_multiply_add_in_order_with_the_values_it_names(pool, seed):
    macs = macs_of(seed)
    held, done = {}, []
    for step in plan(macs, pool):
        if isinstance(step, Load):
            assert 0 <= step.register < pool
            held[step.register] = step.value
        else:
            done.append(Mac(step.acc, held[step.u], held[step.v]))
    assert done == macs


def outputs_of(width, rows=3, taps=3):
    """A body of a gradient of weights: neighbouring outputs along x for some rows."""
    return [
        Mac(taps * r + t, Value("g", 64 * r + 4 * q), Value("x", 4 * (q + t)))
        for q in range(width)
        for r in range(rows)
        for t in range(taps)
    ]


@pytest.mark.parametrize("width", [2, 3, 4, 8])
@pytest.mark.parametrize("pool", [4, 5, 6, 9])
def test_what_a_round_has_loaded_for_the_next_is_where_that_looks_for_it(width, pool):
    macs, strides = outputs_of(width), {"g": 4 * width, "x": 4 * width}
    window = window_of((value for mac in macs for value in mac[1:]), strides)
    assert window == tuple((Value("x", 4 * i), Value("x", 4 * (i + width))) for i in range(2))
    steps = plan(macs, pool, window)
    if not steps:
        assert width < 3 or pool < 5, "there are registers enough"
        return
    held = {pool - 2 + at: value for at, (value, _) in enumerate(window)}
    for round_ in range(3):
        done = []
        for step in steps:
            if isinstance(step, Load):
                held[step.register] = step.value
            else:
                done.append(Mac(step.acc, held[step.u], held[step.v]))
        assert done == macs, round_
        held = {
            register: value._replace(offset=value.offset - strides[value.stream])
            for register, value in held.items()
        }


def test_a_window_saves_loads_in_a_loop_and_is_none_in_a_body_that_runs_once():
    macs, strides = outputs_of(3), {"g": 12, "x": 12}
    once, often = Body(macs, 7, strides), Body(macs, 7, strides, times=4)
    assert not once.window
    assert once.cycles == 27 + 9 + 5
    assert often.cycles == 27 + 9 + 3
    assert often.entry_cycles == 2


def test_there_is_no_window_that_a_round_shifts_within():
    """One output a round: of three taps, two are loaded two rounds before their last use."""
    assert not window_of([Value("x", 4 * t) for t in range(3)], {"x": 4})


def test_a_plan_with_enough_registers_loads_everything_once_and_waits_for_nothing():
    """Four outputs of three taps for four rows: 12 weights, 6 places, 48 multiply-adds."""
    macs = [
        Mac(4 * r + q, Value("w", 36 * r + 4 * t), Value("x", 4 * (q + t)))
        for t in range(3)
        for r in range(4)
        for q in range(4)
    ]
    body = Body(macs, 8, {"w": 144, "x": 256})
    assert sum(isinstance(step, Load) for step in body.steps) == 18
    assert sum(isinstance(step, Use) for step in body.steps) == 48
    assert body.cycles == 66


def test_what_is_far_apart_has_a_pointer_each():
    values = [Value("w", offset) for offset in (0, 2000, 2047, 2048, 5000)]
    macs = [Mac(0, value, Value("x", 8)) for value in values]
    assert reaches_of(macs, ("w", "x")) == [
        ("w", frozenset((0, 2000, 2047))),
        ("w", frozenset((2048,))),
        ("w", frozenset((5000,))),
        ("x", frozenset((8,))),
    ]
    body = Body(macs, 4, {"w": 4, "x": 4096})
    assert body.constants == [4096]
    assert [pointer.bias for pointer in body.pointers] == [2047, 2048, 5000, 8]


BUILD = """
from trainlib.launch import program

how = {"inputs": 4, "outputs": 6, "height": 9, "width": 10, "kernel": (3, 3)}
print(b"".join(part.data for part in program("tconv2d_fw_f32", how).program.segments).hex())
"""


def test_the_code_of_a_primitive_does_not_depend_on_hashes_of_strings(request):
    codes = {
        subprocess.run(
            [sys.executable, "-c", BUILD],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("012" if request.config.getoption("--full") else "01")
    }
    assert len(codes) == 1
