"""Arenas: memory that is allocated while a program is built, so that every address is a number."""

from firmware.registers import KernelError


class ArenaFull(KernelError):
    """A buffer does not fit an arena, which `arena` names."""

    def __init__(self, arena: str, message: str) -> None:
        super().__init__(message)
        self.arena = arena


class Arena:
    """Addresses base .. base + size - 1, allocated from the bottom.

    guard    bytes that stay free around every buffer
    """

    def __init__(self, name: str, base: int, size: int, guard: int = 0) -> None:
        self.name, self.base, self.size, self.guard = name, base, size, guard
        self.next = base + guard

    @property
    def left(self) -> int:
        """Bytes that are not allocated yet."""
        return max(self.base + self.size - self.guard - self.next, 0)

    def take(self, what: str, size: int, align: int = 16) -> int:
        """Return the address of a new buffer.

        what     its name, for messages
        size     bytes
        align    its address is a multiple of this

        raises    ArenaFull if it does not fit
        """
        address = -(-self.next // align) * align
        end = self.base + self.size - self.guard
        if address + size > end:
            raise ArenaFull(
                self.name,
                f"{self.name}: {what} of {size} bytes does not fit: {max(end - address, 0)} of "
                f"{self.size} bytes are left",
            )
        self.next = address + size + self.guard
        return address
