"""The command build."""

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
