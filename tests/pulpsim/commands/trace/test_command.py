"""pulpsim trace and pulpsim annotate, as a person uses them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from pulpsim.commands import app as cli
from pulpsim.trace.export import formats
from soc.run import run_program
from soc.trace.reader import EVENT, Trace
from soc.trace.recorder import Recording
from tests.pulpsim.trace import recordings
from trainlib import launch

ROOT = Path(__file__).parents[4]


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return recordings.recording(tmp_path)


def test_a_recorded_run_is_shown_and_annotated(tmp_path: Path) -> None:
    config = tmp_path / "conf.toml"
    config.write_text('[program]\nkernel = "relu_fw_f32"\n[program.args]\nshape = [64]\n')
    file = tmp_path / "run.trace"
    assert pulpsim("run", config, "--trace", file, "--quiet").exit_code == 0
    result = pulpsim("trace", "show", file, "--kind", "region")
    assert result.exit_code == 0
    assert "core7" in result.stdout
    assert pulpsim("annotate", file).stdout.splitlines()[0].startswith("relu_fw_f32: ")
    assert pulpsim("trace", "export", file, "--to", "perfetto").exit_code == 0
    assert (tmp_path / "run.pftrace").stat().st_size > 1000


def test_show_takes_the_filters_of_a_recording(trace: Trace) -> None:
    shown = pulpsim(
        "trace", "show", trace.path, "--hart", "core1", "--kind", "issue", "--cycle", "9-14"
    )
    assert [line.split()[:2] for line in shown.stdout.splitlines()] == [
        ["9", "core1"],
        ["13", "core1"],
    ]
    whole = pulpsim("trace", "show", trace.path).stdout
    assert pulpsim("trace", trace.path).stdout == whole
    for arguments in (["--function", "double"], ["--pc", "0x1c008010-0x1c008018"]):
        assert len(pulpsim("trace", "show", trace.path, *arguments).stdout.splitlines()) == 3
    assert len(pulpsim("trace", "show", trace.path, "--region", "work").stdout.splitlines()) == 8


def test_that_no_event_is_chosen_is_told(trace: Trace) -> None:
    shown = pulpsim("trace", "show", trace.path, "--cycle", "900-901")
    assert (shown.exit_code, shown.stdout, shown.stderr) == (
        0,
        "",
        "pulpsim: no event is chosen\n",
    )
    assert pulpsim("trace", "show", trace.path).stderr == ""


def content(file: Path, name: str) -> object:
    """What a reader gets: pyarrow leaves the padding of bit-packed columns uninitialised."""
    if name == "parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(file)
    data = file.read_bytes()
    assert data
    return data


@pytest.mark.parametrize("name", formats.FORMATS)
def test_every_format_is_written_beside_the_trace_or_where_told(trace: Trace, name: str) -> None:
    result = pulpsim("trace", "export", trace.path, "--to", name)
    file = trace.path.with_suffix(formats.FORMATS[name].suffix)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"writing {file} ...\n"
    other = file.with_name("other")
    assert pulpsim("trace", "export", trace.path, "--to", name, "-o", other).exit_code == 0
    assert content(other, name) == content(file, name)
    views = [each.with_suffix(".gtkw") for each in (file, other) if name == "vcd"]
    assert sorted(trace.path.parent.iterdir()) == sorted([trace.path, file, other, *views])


@pytest.mark.parametrize("name", [name for name in formats.FORMATS if name != "parquet"])
def test_names_are_harmless_in_every_format(trace: Trace, name: str, tmp_path: Path) -> None:
    header = trace.header
    header["symbols"][0][2] = '\x1b[31m,"</script>\r\nma$end(1) x'
    for row, line in zip(header["lines"], (3, 4), strict=False):
        row[1] = f"\x1b]0;\n.c:{line}"
    header["program"] = "\x1b$end\n"
    odd = recordings.write(tmp_path / "odd.trace", recordings.events(), **header)
    file = tmp_path / "out"
    formats.export(odd, name, formats.Selection(), file)
    data = file.read_bytes()
    if name == "perfetto":  # binary: names are no text that a terminal shows
        assert b"ma$end(1) x" in data
        return
    plain = recordings.write(tmp_path / "plain.trace", recordings.events())
    formats.export(plain, name, formats.Selection(), file)
    assert b"\x1b" not in data
    assert data.count(b"\n") == file.read_bytes().count(b"\n")


def test_what_is_exported_without_events_is_valid(tmp_path: Path) -> None:
    empty = recordings.write(tmp_path / "t.trace", np.zeros(0, EVENT))
    written = {}
    for name in formats.FORMATS:
        formats.export(empty, name, formats.Selection(), tmp_path / "out")
        written[name] = (tmp_path / "out").read_bytes()
    assert json.loads(written["speedscope"])["profiles"] == []
    assert (written["konata"], written["spike"]) == (b"Kanata\t0004\n", b"")
    assert b"$enddefinitions $end" in written["vcd"]


def test_annotations_are_json_on_demand(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert pulpsim("annotate", trace.path, "--json", file).exit_code == 0
    told = json.loads(file.read_text())
    assert json.loads(pulpsim("annotate", trace.path, "--json", "-").stdout) == told
    assert (told["schema"], told["total"]["cycles"]) == ("pulpsim.annotate/1", 28)


@pytest.mark.parametrize(
    "arguments", [["trace", "show"], ["annotate"], ["trace", "export", "--to", "csv"]]
)
def test_a_file_that_is_no_trace_is_refused_in_one_line(
    tmp_path: Path, arguments: list[str]
) -> None:
    file = tmp_path / "x.trace"
    result = pulpsim(*arguments, file)
    message = f"pulpsim: {file}: cannot be read: No such file or directory\n"
    assert (result.exit_code, result.stderr) == (2, message)
    file.write_bytes(b"\x1b[31mELF" + bytes(100))
    result = pulpsim(*arguments, file)
    start = rf"pulpsim: {file}: not a trace: it begins with b'\x1b[31mELF'"
    assert (result.exit_code, result.stderr) == (2, f"{start}, not with b'PULPTRC1'\n")


def test_a_truncated_trace_is_shown_as_far_as_it_goes(trace: Trace) -> None:
    data = trace.path.read_bytes()
    trace.path.write_bytes(data[: len(data) - 16 * 25 - 5])
    result = pulpsim("trace", "show", trace.path)
    assert len(result.stdout.splitlines()) == 2
    missing = "not all of the run: the file is truncated: 2 of 28 events are left"
    assert result.stderr == f"pulpsim: {trace.path}: {missing}\n"
    assert "not all of the run" in pulpsim("annotate", trace.path).stdout


def test_events_that_cannot_be_are_told_in_one_line(tmp_path: Path) -> None:
    bad = recordings.write(tmp_path / "t.trace", np.array([(0, 99, 0, 0, 0, 0)], EVENT))
    for arguments in (["trace", "show"], ["annotate"], ["trace", "export", "--to", "vcd"]):
        result = pulpsim(*arguments, bad.path)
        message = f"pulpsim: {bad.path}: damaged: (0, 99, 0, 0, 0, 0) is no event of this chip"
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (2, message)
    assert list(tmp_path.iterdir()) == [bad.path]


@pytest.mark.parametrize(
    "arguments",
    [["annotate", "--json"], ["report", "-o"], ["trace", "export", "--to", "csv", "-o"]],
)
def test_no_recording_is_overwritten(arguments: list[str], trace: Trace) -> None:
    before = trace.path.read_bytes()
    result = pulpsim(*arguments, trace.path, trace.path)
    message = f"pulpsim: {arguments[-1]} {trace.path}: is what is read; name another file\n"
    assert (result.exit_code, result.stderr) == (2, message)
    assert trace.path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--to", "x"],
            "--to x: must be of perfetto, vcd, konata, spike, speedscope, callgrind, csv, parquet",
        ),
        (["--to", "csv", "-o", "TRACE"], "-o TRACE: is what is read; name another file"),
        (["--to", "csv", "-o", "FOLDER/no/x"], "-o FOLDER/no/x: there is no folder FOLDER/no"),
        (["--to", "csv", "-o", "FOLDER"], "-o FOLDER: is a folder, not a file"),
        (
            ["--to", "csv", "--hart", "core99"],
            "--hart core99: no hart 'core99'; did you mean core7?",
        ),
    ],
)
def test_an_export_that_cannot_be_is_refused(
    trace: Trace, arguments: list[str], message: str
) -> None:
    def placed(text: str) -> str:
        return text.replace("TRACE", str(trace.path)).replace("FOLDER", str(trace.path.parent))

    result = pulpsim("trace", "export", trace.path, *map(placed, arguments))
    assert (result.exit_code, result.stderr) == (2, f"pulpsim: {placed(message)}\n")


def test_parquet_needs_pyarrow(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = pulpsim("trace", "export", trace.path, "--to", "parquet")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()[1:]
    way_out = "`pip install pyarrow` gets it, --to csv needs nothing"
    assert line == f"pulpsim: --to parquet: needs pyarrow; {way_out}"


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")


@needs_full
def test_a_full_disk_is_told_in_one_line_and_leaves_nothing(trace: Trace) -> None:
    result = pulpsim("trace", "export", trace.path, "--to", "csv", "-o", "/dev/full")
    message = "pulpsim: -o /dev/full: cannot be written: No space left on device"
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (2, [message])
    with Path("/dev/full").open("w") as full:
        done = _process("trace", "show", str(trace.path), stdout=full)
    message = "pulpsim: standard output: cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_an_export_that_breaks_off_leaves_what_was_there(
    trace: Trace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "out.csv"
    file.write_text("before")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pulpsim.trace.export.table.csv", interrupted)
    result = pulpsim("trace", "export", trace.path, "--to", "csv", "-o", file)
    assert (result.exit_code, result.stderr.splitlines()[1:]) == (130, ["pulpsim: interrupted"])
    assert file.read_text() == "before"
    assert sorted(tmp_path.iterdir()) == sorted([file, trace.path])


def test_a_reader_that_stops_reading_ends_it_quietly(tmp_path: Path) -> None:
    file = tmp_path / "product.trace"
    run_program(
        launch.program("matmul_f32", {"n": 16, "k": 16, "m": 16}).program, trace=Recording(file)
    )
    for command in ("trace show", "annotate", "trace export --to csv -o /dev/stdout"):
        line = f"{sys.executable} -m pulpsim {command} {file} | head -1"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, cwd=ROOT
        )
        assert len(done.stdout.splitlines()) == 1
        told = [text for text in done.stderr.splitlines() if not text.startswith("writing ")]
        assert (done.returncode, told) == (0, [])


def _process(*arguments: str, stdout: object) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "pulpsim", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
