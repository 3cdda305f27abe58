"""Words of the DMA's beats: how they lie across one another, and how they are stored."""

from soc.prelude.step import inlined_step

WORD = 0xFFFFFFFF

ALL_BYTES = 15
"""Enables of a word."""

BEAT_BYTES = 0xFF
"""Enables of a beat."""


@inlined_step
def joined(word, following, shift):
    """The word that begins so many bits, 0 to 24, after the first of two."""
    return ((word >> shift) | (following << (32 - shift))) & WORD


@inlined_step
def store(words, index, value, enables):
    """Write the enabled bytes of a word."""
    if enables != ALL_BYTES:
        keep = 0
        for byte in range(4):
            if not enables >> byte & 1:
                keep |= 0xFF << (8 * byte)
        value = (int(words[index]) & keep) | (value & ~keep)
    words[index] = ((value & WORD) ^ 0x80000000) - 0x80000000
