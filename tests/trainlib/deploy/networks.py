"""python -m tests.trainlib.deploy.networks [NAME...]: what deployed networks must come to.

networks    of PyTorch, 1 and 4 examples at a time, held against PyTorch in float64: gradients of
            the first step, losses of three
graphs      of Deeploy, where they lie (see tests.trainlib.deploy.graphs): losses, gradients of
            single mini-batches from the weights that float64 has, weights at the end
programs    of PyTorch's networks with their data: the same ELF twice and in another process;
            DS-CNN with 4 examples in 2 MB of L2 alone
figures     cycles of a step, bytes, seconds of processor time, those of 100 steps, too: what
            `python -m benchmarks deploy --long` prints but for those of mixed precision

NAME is one of these, a network's or a graph's; all by default. Each number that is wrong is shown
beside what it may be at most.

Gradients may be as far from float64 as 4 times PyTorch's float32, and 1e-7 of the largest in their
tensor. How far float32 is off depends on luck where a tensor has few elements, so that it is the
furthest of three computations: of the loss, and of 3 and 7 times the loss, whose products round in
other ways. One alone is between 0 and 4e-8 off, by the batch and the machine's vector instructions,
in the gradient of a bias before a softmax, which is 0.

Losses of three steps may differ by LOSS: in a row, or each from the weights that float64 has, where
rounding grows from step to step: with a norm of single images, or where PyTorch's own float32 is
further from its float64 than that.
"""

import copy
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from benchmarks.deploy import TARGETS, network
from benchmarks.figure import show as show_table
from benchmarks.models import MODELS, Model
from soc.chip.spec import load_chip
from tests.trainlib.deploy import graphs
from tests.trainlib.deploy.check import FACTOR, FLOOR, LOSS, Check
from trainlib.deploy import SGD, Deployed, DeployError, deploy
from trainlib.deploy.program_store import KEEPS_NOTHING

STEPS, LR = 3, 0.01
DEEP = {"MobileNetV1": 1e-4}  # losses of what has most norms
L2 = 2, 16  # MB: the first in which it fits
BATCHES = 1, 4
TIMES = 1, 3, 7  # what the loss is multiplied by


def checks(name: str, batch: int) -> Iterator[Check]:
    """What is compared, for batches of so many examples."""
    model = MODELS[name]
    batches = model.batches(STEPS, batch)
    deployed = deployed_where_it_fits(model, batches[0])
    yield Check("faults of memory", len(deployed.built().faults()), 0)
    trained = deployed.train(batches[:1], gradients=True)
    wide, narrow = (Reference(model, dtype) for dtype in (torch.float64, torch.float32))
    exact = wide.gradients(*batches[0])
    others = [narrow.gradients(*batches[0], times) for times in TIMES]
    for parameter, gradient in exact.items():
        error = np.abs(trained.gradients[0][parameter] - gradient).max()
        spread = max(np.abs(other[parameter] - gradient).max() for other in others)
        most = FACTOR * spread + FLOOR * np.abs(gradient).max()
        yield Check(f"d {parameter}", error, most)
    allowed = [LOSS, *[DEEP.get(name, LOSS)] * (STEPS - 1)]
    weights, losses, torchs = [], [], []
    for x, target in batches:
        weights.append(wide.weights)
        losses.append(wide.step(x, target))
        torchs.append(narrow.step(x, target))
    has_norm = any(isinstance(m, torch.nn.BatchNorm2d) for m in wide.module.modules())
    spreads = np.abs(np.subtract(torchs, losses))
    is_forced = (batch == 1 and has_norm) or bool((spreads > allowed).any())
    if is_forced:
        each = zip(batches, weights, strict=True)
        found = [deployed.train([b], weights=w).losses[0] for b, w in each]
    else:
        found = deployed.train(batches).losses
    how = "from float64's weights" if is_forced else "in a row"
    for step, (loss, wanted) in enumerate(zip(found, losses, strict=True)):
        yield Check(f"loss {step + 1} {how}", abs(loss - wanted), allowed[step])


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

    def step(self, x: Any, target: Any, times: int = 1) -> float:
        """Its loss; then it steps, by the gradients of so many times the loss."""
        self.optimizer.zero_grad()
        values = [v.to(self.dtype) if v.is_floating_point() else v for v in (x, target)]
        loss = self.model.loss(self.module(values[0]), values[1])
        (loss * times).backward()
        self.optimizer.step()
        return float(loss.item())

    def gradients(self, x: Any, target: Any, times: int = 1) -> dict[str, np.ndarray]:
        """Of a first step, by parameter, from so many times the loss; it stays as it is."""
        other = Reference(self.model, self.dtype)
        other.step(x, target, times)
        named = other.module.named_parameters()
        return {n: p.grad.double().numpy() / times for n, p in named if p.grad is not None}


def digest(name: str) -> str:
    """Of a network's ELF with a batch, for the first L2 that it fits."""
    batch = MODELS[name].batches(1)[0]
    deployed = deployed_where_it_fits(MODELS[name], batch)
    deployed.store = KEEPS_NOTHING
    return sha256(deployed.with_data([batch]).program.to_elf()).hexdigest()


def program_checks(name: str) -> Iterator[Check]:
    """Is a network's program the same each time, here and elsewhere?"""
    here = digest(name)
    yield Check("second ELF differs", digest(name) != here, 0)
    command = f"from {__spec__.name} import digest; print(digest({name!r}))"
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    yield Check("another process's ELF differs", run.stdout.strip() != here, 0)
    if name == "DS-CNN":
        model = MODELS[name]
        how = {"loss": model.loss, "optimizer": SGD(lr=LR), "chip": "pulp"}
        deployed = deploy(model.module(), batch=model.batches(1, 4)[0], **how)
        yield Check("copies to the HyperRAM, 4 at a time", len(deployed.built().copies), 0)


def show(title: str, every: Iterable[Check]) -> bool:
    """Print how many are right, and those that are not; are all?"""
    found = list(every)
    wrong = [check for check in found if not check.is_right]
    nearest = max((c.found / c.most for c in found if c.most), default=0.0)
    print(f"{title}: {len(found) - len(wrong)} of {len(found)} right, at most {nearest:.2f} of it")
    for check in wrong:
        print(f"  {check.what}: {check.found:.3g}, more than {check.most:.3g}")
    sys.stdout.flush()
    return not wrong


def show_figures(name: str) -> bool:
    """Print a network's figures beside their targets; are all met?"""
    figures = list(network(name, replace(TARGETS[name], halves=None), is_long=True))
    show_table(figures)
    sys.stdout.flush()
    return all(figure.is_met is not False for figure in figures)


def main() -> int:
    """Check what the command line names, or all; 1 if something is wrong."""
    wanted, results = set(sys.argv[1:]), []
    known = {"networks", "graphs", "programs", "figures", *MODELS, *graphs.STEPS}
    if unknown := sorted(wanted - known):
        print(f"{unknown[0]}: there are {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    for name in graphs.STEPS:
        if not wanted or wanted & {"graphs", name}:
            results.append(show(f"{name} of Deeploy", graphs.checks(name)))
    for name in MODELS:
        if not wanted or wanted & {"networks", name}:
            titles = {batch: f"{name}, {batch} at a time" for batch in BATCHES}
            results += [show(title, checks(name, batch)) for batch, title in titles.items()]
    for name in MODELS:
        if not wanted or wanted & {"programs", name}:
            results.append(show(f"{name}, its program", program_checks(name)))
    for name in TARGETS:
        if not wanted or wanted & {"figures", name}:
            results.append(show_figures(name))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
