"""Neighbouring rows of weights, or of gradients, in words, to compute two rows at once.

A row is what a kernel is for: an output channel, or an input channel for the gradient of the
input. A sum has two rows of one place, so a place of an image is multiplied with a word of weights,
and it is of no matter where in a word the place lies: nothing is loaded across two words, and what
one tap has loaded the next ones take. Rows of the result are apart, and stored one by one.

The order of each row's sums is that of single rows: taps along y, channels, taps along x.

A gradient of weights has words of dY, so that a sum has two rows of dW: a place of X is multiplied
with a word. The order of sums is images, lines, places.
"""

from dataclasses import replace

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Nest
from trainlib.codegen.nest_operands import Operand
from trainlib.conv.correlation import Correlation, Images, Weights
from trainlib.conv.weight_gradient_schedule import WeightGradient
from trainlib.primitive.element import BITS
from trainlib.primitive.tensor import WORD, Address

UNROLL = 4
HIGHS = 3 | 1 << 16  # of pv.shuffle2.h: low is the high half of rs1, high that of rd


def words_of(pairs: int, channels: int, taps: tuple[int, int], address: Address) -> Weights:
    """Where words of weights lie: [channel, line, place, pair]."""
    place = WORD * pairs
    line = place * taps[1]
    return Weights(address, 0, WORD, line * taps[0], line, place)


def pair_rows(k: Kernel, team: Team, x: Correlation, address: Address) -> None:
    """Make words of the weights of a correlation of one group with an even number of rows."""
    taps = x.ys.taps, x.xs.taps
    to = words_of(x.rows // 2, x.channels, taps, address)
    dims = x.rows // 2, x.channels, *taps
    steps = 2 * x.w.row, x.w.channel, x.w.line, x.w.place
    sources = [Operand(x.w.address, steps, shift=row * x.w.row, element=BITS) for row in range(2)]
    target = Operand(address, (to.row, to.channel, to.line, to.place))
    with k.scope():
        nest = Nest(k, team, dims, sources, [target], unroll=UNROLL)
        nest.split_work()
        nest.start()
        nest.run(_pack)


def _pack(v: Lanes, low: Lane, high: Lane) -> list[Lane]:
    v.p_insert(low, high, 15, 16)
    return [low]


def by_pairs(x: Correlation, address: Address) -> Correlation:
    """The same correlation with words of weights; its rows are pairs."""
    words = words_of(x.rows // 2, x.channels, (x.ys.taps, x.xs.taps), address)
    images = replace(x.y, channel=2 * x.y.channel)
    return replace(x, rows=x.rows // 2, w=words, y=images, has_row_pairs=True)


def pair_gradients(k: Kernel, team: Team, g: WeightGradient, address: Address) -> None:
    """Make words of dY of a gradient of weights of one group with an even number of rows.

    Two words of a row and two of the next one become four: one for each place.
    """
    lines, places = g.ys.outputs, -(-g.xs.outputs // 2)
    steps = 2 * g.dy.channel, g.dy.line, 2 * g.dy.place
    sources = [Operand(g.dy.address, steps, shift=row * g.dy.channel) for row in range(2)]
    to = _words_of_gradients(g, address)
    targets = [
        Operand(address, (to.channel, to.line, 2 * to.place), shift=place * to.place)
        for place in range(2)
    ]
    with k.scope():
        nest = Nest(k, team, (g.rows // 2, lines, places), sources, targets, unroll=UNROLL)
        nest.split_work()
        nest.start()
        select = k.x()
        k.li(select, HIGHS)

        def interleave(v: Lanes, first: Lane, second: Lane) -> list[Lane]:
            low = v.f()
            v.pv_pack_h(low, second, first)
            v.pv_shuffle2_h(second, first, select)
            return [low, second]

        nest.run(interleave)


def gradient_by_pairs(g: WeightGradient, address: Address) -> WeightGradient:
    """The same gradient with words of dY; its rows are pairs."""
    weights = replace(g.dw, row=2 * g.dw.row)
    images = _words_of_gradients(g, address)
    return replace(g, rows=g.rows // 2, dy=images, dw=weights, has_row_pairs=True)


def _words_of_gradients(g: WeightGradient, address: Address) -> Images:
    """Where words of dY lie: [pair, line, place]; an odd line has a word more."""
    line = WORD * (g.xs.outputs + g.xs.outputs % 2)
    return Images(address, 0, g.ys.outputs * line, line, WORD)
