"""pulpsim trace and pulpsim annotate: what their command lines say. Loads what they need late."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from pulpsim.cli.shared_options import WHERE, Json, reporting_bad_input

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pulpsim.trace.selection import Selection
    from soc.trace.reader import Trace


class _Group(TyperGroup):
    """A group of commands in which `pulpsim trace FILE` shows the file."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_command = args[0] in self.commands
        return super().resolve_command(ctx, args if is_command else ["show", *args])


trace_app = typer.Typer(
    cls=_Group,
    help="Show a recorded run as text, or export it for other tools.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A trace, recorded by `pulpsim run --trace FILE`.")
]
Harts = Annotated[
    list[str] | None,
    typer.Option("--hart", metavar="NAME", help="Select harts: core3, 0-3, fc, dma0; repeatable."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND,...",
        help="Select kinds: issue, stall, memory, conflict, dma, transfer, sleep, region.",
    ),
]
Functions = Annotated[
    list[str] | None,
    typer.Option("--function", metavar="NAME", help="Select the code of a function; repeatable."),
]
Addresses = Annotated[
    list[str] | None,
    typer.Option(
        "--pc",
        metavar="FROM-TO",
        help="Select instructions by address; TO is excluded; repeatable.",
    ),
]
Regions = Annotated[
    list[str] | None,
    typer.Option("--region", metavar="NAME", help="Select what is inside of a region; repeatable."),
]
Cycles = Annotated[
    str | None, typer.Option("--cycle", metavar="FROM-TO", help="Select cycles; TO is excluded.")
]


@trace_app.command("show")
def show(
    file: File,
    hart: Harts = None,
    kind: Kinds = None,
    function: Functions = None,
    pc: Addresses = None,
    region: Regions = None,
    cycle: Cycles = None,
    tui: Annotated[
        bool, typer.Option("--tui", help="Open the live view in the terminal: play, step, go back.")
    ] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Serve the live view at http://127.0.0.1:8000.")
    ] = False,
) -> None:
    """Show events as text, a line each, in the order of time."""
    with _reporting():
        if tui or web:
            from pulpsim.tui import replay

            _refuse_filters(
                hart=hart, kind=kind, function=function, pc=pc, region=region, cycle=cycle
            )
            _serve() if web else replay(file)
            return
        from pulpsim.trace.show import lines

        trace = _opened(file)
        selection = _selection(
            trace, hart=hart, kind=kind, function=function, pc=pc, region=region, cycle=cycle
        )
        if not _print(lines(trace, selection.parts(trace))):
            typer.echo("pulpsim: no event is chosen", err=True)
        _tell_what_is_missing(trace)


@trace_app.command("export")
def export(
    file: File,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="Format: perfetto, vcd, konata, spike, speedscope, callgrind, csv or parquet.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help=WHERE)
    ] = None,
    hart: Harts = None,
    kind: Kinds = None,
    function: Functions = None,
    pc: Addresses = None,
    region: Regions = None,
    cycle: Cycles = None,
) -> None:
    """Write a trace in the format of another tool.

    perfetto for ui.perfetto.dev, vcd for GTKWave or Surfer, konata for Konata, spike as
    `spike -l` writes, speedscope for speedscope.app, callgrind for KCachegrind and
    callgrind_annotate, csv and parquet for tables; parquet needs pyarrow.
    """
    with _reporting():
        from pulpsim.cli.terminal import one_line, progress
        from pulpsim.trace.export import formats

        trace = _opened(file)
        selection = _selection(
            trace, hart=hart, kind=kind, function=function, pc=pc, region=region, cycle=cycle
        )
        place = formats.target(trace, to, output)
        with progress(one_line(f"writing {place}")):
            formats.export(trace, to, selection, place)
        _tell_what_is_missing(trace)


def annotate(
    file: File,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="List only the N hottest functions.")
    ] = None,
    hart: Harts = None,
    function: Functions = None,
    pc: Addresses = None,
    region: Regions = None,
    cycle: Cycles = None,
    json: Json = None,
) -> None:
    """Show cycles, stalls and conflicts of a recorded run's code.

    The hottest first: functions, then source lines, then the instructions of each function in
    order. Cycles are those of all harts together: issues, and the stalls that an instruction pays
    for.
    """
    with _reporting():
        from json import dumps

        from pulpsim.cli.output import check_writable, write
        from pulpsim.trace.annotate import Annotation

        if json and str(json) != "-":
            check_writable("--json", json, file)
        trace = _opened(file)
        selection = _selection(
            trace, hart=hart, function=function, pc=pc, region=region, cycle=cycle
        )
        annotation = Annotation(trace, selection)
        if json is None:
            _print(annotation.lines(top))
        elif str(json) == "-":
            _print([dumps(annotation.to_json(), indent=1)])
        else:
            write("--json", json, (dumps(annotation.to_json(), indent=1) + "\n").encode())


def _serve() -> None:
    from pulpsim.tui.web import serve

    serve(sys.argv[1:])


def _refuse_filters(**filters: "list[str] | str | None") -> None:
    from soc.config.toml import ConfigError

    given = ", ".join(f"--{name}" for name, values in filters.items() if values)
    if given:
        raise ConfigError([f"{given}: --tui shows the whole recording; leave out one or the other"])


def _opened(file: Path) -> "Trace":
    from soc.trace.reader import Trace

    return Trace.open(file)


def _selection(trace: "Trace", cycle: str | None, **filters: list[str] | None) -> "Selection":
    from pulpsim.trace.selection import Selection

    given = {name: values or () for name, values in filters.items()}
    return Selection.of(trace, cycle=[cycle] if cycle else [], **given)


def _tell_what_is_missing(trace: "Trace") -> None:
    from pulpsim.cli.terminal import one_line

    if trace.gap:
        typer.echo(
            f"pulpsim: {one_line(f'{trace.path}: not all of the run: {trace.gap}')}", err=True
        )


def _print(lines: "Iterable[str]") -> int:
    """Print lines as they come; return how many. Who reads them may stop reading.

    raises    ConfigError if they cannot be written
    """
    import os
    import sys

    from soc.config.toml import ConfigError

    count = 0
    try:
        for line in lines:
            sys.stdout.write(f"{line}\n")
            count += 1
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer has nowhere to go; Python would try once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            message = f"standard output: cannot be written: {error.strerror}"
            raise ConfigError([message]) from None
        raise typer.Exit from None
    return count


@contextmanager
def _reporting() -> Iterator[None]:
    """Report each mistake in one line, a file that is no trace included."""
    from soc.config.toml import ConfigError
    from soc.trace.reader import TraceError

    with reporting_bad_input():
        try:
            yield
        except TraceError as error:
            raise ConfigError([str(error)]) from None
