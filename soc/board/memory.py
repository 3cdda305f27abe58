"""The bytes of a memory on the board, and the files that they come from and go to."""

from pathlib import Path

from soc.config.toml import ConfigError

PAGE = 4096
EMPTY = b"\xff" * PAGE


class BoardMemory:
    """Bytes from 0 on; past the end, reads find 0xFF and writes are lost.

    content    bytes at reset, the rest is 0xFF: an erased flash, and GVSoC's HyperRAM at reset
    """

    def __init__(self, size: int, content: bytes = b""):
        self.size = size
        self.pages: dict[int, bytes] = {}
        for start in range(0, min(size, len(content)), PAGE):
            self.pages[start // PAGE] = content[start : start + PAGE].ljust(PAGE, b"\xff")

    def read(self, address: int, size: int) -> bytes:
        """Bytes from an address on."""
        data = b""
        while len(data) < size:
            page, place = divmod(address + len(data), PAGE)
            data += self.pages.get(page, EMPTY)[place : place + size - len(data)]
        return data

    def write(self, address: int, data: bytes) -> None:
        """Write bytes from an address on."""
        data = data[: max(0, self.size - address)]
        while data:
            page, place = divmod(address, PAGE)
            part = data[: PAGE - place]
            old = self.pages.get(page, EMPTY)
            self.pages[page] = old[:place] + part + old[place + len(part) :]
            address, data = address + len(part), data[len(part) :]

    def content(self) -> bytes:
        """All bytes."""
        return b"".join(self.pages.get(page, EMPTY) for page in range(self.size // PAGE))


def memory_of(size: int, load: str, field: str) -> BoardMemory:
    """A memory with its content at reset, from a file if there is one.

    field     of the chip, to tell where the name of the file stands
    raises    ConfigError if the file cannot be read
    """
    if not load:
        return BoardMemory(size)
    try:
        with Path(load).open("rb") as stream:
            content = stream.read(size + 1)
    except OSError as error:
        raise ConfigError([f"{field} {load!r}: {error.strerror}"]) from None
    if len(content) > size:
        raise ConfigError([f"{field} {load!r}: more than {size} bytes"])
    return BoardMemory(size, content)


def save_memory(memory: BoardMemory, file: str, field: str) -> None:
    """Write a memory's content to a file. Raises ConfigError if that cannot be."""
    try:
        Path(file).write_bytes(memory.content())
    except OSError as error:
        raise ConfigError([f"{field} {file!r}: {error.strerror}"]) from None
