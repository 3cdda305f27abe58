"""Weights of neighbouring rows in a word each, for correlations that compute two rows at once.

A row is what a kernel is for: an output channel, or an input channel for the gradient of the
input. A sum has two rows of one place, so a place of an image is multiplied with a word of weights,
and it is of no matter where in a word the place lies: nothing is loaded across two words, and what
one tap has loaded the next ones take. Rows of the result are apart, and stored one by one.

The order of each row's sums is that of single rows: taps along y, channels, taps along x.
"""

from dataclasses import replace

from firmware.builder import Kernel
from firmware.lanes import Lane, Lanes
from firmware.runtime import Team
from trainlib.codegen.loop_nest import Nest, Operand
from trainlib.conv.correlation import Correlation, Weights
from trainlib.primitive.element import BITS
from trainlib.primitive.tensor import WORD, Address

UNROLL = 4


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
