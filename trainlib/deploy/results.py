"""What training and evaluation give."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.running import Report


@dataclass(frozen=True, repr=False)
class Trained:
    """The result of training.

    losses      of each batch
    weights     parameters and buffers by state_dict's names
    states      of the optimiser and of dropout: what `train` takes to go on
    gradients   of each step by parameter, if they were asked for
    """

    losses: list[float]
    weights: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
    gradients: list[dict[str, np.ndarray]]
    report: Report

    def __repr__(self) -> str:
        return f"<Trained by {_batches(self.losses)} in {self.report.cycles:,} cycles>"

    @property
    def state_dict(self) -> dict[str, Any]:
        """The weights as torch tensors, for a module's load_state_dict(..., strict=False)."""
        import sys

        torch = sys.modules.get("torch")
        if torch is None:
            raise DeployError("torch is not imported; `weights` has them as arrays")
        return {name: torch.from_numpy(array.copy()) for name, array in self.weights.items()}


@dataclass(frozen=True, repr=False)
class Evaluated:
    """The result of an evaluation.

    losses     of each batch
    outputs    of the network, by batch: an array, or a tuple of those that it gives
    """

    losses: list[float]
    outputs: list[Any]
    report: Report

    def __repr__(self) -> str:
        return f"<Evaluated with {_batches(self.losses)} in {self.report.cycles:,} cycles>"


def _batches(losses: Sequence[float]) -> str:
    """How many there are, and the first and the last loss."""
    ends = f", losses {losses[0]:.4g} ... {losses[-1]:.4g}," if losses else ""
    return f"{len(losses)} batches{ends}"
