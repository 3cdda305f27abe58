"""Steps of the heat map: many values differ by orders of magnitude, so steps grow as squares."""

import numpy as np

from pulpsim.report_page.style import LEVELS


def bounds(most: float) -> np.ndarray:
    """The values that end each step but the first, which is nothing: float[LEVELS - 1]."""
    return most * (np.arange(1, LEVELS) / (LEVELS - 1)) ** 2


def levels(values: np.ndarray, most: float) -> np.ndarray:
    """The step of each value: 0 for nothing, LEVELS - 1 for the most."""
    steps = 1 + np.searchsorted(bounds(most) * (1 - 1e-9), values)
    return np.where(values > 0, np.minimum(steps, LEVELS - 1), 0)
