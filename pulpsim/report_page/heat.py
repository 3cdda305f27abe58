"""Steps of colour for a value: even ones, or for what differs by orders of magnitude as squares."""

import numpy as np

from pulpsim.report_page.style import LEVELS

EVEN, SQUARES = 1, 2


def bounds(most: float, growth: int) -> np.ndarray:
    """The values that end each step but the first, which is nothing: float[LEVELS - 1].

    growth    EVEN or SQUARES
    """
    return most * (np.arange(1, LEVELS) / (LEVELS - 1)) ** growth


def levels(values: np.ndarray, most: float, growth: int) -> np.ndarray:
    """The step of each value: 0 for nothing, LEVELS - 1 for the most."""
    steps = 1 + np.searchsorted(bounds(most, growth) * (1 + 1e-9), values)
    return np.where(values > 0, np.minimum(steps, LEVELS - 1), 0)
