"""Words of two halves: what nests load and store at once, and how a ReLU's outputs mask them."""

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.registers import ZERO
from trainlib.primitive.element import BF16, Element
from trainlib.primitive.tensor import WORD

HALF = BF16.size


def mask(v: Lanes, dy: Lane, y: Lane) -> None:
    """dy = dy where y > 0, else 0; y, what clip has left, is lost."""
    keeps, words = v.words(y), v.words(dy)
    v.slt(keeps, ZERO, keeps)
    v.mul(words, words, keeps)
    v.floats(dy, words)


class Words:
    """Halves that lie together, in words: the first of two in the low half.

    parts    registers and the bytes that are loaded into each
    """

    def __init__(self, k: Kernel, element: Element, width: int) -> None:
        self.k, self.element, self.width = k, element, width
        registers = k.x(-(-width // 2))
        sizes = [min(WORD, HALF * (width - at)) for at in range(0, width, 2)]
        self.parts = list(zip(registers, sizes, strict=True))

    def mask(self, y: "Words") -> None:
        """Let halves be 0 where y, what a ReLU has given and is lost, is not above 0."""
        for (register, _), (keeps, _) in zip(self.parts, y.parts, strict=True):
            self.k.pv_cmpgt_h(keeps, keeps, ZERO)
            self.k.and_(register, register, keeps)
            self.k.free(keeps)

    def widened(self) -> Lane:
        """Single precision in a register each; bfloat16's are the upper halves of such numbers."""
        k, lanes = self.k, Lane()
        for register, size in self.parts:
            if size == HALF:
                self.element.widen(k, [register])
                lanes.append(register)
                continue
            high = k.x()
            if self.element == BF16:
                k.p_bclr(high, register, 15, 0)
                k.slli(register, register, 16)
            else:
                k.srli(high, register, 16)
                self.element.widen(k, [register, high])
            lanes += [register, high]
        return lanes
