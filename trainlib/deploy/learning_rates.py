"""Learning rates of a training's steps: a number, a function of the step, a scheduler of PyTorch's.

    train(batches, lr=0.01), lr=[0.01, 0.1], lr=lambda step: 0.01 * 0.9**step, lr=scheduler

A list has a rate for each part of the optimiser: what is in no group, and the groups. A scheduler
is one of torch.optim.lr_scheduler; training lets it step after each of its own steps.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trainlib.deploy.fusion import minus_of
from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.optimizers import Optimizer, rate_name

Rate = float | Sequence[float]
BY_HAND = "give lr=scheduler.get_last_lr(), and let the scheduler step between trainings"


@runtime_checkable
class Scheduler(Protocol):
    """What training needs of a torch.optim.lr_scheduler."""

    optimizer: Any

    def get_last_lr(self) -> list[float]:
        """The rates, by group."""

    def step(self) -> None:
        """Go on to the next step's."""


Rates = Rate | Callable[[int], Rate] | Scheduler


@dataclass
class LearningRates:
    """What a training was given as its learning rates, for an optimiser."""

    given: Rates
    optimizer: Optimizer

    def at(self, step: int) -> dict[str, np.ndarray]:
        """What the words of a step have, counted from 0, by name.

        raises    DeployError for what is no learning rate, for others than the parts have, and for
                  a scheduler that changes more than rates
        """
        name, given = "lr", self.given
        if isinstance(given, Scheduler):
            self._check(given)
            name, given = "lr: the scheduler's rate", given.get_last_lr()
        elif callable(given):
            name, given = f"lr({step})", given(step)
        by_part = self._by_part(name, given)
        words = {rate_name(number): rate for number, rate in enumerate(by_part)}
        return words | {minus_of(word): -rate for word, rate in words.items()}

    def go_on(self) -> None:
        """Let a scheduler step."""
        if isinstance(self.given, Scheduler):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that PyTorch's optimiser makes none
                self.given.step()

    def _by_part(self, name: str, given: Any) -> list[np.ndarray]:
        parts = self.optimizer.parts
        if isinstance(given, (list, tuple, np.ndarray)) and np.ndim(given) == 1:
            if len(given) != len(parts):
                raise DeployError(
                    f"{name} = {_shown(given)}: {len(given)} learning rates; there are "
                    f"{len(parts)}: of what is in no group, and of {len(parts) - 1} groups"
                )
            return [_rate(f"{name}[{number}]", rate) for number, rate in enumerate(given)]
        rate = _rate(name, given)
        own = list(dict.fromkeys(part.lr for part in parts))
        if len(own) > 1:
            raise DeployError(
                f"{name} = {given}: the groups learn at {_shown(own)}; give a list of "
                f"{len(parts)}: of what is in no group, and of each group"
            )
        return [rate] * len(parts)

    def _check(self, scheduler: Scheduler) -> None:
        """raises    DeployError for one that needs more than a step, or changes more than rates"""
        kind = type(scheduler).__name__
        needed = [p for p in signature(scheduler.step).parameters.values() if p.default is p.empty]
        if needed:
            raise DeployError(f"lr: {kind} steps by {needed[0].name}; {BY_HAND}")
        for group, part in zip(
            scheduler.optimizer.param_groups, self.optimizer.parts, strict=False
        ):
            for option in ("momentum", "betas"):
                own, other = getattr(part, option, None), group.get(option)
                if None not in (own, other) and other != own:
                    raise DeployError(
                        f"lr: {kind} lets {option} be {other}; on the chip it stays {own}: give it "
                        f"cycle_momentum=False"
                    )


def _rate(name: str, given: Any) -> np.ndarray:
    """A learning rate as its word has it.

    raises    DeployError for what no optimiser takes
    """
    try:
        rate = np.array([given], np.float32)
    except (TypeError, ValueError):
        rate = np.array([np.nan])
    if rate.size != 1 or not 0 <= rate.item() < np.inf:
        raise DeployError(f"{name} = {given}; it is a finite number, 0 or more")
    return rate.reshape(1)


def _shown(rates: Iterable[float]) -> str:
    return ", ".join(f"{rate:g}" for rate in rates)
