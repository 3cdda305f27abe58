"""Which instructions stand around one, where they may be of two bytes or of four."""

from collections import deque
from collections.abc import Callable


def addresses_around(pc: int, start: int, size_of: Callable[[int], int], lines: int) -> list[int]:
    """The addresses of so many instructions with pc's in the middle.

    start      an instruction before it, from which they are counted out
    size_of    bytes of the instruction at an address
    """
    before: deque[int] = deque(maxlen=lines // 2)
    address = start
    while address < pc:
        before.append(address)
        address += size_of(address)
    found, address = list(before), pc
    while len(found) < lines:
        found.append(address)
        address += size_of(address)
    return found
