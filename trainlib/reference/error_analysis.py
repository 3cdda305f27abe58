"""Running error analysis: values in float64, each with how far float32 may be from it.

Every operation adds what the errors of its operands can make of its result, and its own rounding.

source    N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 3.3
"""

from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from trainlib.primitive.operator import Expected
from trainlib.reference import activations, softmax
from trainlib.reference.tolerances import OVERFLOW, ROUNDING, of_sum, on_the_way

Operand = Union["Near", float]


@dataclass(frozen=True)
class Near:
    """Values, and the largest errors that they have in float32."""

    value: np.ndarray
    error: np.ndarray

    def __post_init__(self) -> None:
        """What is not finite is so exactly: how near float32 is to it, is no number.

        Of what overflows float32, and of all that is made of it, anything may come.
        """
        is_near = np.isfinite(self.value)
        with np.errstate(invalid="ignore"):
            is_beyond = is_near & ((np.abs(self.value) >= OVERFLOW) | np.isnan(self.error))
        if is_beyond.any() or not is_near.all():
            error = np.where(is_near, self.error, 0)
            object.__setattr__(self, "error", np.where(is_beyond, np.inf, error))

    @classmethod
    def of(cls, array: np.ndarray) -> "Near":
        """What is known exactly: an input."""
        value = np.asarray(array, np.float64)
        return cls(value, np.zeros(value.shape))

    @classmethod
    def stack(cls, parts: "list[Near]") -> "Near":
        """Several as one, along a new first axis."""
        return cls(np.stack([p.value for p in parts]), np.stack([p.error for p in parts]))

    @classmethod
    def join(cls, parts: "list[Near]") -> "Near":
        """Several one after another along the last axis."""
        return cls(
            np.concatenate([p.value for p in parts], -1),
            np.concatenate([p.error for p in parts], -1),
        )

    @property
    def expected(self) -> Expected:
        """As a reference gives it."""
        return self.value, self.error

    @property
    def size(self) -> np.ndarray:
        """The largest that the values may be in float32."""
        return np.abs(self.value) + self.error

    def _rounded(self, value: np.ndarray, error: np.ndarray) -> "Near":
        return Near(value, error + ROUNDING * (np.abs(value) + error) + activations.SMALLEST)

    def __getitem__(self, index: Any) -> "Near":
        return Near(self.value[index], self.error[index])

    def __add__(self, other: "Near") -> "Near":
        return self._rounded(self.value + other.value, self.error + other.error)

    def __sub__(self, other: "Near") -> "Near":
        return self._rounded(self.value - other.value, self.error + other.error)

    def __rsub__(self, number: float) -> "Near":
        return self._rounded(number - self.value, self.error)

    def __mul__(self, other: Operand) -> "Near":
        if not isinstance(other, Near):
            other = Near(np.array(other), np.array(ROUNDING * abs(other)))
        error = self.error * other.size + np.abs(self.value) * other.error
        return self._rounded(self.value * other.value, error)

    def mixed(self, other: "Near", share: "Near") -> "Near":
        """self + share (other - self), shares from 0 to 1: the errors of both are shared too."""
        away, apart = other.value - self.value, self.error + other.error
        error = self.error * (1 - share.value) + other.error * share.value
        error += share.error * (np.abs(away) + apart)
        error += 2 * ROUNDING * share.size * (np.abs(away) + apart)
        return self._rounded(self.value + share.value * away, error)

    def where(self, condition: np.ndarray) -> "Near":
        """0 where the condition does not hold."""
        return Near(np.where(condition, self.value, 0), np.where(condition, self.error, 0))

    def matmul(self, other: "Near", start: "Near | None" = None) -> "Near":
        """self @ other, or that + start: a sum in any order."""
        value = self.value @ other.value
        error = self.error @ other.size + np.abs(self.value) @ other.error
        magnitude, terms = self.size @ other.size, self.value.shape[-1]
        if start is not None:
            value, error = value + start.value, error + start.error
            magnitude, terms = magnitude + start.size, terms + 1
        return Near(value, error + on_the_way(of_sum(terms, magnitude), magnitude))

    def transposed(self) -> "Near":
        """The last two axes exchanged."""
        return Near(self.value.swapaxes(-1, -2), self.error.swapaxes(-1, -2))

    def reshape(self, *shape: int) -> "Near":
        """The same in another shape."""
        return Near(self.value.reshape(*shape), self.error.reshape(*shape))

    def moved(self, source: int, target: int) -> "Near":
        """An axis at another place."""
        value, error = (np.moveaxis(array, source, target) for array in (self.value, self.error))
        return Near(value, error)

    def sum(self) -> "Near":
        """Over the first axis, in any order."""
        magnitude = self.size.sum(0)
        error = self.error.sum(0) + on_the_way(of_sum(len(self.value), magnitude), magnitude)
        return Near(self.value.sum(0), error)

    def relu(self) -> "Near":
        """The larger of it and 0."""
        value, error = activations.at_least_zero((self.value, self.error))
        return Near(value, np.asarray(error))

    def tanh(self) -> "Near":
        """The steepest slope is that of the value nearest to 0."""
        y = np.tanh(self.value)
        with np.errstate(over="ignore"):
            error = self.error / np.cosh(self._least()) ** 2
        return Near(
            y, error + activations.TANH * ROUNDING * (np.abs(y) + error) + activations.SMALLEST
        )

    def sigmoid(self) -> "Near":
        """The steepest slope is that of the value nearest to 0."""
        y, least = activations.sigmoid(self.value), self._least()
        error = self.error * activations.sigmoid(least) * activations.sigmoid(-least)
        return Near(y, error + activations.SIGMOID * ROUNDING * (y + error) + activations.SMALLEST)

    def softmax(self) -> "Near":
        """Along the last axis: the errors of a row are factors of its powers and of their sum.

        Where they are large, the result lies between the powers of the two ends of its logarithm.
        """
        y, bound = softmax.forward(self.value, -1)
        spread = 2 * self.error.max(-1, keepdims=True)
        factor = np.exp(np.minimum(spread, 1))
        near = bound * factor + y * (1 - y) * (factor - 1)
        away = self.value - self.value.max(-1, keepdims=True)
        log = away - np.log(np.exp(away).sum(-1, keepdims=True))
        most, least = np.exp(np.minimum(log + spread, 0)), np.exp(log - spread)
        far = bound + np.maximum(most - y, y - least)
        far = np.where(np.isinf(spread), np.inf, np.minimum(far, 1))
        return Near(y, np.where(spread <= 1, near, far))

    def softmax_backward(self, dy: "Near") -> "Near":
        """self (dy - sum of self dy): the gradient of what softmax gave self for."""
        value = (self.value * dy.value).sum(-1, keepdims=True)
        error = (self.error * dy.size + np.abs(self.value) * dy.error).sum(-1, keepdims=True)
        terms, magnitude = self.value.shape[-1], (self.size * dy.size).sum(-1, keepdims=True)
        error += on_the_way(of_sum(terms, magnitude), magnitude)
        return self * (dy - Near(value, error))

    def _least(self) -> np.ndarray:
        return np.maximum(np.abs(self.value) - self.error, 0)
