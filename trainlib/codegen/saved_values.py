"""Values that an inner loop does not need: in registers while there are some, else on the stack."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from firmware.builder import Kernel, Register
from firmware.registers import SP
from trainlib.primitive.tensor import WORD

Reload = Callable[[Register], Register]


class Kept:
    """A value between inner loops.

    home    its register, or its offset on the stack
    """

    def __init__(self, k: Kernel, home: Register | int) -> None:
        self.k, self.home = k, home

    @property
    def is_on_stack(self) -> bool:
        """Has it no register?"""
        return isinstance(self.home, int)

    def load(self, scratch: Register) -> Register:
        """The register that holds it now: its own, or scratch."""
        if isinstance(self.home, Register):
            return self.home
        self.k.lw(scratch, self.home, SP)
        return scratch

    def store(self, register: Register) -> None:
        """Keep what load's register holds by now."""
        if isinstance(self.home, int):
            self.k.sw(register, self.home, SP)

    @contextmanager
    def loop(self, count: int, scratch: Register, reload: Reload | None = None) -> Iterator[None]:
        """Repeat the body count times, counting here; scratch may be changed by the body.

        reload    what loads the counter into scratch at the end of a round; None: load
        """
        if count == 1:
            yield
            return
        register = scratch if isinstance(self.home, int) else self.home
        self.k.li(register, count)
        self.store(register)
        with self.rounds(scratch, reload):
            yield

    @contextmanager
    def rounds(self, scratch: Register, reload: Reload | None = None) -> Iterator[None]:
        """Repeat the body as often as this value says, at least once; reload: see loop."""
        k, counter = self.k, self.load(scratch)
        with k.loop(counter):
            self.store(counter)
            yield
            (reload or self.load)(scratch)


@contextmanager
def kept(
    k: Kernel, values: Sequence[Register], more: int, inner: int, bases: Sequence[object]
) -> Iterator[list[Kept]]:
    """Homes for values that are in registers, and for more that are not yet anywhere.

    inner    x registers that the inner loop needs; what does not fit beside them is on the stack
    bases    what else is live and not needed by the body: registers among them are saved, and
             restored at the end, where that makes room
    """
    left = len(k.registers.free("x")) - inner
    count = len(values) + more
    extra = min(more, max(left, 0))  # of those that are not yet anywhere, stay in registers
    left -= extra
    moved = values[len(values) - min(len(values), max(-left, 0)) :]
    left += len(moved)
    spilled = [b for b in dict.fromkeys(bases) if isinstance(b, Register)][: max(-left, 0)]
    words = len(spilled) + len(moved) + more - extra
    frame = -(-WORD * words // 16) * 16
    with k.scope():
        if frame:
            k.addi(SP, SP, -frame)
        for slot, register in enumerate([*spilled, *moved]):
            k.sw(register, WORD * slot, SP)
        k.free(*spilled, *moved)
        slots = range(WORD * len(spilled), WORD * words, WORD)
        homes = [*values[: len(values) - len(moved)], *slots[: len(moved)]]
        homes += [*(k.x() for _ in range(extra)), *slots[len(moved) :]]
        assert len(homes) == count
        yield [Kept(k, home) for home in homes]
        for slot, register in enumerate(spilled):
            k.lw(register, WORD * slot, SP)
        if frame:
            k.addi(SP, SP, frame)
