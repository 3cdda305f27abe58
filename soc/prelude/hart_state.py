"""What a hart does or waits for, why it stops, and where its cycles go."""

from soc.prelude.step import inlined_step, step
from soc.prelude.trace_points import note_stall

# What a hart does, or waits for.
RUN = 0  # goes on at `when`
L1_REQUEST = 1  # asks the L1 arbiter in cycle `when`
REQUEST = 2  # asks something else in cycle `when`
ACCESS = 3  # its L2 access takes place at `when`
SLEEP = 4  # clock-gated by the event unit
WAIT = 5  # for an answer of the host's
WFI = 6
OFF = 7
STOPPED = 8  # the simulation has to stop: see `fault`
NEEDS_DECODER = 9  # the row at pc is not decoded
FETCHING = 10  # for its next instruction, which the instruction cache has not got
LATER = 11  # goes on when it may: only inside `advance`
GO_ON = 12  # with the interpreter: only after a superblock
ENTERED = 13  # in the wheel: only after a superblock
SERVED = 14  # by L1: how `run_hart` begins, also after a superblock that has done nothing
RESUMED = 15  # the same, after a pause

# What a request to a peripheral asks for: hart["asks"].
ASKS_EXTERNAL, ASKS_STORE = 1, 2  # it is the fabric controller's, it is a store
ASKS_SIZE, ASKS_ADDRESS = 2, 5  # lowest bits of its size in bytes, and of its address

# Reasons to stop.
FAULT_ILLEGAL = 1
FAULT_FETCH = 2
FAULT_LOAD = 3
FAULT_STORE = 4
FAULT_BREAKPOINT = 5
FAULT_CSR = 6
FAULT_DMA = 7
FAULT_EVENT_UNIT = 8
FAULT_STACK = 9


@inlined_step
def add_stall(chip, hart, cause, cycles):
    """Count stall cycles."""
    hart["counts"][cause] += cycles
    hart["cause"] = cause
    note_stall(chip, hart, cause, cycles)


@step
def stop_at(hart, fault, value):
    """Stop the simulation at the instruction at pc."""
    hart["fault"] = fault
    hart["fault_value"] = value
    return STOPPED
