"""Word arithmetic: the vocabulary of the instructions' meanings.

The same text runs as plain Python and compiled, where integers have 64 bits: arguments are signed
32-bit values or fields, every intermediate result stays within 64 bits, and nothing raises.
"""

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable)

JITABLE: list[Callable] = []  # functions that meanings call: a compiler has to know them


def jitable(function: Function) -> Function:
    """Let meanings call this function; returns it unchanged."""
    JITABLE.append(function)
    return function


@jitable
def u32(value):
    """The word as an unsigned number, 0..2^32-1."""
    return value & 0xFFFFFFFF


@jitable
def i32(value):
    """The word as a signed number, -2^31..2^31-1."""
    return (value & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


@jitable
def zext(value, width):
    """The low bits as an unsigned number; 1 <= width <= 32."""
    return value & (1 << width) - 1


@jitable
def sext(value, width):
    """The low bits as a signed number; 1 <= width <= 32."""
    sign = 1 << width - 1
    return (value & (1 << width) - 1 ^ sign) - sign


@jitable
def bits(value, high, low):
    """value[high:low], unsigned; 31 >= high >= low >= 0."""
    return value >> low & (1 << high - low + 1) - 1


@jitable
def ones(high, low):
    """A word whose bits [high:low] are set; 31 >= high >= low >= 0."""
    return (2 << high) - (1 << low)


@jitable
def popcount(value):
    """Number of set bits of the word."""
    pairs = u32(value) - (value >> 1 & 0x55555555)
    nibbles = (pairs & 0x33333333) + (pairs >> 2 & 0x33333333)
    octets = nibbles + (nibbles >> 4) & 0x0F0F0F0F
    return octets * 0x01010101 >> 24 & 0xFF


@jitable
def clz32(value):
    """Zeros above the highest set bit of the word; 32 if there is none."""
    filled = u32(value)
    filled |= filled >> 1
    filled |= filled >> 2
    filled |= filled >> 4
    filled |= filled >> 8
    filled |= filled >> 16
    return 32 - popcount(filled)


@jitable
def ctz32(value):
    """Zeros below the lowest set bit of the word; 32 if there is none."""
    return popcount(~value & value - 1)


@jitable
def rotate_right(value, amount):
    """The word rotated right by amount modulo 32."""
    amount &= 31
    return u32(value) >> amount | u32(u32(value) << (32 - amount & 31))


@jitable
def lane(value, index, width):
    """Element of a packed vector, signed; element 0 is the lowest."""
    return sext(value >> index * width, width)


@jitable
def ulane(value, index, width):
    """Element of a packed vector, unsigned."""
    return zext(value >> index * width, width)


@jitable
def pack_h(high, low):
    """A vector of two 16-bit elements."""
    return (high & 0xFFFF) << 16 | low & 0xFFFF


@jitable
def pack_b(e3, e2, e1, e0):
    """A vector of four 8-bit elements."""
    return (e3 & 0xFF) << 24 | (e2 & 0xFF) << 16 | (e1 & 0xFF) << 8 | e0 & 0xFF
