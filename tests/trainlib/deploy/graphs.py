"""Deeploy's training graphs on the chip, where they lie beside the clone or in DEEPLOY_GRAPHS."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from soc.chip.spec import load_chip
from tests.trainlib.deploy.check import FACTOR, FLOOR, LOSS, WEIGHT, Check
from trainlib.deploy import SGD, Deployed
from trainlib.deploy.gradient import differentiate
from trainlib.deploy.interpret import Interpreter

GRAPHS = Path(
    os.environ.get("DEEPLOY_GRAPHS", Path(__file__).parents[4] / "shared/reference/deeploy")
)
STEPS = {  # batches, and those of a step, where the data do not say
    "SimpleMLP": (4, 1),
    "SimpleMLP_v1": (32, 8),
    "TinyTransformer": (100, 4),
    "Autoencoder": (2, 1),
    "Autoencoder_v2": (4, 1),
    "DSCNN_XS": (4, 1),
    "DSCNN": (4, 1),
    "DSCNN_b": (4, 4),
    "SleepConViT": (4, 2),
    "Transformer_Train": (1, 1),
    "ResNet8": (4, 1),
}
DEFECTIVE = ("SleepConViT",)
"""Graphs that are taken to be repaired alone."""


def graph(name: str) -> Any:
    """Deeploy's training of that name."""
    from trainlib.deploy.importers.onnx_graph import read

    folder = GRAPHS / name
    optimizer = folder / "optimizer.onnx"
    data = dict(np.load(folder / "inputs.npz"))
    own = optimizer if optimizer.exists() else None
    training = read(folder / "network.onnx", own, data, repairs=name in DEFECTIVE)
    count, accumulate = STEPS[name]
    return replace(training, count=count, accumulate=accumulate)


def checks(name: str) -> Iterator[Check]:
    """What is compared: all losses, gradients of single mini-batches, weights at the end."""
    training = graph(name)
    optimizer, chip = SGD.by_rates(training.rates), load_chip("pulp")
    deployed = Deployed(training.graph, optimizer, chip, accumulate=training.accumulate)
    yield Check("faults of memory", len(deployed.built().faults()), 0)
    trained = deployed.train(training.sequence())
    outputs = np.load(GRAPHS / name / "outputs.npz")
    if "loss" in outputs.files:
        pairs = zip(trained.losses, np.ravel(outputs["loss"]), strict=True)
        for number, (found, wanted) in enumerate(pairs):
            yield Check(f"loss {number}", abs(found - float(wanted)), LOSS)
    single = Deployed(training.graph, optimizer, chip)
    yield from gradients(name, training, single)
    for parameter in training.graph.trained:
        key = parameter if parameter in outputs.files else f"{parameter}_updated"
        weight = trained.weights[parameter]
        error = np.abs(weight - outputs[key].reshape(weight.shape)).max()
        yield Check(f"{parameter} at the end", float(error), WEIGHT)


def gradients(name: str, training: Any, single: Deployed) -> Iterator[Check]:
    """Of those mini-batches that there are golden ones of, from the weights that float64 has.

    How far float32 may be is the first one's where a mini-batch has golden ones in float64 alone.
    """
    golden = np.load(GRAPHS / name / "golden.npz")
    spreads: dict[str, float] = {}
    keys: dict[int, dict[str, str]] = {}
    for key in golden.files:
        if found := re.fullmatch(r"grad/(\d+)/(.*)/f64", key):
            keys.setdefault(int(found[1]), {})[found[2]] = key
    for number, weights in enumerate(wide_weights(training)):
        if number not in keys:
            continue
        batch = training.batches[number % len(training.batches)]
        [chips] = single.train([batch], gradients=True, weights=weights).gradients
        for parameter, key in keys[number].items():
            exact = golden[key].reshape(chips[parameter].shape)
            largest = float(np.abs(exact).max())
            if (narrow := key.replace("/f64", "/f32")) in golden.files:
                spread = np.abs(golden[narrow].reshape(exact.shape) - exact).max()
                spreads[parameter] = float(spread) / (largest or 1.0)
            most = (FACTOR * spreads[parameter] + FLOOR) * largest
            error = np.abs(chips[parameter] - exact).max()
            yield Check(f"gradient {number} of {parameter}", float(error), most)


def wide_weights(training: Any) -> Iterator[dict[str, np.ndarray]]:
    """Weights before each mini-batch, as they are in float64."""
    differentiated = differentiate(training.graph)
    names = [value.name for value in differentiated.of_role("input")]
    interpreter = Interpreter(differentiated)
    sums = {n: np.zeros(interpreter.get(n).shape) for n in differentiated.gradients}
    for number, batch in enumerate(training.sequence(), 1):
        yield {n: interpreter.get(n).astype(np.float32) for n in sums}
        for name, array in zip(names, batch, strict=True):
            interpreter.set(name, array)
        interpreter.run()
        for parameter, gradient in differentiated.gradients.items():
            sums[parameter] += interpreter.get(gradient).reshape(sums[parameter].shape)
        if number % training.accumulate == 0:
            for parameter, total in sums.items():
                interpreter.set(
                    parameter, interpreter.get(parameter) - training.rates[parameter] * total
                )
                total[...] = 0
