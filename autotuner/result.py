"""Results of a search, by point."""

from dataclasses import dataclass

from autotuner.measurement import Outcome
from autotuner.point import Point


@dataclass(frozen=True)
class Found:
    """A point and its outcome; is_estimated: from a part of its tiles (autotuner.extrapolation)."""

    point: Point
    outcome: Outcome
    is_estimated: bool = False
