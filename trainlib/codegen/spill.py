"""Named values of an outer loop: in registers while there are some, else on the stack."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from firmware.builder import Kernel, Register
from firmware.registers import SP
from trainlib.codegen.saved_values import Kept, kept


class Values:
    """Addresses and counters by name.

    first, second    x registers to use while a value is moved or added to
    """

    def __init__(
        self, k: Kernel, homes: dict[str, Kept], first: Register, second: Register
    ) -> None:
        self.k, self.homes, self.first, self.second = k, homes, first, second

    def load(self, name: str, scratch: Register) -> Register:
        """The register that holds a value now: its own, or scratch."""
        return self.homes[name].load(scratch)

    def copy(self, name: str, source: str) -> None:
        """Set one to another."""
        self.set(name, self.load(source, self.first))

    def set(self, name: str, register: Register) -> None:
        """Set one to what a register holds."""
        home = self.homes[name].home
        if isinstance(home, Register):
            if home != register:
                self.k.mv(home, register)
        else:
            self.k.sw(register, home, SP)

    def add(self, name: str, constant: int) -> None:
        """Add a constant to one."""
        if constant:
            register = self.load(name, self.first)
            self.k.add_constant(register, register, constant, self.second)
            self.homes[name].store(register)

    @contextmanager
    def loop(self, name: str, count: int) -> Iterator[None]:
        """Repeat the body, counting here; once needs no place."""
        if count == 1:
            yield
            return
        with self.homes[name].loop(count, self.first):
            yield

    @contextmanager
    def loop_from(self, name: str, count: str) -> Iterator[None]:
        """Repeat the body as often as another value says, at least once, counting here."""
        self.copy(name, count)
        with self.homes[name].rounds(self.first):
            yield


@contextmanager
def values(
    k: Kernel,
    given: dict[str, Register],
    more: Sequence[str],
    inner: int,
    bases: Sequence[object],
) -> Iterator[dict[str, Kept]]:
    """Homes for values that registers hold, by name, and for more; see kept."""
    with kept(k, list(given.values()), len(more), inner, bases) as homes:
        yield dict(zip((*given, *more), homes, strict=True))
