"""From a clone to the line of a C program that loses most cycles, and why, in five commands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, blocks_of

COMPILER = "riscv64-unknown-elf-gcc"


@pytest.mark.skipif(not shutil.which(COMPILER), reason=f"{COMPILER} is missing")
def test_five_commands_tell_which_line_loses_most_cycles_and_why(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "firmware").symlink_to(ROOT / "firmware")
    [page] = (page for page in PAGES if page.name == "getting-started.md")
    [block] = (block for block in blocks_of(page) if "pulpsim annotate" in block.text)
    commands = block.text.splitlines()
    assert len(commands) == 5

    run, _, traced, annotated, _ = (carry_out(command, tmp_path) for command in commands)

    assert "multiply-adds" in run
    assert "exit: the program returned 0" in traced
    lines = re.findall(r"^ +([\d,]+) .* (\w+) \w+ … .*/dot\.c:(\d+)$", annotated, re.MULTILINE)
    most, cause, line = max(lines, key=lambda found: int(found[0].replace(",", "")))
    source = (tmp_path / "examples/c/dot.c").read_text().splitlines()
    assert (cause, source[int(line) - 1].strip()) == ("multicycle", "y[i] = i % 5 - 1;")
    assert int(most.replace(",", "")) > 200_000
    assert "dot.c" in (tmp_path / "dot.html").read_text()


def carry_out(command: str, folder: Path) -> str:
    """What a command prints that a shell is given there."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    made = subprocess.run(
        command, shell=True, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert made.returncode == 0, f"{command}: {made.stdout}{made.stderr}"
    return made.stdout + made.stderr
