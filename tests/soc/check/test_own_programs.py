"""Our own kernels and networks run clean: nothing that a check can find is in them.

`pytest --full tests/soc/check/test_own_programs.py`: every kernel, every layer of configs/networks,
the deployed networks of the benchmarks and of the examples.
"""

from pathlib import Path

import pytest

from isa.program import Program
from pulpsim.commands.inspect.networks import network_names
from pulpsim.commands.tune.config import load_layers
from soc.chip.spec import SocSpec, load_chip
from soc.run import run_program
from tests.autotuner.layers import EVERY
from trainlib.launch import program

CHECKS = ("races", "memory")
ROOT = Path(__file__).parents[3]
L2 = {"l2.size": 4 << 20}  # the largest networks need it
SMALL, LARGE = ("AE-tiny", "DSCNN-XS", "LSTM", "GRU"), ("Deep AE", "DS-CNN", "CCT-2", "ResNet8")


def assert_clean(program: Program, chip: SocSpec | str = "pulp") -> None:
    """It ends well, and no check finds anything."""
    result = run_program(program, chip, checks=CHECKS)
    assert (result.exit.reason, result.exit.code) == ("exit", 0), result.exit
    assert [finding.message for finding in result.checked.findings] == []


@pytest.mark.sampled(24)
@pytest.mark.parametrize("layer", EVERY, ids=lambda layer: f"{layer.kernel}-{layer.is_large}")
def test_a_kernel_runs_clean(layer):
    assert_clean(program(layer.kernel, layer.arguments).program)


LAYERS = [
    {"kind": "conv2d", "outputs": 4, "kernel": 3, "padding": 1},
    {"kind": "batchnorm"},
    {"kind": "relu"},
    {"kind": "maxpool2d", "kernel": 2},
    {"kind": "linear", "outputs": 5},
]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_network_trains_clean(optimizer):
    arguments = {"lr": 0.1, "input": [2, 8, 8], "batch": 2, "steps": 2, "optimizer": optimizer}
    assert_clean(program("train_f32", arguments | {"layers": LAYERS}).program)


NETWORK_LAYERS = {
    f"{name}.{layer}": entry
    for name in network_names()
    for layer, entry in load_layers(Path(name), None, ())[1].items()
}


@pytest.mark.sampled(37)
@pytest.mark.parametrize("name", NETWORK_LAYERS)
def test_a_layer_of_the_networks_runs_clean(name):
    layer, chip = NETWORK_LAYERS[name], load_chip("pulp", L2)
    assert_clean(program(layer.kernel, layer.args, chip).program, chip)


def test_parts_of_the_lines_read_no_line_that_is_not_there_yet():
    layer, chip = NETWORK_LAYERS["mobilenetv1.depthwise4.fw"], load_chip("pulp", L2)
    assert_clean(program(layer.kernel, layer.args, chip).program, chip)


@pytest.mark.parametrize("kernel", ["dwconv2d_fw_bf16", "dwconv2d_ig_f16"])
def test_sums_begin_with_no_output_that_another_core_has(kernel):
    size = {"inputs": 50, "height": 13, "width": 4, "kernel": [3, 4], "accumulate": True}
    assert_clean(program(kernel, size).program)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", [*SMALL, *LARGE, "MobileNetV1"])
def test_a_deployed_network_trains_clean(name):
    pytest.importorskip("torch")
    from benchmarks.models import MODELS

    model = MODELS[name]
    batches = model.batches(2 if name in SMALL else 1)
    assert_trains_clean(model.module(), model.loss, batches)


def test_the_deployed_example_trains_clean():
    torch = pytest.importorskip("torch")
    from pulpsim.commands.deploy.model import torch_module

    torch.manual_seed(1)
    batch = torch.randn(4, 1, 8, 8), torch.randint(0, 10, (4,))
    module = torch_module(f"{ROOT}/examples/network.py:build", seed=0)
    assert_trains_clean(module, torch.nn.functional.cross_entropy, [batch])


def assert_trains_clean(module, loss, batches) -> None:
    from trainlib.deploy import SGD, deploy

    chip = load_chip("pulp", L2)
    deployed = deploy(module, loss=loss, batch=batches[0], optimizer=SGD(lr=0.01), chip=chip)
    assert_clean(deployed.with_data(batches).program, chip)
