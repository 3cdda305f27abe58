"""The command study: what it shows and leaves, and that nothing is simulated twice."""

import csv
import io
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from pulpsim.commands import app as cli
from pulpsim.commands.study import command
from pulpsim.commands.study.catalogue import STUDIES
from pulpsim.commands.study.result_store import Store
from pulpsim.commands.study.simulate import Simulate

PNG = b"\x89PNG\r\n\x1a\n"
WIDTH = 100
HERE = "--workers", "1"
"""Options of a study that starts no processes."""


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def study(folder: Path, *arguments: str | Path) -> Result:
    where = ["--database", folder / "studies.db", "-o", folder / "out"]
    return pulpsim("study", *arguments, *where)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cases each sweep has simulated."""
    counts = []
    call = Simulate.__call__

    def counted(self, cases):  # type: ignore[no-untyped-def]
        found = call(self, cases)
        counts.append(self.simulated)
        return found

    monkeypatch.setattr(Simulate, "__call__", counted)
    return counts


def test_without_a_name_all_studies_are_listed_with_their_arguments() -> None:
    result = pulpsim("study")
    assert result.exit_code == 0
    lines = plain(result.stdout).splitlines()
    for name, entry in STUDIES.items():
        assert f"{name}: {entry.question}" in lines
        for argument in entry.arguments.model_fields:
            assert any(line.startswith(f"  {argument} ") for line in lines)
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.sampled(3)
def test_a_study_shows_a_table_and_leaves_its_files_and_is_not_simulated_twice(
    tmp_path: Path, name: str, simulated: list[int]
) -> None:
    first = study(tmp_path, name, "--quick")
    assert first.exit_code == 0, first.stderr
    lines = plain(first.stdout).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "…" not in first.stdout
    left = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert set(left) == {f"{name}.{kind}" for kind in ("json", "csv", "svg", "png")}
    report = json.loads(left[f"{name}.json"])
    assert (report["schema"], report["study"], report["failed"]) == ("pulpsim.study/1", name, [])
    rows = list(csv.DictReader(io.StringIO(left[f"{name}.csv"].decode())))
    assert len(rows) == len(report["rows"]) > 0
    for row, full in zip(rows, report["rows"], strict=True):
        assert {k: v for k, v in row.items() if v} == {
            k: str(v) for k, v in full.items() if v not in (None, "")
        }
    assert " ".join(report["text"].split()) in " ".join(plain(first.stdout).split())
    assert left[f"{name}.png"].startswith(PNG)
    assert ElementTree.fromstring(left[f"{name}.svg"]).tag == "{http://www.w3.org/2000/svg}svg"
    again = study(tmp_path, name, "--quick")
    assert again.stdout == first.stdout
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == left
    assert simulated[0] > 0
    assert simulated[1] == 0


def test_a_narrow_terminal_loses_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Console(file=io.StringIO(), width=40, markup=False, highlight=False)
    monkeypatch.setattr(command, "page_console", lambda: page)
    sweep = ["--arg", "strides=[1]", "--arg", "offsets=[0, 1, 2, 3, 4]", "--arg", "reads=32"]
    assert study(tmp_path, "stride", *sweep, *HERE).exit_code == 0
    lines = page.file.getvalue().splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("stride"))
    heading, numbers = lines[at : at + 2]
    assert heading.split() == ["stride", *(word for n in range(5) for word in ("offset", str(n)))]
    assert len(numbers.split()) == 6
    assert "…" not in numbers


def test_a_sweep_that_grows_simulates_what_is_new(tmp_path: Path, simulated: list[int]) -> None:
    few = ["--arg", "strides=[1, 2]", "--arg", "offsets=[0]", "--arg", "reads=32"]
    assert study(tmp_path, "stride", *few, *HERE).exit_code == 0
    few[1] = "strides=[1, 2, 3]"
    assert study(tmp_path, "stride", *few, *HERE).exit_code == 0
    assert study(tmp_path, "stride", *few, *HERE, "--set", "l1.banks=8").exit_code == 0
    assert simulated == [2, 1, 3]


@pytest.mark.usefixtures("_cluster_in_this_process")
def test_a_cluster_finds_what_this_process_finds(tmp_path: Path) -> None:
    found = []
    for name, options in {"here": (), "cluster": ("--local-cluster", "1")}.items():
        given = "--database", tmp_path / f"{name}.db", "-o", tmp_path / name
        arguments = ["--arg", "offsets=[0, 1]", "--arg", "strides=[1, 16]", "--arg", "reads=64"]
        assert pulpsim("study", "stride", *arguments, *given, *options).exit_code == 0
        found.append(json.loads((tmp_path / name / "stride.json").read_text())["rows"])
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_one_place_is_asked_for(tmp_path: Path) -> None:
    two = pulpsim("study", "stride", "--workers", "2", "--local-cluster", "2")
    assert (two.exit_code, two.stderr) == (
        2,
        "pulpsim: --workers and --local-cluster; give one of them\n",
    )
    file = tmp_path / "study.toml"
    file.write_text('study = {name = "stride", workers = 1, scheduler = "tcp://127.0.0.1:1"}\n')
    assert "study: workers and scheduler; give one of them" in pulpsim("study", file).stderr
    lost = pulpsim("study", "stride", "--scheduler", "nowhere", "--quick")
    assert lost.exit_code == 2
    assert "nowhere" in lost.stderr


def test_a_config_file_says_all_and_options_win(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(
        'chip = { l1 = { banks = 8 } }\n[study]\nname = "stride"\nquick = true\nworkers = 1\n'
        'database = "own.db"\noutput = "pictures"\nargs = { cores = 4, offsets = [0] }\n'
    )
    assert pulpsim("study", file, "--arg", "strides=[8]").exit_code == 0
    report = json.loads((tmp_path / "pictures" / "stride.json").read_text())
    (row,) = report["rows"]
    assert (row["cores"], row["banks"], row["stride"], row["reads"]) == (4, 8, 8, 4 * 32)
    assert row["conflicts"] == 31 * 4 * 3 + 6
    assert (tmp_path / "own.db").exists()


def test_after_an_interruption_the_same_command_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, simulated: list[int]
) -> None:
    keep, kept = Store.keep, []

    def interrupted(self, *what):  # type: ignore[no-untyped-def]
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(what)
        keep(self, *what)

    monkeypatch.setattr(Store, "keep", interrupted)
    result = study(tmp_path, "stride", "--quick", *HERE)
    assert result.exit_code == 130
    assert plain(result.stderr) == (
        f"interrupted; 3 simulations are in {tmp_path}/studies.db: the same command goes on from "
        f"here\n"
    )
    monkeypatch.setattr(Store, "keep", keep)
    assert study(tmp_path, "stride", "--quick", *HERE).exit_code == 0
    assert simulated == [15 - 3]


def test_without_matplotlib_there_is_everything_but_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [m for m in sys.modules if m.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "pulpsim.commands.study.plot_style", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = study(tmp_path, "stride", "--quick")
    assert result.exit_code == 0
    assert "stride  offset 0  offset 1  offset 4" in plain(result.stdout)
    assert plain(result.stderr).splitlines()[-1] == (
        "no pictures: matplotlib is not installed; pip install matplotlib, or pulpsim's extra "
        "'plot'"
    )
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"stride.json", "stride.csv"}


def test_cases_that_fail_are_told_and_the_others_shown(tmp_path: Path) -> None:
    small = ["--set", "l1.size=16384", "--arg", "strides=[1, 64]", "--arg", "offsets=[0]"]
    result = study(tmp_path, "stride", *small, *HERE)
    assert result.exit_code == 0
    told = plain(result.stderr).splitlines()
    assert told[:3] == [
        "stride on pulp: 2 cases, 1 simulated now",
        "1 of 2 cases have failed:",
        "  stride 64, offset 0: L1: data of 32516 bytes does not fit: 8192 of 8192 bytes are left",
    ]
    report = json.loads((tmp_path / "out" / "stride.json").read_text())
    assert [row["stride"] for row in report["rows"]] == [1]
    assert [failed["point"] for failed in report["failed"]] == [{"stride": 64, "offset": 0}]


def test_if_all_cases_fail_there_is_no_picture_and_the_status_is_1(tmp_path: Path) -> None:
    small = ["--set", "l1.size=16384", "--arg", "strides=[64]", "--arg", "reads=512"]
    result = study(tmp_path, "stride", *small, *HERE)
    assert result.exit_code == 1
    told = plain(result.stderr).splitlines()
    assert told[1] == "7 of 7 cases have failed:"
    assert told[7] == "  ... 2 more: the JSON has all"
    report = json.loads((tmp_path / "out" / "stride.json").read_text())
    assert (report["rows"], len(report["failed"])) == ([], 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bankin"], "study 'bankin': no such study; did you mean banking?"),
        (
            ["x"],
            "study 'x': no such study; the studies are banking, stride, traffic, dma, scaling, "
            "roofline",
        ),
        (["stride", "--arg", "cores"], '--arg cores: must be NAME=VALUE, such as "cores=[1, 2]"'),
        (["stride", "--arg", "cores=17"], "--arg: cores = 17: must be less than or equal to 16"),
        (["stride", "--arg", "core=1"], "--arg: core = 1: no such field; did you mean cores?"),
        (["stride", "--arg", "strides=[]"], "--arg: strides = []: must have at least one value"),
        (
            ["banking", "--arg", "banks=[4, 5, 128]"],
            "--arg: banks = [4, 5, 128]: must be powers of two from 1 to 64",
        ),
        (["traffic", "--arg", "rates=[2]"], "--arg: rates = [2]: must be less than or equal to 1"),
        (
            ["banking", "--arg", 'kernels=["matmul"]'],
            "kernel 'matmul': no such kernel; did you mean matmul_f32?",
        ),
        (
            ["roofline", "--arg", 'kernels=["relu_fw_f32"]'],
            "kernels: relu_fw_f32: it has no multiply-adds, by which a roofline goes",
        ),
        (
            ["stride", "--chip", "ri5cy-rtl"],
            "the chip ri5cy-rtl is a test bench without PULP's peripherals; take another",
        ),
        (
            ["stride", "--workers", "0"],
            "--workers: study.workers = 0: must be greater than or equal to 1",
        ),
        (
            ["stride", "--set", "l1.banks=3"],
            "--set: l1: banks is 3; the number of banks is a power of two",
        ),
        (["no.toml"], "no.toml: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_studied_is_told_in_one_line(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    result = study(tmp_path, *arguments)
    assert (result.exit_code, plain(result.stderr)) == (2, f"pulpsim: {message}\n")
    assert not (tmp_path / "out").exists()


def test_all_mistakes_of_a_config_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(
        "chip = { l1 = { banks = 5 } }\n[study]\nname = 'stride'\nworkers = 300\n"
        "args = { strides = [], core = 3, offsets = [0, 65] }\n"
    )
    result = study(tmp_path, file, "--arg", "x")
    assert result.exit_code == 2
    assert plain(result.stderr).replace(str(file), "FILE").splitlines() == [
        "pulpsim: FILE: chip.l1: banks is 5; the number of banks is a power of two",
        "pulpsim: FILE: study.workers = 300: must be less than or equal to 256",
        'pulpsim: --arg x: must be NAME=VALUE, such as "cores=[1, 2]"',
        "pulpsim: FILE: study.args.strides = []: must have at least one value",
        "pulpsim: FILE: study.args.offsets = [0, 65]: must be less than or equal to 64",
        "pulpsim: FILE: study.args.core = 3: no such field; did you mean study.args.cores?",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", 'FILE: no study: it needs a [study] table with name = "banking"'),
        ("study = 3", "FILE: study = 3: must be a table"),
        ("[study]\nname = 3", "FILE: study.name = 3: must be a valid string"),
        ("[study]\nname = 'stride'\nargs = 3", "FILE: study.args = 3: must be a table"),
        (
            "[study]\nname = 'stride'\nworker = 3",
            "FILE: study.worker = 3: no such field; did you mean study.workers?",
        ),
    ],
)
def test_a_config_without_a_proper_study_is_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    result = study(tmp_path, file)
    assert (result.exit_code, plain(result.stderr).replace(str(file), "FILE")) == (
        2,
        f"pulpsim: {message}\n",
    )


def test_a_folder_that_cannot_be_written_is_told_before_the_work(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    result = pulpsim("study", "stride", "--quick", "-o", file / "out")
    assert (result.exit_code, plain(result.stderr)) == (
        2,
        f"pulpsim: --output {file}/out: cannot be written: Not a directory\n",
    )
    result = pulpsim("study", "stride", "--quick", "-o", file)
    assert (result.exit_code, plain(result.stderr)) == (
        2,
        f"pulpsim: --output {file}: is a file, not a folder\n",
    )


def test_a_file_that_is_no_database_of_studies_is_told(tmp_path: Path) -> None:
    (tmp_path / "studies.db").write_text("no database, but long enough to be looked at" * 30)
    result = study(tmp_path, "stride", "--quick")
    assert (result.exit_code, plain(result.stderr)) == (
        2,
        f"pulpsim: {tmp_path}/studies.db: not a database of studies; give another file\n",
    )
