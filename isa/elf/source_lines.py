"""Source lines of a program's addresses."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property

from isa.elf import dwarf
from isa.elf.dwarf import LineRange
from isa.elf.reader import ElfError


class LineTable:
    """Which source line each address comes from; DWARF is decoded when first asked for."""

    def __init__(
        self, ranges: Iterable[LineRange] = (), sections: Mapping[str, bytes] | None = None
    ) -> None:
        self._given = tuple(ranges)
        self._sections = sections or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LineTable) and self.ranges == other.ranges

    def __hash__(self) -> int:
        return hash(self.ranges)

    def __repr__(self) -> str:
        return f"LineTable({list(self._given)!r}, {list(self._sections)!r})"

    @cached_property
    def ranges(self) -> tuple[LineRange, ...]:
        """All lines by address, neighbours from the same line joined.

        raises    ElfError if the table is malformed
        """
        joined: list[LineRange] = []
        for row in sorted([*self._given, *dwarf.decode(self._sections)]):
            last = joined[-1] if joined else None
            if last and last.end == row.start and last[2:] == row[2:]:
                joined[-1] = last._replace(end=row.end)
            else:
                joined.append(row)
        return tuple(joined)

    @cached_property
    def _starts(self) -> list[int]:
        return [row.start for row in self.ranges]

    def at(self, address: int) -> tuple[str, int] | None:
        """File and line of an address; None if it has none or the table is malformed."""
        try:
            index = bisect_right(self._starts, address) - 1
        except ElfError:
            return None
        if index < 0 or address >= self.ranges[index].end:
            return None
        return self.ranges[index].file, self.ranges[index].line

    def sections(self) -> dict[str, bytes]:
        """As DWARF sections; {} if there are no lines."""
        return dwarf.encode(self.ranges) if self.ranges else {}
