"""Values that a step cannot compute with: NaN, and infinity in what a training changes.

One NaN makes every sum with it NaN. Infinities may be right in what stays as it is: masks of
attention have -inf; in what is updated, the next step makes NaN of them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from trainlib.deploy.graph.registry import written
from trainlib.deploy.graph.values import DTYPES, DeployError, Graph, raise_all


def check_input(name: str, array: Any) -> None:
    """raises    DeployError for an input with NaN"""
    given = as_array(array)
    if given.dtype.kind == "f" and np.isnan(given.sum()) and np.isnan(given).any():
        place = [int(n) for n in np.argwhere(np.isnan(given))[0]]
        raise DeployError(f"{name}: element {place} is NaN; every sum with it would be")


def check_values(graph: Graph, arrays: Mapping[str, Any]) -> None:
    """Check what values of a graph are to hold; names that it has not are left out.

    raises    DeployError, a line for each parameter, buffer, constant or state with NaN, and for
              each that is updated, or a state, with infinity
    """
    updated = {*graph.trained}
    updated |= {graph.root(name) for node in graph.nodes for name in written(graph, node)}
    updated |= {value.name for value in graph.of_role("state")}
    mistakes = []
    for name, array in arrays.items():
        if name not in graph.values or graph.values[name].dtype == "int32":
            continue
        with np.errstate(over="ignore"):
            given = as_array(array).astype(DTYPES[graph.values[name].dtype]).astype(np.float32)
        if mistake := _mistake(name, given, name in updated):
            mistakes.append(DeployError(mistake))
    raise_all(mistakes)


def as_array(given: Any) -> np.ndarray:
    """A tensor of PyTorch, or what NumPy takes; bfloat16, which NumPy has not, as float32."""
    if not hasattr(given, "detach"):
        return np.asarray(given)
    tensor = given.detach().cpu()
    return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)


def _mistake(name: str, array: np.ndarray, is_updated: bool) -> str:
    """What is wrong with a value; "": nothing."""
    for what, is_wrong, reason in (
        ("NaN", np.isnan(array), "every sum with it would be"),
        ("infinite", np.isinf(array) & is_updated, "no step makes it finite again"),
    ):
        if count := int(is_wrong.sum()):
            place = [int(n) for n in np.argwhere(is_wrong)[0]]
            return (
                f"{name}: {count:,} of {array.size:,} values {'is' if count == 1 else 'are'} "
                f"{what}, the first at {place}; {reason}: give finite ones, such as those saved "
                f"before a training diverged"
            )
    return ""
