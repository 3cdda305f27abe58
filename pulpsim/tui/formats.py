"""The ways to show a word of a register or of memory."""

import numpy as np

FORMATS = ("auto", "hex", "decimal", "float", "half")
"""A guess; hexadecimal; signed; IEEE 754 binary32; two of binary16, the low half first."""

WIDTH = {"auto": 11, "hex": 8, "decimal": 11, "float": 13, "half": 19}
"""Characters of a word, at most."""


def shown(word: int, form: str) -> str:
    """A word of 32 bits in a format."""
    digits = 6
    if form == "auto":
        form, digits = _guess(word), 5
    if not form:
        return ""
    if form == "hex":
        return f"{word:08x}"
    if form == "decimal":
        return str(word - (word >> 31 << 32))
    data = np.array([word], np.uint32)
    if form == "float":
        return f"{float(data.view(np.float32)[0]):.{digits}g}"
    low, high = data.view(np.float16).tolist()
    return f"{low:.3g} {high:.3g}"


SMALL = 1 << 20
"""Integers up to here are more likely than floats of that pattern, which are denormal."""

MAPPED = range(0x10000000, 0x20000000)
"""Memories and devices."""


def _guess(word: int) -> str:
    """The format that a word is most likely meant in; "" for an address, which is read in hex."""
    if -SMALL <= word - (word >> 31 << 32) <= SMALL:
        return "decimal"
    if word in MAPPED:
        return ""
    return "float" if abs((word >> 23 & 0xFF) - 127) <= 24 else "decimal"


def next_format(form: str) -> str:
    """The one after this, and round again."""
    return FORMATS[(FORMATS.index(form) + 1) % len(FORMATS)]
