"""The command build."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from isa.program import Program
from pulpsim.commands import app as cli
from trainlib.launch import program

ARGUMENTS = {"n": 8, "k": 8, "m": 8}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "product.toml"
    file.write_text('program.kernel = "matmul_f32"\nprogram.args = {n = 8, k = 8, m = 8}\n')
    return file


def build(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, ["build", *map(str, arguments)])


def test_a_config_becomes_an_elf_beside_it_unless_told_where(config: Path) -> None:
    assert build(config).exit_code == 0
    assert build(config, "-o", config.parent / "b.elf").exit_code == 0
    written = config.with_suffix(".elf").read_bytes()
    assert written == (config.parent / "b.elf").read_bytes()
    built = program("matmul_f32", ARGUMENTS).program
    assert Program.from_elf(written).segments == built.segments


def test_a_program_is_built_for_a_chip_and_its_settings(config: Path) -> None:
    assert build(config, "--chip", "pulp-cv32e40p", "--set", "cores=2").exit_code == 0
    elf = Program.from_elf(config.with_suffix(".elf"))
    assert "xcv" in (elf.architecture or "")


def test_a_run_of_the_elf_is_compared_with_the_reference(config: Path) -> None:
    build(config)
    elf, report = config.with_suffix(".elf"), config.with_suffix(".json")
    run = CliRunner().invoke(cli.app, ["run", str(elf), "--json", str(report)])
    assert run.exit_code == 0
    assert "512 multiply-adds" in run.stderr
    assert json.loads(report.read_text())["program"]["correct"] is True
    assert "not checked" not in run.stderr


def test_a_run_of_an_elf_that_was_changed_says_that_it_is_not_compared(config: Path) -> None:
    build(config)
    elf = config.with_suffix(".elf")
    elf.write_bytes(elf.read_bytes().replace(b'"n": 8', b'"n": 9'))
    run = CliRunner().invoke(cli.app, ["run", str(elf)])
    assert run.exit_code == 0
    what = "this version builds another program of matmul_f32 for this chip"
    assert f"pulpsim: {elf}: its result is not checked: {what}\n" in run.stderr
    assert "multiply-adds" not in run.stderr
    assert "not checked" not in CliRunner().invoke(cli.app, ["run", str(elf), "--quiet"]).stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            'program.elf = "a.elf"',
            (),
            "{config}: has an ELF already; build takes a config with program.kernel",
        ),
        (
            'program.kernel = "matmul_f32"\nprogram.args = {n = 8, k = 8}',
            (),
            "{config}: program.args.m: missing",
        ),
        ("", ("-o", "/"), "-o /: is a folder, not a file"),
    ],
)
def test_bad_input_is_told_in_one_line_with_status_2(
    config: Path, text: str, options: tuple[str, ...], message: str
) -> None:
    config.write_text(text)
    result = build(config, *options)
    assert result.exit_code == 2
    assert result.stderr == f"pulpsim: {message.format(config=config)}\n"
    assert not config.with_suffix(".elf").exists()
