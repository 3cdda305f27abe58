"""The commands tune and footprint."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from autotuner.measure import Measure
from pulpsim.commands import app as cli
from trainlib.config_file import read_config
from trainlib.launch import launch


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_layers_are_tuned_once_and_what_is_written_can_be_run(network: Path) -> None:
    report, output = network.parent / "tuned.json", network.parent / "best.toml"
    first = pulpsim("tune", network, "--json", report, "-o", output, "--policy", "exhaustive")
    assert first.exit_code == 0
    found = json.loads(report.read_text())
    again = pulpsim("tune", network, "--json", report, "--policy", "exhaustive")
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
        run_report = network.parent / "run.json"
        tuned = network.parent / f"best.fc.{name}.toml"
        assert pulpsim("run", tuned, "--quiet", "--json", run_report).exit_code == 0
        result = json.loads(run_report.read_text())
        assert result["program"]["correct"]
        assert cycles < result["cycles"] < cycles + 1000
        _, launched = launch(*read_config(tuned))
        assert (launched.is_correct, launched.result.cycles) == (True, result["cycles"])


def test_element_types_are_tried_and_the_fastest_is_written(network: Path) -> None:
    report, output = network.parent / "types.json", network.parent / "typed.toml"
    how = "--types", "f32,bf16", "--sizes", "2"
    result = pulpsim("tune", network, *how, "--json", report, "-o", output)
    assert result.exit_code == 0, result.output
    found = json.loads(report.read_text())
    names = [f"fc.{step}.{of}" for step in ("fw", "wg") for of in ("f32", "bf16")]
    assert [layer["name"] for layer in found["layers"]] == names
    best = {layer["name"]: layer["best"]["cycles"] for layer in found["layers"]}
    for step, chosen in zip(("fw", "wg"), found["chosen"], strict=True):
        own = {name: cycles for name, cycles in best.items() if name.startswith(f"fc.{step}.")}
        assert own[chosen] == min(own.values())
        kernel, arguments = read_config(network.parent / f"typed.{chosen}.toml")[:2]
        assert kernel == f"linear_{step}_{chosen.rpartition('.')[2]}"
        assert launch(kernel, arguments)[1].is_correct
    assert found["cycles"]["best"] == 3 * sum(best[name] for name in found["chosen"])
    assert "bf16 bytes" in plain(result.stderr)
    assert pulpsim("tune", network, "--types", "f64").exit_code == 2


def test_a_footprint_is_that_of_the_type(network: Path) -> None:
    sizes = []
    for how in ((), ("--type", "bf16")):
        file = network.parent / "bytes.json"
        assert pulpsim("footprint", network, *how, "--json", file).exit_code == 0
        sizes.append([layer["tensor_bytes"] for layer in json.loads(file.read_text())["layers"]])
    assert sizes[0] == [2 * size for size in sizes[1]]
    wrong = pulpsim("footprint", network, "--type", "f64")
    assert (wrong.exit_code, "--type f64: there are f32, f16, bf16" in wrong.output) == (2, True)


def test_every_point_has_cycles_or_a_reason(network: Path) -> None:
    picture = network.parent / "points.svg"
    result = pulpsim("tune", network, "--json", "-", "--against-paper", "--picture", picture)
    assert {file.name for file in network.parent.glob("*.svg")} == {
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
    how = r"as fast as the paper's policy with \d+ simulations of tiles"
    assert re.search(how + r": [\d,]+ cycles", text)
    assert re.search(r"the best single kernel: \d x \d sums, (rows|columns) partitioned", text)
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
    monkeypatch.setattr("pulpsim.commands.tune.search.LARGE", 0)
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


def test_phases_have_tiles_of_their_own_and_what_is_written_says_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulpsim.commands.tune.search.LARGE", 0)
    output, report, picture = (tmp_path / name for name in ("best.toml", "all.json", "all.svg"))
    layer = ("softmax_fw_f32", "--arg", "shape=[2, 3000]", "--arg", "split=columns")
    how = ("--arg", "cores=8", "--arg", "buffers=2", "--arg", "unroll=2", "--set", "l1.size=14336")
    files = ("-o", output, "--json", report, "--picture", picture)
    where = ("--database", tmp_path / "tuned.db", "--policy", "exhaustive", "--sizes", "3")
    result = pulpsim("tune", "--workers", "1", "--kernel", *layer, *how, *where, *files)
    assert result.exit_code == 0
    assert plain(result.stderr).startswith(
        "softmax_fw_f32: computed in phases, of which there are no estimates: every point is "
        "simulated in full\n"
    )
    [found] = json.loads(report.read_text())["layers"]
    best = found["best"]
    own = {"largest.d0": 1, "largest.d1": 600}
    assert best["arguments"]["tile"] == own
    assert best["cycles"] < found["default_cycles"]
    assert list(best["phases"]) == ["largest", "powers", "shares"]
    assert "largest: d0=1 d1=600" in plain(result.stderr)
    assert "largest: d0=1 d1=600" in picture.read_text()
    written = ", ".join(f"{name} = {size}" for name, size in own.items())
    assert f"tile = {{ {written} }}" in output.read_text()
    _, launched = launch(*read_config(output))
    assert launched.is_correct
    assert launched.regions["compute"].cycles == best["cycles"]
    again = tmp_path / "run.json"
    assert pulpsim("run", output, "--quiet", "--json", again).exit_code == 0
    assert json.loads(again.read_text())["cycles"] == launched.result.cycles


def test_after_an_interruption_the_same_command_goes_on(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measure.__call__
    calls = []

    def interrupted(self, points):  # type: ignore[no-untyped-def]
        calls.append(points)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measured(self, points)

    monkeypatch.setattr(Measure, "__call__", interrupted)
    result = pulpsim("tune", network)
    assert result.exit_code == 130
    assert re.fullmatch(
        r"fc\.fw: the best so far takes [\d,]+ cycles: all in L1  own blocking  1 buf  8c\n"
        rf"interrupted; 1 measurements are in {network.parent}/tuned\.db: the same command goes on "
        r"from here\n",
        result.stderr,
    )
    monkeypatch.setattr(Measure, "__call__", measured)
    again = pulpsim("tune", network, "--json", "-")
    assert again.exit_code == 0
    fresh = pulpsim("tune", network, "--json", "-", "--database", network.parent / "fresh.db")
    one, other = (json.loads(result.stdout)["layers"][0] for result in (again, fresh))
    assert one["simulated"] == other["simulated"] - 1
    assert one["best"] == other["best"]


def test_what_an_interrupted_search_reports_is_of_whole_layers_and_has_no_sums(
    network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = Measure.__call__

    def interrupted(self, points):  # type: ignore[no-untyped-def]
        if self.layer.kernel == "linear_wg_f32":
            raise KeyboardInterrupt
        return measured(self, points)

    monkeypatch.setattr(Measure, "__call__", interrupted)
    result = pulpsim("tune", network, "--json", "-", "-o", network.parent / "best.toml")
    assert result.exit_code == 130
    assert "a training step" not in result.stderr
    report = json.loads(result.stdout)
    assert [layer["name"] for layer in report["layers"]] == ["fc.fw"]
    assert not report["is_whole"]
    assert set(report["cycles"].values()) == {None}
    assert [file.name for file in network.parent.glob("best*")] == ["best.fc.fw.toml"]


def test_where_all_points_of_a_layer_fail_it_says_why(network: Path) -> None:
    network.write_text(f"{network.read_text()}max_cycles = 300\n")
    result = pulpsim("tune", network, "-o", network.parent / "best.toml")
    assert result.exit_code == 1
    first, why, _, second, *_ = plain(result.stderr).splitlines()
    count = re.fullmatch(
        r"fc\.fw: [\d,]+ points, (\d+) measured, \1 simulated now, \1 failed", first
    )
    assert count
    assert why == f"  {count[1]} of them: max_cycles: cycle limit of 300 reached"
    assert second.startswith("fc.wg: ")
    assert not list(network.parent.glob("best*"))


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
