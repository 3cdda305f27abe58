"""The code of correlations of one channel each in halves, see trainlib.conv.paired_schedule."""

from collections.abc import Sequence
from itertools import groupby

from firmware.builder import Kernel, Register
from trainlib.codegen.spill import Values, values
from trainlib.conv.correlation import Correlation, reads_of
from trainlib.conv.paired_schedule import (
    AROUND,
    HALF,
    HIGH_HIGH,
    HIGH_LOW,
    Block,
    Product,
    Stretch,
    StridedRead,
    Touch,
    blocks_of,
    strided_registers,
    strided_words,
    taps_of,
)
from trainlib.conv.row_taps import each_row, runs_of_blocks
from trainlib.primitive.element import load, load_post, store, store_post
from trainlib.primitive.tensor import WORD


class PairedChannels:
    """The registers of a core's part, and the code that works on it.

    px, py       places of the first words of the next lines of the input and of the output
    weights      all taps'; sums: of lines of the output, by line modulo those of the kernel, from
                 `moved` lines on: as often have they been moved
    inputs       words of a line of the input; and a pair whose low half is outside
    """

    def __init__(self, k: Kernel, x: Correlation, cols: int) -> None:
        self.k, self.x, self.cols = k, x, cols
        self.blocks = blocks_of(x, cols)

    def part(self, given: dict[str, Register], size: int) -> None:
        """All of a core: its groups, or its rows of the only one; see Channels.part."""
        k, x = self.k, self.x
        rows, groups = (size, 1) if x.groups == 1 else (x.rows, size)
        count, pairs = max(block.inputs for block in self.blocks), self.cols // 2
        count = max(count, 3)
        inner = x.ys.taps * (x.xs.taps + pairs) + count + AROUND
        names = ["x_block", "y_block", "blocks", "panels", "groups"]
        bases = [x.x.address, x.w.address, x.y.address, x.bias]
        with values(k, given, names, inner, bases) as homes:
            self.take(count, pairs)
            self.scratch, self.moved = self.inputs[:3], 0
            self.v = Values(k, homes, *self.scratch[:2])
            k.li(self.select, HIGH_LOW)
            each_row(self.v, x, rows, groups, self._row)

    def take(self, count: int, pairs: int) -> None:
        """Take the registers: so many for inputs, and for sums of a line.

        Those come first that 16-bit loads and stores can name, which have no post-increment.
        """
        k, x = self.k, self.x
        self.px, self.py, *middle = k.short(2 + (count > 1))
        taps = x.ys.taps
        others = [k.short(taps) for _ in range(1, pairs)]
        self.sums = [list(sums) for sums in zip(k.short(taps), *others, strict=True)]
        self.inputs = [*k.short(1), *middle, *k.short(count - 1 - len(middle))]
        self.weights, self.select = k.x(x.ys.taps * x.xs.taps), k.x()
        self.start = k.x() if x.bias is not None else None

    def _row(self) -> None:
        x, v = self.x, self.v
        self.load_weights(v.load("w_panel", self.scratch[0]))
        if x.bias is not None:
            self.load_start(v.load("bias", self.scratch[0]))
        v.copy("x_block", "x_start")
        v.copy("y_block", "y_panel")
        for number, _ in enumerate(runs_of_blocks(v, x, self.cols)):
            self._block(self.blocks[number])

    def load_weights(self, place: Register, first: int = 0) -> None:
        """Load those of a row, so many bytes from a place on."""
        w, taps = self.x.w, self.x.xs.taps
        for number, weight in enumerate(self.weights):
            line, tap = divmod(number, taps)
            load(self.k, HALF, weight, first + line * w.line + tap * w.place, place)

    def load_start(self, place: Register) -> None:
        """Load what sums start with: a bias, twice."""
        assert self.start
        load(self.k, HALF, self.start, 0, place)
        self.k.p_insert(self.start, self.start, 15, 16)

    def begin_block(self, block: Block, px: Register, py: Register) -> None:
        """Let px and py be the places that lines expect, given those of the block."""
        self.k.add_constant(self.px, px, min(block.words) * HALF, self.scratch[1])
        if self.py != py:
            self.k.mv(self.py, py)

    def _block(self, block: Block) -> None:
        v, (t, _, other), self.moved = self.v, self.scratch, 0
        self.begin_block(block, v.load("x_block", t), v.load("y_block", other))
        for stretch in block.stretches:
            self._stretch(block, stretch)
            for output in stretch.ends:
                self.store(block, output)

    def _stretch(self, block: Block, stretch: Stretch) -> None:
        """Lines that are alike: a loop over as many as sums have registers for, entered after those
        that are too many.
        """
        k, taps, t = self.k, self.x.ys.taps, self.scratch[0]
        if block.has_moves and stretch.times > 1:
            k.li(t, stretch.times)
            with k.hwloop(t):
                self.line(block, stretch.first)
                self.move(block, stretch.first)
            self.moved += stretch.times
            return
        if stretch.times < 2 * taps:
            for line in range(stretch.first, stretch.first + stretch.times):
                self.line(block, line)
            return
        skipped, start = -stretch.times % taps, k.label()
        k.li(t, -(-stretch.times // taps))

        def enter() -> None:
            if skipped:
                k.j(start)

        with k.hwloop(t, enter):
            for at in range(taps):
                if at == skipped:
                    k.place(start)
                self.line(block, stretch.first + (at - skipped) % taps)

    def move(self, block: Block, line: int) -> None:
        """Let sums be where a line finds them whose first output is one later."""
        taps = self.x.ys.taps
        first = block.lines[line][0].output if block.lines[line] else 0
        for output in range(first, first + taps - 1):
            for p in range(block.pairs):
                self.k.mv(self.sums_of(output)[p], self.sums_of(output + 1)[p])

    def sums_of(self, output: int) -> list[Register]:
        """Of a line of the output."""
        return self.sums[(output - self.moved) % self.x.ys.taps]

    def line(self, block: Block, line: int) -> None:
        """Load a line of the input, and add it to what reads it; store what that ends."""
        k, x, touches = self.k, self.x, block.lines[line]
        if not touches:
            k.addi(self.px, self.px, x.x.line)
            return
        first, *others = block.words
        for place in others:
            register, at = self.inputs[block.words[place]], (place - first) * HALF
            load(k, block.bytes(place), register, at, self.px, is_unsigned=True)
        register, of = self.inputs[block.words[first]], block.bytes(first)
        load_post(k, of, register, x.x.line, self.px, is_unsigned=True)
        self.add(block, touches, set(block.words))
        for touch in touches:
            if touch.ends:
                self.store(block, touch.output)

    def add(self, block: Block, touches: Sequence[Touch], made: set[int]) -> None:
        """Add a line of the input to sums; made: places of the pairs that registers have."""
        begun = {(touch.output, p): False for touch in touches for p in range(block.pairs)}
        self._begin(block, touches, begun)
        for tap in taps_of(self.x.xs):
            products = [product for product in block.products if product.tap == tap]
            products.sort(key=lambda p: p.place == min(block.words))  # what is loaded last
            for product in products:
                if product.place not in made:
                    made.add(product.place)
                    self.make(block, product.place)
            for touch in touches:
                for product in products:
                    self._multiply(block, touch, product, begun)

    def _begin(
        self, block: Block, touches: Sequence[Touch], begun: dict[tuple[int, int], bool]
    ) -> None:
        """Let sums be what they start with, if that is no product."""
        k, x = self.k, self.x
        stored = min(touch.output for touch in touches)  # py is there: all before are stored
        for touch in touches:
            for p in range(block.pairs):
                acc = self.sums_of(touch.output)[p]
                if not touch.begins:
                    begun[touch.output, p] = True
                elif x.accumulates:
                    step = (touch.output - stored) * x.y.line + p * WORD
                    load(k, WORD, acc, step, self.py)
                    begun[touch.output, p] = True
                elif self.start:
                    k.mv(acc, self.start)
                    begun[touch.output, p] = True

    def make(self, block: Block, place: int) -> None:
        """Make the pair that begins with the high half of a word."""
        k, low, high = self.k, block.words.get(place - 1), block.words.get(place + 1)
        if low is None:
            assert high is not None
            k.slli(self.inputs[len(block.words)], self.inputs[high], 16)
        elif high is None:
            k.srli(self.inputs[low], self.inputs[low], 16)
        else:
            k.pv_shuffle2_h(self.inputs[low], self.inputs[high], self.select)

    def _multiply(
        self, block: Block, touch: Touch, product: Product, begun: dict[tuple[int, int], bool]
    ) -> None:
        k, x = self.k, self.x
        acc = self.sums_of(touch.output)[product.pair]
        weight = self.weights[touch.tap * x.xs.taps + product.tap]
        operation = "vfmac_r" if begun[touch.output, product.pair] else "vfmul_r"
        x.element.pairs(k, operation)(acc, self.value(block, product.place), weight)
        begun[touch.output, product.pair] = True

    def value(self, block: Block, place: int) -> Register:
        """The register of the pair that begins at a place."""
        return self.inputs[block.words.get(place - place % 2, len(block.words))]

    def store(self, block: Block, output: int) -> None:
        k, x, sums = self.k, self.x, self.sums_of(output)
        ends = block.run.first.start + block.run.first.width == x.xs.outputs
        sizes = [WORD] * block.pairs
        if ends and x.y.line % WORD and block.starts[-1] % 2 == 0:
            sizes[-1] = HALF
        others = range(1, block.pairs)
        for p in reversed(others) if block.overlaps else others:  # what counts is stored later
            store(k, sizes[p], sums[p], block.starts[p] * HALF, self.py)
        store_post(k, sizes[0], sums[0], x.y.line, self.py)


class StridedPairs:
    """The code of channels of which outputs along x read every second place.

    A register has two neighbouring outputs. What they read through a tap are halves of two words
    alike, the low ones or the high ones: pv.pack.h, or pv.shuffle2.h in place of the first word.
    See trainlib.conv.paired_schedule.StridedRead.

    px, py     places of the input, in the line that the first tap reads, and of the output
    words      two sets, of one line and of the next one; pair: what is not made in place
    """

    def __init__(self, k: Kernel, x: Correlation) -> None:
        self.k, self.x = k, x
        reads = reads_of(x.xs.block(0, x.xs.outputs), x.element, 2)
        self.pairs = [
            tuple(StridedRead.of(read) for read in reads if read.sum == pair)
            for pair in range(-(-x.xs.outputs // 2))
        ]

    def part(self, given: dict[str, Register], size: int) -> None:
        """All of a core: its groups, or its rows of the only one; see Channels.part."""
        k, x = self.k, self.x
        rows, groups = (size, 1) if x.groups == 1 else (x.rows, size)
        taps, count = x.ys.taps * x.xs.taps, strided_words(x.xs)
        bases = [x.x.address, x.w.address, x.y.address, x.bias]
        inner = strided_registers(x.ys, x.xs) + (x.bias is not None)
        with values(k, given, ["panels", "groups"], inner, bases) as homes:
            self.px, self.py, self.select, self.sum, self.pair = k.x(5)
            self.weights, self.words = k.x(taps), [k.x(count), k.x(count)]
            self.start = k.x() if x.bias is not None else None
            self.v = Values(k, homes, *self.words[0][:2])
            k.li(self.select, HIGH_HIGH)
            each_row(self.v, x, rows, groups, self._row)

    def _row(self) -> None:
        k, x, v, t = self.k, self.x, self.v, self.words[0][0]
        place = v.load("w_panel", t)
        for number, weight in enumerate(self.weights):
            line, tap = divmod(number, x.xs.taps)
            load(k, HALF, weight, line * x.w.line + tap * x.w.place, place)
        if self.start:
            load(k, HALF, self.start, 0, v.load("bias", t))
            k.p_insert(self.start, self.start, 15, 16)
        k.add_constant(self.px, v.load("x_start", t), -x.ys.pad * x.x.line, self.pair)
        k.mv(self.py, v.load("y_panel", t))
        for taps, lines in groupby(range(x.ys.outputs), self._taps_of):
            count = len(list(lines))
            if count == 1:
                self._line(taps)
                continue
            k.li(self.pair, count)
            with k.hwloop(self.pair):
                self._line(taps)

    def _taps_of(self, line: int) -> tuple[int, ...]:
        """The taps along y through which a line of the output reads."""
        ys = self.x.ys
        return tuple(tap for tap in range(ys.taps) if ys.source(line, tap) is not None)

    def _line(self, taps: tuple[int, ...]) -> None:
        k, x, count = self.k, self.x, len(self.pairs)
        for _, numbers in groupby(range(count), self._shape):
            first, *others = numbers
            if not others:
                self._pair(first, taps)
                continue
            k.li(self.pair, 1 + len(others))
            with k.hwloop(self.pair):
                self._pair(first, taps)
        if step := x.ys.stride * x.x.line - count * 2 * WORD:
            k.add_constant(self.px, self.px, step, self.pair)
        else:
            k.nop()  # loops do not end together
        k.add_constant(self.py, self.py, x.y.line - count * WORD, self.pair)

    def _shape(self, number: int) -> tuple[tuple[StridedRead, int], ...]:
        """Pairs of one shape have the same code: reads from their own place on, bytes of words."""
        return tuple(
            (read._replace(word=read.word - 2 * number), self._bytes(word))
            for read in self.pairs[number]
            for word in read.words
        )

    def _bytes(self, word: int) -> int:
        """What there is of a word of a line."""
        return WORD if 2 * word + 1 < self.x.xs.inputs else HALF

    def _pair(self, number: int, taps: tuple[int, ...]) -> None:
        """Compute two outputs, the words of the next line of the input loaded ahead."""
        k, x = self.k, self.x
        is_begun = x.starts
        held = [self._load(number, taps[0], 0)]
        if x.accumulates:
            k.lw(self.sum, 0, self.py)
        elif self.start:
            k.mv(self.sum, self.start)
        for at, tap in enumerate(taps):
            if at + 1 < len(taps):
                held.append(self._load(number, taps[at + 1], (at + 1) % 2))
            for place, read in enumerate(self.pairs[number]):
                later = {word for other in self.pairs[number][place + 1 :] for word in other.words}
                value = self._value(read, held[at], later)
                weight = self.weights[tap * x.xs.taps + read.tap]
                x.element.pairs(k, "vfmac_r" if is_begun else "vfmul_r")(self.sum, value, weight)
                is_begun = True
        k.addi(self.px, self.px, 2 * WORD)
        k.store_post(self.sum, WORD, self.py)

    def _load(self, number: int, tap: int, which: int) -> dict[int, Register]:
        """Load the words that a pair reads through a tap along y; their registers."""
        x, found = self.x, dict[int, Register]()
        words = sorted({word for read in self.pairs[number] for word in read.words})
        for word, register in zip(words, self.words[which], strict=False):
            at = tap * x.ys.dilation * x.x.line + (word - 2 * number) * WORD
            load(self.k, self._bytes(word), register, at, self.px, is_unsigned=True)
            found[word] = register
        return found

    def _value(self, read: StridedRead, held: dict[int, Register], later: set[int]) -> Register:
        """Make what a pair of outputs reads through a tap."""
        k, pair = self.k, self.pair
        if read.kind == "low":
            first = held[read.word]
            if read.is_high:
                k.srli(pair, first, 16)
            else:
                k.by_field(("p_exthz",), rd=pair, rs1=first)
            return pair
        second = held[read.word + 1]
        if read.kind == "high":
            if read.is_high:
                k.srli(pair, second, 16)
            k.slli(pair, pair if read.is_high else second, 16)
            return pair
        first = held[read.word]
        if not read.is_high:
            k.pv_pack_h(pair, second, first)
        elif read.word in later:
            k.mv(pair, first)
            k.pv_shuffle2_h(pair, second, self.select)
        else:
            k.pv_shuffle2_h(first, second, self.select)
            return first
        return pair
