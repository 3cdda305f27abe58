"""Golden listings: the instructions of the main kernels at their default points, and the cycles."""

import re
from pathlib import Path

import pytest

from soc.run import run_program
from trainlib.launch import KernelProgram, program

GOLDEN = Path(__file__).parent / "golden"
IMAGE = {"height": 8, "width": 8}
LAYER = IMAGE | {"inputs": 4, "outputs": 8, "kernel": 3, "padding": 1}
KERNELS = {
    "matmul_f32": {"n": 32, "k": 32, "m": 32},
    "conv2d_fw_f32": LAYER,
    "conv2d_ig_f32": LAYER,
    "conv2d_wg_f32": LAYER,
    "dwconv2d_fw_f32": IMAGE | {"inputs": 8, "kernel": 3, "padding": 1},
    "softmax_fw_f32": {"shape": [8, 20]},
    "layernorm_fw_f32": {"rows": 8, "columns": 20},
    "lstm_fw_f32": {"steps": 1, "inputs": 6, "hidden": 10},
    "adam_f32": {"shape": [100]},
    "maxpool2d_fw_f32": {"c": 8, "h": 8, "w": 8, "kernel": 2},
}


def described(built: KernelProgram) -> str:
    """Cycles, instructions and regions of every hart, then what the program consists of."""
    result = run_program(built.program, max_cycles=1_000_000)
    lines = [f"{result.cycles} cycles"]
    for hart in result.to_json()["harts"]:
        regions = ", ".join(f"{r['name']} {r['cycles']}" for r in hart["regions"])
        lines.append(f"{hart['name']}: {hart['instructions']} instructions; {regions}")
    return "\n".join([*lines, "", re.sub(r"^# .*\n", "", built.listing(), flags=re.MULTILINE)])


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_listing_and_the_cycles_of_a_default_point_are_golden(kernel, request):
    text = described(program(kernel, KERNELS[kernel]))
    golden = GOLDEN / f"{kernel}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(text)
    assert text == golden.read_text(), "a change is seen and explained: --update-golden"
