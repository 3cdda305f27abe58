"""What several tests of commands have in common."""

from pathlib import Path

import pytest

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
def network(tmp_path: Path) -> Path:
    """A config of a small layer in two steps."""
    file = tmp_path / "network.toml"
    file.write_text(LAYERS)
    return file
