"""Bytes that programs take, against shapes, and against where the launcher puts things."""

from itertools import pairwise

import pytest

from autotuner.footprint import Footprint
from soc.chip.spec import load_chip
from trainlib.launch import launch, program

CHIP = load_chip("pulp")
FC = {"inputs": 100, "outputs": 30}
IMAGES = {"height": 9, "width": 7, "kernel": 3, "padding": 1}
STEPS = [
    (f"{kind}_{step}_f32", arguments)
    for kind, arguments in (
        ("linear", FC | {"bias": True}),
        ("conv2d", IMAGES | {"inputs": 6, "outputs": 5}),
        ("dwconv2d", IMAGES | {"inputs": 6}),
        ("pwconv2d", {"inputs": 6, "outputs": 5, "height": 9, "width": 7}),
    )
    for step in ("fw", "wg", "ig")
]


@pytest.mark.parametrize(("kernel", "arguments"), STEPS)
@pytest.mark.sampled(2)
def test_tensors_take_what_arrays_take_that_go_in_and_come_out(kernel, arguments):
    built = program(kernel, arguments)
    outputs, _ = launch(kernel, arguments)
    arrays = built.inputs | outputs
    found = Footprint.of(built, CHIP)
    assert found.tensors == {name: ("f32", array.nbytes) for name, array in arrays.items()}
    assert found.tensor_bytes == sum(array.nbytes for array in arrays.values())
    sizes = {name: array.nbytes for name, array in arrays.items()}
    if kernel == "linear_fw_f32":
        sizes["W"] = 4 * 30 * (100 + 14)  # rows are 2 words apart, modulo 16 banks
    has_parts = kernel in ("linear_fw_f32", "pwconv2d_wg_f32")  # of 30 sums
    parts = {"parts": 8 * 4 * 30} if has_parts else {}
    assert found.buffers == {f"{name}_in_L1": size for name, size in sizes.items()} | parts
    tasks = sum(s.size for s in built.program.symbols if s.name == "tasks")  # of cores
    assert found.tables - tasks <= 4 * 9  # a word for each tap


@pytest.mark.parametrize(("kernel", "arguments"), STEPS)
@pytest.mark.sampled(2)
def test_nothing_overlaps_and_the_last_buffer_ends_where_it_says(kernel, arguments):
    built = program(kernel, arguments | {"tile": {}})
    found = Footprint.of(built, CHIP)
    objects = sorted((s.address, s.size) for s in built.program.symbols if s.kind == "object")
    for (address, size), (following, _) in pairwise(objects):
        assert address + size <= following
    ends = [a + size - CHIP.l1.base for a, size in objects if a < CHIP.l1.base + CHIP.l1.size]
    assert found.l1_bytes == max(ends) <= CHIP.l1.size - found.stacks
    assert found.tensor_bytes + sum(found.buffers.values()) + found.tables == sum(
        size for _, size in objects
    )
    assert 0 < found.code < 1 << 15


def test_tiles_have_the_buffers_that_arithmetic_says():
    tile = {"co": 32, "ci": 64}
    fc = {"inputs": 640, "outputs": 128}
    for buffers in (1, 2):
        built = program("linear_fw_f32", fc | {"tile": tile, "buffers": buffers})
        wanted = {}
        for name, size, slots in (
            ("X", 4 * (64 + 16), 10),  # begins in a bank of its own, as W does; all of it stays
            ("W", 4 * (32 * (64 + 2) + 16), buffers),
            ("Y", 4 * 32, buffers),
        ):
            wanted |= {f"{name}_in_L1_{slot}": size for slot in range(slots)}
        found = Footprint.of(built, CHIP)
        entries = found.buffers["entries"]
        assert found.buffers == wanted | {"entries": entries}
        fetched = sum(s.size for s in built.program.symbols if s.name == "lines")
        steps = (found.tables - fetched) // (entries // 3)
        assert found.tables == steps * entries // 3 + fetched  # a ring of three of the entries
        assert steps > 40


def test_integers_and_programs_of_several_primitives_have_their_types_and_all_their_buffers():
    pool = program("maxpool2d_fw_f32", {"c": 2, "h": 4, "w": 4, "kernel": [2, 2]})
    assert {dtype for dtype, _ in Footprint.of(pool, CHIP).tensors.values()} == {"f32", "i32"}
    layers = [
        {"kind": "linear", "outputs": 300},
        {"kind": "relu"},
        {"kind": "linear", "outputs": 4},
    ]
    network = program("train_f32", {"input": [300], "layers": layers, "lr": 0.1})
    found = Footprint.of(network, CHIP)
    assert found.tensors["weight_0"] == ("f32", 4 * 300 * 300)
    assert found.tensors["loss"] == ("f32", 4)
    assert sum(found.buffers.values()) > found.l1_bytes  # layers use it one after the other
    assert len([name for name in found.buffers if name.startswith("entries")]) > 1
