"""A program that fits L2, with as few values computed again as that takes."""

from collections.abc import Callable, Collection
from contextlib import suppress

from trainlib.deploy.graph.values import TooLargeError
from trainlib.deploy.memory import lifetimes, plan
from trainlib.deploy.program import Built
from trainlib.deploy.recompute import candidates
from trainlib.deploy.schedule import Schedule

MORE = 4  # parts of all values, of which one more is computed again where a program is too large


def fitted(
    schedule_of: Callable[[Collection[str]], Schedule], build: Callable[..., Built]
) -> Built:
    """The program of a schedule; of one that computes values again if that one is too large; with
    values in the HyperRAM if that does not suffice.

    schedule_of    the schedule that computes these values again
    build          build(schedule, swaps=error) lets values lie in the HyperRAM

    raises         TooLargeError, which says what recomputation would need, and what `build` raises
    """
    plain = schedule_of(())
    try:
        return build(plain)
    except TooLargeError as error:
        first = least = error
    names = candidates(plain.reference)
    most = _bytes(plain) - first.lack
    if not names or _bytes(schedule_of(names)) > most:  # too much even so
        with suppress(TooLargeError):
            return build(plain, swaps=first)
    count = _enough(schedule_of, names, most)
    while names:
        try:
            return build(schedule_of(names[:count]))
        except TooLargeError as error:
            least = min(least, error, key=lambda each: each.needed)
        if count == len(names):
            with suppress(TooLargeError):
                return build(plain, swaps=first)
            break
        count = min(count + -(-len(names) // MORE), len(names))
    message = f"{first}; with recomputation it needs {least.needed}"
    raise TooLargeError(message, least.needed, least.lack, least.code)


def _enough(schedule_of: Callable[[Collection[str]], Schedule], names: list[str], most: int) -> int:
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
