"""A process that gives damaged files to the command line, one after the other.

    python -m tests.fuzz.worker FORMAT,... SEED SAMPLES FIRST END

Prints a line of JSON for each case: its number before it begins, what came of it afterwards.
"""

import contextlib
import io
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzz.formats import FORMATS, Format, made

MEMORY = 512 << 20  # bytes
SLOWEST = 2.0  # seconds of processor time
LINES, LINE = 21, 1000  # of what is said: lines, characters of one
NORMAL = (0, 1, 3)
BAD_INPUT = 2
UNNAMED = ("pulpsim: --", "pulpsim: trace filter '", "pulpsim: ... and ")
"""How sentences begin that need not name the file: they quote an option, or count the rest."""
PROGRESS = re.compile(r"^(compiling|writing|reading) .* \.\.\.$")


def run(command: list[str] | Callable[[], object]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command line, or of a function.

    raises    what the command line lets through
    """
    from pulpsim.cli.shared_options import reporting_bad_input
    from pulpsim.commands.app import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            if callable(command):
                with reporting_bad_input():
                    command()
            else:
                sys.argv = ["pulpsim", *command]
                main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except Exception as end:
            if not hasattr(end, "exit_code"):  # typer.Exit, of a function
                raise
            status = end.exit_code
    out.flush()
    err.flush()
    return status, *(s.buffer.getvalue().decode("utf-8", "replace") for s in (out, err))


def complaint(name: str, status: int, err: str) -> str:
    """What is wrong with the end of a command; "" if nothing is.

    name    of the file or its folder, which must be in what is said; "": of a command line, which
            may show its usage
    """
    lines = [line for line in err.splitlines() if not PROGRESS.match(line)]
    if "Traceback" in err or "Warning" in err:
        return "traceback or warning"
    if status in NORMAL:
        return ""
    if status != BAD_INPUT:
        return f"exit status {status}"
    if not name and lines and lines[0].startswith("Usage: "):
        return ""
    if not lines or not all(line.startswith("pulpsim: ") for line in lines):
        return "exit status 2 without a sentence"
    if len(lines) > LINES or max(map(len, lines)) > LINE:
        return f"{len(lines)} lines, the longest of {max(map(len, lines))} characters"
    if not all(name in line or line.startswith(UNNAMED) for line in lines):
        return "the file is not named"
    return ""


def peak() -> int:
    """Bytes of memory that the process had at most since the last call."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return int(found[1]) << 10


def tried(format: Format, number: int, folder: Path, seed: int) -> dict[str, Any]:
    """What came of a case."""
    file, command = made(format, folder, number, seed)
    peak()
    started = time.process_time()  # without children: they compile, once
    try:
        status, _, err = run(command)
        problem = complaint("" if format.is_usage else file.parent.name, status, err)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        problem = f"{type(error).__name__} at {at.filename}:{at.lineno}: {error!s:.100}"
        status, err = -1, traceback.format_exc()
    seconds, memory = time.process_time() - started, peak()
    if not problem and seconds > SLOWEST:
        problem = f"{seconds:.1f} s"
    if not problem and memory > MEMORY:
        problem = f"{memory >> 20} MB"
    shown = command if isinstance(command, list) else getattr(command, "__name__", "function")
    outcome = {
        "format": format.name,
        "number": number,
        "status": status,
        "seconds": seconds,
        "memory": memory,
    }
    return outcome | {"problem": problem, "command": shown, "said": err[-3000:] if problem else ""}


def main(names: list[str], seed: int, samples: Path, numbers: range) -> None:
    from soc.jit.code_cache import INTERPRET_ALL, SHARED

    SHARED.policy = INTERPRET_ALL  # no processes that translate hot code
    warnings.simplefilter("always")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in names:
        FORMATS[name].prepare(samples)
    with contextlib.suppress(ValueError, OSError):
        data = int(re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10
        resource.setrlimit(resource.RLIMIT_DATA, (data + 2 * MEMORY, resource.RLIM_INFINITY))
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, number in product(names, numbers):
            print(json.dumps({"begins": number}), flush=True)
            print(json.dumps(tried(FORMATS[name], number, Path(folder), seed)), flush=True)
            for left in Path(folder).iterdir():
                if left.is_symlink() or left.is_file():
                    left.unlink()


if __name__ == "__main__":
    names, seed, samples, first, end = sys.argv[1:]
    main(names.split(","), int(seed), Path(samples), range(int(first), int(end)))
