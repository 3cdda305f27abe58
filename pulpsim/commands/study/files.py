"""The files that a study leaves: rows as JSON and CSV, pictures as SVG and PNG."""

import csv
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from pulpsim.cli.output import PART, write
from pulpsim.commands.study.config import Plan
from pulpsim.commands.study.study import Finding, Row
from soc.config.toml import ConfigError, Mistakes
from soc.host.temporary import TemporaryFolder

SCHEMA = "pulpsim.study/1"
WITHOUT_MATPLOTLIB = (
    "no pictures: matplotlib is not installed; pip install matplotlib, or pulpsim's extra 'plot'"
)


def prepare_folder(folder: Path) -> None:
    """Make the folder, and refuse one that cannot be written, before the work.

    raises    ConfigError
    """
    try:
        if folder.is_file():
            raise ConfigError([f"--output {folder}: is a file, not a folder"])
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFolder(PART, folder).remove()
    except OSError as error:
        raise ConfigError([f"--output {folder}: cannot be written: {error.strerror}"]) from None


def write_files(
    plan: Plan, rows: Sequence[Row], failed: Sequence[Finding], text: str
) -> tuple[list[Path], str]:
    """Write all files; return them, and why there are no pictures, "" if there are.

    raises    ConfigError
    """
    name = plan.study.name
    contents = {f"{name}.json": to_json(plan, rows, failed, text), f"{name}.csv": to_csv(rows)}
    reason = ""
    try:
        if rows:
            from pulpsim.commands.study.plot_style import pictures

            contents |= {f"{name}.{k}": data for k, data in pictures(plan.study, rows).items()}
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        reason = WITHOUT_MATPLOTLIB
    mistakes = Mistakes()
    for file, data in contents.items():
        with mistakes.collected():
            write("--output", plan.output / file, data)
    mistakes.raise_any()
    return [plan.output / file for file in contents], reason


def to_json(plan: Plan, rows: Sequence[Row], failed: Sequence[Finding], text: str) -> bytes:
    """All that the study found."""
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "study": plan.study.name,
        "chip": plan.chip.model_dump(mode="json"),
        "arguments": plan.arguments.model_dump(mode="json"),
        "rows": list(rows),
        "failed": [{"point": dict(f.case.point), "reason": f.failure} for f in failed],
        "text": text,
    }
    return (json.dumps(content, indent=1) + "\n").encode()


def to_csv(rows: Sequence[Row]) -> bytes:
    """Rows with a line of headings; numbers in full."""
    out = StringIO()
    headings = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, headings, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()
