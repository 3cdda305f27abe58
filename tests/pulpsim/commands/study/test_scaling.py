"""The study of scaling: accounts that close, and parts that add up to the loss exactly."""

from typing import Any

import pytest

from pulpsim.commands.study import losses, scaling
from pulpsim.commands.study.losses import PARTS, account, cycles_of
from tests.pulpsim.commands.study.sweep import findings_of


def region(name: str, cycles: int, instructions: int, **stalls: int) -> dict[str, Any]:
    return {"name": name, "cycles": cycles, "instructions": instructions, "stalls": stalls}


def result(*cores: list[dict[str, Any]]) -> dict[str, Any]:
    return {"harts": [*({"regions": regions} for regions in cores), {"regions": []}]}


ONE = result([region("dma_in", 40, 10, event=30), region("compute", 100, 94, branch=4, event=2)])
TWO = result(
    [
        region("dma_in", 40, 10, event=30),
        region("compute", 62, 50, branch=2, fetch=3, l1_contention=4, event=3),
    ],
    [region("dma_in", 38, 8, event=30), region("compute", 61, 48, branch=2, fetch=1, event=10)],
)


def test_the_cycles_of_a_run_are_those_of_its_slowest_core() -> None:
    assert (cycles_of(ONE), cycles_of(TWO)) == (140, 102)


def test_every_core_cycle_is_in_one_account() -> None:
    assert account(ONE) == {
        "DMA": 40,
        "instruction misses": 0,
        "conflicts": 0,
        "barriers": 2,
        "imbalance": 0,
        "instructions": 94,
        "pipeline": 4,
    }
    assert account(TWO) == {
        "DMA": 40 + 38,
        "instruction misses": 3 + 1,
        "conflicts": 4,
        "barriers": 2 * 3,
        "imbalance": (10 - 3) + (102 - 99),
        "instructions": 50 + 48,
        "pipeline": 2 + 2,
    }
    assert sum(account(TWO).values()) == 2 * 102


def test_losses_are_what_several_cores_spend_more_than_one() -> None:
    lost = losses.losses(TWO, ONE)
    assert lost == {
        "DMA": 38,
        "instruction misses": 4,
        "conflicts": 4,
        "barriers": 4,
        "imbalance": 10,
        "instructions": 4,
        "pipeline": 0,
    }
    assert sum(lost.values()) == 2 * 102 - 140


def test_who_sleeps_while_another_waits_for_copies_waits_for_copies() -> None:
    waits = region("dma_wait", 20, 4, event=16)
    found = account(
        result(
            [region("compute", 100, 70, event=30), waits],
            [region("compute", 100, 60, event=40), region("dma_wait", 2, 2)],
        )
    )
    assert found == dict.fromkeys(PARTS, 0) | {
        "DMA": 20 + 2 + 18,
        "instructions": 66 + 58,
        "barriers": 2 * 14,
        "imbalance": (40 - 14) - 18,
    }


def test_a_stall_that_a_marker_cuts_in_two_is_the_pipelines() -> None:
    found = account(result([region("compute", 100, 90, fetch=12)]))
    assert (found["instruction misses"], found["pipeline"]) == (12, -2)
    assert sum(found.values()) == 100


@pytest.mark.parametrize("warm", [False, True])
def test_parts_add_up_to_the_loss_exactly(request: pytest.FixtureRequest, warm: bool) -> None:
    linear = {"kernel": "linear_fw_f32", "args": {"inputs": 200, "outputs": 96}}
    kernels = ["matmul_f32", "layernorm_fw_f32", "conv2d_fw_f32", linear]
    if not request.config.getoption("--full"):
        kernels = kernels[1::2]
    arguments = {"kernels": kernels, "cores": [3, 8], "warm": warm}
    point, chip, findings = findings_of(scaling.STUDY, arguments)
    rows = scaling.rows(point, chip, findings)
    assert len(rows) == 3 * len(kernels)
    for row, finding in zip(rows, findings, strict=True):
        parts = [value for name, value in row.items() if name.startswith("lost_")]
        assert len(parts) == len(PARTS)
        assert sum(parts) == row["lost"]
        one = next(r for r in rows if (r["kernel"], r["cores"]) == (row["kernel"], 1))
        assert row["lost"] == row["cores"] * row["cycles"] - one["cycles"]
        # In cores: what is reached and what is lost are all of them.
        assert row["speed_up"] + sum(parts) / row["cycles"] == pytest.approx(row["cores"])
        assert sum(account(finding.result).values()) == row["cores"] * row["cycles"]
        assert row["cycles"] == cycles_of(finding.result)


def test_dma_and_conflicts_are_found_where_they_are() -> None:
    linear = {"kernel": "linear_fw_f32", "args": {"inputs": 640, "outputs": 320}}
    point, chip, findings = findings_of(scaling.STUDY, {"kernels": [linear], "cores": [8]})
    row = scaling.rows(point, chip, findings)[-1]
    assert row["lost_dma"] > 0.5 * row["lost"]  # weights are used once: the DMA is the limit
