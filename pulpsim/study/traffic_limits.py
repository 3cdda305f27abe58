"""What queueing theory knows of cores that access banks, one access at a time each.

A core that is free begins an access with probability `rate` in each cycle; until it is granted the
core waits, and offers nothing else. So latencies stay finite: at most one request of each core.

Sources: W. D. Strecker, Analysis of the instruction execution rate in certain computer structures
(Carnegie Mellon University, 1970), for requests that are drawn anew in each cycle; D. W. L. Yen,
J. H. Patel, E. S. Davidson, Memory interference in synchronous multiprocessor systems (IEEE
Transactions on Computers C-31, 1982), for the adjustment of the rate by those that wait.
"""

from dataclasses import dataclass

HALVINGS = 60  # of the interval in which the solution lies: a double's precision


@dataclass(frozen=True)
class Load:
    """What each core does.

    throughput    accesses of a core in a cycle
    latency       cycles of an access, from the first request to the grant; 1 without a conflict
    """

    throughput: float
    latency: float


def busy_banks(cores: int, banks: int, requesting: float) -> float:
    """Mean number of banks that are asked if each core asks a random one with this probability."""
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
