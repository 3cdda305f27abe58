"""What commands have in common: options, and how bad input is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

BAD_INPUT = 2
MISTAKES = 20  # that are told
LONGEST = 600  # characters of one
WHERE = "Where to write; beside what is read by default."
INTERRUPTED = 130  # as shells report a program ended by Ctrl-C

Chip = Annotated[str | None, typer.Option(metavar="NAME", help="A chip by name, or a chip file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Change a field of the chip; repeatable."),
]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="NAME=VALUE", help="An argument of it; repeatable."),
]
Json = Annotated[
    Path | None, typer.Option(metavar="FILE", help="What it shows, as JSON; - is standard output.")
]
Database = Annotated[Path | None, typer.Option(metavar="FILE", help="Where results are kept.")]


def shortened(line: str) -> str:
    """A sentence with its begin and its end: where and what, and the way out."""
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"


@contextmanager
def reporting_bad_input() -> Iterator[None]:
    """One line on standard error for each mistake, and the exit status for bad input."""
    from isa.elf import ElfError
    from isa.expression import AsmError
    from soc.toml_file import ConfigError

    try:
        yield
    except (AsmError, ConfigError, ElfError) as error:
        from pulpsim.console import one_line

        mistakes = error.mistakes if isinstance(error, ConfigError) else str(error).splitlines()
        for mistake in mistakes[:MISTAKES]:
            typer.echo(f"pulpsim: {one_line(shortened(mistake))}", err=True)
        if len(mistakes) > MISTAKES:
            typer.echo(f"pulpsim: ... and {len(mistakes) - MISTAKES} more mistakes", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except OSError as error:
        if error.filename is None:
            raise
        from pulpsim.console import one_line

        place = one_line(shortened(str(error.filename)))
        typer.echo(f"pulpsim: {place}: cannot be used: {error.strerror}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except KeyboardInterrupt:
        typer.echo("pulpsim: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
