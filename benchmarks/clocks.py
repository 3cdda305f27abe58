"""Running a program, or a command, and what it took."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from types import MappingProxyType
from typing import Any

from isa.program import Program
from soc.chip.spec import SocSpec
from soc.result import RunResult
from soc.run import run_program

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Cost:
    """What a command took.

    processor    seconds, its own and the system's for it
    wall         seconds
    memory       MB resident, at the most
    """

    processor: float
    wall: float
    memory: float


def simulate(
    program: Program, spec: SocSpec | str = "pulp", engine: str = "compiled", **how: Any
) -> RunResult:
    """Run a program that has to end well, or at a limit of cycles; `how` goes to run_program.

    raises    RuntimeError if it does not
    """
    result = run_program(program, spec, engine=engine, **how)
    if "max_cycles" in how and result.exit.reason == "max_cycles":
        return result
    if result.exit.reason != "exit" or result.exit.code:
        raise RuntimeError(f"{program.name}: {result.exit}")
    return result


def ns_per_instruction(result: RunResult) -> float:
    """Nanoseconds of processor time inside the run for each instruction."""
    return result.processor_seconds / result.instructions * 1e9


def pulpsim(
    *arguments: str,
    cache: Path | None = None,
    status: int = 0,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Cost:
    """Run the command to its end; what it prints is thrown away.

    cache        where compiled interpreters are kept; None: where they are anyway
    status       that it is to end with
    variables    of its environment, beside those that are there
    raises       RuntimeError if it ends with another one
    """
    environment = {**os.environ, **({"PULPSIM_CACHE": str(cache)} if cache else {}), **variables}
    started = perf_counter()
    running = subprocess.Popen(
        [sys.executable, "-m", "pulpsim", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, ended, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(ended)
    if running.returncode != status:
        raise RuntimeError(f"pulpsim {' '.join(arguments)}: exit status {running.returncode}")
    kilobytes = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Cost(usage.ru_utime + usage.ru_stime, perf_counter() - started, kilobytes * 1024 / 1e6)


def folder_of_runs() -> tempfile.TemporaryDirectory[str]:
    """A folder for a while; what still translates after a run may write there as it is removed."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def keeping_bytecode(folder: str) -> dict[str, str]:
    """Variables with which Python keeps the bytecode of modules, in this folder."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder}


def run_elf(
    program: Program,
    cache: Path | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Cost:
    """`pulpsim run` of a program in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.elf"
        file.write_bytes(program.to_elf())
        return pulpsim("run", "--elf", str(file), cache=cache, variables=variables)


def middle(costs: list[Cost]) -> Cost:
    """The medians."""
    return Cost(
        median(cost.processor for cost in costs),
        median(cost.wall for cost in costs),
        median(cost.memory for cost in costs),
    )
