"""C[n, m] = A[n, k] B[k, m] at many points: without time on every kind of chip, and on the chip."""

import re
from pathlib import Path

import numpy as np
import pytest

from firmware.builder import KernelError
from firmware.runtime import STACK
from soc.run import run_program
from soc.spec import load_chip
from tests.firmware.machine import L1, L2, Machine
from trainlib.launch import launch, program
from trainlib.matmul_program import Arguments, grid

GOLDEN = Path(__file__).parent / "golden"
PULP = load_chip("pulp")
WARM = load_chip("pulp", {"icache.kind": "ideal"})  # as if every instruction were cached
CHIPS = {
    "ri5cy-x": PULP,
    "ri5cy-f": load_chip("pulp", {"core.float_registers": "f"}),
    "cv32e40p-x": load_chip("pulp-cv32e40p"),
    "cv32e40p-f": load_chip("pulp-cv32e40p", {"core.float_registers": "f"}),
}
POINTS = (
    {"n": 1, "k": 1, "m": 1},
    {"n": 1, "k": 7, "m": 1, "cores": 2},
    {"n": 8, "k": 2, "m": 4},
    {"n": 5, "k": 3, "m": 7, "cores": 1},
    {"n": 3, "k": 5, "m": 2, "split": "columns"},
    {"n": 13, "k": 4, "m": 11, "cores": 3},
    {"n": 6, "k": 3, "m": 9, "split": (4, 2)},
    {"n": 11, "k": 3, "m": 6, "split": (2, 4), "rows": 2, "cols": 2},
    {"n": 9, "k": 2, "m": 17, "split": (1, 8), "rows": 1, "cols": 8},
    {"n": 17, "k": 2, "m": 3, "split": (3, 2), "cores": 6, "rows": 8, "cols": 1},
    {"n": 5, "k": 3, "m": 5, "cores": 4, "rows": 1, "cols": 1},
    {"n": 4, "k": 1, "m": 520, "cores": 4},
    {"n": 4, "k": 520, "m": 1, "cores": 1, "cols": 4},
    {"n": 9, "k": 2, "m": 180, "cores": 2, "rows": 2, "cols": 8},
)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point.values())))
def test_every_shape_is_right_and_nothing_else_is_written(chip, point):
    built = program("matmul_f32", point, CHIPS[chip], guard=64)
    machine = Machine(built.program, built.isa)
    before = {base: bytes(memory) for base, memory in machine.memories.items()}
    machine.run()
    address, tensor = built.outputs["C"]
    c = np.frombuffer(machine.read(address, tensor.size), "<f4").reshape(tensor.shape)
    [(exact, bound)] = built.family.reference(built.arguments, built.inputs).values()
    assert (np.abs(c - exact) <= bound).all()
    assert machine.code == 0
    own = [
        (s.address, s.size) for s in built.program.symbols if s.name == "C" or "_in_L1" in s.name
    ]
    own.append((L1 + PULP.l1.size - STACK * PULP.cores, STACK * PULP.cores))
    for base in (L1, L2):
        after = bytearray(machine.memories[base])
        for start, size in own:
            if base <= start < base + len(after):
                after[start - base : start - base + size] = before[base][start - base :][:size]
        assert bytes(after) == before[base]


@pytest.mark.parametrize(
    "point",
    [
        {"n": 1, "k": 1, "m": 1},
        {"n": 25, "k": 36, "m": 13, "split": (4, 2)},
        {"n": 7, "k": 300, "m": 5, "cores": 2},
        {"n": 10, "k": 6, "m": 600, "split": "columns", "cores": 7},
        {"n": 17, "k": 19, "m": 23, "rows": 2, "cols": 2, "cores": 3},
    ],
    ids=lambda point: "-".join(map(str, point.values())),
)
def test_the_chip_computes_it(point):
    _, report = launch("matmul_f32", point, guard=64, max_cycles=1_000_000)
    assert (report.is_correct, report.stray_writes, report.result.warnings) == (True, [], ())
    assert report.macs == point["n"] * point["k"] * point["m"]
    assert 0 <= report.max_error < 1e-4


@pytest.mark.parametrize("chip", CHIPS)
def test_every_kind_of_chip_computes_it(chip, request):
    """The cores differ in what they execute; a regular run compiles the default chip's alone."""
    if chip != "ri5cy-x" and not request.config.getoption("--full"):
        pytest.skip("--full compiles the other cores")
    point = {"n": 25, "k": 36, "m": 13}
    _, report = launch("matmul_f32", point, CHIPS[chip], max_cycles=1_000_000)
    assert report.is_correct


def test_every_point_gives_the_same_sums_bit_for_bit():
    """Blocking and split change who adds when, not the order of a sum."""
    shape = {"n": 13, "k": 21, "m": 10}
    points = ({}, {"rows": 1, "cols": 8}, {"split": "columns"}, {"cores": 3, "rows": 2, "cols": 3})
    outputs = []
    for point in points:
        values, _ = launch("matmul_f32", shape | point, max_cycles=1_000_000)
        outputs.append(values["C"].tobytes())
    assert outputs == [outputs[0]] * len(points)


@pytest.mark.parametrize(
    ("point", "least"),
    [
        ({"n": 64, "k": 64, "m": 64}, 4.9),
        ({"n": 32, "k": 32, "m": 32}, 4.8),
        ({"n": 25, "k": 36, "m": 13, "split": (4, 2)}, 3.4),
    ],
)
def test_macs_per_cycle_do_not_fall_below_what_was_reached(point, least):
    """The bound of a 4 x 4 block is 5.33: eight cores, 16 multiply-adds in 24 instructions."""
    _, report = launch("matmul_f32", point, WARM, max_cycles=1_000_000)
    assert least <= report.macs_per_cycle <= 16 / 3


def test_the_inner_loop_waits_for_nothing_but_banks():
    _, report = launch("matmul_f32", {"n": 32, "k": 32, "m": 32}, WARM, max_cycles=1_000_000)
    assert set(report.stalls) <= {"l1_contention", "event"}


def test_the_listing_and_the_cycles_of_the_default_point_are_golden(request):
    built = program("matmul_f32", {"n": 32, "k": 32, "m": 32})
    result = built.named(run_program(built.program, max_cycles=1_000_000))
    lines = [f"{result.cycles} cycles"]
    for hart in result.to_json()["harts"]:
        regions = ", ".join(f"{r['name']} {r['cycles']}" for r in hart["regions"])
        lines.append(f"{hart['name']}: {hart['instructions']} instructions; {regions}")
    listing = re.sub(r"^(# \S+?):\d+: ", r"\1: ", built.listing(), flags=re.MULTILINE)
    text = "\n".join(lines) + "\n\n" + listing
    golden = GOLDEN / "matmul_f32.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text(), "a change is seen and explained: --update-golden"


def test_the_grid_of_cores_is_what_split_says():
    point = Arguments(n=8, k=8, m=8)
    assert grid(point, 8) == (8, 1)
    assert grid(point.model_copy(update={"split": "columns"}), 8) == (1, 8)
    assert grid(point.model_copy(update={"split": (2, 4)}), 8) == (2, 4)
    for parts in ((4, 4), (0, 8), (-2, -4)):
        with pytest.raises(
            KernelError,
            match=rf"^matmul_f32: split \[{parts[0]}, {parts[1]}\] is not 8 parts, one a core$",
        ):
            grid(point.model_copy(update={"split": parts}), 8)


def test_points_that_cannot_be_built_are_refused_before_anything_runs():
    shape = {"n": 32, "k": 32, "m": 32}
    with pytest.raises(
        KernelError,
        match=r"^matmul_f32: out of x registers: 8 more wanted, 3 of 30 free; make the blocking "
        r"smaller or free some in a scope$",
    ):
        program("matmul_f32", shape | {"rows": 8, "cols": 8})
    program("matmul_f32", shape | {"rows": 2, "cols": 8})
    with pytest.raises(
        KernelError,
        match=r"^L1: B_in_L1 of 40000 bytes does not fit: 16944 of 57344 bytes are left$",
    ):
        program("matmul_f32", {"n": 100, "k": 100, "m": 100})
    with pytest.raises(
        KernelError,
        match=r"^L2: A of 4398046511104 bytes does not fit: 1966080 of 1966080 bytes are left$",
    ):
        program("matmul_f32", {"n": 1 << 20, "k": 1 << 20, "m": 1})
    with pytest.raises(KernelError, match=r"^matmul_f32: 9 cores; the chip pulp has 1 to 8$"):
        program("matmul_f32", shape | {"cores": 9})
