"""Names of the regions that a program measures: the section `.pulpsim.regions` of its ELF file.

Strings, each ended by a zero byte: a region's number, a space, its name. A C program writes them
with `region_name` of firmware/c/pulp.h.
"""

from collections.abc import Mapping

SECTION = ".pulpsim.regions"
MOST_REGIONS = 1024
"""Numbers that a marking instruction can hold: `slti x0, x0, 2 * number`, and + 1 for the end."""

LONGEST_NAME = 256  # bytes


def read_region_names(data: bytes) -> dict[int, str]:
    """Names by number, of the section's contents; of two names of a number, the first.

    raises    ValueError if an entry is no number and name
    """
    names: dict[int, str] = {}
    for entry in filter(None, data.split(b"\0")):
        number, _, name = entry.partition(b" ")
        if not (number.isdigit() and len(number) <= 4 and int(number) < MOST_REGIONS and name):
            raise ValueError(f"{entry[:40]!r} is no number below {MOST_REGIONS} and a name")
        text = name[:LONGEST_NAME].decode("utf-8", "replace")
        if not text.isprintable():
            text = text.encode("unicode_escape").decode("ascii")
        names.setdefault(int(number), text)
    return names


def write_region_names(names: Mapping[int, str]) -> bytes:
    """The section's contents."""
    return b"".join(f"{number} {name}\0".encode() for number, name in sorted(names.items()))
