"""The chip's State: the arrays of all its clocked parts."""

from typing import TYPE_CHECKING

import numpy as np

from soc.dma_state import DMA_STATE
from soc.event_unit_state import EU_STATE
from soc.l2 import L2_STATE
from soc.state import BANK, CONFIG, CONTROL, HART, REGION, ROW, WHEEL

ARRAYS = {
    "config": CONFIG,  # [1]
    "harts": HART,  # [cores (+ 1: the fabric controller, last)]
    "code": ROW,  # [L2 bytes / 2]
    "regions": REGION,  # [harts * REGIONS]
    "l1": np.dtype(np.int32),  # [l1.size / 4]
    "banks": BANK,  # [l1.banks]
    "l2": np.dtype(np.int32),  # [l2.size / 4]
    "wheel": WHEEL,  # [1]
    "control": CONTROL,  # [1]
    "event_unit": EU_STATE,  # [1]
    "dma": DMA_STATE,  # [1]
    "l2_port": L2_STATE,  # [1]
}
"""The arrays of a chip: type of their records."""


class Chip:
    """Everything that a step function may touch: one array for each name in ARRAYS."""

    def __init__(self, **arrays: np.ndarray):
        for name, dtype in ARRAYS.items():
            array = arrays[name]
            if array.dtype != dtype or not array.flags.c_contiguous:
                raise ValueError(f"chip: {name} is {array.dtype}, not a plain array of {dtype}")
            setattr(self, name, array)
        self._table = np.array(
            [word for name in ARRAYS for word in (arrays[name].ctypes.data, arrays[name].size)],
            np.int64,
        )
        self.address = self._table.ctypes.data
        """Of the table of the arrays' addresses and lengths, for compiled code."""

    if TYPE_CHECKING:
        config: np.ndarray
        harts: np.ndarray
        code: np.ndarray
        regions: np.ndarray
        l1: np.ndarray
        banks: np.ndarray
        l2: np.ndarray
        wheel: np.ndarray
        control: np.ndarray
        event_unit: np.ndarray
        dma: np.ndarray
        l2_port: np.ndarray
