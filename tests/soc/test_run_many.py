"""Many runs at once come to what they come to one after the other."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import weakref
from copy import deepcopy
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from firmware.registers import KernelError
from isa.assembler.asm import assemble
from isa.elf.reader import ElfError
from isa.extensions.profiles import profile
from isa.program import Program
from soc.chip.state import ARRAYS, OF_THIS_RUN, Chip
from soc.config.toml import ConfigError
from soc.result import RunResult
from soc.run import carry_out, prepare, run_program
from soc.run_many import Run, run_many
from trainlib.launch import program as kernel_program

in_threads_and_processes = pytest.mark.parametrize("isolation", ["thread", "process"])


def matmul(n: int, cols: int) -> Program:
    return kernel_program("matmul_f32", {"n": n, "k": 8, "m": 8, "cols": cols}).program


def written(text: str) -> Program:
    return assemble(text, profile("ri5cy", "x"))


ROOT = Path(__file__).parents[2]
MATMULS = [Run(matmul(8 * n, cols)) for n, cols in enumerate((1, 2, 4) * 3, start=1)]


def contents(result: RunResult) -> tuple[Any, list[bytes]]:
    """All that a run leaves but the time it took."""
    report = result.to_json()
    del report["host"]
    compared = [name for name in ARRAYS if name not in ("code", *OF_THIS_RUN)]
    return report, [getattr(result.chip, name).tobytes() for name in compared]


@in_threads_and_processes
def test_runs_at_once_come_to_the_same_in_the_same_order(isolation: str) -> None:
    alone = [run_program(run.program, run.chip) for run in MATMULS]
    together = run_many(MATMULS, workers=2, isolation=isolation)
    assert [contents(result) for result in together] == [contents(result) for result in alone]
    assert len({result.cycles for result in alone}) == len(MATMULS)


def test_the_event_engine_takes_part() -> None:
    program = matmul(8, 4)
    fast, slow = run_many([Run(program), Run(program, engine="event")], workers=2)
    assert (fast.engine, slow.engine) == ("compiled", "event")
    assert fast.cycles == slow.cycles


@in_threads_and_processes
def test_a_run_that_goes_wrong_or_cannot_be_built_harms_no_other(isolation: str) -> None:
    good = MATMULS[0]
    runs = [
        good,
        Run(written("ebreak")),
        good,
        Run(written("wfi")),
        Run(written("j ."), max_cycles=1000),
        good,
        Run("there/is/no.elf"),
        Run(good.program, "plup"),
        Run(partial(matmul, 1_000_000, 4)),  # more than L2 holds
        Run(partial(matmul, 8, 4)),
    ]
    outcomes = run_many(runs, workers=2, isolation=isolation)
    assert [o.exit.reason if isinstance(o, RunResult) else type(o) for o in outcomes] == [
        "exit",
        "trap",
        "exit",
        "deadlock",
        "max_cycles",
        "exit",
        ElfError,
        ConfigError,
        KernelError,
        "exit",
    ]
    assert outcomes[4].cycles == 1000
    assert str(outcomes[6]) == "there/is/no.elf: cannot be read: No such file or directory"
    assert str(outcomes[7]) == (
        "chip 'plup': no such chip; did you mean pulp? The path of a chip file ends in .toml"
    )
    assert str(outcomes[8]) == (
        "matmul_f32: L2: A of 32000000 bytes does not fit: 1966080 of 1966080 bytes are left"
    )


def test_each_run_has_its_own_cycle_limit() -> None:
    spin = written("j .")
    runs = [Run(spin, max_cycles=limit) for limit in (300, 100, 200)]
    assert run_many(runs, workers=2, keep=attrgetter("cycles")) == [300, 100, 200]


def test_a_process_that_dies_is_the_outcome_of_its_run_alone() -> None:
    good = MATMULS[0]
    runs = [good, Run(partial(os._exit, 7)), good]
    first, died, last = run_many(runs, workers=1, isolation="process", keep=attrgetter("cycles"))
    assert first == last == run_program(good.program).cycles
    assert repr(died) == 'RuntimeError("the run\'s process ended with exit code 7")'


def test_what_keep_raises_is_the_outcome() -> None:
    (outcome,) = run_many(MATMULS[:1], keep=attrgetter("no"))
    assert repr(outcome) == "AttributeError(\"'RunResult' object has no attribute 'no'\")"


def test_progress_is_told_of_each_end_with_its_outcome() -> None:
    told: dict[int, int] = {}
    threads = set()

    def on_end(index: int, outcome: int) -> None:
        told[index] = outcome
        threads.add(threading.current_thread())

    kept = run_many(MATMULS, workers=2, keep=attrgetter("cycles"), on_end=on_end)
    assert dict(sorted(told.items())) == dict(enumerate(kept))
    assert threads == {threading.current_thread()}


@in_threads_and_processes
def test_runs_under_way_stop_when_on_end_raises(isolation: str) -> None:
    spin = Run(written("j ."))

    def give_up(index: int, outcome: RunResult) -> None:
        raise TimeoutError(f"run {index} was first")

    with pytest.raises(TimeoutError, match=r"^run 1 was first$"):
        run_many(
            [spin, MATMULS[0], spin, spin, spin], workers=2, isolation=isolation, on_end=give_up
        )


def test_no_runs_have_no_outcomes() -> None:
    assert run_many([]) == []


def test_an_unknown_isolation_and_no_workers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^isolation 'fork'; there are thread, process$"):
        run_many([], isolation="fork")
    with pytest.raises(ValueError, match=r"^workers is 0; at least one is needed$"):
        run_many([], workers=0)


FIRST_RUNS = """
from operator import attrgetter
from firmware.registers import KernelError
from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.run_many import Run, run_many
program = assemble("j .", profile("ri5cy", "x"))
runs = [Run(program, engine=engine, max_cycles=500) for engine in 4 * ["compiled", "event"]]
print(run_many(runs, workers=8, keep=attrgetter("exit.reason", "cycles")))
"""


def test_the_first_runs_of_a_process_may_be_at_once() -> None:
    command = [sys.executable, "-c", FIRST_RUNS]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == (f"{8 * [('max_cycles', 500)]}\n", "")


def test_a_run_that_has_ended_leaves_nothing_to_pythons_collector() -> None:
    gc.disable()
    try:
        simulation = prepare(matmul(8, 1), "pulp", "compiled")
        parts = simulation, simulation.chip, simulation.platform, simulation.env
        left = [weakref.ref(part) for part in parts]
        del parts
        assert carry_out(simulation, None).exit.reason == "exit"
        del simulation
        assert [part() for part in left] == [None] * 4
    finally:
        gc.enable()


@pytest.mark.parametrize("copied", [deepcopy, lambda chip: pickle.loads(pickle.dumps(chip))])
def test_a_copy_of_a_chip_is_equal_and_stands_alone(copied: Any) -> None:
    chip = run_program(matmul(8, 4)).chip
    copy: Chip = copied(chip)
    arrays = [getattr(copy, name) for name in ARRAYS]
    for name, array in zip(ARRAYS, arrays, strict=True):
        assert array.dtype == ARRAYS[name]
        if name not in OF_THIS_RUN:
            assert array.tobytes() == getattr(chip, name).tobytes()
        assert not np.shares_memory(array, getattr(chip, name))
    table = [word for array in arrays for word in (array.ctypes.data, array.size)]
    assert np.array_equal(copy._table, table)
    assert copy.address == copy._table.ctypes.data


def test_a_pickled_result_leaves_the_zeros_out() -> None:
    assert len(pickle.dumps(run_program(matmul(8, 4)))) < 300_000
