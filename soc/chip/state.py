"""The chip's State: the arrays of all its clocked parts."""

import mmap
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from soc.chip import shadow
from soc.dma.state import DMA_STATE
from soc.event_unit.state import EU_STATE
from soc.icache.hierarchy import ICACHE
from soc.icache.private_cache import FETCH
from soc.interconnect.axi_l2 import L2_STATE
from soc.prelude.records import BANK, CONFIG, CONTROL, HART, HOT_CODE, REGION, ROW, SUPERBLOCK
from soc.prelude.trace_event import RECORDER
from soc.prelude.wheel import NEVER, WHEEL

PAGE = 4096  # bytes
CACHE_LINE = 64  # bytes

ARRAYS = {
    "config": CONFIG,  # [1]
    "harts": HART,  # [cores (+ 1: the fabric controller, last)]
    "code": ROW,  # [L2 bytes / 2 + harts], see soc.core.decoded_index
    "superblocks": SUPERBLOCK,  # the same
    "hot_code": HOT_CODE,  # [1]
    "regions": REGION,  # [harts * REGIONS]
    "l1": np.dtype(np.int32),  # [l1.size / 4]
    "banks": BANK,  # [l1.banks]
    "l2": np.dtype(np.int32),  # [l2.size / 4]
    "wheel": WHEEL,  # [1]
    "control": CONTROL,  # [1]
    "event_unit": EU_STATE,  # [1]
    "dma": DMA_STATE,  # [1]
    "l2_port": L2_STATE,  # [1]
    "rom": np.dtype(np.int32),  # the boot ROM: [boot_rom.size / 4], or [0]: none
    "l2_banks": BANK,  # [private, interleaved banks, ROM], see soc.interconnect.l2_banks
    "icache": ICACHE,  # [1]
    "fetch": FETCH,  # [harts]
    "recorder": RECORDER,  # [1]
    "trace": np.dtype(np.uint64),  # [2 * events that the recorder's buffer holds]
    "trace_sorted": np.dtype(np.uint64),  # the same
    "trace_places": np.dtype(np.int64),  # [SORTED_CYCLES]
    **shadow.ARRAYS,
}
"""The arrays of a chip: type of their records."""

OF_THIS_RUN = ("superblocks", "hot_code", *shadow.ARRAYS)
"""No state of the chip, but what this process has translated, or checks: not copied with it."""


def zeros(count: int, dtype: np.dtype) -> np.ndarray:
    """Zeros of which only those pages take memory, and time, that are written.

    np.zeros would clear memory that was in use before, or ask for pages of 2 MB.
    """
    return np.frombuffer(_pages(count * dtype.itemsize), dtype) if count else np.zeros(0, dtype)


def zeros_together(counts: Mapping[str, int]) -> dict[str, np.ndarray]:
    """Several such arrays of a chip, by name, with so many elements each.

    Whenever memory is given back, the system interrupts other threads: here, once for all of it.
    """
    starts, end = [], 0
    for name, count in counts.items():
        starts.append(end)
        end += -(-count * ARRAYS[name].itemsize // PAGE) * PAGE
    pages = _pages(end)
    return {
        name: np.frombuffer(pages, ARRAYS[name], count, start)
        for (name, count), start in zip(counts.items(), starts, strict=True)
    }


def _pages(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Image(NamedTuple):
    """Arrays side by side, each from a cache line of the host on.

    content    without the zeros at the end
    size       bytes
    places     by name: first byte, elements
    """

    content: bytes
    size: int
    places: dict[str, tuple[int, int]]


def image(arrays: Mapping[str, np.ndarray]) -> Image:
    """The image of these arrays, from which others can be copied."""
    content, places = b"", {}
    for name, array in arrays.items():
        places[name] = len(content), array.size
        content += array.tobytes()
        content += bytes(-len(content) % CACHE_LINE)
    return Image(content.rstrip(b"\0"), len(content), places)


def copied(image: Image) -> dict[str, np.ndarray]:
    """Arrays with the content of an image.

    Where records of harts begin in the host's cache lines is the same in all runs, and so is what
    it costs to reach them.
    """
    memory = bytearray(image.size + CACHE_LINE)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % CACHE_LINE
    memory[start : start + len(image.content)] = image.content
    return {
        name: np.frombuffer(memory, ARRAYS[name], count, start + first)
        for name, (first, count) in image.places.items()
    }


class Packed(NamedTuple):
    """An array without its pages of zeros: elements, the numbers of other pages, their bytes."""

    elements: int
    numbers: np.ndarray
    pages: np.ndarray


def pack(array: np.ndarray) -> Packed:
    """Most of a chip's memories is zeros: leave them out."""
    data = array.view(np.uint8)
    data = np.pad(data, (0, -data.size % PAGE)) if data.size % PAGE else data
    pages = data.reshape(-1, PAGE)
    numbers = np.flatnonzero(pages.view(np.uint64).any(axis=1))
    return Packed(array.size, numbers, pages[numbers])


def unpack(packed: Packed, dtype: np.dtype) -> np.ndarray:
    """The array again."""
    size = packed.elements * dtype.itemsize
    data = zeros(-(-size // PAGE), np.dtype((np.void, PAGE)))
    data[packed.numbers] = packed.pages.view(data.dtype).reshape(-1)
    return data.view(np.uint8)[:size].view(dtype)


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

    def __reduce__(self) -> tuple:
        """To copy and to pickle it: the table of addresses is made anew, nothing is translated."""
        packed = {name: pack(getattr(self, name)) for name in ARRAYS if name not in OF_THIS_RUN}
        return _unpacked, (packed,)

    if TYPE_CHECKING:
        config: np.ndarray
        harts: np.ndarray
        code: np.ndarray
        superblocks: np.ndarray
        hot_code: np.ndarray
        regions: np.ndarray
        l1: np.ndarray
        banks: np.ndarray
        l2: np.ndarray
        wheel: np.ndarray
        control: np.ndarray
        event_unit: np.ndarray
        dma: np.ndarray
        l2_port: np.ndarray
        rom: np.ndarray
        l2_banks: np.ndarray
        icache: np.ndarray
        fetch: np.ndarray
        recorder: np.ndarray
        trace: np.ndarray
        trace_sorted: np.ndarray
        trace_places: np.ndarray
        check: np.ndarray
        bytes: np.ndarray
        cells: np.ndarray
        readers: np.ndarray
        seen: np.ndarray
        findings: np.ndarray
        sites: np.ndarray


def _unpacked(arrays: Mapping[str, Packed]) -> Chip:
    made = {name: unpack(packed, ARRAYS[name]) for name, packed in arrays.items()}
    made["harts"]["code"] = 0
    superblocks = zeros(made["code"].size, SUPERBLOCK)
    return Chip(**made, **unchecked(), superblocks=superblocks, hot_code=nothing_translated())


def unchecked() -> dict[str, np.ndarray]:
    """The shadow memory of a chip that is not checked."""
    return {name: np.zeros(0, dtype) for name, dtype in shadow.ARRAYS.items()}


def nothing_translated() -> np.ndarray:
    """What is hot code at the beginning of a run: [1]."""
    hot_code = np.zeros(1, HOT_CODE)
    hot_code["poll_threshold"] = NEVER
    return hot_code
