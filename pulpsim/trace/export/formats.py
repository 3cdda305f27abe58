"""The formats of `pulpsim trace export`, and writing a file of one: whole, or not at all."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pulpsim.cli.output import check_writable, written
from pulpsim.trace.selection import Selection
from soc.config.toml import ConfigError
from soc.trace.reader import Trace

Writer = Callable[[Trace, Selection, BinaryIO], None]


class Format(NamedTuple):
    """Where a format is written, and the suffix of its files.

    view    suffix of a second file beside it, which the module's `view` makes: it tells the viewer
            what to show; "" if there is none
    """

    module: str
    suffix: str
    view: str = ""


FORMATS = {
    "perfetto": Format("perfetto", ".pftrace"),
    "vcd": Format("vcd", ".vcd", ".gtkw"),
    "konata": Format("konata", ".kanata"),
    "spike": Format("spike", ".log"),
    "speedscope": Format("speedscope", ".speedscope.json"),
    "callgrind": Format("callgrind", ".callgrind"),
    "csv": Format("table", ".csv"),
    "parquet": Format("table", ".parquet"),
}


def target(trace: Trace, name: str, output: Path | None) -> Path:
    """Where an export goes: to `output`, or else beside the trace with the format's suffix.

    raises    ConfigError for an unknown format, and for a place that cannot be written
    """
    if name not in FORMATS:
        raise ConfigError([f"--to {name}: must be of {', '.join(FORMATS)}"])
    file = output or trace.path.with_suffix(FORMATS[name].suffix)
    check_writable("-o", file, trace.path)
    if FORMATS[name].view:
        check_writable("-o", file.with_suffix(FORMATS[name].view), trace.path, file)
    return file


def export(trace: Trace, name: str, selection: Selection, file: Path) -> None:
    """Write the selected events in the format of this name.

    raises    ConfigError if the file cannot be written
    """
    module = import_module(f"pulpsim.trace.export.{FORMATS[name].module}")
    write: Writer = getattr(module, name)
    with written("-o", file) as stream:
        write(trace, selection, stream)
    if FORMATS[name].view:
        with written("-o", file.with_suffix(FORMATS[name].view)) as stream:
            stream.write(module.view(trace, file))
