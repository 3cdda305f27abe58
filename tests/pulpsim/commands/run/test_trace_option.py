"""pulpsim run --trace: what is recorded, what is refused, and what is left of a run that breaks."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from benchmarks.workload import elf
from pulpsim.cli.run_config import Options, load_run
from pulpsim.commands import app as cli
from soc.trace.reader import Kind, Trace
from soc.trace.writer import TraceWriter

ROOT = Path(__file__).parents[4]


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    file = tmp_path / "hello.elf"
    file.write_bytes(elf("hello").to_elf())
    return file


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    file = tmp_path / "endless.elf"
    file.write_bytes(elf("speed2_mm_hwl").to_elf())
    return file


def test_an_option_records_the_run_and_the_report_says_so(hello: Path, tmp_path: Path) -> None:
    result = pulpsim("run", "--elf", hello, "--trace", tmp_path / "run.trace")
    trace = Trace.open(tmp_path / "run.trace")
    assert result.exit_code == 0
    assert trace.complete
    assert trace.header["program"] == str(hello)
    assert f"trace: {trace.events.size:,} events in {tmp_path / 'run.trace'}" in result.stderr


def test_a_table_records_beside_the_config(hello: Path, tmp_path: Path) -> None:
    config = tmp_path / "conf.toml"
    config.write_text(
        'program.elf = "hello.elf"\nreport.json = "run.json"\n'
        '[trace]\nfile = "run.trace"\nlimit = 100\nfilters = ["kind=issue", "hart=fc"]\n'
    )
    assert pulpsim("run", config).exit_code == 0
    events = Trace.open(tmp_path / "run.trace").events
    assert (events.size, set(events["kind"]), set(events["hart"])) == (100, {Kind.ISSUE}, {8})
    report = json.loads((tmp_path / "run.json").read_text())
    assert report["trace"] == {"file": str(tmp_path / "run.trace"), "events": 100}


def test_options_win_over_the_table(tmp_path: Path) -> None:
    config = tmp_path / "conf.toml"
    config.write_text(
        'program.elf = "a.elf"\n[trace]\nfile = "a.trace"\nlimit = 5\nfilters = ["kind=dma"]\n'
    )
    run = load_run(config, Options())
    assert (run.trace, run.trace_limit, run.trace_filters) == (
        tmp_path / "a.trace",
        5,
        ("kind=dma",),
    )
    options = Options(trace=Path("b.trace"), trace_limit=6, trace_filters=["hart=1"])
    run = load_run(config, options)
    assert (run.trace, run.trace_limit, run.trace_filters) == (Path("b.trace"), 6, ("hart=1",))


def test_a_kernels_trace_has_its_name_arguments_and_regions(tmp_path: Path) -> None:
    config = tmp_path / "conf.toml"
    config.write_text(
        "[program]\nkernel = 'matmul_f32'\nargs = {n = 8, k = 8, m = 8}\n"
        "[trace]\nfile = 'a.trace'\n"
    )
    assert pulpsim("run", config).exit_code == 0
    trace = Trace.open(tmp_path / "a.trace")
    assert trace.header["kernel"] == "matmul_f32"
    assert trace.header["arguments"]["n"] == 8
    assert "compute" in trace.regions.values()


def test_all_mistakes_of_a_table_come_at_once(tmp_path: Path) -> None:
    config = tmp_path / "conf.toml"
    config.write_text(
        "program.elf = 'a.elf'\nrun.engine = 'quick'\n"
        "[trace]\nfile = ''\nlimit = 0\nfilters = ['kind=isue', 'cycle=8-']\nfilter = 3\n"
    )
    result = pulpsim("run", config)
    assert result.exit_code == 2
    assert sorted(result.stderr.splitlines()) == sorted(
        f"pulpsim: {config}: {line}"
        for line in [
            "run.engine = \"quick\": must be 'compiled' or 'event'",
            'trace.file = "": must be the path of a file',
            "trace.limit = 0: must be greater than or equal to 1",
            "trace.filters = ['kind=isue', 'cycle=8-']: 'kind=isue': 'isue' is no kind of event; "
            "did you mean issue?; 'cycle=8-': '8-' is no cycle and no range such as 0x100-0x200",
            "trace.filter = 3: no such field; did you mean trace.filters or trace.file?",
        ]
    )


def refused(*arguments: str | Path) -> str:
    result = pulpsim("run", *arguments)
    assert result.exit_code == 2
    return result.stderr


def test_limit_and_filters_need_a_file(hello: Path) -> None:
    message = "trace: limit and filters belong to a trace; say where with file or --trace"
    assert refused("--elf", hello, "--trace-limit", "5") == f"pulpsim: --trace-limit: {message}\n"


def test_a_trace_that_cannot_be_written_is_refused_before_the_run(
    hello: Path, tmp_path: Path
) -> None:
    nowhere = tmp_path / "none" / "run.trace"
    assert refused("--elf", hello, "--trace", nowhere) == (
        f"pulpsim: --trace {nowhere}: there is no folder {nowhere.parent}\n"
    )
    assert refused("--elf", hello, "--trace", tmp_path) == (
        f"pulpsim: --trace {tmp_path}: is a folder, not a file\n"
    )
    assert refused("--elf", hello, "--trace", "/dev/full") == (
        "pulpsim: trace /dev/full: cannot be written: No space left on device\n"
    )


def test_an_issue_trace_and_a_trace_exclude_each_other(hello: Path, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("run.trace", "issues.txt")]
    assert refused("--elf", hello, "--trace", files[0], "--issue-trace", files[1]) == (
        "pulpsim: --issue-trace and a trace exclude each other; a trace has all issues\n"
    )


@pytest.mark.parametrize("option", ["--trace", "--json", "--issue-trace"])
def test_neither_program_nor_config_is_overwritten(
    option: str, hello: Path, tmp_path: Path
) -> None:
    config = tmp_path / "run.toml"
    config.write_text(f"program.elf = {str(hello)!r}\n")
    before = hello.read_bytes(), config.read_bytes()
    for file in (hello, config):
        message = f"pulpsim: {option} {file}: is what is read; name another file\n"
        assert refused(config, option, file) == message
    assert (hello.read_bytes(), config.read_bytes()) == before


def test_a_filter_of_a_function_that_is_not_there_is_refused(hello: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    message = refused("--elf", hello, "--trace", file, "--trace-filter", "function=mian")
    assert message == (
        "pulpsim: trace filter 'function=mian': the program has no function 'mian'; "
        "did you mean main?\n"
    )


def started(program: Path, trace: Path, **how: object) -> subprocess.Popen:
    command = [sys.executable, "-m", "pulpsim", "run", "--elf", program, "--trace", trace]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, **how)


def test_ctrl_c_keeps_what_was_recorded(endless: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    running = started(endless, file, stdout=subprocess.DEVNULL)
    while not file.exists() or file.stat().st_size < 4 << 20:
        time.sleep(0.01)
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, report = running.communicate(timeout=120)
    trace = Trace.open(file)
    assert running.returncode == 130
    assert re.fullmatch(r"the run was interrupted in cycle \d+", trace.gap)
    assert trace.events.size > 4 << 16
    for h in range(8):
        told = trace.select([Kind.ISSUE, Kind.STALL], h)
        lengths = np.where(told["kind"] == Kind.STALL, told["b"], 1)
        assert lengths.sum(dtype=np.int64) == trace.cycles
    assert "trace: " in report


def test_a_killed_run_leaves_what_was_written(endless: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    running = started(endless, file, stdout=subprocess.DEVNULL)
    while not file.exists() or file.stat().st_size < 2 << 20:
        time.sleep(0.01)
        assert running.poll() is None
    running.kill()
    running.communicate()
    trace = Trace.open(file)
    assert trace.gap == "the recording broke off"
    assert trace.events.size > 1 << 15
    assert (np.diff(trace.events["cycle"].astype(np.int64)) >= 0).all()


SIZE = 3 << 20


def test_where_the_file_may_not_grow_the_run_goes_on_without(endless: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    config = tmp_path / "conf.toml"
    config.write_text("program.elf = 'endless.elf'\nrun.max_cycles = 200000\n")
    command = [sys.executable, "-m", "pulpsim", "run", config, "--trace", file]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, SIZE)),
    )
    trace = Trace.open(file)
    assert re.fullmatch(r"it ends in cycle \d+: it cannot be written: File too large", trace.gap)
    assert f"warning: trace {file}: {trace.gap}\n" in done.stderr
    assert "cycle limit of 200000 reached\n" in done.stderr
    assert done.returncode == 3
    assert 1 << 16 < trace.events.size <= SIZE // 16
    assert trace.header["cycles"] == 200_000


def test_the_event_engine_records_too(hello: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.trace"
    assert pulpsim("run", "--elf", hello, "--trace", file, "--engine", "event").exit_code == 0
    assert Trace.open(file).complete


def test_a_header_always_has_room_for_the_end(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "run.trace", {"symbols": [[0, 4, "a" * 65_500]]})
    writer.close(counts=[[1 << 40] * 30] * 17, why="x" * 1000)
    assert writer.start % (1 << 16) == 0
    assert (tmp_path / "run.trace").stat().st_size == writer.start
