"""Addresses as a person writes them."""

from collections.abc import Callable


def parse_place(place: str, address_of: Callable[[str], int]) -> int:
    """The address that a name, "name+0x1c" or a number stands for.

    address_of    of a name; raises KeyError for one that there is not
    raises        ValueError
    """
    name, _, distance = place.partition("+")
    try:
        address = int(name, 0) if name[:1].isdigit() else address_of(name)
        return address + int(distance or "0", 0)
    except (KeyError, ValueError):
        raise ValueError(
            f"{place!r} is no name in the program, nor an address as 0x1c008080"
        ) from None
