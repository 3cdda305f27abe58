"""The networks in configs/networks: shapes fit each other, and sizes are the published ones.

Numbers of parameters are those that Keras prints for MLPerf Tiny's reference models; multiply-adds
are those of its convolutions and fully connected layers, as published: 2.66, 7.49, 12.5, 0.26 M.
"""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from autotuner.space import Space
from pulpsim.commands.inspect.networks import NETWORKS, config_file, network_names
from pulpsim.commands.tune.config import Options, Tuning, load_tuning
from soc.config.toml import ConfigError

CHAINS = {
    "dscnn": "conv depthwise pointwise depthwise pointwise classifier",
    "mobilenetv1": "conv " + " ".join(
        f"depthwise{n} pointwise{n}" for n in "1 2 3 4 5 6 7to11 12 13".split()
    ) + " classifier",
    "resnet8": "conv stack1 stack1 stack2_half stack2 stack3_half stack3 classifier",
    "autoencoder": "first hidden hidden narrow wide hidden last",
}  # fmt: skip
SIZES = {
    "dscnn": (2_656_768, 24_908),
    "mobilenetv1": (7_489_664, 221_794),
    "resnet8": (12_501_632, 78_666),
    "autoencoder": (264_192, 269_992),
}
"""Multiply-adds of an inference; parameters, with biases and batch normalisation."""

UNNORMALISED = {"stack2_skip", "stack3_skip", "classifier", "last"}


@cache
def network(name: str) -> Tuning:
    return load_tuning(Path(name), Options())


def forward(tuning: Tuning) -> dict[str, Space]:
    return {n.removesuffix(".fw"): s for n, s in tuning.spaces.items() if n.endswith(".fw")}


def test_networks_are_known_by_name_and_by_file(tmp_path: Path) -> None:
    assert network_names() == sorted(CHAINS)
    assert config_file(Path("resnet8")) == NETWORKS / "resnet8.toml"
    own = tmp_path / "resnet8"
    own.touch()
    assert config_file(own) == own
    assert config_file(Path("no.toml")) == Path("no.toml")  # what reads it says that it is missing


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet", r"did you mean resnet8\?"),
        ("vgg", "the networks are autoencoder, dscnn, mobilenetv1, resnet8"),
    ],
)
def test_an_unknown_network_is_told(name: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: no such file, and no such network; {hint}$"):
        config_file(Path(name))


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.sampled(2)
def test_what_comes_out_of_a_layer_goes_into_the_next(name: str) -> None:
    layers = forward(network(name))
    chain = CHAINS[name].split()
    skips = {name for name in layers if name.endswith("_skip")}
    assert set(chain) | skips == set(layers)
    for one, other in pairwise(chain):
        out, into = layers[one].tensors["Y"].shape, layers[other].tensors["X"].shape
        assert out[:2] == into[:2]  # a pool is before the classifier
        assert out == into or other == "classifier"


@pytest.mark.parametrize("name", ["stack2", "stack3"])
def test_both_ways_around_a_stack_end_alike(name: str) -> None:
    layers = forward(network("resnet8"))
    skip, half = layers[f"{name}_skip"], layers[f"{name}_half"]
    assert skip.tensors["X"] == half.tensors["X"]
    assert skip.tensors["Y"] == layers[name].tensors["Y"] == half.tensors["Y"]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.sampled(2)
def test_sizes_are_the_published_ones(name: str) -> None:
    tuning = network(name)
    macs = parameters = 0
    for layer, space in forward(tuning).items():
        count = tuning.counts[f"{layer}.fw"]
        channels, weights = space.tensors["Y"].shape[1], space.tensors["W"].elements
        macs += count * weights * space.tensors["Y"].elements // channels  # those with padding, too
        numbers = 1 + 4 * (layer not in UNNORMALISED)  # of each: bias and batch normalisation
        parameters += count * (space.tensors["W"].elements + numbers * channels)
    assert (macs, parameters) == SIZES[name]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.sampled(2)
def test_all_layers_are_trained_and_the_first_has_no_gradient_of_its_input(name: str) -> None:
    steps: dict[str, list[str]] = {}
    for layer in network(name).spaces:
        steps.setdefault(layer.split(".")[0], []).append(layer.split(".")[1])
    first, *others = steps.values()
    assert first == ["fw", "wg"]
    assert all(found == ["fw", "wg", "ig"] for found in others)
