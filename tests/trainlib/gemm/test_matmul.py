"""C[n, m] = A[n, k] B[k, m] at many points: without time on every kind of chip, and on the chip."""

import re

import pytest

from firmware.builder import KernelError
from tests.trainlib.cluster import CHIPS, PULP, WARM, is_right_without_time, random, run
from trainlib.gemm.matmul import matmul_f32, nearly_cost, timed_blocking
from trainlib.gemm.operands import Operands
from trainlib.launch import launch, program
from trainlib.reference import matmul as reference

POINTS = (
    {"n": 1, "k": 1, "m": 1},
    {"n": 1, "k": 7, "m": 1, "cores": 2},
    {"n": 8, "k": 2, "m": 4, "accumulate": True},
    {"n": 5, "k": 3, "m": 7, "cores": 1, "bias": "row"},
    {"n": 3, "k": 5, "m": 2, "split": (1, 2), "trans_a": True},
    {"n": 13, "k": 4, "m": 11, "cores": 3, "trans_b": True, "bias": "column"},
    {"n": 6, "k": 3, "m": 9, "split": (4, 2), "unroll": 2},
    {"n": 11, "k": 3, "m": 6, "split": (2, 4), "rows": 2, "cols": 2, "unroll": 2},
    {"n": 9, "k": 2, "m": 17, "split": (1, 8), "rows": 1, "cols": 3, "trans_a": True},
    {"n": 17, "k": 2, "m": 3, "split": (3, 2), "cores": 6, "rows": 6, "cols": 1},
    {"n": 5, "k": 3, "m": 5, "cores": 4, "rows": 1, "cols": 1, "accumulate": True},
    {"n": 4, "k": 1, "m": 520, "cores": 4, "accumulate": True},
    {"n": 4, "k": 520, "m": 1, "cores": 1, "cols": 1, "unroll": 5},
    *({"n": 2, "k": k, "m": 2, "rows": 1, "cols": 1} for k in (2, 3, 4, 5)),
    {"n": 1, "k": 4, "m": 1, "bias": "row"},
    {"n": 9, "k": 2, "m": 180, "cores": 2, "rows": 2, "cols": 8, "bias": "column"},
    {"n": 600, "k": 2, "m": 4, "cores": 2, "trans_a": True, "trans_b": True, "bias": "row"},
    {"n": 4, "k": 520, "m": 4, "trans_b": True, "split": (1, 1), "rows": 4, "cols": 4},
)
TRANSPOSED = ({}, {"trans_a": True}, {"trans_b": True}, {"trans_a": True, "trans_b": True})
UNROLLED = [(1, 2), (1, 4), (1, 8), (2, 1), (4, 1), (8, 1), (2, 2), (2, 4), (4, 2), (4, 4)]
ROWS, COLUMNS = (0, 1)
KERNELS_OF_24 = [
    (1, 1, 1, ROWS), (1, 1, 1, COLUMNS), (1, 1, 2, ROWS),
    *((rows, cols, 1, ROWS) for rows, cols in UNROLLED),
    (1, 1, 2, COLUMNS),
    *((rows, cols, 1, COLUMNS) for rows, cols in UNROLLED),
]  # fmt: skip
"""The numbered kernels of PULP-TrainLib: rows, columns, unrolling, what is split."""
WRONG_ELSEWHERE = {
    (16, 13, 36): (14, 15, 16, 20, 21, 22, 23),
    (20, 7, 24): (14, 15, 16, 20, 21, 22, 23, 6, 7, 8, 10, 12),
    (64, 1, 24): (14, 15, 16, 20, 21, 22, 23),
    (1, 64, 24): (14, 15, 16, 20, 21, 22, 23),
    (17, 13, 11): (6, 7, 8, 10, 12),
    (24, 7, 20): (9,),
    (34, 9, 34): (6, 10),
    (36, 13, 16): (7, 8, 9, 11, 12),
}
"""Shapes at which those kernels of PULP-TrainLib are wrong, or write past the end of C."""


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point.values())))
@pytest.mark.sampled
def test_every_shape_is_right_and_nothing_else_is_written(chip, point):
    assert is_right_without_time("matmul_f32", point, CHIPS[chip])


def is_right(point, chip=PULP):
    _, report = launch("matmul_f32", point, chip, guard=64, max_cycles=1_000_000)
    assert report.macs == point["n"] * point["k"] * point["m"]
    assert report.result.warnings == ()
    return report.is_correct and report.stray_writes == []


@pytest.mark.parametrize("trans", TRANSPOSED, ids=str)
@pytest.mark.parametrize("start", [{}, {"accumulate": True}, {"bias": "row"}, {"bias": "column"}])
@pytest.mark.sampled
def test_the_chip_computes_it(trans, start):
    assert is_right({"n": 25, "k": 36, "m": 13, **trans, **start})
    assert is_right({"n": 7, "k": 300, "m": 5, "cores": 2, **trans, **start})


@pytest.mark.parametrize("shape", [(10, 6, 600), (17, 19, 23), (1, 31, 8), (2, 1, 3), (600, 6, 3)])
@pytest.mark.parametrize("cores", [1, 2, 3, 4, 7, 8])
@pytest.mark.sampled
def test_any_shape_is_computed_by_any_number_of_cores(shape, cores):
    n, depth, m = shape
    assert is_right({"n": n, "k": depth, "m": m, "cores": cores})


@pytest.mark.parametrize("kernel", range(24))
@pytest.mark.sampled(3)
def test_all_24_kernels_are_points(kernel):
    rows, cols, unroll, split = KERNELS_OF_24[kernel]
    parts = (1, 3) if split == COLUMNS else (3, 1)
    point = {"rows": rows, "cols": cols, "unroll": unroll, "split": parts}
    for trans_b in (False, True):
        assert is_right({"n": 25, "k": 6, "m": 25, "trans_b": trans_b, **point})


@pytest.mark.parametrize("shape", WRONG_ELSEWHERE)
def test_shapes_that_other_kernels_get_wrong_are_right(shape):
    n, depth, m = shape
    for kernel in WRONG_ELSEWHERE[shape]:
        rows, cols, unroll, split = KERNELS_OF_24[kernel]
        parts = (1, min(8, m)) if split == COLUMNS else (min(8, n), 1)
        height, width = -(-n // parts[0]), -(-m // parts[1])
        blocking = {"rows": min(rows, height), "cols": min(cols, width), "unroll": unroll}
        assert is_right({"n": n, "k": depth, "m": m, "split": parts, **blocking})


def test_an_unrolled_product_by_columns_of_a_transposed_matrix_is_right():
    """PULP-TrainLib's kernel 13 does not clear its sum for the next column."""
    point = {"rows": 1, "cols": 1, "unroll": 2, "split": (1, 8), "trans_b": True}
    assert is_right({"n": 3, "k": 7, "m": 17, **point})


@pytest.mark.parametrize("trans", TRANSPOSED, ids=str)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("shape", [(7, 5, 11), (8, 520, 8), (3, 2, 530), (530, 2, 3)])
@pytest.mark.sampled
def test_addresses_in_registers_are_left_as_they_are(shape, accumulate, trans):
    n, depth, m = shape
    a, b, c = random(n, depth), random(depth, m, seed=1), random(n, m, seed=2)
    operands = {
        "a": a.T.copy() if "trans_a" in trans else a,
        "b": b.T.copy() if "trans_b" in trans else b,
        "c": c,
        "bias": random(n, seed=3),
    }

    def emit(k, team, a, b, c, bias):
        how = {"bias": bias, "bias_by": "row", "accumulate": accumulate}
        matmul_f32(k, team, a, b, c, n, depth, m, **how, **trans)

    left = run(emit, operands, in_registers=True, writes=("c",))
    exact, bound = reference.matmul(a, b, operands["bias"][:, None], c if accumulate else None)
    assert (abs(left.values["c"] - exact) <= bound).all()


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
    points = ({}, {"rows": 1, "cols": 8}, {"split": (1, 8)}, {"cores": 3, "rows": 2, "cols": 3})
    outputs = []
    for point in points:
        values, _ = launch("matmul_f32", shape | point, max_cycles=1_000_000)
        outputs.append(values["C"].tobytes())
    assert outputs == [outputs[0]] * len(points)


@pytest.mark.parametrize("shape", [(25, 36, 13), (13, 9, 25), (9, 5, 10), (17, 3, 1), (1, 3, 17)])
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.sampled
def test_rows_and_columns_left_over_are_computed_like_all_others(shape, in_registers):
    n, depth, m = shape
    a, b, bias = random(n, depth), random(depth, m), random(m)
    operands = {"a": a, "b": b, "bias": bias, "c": random(n, m)}

    def emit(k, team, a, b, bias, c):
        matmul_f32(k, team, a, b, c, n, depth, m, bias=bias)

    left = run(emit, operands, in_registers=in_registers, writes=("c",))
    exact, bound = reference.matmul(a, b, bias)
    assert (abs(left.values["c"] - exact) <= bound).all()


@pytest.mark.parametrize(
    ("shape", "least"), [((64, 64, 64), 5.2), ((32, 32, 32), 5.0), ((25, 36, 13), 5.0)]
)
def test_macs_per_cycle_do_not_fall_below_what_was_reached(shape, least):
    """The bound of a 4 x 4 block is 5.33 on eight cores: 16 multiply-adds in 24 instructions."""
    point = dict(zip("nkm", shape, strict=True))
    _, report = launch("matmul_f32", point, WARM, max_cycles=1_000_000)
    assert report.macs_per_cycle >= least
    _, alone = launch("matmul_f32", point | {"cores": 1}, WARM, max_cycles=1_000_000)
    assert report.macs_per_cycle >= 0.95 * 8 * alone.macs_per_cycle


def test_the_inner_loop_waits_for_nothing_but_banks():
    _, report = launch("matmul_f32", {"n": 32, "k": 32, "m": 32}, WARM, max_cycles=1_000_000)
    assert set(report.stalls) <= {"l1_contention", "event"}


def test_a_step_of_a_single_sum_takes_two_loads_and_a_multiply_add():
    cycles = [
        launch("matmul_f32", {"n": 1, "k": depth, "m": 1, "cores": 1}, WARM)[1].cycles
        for depth in (40, 440)
    ]
    assert (cycles[1] - cycles[0]) // 400 == 3


@pytest.mark.parametrize("trans", TRANSPOSED, ids=str)
def test_tiles_are_right_wherever_they_are_cut(trans):
    shape = {"n": 33, "k": 17, "m": 19, "tile": {"n": 16, "k": 5, "m": 7}}
    assert is_right(shape | trans)
    assert is_right(shape | trans | {"bias": "row", "rows": 4, "cols": 4, "split": (8, 1)})
    assert is_right(shape | trans | {"accumulate": True, "unroll": 3})


@pytest.mark.parametrize("trans", TRANSPOSED, ids=str)
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("depth", [2, 6, 9, 16])
def test_one_function_does_for_all_parts_of_the_inner_dimension(trans, accumulate, depth):
    shape = {"n": 20, "k": 17, "m": 33, "tile": {"n": 20, "k": depth, "m": 33}}
    point = shape | trans | {"accumulate": accumulate}
    assert is_right(point | {"rows": 2, "cols": 3})
    assert is_right(point)
    symbols = [symbol.name for symbol in program("matmul_f32", point).program.symbols]
    assert [name for name in symbols if name.startswith("tile_")] == ["tile_0"]


@pytest.mark.parametrize("chip", CHIPS)
def test_sums_are_the_same_bit_for_bit_however_the_inner_dimension_is_cut(chip):
    shape = {"n": 9, "k": 23, "m": 11}
    inputs = {"A": random(9, 23), "B": random(23, 11)}
    found = [
        launch("matmul_f32", shape | {"tile": {"k": depth}}, CHIPS[chip], inputs=inputs)[0][
            "C"
        ].tobytes()
        for depth in (23, 12, 10, 2)
    ]
    assert found == [found[0]] * 4


REFUSED = (
    ({"split": (4, 4)}, "split [4, 4]; 9 rows have 1 to 8 parts and 5 columns 1 to 5, together no "
     "more than 8 cores"),
    ({"split": (1, 6)}, "split [1, 6]; 9 rows have 1 to 8 parts and 5 columns 1 to 5, together no "
     "more than 8 cores"),
    ({"split": (0, 8)}, "split [0, 8]; 9 rows have 1 to 8 parts and 5 columns 1 to 5, together no "
     "more than 8 cores"),
    ({"split": (4, 2), "rows": 4}, "rows 4; any core's rows are at most 3, so 1 to 3"),
    ({"split": (4, 2), "cols": 4}, "cols 4; any core's columns are at most 3, so 1 to 3"),
    ({"unroll": 7}, "unroll 7; the rounds of the inner loop are at most 6, so 1 to 6"),
    ({"rows": 9, "cols": 5}, "no block of 9 x 5 sums fits the registers and a core's part"),
    ({"n": 99, "m": 1, "rows": 30},
     "no block of 30 x any sums fits the registers and a core's part"),
)  # fmt: skip


@pytest.mark.parametrize(("point", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_points_that_cannot_be_built_are_refused_before_anything_runs(point, message):
    with pytest.raises(KernelError, match=f"^matmul_f32: {re.escape(message)}$"):
        program("matmul_f32", {"n": 9, "k": 7, "m": 5} | point)


@pytest.mark.parametrize(
    ("kernel", "point", "message"),
    [
        ("matmul_f16", {"cols": 9}, "matmul_f16: cols 9; any core's pairs of columns are at most "
         "3, so 1 to 3"),
        ("matmul_bf16", {"split": (4, 4)}, "matmul_bf16: split [4, 4]; 9 rows have 1 to 8 parts "
         "and 3 pairs of columns 1 to 3, together no more than 8 cores"),
    ],
    ids=["cols", "split"],
)  # fmt: skip
def test_points_of_halves_are_refused_in_their_words(kernel, point, message):
    with pytest.raises(KernelError, match=f"^{re.escape(message)}$"):
        program(kernel, {"n": 9, "k": 7, "m": 5} | point)


def test_operands_that_do_not_fit_are_refused():
    shape, large = {"n": 32, "k": 32, "m": 32}, {"n": 100, "k": 100, "m": 100}
    program("matmul_f32", shape | {"rows": 2, "cols": 8})
    with pytest.raises(
        KernelError,
        match=r"^matmul_f32: a tile of n = 100, m = 100, k = 100 needs 120800 bytes of L1 with "
        r"buffers = 2, 57344 are free; the largest that fits is n = 40, m = 56, k = 50$",
    ):
        program("matmul_f32", large | {"tile": large})
    with pytest.raises(
        KernelError,
        match=r"^matmul_f32: L2: A of 4398046511104 bytes does not fit: 1966080 of 1966080 "
        r"bytes are left$",
    ):
        program("matmul_f32", {"n": 1 << 20, "k": 1 << 20, "m": 1})
    with pytest.raises(KernelError, match=r"^matmul_f32: 9 cores; the chip pulp has 1 to 8$"):
        program("matmul_f32", shape | {"cores": 9})


@pytest.mark.parametrize("width", range(1, 25))
def test_the_columns_of_a_lone_row_are_one_block_where_a_step_can_load_all(width):
    row = Operands(0, 0, 0, None, 60, *(240, 4), *(4, 248), 4 * 8 * width)
    column = Operands(0, 0, 0, None, 60, *(248, 4), *(240, 4), 4)
    for x, size, part in ((row, (1, 8 * width), "cols"), (column, (8 * width, 1), "rows")):
        block = getattr(timed_blocking(x, *size, 8)[1], part)
        assert block == width if 8 < width <= 12 else block <= 8


@pytest.mark.parametrize("sizes", [(8, 66, 40), (40, 20, 33), (20, 5, 76), (31, 46, 13)])
@pytest.mark.parametrize("trans", [{}, {"trans_a": True}, {"trans_b": True}])
def test_cycles_are_known_nearly_without_any_code(sizes, trans):
    n, depth, m = sizes
    _, report = launch("matmul_f32", {"n": n, "k": depth, "m": m, "warm": True, **trans})
    assert nearly_cost(n, depth, m, 8, **trans).cycles == pytest.approx(report.cycles, rel=0.12)
