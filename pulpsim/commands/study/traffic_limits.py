"""Bounds by probability for cores that access banks, one access at a time each.

A core that is free begins an access with probability `rate` in each cycle; until it is granted the
core waits, and offers nothing else. So latencies stay finite: at most one request of each core.

The formulas are derived where they stand. Models of this kind, of synchronous processors whose
request rates lie between 0 and 1, are compared with simulation in D. W. L. Yen, J. H. Patel,
E. S. Davidson, Memory Interference in Synchronous Multiprocessor Systems, IEEE Transactions on
Computers 31 (11), November 1982, pages 1116-1121.
"""

from dataclasses import dataclass

HALVINGS = 60  # of the interval in which the solution lies: a double's precision


@dataclass(frozen=True)
class Load:
    """The accesses of each core.

    throughput    accesses of a core in a cycle
    latency       cycles of an access, from the first request to the grant; 1 without a conflict
    """

    throughput: float
    latency: float


def busy_banks(cores: int, banks: int, requesting: float) -> float:
    """Mean number of banks that are asked if each core asks a random one with this probability.

    A core asks a given bank with requesting / banks; no core asks it with the rest, to the power of
    the cores.
    """
    return banks * (1 - (1 - requesting / banks) ** cores)


def uniform_load(cores: int, banks: int, rate: float) -> Load:
    """Uniform random accesses, with the rate adjusted; rate is above 0.

    With x the throughput and a the probability that a core requests in a cycle, each access takes
    (1 - rate) / rate cycles until it begins and a / x cycles of requests:
    x (1 - rate) / rate + a = 1. That those who wait ask for the same bank again is neglected.
    """
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        requesting = (low + high) / 2
        throughput = busy_banks(cores, banks, requesting) / cores
        if throughput * (1 - rate) / rate + requesting < 1:
            low = requesting
        else:
            high = requesting
    return Load(throughput, high / throughput)
