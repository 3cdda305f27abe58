"""What a search shows of a layer."""

from io import StringIO

from rich.console import Console

from autotuner.blockings import PAPER_KERNELS
from autotuner.measurement import Outcome
from autotuner.result import Found
from autotuner.space import Point, Space
from pulpsim.commands.tune.result import Paper, Tuned
from pulpsim.commands.tune.tables import show_layer, show_network
from soc.chip.spec import load_chip


def test_of_many_reasons_those_are_shown_that_are_most_frequent() -> None:
    space = Space.of("linear_fw_f32", {"inputs": 4, "outputs": 4}, load_chip("pulp"))
    reasons = ["trap \x1b"] * 2 + [f"reason {number}" for number in range(6)]
    found = [Found(space.default(), Outcome(None, 0, reason)) for reason in reasons]
    console = Console(file=StringIO(), width=100)
    show_layer(Tuned("fc", space, found, found[0].outcome, 8, 8), console)
    assert console.file.getvalue().splitlines()[1:] == [
        "  2 of them: trap \\x1b",
        *(f"  1 of them: reason {number}" for number in range(4)),
        "  2 more reasons: the JSON has all",
        "",
    ]


def test_a_layer_is_compared_with_its_own_choice_and_with_the_paper() -> None:
    space = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 40}, load_chip("pulp"))
    best, paper = Found(space.default(), Outcome(1_000, 64)), Outcome(1_500, 64)
    console = Console(file=StringIO(), width=100)
    layer = Tuned("fc", space, [best], best.outcome, 1, 1, 1, Paper(paper, 5), {})
    show_layer(layer, console)
    assert console.file.getvalue().splitlines()[-3:] == [
        "as fast as its own choice: 1,000 cycles",
        "1.50 times as fast as the paper's policy with 5 simulations of tiles: 1,500 cycles",
        "",
    ]


def test_a_narrow_terminal_shows_all_of_a_points_numbers() -> None:
    space = Space.of("conv2d_wg_f32", {"inputs": 16, "outputs": 16, "height": 16, "width": 16,
                                       "kernel": 3, "padding": 1}, load_chip("pulp"))  # fmt: skip
    tile = (("co", 16), ("ci", 16), ("n", 1), ("y", 16), ("x", 12))
    blocking = (("channels", 4), ("cols", 2), ("is_turned", False), ("rows", 4), ("split", (2, 4)))
    best = Found(Point(tile, blocking, 2, 8), Outcome(1_234_567, 54_321))
    console = Console(file=StringIO(), width=70)
    show_layer(Tuned("stack", space, [best], best.outcome, 1, 1), console)
    shown = console.file.getvalue()
    words = shown.split()
    for word in ("x=12", "channels=4", "split=2x4", "54,321", "1,234,567"):
        assert word in words
    assert max(map(len, shown.splitlines()[1:4])) <= 70
    assert "…" not in shown


def test_a_narrow_terminal_shows_a_networks_numbers() -> None:
    space = Space.of("linear_fw_f32", {"inputs": 64, "outputs": 40}, load_chip("pulp"))
    best, own = Found(space.default(), Outcome(1_234_567, 64)), Outcome(2_345_678, 64)
    kernels = dict.fromkeys(PAPER_KERNELS, Outcome(3_703_701))
    layers = [
        Tuned(name, space, [best], own, 1, 1, 10, Paper(own, 5), kernels)
        for name in ("depthwise7to11.fw", "pointwise7to11.fw")
    ]
    console = Console(file=StringIO(), width=74)
    show_network(layers, console)
    shown = console.file.getvalue()
    words = "pointwise7to11.fw 10 2,345,678 1,234,567 1.90 3.00 1.90"
    assert words.split() in [line.split() for line in shown.splitlines()]
    sums = "a training step 46,913,560 24,691,340 1.90 3.00 1.90"
    assert sums.split() in [line.split() for line in shown.splitlines()]
    assert "…" not in shown
