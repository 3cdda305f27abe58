"""The tree of commands: what each says of itself, and what it says of a word it does not know."""

import re
from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import pulpsim
from pulpsim.commands.app import app

WIDTH = 100


def paths(command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that lead to each command, those of groups among them."""
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from paths(inner, (*path, name))


PATHS = [*paths(get_command(app))]


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_and_option_says_what_it_does(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= WIDTH
    usage, _, rest = result.stdout.strip().partition("\n\n")
    assert usage.startswith("Usage: ")
    assert re.match(r" *[A-Z].*[.:]", rest), "it does not begin with a sentence"
    command = get_command(app)
    for name in path:
        command = command.commands[name]
    undocumented = [p.name for p in command.params if p.name != "help" and not p.help]
    assert undocumented == []


def test_words_that_are_no_command_are_refused() -> None:
    result = CliRunner().invoke(app, ["simulate"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "Error: No such command 'simulate'."


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"pulpsim {pulpsim.__version__}\n")
