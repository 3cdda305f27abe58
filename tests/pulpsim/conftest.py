"""What several tests of commands have in common."""

from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import pytest
from typer import testing

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


@pytest.fixture(autouse=True, scope="session")
def _commands_are_built_once() -> Iterator[None]:
    """Build the tree of commands once, as a process does, not for each that is invoked: 17 ms."""
    with patch.object(testing, "_get_command", cache(testing._get_command)):
        yield


@pytest.fixture
def _cluster_in_this_process(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let workers of a cluster on this machine be threads: 4 s less; with --full, processes."""
    distributed = pytest.importorskip(
        "distributed", reason="dask.distributed, the extra `cluster`, is missing"
    )
    if not request.config.getoption("--full"):
        threads = partial(distributed.LocalCluster, processes=False, protocol="tcp://")
        monkeypatch.setattr(distributed, "LocalCluster", threads)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A config of a small layer in two steps."""
    file = tmp_path / "network.toml"
    file.write_text(LAYERS)
    return file
