"""`import pulpsim as ps`: its names, its functions, how its values look."""

import ast
import inspect
import subprocess
import sys
from html import escape
from pathlib import Path

import numpy as np
import pytest

import pulpsim as ps
from autotuner.dask_executor import Cluster
from isa.extensions.docs import page
from pulpsim import _HOME
from soc.host.notebook import MOST_ROWS, frame, html_table
from soc.result import RunResult
from soc.trace.reader import Kind
from trainlib.deploy.memory import Block, plan
from trainlib.launch import program

ROOT = Path(__file__).parents[3]
SMALL = {"n": 8, "k": 8, "m": 8}
HELLO = ROOT / "examples" / "hello.s"


@pytest.fixture(scope="module")
def small() -> ps.Program:
    return program("matmul_f32", SMALL).program


def test_nothing_is_imported_before_it_is_used() -> None:
    code = "import sys, pulpsim; print(sorted({m.partition('.')[0] for m in sys.modules} & %r))"
    heavy = {"numpy", "numba", "pydantic", "soc", "isa", "firmware", "trainlib", "rich", "typer"}
    done = subprocess.run(
        [sys.executable, "-c", code % heavy], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == "[]\n", done.stderr


def test_type_checkers_see_the_same_names() -> None:
    stub = ast.parse((ROOT / "pulpsim" / "__init__.pyi").read_text())
    seen = {
        alias.asname: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == _HOME
    for package in ("isa", "soc", "firmware", "trainlib", "autotuner", "pulpsim"):
        assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize("name", _HOME)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    assert name in dir(ps)
    assert inspect.getdoc(getattr(ps, name))


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"^module 'pulpsim' has no attribute 'runn'$"):
        _ = ps.runn  # type: ignore[attr-defined]


def test_a_program_an_elf_and_a_config_run_to_the_same_cycle(
    tmp_path: Path, small: ps.Program
) -> None:
    elf, config = tmp_path / "small.elf", tmp_path / "small.toml"
    elf.write_bytes(small.to_elf())
    config.write_text('program.kernel = "matmul_f32"\nprogram.args = {n = 8, k = 8, m = 8}\n')
    every = small, elf, str(config), program("matmul_f32", SMALL)
    results = [ps.run(one) for one in every]
    assert {result.cycles for result in results} == {results[0].cycles}
    assert {result.exit.code for result in results} == {0}
    assert {row["region"] for row in results[2].rows("regions")} == {"dma_in", "compute", "dma_out"}


def test_a_chip_is_a_name_a_table_or_a_whole_one(small: ps.Program) -> None:
    fewer = {"l1": {"banks": 4}}
    table = ps.run(small, fewer)
    assert table.spec == ps.run(small, ps.load_chip("pulp", {"l1.banks": 4})).spec
    assert table.spec.l1.banks == 4
    assert ps.run(small, "pulp").cycles < table.cycles


@pytest.mark.usefixtures("_cluster_in_this_process")
def test_many_runs_have_their_outcomes_in_order_wherever_they_are_carried_out(
    small: ps.Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [ps.Run(small, ps.load_chip("pulp", {"l1.banks": banks})) for banks in (4, 16)]
    ended: dict[int, int] = {}
    here = ps.run_many(runs, workers=2, keep=cycles, on_end=ended.__setitem__)
    with Cluster.local(1) as cluster:
        there = ps.run_many(runs, scheduler=cluster.scheduler, keep=cycles)
    assert here == there == [ended[0], ended[1]] == [ps.run(r.program, r.chip).cycles for r in runs]
    monkeypatch.setattr("autotuner.dask_executor.ANSWER", 1)
    with pytest.raises(ps.ConfigError, match="no Dask scheduler answers"):
        ps.run_many(runs, scheduler="tcp://127.0.0.1:1")


def cycles(result: RunResult) -> int:
    return result.cycles


def test_settings_are_those_of_the_command(tmp_path: Path, small: ps.Program) -> None:
    trace = tmp_path / "small.trace"
    stopped = ps.run(small, max_cycles=500, trace=trace, trace_filters=["kind=issue"])
    assert (stopped.exit.reason, stopped.cycles) == ("max_cycles", 500)
    assert {*ps.Trace.open(trace).events["kind"].tolist()} == {Kind.ISSUE}
    with pytest.raises(ps.ConfigError, match=r'--engine: run\.engine = "fast"'):
        ps.run(small, engine="fast")  # type: ignore[arg-type]
    with pytest.raises(ps.ConfigError, match=r"l1\.bank"):
        ps.run(small, {"l1": {"bank": 4}})


def test_a_config_writes_the_report_that_it_asks_for(tmp_path: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text(
        'program.kernel = "matmul_f32"\nprogram.args = {n = 8, k = 8, m = 8}\n'
        'report.json = "small.json"\n'
    )
    result = ps.run(config, engine="event")
    assert result.engine == "event"
    assert f'"cycles": {result.cycles}' in (tmp_path / "small.json").read_text()


def test_tuning_finds_a_point_that_runs(tmp_path: Path) -> None:
    arguments = {"shape": [64]}
    how = {"policy": "exhaustive", "sizes": 1, "workers": 1}
    database = tmp_path / "tuned.db"
    found = ps.tune("relu_fw_f32", arguments, database=database, **how)  # type: ignore[arg-type]
    assert found.best is not None
    assert found.best.outcome.cycles <= found["relu_fw_f32"].default.cycles
    assert "cycles>" in repr(found)
    assert "<table>" in found._repr_html_()
    config = tmp_path / "best.toml"
    config.write_text(found.config())
    assert ps.run(config).exit.code == 0
    with pytest.raises(ps.ConfigError, match="inputs"):
        ps.tune("linear_fw_f32", {"outputs": 8})


def test_a_study_has_rows_a_text_and_files(tmp_path: Path) -> None:
    few = {"banks": [8, 16], "cores": [1, 2], "kernels": [{"kernel": "matmul_f32", "args": SMALL}]}
    found = ps.study("banking", database=tmp_path / "studies.db", workers=1, **few)
    assert len(found.rows) == 4
    assert repr(found) == "<StudyResult banking on pulp: 4 rows>"
    assert escape(found.text) in found._repr_html_()
    assert (tmp_path / "out" / "banking.json") in found.save(tmp_path / "out")
    with pytest.raises(ps.ConfigError, match="did you mean banking"):
        ps.study("bankin")


def test_a_result_is_short_in_a_shell_and_a_table_in_a_notebook(small: ps.Program) -> None:
    result = ps.run(small)
    assert repr(result) == (
        f"<RunResult matmul_f32 on pulp: exit 0, {result.cycles:,} cycles, "
        f"{result.instructions:,} instructions>"
    )
    shown = result._repr_html_()
    assert shown.count("<tr>") == 10
    assert "core7" in shown
    assert "trap" not in shown  # no cycle was lost to traps
    for row in result.rows():
        stalls = sum(value for name, value in row.items() if name not in _FIGURES)
        assert row["cycles"] == row["instructions"] + stalls
    assert sum(bank["accesses"] for bank in result.rows("banks")) > 0
    with pytest.raises(ValueError, match=r"^rows 'cores'; there are harts, regions and banks$"):
        result.rows("cores")


_FIGURES = "hart", "cycles", "instructions", "ipc"


def test_traces_chips_and_plans_are_short(tmp_path: Path, small: ps.Program) -> None:
    result = ps.run(small, trace=tmp_path / "a.trace")
    trace = ps.Trace.open(tmp_path / "a.trace")
    assert repr(trace).endswith(f"a.trace: {result.cycles:,} cycles, {trace.events.size:,} events>")
    issues = int((trace.events["kind"] == Kind.ISSUE).sum())
    assert f"{issues:,}" in trace._repr_html_()
    chip = ps.load_chip()
    assert repr(chip) == "<SocSpec pulp: 8 ri5cy cores, 64 kB of L1 in 16 banks, 2048 kB of L2>"
    assert "l1.banks" in chip._repr_html_()
    blocks = [Block("w", 64, 0, 2)], [Block("x", 128, 0, 1), Block("y", 128, 2, 2)]
    memory = plan(*blocks, 0x1C000000)
    assert len(repr(memory)) < 100
    size = sum(len(segment.data) for segment in small.segments)
    assert repr(small) == f"<Program matmul_f32: {size:,} bytes, entry {small.entry:#010x}>"
    assert [row["name"] for row in memory.rows()] == ["w", "x", "y"]
    assert "0x1c000040" in memory._repr_html_()


def test_frames_have_a_column_for_each_figure(tmp_path: Path, small: ps.Program) -> None:
    pytest.importorskip("pandas")
    result = ps.run(small, trace=tmp_path / "a.trace")
    harts = result.to_frame()
    assert harts.shape == (9, 4 + len(result.rows()[0]) - 4)
    assert harts["instructions"].sum() == result.instructions
    trace = ps.Trace.open(tmp_path / "a.trace")
    events = trace.to_frame(trace.select(Kind.ISSUE, hart=3))
    assert {*events["hart"]} == {"core3"}
    assert len(events) == harts.loc[harts["hart"] == "core3", "instructions"].item()
    assert ps.load_chip().to_frame().shape[1] == 4


def test_frames_need_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^to_frame needs pandas: pip install pandas$"):
        frame([{"a": 1}])


def test_tables_escape_text_and_end_somewhere() -> None:
    shown = html_table("<b>", [{"n": 1234, "x": 0.12345, "t": "<i>", "none": None}], "a & b")
    for text in ("&lt;b&gt;", "1,234", "0.1235", "&lt;i&gt;", "a &amp; b"):
        assert text in shown
    long = html_table("", ({"n": n} for n in range(MOST_ROWS + 5)))
    assert long.count("<tr>") == MOST_ROWS + 1
    assert "5 more rows" in long


def test_a_builder_lists_its_instructions_with_their_pages() -> None:
    k = ps.new_kernel(ps.load_chip())
    assert {"p_mac", "add", "beqz", "loop", "x"} <= {*dir(k)}
    said = inspect.getdoc(k.p_mac)
    assert said is not None
    assert said.startswith("k.p_mac(rd, rs1, rs2)\n")
    assert page(k.isa["p_mac"]).rstrip() in said
    pseudo = inspect.getdoc(k.beqz)
    assert pseudo is not None
    assert "a pseudo-instruction, stands for\n\nbeq rs1, rs2" in pseudo
    x = k.x(3)
    k.p_mac(*x)
    assert np.array(k.code.items[-1].word).item() & 0x7F == 0x33
