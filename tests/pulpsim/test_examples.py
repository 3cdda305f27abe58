"""The examples run and print what stands beside them; a run can be stopped by hand."""

import json
import re
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pulpsim.commands import app as cli

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
README = ROOT / "README.md"
TRAINING = ROOT / "docs" / "training.md"

PRINT_AND_SPIN = """
_start:
    li t0, 0x1a10f000
    li t1, 10
    sb t1, 0(t0)
    j .
"""


@pytest.mark.parametrize("source", sorted(EXAMPLES.glob("*.s")), ids=lambda file: file.stem)
def test_an_example_prints_what_stands_beside_it(source: Path, tmp_path: Path) -> None:
    elf = tmp_path / "example.elf"
    assert CliRunner().invoke(cli.app, ["asm", str(source), "-o", str(elf)]).exit_code == 0
    result = CliRunner().invoke(cli.app, ["run", "--elf", str(elf), "--max-cycles", "1000000"])
    assert result.stdout == source.with_suffix(".out").read_text()
    assert result.stderr.splitlines()[-1] == "exit: the program returned 0"
    assert result.exit_code == 0


def test_the_matmul_example_is_right_and_reports_its_rate() -> None:
    result = CliRunner().invoke(
        cli.app, ["run", str(EXAMPLES / "matmul.toml"), "--json", "-", "--max-cycles", "1000000"]
    )
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["program"]["correct"] is True
    assert report["program"]["macs"] == 64**3
    assert {region["name"] for region in report["harts"][0]["regions"]} == {
        "dma_in",
        "compute",
        "dma_out",
    }
    for hart in report["harts"]:
        assert hart["cycles"] == hart["instructions"] + sum(hart["stalls"].values())
    rates = r"^262,144 multiply-adds, \d\.\d\d a cycle in compute, 4\.56 in the whole run; .*[^G]$"
    assert re.search(rates, result.stderr, re.M)


def test_the_front_page_shows_the_report_of_the_matmul(request: pytest.FixtureRequest) -> None:
    result = CliRunner().invoke(cli.app, ["run", str(EXAMPLES / "matmul.toml")])
    lines = [line.rstrip() for line in result.stderr.splitlines()]
    first = next(index for index, line in enumerate(lines) if line.startswith("matmul_f32 on"))
    page = README.read_text()
    shown = re.search(r"^```\n(matmul_f32 on .*?)\n```$", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    if request.config.getoption("--update-golden"):
        README.write_text(page.replace(shown[1], "\n".join(lines[first:])))
    elif _without_host(lines[first:]) != _without_host(shown[1].splitlines()):
        pytest.fail("README.md shows another report; pytest --update-golden rewrites it")


def test_the_training_example_prints_the_losses_that_the_manual_shows() -> None:
    result = CliRunner().invoke(cli.app, ["run", str(EXAMPLES / "train.toml")])
    losses = [line for line in result.stdout.splitlines() if line.startswith("step ")]
    assert result.exit_code == 0
    assert len(losses) == 10
    assert "```\n" + "\n".join(losses[:3]) + "\n```\n" in TRAINING.read_text()


def _without_host(lines: list[str]) -> list[str]:
    """A report without what depends on the machine: MIPS and seconds."""
    return [lines[0].rpartition(" instructions,")[0], *lines[1:]]


def test_an_elf_that_build_wrote_runs_to_the_same_cycle(tmp_path: Path) -> None:
    config, elf = tmp_path / "small.toml", tmp_path / "small.elf"
    config.write_text('program.kernel = "matmul_f32"\nprogram.args = {n = 8, k = 8, m = 8}\n')
    assert CliRunner().invoke(cli.app, ["build", str(config)]).exit_code == 0
    cycles = set()
    for what in ([str(config)], ["--elf", str(elf)]):
        result = CliRunner().invoke(cli.app, ["run", *what, "--json", "-"])
        assert result.exit_code == 0
        cycles.add(json.loads(result.stdout)["cycles"])
    assert len(cycles) == 1


def test_control_c_stops_a_run_and_reports_what_had_happened(tmp_path: Path) -> None:
    source = tmp_path / "spin.s"
    source.write_text(PRINT_AND_SPIN)
    assert CliRunner().invoke(cli.app, ["asm", str(source)]).exit_code == 0
    command = [sys.executable, "-m", "pulpsim", "run", "--elf", str(tmp_path / "spin.elf")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "\n"
        running.send_signal(signal.SIGINT)
        _, report = running.communicate(timeout=300)
    assert running.returncode == 130
    assert "spin.elf on pulp" in report
    assert re.search(r"^interrupted in cycle \d+$", report, re.MULTILINE)


def test_digits_are_learnt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("torch", "sklearn"):
        pytest.importorskip(package)
    monkeypatch.setattr(sys, "argv", ["digits.py", "12"])
    runpy.run_path(str(EXAMPLES / "digits.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    losses = [float(re.search(r"loss (\d\.\d+)", line)[1]) for line in lines[:-1]]
    assert losses[-1] < 0.85 * losses[0]
    assert float(lines[-1].partition(" ")[0]) > 60
