"""A program that fits L2, with as few values computed again as that takes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from trainlib.deploy.graph.values import TooLargeError
from trainlib.deploy.memory import lifetimes, plan
from trainlib.deploy.program import Built
from trainlib.deploy.recompute import candidates
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.swap import NoRoom

MORE = 4  # parts of all values, of which one more is computed again where a program is too large
HIDDEN = 1.03  # of the cycles that a step computes: what it may take with copies that are hidden

Scheduled = Callable[..., Schedule]
"""schedule_of(names, unrolled=False), see `fitted`."""
Estimate = Callable[[Schedule, int], tuple[int, int]]
"""estimate(schedule, room): cycles of what a step computes, and of a step with values in the
HyperRAM, in so many bytes of L2 for values. Raises NoRoom."""


def fitted(
    schedule_of: Scheduled,
    build: Callable[..., Built],
    estimate: Estimate,
) -> Built:
    """The program of a schedule; of one that computes values again if that one is too large; with
    values in the HyperRAM if that does not suffice, and then some computed again if that should
    take less time than copies.

    schedule_of    the schedule that computes these values again; with unrolled=True, one in which
                   values may lie in the HyperRAM, if there is one
    build          build(schedule, swaps=None); with an error as swaps, it lets values lie in the
                   HyperRAM

    raises         TooLargeError, which says what recomputation would need, and why the HyperRAM
                   does not help; and what `build` raises
    """
    plain = schedule_of(())
    try:
        return build(plain)
    except TooLargeError as error:
        first = least = error
    made = {name for node in plain.sections[0].nodes for name in node.outputs.values()}
    names = [name for name in candidates(plain.reference) if name in made]  # not of other batches
    most = _bytes(plain) - first.lack
    again = ((schedule, None) for schedule in _by_count(schedule_of, names, most))
    reasons = list[str]()
    timed = _by_time(schedule_of, names, estimate, most, reasons)
    swapped = ((schedule, first) for schedule in timed)
    suffices = names and _bytes(schedule_of(names)) <= most
    for schedule, swaps in chain(again, swapped) if suffices else chain(swapped, again):
        try:
            return build(schedule, swaps=swaps)
        except TooLargeError as error:
            if swaps is None:
                least = min(least, error, key=lambda each: each.needed)
            reasons += [error.swaps] if error.swaps else []
    less = least.needed < first.needed
    message = f"{first}; with recomputation it needs {least.needed:,}" if less else str(first)
    message += f"; the HyperRAM does not help: {reasons[-1]}" if reasons else ""
    raise TooLargeError(message, least.needed, least.lack, least.code)


def _by_count(schedule_of: Scheduled, names: Sequence[str], most: int) -> Iterator[Schedule]:
    """Schedules whose values should fit so many bytes, each computing more of them again."""
    if not names:
        return
    more = -(-len(names) // MORE)
    for count in range(_enough(schedule_of, names, most), len(names), more):
        yield schedule_of(names[:count])
    yield schedule_of(names)


def _by_time(
    schedule_of: Scheduled,
    names: Sequence[str],
    estimate: Estimate,
    most: int,
    reasons: list[str],
) -> Iterator[Schedule]:
    """Schedules whose values may lie in the HyperRAM, those first that should take fewest cycles:
    more and more is computed again, until copies are hidden or that gains nothing.

    reasons    gets why others do not fit
    """
    tried: list[tuple[int, Schedule]] = []
    for count in dict.fromkeys(-(-len(names) * part // MORE) for part in range(MORE + 1)):
        schedule = schedule_of(names[:count], unrolled=True)
        try:
            computed, cycles = estimate(schedule, most)
        except NoRoom as error:
            reasons.append(str(error))
            continue
        is_better = not tried or cycles < tried[-1][0]
        tried.append((cycles, schedule))
        if not is_better or cycles <= HIDDEN * computed:
            break
    yield from (schedule for _, schedule in sorted(tried, key=lambda each: each[0]))


def _enough(schedule_of: Scheduled, names: Sequence[str], most: int) -> int:
    """How many of these must be computed again, so that values take no more than so many bytes:
    all, if that does not suffice.
    """
    low, high = 1, len(names)
    while low < high:
        middle = (low + high) // 2
        if _bytes(schedule_of(names[:middle])) <= most:
            high = middle
        else:
            low = middle + 1
    return high


def _bytes(schedule: Schedule) -> int:
    """Of all values, without what kernels need while they run."""
    blocks = lifetimes(schedule.graph, schedule.nodes, schedule.kept, {})
    return plan(*blocks, 0).peak
