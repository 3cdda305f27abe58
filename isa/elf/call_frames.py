"""Call frames: where a function has kept the registers of its caller, from .debug_frame.

Source: DWARF 5 standard, section 6.4 "Call Frame Information"; read by pyelftools.
"""

from bisect import bisect_right
from functools import cached_property
from typing import NamedTuple

LARGEST_SECTION = 1 << 21  # bytes
OTHERS = LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError
"""What pyelftools also raises where a table is no table."""
RETURN_ADDRESS, STACK_POINTER = 1, 2


class Frame(NamedTuple):
    """A function's frame at an instruction.

    register, offset    the frame's address (CFA) is this register's value plus that
    saved               where registers of the caller lie, from there
    is_outermost        nothing has called the function
    """

    register: int
    offset: int
    saved: dict[int, int]
    is_outermost: bool = False


class CallFrames:
    """What .debug_frame says; decoded when first asked for. Malformed, it says nothing."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def at(self, address: int) -> Frame | None:
        """The frame before an instruction; None if nothing is known of it."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._entries[index][1]:
            return None
        return self._frame(index, address)

    def _frame(self, index: int, address: int) -> Frame | None:
        rows = [row for row in self._entries[index][2] if row["pc"] <= address]
        if not rows or rows[-1]["cfa"].reg is None:
            return None
        cfa, back = rows[-1]["cfa"], rows[-1].get(RETURN_ADDRESS)
        saved = {
            register: rule.arg
            for register, rule in rows[-1].items()
            if isinstance(register, int) and rule.type == "OFFSET"
        }
        return Frame(cfa.reg, cfa.offset, saved, back is not None and back.type == "UNDEFINED")

    @cached_property
    def _entries(self) -> list[tuple[int, int, list[dict]]]:
        """Address range and rows of each function, by address."""
        if not self.data or len(self.data) > LARGEST_SECTION:
            return []
        from io import BytesIO

        from elftools.common.exceptions import ELFError
        from elftools.construct import ConstructError
        from elftools.dwarf.callframe import FDE, CallFrameInfo
        from elftools.dwarf.structs import DWARFStructs

        structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=4)
        stream = BytesIO(self.data)
        table = CallFrameInfo(stream, len(self.data), 0, structs, for_eh_frame=False)
        found = []
        try:
            for entry in table.get_entries():
                if isinstance(entry, FDE):
                    first = int(entry.header["initial_location"])
                    end = first + int(entry.header["address_range"])
                    found.append((first, end, entry.get_decoded().table))
        except (ELFError, ConstructError, *OTHERS):
            return []
        return sorted(found, key=lambda entry: entry[:2])

    @cached_property
    def _starts(self) -> list[int]:
        return [entry[0] for entry in self._entries]
