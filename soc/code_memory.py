"""Code memory: decodes what harts come to."""

import numpy as np

from soc.chip_state import Chip
from soc.decode import RowDecoder
from soc.links import mark_loop_end

LONGEST_RUN = 4096
"""Instructions decoded ahead at once, in a straight line."""


class CodeMemory:
    """Fills the chip's rows on demand, and anew on fence.i."""

    def __init__(self, chip: Chip, decoder: RowDecoder):
        self.chip, self.decoder = chip, decoder
        self.base = int(chip.config[0]["code_base"])
        self.bytes = chip.l2.view(np.uint8)
        self.runs: list[tuple[int, int]] = []

    def decode_for_waiting_harts(self) -> set[str]:
        """Decode at each hart that waits for it; returns the extensions that came up."""
        wheel = self.chip.wheel[0]
        extensions: set[str] = set()
        if wheel["stale"]:
            wheel["stale"] = 0
            extensions |= self.decode_again()
        for h, hart in enumerate(self.chip.harts):
            if int(wheel["resume"]) >> h & 1:
                extensions |= self.decode(int(hart["pc"]))
        return extensions

    def decode(self, pc: int) -> set[str]:
        """Decode in a straight line from pc up to known or illegal code."""
        rows, extensions = self.chip.code, set()
        first = index = (pc - self.base) >> 1
        for _ in range(LONGEST_RUN):
            if index >= rows.size or rows[index]["kind"]:
                break
            word = int.from_bytes(self.bytes[2 * index : 2 * index + 4].tobytes(), "little")
            decoded = self.decoder.fill(rows[index], word)
            if decoded:
                extensions.add(decoded.insn.extension)
            index += int(rows[index]["size"]) >> 1
            if decoded is None:
                break
        self.runs.append((first, index))
        return extensions

    def decode_again(self) -> set[str]:
        """Decode anew all that is decoded, at once: harts may wait with accesses of these rows.

        Active hardware loops keep their ends.
        """
        runs, self.runs = self.runs, []
        for first, end in runs:
            self.chip.code[first:end] = np.zeros(1, self.chip.code.dtype)
        extensions: set[str] = set()
        for first, _ in runs:
            extensions |= self.decode(self.base + 2 * first)
        for hart in self.chip.harts:
            for loop in range(2):
                if hart["lp_count"][loop]:
                    mark_loop_end(self.chip, hart, loop)
        return extensions
