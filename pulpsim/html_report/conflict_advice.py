"""Advice about conflicts at L1's banks: why they happen, and what would help."""

import numpy as np

from pulpsim.html_report.advice import Words
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.svg import count, percent
from soc.trace.reader import Kind

CROWDED = 4.0
"""Times the mean share of a bank from which on conflicts have gathered in it."""
FEW_WORDS = 2
"""Words of a bank whose conflicts come from sharing, not from strides."""
IN_STEP = 1.5
"""Times the conflicts of random addresses from which on accesses are in step."""


def conflicts(evidence: Evidence) -> Words:
    """How conflicts are spread, and what would help against such."""
    banks = np.array(evidence.figures.banks)
    if not banks.size or not banks[:, 1].sum():
        return "", ""
    lost, row = banks[:, 1], 4 * len(banks)
    crowded = np.flatnonzero(lost * len(lost) >= min(CROWDED, len(lost)) * lost.sum())
    recording = evidence.figures.recording
    by_dma = _share_of_dma(recording, evidence.busy) if recording else 0.0
    if by_dma > 0.5:
        return f"The DMA had the bank in {percent(by_dma, 1, 0)} of the cases.", (
            "Copies and computation meet: fetch larger tiles less often, or copy to banks "
            "that the loop at hand leaves alone."
        )
    if crowded.size and len(banks) > 1:
        return _in_few_banks(recording, crowded, lost, row)
    return _spread(evidence, banks)


def _in_few_banks(
    recording: Recording | None, crowded: np.ndarray, lost: np.ndarray, row: int
) -> Words:
    share = lost[crowded].sum() / lost.sum()
    names = ", ".join(map(str, crowded.tolist()))
    where = f"{percent(share, 1, 0)} of all lost arbitrations are at bank {names}"
    words = _words_of(recording, int(lost.argmax())) if recording else None
    if words is not None and words.size <= FEW_WORDS:
        addresses = " and ".join(f"{address:#x}" for address in words.tolist())
        return f"{where}, over the word at {addresses}.", (
            "Cores share this word: give each core its own, one word apart, or read it once "
            "and keep it in a register."
        )
    return f"{where}, over {count(words.size)} words." if words is not None else f"{where}.", (
        f"Addresses that are multiples of {row} bytes apart lie in one bank: pad each row by "
        f"one word (4 bytes), so that rows begin in different banks."
    )


def _words_of(recording: Recording, bank: int) -> np.ndarray:
    """Return the addresses of a bank's words over which arbitrations were lost."""
    lost = recording.of(Kind.CONFLICT)
    return np.unique(lost["b"][lost["extra"] & 0xFF == bank] & ~np.uint32(3))


def _share_of_dma(recording: Recording, cores: list[int]) -> float:
    """Return the share of the cores' lost arbitrations that the DMA won."""
    lost = recording.matrix[cores]
    of_dma = [i for i, name in enumerate(recording.trace.initiators) if name.startswith("dma")]
    return float(lost[:, of_dma].sum() / max(1, lost.sum()))


def _spread(evidence: Evidence, banks: np.ndarray) -> Words:
    """Conflicts at all banks: as many as random addresses have, or accesses in step."""
    accesses, lost = banks.sum(axis=0).tolist()
    busy = [evidence.figures.harts[core] for core in evidence.busy]
    asleep = sum(hart.stalls.get(c, 0) for hart in busy for c in ("event", "wfi", "off"))
    awake = (sum(hart.cycles for hart in busy) - asleep) / len(busy)
    asked, actual = (accesses + lost) / awake, lost / awake
    random = asked - len(banks) * (1 - (1 - 1 / len(banks)) ** asked)
    where = (
        f"All banks have their share; {asked:.1f} accesses are asked for in a cycle of work and "
        f"{actual:.2f} of them lose, where random addresses would lose {random:.2f}."
    )
    if actual > IN_STEP * random:
        return where, (
            "The cores walk through the same banks in step: let each begin at another place of "
            "its row, or pad rows by one word."
        )
    return where, (
        "No pattern to break: keep more operands in registers (a larger block), "
        "or take a chip with more banks (--set l1.banks=...)."
    )
