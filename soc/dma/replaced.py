"""Beats of L2 that writes replaced, for the reads of the other channel that come before them.

A write beat is on the bus one cycle after the stage that sends it, and a read beat has the bytes of
writes that were there in earlier cycles: it sees L2 without what was stored in its own cycle and in
the one before. Source: the content of L1 after four measured tests whose channels meet in L2.
"""

from soc.dma.words import WORD
from soc.prelude.step import inlined_step


@inlined_step
def note_replaced(dma, l2, offset, now):
    """Note a beat before it is written."""
    place = dma["replaced"][now & 1]
    place["offset"] = offset
    place["when"] = now
    place["low"] = int(l2[offset >> 2]) & WORD
    place["high"] = int(l2[(offset >> 2) + 1]) & WORD


@inlined_step
def words_read(dma, l2, offset, now):
    """The words of a beat as a read sees them."""
    for cycle in (now - 1, now):
        place = dma["replaced"][cycle & 1]
        if place["offset"] == offset and place["when"] == cycle:
            return place["low"], place["high"]
    return int(l2[offset >> 2]) & WORD, int(l2[(offset >> 2) + 1]) & WORD
