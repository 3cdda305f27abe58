"""A tree that was changed as docs/adding/ says: with --full, since it compiles the simulator."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks_of
from tests.test_import_chain import CHAIN

ADDING = ROOT / "docs" / "adding"


@pytest.fixture
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of what is installed."""
    if not request.config.getoption("--full"):
        pytest.skip("compiles the simulator; runs with --full")
    for package in (*CHAIN, "configs"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, tmp_path / package, ignore=ignored)
    return tmp_path


def patch(tree: Path, page: Path) -> None:
    """Apply the page's diff."""
    (text,) = [block.text for block in blocks_of(page) if block.language == "diff"]
    command = ["git", "apply", "--recount", "--unidiff-zero", "-"]
    subprocess.run(command, input=text, text=True, cwd=tree, check=True)


def pulpsim(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pulpsim", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True)


def test_an_instruction_added_as_the_page_says_is_executed(tree: Path) -> None:
    page = ADDING / "instruction.md"
    blocks = [*blocks_of(page)]
    declared = next(block.text for block in blocks if block.language == "python")
    (program,) = [block.text for block in blocks if block.language == "asm"]
    (tree / "isa" / "extensions" / "xdemo.py").write_text(declared)
    (tree / "demo.s").write_text(program)
    patch(tree, page)
    assert pulpsim(tree, "asm", "demo.s").returncode == 0
    run = pulpsim(tree, "run", "--elf", "demo.elf")
    assert run.stderr.splitlines()[-1] == "exit: the program returned 7", run.stderr
    assert "|rs1 - rs2|" in pulpsim(tree, "isa", "demo.absdiff").stdout


def test_an_export_added_as_the_page_says_writes_a_file(tree: Path) -> None:
    page = ADDING / "export.md"
    written = next(block.text for block in blocks_of(page) if block.language == "python")
    (tree / "pulpsim" / "trace" / "export" / "activity.py").write_text(written)
    patch(tree, page)
    small = "--arg n=8 --arg k=8 --arg m=8".split()
    run = pulpsim(tree, "run", "--kernel", "matmul_f32", *small, "--trace", "run.trace")
    assert run.returncode == 0, run.stderr
    export = pulpsim(tree, "trace", "export", "run.trace", "--to", "activity")
    assert export.returncode == 0, export.stderr
    assert (tree / "run.activity.csv").read_text().startswith("cycle,core0,")
