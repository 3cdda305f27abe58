"""The first copies of a tiled program: when they start, beside the code that is fetched ahead."""

import pytest

from trainlib.launch import launch
from trainlib.report import Report
from trainlib.tiling.step_code import Steps

LAYERS = (
    ("linear_fw_f32", {"inputs": 67, "outputs": 159, "batch": 6}),
    ("pwconv2d_ig_f32", {"inputs": 5, "height": 8, "width": 38, "outputs": 56}),
)


def ran(layer: tuple[str, dict], **how) -> Report:
    kernel, sizes = layer
    return launch(kernel, sizes | {"tile": {}}, **how)[1]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer[0])
def test_a_layer_from_l2_ends_sooner_if_code_is_fetched_while_they_run(layer, monkeypatch):
    early = ran(layer)
    monkeypatch.setattr(Steps, "_is_opened_early", False)
    after = ran(layer)

    assert early.is_correct
    assert after.is_correct
    assert not early.stray_writes
    assert early.cycles < 0.98 * after.cycles


def test_both_engines_take_the_same_cycles_for_them():
    layer = "linear_ig_f32", {"inputs": 13, "outputs": 40, "batch": 9}
    reports = [ran(layer, engine=engine) for engine in ("compiled", "event")]
    assert all(report.is_correct for report in reports)
    assert reports[0].cycles == reports[1].cycles
