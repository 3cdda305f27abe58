"""Primitives by tiles: on the chip, whatever the sizes, the buffers, the cores."""

import numpy as np
import pytest

from firmware.builder import KernelError
from soc.chip.spec import load_chip
from soc.run import ENGINES, run_program
from tests.firmware.machine import Machine
from tests.trainlib.tile_families import FAMILIES, Product
from trainlib.launch import launch, program
from trainlib.primitive.operator import Family
from trainlib.registry import KERNELS

SHAPE = {"n": 13, "k": 11, "m": 7}
POINTS = (
    ("product", SHAPE | {"tile": {}}),
    ("product", SHAPE | {"tile": {"n": 13, "k": 11, "m": 7}}),
    ("product", SHAPE | {"tile": {"n": 8, "k": 5, "m": 4}}),
    ("product", SHAPE | {"tile": {"n": 3, "k": 11, "m": 7}, "cores": 3}),
    ("product", SHAPE | {"tile": {"n": 13, "k": 2, "m": 7}, "cores": 1}),
    ("product", SHAPE | {"tile": {"n": 5, "k": 11, "m": 1}}),
    ("product", {"n": 1, "k": 1, "m": 1, "tile": {}}),
    ("vector", {"count": 100, "tile": {"i": 16}}),
    ("vector", {"count": 100, "tile": {"i": 99}, "cores": 3}),
    ("vector", {"count": 7, "tile": {"i": 1}}),
    ("vector", {"count": 100, "tile": {"i": 40}, "cores": 1}),
    ("windows", {"height": 7, "width": 9, "before": 1, "after": 1, "tile": {"y": 3, "x": 4}}),
    ("windows", {"height": 6, "width": 4, "before": 2, "after": 2, "tile": {"y": 1, "x": 5}}),
    ("windows", {"height": 5, "width": 5, "kernel": 1, "channels": 5, "tile": {"x": 2, "c": 2}}),
    ("spread", {"height": 7, "width": 9, "before": 1, "after": 1, "tile": {"y": 3, "x": 4}}),
    ("spread", {"height": 7, "width": 9, "kernel": 2, "stride": 3, "tile": {"y": 2, "x": 2}}),
)
ODD = {"height": 7, "width": 9, "before": 1, "stride": 2, "dilation": 2}


@pytest.fixture(autouse=True)
def families(monkeypatch):
    for family in FAMILIES:
        monkeypatch.setitem(KERNELS, family.name, family)


def run(kernel, point, chip="pulp"):
    outputs, report = launch(kernel, point, chip, guard=64, max_cycles=1_000_000)
    assert (report.result.exit.message, report.result.warnings) == ("", ())
    assert report.is_correct
    assert report.stray_writes == []
    return outputs, report


@pytest.mark.parametrize("buffers", [1, 2])
@pytest.mark.parametrize(("kernel", "point"), POINTS, ids=lambda value: str(value))
@pytest.mark.sampled
def test_every_tiling_computes_the_same_and_writes_nothing_else(kernel, point, buffers):
    run(kernel, point | {"buffers": buffers})


@pytest.mark.parametrize("kernel", ["windows", "spread"])
@pytest.mark.parametrize("tile", [{"y": 2, "x": 2}, {"y": 2, "x": 1, "c": 1}, {"y": 1, "x": 3}])
def test_windows_with_strides_and_gaps_are_cut_anywhere(kernel, tile):
    run(kernel, ODD | {"tile": tile})


def test_sums_that_are_cut_are_those_that_are_not_bit_for_bit():
    """Whatever the sizes, an element's terms are added in the same order."""
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(shape) for shape in ((13, 11), (11, 7)))
    outputs = []
    for tile in (None, {}, {"n": 5, "k": 11, "m": 3}, {"n": 5, "k": 4, "m": 3}):
        values, _ = launch("product", SHAPE | {"tile": tile}, inputs={"A": a, "B": b})
        outputs.append(values["C"].tobytes())
    assert outputs == [outputs[0]] * 4


def test_all_stays_in_l1_unless_tiles_are_asked_for_or_it_does_not_fit():
    def regions(point):
        return list(run("vector", point)[1].regions)

    assert regions({"count": 3000}) == ["dma_in", "compute", "dma_out"]
    assert regions({"count": 3000, "tile": {}}) == ["compute", "dma_wait"]
    assert regions({"count": 5000}) == ["compute", "dma_wait"]


def test_two_buffers_hide_what_the_dma_does():
    point = {"count": 9000, "tile": {"i": 500}}
    one, two = (run("vector", point | {"buffers": buffers})[1] for buffers in (1, 2))
    assert one.dma_overlap < 0.2
    assert two.dma_overlap > 0.7
    assert two.cycles < 0.8 * one.cycles


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_a_step_costs_few_cycles(cores):
    """Beside the computation: barriers, commands, the way to the function and back."""
    cycles = [
        run("nothing", {"count": 8 * steps, "tile": {"i": 8}, "cores": cores})[1].cycles
        for steps in (10, 30)
    ]
    assert (cycles[1] - cycles[0]) / 20 < 110


def test_bad_tiles_are_refused_before_anything_runs():
    with pytest.raises(KernelError, match=r"^product: tile.i = 3: no such dimension; there are n"):
        program("product", SHAPE | {"tile": {"i": 3}})
    tile = {"n": 200, "k": 100, "m": 100}
    with pytest.raises(
        KernelError,
        match=r"^product: a tile of n = 200, m = 100, k = 100 needs 364800 bytes of L1 with "
        r"buffers = 2, 57344 are free; the largest that fits is n = 45, m = 50, k = 50$",
    ):
        program("product", {"n": 400, "k": 100, "m": 100, "tile": tile})
    with pytest.raises(
        KernelError,
        match=r"^product: L2: B of 1600000 bytes does not fit: 366080 of 1966080 bytes are left$",
    ):
        program("product", {"n": 1000, "k": 400, "m": 1000})


def test_more_tiles_than_a_schedule_has_room_for_are_refused_at_once():
    with pytest.raises(
        KernelError,
        match=r"^vector: 150000 tiles need 4200000 bytes of L2 for their schedule at least, 165696 "
        r"are left; make them larger$",
    ):
        program("vector", {"count": 150_000, "tile": {"i": 1}})


def test_a_primitive_without_tiles_says_so(monkeypatch):
    product = KERNELS["product"]
    lump = Family("lump", Product, product.tensors, product.reference, product.macs, print)
    monkeypatch.setitem(KERNELS, "lump", lump)
    with pytest.raises(KernelError, match=r"^lump: it has no tiles; leave tile out$"):
        program("lump", SHAPE | {"tile": {}})


def test_small_l1_and_other_chips_do():
    run("product", {"n": 40, "k": 30, "m": 20}, load_chip("pulp", {"l1.size": 0x3000}))
    run("product", SHAPE | {"tile": {"n": 4}}, load_chip("pulp", {"cores": 2}))


CHIPS = {
    "ri5cy-f": load_chip("pulp", {"core.float_registers": "f"}),
    "cv32e40p-x": load_chip("pulp-cv32e40p"),
    "cv32e40p-f": load_chip("pulp-cv32e40p", {"core.float_registers": "f"}),
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("kernel", "point"),
    [
        ("product", SHAPE | {"tile": {"n": 8, "k": 5, "m": 4}}),
        ("product", SHAPE | {"tile": {"n": 5, "k": 4}, "cores": 2, "buffers": 1}),
        ("vector", {"count": 50, "tile": {"i": 16}, "cores": 1}),
    ],
    ids=["product", "one buffer", "one core"],
)
def test_every_kind_of_chip_works_through_tiles(kernel, point, chip):
    """Without time: the cores differ in what they execute."""
    built = program(kernel, point, CHIPS[chip])
    machine = Machine(built.program, built.isa).run()
    assert machine.code == 0
    for name, (exact, _) in built.family.reference(built.arguments, built.inputs).items():
        address, tensor = built.outputs[name]
        left = np.frombuffer(machine.read(address, tensor.size), tensor.dtype)
        assert left.tolist() == exact.ravel().tolist()


def test_both_engines_take_the_same_cycles():
    point = {"count": 30, "tile": {"i": 12}, "cores": 2}
    results = [run_program(program("vector", point).program, engine=e) for e in ENGINES]
    assert len({result.cycles for result in results}) == 1
