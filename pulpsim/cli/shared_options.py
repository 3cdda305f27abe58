"""Options that commands share, and how bad input is reported."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EPIPE
from pathlib import Path
from typing import Annotated, Any

import typer

from soc.host import signals

BAD_INPUT = 2
MISTAKES = 20  # that are told
LONGEST = 600  # characters of one
WHERE = "File to write; by default beside the one that is read."
INTERRUPTED = 130  # as shells report a program ended by Ctrl-C

Chip = Annotated[str | None, typer.Option(metavar="NAME", help="A chip by name, or a chip file.")]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="event|compiled",
        help="Simulator engine: compiled is fast, event defines what is right.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change a field of the chip, such as l1.banks=8; repeatable.",
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Option(
        "--arg", metavar="NAME=VALUE", help="Set an argument of the kernel or study; repeatable."
    ),
]
Json = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the report as JSON; - is standard output."),
]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="tcp://HOST:PORT", help="Simulate on the Dask cluster of this scheduler."),
]
LocalCluster = Annotated[
    int | None, typer.Option(metavar="N", help="Start a Dask cluster of N workers here.")
]
Database = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Database that keeps the results.")
]


def begin() -> None:
    """Let signals end the command with a sentence, and warnings be one."""
    signals.take_over("pulpsim: interrupted")
    warnings.showwarning = _show_warning  # type: ignore[assignment]


@contextmanager
def reporting_bad_input() -> Iterator[None]:
    """One line on standard error for each mistake, and the exit status for bad input.

    The same for a signal that ends the command, and for files that the system refuses.
    """
    from isa.assembler.expression import AsmError
    from isa.elf.reader import ElfError
    from soc.config.toml import ConfigError

    try:
        with signals.at_work():
            yield
    except typer.Exit as end:
        is_interrupted = signals.received and end.exit_code == INTERRUPTED
        raise typer.Exit(_interrupted() if is_interrupted else end.exit_code) from None
    except KeyboardInterrupt:
        _say("interrupted")
        raise typer.Exit(_interrupted()) from None
    except (AsmError, ConfigError, ElfError) as error:
        mistakes = error.mistakes if isinstance(error, ConfigError) else str(error).splitlines()
        for mistake in mistakes[:MISTAKES]:
            _say(mistake)
        if len(mistakes) > MISTAKES:
            _say(f"... and {len(mistakes) - MISTAKES} more mistakes")
        raise typer.Exit(BAD_INPUT) from None
    except BaseException as error:
        if signals.received:  # what was interrupted may say so in its own way
            _say("interrupted")
            raise typer.Exit(_interrupted()) from None
        if not isinstance(error, OSError) or error.errno == EPIPE:
            raise
        _give_up_output()
        _say(f"{error.filename or 'its output'}: cannot be used: {error.strerror}")
        raise typer.Exit(BAD_INPUT) from None


def _interrupted() -> int:
    """Return the exit status after a signal, as shells report it.

    NOTE: CPython remembers an interrupt that has left the exec() of a string, as dataclasses use
    it, and would end by SIGINT, whatever its exit status; the next exec() lets it forget.
    """
    exec("")
    return 128 + signals.received if signals.received else INTERRUPTED


def _say(sentence: str) -> None:
    from pulpsim.cli.terminal import one_line

    with suppress(OSError):
        typer.echo(f"pulpsim: {one_line(shortened(sentence))}", err=True)


def shortened(line: str) -> str:
    """A sentence with its begin and its end: where and what, and the way out."""
    half = LONGEST // 2
    return line if len(line) <= LONGEST else f"{line[:half]} ... {line[-half:]}"


def _give_up_output() -> None:
    """Discard what is left in the buffer; Python would try to write it once more at its end."""
    with suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(message: Warning | str, category: type[Warning], *where: Any) -> None:
    """Print a warning of ours as a line, others as Python does."""
    if category.__module__.startswith("soc."):
        _say(str(message))
    else:
        sys.stderr.write(warnings.formatwarning(message, category, *where[:2]))
