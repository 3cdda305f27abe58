"""Instructions per second of layers and of a network's training step: hot, and at first.

A first run is one in a process that has run others: the interpreter is there, and nothing is known
of the program. The best one is of a program that has run for 50 M instructions.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import limit
from benchmarks.clocks import folder_of_runs, simulate
from benchmarks.figure import Figure
from benchmarks.flatness import warm_up
from isa.program import Program
from soc.jit.code_cache import CodeCache
from trainlib.launch import program as kernel_program

LAYERS: dict[str, dict[str, Any]] = {
    "conv2d_fw_f32": {"height": 32, "width": 32, "kernel": 3, "inputs": 32, "outputs": 64},
    "dwconv2d_fw_f32": {"height": 56, "width": 56, "kernel": 3, "inputs": 64},
    "lstm_fw_f32": {"steps": 96, "inputs": 64, "hidden": 64},
    "softmax_fw_f32": {"shape": [448, 512]},
    "adam_f32": {"shape": [98304]},
}
BEST, FIRST, STEP = 0.5, 0.3, 0.45
"""Of the yardstick's: of layers, of their first runs, of the network's step."""
NETWORK = "ResNet8"


def rate(program: Program, **how: Any) -> float:
    """Millions of instructions per second of processor time, inside one run."""
    result = simulate(program, **how)
    return result.instructions / result.processor_seconds / 1e6


def first_rate(program: Program) -> float:
    """The same of a program that has not run before."""
    with folder_of_runs() as folder:
        return rate(program, code_cache=CodeCache(Path(folder)))


def step_of_network() -> Program:
    """A training step of a deployed network, with its data."""
    from benchmarks.models import MODELS
    from trainlib.deploy import SGD, deploy

    model = MODELS[NETWORK]
    batches = model.batches(1)
    how: dict[str, Any] = {"loss": model.loss, "batch": batches[0], "optimizer": SGD(lr=0.01)}
    made: Program = deploy(model.module(), **how).with_data(batches, 1).program
    return made


def layers(rounds: int) -> Iterator[Figure]:
    """Each layer's best and first rate, then the network's step; the yardstick's run in turn."""
    with limit.compiled() as yardstick:
        for name, arguments in LAYERS.items():
            program = kernel_program(name, arguments, "pulp").program
            yield pairs(
                f"{name}, first run", partial(first_rate, program), yardstick, rounds, FIRST
            )
            warm_up(partial(simulate, program))
            yield pairs(f"{name}, best run", partial(rate, program), yardstick, rounds, BEST)
        try:
            program = step_of_network()
        except ImportError:  # without the extra `torch`
            return
        warm_up(partial(simulate, program))
        name = f"a step of {NETWORK}, deployed"
        yield pairs(name, partial(rate, program), yardstick, rounds, STEP)


def pairs(
    name: str, measure: Callable[[], float], yardstick: Path, rounds: int, least: float
) -> Figure:
    """Rates beside the yardstick's, in turn: the machine's speed drifts."""
    both = [(measure(), limit.rate(yardstick).processor) for _ in range(rounds)]
    return Figure.of_pairs(name, "M instr/s", both, least=least)
