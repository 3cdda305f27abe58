"""Values of tensors: NumPy arrays or torch tensors given, or random numbers."""

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainlib.primitive.element import BF16
from trainlib.primitive.operator import Family
from trainlib.primitive.tensor import INT32, Tensor

INT32_LIMITS = np.iinfo(INT32)


def values_of(family: Family, point: Any, given: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """The values of what a primitive reads: those given, or else random ones from the seed.

    raises    ValueError for all that are missing, unknown, of another shape, or of another type
    """
    if given is None:
        return family.random(point)
    wanted = {n: t for n, t in family.tensors(point).items() if t.role in ("in", "inout")}
    names = ", ".join(wanted)
    if not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f"{family.name}: inputs are a {kind}; they are arrays by name: {names}")
    mistakes = [
        f"{family.name}: no input {name}; its inputs are {names}"
        for name in given
        if name not in wanted
    ]
    values = {}
    for name, tensor in wanted.items():
        try:
            values[name] = _value(f"{family.name}: {name}", tensor, given)
        except ValueError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ValueError("\n".join(mistakes))
    return values


def _value(what: str, tensor: Tensor, given: Mapping[str, Any]) -> np.ndarray:
    name = what.rpartition(" ")[2]
    if name not in given:
        raise ValueError(f"{what} is missing; the arguments say {tensor.shape}")
    array = _array(what, given[name])
    if array.dtype == BF16.dtype:  # NumPy knows it as bytes
        array = array.astype(np.float32)
    if array.shape != tensor.shape:
        raise ValueError(f"{what} has shape {array.shape}; the arguments say {tensor.shape}")
    if tensor.dtype != INT32:
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{what} is of type {array.dtype}; it takes numbers")
    elif array.dtype.kind not in "iub":
        raise ValueError(f"{what} is of type {array.dtype}; it takes integers")
    elif array.min() < INT32_LIMITS.min or array.max() > INT32_LIMITS.max:
        raise ValueError(f"{what} has values of {array.min()} to {array.max()}; it takes int32")
    elif tensor.is_index:
        _check_index(what, tensor, array)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, tensor.dtype)


def _check_index(what: str, tensor: Tensor, array: np.ndarray) -> None:
    wrong = np.argwhere((array < 0) | (array >= tensor.below))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        most = tensor.below - 1
        raise ValueError(f"{what}{list(place)} is {array[place]}; it takes 0 to {most}")


def _array(what: str, value: Any) -> np.ndarray:
    """NOTE: torch is found where the caller has imported it, and never imported here."""
    try:
        if is_torch(value):
            value = value.detach().cpu()
            return (value.float() if value.is_floating_point() else value).numpy()
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{what} is no array: {str(error).partition(chr(10))[0]}") from None


def is_torch(value: Any) -> bool:
    """Is it a torch tensor?"""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_torch(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The same values as torch tensors; torch has been imported."""
    torch = sys.modules["torch"]
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
