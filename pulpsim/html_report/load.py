"""Reads what a page is about: a trace, all of it or some cycles, or the JSON of a run."""

from pathlib import Path

from pulpsim.html_report.figures import Figures, of_result, of_trace
from pulpsim.html_report.trace_window import parsed, window
from soc.config.toml import ConfigError
from soc.result_file import read_result
from soc.trace.header import MAGIC
from soc.trace.reader import Trace, TraceError


def read(file: Path, cycles: str | None = None) -> Figures:
    """The figures of a trace, or of a result in JSON.

    cycles    "1000-2000": of these cycles of a trace alone, the end left out

    raises    ConfigError if the file is neither, or has no such cycles
    """
    try:
        with file.open("rb") as stream:
            is_trace = stream.read(len(MAGIC))[:-1] == MAGIC[:-1]
        if is_trace:
            return of_trace(_opened(file, cycles))
    except OSError as error:
        raise ConfigError([f"{file}: cannot be read: {error.strerror}"]) from None
    except TraceError as error:
        raise ConfigError([str(error)]) from None
    if cycles is not None:
        raise ConfigError([f"--cycle {cycles}: {file} is no trace; it does not know times"])
    return of_result(read_result(file), str(file))


def _opened(file: Path, cycles: str | None) -> Trace:
    trace = Trace.open(file)
    return window(trace, *parsed(cycles, trace)) if cycles else trace
