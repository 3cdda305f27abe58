"""Optimisers of torch.optim as the deployer's: options, and groups of parameters by their names."""

from glob import escape
from typing import Any

import torch

from trainlib.deploy.graph.values import DeployError
from trainlib.deploy.optimizers import SGD, Adam, AdamW, Optimizer

KINDS: dict[type, type[Optimizer]] = {
    torch.optim.SGD: SGD,
    torch.optim.Adam: Adam,
    torch.optim.AdamW: AdamW,
}
WITHOUT_EFFECT = ("foreach", "capturable", "differentiable", "fused")
"""Options that say how PyTorch computes."""


def optimizer_of(given: torch.optim.Optimizer, module: torch.nn.Module) -> tuple[Any, list[str]]:
    """An optimiser of PyTorch's as ours, and the names of the parameters that it has.

    raises    DeployError with everything that there is no kernel for, a line each
    """
    own = KINDS.get(type(given))
    kind = type(given).__name__
    if own is None:
        known = ", ".join(each.__name__ for each in KINDS)
        raise DeployError(f"optimizer: torch.optim.{kind}: there is no kernel for it; take {known}")
    if given.state:
        raise DeployError(
            f"optimizer: this {kind} has made steps; give a new one: states of an earlier training "
            f"go on by `states` of `train`"
        )
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    mistakes = list[str]()
    groups = list[dict[str, Any]]()
    for number, group in enumerate(given.param_groups):
        said = {name: group[name] for name in given.defaults}  # schedulers note more in a group
        options, wrong = _options(own, said)
        mistakes += [f"optimizer: {kind}: group {number}: {line}" for line in wrong]
        others = [p for p in group["params"] if id(p) not in names]
        mistakes += [
            f"optimizer: {kind}: group {number}: a parameter of shape {list(p.shape)} is none of "
            f"the module's; give those of the module that is deployed"
            for p in others
        ]
        patterns = [escape(names[id(p)]) for p in group["params"] if id(p) in names]
        groups.append({**options, "params": patterns})
    if mistakes:
        raise DeployError("\n".join(mistakes))
    first, *more = groups
    of_all = {name: value for name, value in first.items() if name != "params"}
    learning = [names[id(p)] for group in given.param_groups for p in group["params"]]
    return own(**of_all, groups=more), learning


def _options(own: type[Optimizer], said: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Options of a group as ours, and what is wrong with others."""
    options = dict[str, Any]()
    wrong = list[str]()
    for name, value in said.items():
        if name in own.options():
            options[name] = float(value) if isinstance(value, torch.Tensor) else value
        elif value and name not in WITHOUT_EFFECT and not _is_implied(own, name, value):
            wrong.append(f"{name} = {value}: the chip's {own.__name__} has no such option")
    return options, wrong


def _is_implied(own: type[Optimizer], name: str, value: Any) -> bool:
    """AdamW is Adam whose weight decay is apart from its gradients."""
    return name == "decoupled_weight_decay" and bool(value) == (own is AdamW)
