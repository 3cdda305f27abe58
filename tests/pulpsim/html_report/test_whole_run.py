"""A network's training, with DMA, barriers and nested regions: pictures against counters."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import Figures, of_result, of_trace
from pulpsim.html_report.losses import losses
from pulpsim.html_report.nesting import nested
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.stall_groups import PART, parts_of
from soc.run import run_program
from soc.trace import recorder
from soc.trace.reader import Trace
from trainlib.launch import program

NETWORK = {
    "input": [8, 8, 8],
    "lr": 0.1,
    "steps": 1,
    "layers": [
        {"kind": "conv2d", "outputs": 16, "kernel": 3},
        {"kind": "relu"},
        {"kind": "linear", "outputs": 32},
    ],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Recording, Figures]:
    """The run's JSON, its trace and its figures."""
    file = tmp_path_factory.mktemp("run") / "train.trace"
    built = program("train_f32", NETWORK)
    result = run_program(built.program, trace=recorder.Recording(file))
    assert result.exit.reason == "exit"
    figures = of_trace(Trace.open(Path(file)))
    assert figures.recording is not None
    return result.to_json(), figures.recording, figures


Run = tuple[dict[str, Any], Recording, Figures]


def test_figures_of_the_trace_are_those_of_the_result(run: Run) -> None:
    result, _, figures = run
    other = of_result(result, "result.json")
    assert figures.notes == ()
    assert figures.banks == other.banks
    assert figures.by_dma == other.by_dma
    for hart, counted in zip(figures.harts, other.harts, strict=True):
        assert (hart.name, hart.instructions) == (counted.name, counted.instructions)
        assert hart.stalls == counted.stalls


def test_rows_of_the_heat_map_are_the_conflicts_of_each_bank(run: Run) -> None:
    result, recording, _ = run
    lost = [bank["conflicts"] for bank in result["l1"]["banks"]]
    assert sum(lost) > 0
    assert recording.heat.sum(axis=1).tolist() == lost


def test_rows_of_the_matrix_are_the_conflicts_of_each_core_and_of_the_dma(run: Run) -> None:
    result, recording, _ = run
    by_name = dict(zip(recording.trace.initiators, recording.matrix.sum(axis=1), strict=True))
    for hart in result["harts"][:8]:
        assert by_name[hart["name"]] == hart["stalls"].get("l1_contention", 0)
    lanes = sum(lost for name, lost in by_name.items() if name.startswith("dma"))
    assert lanes == result["dma"]["l1_conflicts"]


def test_the_timeline_accounts_for_every_cycle_of_every_hart(run: Run) -> None:
    _, recording, figures = run
    widths = np.broadcast_to(recording.bins.widths, recording.activity[:, 0].shape)
    np.testing.assert_array_equal(recording.activity.sum(axis=1), widths)
    for hart, cycles in zip(figures.harts, recording.activity.sum(axis=2), strict=True):
        assert cycles.tolist() == hart.parts


def test_regions_have_the_cycles_and_stalls_that_the_run_counted(run: Run) -> None:
    result, recording, _ = run
    entries: Counter[str] = Counter()
    cycles: dict[str, np.ndarray] = {}
    for region in nested(recording):
        name = region.path[-1]
        entries[name] += region.entries
        cycles[name] = cycles.get(name, 0) + region.cycles
    counted: dict[str, np.ndarray] = {}
    for hart in result["harts"]:
        for region in hart["regions"]:
            parts = parts_of(region["instructions"], region["stalls"], None)
            counted[region["name"]] = counted.get(region["name"], 0) + np.array(parts)
            entries[region["name"]] -= region["count"]
    assert not any(entries.values())
    assert sorted(cycles) == sorted(counted)
    for name, found in cycles.items():
        found[PART["asleep"]] += found[PART["barrier"]]
        found[PART["barrier"]] = 0
        assert found.tolist() == counted[name].tolist(), name


def test_layers_hold_their_steps_and_waits(run: Run) -> None:
    _, recording, _ = run
    paths = {region.path for region in nested(recording)}
    assert ("conv2d_0 forward", "compute") in paths
    assert all(path[0] not in ("compute", "dma_in", "dma_out", "dma_wait") for path in paths)


def test_losses_and_instructions_are_all_cycles_of_the_cores(run: Run) -> None:
    result, _, figures = run
    found = losses(Evidence(figures))
    instructions = sum(hart["instructions"] for hart in result["harts"][:8])
    assert instructions + sum(loss.cycles for loss in found) == 8 * result["cycles"]
