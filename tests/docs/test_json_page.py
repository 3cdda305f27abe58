"""docs/json.md has every schema, and every field of what commands write."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import pulpsim as ps
from pulpsim.commands.app import app
from soc.prelude.counters import CAUSES
from tests.docs.blocks import ROOT
from tests.test_import_chain import FILES

PAGE = (ROOT / "docs" / "json.md").read_text()
OPEN = "tensors", "buffers", "stalls", "counters", "arguments", "phases", "chip"
"""Tables whose keys are names of their own."""


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield key
            if key not in OPEN or isinstance(entry, list):
                yield from keys(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from keys(entry)


def section(schema: str) -> str:
    """The page from where it names a schema up to the next one."""
    start = PAGE.index(f"`{schema}`")
    end = PAGE.find("`pulpsim.", start + 1)
    return PAGE[start : end if end > 0 else None]


def assert_documented(written: dict[str, Any]) -> None:
    text = section(written["schema"])
    missing = {key for key in keys(written) if not re.search(rf"\b{key}\b", text)}
    assert missing - {"schema"} == set()


def test_every_schema_of_a_command_is_on_the_page() -> None:
    code = "\n".join(file.read_text() for file in FILES if "deploy/graph" not in str(file))
    schemas = set(re.findall(r'"(pulpsim\.\w+/\d)"', code))
    assert len(schemas) >= 7
    assert schemas == set(re.findall(r"`(pulpsim\.\w+/\d)`", PAGE))


def test_every_cause_of_a_stall_is_on_the_page() -> None:
    for cause in CAUSES:
        assert re.search(rf"\b{cause}\b", PAGE), cause


def test_the_fields_of_results_are_on_the_page(tmp_path: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text(
        'program.kernel = "relu_fw_f32"\nprogram.args = {shape = [64]}\n'
        'report.json = "run.json"\ntrace.file = "run.trace"\n'
    )
    ps.run(config)
    assert_documented(json.loads((tmp_path / "run.json").read_text()))
    for command in (
        ["annotate", str(tmp_path / "run.trace")],
        ["footprint", "autoencoder"],
        ["fidelity", "--only", "c8_eu"],
        [
            "tune",
            str(config),
            "--sizes",
            "1",
            "--workers",
            "1",
            "--database",
            str(tmp_path / "tuned.db"),
        ],
    ):
        done = CliRunner().invoke(app, [*command, "--json", "-"])
        assert done.exit_code == 0, done.output
        assert_documented(json.loads(done.stdout))
