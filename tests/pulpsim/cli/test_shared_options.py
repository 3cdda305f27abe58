"""How bad input is told."""

from pathlib import Path

import pytest
import typer

from pulpsim.cli.output_place import beside
from pulpsim.cli.run_config import Options, load_run
from pulpsim.cli.shared_options import LONGEST, MISTAKES, reporting_bad_input
from pulpsim.commands.study.config import Options as StudyOptions
from pulpsim.commands.study.config import load_plan
from soc.config.toml import ConfigError


def told(mistakes: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(typer.Exit) as caught, reporting_bad_input():
        raise ConfigError(mistakes)
    assert caught.value.exit_code == 2
    return capsys.readouterr().err.splitlines()


def test_each_mistake_is_one_line_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(["a.toml: kernel 'x\ny\x1b': no such kernel", "b"], capsys)
    assert lines == [r"pulpsim: a.toml: kernel 'x\x0ay\x1b': no such kernel", "pulpsim: b"]


def test_very_many_and_very_long_mistakes_are_shortened(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = told([f"{number}" for number in range(MISTAKES + 5)], capsys)
    assert lines == [
        *(f"pulpsim: {n}" for n in range(MISTAKES)),
        "pulpsim: ... and 5 more mistakes",
    ]
    (line,) = told([f"a.toml: {'x' * 100_000}; the way out"], capsys)
    assert line.startswith("pulpsim: a.toml: xxx")
    assert line.endswith("xxx; the way out")
    assert len(line) < LONGEST + 20


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('chip = "plup"', "{file}: chip 'plup': no such chip; did you mean pulp? The path of a "
         "chip file ends in .toml"),
        ('[chip]\nbase = "plup"', "{file}: chip 'plup': no such chip; did you mean pulp? The path "
         "of a chip file ends in .toml"),
        ('chip = "b.toml"', "{folder}/b.toml: base: chip 'pul': no such chip; did you mean pulp? "
         "The path of a chip file ends in .toml"),
    ],
)  # fmt: skip
def test_a_chip_that_is_not_there_is_told_with_the_file_that_names_it(
    tmp_path: Path, text: str, mistake: str
) -> None:
    file = tmp_path / "a.toml"
    (tmp_path / "b.toml").write_text('base = "pul"')
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_run(file, Options(elf=Path("a.elf")))
    assert caught.value.mistakes == [mistake.format(file=file, folder=tmp_path)]


def test_a_study_that_is_not_there_is_told_with_the_file_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[study]\nname = "bankin"')
    with pytest.raises(ConfigError) as caught:
        load_plan(str(file), StudyOptions(database=tmp_path / "a.db"))
    assert caught.value.mistakes == [
        f"{file}: study 'bankin': no such study; did you mean banking?"
    ]


def test_what_the_system_refuses_is_told_with_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(typer.Exit) as caught, reporting_bad_input():
        Path("x" * 5000).stat()
    assert caught.value.exit_code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("pulpsim: xxx")
    assert line.endswith(": cannot be used: File name too long")


def test_a_folder_has_no_file_beside_it() -> None:
    assert beside(Path("a/b.s"), ".elf") == Path("a/b.elf")
    with pytest.raises(
        ConfigError, match=r"^\.: cannot be read: it is a folder; give the path of a file$"
    ):
        beside(Path(""), ".elf")
