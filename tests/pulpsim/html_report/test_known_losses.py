"""Kernels whose losses follow on paper, run and explained. Cores always find their instructions."""

from collections.abc import Callable
from pathlib import Path

import pytest

from firmware.builder import Kernel
from firmware.drivers import Dma
from firmware.runtime import new_kernel, team_of
from firmware.team import Team
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import of_trace
from pulpsim.html_report.losses import Loss, losses
from soc.chip.spec import chip_layers, compose
from soc.config.validation import Layer
from soc.run import run_program
from soc.trace import recorder
from soc.trace.reader import Trace

CORES = 8
Body = Callable[[Kernel, Team], None]
Explain = Callable[[Body], dict[str, Loss]]


@pytest.fixture
def explain(tmp_path: Path) -> Explain:
    """The losses by name of a body that eight cores execute between two barriers."""
    chip = compose(
        [*chip_layers("pulp", Path()), Layer("test", {"icache": {"kind": "ideal"}})],
    )

    def explained(body: Body) -> dict[str, Loss]:
        k = new_kernel(chip, "known")
        with team_of(k, chip, CORES) as team:
            team.barrier()
            body(k, team)
            team.barrier()
        file = tmp_path / "known.trace"
        result = run_program(k.build(), chip, trace=recorder.Recording(file))
        assert result.exit.reason == "exit"
        evidence = Evidence(of_trace(Trace.open(file)))
        return {loss.name: loss for loss in losses(evidence)}

    return explained


def test_work_of_one_core_costs_the_others_its_cycles(explain: Explain) -> None:
    def body(work: int) -> Body:
        def emit(k: Kernel, team: Team) -> None:
            with team.only(3):
                for _ in range(work):
                    k.nop()

        return emit

    few, many = (explain(body(work))["Waits for slower cores"] for work in (100, 350))
    assert many.cycles - few.cycles == (CORES - 1) * 250
    assert many.where.endswith("% of these cycles are for core3.")
    assert many.help.startswith("core3 has more to do than the others")


def test_a_load_that_is_used_at_once_costs_a_cycle(explain: Explain) -> None:
    def body(pairs: int, between: int) -> Body:
        def emit(k: Kernel, team: Team) -> None:
            words = k.buffer(k.l1, "words", 4 * CORES)
            with k.scope():
                place, value, t = k.x(3)
                team.core(place)
                k.slli(place, place, 2)
                k.li(t, words)
                k.add(place, place, t)
                for _ in range(pairs):
                    k.lw(value, 0, place)
                    for _ in range(between):
                        k.nop()
                    k.addi(t, value, 1)

        return emit

    def cycles(pairs: int, between: int) -> int:
        found = explain(body(pairs, between))
        return found["Loads used at once"].cycles if "Loads used at once" in found else 0

    assert cycles(40, 0) - cycles(15, 0) == CORES * 25
    assert cycles(40, 1) - cycles(15, 1) == 0


def test_copies_that_cores_wait_for_are_waits_for_the_dma_unless_they_compute_meanwhile(
    explain: Explain,
) -> None:
    def body(work: int) -> Body:
        def emit(k: Kernel, team: Team) -> None:
            here, there = (k.buffer(arena, "block", 8192) for arena in (k.l1, k.l2))
            with team.only(0), k.scope():
                dma = Dma(k)
                counter = k.x()
                dma.begin(counter)
                dma.to_l1(here, there, 8192)
                with k.scope():
                    rounds = k.x()
                    k.li(rounds, work)
                    with k.hwloop(rounds):
                        for _ in range(3):
                            k.nop()
                dma.wait(counter)

        return emit

    waiting, computing = (explain(body(work)) for work in (1, 1500))
    assert waiting["Waits for the DMA"].cycles > 1000 * CORES
    assert "Waits for the DMA" not in computing
