"""Named values of an outer loop: in registers while there are some, else on the stack."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from firmware.builder import Kernel, Register
from firmware.registers import SP
from trainlib.codegen.saved_values import Kept, kept


class Values:
    """Addresses and counters by name.

    first, second    x registers to use while a value is moved or added to
    spare            more of them that are free between inner loops; the last one counts
    """

    def __init__(
        self,
        k: Kernel,
        homes: dict[str, Kept],
        first: Register,
        second: Register,
        *,
        spare: Sequence[Register] = (),
    ) -> None:
        self.k, self.homes, self.first, self.second, self.spare = k, homes, first, second, spare
        self.counter = spare[-1] if spare else first
        self._loaded: dict[str, Register] = {}

    def load(self, name: str, scratch: Register) -> Register:
        """The register that holds a value now: its own, or scratch; or where it is loaded ahead."""
        return self._loaded.get(name) or self.homes[name].load(scratch)

    def load_ahead(
        self, names: Sequence[str], counter: str | None = None, *, with_first: bool = False
    ) -> None:
        """Load those that are on the stack before they are needed, so that nothing waits for them:
        as many as there are spare registers. They stay there until `forget`, or the next call.

        counter       of the loop that ends next; before that, no other values are added to
        with_first    may the first of them have the first register, if there are enough for all?
        """
        on_stack = [name for name in names if self.homes[name].is_on_stack]
        free = self.spare[:-1]
        if with_first and self.spare and len(on_stack) <= len(free) + 1:
            free = [self.first, *free]
        self._loaded = dict(zip(on_stack, free, strict=False))
        if counter and self.homes[counter].is_on_stack and len(self._loaded) == len(on_stack):
            self._loaded[counter] = self.counter
        for name, register in self._loaded.items():
            self.homes[name].load(register)

    def forget(self) -> None:
        """Give back the registers of values that were loaded ahead."""
        self._loaded = {}

    def copy(self, name: str, source: str) -> None:
        """Set one to another."""
        self.set(name, self.load(source, self.first))

    def set(self, name: str, register: Register) -> None:
        """Set one to what a register holds."""
        home = self.homes[name].home
        self._loaded.pop(name, None)
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
        with self.homes[name].loop(count, self.counter, self._at_end(name)):
            yield

    @contextmanager
    def loop_from(self, name: str, count: str) -> Iterator[None]:
        """Repeat the body as often as another value says, at least once, counting here."""
        self.copy(name, count)
        with self.homes[name].rounds(self.counter, self._at_end(name)):
            yield

    def _at_end(self, name: str) -> Callable[[Register], Register]:
        """What loads a counter at the end of a round."""

        def load(scratch: Register) -> Register:
            register = self.load(name, scratch)
            self.forget()
            return register

        return load


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
