"""A new project runs as it is, and tells which line of its C program loses most cycles."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pulpsim.commands import app as cli
from pulpsim.commands.new.command import SDK, STARTER

ROOT = Path(__file__).parents[4]
needs_compiler = pytest.mark.skipif(
    not (shutil.which("riscv64-unknown-elf-gcc") and shutil.which("make")),
    reason="riscv64-unknown-elf-gcc or make is not installed",
)


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    result = pulpsim("new", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"cd {folder}\n" in result.stdout
    return folder


def test_it_has_all_files_and_the_sdk_is_found(project: Path) -> None:
    names = {file.name for file in project.iterdir()}
    assert names == {"main.c", "Makefile", "run.toml", "measure.py", ".gitignore"}
    assert len(names) == len(list(STARTER.iterdir()))
    assert pulpsim("sdk").stdout == f"{SDK}\n"
    assert (SDK / "pulp.h").is_file()


@needs_compiler
def test_it_compiles_runs_is_profiled_and_measured(project: Path) -> None:
    def said(*command: str) -> str:
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "check": True}
        return subprocess.run(command, cwd=project, env=environment, **how).stdout

    (project / "bin").mkdir()
    script = f'#!/bin/sh\nexec {sys.executable} -m pulpsim "$@"\n'
    (project / "bin" / "pulpsim").write_text(script)
    (project / "bin" / "pulpsim").chmod(0o755)
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    run = said("make", "run")
    assert "right\n" in run
    assert "scale" in run
    profile = said("make", "profile")
    source = (project / "main.c").read_text().splitlines()
    hottest = 1 + next(n for n, line in enumerate(source) if "part[i] *=" in line)
    assert f"main.c:{hottest}" in profile
    rows = [line.split() for line in said(sys.executable, "measure.py").splitlines()[1:]]
    cycles = [int(row[2].replace(",", "")) for row in rows]
    assert [row[0] for row in rows] == ["1", "2", "4", "8"]
    assert cycles[0] > 7 * cycles[3]


def test_what_is_there_is_not_overwritten(project: Path, tmp_path: Path) -> None:
    again = pulpsim("new", project)
    way_out = "is there already, and not empty; give another folder"
    assert (again.exit_code, again.stderr) == (2, f"pulpsim: {project}: {way_out}\n")
    (tmp_path / "file").touch()
    assert pulpsim("new", tmp_path / "file").exit_code == 2
    inside = pulpsim("new", tmp_path / "file" / "x")
    assert (inside.exit_code, inside.stderr.count("\n")) == (2, 1)
    (tmp_path / "empty").mkdir()
    assert pulpsim("new", tmp_path / "empty").exit_code == 0
