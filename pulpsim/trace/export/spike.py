"""The log that `spike -l` writes: every instruction, by cycle.

    core   0: >>>>  main
    core   0: 0x1c008080 (0x00300293) li      t0, 3

Source: riscv-isa-sim, riscv/execute.cc. The number of a core is its place among the chip's harts.
"""

from typing import BinaryIO

import numpy as np

from pulpsim.trace.code import Code
from pulpsim.trace.export import text
from pulpsim.trace.selection import Selection
from soc.trace.reader import Kind, Trace, taken


def spike(trace: Trace, selection: Selection, stream: BinaryIO) -> None:
    """Write the instructions among the selected events."""
    code = Code(trace)
    starts = {start: name for start, _, name in trace.symbols}
    cores = text.labels([f"core {hart:3}: " for hart in range(len(trace.harts))])
    for part in selection.parts(trace):
        issues = taken(part, part["kind"] == Kind.ISSUE)
        if not issues.size:
            continue
        pcs, rows = np.unique(issues["a"], return_inverse=True)
        texts = text.labels([_spaced(code.text(pc)) for pc in pcs.tolist()])
        names = text.labels([f">>>>  {starts[pc]}" if pc in starts else "" for pc in pcs.tolist()])
        core = cores[issues["hart"]]
        is_start = np.isin(pcs, list(starts))[rows][:, None]
        heads = np.where(is_start, text.joined(core, names[rows], "\n"), np.uint8(0))
        address, word = text.hexadecimal(issues["a"]), text.hexadecimal(issues["b"])
        body = text.joined(core, "0x", address, " (0x", word, ") ", texts[rows], "\n")
        stream.write(text.written(text.joined(heads, body)))


def _spaced(instruction: str) -> str:
    """With the operands in a column."""
    mnemonic, _, operands = instruction.partition(" ")
    return f"{mnemonic:7} {operands}".rstrip()
