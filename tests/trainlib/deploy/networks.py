"""python -m tests.trainlib.deploy.networks [NAME...]: networks held against PyTorch in float64.

Gradients of the first step may be as far from float64 as 4 times PyTorch's float32, and 1e-7 of the
largest in their tensor. Losses of three steps may differ by LOSS: in a row, or, where the norm of a
single image makes rounding grow from step to step, each from the weights that float64 has.
"""

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.models import MODELS, Model
from soc.chip.spec import load_chip
from trainlib.deploy import SGD, Deployed, DeployError, deploy

STEPS, LR = 3, 0.01
FACTOR, FLOOR, LOSS = 4, 1e-7, 1e-5
DEEP = {"MobileNetV1": 1e-4}  # losses of what has most norms
L2 = 2, 16  # MB: the first in which it fits
BATCHES = 1, 4


@dataclass(frozen=True)
class Check:
    """A number, and what it may be at most."""

    what: str
    found: float
    most: float

    @property
    def is_right(self) -> bool:
        """Is it? NaN is not."""
        return self.found <= self.most


def checks(name: str, batch: int) -> Iterator[Check]:
    """What is compared, for batches of so many examples."""
    model = MODELS[name]
    batches = model.batches(STEPS, batch)
    deployed = deployed_where_it_fits(model, batches[0])
    yield Check("faults of memory", len(deployed.built().faults()), 0)
    trained = deployed.train(batches[:1], gradients=True)
    wide, narrow = (Reference(model, dtype) for dtype in (torch.float64, torch.float32))
    exact, other = (reference.gradients(*batches[0]) for reference in (wide, narrow))
    for parameter, gradient in exact.items():
        error = np.abs(trained.gradients[0][parameter] - gradient).max()
        spread = FACTOR * np.abs(other[parameter] - gradient).max()
        yield Check(f"d {parameter}", error, spread + FLOOR * np.abs(gradient).max())
    module = wide.module
    is_forced = batch == 1 and any(isinstance(m, torch.nn.BatchNorm2d) for m in module.modules())
    weights = [wide.weights]
    losses = []
    for x, target in batches:
        losses.append(wide.step(x, target))
        weights.append(wide.weights)
    found = deployed.train(batches).losses
    if is_forced:
        each = zip(batches[1:], weights[1:], strict=False)
        found[1:] = [deployed.train([b], weights=w).losses[0] for b, w in each]
    for step, (loss, wanted) in enumerate(zip(found, losses, strict=True), 1):
        yield Check(f"loss {step}", abs(loss - wanted), DEEP.get(name, LOSS) if step > 1 else LOSS)


def deployed_where_it_fits(model: Model, batch: Any) -> Deployed:
    """The network on the chip with the least L2 that it fits."""
    for size in L2:
        chip = load_chip("pulp", {"l2": {"size": size << 20}})
        how = {"loss": model.loss, "optimizer": SGD(lr=LR), "chip": chip}
        deployed = deploy(model.module(), batch=batch, **how)
        try:
            deployed.built()
            deployed.built(keeps_gradients=True)
        except DeployError:
            if size == L2[-1]:
                raise
            continue
        return deployed
    raise AssertionError


class Reference:
    """A network in PyTorch, trained in one type."""

    def __init__(self, model: Model, dtype: Any) -> None:
        self.model, self.dtype = model, dtype
        self.module = model.module().to(dtype)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=LR)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Its state by name, in float32."""
        state = copy.deepcopy(self.module.state_dict())
        return {n: v.float().numpy() for n, v in state.items() if v.is_floating_point()}

    def step(self, x: Any, target: Any) -> float:
        """Its loss; then it steps."""
        self.optimizer.zero_grad()
        values = [v.to(self.dtype) if v.is_floating_point() else v for v in (x, target)]
        loss = self.model.loss(self.module(values[0]), values[1])
        loss.backward()
        self.optimizer.step()
        return float(loss.item())

    def gradients(self, x: Any, target: Any) -> dict[str, np.ndarray]:
        """Of a first step, by parameter; it stays as it is."""
        other = Reference(self.model, self.dtype)
        other.step(x, target)
        named = other.module.named_parameters()
        return {n: p.grad.double().numpy() for n, p in named if p.grad is not None}


def main() -> int:
    """Check the networks that the command line names, or all; 1 if one is wrong."""
    is_right = True
    for name in sys.argv[1:] or MODELS:
        for batch in BATCHES:
            every = list(checks(name, batch))
            wrong = [check for check in every if not check.is_right]
            is_right &= not wrong
            print(f"{name}, {batch} at a time: {len(every) - len(wrong)} of {len(every)} right")
            for check in wrong:
                print(f"  {check.what}: {check.found:.3g}, more than {check.most:.3g}")
            sys.stdout.flush()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
