"""Where `pulpsim tune` measures: what may be asked for, and that it changes nothing."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from pulpsim.cli.executor import executor_of
from pulpsim.commands import app as cli
from pulpsim.commands.tune.config import Options, TuneTable, load_tuning
from soc.config.toml import ConfigError

CONFIG = """
program.kernel = "linear_fw_f32"
program.args = {inputs = 24, outputs = 16, unroll = 1, rows = 1, cols = 2, split = [1, 8]}
tune = {policy = "exhaustive", sizes = 2, scheduler = "tcp://127.0.0.1:1"}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "layer.toml"
    file.write_text(CONFIG)
    return file


def report(config: Path, *options: str) -> dict:
    database = config.parent / f"{len(list(config.parent.iterdir()))}.db"
    arguments = ["tune", str(config), "--database", str(database), "--json", "-", *options]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_processes_and_a_cluster_started_for_the_search_find_what_one_thread_finds(
    config: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("distributed", reason="dask.distributed, the extra `cluster`, is missing")
    alone = report(config, "--workers", "1")
    assert alone["layers"][0]["simulated"] == 18
    if request.config.getoption("--full"):  # else the tests of searches that are killed do it
        assert report(config, "--workers", "2") == alone
    assert report(config, "--local-cluster", "1") == alone


def test_the_schedulers_address_is_taken_from_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="dask.distributed, the extra `cluster`, is missing")
    monkeypatch.setattr("autotuner.dask_executor.ANSWER", 1)
    result = CliRunner().invoke(cli.app, ["tune", str(config), "--database", ":memory:"])
    assert (result.exit_code, re.sub(r"\s+", " ", result.stderr)) == (
        2,
        "pulpsim: tcp://127.0.0.1:1: no Dask scheduler answers; start one by `dask scheduler`, "
        "and give the address that it shows ",
    )


def test_a_cluster_without_workers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="dask.distributed, the extra `cluster`, is missing")
    monkeypatch.setattr("autotuner.dask_executor.Cluster._connected", lambda cluster: None)
    monkeypatch.setattr("autotuner.dask_executor.Cluster.workers", 0)
    console = Console(file=StringIO(), width=100)
    executor_of(TuneTable(scheduler="tcp://host:8786"), console)
    assert console.file.getvalue() == (
        "tcp://host:8786: has no workers yet; it waits for `dask worker tcp://host:8786`\n"
    )


def test_an_option_takes_the_place_of_what_the_file_says(config: Path) -> None:
    how = load_tuning(config, Options(local_cluster=3)).how
    assert (how.workers, how.scheduler, how.local_cluster) == (None, None, 3)


def test_two_executors_at_once_are_refused(config: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--workers and --local-cluster; give one of them$"):
        load_tuning(config, Options(local_cluster=3, workers=2))
    config.write_text(CONFIG.replace("sizes = 2", "local_cluster = 2"))
    with pytest.raises(
        ConfigError, match=rf"^{config}: tune: scheduler and local_cluster; give one of them$"
    ):
        load_tuning(config, Options())
