"""Vector clocks: what each thread knows of the others, and what it passes on.

Thread t happened before thread u up to the time that u's clock has for t. Each release lets the
clock of its thread go on, so a time names what lies between two releases.

Source: L. Lamport, "Time, clocks, and the ordering of events in a distributed system" (1978);
C. Flanagan and S. Freund, "FastTrack: efficient and precise dynamic race detection" (2009).
"""

from soc.chip.shadow import THREAD, TIME_SHIFT
from soc.prelude.step import inlined_step, step


@inlined_step
def time_of(check, thread):
    """The time of what a thread does now."""
    return check["clock"][thread][thread] << TIME_SHIFT | thread


@inlined_step
def is_before(check, time, thread):
    """Did what has this time happen before what a thread does now?"""
    return time >> TIME_SHIFT <= check["clock"][thread][time & THREAD]


@step
def join(check, target, source):
    """Let a clock know what another one knows, too."""
    for thread in range(check["threads"]):
        target[thread] = max(target[thread], source[thread])


@step
def assign(check, target, source):
    """Let a clock know what another one knows, and nothing else."""
    for thread in range(check["threads"]):
        target[thread] = source[thread]


@step
def forget(check, target):
    """Let a clock know nothing."""
    for thread in range(check["threads"]):
        target[thread] = 0


@step
def acquire(check, thread, source):
    """Order what a thread does from now on after what has released a clock."""
    join(check, check["clock"][thread], source)


@step
def release(check, thread, target):
    """Add what a thread has done so far to a clock."""
    join(check, target, check["clock"][thread])


@inlined_step
def go_on(check, thread):
    """After its releases: what a thread does from now on is not part of them."""
    check["clock"][thread][thread] += 1
