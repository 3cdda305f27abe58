"""The commands tune and footprint."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from autotuner.measure import Measure
from autotuner.outcome import Outcome
from autotuner.search import Found
from autotuner.space import Point, Space
from pulpsim import cli
from pulpsim.tune_config import Options, load_tuning
from pulpsim.tune_progress import Pace, Progress
from pulpsim.tune_report import show_layer
from pulpsim.tuned import Tuned
from soc.spec import load_chip
from soc.toml_file import ConfigError
from trainlib.config_file import read_config
from trainlib.launch import launch

LAYERS = """
[[layers]]
name = "fc"
kernel = "linear_{}_f32"
steps = ["fw", "wg"]
count = 3
args = { inputs = 16, outputs = 8, unroll = 1, buffers = 2, rows = 1, cols = 1 }
[tune]
sizes = 2
workers = 1
database = "tuned.db"
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "network.toml"
    file.write_text(LAYERS)
    return file


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_layers_are_tuned_once_and_what_is_written_can_be_run(config: Path) -> None:
    report, output = config.parent / "tuned.json", config.parent / "best.toml"
    first = pulpsim("tune", config, "--json", report, "-o", output, "--policy", "exhaustive")
    assert first.exit_code == 0
    found = json.loads(report.read_text())
    again = pulpsim("tune", config, "--json", report, "--policy", "exhaustive")
    assert again.exit_code == 0
    repeated = json.loads(report.read_text())
    assert [layer["simulated"] > 0 for layer in found["layers"]] == [True, True]
    assert [layer["simulated"] for layer in repeated["layers"]] == [0, 0]
    assert found["layers"][0]["best"] == repeated["layers"][0]["best"]
    sums = found["cycles"]
    best = [layer["best"]["cycles"] for layer in found["layers"]]
    assert sums["best"] == 3 * sum(best)
    assert sums["best"] <= sums["one_size"]
    assert sums["best"] <= sums["default"]
    for name, cycles in zip(("fw", "wg"), best, strict=True):
        run_report = config.parent / "run.json"
        tuned = config.parent / f"best.fc.{name}.toml"
        assert pulpsim("run", tuned, "--quiet", "--json", run_report).exit_code == 0
        result = json.loads(run_report.read_text())
        assert result["program"]["correct"]
        assert cycles < result["cycles"] < cycles + 1000
        _, launched = launch(*read_config(tuned))
        assert (launched.is_correct, launched.result.cycles) == (True, result["cycles"])


def test_every_point_has_cycles_or_a_reason(config: Path) -> None:
    picture = config.parent / "points.svg"
    result = pulpsim("tune", config, "--json", "-", "--against-paper", "--picture", picture)
    assert {file.name for file in config.parent.glob("*.svg")} == {
        "points.fc.fw.svg", "points.fc.wg.svg"
    }  # fmt: skip
    report = json.loads(result.stdout)
    assert (report["schema"], report["is_whole"]) == ("pulpsim.tune/1", True)
    for layer in report["layers"]:
        assert layer["paper_cycles"] >= layer["best"]["cycles"]
        assert layer["paper_gain"] == layer["paper_cycles"] / layer["best"]["cycles"]
        assert 0 < layer["paper_tiles"] <= layer["searched"]
        assert 5 * layer["searched"] <= layer["points"]
        assert layer["one_size_gain"] >= 1
        for point in layer["found"]:
            assert (point["cycles"] is None) == (point["reason"] != "")
    text = plain(result.stderr)
    assert "fc.fw: " in text
    how = r"\d\.\d\d times as fast as the paper's policy with \d+ simulations of tiles"
    assert re.search(how + r": [\d,]+ cycles", text)
    assert re.search(r"the best single kernel: \d x \d sums, (rows|columns) dealt out", text)
    assert re.search(
        r"a training step takes [\d,]+ cycles before, [\d,]+ after: \d\.\d\d times as fast", text
    )


def test_a_layer_is_given_by_the_command_line_alone(tmp_path: Path) -> None:
    output = tmp_path / "best.toml"
    arguments = ["--arg", "inputs=16", "--arg", "outputs=8", "--sizes", "1", "--workers", "1"]
    where = ["--database", tmp_path / "a.db", "-o", output]
    result = pulpsim(
        "tune", "--kernel", "linear_ig_f32", *arguments, "--policy", "paper", *map(str, where)
    )
    assert result.exit_code == 0
    assert pulpsim("run", output, "--quiet").exit_code == 0


def test_the_winner_of_a_large_layer_is_simulated_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulpsim.tune.LARGE", 0)
    file, output = tmp_path / "large.toml", tmp_path / "best.toml"
    file.write_text(
        'program.kernel = "linear_fw_f32"\n[program.args]\ninputs = 64\noutputs = 400\n'
        "tile = {n = 1, co = 4, ci = 64}\nunroll = 1\nbuffers = 1\ncores = 8\n"
        '[tune]\ndatabase = "tuned.db"\npolicy = "exhaustive"\n'
    )
    result = pulpsim("tune", file, "--json", "-", "-o", output)
    [layer] = json.loads(result.stdout)["layers"]
    assert not layer["best"]["is_estimated"]
    assert any(point["is_estimated"] for point in layer["found"])
    assert " ~" in result.stderr
    assert "\n~ estimated from a part of its tiles\n" in result.stderr
    again = json.loads(pulpsim("tune", file, "--json", "-").stdout)["layers"][0]
    assert (again["simulated"], again["best"]) == (0, layer["best"])
    report = tmp_path / "run.json"
    assert pulpsim("run", output, "--quiet", "--json", report).exit_code == 0
    assert 0 < json.loads(report.read_text())["cycles"] - layer["best"]["cycles"] < 1000


def test_after_an_interruption_the_same_command_goes_on(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measure.__call__
    calls = []

    def interrupted(self, points):  # type: ignore[no-untyped-def]
        calls.append(points)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measured(self, points)

    monkeypatch.setattr(Measure, "__call__", interrupted)
    result = pulpsim("tune", config)
    assert result.exit_code == 130
    assert re.fullmatch(
        r"fc\.fw: the best so far takes [\d,]+ cycles: all in L1  own blocking  1 buf  8c\n"
        rf"interrupted; 1 measurements are in {config.parent}/tuned\.db: the same command goes on "
        r"from here\n",
        result.stderr,
    )
    monkeypatch.setattr(Measure, "__call__", measured)
    again = pulpsim("tune", config, "--json", "-")
    assert again.exit_code == 0
    fresh = pulpsim("tune", config, "--json", "-", "--database", config.parent / "fresh.db")
    one, other = (json.loads(result.stdout)["layers"][0] for result in (again, fresh))
    assert one["simulated"] == other["simulated"] - 1
    assert one["best"] == other["best"]


def test_progress_says_what_is_done_the_best_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("pulpsim.tune_progress.monotonic", lambda: now)
    points, console = [Point(None, (), 1, n) for n in range(4)], Console(file=StringIO(), width=100)
    with Progress("fc", 4, console).shown() as progress:
        assert progress.line == "fc: 0 of about 4 points"
        now = 10.0
        progress.note(points[0], Outcome(None, None, "trap"))
        assert progress.line == "fc: 1 of about 4 points, none has succeeded, 30 s left"
        progress.note(points[1], Outcome(1234))
        progress.note(points[1], Outcome(1234))
        progress.note_tile(points[1], Outcome(3))
        assert progress.line == "fc: 3 of about 4 points, best 1,234 cycles, 3 s left"
        progress.note(points[2], Outcome(2345))
        progress.note(points[3], Outcome(2345))
        assert progress.line == "fc: 5 points, best 1,234 cycles, 0 s left"
    assert console.file.getvalue() == ""


def test_progress_says_how_long_all_layers_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("pulpsim.tune_progress.monotonic", lambda: now)
    point, console, pace = Point(None, (), 1, 8), Console(file=StringIO()), Pace(5)
    for name, seconds, simulated in (("a", 200, 9), ("b", 1, 0)):
        with Progress(name, 4, console, pace).shown() as progress:
            now += seconds
        progress.end(simulated)
    with Progress("c", 4, console, pace).shown() as progress:
        now += 75
        progress.note(point, Outcome(5))
    # of this layer 75 of 300 s; two more like this one and the first, which took 200
    assert progress.line == (
        "c, 3 of 5: 1 of about 4 points, best 5 cycles, 4 min left, 12 min for all"
    )


def test_what_an_interrupted_search_reports_is_of_whole_layers_and_has_no_sums(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measure.__call__

    def interrupted(self, points):  # type: ignore[no-untyped-def]
        if self.layer.kernel == "linear_wg_f32":
            raise KeyboardInterrupt
        return measured(self, points)

    monkeypatch.setattr(Measure, "__call__", interrupted)
    result = pulpsim("tune", config, "--json", "-", "-o", config.parent / "best.toml")
    assert result.exit_code == 130
    assert "a training step" not in result.stderr
    report = json.loads(result.stdout)
    assert [layer["name"] for layer in report["layers"]] == ["fc.fw"]
    assert not report["is_whole"]
    assert set(report["cycles"].values()) == {None}
    assert [file.name for file in config.parent.glob("best*")] == ["best.fc.fw.toml"]


def test_where_all_points_of_a_layer_fail_it_says_why(config: Path) -> None:
    config.write_text(f"{LAYERS}max_cycles = 300\n")
    result = pulpsim("tune", config, "-o", config.parent / "best.toml")
    assert result.exit_code == 1
    first, why, _, second, *_ = plain(result.stderr).splitlines()
    count = re.fullmatch(
        r"fc\.fw: [\d,]+ points, (\d+) measured, \1 simulated now, \1 failed", first
    )
    assert count
    assert why == f"  {count[1]} of them: max_cycles: cycle limit of 300 reached"
    assert second.startswith("fc.wg: ")
    assert not list(config.parent.glob("best*"))


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


def test_a_footprint_has_every_tensor_and_buffer(config: Path) -> None:
    result = pulpsim("footprint", config)
    assert result.exit_code == 0
    every_line = [line.split() for line in result.stdout.splitlines() if line.strip()]
    lines = {tuple(line[:-1]): line[-1] for line in every_line}
    assert lines["fc.fw", "L2", "X", "f32"] == "64"
    assert lines["fc.fw", "L2", "W", "f32"] == "512"
    assert lines["fc.wg", "L1", "dW_in_L1"] == "512"
    assert lines["fc.fw", "L1", "all", "buffers"] == str(64 + 512 + 32)
    assert lines["fc.fw", "L1", "stacks"] == "8,192"
    every = 64 + 512 + 32
    in_l1 = 64 + 64 + 512  # of the gradient: buffers begin 64 bytes apart
    for step, count, largest in (("fw", 3, every), ("wg", 3, in_l1), ("all", 6, in_l1)):
        assert [step, f"{count}", f"{count * every:,}", f"{largest}"] in every_line
    assert ["X", "f32", "192"] in every_line  # once for both steps


def test_a_footprint_is_json_too(config: Path) -> None:
    report = json.loads(pulpsim("footprint", config, "--json", "-").stdout)
    assert report["schema"] == "pulpsim.footprint/1"
    first, second = report["layers"]
    assert (first["name"], first["count"], second["name"]) == ("fc.fw", 3, "fc.wg")
    assert first["tensors"]["W"] == {"dtype": "f32", "bytes": 512}
    assert first["tensor_bytes"] == first["l1_bytes"] == 608
    assert {"name": "dW", "dtype": "f32", "bytes": 3 * 512} in report["tensors"]
    file = config.parent / "bytes.json"
    assert pulpsim("footprint", config, "--json", file).exit_code == 0
    assert json.loads(file.read_text()) == report


def test_layers_without_a_footprint_are_told_all_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(
        '[[layers]]\nname = "a"\nkernel = "berhu_loss_f32"\nargs = {shape = [99999]}\n'
        '[[layers]]\nname = "b"\nkernel = "relu_fw_f32"\n'
    )
    result = pulpsim("footprint", file)
    assert result.exit_code == 2
    first, second = plain(result.stderr).splitlines()
    assert first == (
        f"pulpsim: {file}: a: L1: x_in_L1 of 399996 bytes does not fit: 57344 of 57344 bytes are "
        f"left"
    )
    assert second == f"pulpsim: {file}: b: relu_fw_f32: shape: missing"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            r"{file}: give one layer as program.kernel or --kernel, or several as \[\[layers\]\]",
        ),
        (
            '[tune]\npolicy = "best"\n[program]\nkernel = "relu_fw_f32"\nargs.shape = [4]',
            r"{file}: tune.policy = \"best\": must be 'guided', 'exhaustive' or 'paper'",
        ),
        (
            '[program]\nkernel = "linear_fw_f32"\nargs.inputs = 4',
            r"{file}: linear_fw_f32: outputs: missing",
        ),
        (
            '[program]\nkernel = "linear_fw_f32"\nargs = {inputs = 4, outputs = 4}\n'
            "[tune]\ncores = [9]",
            r"{file}: tune.cores: 9; the chip pulp has 1 to 8",
        ),
        (
            '[[layers]]\nname = "a"\nkernel = "relu_fw_f32"\nargs.shape = [4]\n' * 2,
            r"{file}: layers: there are two of the name a",
        ),
        ('layers = ["a"]', r"{file}: layers.1.kernel: missing\n{file}: layers.1.name: missing"),
        (
            '[[layers]]\nname = "a"\nkernel = "relu_fw_f32"\nstep = ["fw"]',
            r"{file}: layers.1.step = \('fw',\): no such field; did you mean layers.1.steps\?",
        ),
        (
            '[program]\nkernel = "pwconv2d_fw_f32"\n'
            "args = {inputs = 1, outputs = 1, height = 1, width = 20000}",
            r"{file}: pwconv2d_fw_f32: the smallest tile of n = 1, y = 1, co = 1, "
            r"ci = 1 needs 160016 bytes of L1 with buffers = 1, 57344 are free; none fits",
        ),
    ],
)
def test_what_cannot_be_tuned_is_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"^{message.replace('{file}', re.escape(str(file)))}$"):
        load_tuning(file, Options())


def test_a_bad_argument_of_the_command_line_is_told() -> None:
    with pytest.raises(
        ConfigError,
        match=r'^--arg inputs: must be NAME=VALUE, such as "inputs=640"\n'
        r"--set x: must be path.to.field=value, such as l1.banks=32\n"
        r"--policy: tune.policy = \"best\": must be 'guided', 'exhaustive' or 'paper'$",
    ):
        load_tuning(None, Options("linear_fw_f32", ["inputs"], settings=["x"], policy="best"))


def test_what_is_written_runs_on_the_chip_that_it_was_found_on(tmp_path: Path) -> None:
    chips, out = tmp_path / "chips", tmp_path / "out"
    for folder in (chips, out):
        folder.mkdir()
    (chips / "small.toml").write_text('base = "pulp"\nl1.size = 32768\n')
    layer = '[program]\nkernel = "linear_fw_f32"\nargs = { inputs = 16, outputs = 8 }\n'
    config = tmp_path / "layer.toml"
    best = out / "best.toml"
    for chip, options, entry in (
        ("", [], 'chip = "pulp"'),
        ('chip = "chips/small.toml"', [], 'chip = "../chips/small.toml"'),
        ("", ["--chip", chips / "small.toml"], 'chip = "../chips/small.toml"'),
        (
            "chip = { l1 = { size = 32768 } }",
            ["--set", "l1.banks=32"],
            'chip = { base = "pulp", l1 = { size = 32768, banks = 32 } }',
        ),
    ):
        config.write_text(f"{chip}\n{layer}[tune]\nsizes = 1\nworkers = 1\n")
        given = ["--database", ":memory:", "-o", best, "--policy", "paper", "--json", "-"]
        tuned = pulpsim("tune", config, *options, *given)
        assert tuned.exit_code == 0, tuned.stderr
        assert best.read_text().splitlines()[0] == entry
        cycles = json.loads(tuned.stdout)["layers"][0]["best"]["cycles"]
        run = pulpsim("run", best, "--quiet", "--json", "-")
        assert 0 < json.loads(run.stdout)["cycles"] - cycles < 1000


def test_what_the_command_line_alone_says_is_told_as_such() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^command line: linear_fw_f32: outputs: missing\n"
        r"command line: linear_fw_f32: input = 4: no such field; did you mean inputs\?$",
    ):
        load_tuning(None, Options("linear_fw_f32", ["inputs=4", "input=4"]))


@pytest.mark.parametrize("command", ["tune", "footprint"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--set", "l1.size=4096"],
            "chip pulp: l1.size 4096 and l2.size 2097152 leave no room behind 8192 bytes of stacks "
            "in L1 and 131072 bytes of code in L2",
        ),
        (
            ["--chip", "ri5cy-rtl"],
            "chip ri5cy-rtl: the chip ri5cy-rtl is a test bench without PULP's peripherals",
        ),
        (["--chip", "plup"], "chip 'plup': no such chip; did you mean pulp? The path of a chip "
                             "file ends in .toml"),
    ],
)  # fmt: skip
def test_a_chip_that_takes_no_programs_is_told_once(
    command: str, options: list[str], message: str
) -> None:
    result = pulpsim(command, "dscnn", *options)
    assert (result.exit_code, plain(result.stderr)) == (2, f"pulpsim: {message}\n")


def test_an_unknown_network_and_a_bad_database_are_told(config: Path) -> None:
    missing = pulpsim("tune", config.parent / "no.toml")
    assert (missing.exit_code, plain(missing.stderr)) == (
        2,
        f"pulpsim: {config.parent}/no.toml: cannot be read: No such file or directory\n",
    )
    bad = pulpsim("tune", config, "--database", config)
    assert (bad.exit_code, plain(bad.stderr)) == (
        2,
        f"pulpsim: {config}: not a database of measurements; give another file\n",
    )
