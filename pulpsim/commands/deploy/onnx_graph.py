"""Training graphs of ONNX for `pulpsim deploy`, and what they must come to."""

from pathlib import Path
from typing import Any

import numpy as np

from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError
from trainlib.deploy import SGD, Deployed, Trained
from trainlib.deploy.precision import SINGLE, Precision
from trainlib.deploy.tiles import Tuned
from trainlib.npz import read_npz

LOSS, WEIGHT = 1e-5, 1e-6  # how far each may be from what onnxruntime computed


def onnx_deployment(
    network: Path,
    optimizer: Path | None,
    data: Path,
    chip: SocSpec,
    *,
    accumulate: int | None,
    mean: bool,
    cores: int | None,
    tuned: Tuned | None = None,
    precision: Precision = SINGLE,
    repairs: bool = False,
) -> tuple[Deployed, list[Any]]:
    """A training graph on a chip, and its batches.

    repairs    take it although backward nodes have defects

    raises    ConfigError, DeployError
    """
    try:
        from trainlib.deploy.importers.onnx_graph import read
    except ImportError as error:
        raise ConfigError([f"{network}: {error}"]) from None
    for file in (network, optimizer):
        if file and not file.is_file():
            raise ConfigError([f"{file}: there is no such file"])
    training = read(network, optimizer, _arrays(data), repairs=repairs)
    count = accumulate or training.accumulate
    how: dict[str, Any] = {"accumulate": count, "mean": mean, "cores": cores, "tuned": tuned}
    how["precision"] = precision
    deployed = Deployed(training.graph, SGD.by_rates(training.rates), chip, **how)
    batches = list(training.sequence())
    return deployed, batches[: len(batches) // count * count] or batches * count


def compared(trained: Trained, deployed: Deployed, against: Path) -> dict[str, Any]:
    """Losses and weights beside those of a file; "correct"."""
    wanted = _arrays(against)
    losses = [
        {"loss": found, "wanted": float(loss), "correct": bool(abs(found - loss) <= LOSS)}
        for found, loss in zip(trained.losses, np.ravel(wanted.get("loss", ())), strict=False)
    ]
    weights = {}
    for name in deployed.graph.trained:
        array = wanted.get(name, wanted.get(f"{name}_updated"))
        if array is None:
            raise ConfigError([f"{against}: no array {name}"])
        found = trained.weights[name]
        if array.size != found.size:
            raise ConfigError([f"{against}: {name} has {list(array.shape)}; {list(found.shape)}"])
        error = float(np.abs(found - array.reshape(found.shape)).max())
        weights[name] = {"error": error, "bound": WEIGHT, "correct": error <= WEIGHT}
    parts: list[dict[str, Any]] = [*weights.values(), *losses]
    return {"weights": weights, "losses": losses, "correct": all(p["correct"] for p in parts)}


def _arrays(file: Path) -> dict[str, np.ndarray]:
    try:
        return read_npz(file)
    except ValueError as error:
        raise ConfigError([str(error)]) from None
