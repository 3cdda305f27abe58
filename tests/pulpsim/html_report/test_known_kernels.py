"""Kernels whose conflicts follow from the arbiter's rule on paper, drawn as they must be.

Of the initiators that ask a bank, the one nearest to rr wins, where near means the smallest
(initiator XOR rr); rr then moves to the next higher one that asked, or from the last to the first.
From rr = 0, eight cores that ask a bank again and again are therefore served in turn: 0, 1, ... 7,
0, 1, ... All cores leave a barrier in the same cycle, no fetch misses, and the data begin in bank
9, which nobody has asked before. So, with n loads in a row by each of 8 cores:

    all on one bank    core c waits c cycles for its first load, then 7 for each: it loses to each
                       other core once a round, n - 1 rounds, and before the first to those below
    banks apart        rows begin a multiple of `banks` words apart, and each core walks along its
                       own: all meet in the first bank, core c loses c times, once to each below;
                       then core c is c cycles after, and no two meet any more
    padded             rows begin banks + 1 words apart: no two are ever in one bank
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from firmware.builder import Kernel, Label
from firmware.runtime import new_kernel, team_of
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import of_trace
from pulpsim.html_report.losses import losses
from pulpsim.html_report.page import page
from pulpsim.html_report.recording import Recording
from soc.chip.spec import SocSpec, chip_layers, compose
from soc.config.validation import Layer
from soc.result import RunResult
from soc.run import run_program
from soc.trace import recorder
from soc.trace.reader import Kind, Trace

CORES, BANKS, BANK, LOADS = 8, 16, 9, 10
OTHERS = np.ones((CORES, CORES), int) - np.eye(CORES, dtype=int)
BELOW = np.tril(OTHERS)
KERNELS = {
    "all on one bank": (0, 0, (LOADS - 1) * OTHERS + BELOW),
    "rows a stride of banks apart": (BANKS, 1, BELOW),
    "rows padded by one word": (BANKS + 1, 1, 0 * BELOW),
    "columns a stride of banks apart": (BANKS, BANKS, (LOADS - 1) * OTHERS + BELOW),
}
"""Words between rows, words between loads, and how often each core loses (row) to each other."""

Run = Callable[[str], tuple[RunResult, Trace, Trace]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a kernel: its result, its trace, and the same trace with its loads' conflicts alone."""
    no_misses = Layer("test", {"icache": {"kind": "ideal"}})
    chip = compose([*chip_layers("pulp", Path()), no_misses])
    known: dict[str, tuple[RunResult, Trace, Trace]] = {}

    def run(name: str) -> tuple[RunResult, Trace, Trace]:
        if name not in known:
            row, step, _ = KERNELS[name]
            known[name] = _run(chip, tmp_path_factory.mktemp("run") / "it.trace", row, step)
        return known[name]

    return run


def _run(chip: SocSpec, file: Path, row: int, step: int) -> tuple[RunResult, Trace, Trace]:
    k = new_kernel(chip, "meet")
    first, after = _meet(k, chip, row, step)
    result = run_program(k.build(), chip, trace=recorder.Recording(file))
    assert result.exit.reason == "exit"
    trace = Trace.open(file)
    pcs = trace.events["a"]
    elsewhere = (pcs < first.address) | (pcs >= after.address)
    others = (trace.events["kind"] == Kind.CONFLICT) & elsewhere
    chosen = trace.events[~others]
    return result, trace, Trace(file, trace.header | {"events": chosen.size}, chosen)


def _meet(k: Kernel, chip: SocSpec, row: int, step: int) -> tuple[Label, Label]:
    words = k.buffer(k.l1, "words", 4 * (BANK + CORES * row + LOADS * step + 1))
    assert words // 4 % BANKS == 0
    with team_of(k, chip, CORES) as team, k.scope():
        place, value, t = k.x(3)
        team.core(place)
        k.li(t, 4 * row)
        k.mul(place, place, t)
        k.li(t, words + 4 * BANK)
        k.add(place, place, t)
        team.barrier()
        first = k.here("loads")
        for load in range(LOADS):
            k.lw(value, 4 * step * load, place)
        return first, k.here("after")


@pytest.mark.parametrize("name", KERNELS)
def test_who_blocks_whom_is_what_follows_on_paper(run: Run, name: str) -> None:
    _, _, loads = run(name)
    recording = Recording(loads)
    expected = np.zeros_like(recording.matrix)
    expected[:CORES, :CORES] = KERNELS[name][2]
    np.testing.assert_array_equal(recording.matrix, expected)


@pytest.mark.parametrize("name", KERNELS)
def test_all_conflicts_are_where_the_cores_meet_and_last_while_they_do(run: Run, name: str) -> None:
    _, _, loads = run(name)
    recording, lost = Recording(loads), KERNELS[name][2]
    by_bank = np.zeros(BANKS, int)
    by_bank[BANK] = lost.sum()
    assert recording.heat.sum(axis=1).tolist() == by_bank.tolist()
    cycles = np.unique(loads.select(kind=Kind.CONFLICT)["cycle"])
    # One is served a cycle; the last of all accesses in the bank has nobody to lose to.
    accesses = CORES * (LOADS if lost.max() > 1 else 1) if lost.any() else 1
    assert cycles.size == accesses - 1
    if cycles.size:
        assert cycles[-1] - cycles[0] == cycles.size - 1


@pytest.mark.parametrize("name", KERNELS)
def test_pictures_add_up_to_the_counters_of_the_run(run: Run, name: str) -> None:
    result, trace, _ = run(name)
    figures = of_trace(trace)
    assert figures.notes == ()
    counted = result.to_json()
    banks = [(bank["accesses"], bank["conflicts"]) for bank in counted["l1"]["banks"]]
    assert list(figures.banks) == banks
    assert drawn_heat(page(figures)).sum(axis=1).tolist() == [lost for _, lost in banks]
    contention = [hart["stalls"].get("l1_contention", 0) for hart in counted["harts"][:CORES]]
    assert Recording(trace).matrix[:CORES].sum(axis=1).tolist() == contention
    for hart, shown in zip(counted["harts"], figures.harts, strict=True):
        assert (shown.instructions, dict(shown.stalls)) == (hart["instructions"], hart["stalls"])
        assert shown.cycles == result.cycles


def drawn_heat(html: str) -> np.ndarray:
    """The heat map's numbers, as the page has them for its pointer: int64[banks, bins]."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert found
    rows = json.loads(found[1])["rows"]["heat"]
    return np.array([row["series"][0][1] for row in rows])


def test_the_explanation_names_the_bank_and_the_way_out(run: Run) -> None:
    def explained(name: str) -> tuple[str, str]:
        _, _, loads = run(name)
        found = {loss.name: loss for loss in losses(Evidence(of_trace(loads)))}
        return found["Conflicts at L1's banks"].where, found["Conflicts at L1's banks"].help

    where, help = explained("columns a stride of banks apart")
    # Words 9 + 16 (core + load), 0 .. 16; nobody loses the first, which core 0 loads at once.
    assert where == "100 % of all lost arbitrations are at bank 9, over 16 words."
    assert help == (
        "Addresses that are multiples of 64 bytes apart lie in one bank: pad each row by one "
        "word (4 bytes), so that rows begin in different banks."
    )
    where, help = explained("all on one bank")
    assert where == "100 % of all lost arbitrations are at bank 9, over the word at 0x10000024."
    assert help.startswith("Cores share this word")
