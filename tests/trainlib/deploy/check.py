"""A number that a deployed network has come to, and what it may be at most."""

from dataclasses import dataclass

FACTOR, FLOOR = 4, 1e-7  # of PyTorch's float32; of a tensor's largest
LOSS, WEIGHT = 1e-5, 1e-6


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
