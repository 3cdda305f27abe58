"""The yardstick: data/limit.c, the least that a cycle-level simulator of eight cores does, in C."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.workload import DATA

COMPILE = ("cc", "-O3", "-march=native")


class Rate(NamedTuple):
    """Millions of instructions per second: of processor time, of wall time."""

    processor: float
    wall: float


@contextmanager
def compiled() -> Iterator[Path]:
    """The yardstick's program, compiled by the system's C compiler."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "limit"
        subprocess.run([*COMPILE, DATA / "limit.c", "-o", program, "-lm"], check=True)
        yield program


def rate(program: Path) -> Rate:
    """Run it once: it simulates three times and prints what each took."""
    started = perf_counter()
    text = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    seconds = perf_counter() - started
    lines = re.findall(r"^\d+ (\d+) MIPS ([\d.]+)", text, re.MULTILINE)
    instructions = sum(int(count) for count, _ in lines)
    return Rate(median(float(mips) for _, mips in lines), instructions / seconds / 1e6)
