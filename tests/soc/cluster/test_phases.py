"""Both engines pass the phases of a cycle in the order that soc.cluster.phases.Phase states."""

import ast
import inspect
from types import ModuleType

import pytest

from soc.cluster.phases import Phase
from soc.engine import cycle_loop, fast_path

ACTS_IN = {
    "signal_dma": Phase.SIGNAL,
    "collect": Phase.COLLECT,
    "generator_request": Phase.DMA_REQUEST,
    "request_dma_lanes": Phase.DMA_REQUEST,
    "request_lanes": Phase.DMA_REQUEST,
    "begin_streams": Phase.DMA_REQUEST,
    "stream_lanes": Phase.DMA_REQUEST,
    "grant_words": Phase.ACCESS_L1,
    "access_l1": Phase.ACCESS_L1,
    "serve_lanes": Phase.ACCESS_L1,
    "share_banks": Phase.ACCESS_L1,
    "cycle_dma": Phase.DMA_ACCESS,
    "cycle_generator": Phase.DMA_ACCESS,
    "advance_dma": Phase.DMA_ACCESS,
    "pass_beats": Phase.DMA_ACCESS,
    "clock_event_unit": Phase.EVENT_UNIT,
    "go_on": Phase.GO_ON,
    "run_hart": Phase.GO_ON,
    "run_alone": Phase.GO_ON,
    "run_due": Phase.GO_ON,
    "step_icache": Phase.ICACHE,
}
"""Phase in which a step function acts."""


def phases(module: ModuleType, function: str) -> list[Phase]:
    """Phases of the step functions that a function calls, in the order of its text."""
    tree = ast.parse(inspect.getsource(module))
    (body,) = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function]
    calls = [node for node in ast.walk(body) if isinstance(node, ast.Call)]
    calls.sort(key=lambda call: (call.lineno, call.col_offset))
    names = [call.func.attr if isinstance(call.func, ast.Attribute) else
             call.func.id if isinstance(call.func, ast.Name) else "" for call in calls]  # fmt: skip
    return [ACTS_IN[name] for name in names if name in ACTS_IN]


@pytest.mark.parametrize(
    ("module", "function", "first", "last"),
    [
        (cycle_loop, "pass_phases", Phase.SIGNAL, Phase.EVENT_UNIT),
        (cycle_loop, "run_cycles", Phase.GO_ON, Phase.ICACHE),
        (fast_path, "run_words", Phase.ACCESS_L1, Phase.ICACHE),
        (fast_path, "run_words_beside_dma", Phase.DMA_REQUEST, Phase.ICACHE),
    ],
)
def test_the_compiled_loops_pass_the_phases_in_order(
    module: ModuleType, function: str, first: Phase, last: Phase
) -> None:
    found = phases(module, function)
    assert found == sorted(found)
    assert (found[0], found[-1]) == (first, last)


def test_the_loop_passes_every_phase_between_the_peripherals_and_the_end() -> None:
    found = {*phases(cycle_loop, "pass_phases"), *phases(cycle_loop, "run_cycles")}
    # Of DECODE, the loop returns to who decodes, and is called again in the same cycle.
    assert found == {*Phase} - {Phase.PERIPHERALS, Phase.DECODE, Phase.END}
