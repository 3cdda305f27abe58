"""`pulpsim deploy --verify`: a training on the chip held against PyTorch, narrow and in float64.

A gradient of the first step may be as far from float64 as FACTOR times what PyTorch's float32, or
its autocast to halves, is at most, in its tensor, and a part of the tensor's largest. How far
float32 is off depends on luck where a tensor has few elements, so that it is the furthest of three
computations: of the loss, and of 3 and 7 times the loss, whose products round in other ways. Losses
may differ by LOSS, or half a unit of halves in the last place, relatively where they are larger
than 1.
"""

import copy
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from trainlib.deploy import Deployed, Trained
from trainlib.deploy.optimizers import OF_ALL, SGD, Optimizer

FACTOR = 4
FLOOR = {"f32": 1e-7, "f16": 2.0**-6, "bf16": 2.0**-3}  # of halves: 32 roundings, of long sums
TIMES = {"f32": (1, 3, 7), "f16": (1,), "bf16": (1,)}  # what the loss is multiplied by
LOSS = {"f32": 1e-5, "f16": 2.0**-11, "bf16": 2.0**-8}


def verified(
    model: Any, loss: Any, batches: Sequence[Any], deployed: Deployed, trained: Trained
) -> dict[str, Any]:
    """What differs: gradients of the first step by parameter, losses of all batches; "correct".

    Gradients are those of a program of their own, which keeps them: updates overwrite others.
    """
    import torch

    dtype = deployed.precision.coarsest
    first = batches[: deployed.accumulate]
    [found] = deployed.train(first, gradients=True).gradients
    deployed.weights = trained.weights
    narrow = [
        _trained(model, loss, first, deployed, torch.float32, dtype, times)[1]
        for times in TIMES[dtype]
    ]
    exact = _trained(model, loss, batches, deployed, torch.float64)
    gradients = {}
    for name, gradient in exact[1].items():
        error = float(np.abs(found[name] - gradient).max())
        spread = max(float(np.abs(other[name] - gradient).max()) for other in narrow)
        bound = FACTOR * spread + FLOOR[dtype] * float(np.abs(gradient).max())
        gradients[name] = {"error": error, "bound": bound, "correct": bool(error <= bound)}
    losses = [
        {
            "loss": value,
            "wanted": wanted,
            "correct": bool(abs(value - wanted) <= _allowed(wanted, dtype)),
        }
        for value, wanted in zip(trained.losses, exact[0], strict=True)
    ]
    # Further steps begin with weights that differ by rounding.
    parts = [*gradients.values(), *losses[: len(first)]]
    return {
        "gradients": gradients,
        "losses": losses,
        "correct": all(part["correct"] for part in parts),
    }


def _allowed(loss: float, dtype: str) -> float:
    return LOSS[dtype] * max(1.0, abs(loss))


def _trained(
    model: Any,
    loss: Any,
    batches: Sequence[Any],
    deployed: Deployed,
    dtype: Any,
    narrow: str = "f32",
    times: int = 1,
) -> tuple[list[float], dict[str, np.ndarray]]:
    """PyTorch's losses, and gradients of the first step; by autocast if narrow says halves.

    Gradients are those of so many times the loss, divided by it.
    """
    import torch

    halves = {"f16": torch.float16, "bf16": torch.bfloat16}
    module = copy.deepcopy(model).to(dtype)
    learning = [p for p in module.parameters() if p.requires_grad]
    optimizer = _optimizer(deployed.optimizer, module)
    losses: list[float] = []
    gradients: dict[str, np.ndarray] = {}
    for number, (x, target) in enumerate(batches, 1):
        given = (*(x if isinstance(x, tuple) else (x,)), target)
        *inputs, wanted = (v.to(dtype) if v.is_floating_point() else v for v in given)
        autocast = torch.autocast("cpu", dtype=halves.get(narrow), enabled=narrow in halves)
        with autocast, _in_float64() if dtype == torch.float64 else nullcontext():
            value = loss(module(*inputs), wanted) if loss else module(*inputs, wanted)
        losses.append(value.item())
        ((value / deployed.accumulate if deployed.mean else value) * times).backward()
        if number % deployed.accumulate == 0:
            named = [(n, p) for n, p in module.named_parameters() if p.grad is not None]
            gradients = gradients or {n: p.grad.double().numpy() / times for n, p in named}
            _clip(deployed.optimizer, learning)
            optimizer.step()
            optimizer.zero_grad()
    return losses, gradients


def _in_float64() -> Any:
    """Let PyTorch take tensors of float32, such as a loss's weights of classes, as float64."""
    from torch import Tensor, float32
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_map_only

    class InFloat64(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            def widened(tensor: Any) -> Any:
                return tensor.double() if tensor.dtype == float32 else tensor

            args, kwargs = tree_map_only(Tensor, widened, (args, kwargs or {}))
            return function(*args, **kwargs)

    return InFloat64()


def _clip(optimizer: Optimizer, parameters: list[Any]) -> None:
    from torch.nn.utils import clip_grad_norm_, clip_grad_value_

    if optimizer.clip_norm is not None:
        clip_grad_norm_(parameters, optimizer.clip_norm)
    if optimizer.clip_value is not None:
        clip_grad_value_(parameters, optimizer.clip_value)


def _optimizer(optimizer: Optimizer, module: Any) -> Any:
    """PyTorch's optimiser with these options, by group, of a module's parameters."""
    import torch

    names = [name for name in optimizer.options() if name not in OF_ALL]
    groups: list[dict[str, Any]] = [
        {"params": [], **{name: getattr(part, name) for name in names}} for part in optimizer.parts
    ]
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            groups[optimizer.part_of(name)]["params"].append(parameter)
    kind = "SGD" if isinstance(optimizer, SGD) else type(optimizer).__name__
    return getattr(torch.optim, kind)(groups)
