"""Numba's type of the chip's State, without making a chip."""

import numba
import numpy as np
from numba.core import types

from soc.dma import DMA_STATE
from soc.event_unit_state import EU_STATE
from soc.l2 import L2_STATE
from soc.state import BANK, CONFIG, CONTROL, HART, REGION, ROW, WHEEL, Chip

ARRAYS = {
    "config": CONFIG,
    "harts": HART,
    "code": ROW,
    "regions": REGION,
    "l1": np.int32,
    "banks": BANK,
    "l2": np.int32,
    "wheel": WHEEL,
    "control": CONTROL,
    "event_unit": EU_STATE,
    "dma": DMA_STATE,
    "l2_port": L2_STATE,
}

CHIP_TYPE = types.NamedTuple(
    [numba.typeof(np.zeros(1, ARRAYS[name])) for name in Chip._fields], Chip
)
