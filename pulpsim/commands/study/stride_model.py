"""Conflicts of cores that stride through L1, worked out from the arbiter's rules, not simulated.

Core c reads the words offset*c, offset*c + stride, offset*c + 2 stride, ...; `reads` of them, one
in each cycle in which it is not refused; all begin in the same cycle. Of the requests to a bank one
is granted in a cycle, the others come again in the next (soc.interconnect.tcdm).

With g = gcd(stride, banks) a core visits a ring of P = banks/g banks, over and over. Cores whose
offsets differ by no multiple of g have no bank in common; the others form a class on the same ring.
Seen from a frame that moves on by one bank in each cycle, a core that is served stays where it is,
and one that is refused steps back to the place before. So:

    m <= P      Cores step back until each has a place of its own: hashing with linear probing. The
                sum of all steps does not depend on who wins, and is the number of conflicts. After
                it there are none.
    m > P       If all m begin in the same bank, that one is always busy, and round robin serves the
                cores in a fixed order: the j-th of them ends its first visit in cycle j, the next m
                cycles later, and so on; the other P - 1 banks follow without a conflict.
    otherwise   Once every bank of the ring is asked, P are served in each cycle and m - P refused.
                How it begins and who ends first matters, too: an estimate.
"""

from collections import Counter
from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True)
class Conflicts:
    """Lost arbitrations of all cores together.

    is_exact    or else an estimate: what is right if all cores end at the same time
    """

    count: int
    is_exact: bool


def conflicts(cores: int, banks: int, stride: int, offset: int, reads: int) -> Conflicts:
    """Conflicts of a sweep; stride and offset in words, both may be 0.

    Exact only if every core still reads when the cores have found their places: reads >= 2 cores.
    """
    step = gcd(stride, banks)
    period = banks // step
    classes: dict[int, list[int]] = {}
    for core in range(cores):
        bank = offset * core % banks
        classes.setdefault(bank % step, []).append(_place(bank, stride, banks))
    parts = [_class_conflicts(places, period, reads) for places in classes.values()]
    return Conflicts(sum(p.count for p in parts), all(p.is_exact for p in parts))


def _place(bank: int, stride: int, banks: int) -> int:
    """Return a bank's position on its ring: strides from the ring's lowest bank."""
    step = gcd(stride, banks)
    period = banks // step
    return (bank // step) * pow(stride // step, -1, period) % period if period > 1 else 0


def _class_conflicts(places: list[int], period: int, reads: int) -> Conflicts:
    cores = len(places)
    if cores <= period:
        return Conflicts(_steps_back(places, period), reads >= 2 * cores)
    if len(set(places)) == 1:
        rounds, rest = divmod(reads - 1, period)
        waits = cores * rounds + rest + 1 - reads  # of the first in the order; the j-th: j more
        return Conflicts(cores * waits + cores * (cores - 1) // 2, True)
    return Conflicts(reads * cores * (cores - period) // period, False)


def _steps_back(places: list[int], period: int) -> int:
    """Count the steps until no two are in the same place, by linear probing."""
    taken: set[int] = set()
    steps = 0
    for place, cores in Counter(places).items():
        for _ in range(cores):
            at = place
            while at in taken:
                at, steps = (at - 1) % period, steps + 1
            taken.add(at)
    return steps
