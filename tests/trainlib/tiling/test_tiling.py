"""How primitives are cut: windows, boxes, copies and steps by hand, sizes that are chosen."""

from dataclasses import replace
from itertools import groupby, product
from math import prod

import numpy as np
import pytest

from autotuner.space import Space
from firmware.arena import Arena
from firmware.builder import KernelError
from firmware.runtime import Team
from soc.chip.spec import load_chip
from trainlib.primitive.slices import Box, Spread, TensorSlice, Window
from trainlib.primitive.tensor import Tensor
from trainlib.primitive.tile_spec import CodeCost, Costs, Dim, Tiling
from trainlib.tiling.dma_commands import Copy, copies
from trainlib.tiling.plan import Plan
from trainlib.tiling.schedule import schedule, stays
from trainlib.tiling.tile_size import Choice, Grid, TableRoom, TablesTooLong, candidates


def nothing(k, team, shape, addresses):
    """No computation."""


def copied(tensor, box):
    """What the commands bring to L1, word by word, where nothing is brought -1."""
    l2 = np.arange(tensor.elements)
    l1 = np.full(box.part.size // 4, -1)
    found = copies(tensor, box)
    for copy in found:
        line = copy.line or copy.size
        for n in range(0, copy.size, 4):
            source = copy.l2 + n // line * copy.stride + n % line
            target = copy.l1 + n // line * copy.l1_stride + n % line
            assert l1[target // 4] == -1
            l1[target // 4] = l2[source // 4]
    return l1, len(found)


@pytest.mark.parametrize(
    ("shape", "start", "count", "pad", "commands"),
    [
        ((7,), (2,), (3,), 0, 1),
        ((6, 8), (1, 0), (4, 8), 0, 1),
        ((6, 8), (1, 0), (4, 8), 1, 1),
        ((6, 8), (1, 2), (4, 3), 0, 1),
        ((6, 8), (1, 2), (4, 3), 2, 1),
        ((6, 8), (0, 7), (6, 1), 0, 1),
        ((3, 6, 8), (0, 1, 0), (3, 4, 8), 0, 1),
        ((3, 6, 8), (1, 0, 0), (2, 6, 8), 0, 1),
        ((3, 6, 8), (0, 1, 2), (3, 4, 5), 0, 3),
        ((5, 6, 8), (0, 1, 2), (5, 2, 5), 1, 2),
        ((2, 3, 4, 5), (0, 1, 1, 1), (2, 2, 3, 3), 0, 4),
        ((2, 3, 4, 5), (0, 0, 1, 0), (2, 3, 2, 5), 0, 1),
        ((2, 3, 4, 5), (1, 1, 1, 1), (1, 1, 1, 1), 3, 1),
        ((6, 8), (1, 2), (0, 3), 0, 0),
    ],
)
def test_commands_copy_a_box_and_are_few(shape, start, count, pad, commands):
    tensor, zeros = Tensor(shape, pad=pad), (0,) * len(shape)
    box = Box(start, TensorSlice(count, zeros, zeros, zeros, 4 * (count[-1] + pad)))
    l1, found = copied(tensor, box)
    inside = tuple(slice(s, s + c) for s, c in zip(start, count, strict=True))
    wanted = np.arange(tensor.elements).reshape(shape)[inside]
    rows = l1.reshape(-1, count[-1] + pad) if l1.size else l1.reshape(0, count[-1] + pad)
    assert rows[:, : count[-1]].tolist() == wanted.reshape(-1, count[-1]).tolist()
    assert (rows[:, count[-1] :] == -1).all()
    assert found == commands


def test_what_one_command_cannot_say_takes_several():
    tensor = Tensor((300, 1000))
    whole = copies(tensor, Box.of_all(tensor))
    assert [copy.size for copy in whole] == [131068] * 9 + [20388]
    assert sum(copy.size for copy in whole) == tensor.size
    assert [copy.l1 for copy in whole] == [copy.l2 for copy in whole] == [
        131068 * n for n in range(10)
    ]  # fmt: skip
    box = Box((0, 0), TensorSlice((300, 500), (0, 0), (0, 0), (0, 0), 2000))
    assert copies(tensor, box) == [
        Copy(65 * 2000 * n, 65 * 4000 * n, 2000 * lines, 2000, 4000, 2000)
        for n, lines in enumerate((65, 65, 65, 65, 40))
    ]


@pytest.mark.parametrize(
    ("copy", "burst"),
    [
        (Copy(0, 0, 2048), 64),
        (Copy(0, 0, 11552), 32),  # 32 x 19 x 19
        (Copy(0, 0, 360 * 3, 360, 400, 360), 72),  # lines are whole bursts
        (Copy(0, 0, 76 * 31), 76),  # no whole number of any beats
        (Copy(0, 0, 4 * 311), 0),
        (Copy(0, 0, 96 * 20, 96, 400, 96), 0),  # lines are short
        (Copy(0, 0, 360 * 3, 360, 400, 400), 0),  # with gaps in L1
    ],
)
def test_short_bursts_are_lines_of_l1_without_gaps(copy, burst):
    short, line = copy.in_short_bursts, copy.line or burst
    far = (line, copy.stride or line) if line else ()
    near = (burst, burst) if burst else (line, copy.l1_stride)
    assert short.words(True, 0, 0)[1:] == [0, 0, *far, *(near if line else ())]
    assert len(short.words(True, 0, 0)) == short.length


def test_copies_are_in_short_bursts_where_computing_hides_them():
    image = {"inputs": 41, "height": 18, "width": 18, "outputs": 6, "kernel": 3, "padding": 1}
    steps = planned("conv2d_fw_f32", image | {"stride": 2})
    first, *others = [{t.copy.burst for t in step.transfers if t.to_l1} for step in steps]
    assert first == {0}
    assert {72} in others
    assert all(t.copy.burst == 0 for step in steps for t in step.transfers if not t.to_l1)
    one = planned("linear_wg_f32", {"inputs": 250, "outputs": 150, "batch": 1})
    assert all(t.copy.burst == 0 for step in one for t in step.transfers)


def planned(kernel, arguments):
    """Steps of a kernel from L2."""
    space = Space.of(kernel, arguments | {"tile": {}}, load_chip("pulp"))
    k, how = space.kernel(), (space.choice(2, space.methods[0]).tiling, space.tensors, {}, 2)
    return Plan.of(k, Team(k, 8), *how).steps


TENSORS = {"A": Tensor((4,)), "B": Tensor((6,)), "C": Tensor((4,), "out")}


def log(tiling, tensors, sizes, slots, cores=1):
    """Each step: the tile's slots, then what comes and what goes."""
    tiles = list(tiling.tiles(sizes, tensors, cores))
    return [
        (
            "".join(f"{name}{slot}" for name, slot in step.slots.items()),
            *(
                " ".join(
                    f"{t.name}{t.slot}@{t.copy.l2 // 4}" for t in step.transfers if t.to_l1 is way
                )
                for way in (True, False)
            ),
        )
        for step in schedule(tiles, tensors, slots)
    ]


def one_loop(count):
    return Tiling((Dim("i", count),), {"X": ("i",), "Y": ("i",)}, nothing)


XY = {"X": Tensor((6,)), "Y": Tensor((6,), "out")}


def test_with_two_buffers_a_step_computes_while_the_next_part_comes_and_the_last_goes():
    assert log(one_loop(6), XY, {"i": 2}, {"X": 2, "Y": 2}) == [
        ("", "X0@0", ""),
        ("X0Y0", "X1@2", ""),
        ("X1Y1", "X0@4", "Y0@0"),
        ("X0Y0", "", "Y1@2"),
        ("", "", "Y0@4"),
    ]


def test_with_one_buffer_a_step_copies_and_the_next_computes():
    assert log(one_loop(6), XY, {"i": 2}, {"X": 1, "Y": 1}) == [
        ("", "X0@0", ""),
        ("X0Y0", "", ""),
        ("", "X0@2", "Y0@0"),
        ("X0Y0", "", ""),
        ("", "X0@4", "Y0@2"),
        ("X0Y0", "", ""),
        ("", "", "Y0@4"),
    ]


def test_what_is_overwritten_waits_until_it_has_gone():
    tiling = Tiling((Dim("i", 5),), {"W": ("i",)}, nothing)
    tensors = {"W": Tensor((5,), "inout")}
    assert log(tiling, tensors, {"i": 1}, {"W": 2}) == [
        ("", "W0@0", ""),
        ("W0", "W1@1", ""),
        ("W1", "", "W0@0"),
        ("", "", "W1@1"),
        ("", "W0@2", ""),
        ("W0", "W1@3", ""),
        ("W1", "", "W0@2"),
        ("", "", "W1@3"),
        ("", "W0@4", ""),
        ("W0", "", ""),
        ("", "", "W0@4"),
    ]
    wide = log(tiling, tensors, {"i": 1}, {"W": 4})
    assert [step[0] for step in wide] == ["", "W0", "W1", "W2", "W3", "W0", ""]


def test_an_output_stays_while_summed_dimensions_advance():
    tiling = Tiling(
        (Dim("n", 4), Dim("k", 6, is_summed=True)),
        {"A": ("n",), "B": ("k",), "C": ("n",)},
        nothing,
        tells_last=True,
    )
    tiles = list(tiling.tiles({"n": 2, "k": 3}, TENSORS))
    assert [(t.shape.is_first, t.shape.is_last) for t in tiles] == [
        (True, False),
        (False, True),
    ] * 2
    silent = replace(tiling, tells_last=False).tiles({"n": 2, "k": 3}, TENSORS)
    assert not any(tile.shape.is_last for tile in silent)
    assert [(s.first, s.last) for s in stays(tiles, "C", "out", 2)] == [(0, 1), (2, 3)]
    assert log(tiling, TENSORS, {"n": 2, "k": 3}, {"A": 2, "B": 2, "C": 2}) == [
        ("", "A0@0 B0@0", ""),
        ("A0B0C0", "B1@3", ""),
        ("A0B1C0", "A1@2", ""),
        ("A1B0C1", "", "C0@0"),
        ("A1B1C1", "", ""),
        ("", "", "C1@2"),
    ]


def test_what_is_read_again_comes_once_if_it_has_buffers_enough():
    tiling = Tiling((Dim("n", 4), Dim("k", 6, is_summed=True)), {"B": ("k",), "C": ("n",)}, nothing)
    tensors = TENSORS
    tiles = list(tiling.tiles({"n": 2, "k": 3}, tensors))
    assert [s.tiles for s in stays(tiles, "B", "in", 2)] == [[0, 2], [1, 3]]
    assert log(tiling, tensors, {"n": 2, "k": 3}, {"B": 2, "C": 2}) == [
        ("", "B0@0", ""),
        ("B0C0", "B1@3", ""),
        ("B1C0", "", ""),
        ("B0C1", "", "C0@0"),
        ("B1C1", "", ""),
        ("", "", "C1@2"),
    ]


def least_loads(boxes, slots):
    """How often boxes come at least if one is there at a time in each of so many buffers: every
    choice of what to replace is tried, but never the box that was needed right before.
    """
    states = {frozenset(): 0}
    for number, box in enumerate(boxes):
        following: dict[frozenset, int] = {}
        for held, loads in states.items():
            last = boxes[number - 1] if number and slots > 1 else None
            if box in held:
                found = [(held, loads)]
            elif len(held) < slots:
                found = [(held | {box}, loads + 1)]
            else:
                found = [(held - {old} | {box}, loads + 1) for old in held if old != last]
            for state, count in found:
                following[state] = min(count, following.get(state, count))
        states = following
    return min(states.values())


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
@pytest.mark.parametrize("turns", [2, 4])
def test_what_is_read_again_comes_as_seldom_as_its_buffers_allow(parts, slots, turns):
    tiling = Tiling((Dim("n", turns), Dim("k", parts)), {"B": ("k",)}, nothing)
    tensors = {"B": Tensor((parts,))}
    tiles = list(tiling.tiles({"n": 1, "k": 1}, tensors))
    found = stays(tiles, "B", "in", slots)
    boxes = [tile.boxes["B"].start for tile in tiles]
    slots = min(slots, parts)
    assert len(found) == least_loads([box for box, _ in groupby(boxes)], slots)
    grid = Choice("kernel", tiling, tensors, 2, Arena("L1", 0, 1 << 16), 0).grid({"n": 1, "k": 1})
    if slots > 1:
        found = stays(tiles, "B", "in", slots, int(grid.ahead("B").item()))
        assert grid._loads_of("B", np.array(slots)).item() == pytest.approx(len(found), abs=1.5)


@pytest.mark.parametrize("ahead", [1, 2, 3])
@pytest.mark.parametrize("slots", [2, 3, 4, 5])
def test_every_tile_finds_what_it_reads_and_no_copy_is_beside_what_needs_its_buffer(slots, ahead):
    tiling = Tiling((Dim("n", 3), Dim("k", 28)), {"B": ("k", None), "C": ("n", "k")}, nothing)
    tensors = {"B": Tensor((28, 5), pad=1), "C": Tensor((3, 28), "out")}
    tiles = list(tiling.tiles({"n": 1, "k": 4}, tensors))
    steps = schedule(tiles, tensors, {"B": slots, "C": 2}, {"B": ahead})
    assert sum(step.shape is not None for step in steps) == len(tiles)
    held: dict[int, set[tuple[int, int]]] = {slot: set() for slot in range(slots)}
    computed = iter(tiles)
    for step in steps:
        come = [t for t in step.transfers if t.name == "B"]
        if step.shape:
            first = next(computed).boxes["B"].start[0]
            rows = {(row, 24 * (row - first)) for row in range(first, first + 4)}
            assert held[step.slots["B"]] == rows
            assert all(t.slot != step.slots["B"] for t in come)
        for transfer in come:
            copy, count = transfer.copy, transfer.copy.size // 20
            lines = {(copy.l2 // 20 + i, copy.l1 + 24 * i) for i in range(count)}
            of_the_same = {at for at in held[transfer.slot] if at[0] // 4 == copy.l2 // 80}
            held[transfer.slot] = of_the_same | lines


def test_a_copy_is_cut_into_as_many_lines_or_bursts():
    lines = Copy(8, 100, 7 * 20, 20, 28, 24)
    assert lines.cut(1) == [lines]
    assert lines.cut(3) == [
        Copy(8, 100, 60, 20, 28, 24),
        Copy(8 + 72, 100 + 84, 60, 20, 28, 24),
        Copy(8 + 144, 100 + 168, 20, 20, 28, 24),
    ]
    assert lines.cut(9) == [Copy(8 + 24 * i, 100 + 28 * i, 20, 20, 28, 24) for i in range(7)]
    dense = Copy(0, 4, 1000)
    assert dense.cut(2) == [Copy(0, 4, 512), Copy(512, 516, 488)]
    assert dense.cut(100) == [
        Copy(256 * i, 4 + 256 * i, min(256, 1000 - 256 * i)) for i in range(4)
    ]


def test_where_copying_takes_longest_the_last_tile_is_cut_once_more():
    tiling = Tiling(
        (Dim("n", 4), Dim("k", 100, is_summed=True)), {"C": ("n",)}, nothing, streams=True
    )

    def cut(sizes):
        return [(tile.shape["n"], tile.shape["k"]) for tile in tiling.tiles(sizes, TENSORS)]

    assert cut({"n": 2, "k": 64}) == [(2, 64), (2, 36), (2, 64), (2, 20), (2, 16)]
    assert cut({"n": 2, "k": 92}) == [(2, 92), (2, 8)] * 2
    wide = replace(tiling, dims=(Dim("n", 40), Dim("k", 100, is_summed=True)))
    assert len(list(wide.tiles({"n": 20, "k": 92}, TENSORS))) == 4
    assert cut({"n": 2, "k": 100}) == [(2, 100)] * 2
    silent = replace(tiling, streams=False).tiles({"n": 2, "k": 64}, TENSORS)
    assert len(list(silent)) == 4


def test_the_parts_of_a_last_tile_that_is_cut_wait_for_no_buffer():
    tiling = Tiling(
        (Dim("n", 128), Dim("k", 128, is_summed=True)),
        {"A": ("n", "k"), "x": ("k",), "y": ("n",)},
        nothing,
        streams=True,
    )
    tensors = {"A": Tensor((128, 128)), "x": Tensor((128,), stays=True), "y": Tensor((128,), "out")}
    room = Arena("L1", 0, 1 << 16)
    sizes = {"n": 64, "k": 64}
    slots = Choice("kernel", tiling, tensors, 2, room, 0, TableRoom()).slots(sizes)
    assert slots == {"A": 2, "x": 3, "y": 2}
    steps = schedule(list(tiling.tiles(sizes, tensors)), tensors, slots)
    assert [step.shape is None for step in steps] == [True, *[False] * 5, True]


def test_tiles_of_several_sizes_have_the_shape_of_the_largest():
    tiling = Tiling(
        (Dim("g", 12), Dim("y", 6)),
        {"X": ("g", "y"), "Y": ("g", "y")},
        nothing,
        grows=lambda sizes: "g",
    )
    tensors = {"X": Tensor((12, 6)), "Y": Tensor((12, 6), "out")}
    sizes = {"g": 4, "y": 6}
    tiles = list(tiling.tiles(sizes, tensors, cores=2))
    assert [tile.each for tile in tiles] == [1, 2, 2, 1]
    [shape] = {tile.shape for tile in tiles}
    assert (shape["g"], shape.part("X").shape, shape.is_grown) == (4, (4, 6), True)
    assert log(tiling, tensors, sizes, {"X": 2, "Y": 2}, cores=2) == [
        ("", "X0@0", ""),
        ("X0Y0", "X1@12", ""),
        ("X1Y1", "X0@36", "Y0@0"),
        ("X0Y0", "X1@60", "Y1@12"),
        ("X1Y1", "", "Y0@36"),
        ("", "", "Y1@60"),
    ]
    for other in (3, 5, 8):
        assert not any(tile.each for tile in tiling.tiles(sizes, tensors, cores=other))
    assert not any(tile.each for tile in tiling.tiles({"g": 12, "y": 6}, tensors, cores=2))


@pytest.mark.parametrize(("role", "first"), [("out", -4), ("inout", 4)])
def test_tiles_that_the_table_tells_apart_have_one_shape(role, first):
    tiling = Tiling(
        (Dim("n", 4), Dim("k", 6, is_summed=True)),
        {"A": ("n", "k"), "C": ("n",)},
        nothing,
        told="k",
    )
    tensors = {"A": Tensor((4, 6), pad=1), "C": Tensor((4,), role)}
    tiles = list(tiling.tiles({"n": 2, "k": 4}, tensors))
    assert [tile.each for tile in tiles] == [first, 2] * 2
    [shape] = {tile.shape for tile in tiles}
    assert (shape["k"], shape.is_first, shape.is_grown) == (4, False, True)
    assert [tile.boxes["A"].part.shape for tile in tiles[:2]] == [(2, 4), (2, 2)]
    assert {tile.boxes["A"].part.row for tile in tiles} == {4 * (4 + 1)}
    for whole in ({"n": 2, "k": 6}, {"n": 4, "k": 1}):
        assert not any(tile.each for tile in tiling.tiles(whole, tensors))


@pytest.mark.parametrize(
    ("dims", "boxes", "message"),
    [
        (
            (Dim("k", 6, is_summed=True), Dim("n", 4)),
            {"A": ("n",), "B": ("k",), "C": ("n",)},
            r"^C: 4 tiles at 2 places write 8 elements; it has 4, each to be written once: put "
            r"summed dimensions last$",
        ),
        (
            (Dim("n", 2),),
            {"C": ("n",)},
            r"^C: 1 tiles at 1 places write 1 elements; it has 4, each to be written once: put "
            r"summed dimensions last$",
        ),
    ],
)
def test_outputs_that_are_not_written_once_are_refused(dims, boxes, message):
    tiling = Tiling(dims, boxes, nothing)
    tiles = list(tiling.tiles({dim.name: (dim.size + 1) // 2 for dim in dims}, TENSORS))
    with pytest.raises(ValueError, match=message):
        schedule([tiles[0]] if len(dims) == 1 else tiles, TENSORS, dict.fromkeys(boxes, 2))


def test_sizes_to_try_are_equal_parts_in_whole_units():
    assert candidates(Dim("i", 1)) == [1]
    assert candidates(Dim("i", 10)) == [10, 5, 4, 3, 2, 1]
    assert candidates(Dim("i", 100, unit=32))[:8] == [100, 96, 64, 50, 34, 32, 25, 20]
    assert candidates(Dim("i", 26, near=8)) == [26, 24, 16, 13, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert len(candidates(Dim("i", 1 << 20, unit=64))) < 300


def choice(room=1000, buffers=2, guard=0, **changes):
    tiling = Tiling(
        (Dim("n", 40, unit=4), Dim("k", 100, is_summed=True)),
        {"A": ("n", "k"), "x": ("k",), "y": ("n",)},
        nothing,
        **changes,
    )
    tensors = {"A": Tensor((40, 100), pad=1), "x": Tensor((100,)), "y": Tensor((40,), "out")}
    return Choice("f", tiling, tensors, buffers, Arena("L1", 0, room, guard), 0)


def test_what_is_given_is_taken_and_the_rest_fits():
    for room in (600, 1000, 5000, 40000):
        for given in ({}, {"n": 7}, {"k": 9}):
            chosen = choice(room)
            sizes = chosen.sizes(given)
            assert given.items() <= sizes.items()
            arena = Arena("L1", 0, room)
            a, x, y = 4 * sizes["n"] * (sizes["k"] + 1), 4 * sizes["k"], 4 * sizes["n"]
            for name, size in (("A", a), ("x", x), ("y", y)):
                for _ in range(chosen.slots(sizes)[name]):
                    arena.take(name, size)
    assert choice(40000).sizes({"n": 40, "k": 100}) == {"n": 40, "k": 100}


def test_buffers_are_as_many_as_there_are_parts_to_come():
    assert choice().slots({"n": 40, "k": 100}) == {"A": 1, "x": 1, "y": 1}
    assert choice().slots({"n": 20, "k": 100}) == {"A": 2, "x": 1, "y": 2}
    assert choice().slots({"n": 40, "k": 10}) == {"A": 2, "x": 2, "y": 1}
    assert choice(buffers=1).slots({"n": 20, "k": 10}) == {"A": 1, "x": 1, "y": 1}


def test_tiles_that_do_not_fit_are_refused_with_the_largest_that_does():
    refused = (
        ({"n": 40, "k": 100}, 16720, "a tile of n = 40, k = 100"),
        ({"n": 40}, 832, "the smallest tile of n = 40, k = 1"),
    )
    for given, needed, what in refused:
        with pytest.raises(
            KernelError,
            match=rf"^f: {what} needs {needed} bytes of L1 with buffers = 2, 592 are free; the "
            r"largest that fits is n = 7, k = 7$",
        ):
            choice(592).sizes(given)
    fitting = [
        n * k
        for n, k in product(candidates(Dim("n", 40, unit=4)), candidates(Dim("k", 100)))
        if 2 * (-(-n * (k + 1) // 4) + -(-k // 4) + -(-n // 4)) <= 592 // 16
    ]
    assert max(fitting) == 7 * 7
    with pytest.raises(
        KernelError,
        match=r"^f: the smallest tile of n = 2, k = 1 needs 96 bytes of L1 with buffers = 2, 64 "
        r"are free; none fits$",
    ):
        choice(64).sizes({})
    with pytest.raises(
        KernelError,
        match=r"^f: the smallest tile of n = 2, k = 1 needs 96 bytes of L1 with buffers = 2, what "
        r"else lies there 64 more than there are; take a larger l1\.size$",
    ):
        replace(choice(64), reserved=128).sizes({})


def test_sizes_that_do_not_exist_are_refused():
    for given, message in (
        ({"m": 3}, r"^f: tile.m = 3: no such dimension; there are n, k$"),
        ({"n": 0}, r"^f: tile.n = 0: a size is from 1 to 40$"),
        ({"n": 41}, r"^f: tile.n = 41: a size is from 1 to 40$"),
    ):
        with pytest.raises(KernelError, match=message):
            choice().sizes(given)


def test_scratch_and_guards_count():
    scratch = {"scratch": lambda shape: {"s": 4 * shape["n"] * shape["k"]}}
    with pytest.raises(KernelError, match=r"a tile of n = 40, k = 100 needs 32720 bytes"):
        choice(**scratch).sizes({"n": 40, "k": 100})
    with pytest.raises(
        KernelError, match=r"a tile of n = 40, k = 100 needs 16912 bytes .* 872 are"
    ):
        choice(guard=64).sizes({"n": 40, "k": 100})


def test_a_table_that_does_not_fit_gives_larger_tiles():
    """The smaller the room in L2, the fewer tiles; where none is small enough, the fewest."""
    chosen = choice(1000)
    alone = chosen.sizes({})
    tables = {}
    for room in (10**6, 20_000, 10_000, 5000, 1):
        sizes = replace(chosen, table=TableRoom(room, 1.0)).sizes({})
        tables[room] = -(-40 // sizes["n"]) * -(-100 // sizes["k"])
    assert tables[10**6] == -(-40 // alone["n"]) * -(-100 // alone["k"])
    assert [*tables.values()] == sorted(tables.values(), reverse=True)
    fewest = min(
        -(-40 // n) * -(-100 // k)
        for n, k in product(candidates(Dim("n", 40, unit=4)), candidates(Dim("k", 100)))
        if (Grid(chosen, [[n], [k]]).bytes <= 1000).all()
    )
    assert tables[1] == fewest < tables[10**6]


def test_what_is_known_to_be_too_large_is_not_chosen_again():
    chosen, grid = choice(600), Grid(choice(600), [[4], candidates(Dim("k", 100))])
    fitting = int((grid.bytes <= 600).sum())
    assert fitting > 3
    seen = set()
    for _ in range(fitting):
        sizes = chosen.sizes({"n": 4})
        seen.add(sizes["k"])
        chosen = chosen.known(sizes, 10**6)
    assert len(seen) == fitting
    with pytest.raises(TablesTooLong):
        chosen.sizes({"n": 4})


def test_a_choice_that_knows_estimates_of_another_chooses_as_one_that_does_not():
    timed = {"timed": lambda tile: CodeCost(7.0 * prod(size for _, size in tile.sizes))}
    changes = ({"reserved": 400}, {"reserved": 700}, {"buffers": 1}, {"table": TableRoom(price=9)})
    for given in ({}, {"n": 8}):
        first = choice(**timed)
        first.sizes(given)
        for change in changes:
            assert replace(first, **change).sizes(given) == replace(
                choice(**timed), **change
            ).sizes(given)


@pytest.mark.parametrize("axis", [Window("i", 5, 2, 1, 2), Spread("i", 5, 1, 1, 2)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_what_tiles_in_the_middle_need_fits_their_buffers(axis, size):
    tiling = Tiling((Dim("i", 40),), {"x": (axis,), "y": ("i",)}, nothing)
    tensors = {"x": Tensor((80,)), "y": Tensor((40,), "out")}
    tried = Choice("f", tiling, tensors, 2, Arena("L1", 0, 10**6), 0)
    [longest] = Grid(tried, [[size]]).part_lengths["x"]
    tiles = tiling.tiles({"i": size}, tensors)
    assert longest == max(tile.shape.part("x").shape[0] for tile in tiles)


def padded(lines, summed):
    """Lines with a window of three that reaches over both ends, and channels that are summed."""
    dims = (Dim("y", lines), Dim("c", 8, is_summed=True))
    boxes = {"x": ("c", Window("y", 3, before=1)), "z": ("y",)}
    tiling = Tiling(dims, boxes, lambda *_: None, rate=1e9, costs=Costs(revisit=0.5))
    tensors = {"x": Tensor((8, lines)), "z": Tensor((lines,), "out")}
    chosen = Choice("test", tiling, tensors, 2, Arena("l1", 0x1000_0000, 0x10000), 0)
    return lambda y: Grid(chosen, [[y], [summed]])


@pytest.mark.parametrize(("size", "shapes"), [(9, 1), (5, 2), (3, 3), (1, 3), (2, 3)])
def test_padding_at_the_ends_gives_functions_of_their_own(size, shapes):
    assert padded(9, 8)(size)._shapes().item() == shapes
    assert padded(9, 4)(size)._shapes().item() == 2 * shapes


def test_results_that_are_added_to_again_cost_for_each_time():
    at = [padded(64, summed)(64)._revisits().item() for summed in (8, 4, 2)]
    assert at == [0, 64 * 0.5, 3 * 64 * 0.5]


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ({"m": 6, "k": 4}, [2, 4, 4]),
        ({"m": 6, "k": 3}, [1, 3, 3, 3]),
        ({"m": 6, "k": 9}, [9, 1]),
        ({"m": 6, "k": 5}, [5, 5]),
        ({"m": 6, "k": 6}, [6, 4]),
        ({"m": 4, "k": 4}, [4, 4, 2, 4, 4, 2]),
    ],
)
def test_the_smaller_tile_of_a_dimension_cut_alone_comes_first(sizes, lengths):
    """Unless it is nearly nothing, or nearly as large as the others."""
    tensors = {"x": Tensor((10, 6)), "y": Tensor((6,), "out")}
    dims = Dim("m", 6), Dim("k", 10, is_summed=True)
    tiling = Tiling(dims, {"x": ("k", "m"), "y": ("m",)}, nothing, rest_first=True)
    assert [tile.shape["k"] for tile in tiling.tiles(sizes, tensors)] == lengths


def test_the_smaller_tile_comes_last_where_more_is_written_than_read():
    tensors = {"x": Tensor((10,)), "y": Tensor((10, 6), "out")}
    tiling = Tiling((Dim("n", 10),), {"x": ("n",), "y": ("n", None)}, nothing, rest_first=True)
    assert [tile.shape["n"] for tile in tiling.tiles({"n": 4}, tensors)] == [4, 4, 2]
