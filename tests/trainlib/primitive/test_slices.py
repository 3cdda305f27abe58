"""Windows and their spreads, against a loop over all taps."""

from itertools import product

import pytest

from trainlib.primitive.slices import Spread, Window

LOOKS = [
    {"kernel": kernel, "stride": stride, "dilation": dilation, "before": before}
    for kernel, stride, dilation, before in product((1, 2, 3), (1, 2, 3), (1, 2), (0, 1, 2))
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: "-".join(map(str, look.values())))
def test_a_window_and_its_spread_are_what_a_loop_over_all_taps_finds(look):
    def at(output, tap):
        return output * look["stride"] - look["before"] + tap * look["dilation"]

    taps, outputs = range(look["kernel"]), range(-20, 20)
    for start, stop in ((0, 1), (2, 3), (1, 5), (3, 9)):
        there = range(start, stop)
        seen = [at(output, tap) for output in there for tap in taps]
        assert Window("y", **look).of(there) == range(min(seen), max(seen) + 1)
        spread = Spread("y", **look).of(there)
        looking = [o for o in outputs for tap in taps if at(o, tap) in there]
        assert all(output in spread for output in looking)
        wide = range(start - (look["kernel"] - 1) * look["dilation"], stop)
        assert spread == range(
            min(o for o in outputs if o * look["stride"] - look["before"] >= wide.start),
            max(o for o in outputs if o * look["stride"] - look["before"] < stop) + 1,
        )
        phase = Spread("y", **look).phase(there)
        assert start + look["before"] == spread.start * look["stride"] + phase
