"""Dense numbers for the addresses that a recording names, so that arrays can be kept by address."""

import numpy as np

PAGE = 11
"""log2 of the half-words that get numbers together."""


class Places:
    """Dense numbers for addresses of code, in the order in which their pages are first seen."""

    def __init__(self) -> None:
        self._slots = np.full(1 << 31 - PAGE, -1, np.int32)
        self._pages = np.zeros(0, np.int64)

    @property
    def size(self) -> int:
        """Numbers in use: all are below."""
        return self._pages.size << PAGE

    def of(self, pcs: np.ndarray) -> np.ndarray:
        """The number of each address: int64[n]."""
        halves = pcs.astype(np.int64) >> 1
        slots = self._slots[halves >> PAGE]
        if slots.size and slots.min() < 0:
            fresh = np.unique(halves[slots < 0] >> PAGE)
            self._slots[fresh] = np.arange(fresh.size) + self._pages.size
            self._pages = np.concatenate([self._pages, fresh])
            slots = self._slots[halves >> PAGE]
        return (slots.astype(np.int64) << PAGE) | (halves & (1 << PAGE) - 1)

    def pcs(self, places: np.ndarray) -> np.ndarray:
        """The addresses that have these numbers: int64[n]."""
        return ((self._pages[places >> PAGE] << PAGE) | (places & (1 << PAGE) - 1)) << 1
