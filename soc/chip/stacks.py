"""Stacks: where a program says that they are, and what is told of an sp that leaves them.

A program says so by four symbols, which firmware/ emits and firmware/c/link.ld defines. Core h of
the cluster has the bytes before CLUSTER_STACKS - h * CORE_STACK_SIZE, the fabric controller those
before CONTROLLER_STACK. Without all four nothing is known, and nothing is checked.
"""

from isa.program import Program
from soc.chip.state import Chip

CLUSTER_STACKS = "__cluster_stacks"
CORE_STACK_SIZE = "__core_stack_size"
CONTROLLER_STACK = "__controller_stack"
CONTROLLER_STACK_SIZE = "__controller_stack_size"

LARGEST_OF_KERNEL = 2048
"""Bytes of a core's stack in programs that firmware/ emits."""


def stack_bounds(program: Program, cores: int) -> list[tuple[int, int]]:
    """Lowest address and end of each hart's stack, the fabric controller's last; [] if unknown."""
    try:
        end, size, controller_end, controller_size = (
            program.symbol(name).address
            for name in (CLUSTER_STACKS, CORE_STACK_SIZE, CONTROLLER_STACK, CONTROLLER_STACK_SIZE)
        )
    except KeyError:
        return []
    ends = [end - core * size for core in range(cores)]
    controller = controller_end - controller_size, controller_end
    return [*((each - size, each) for each in ends), controller]


def know_stacks(chip: Chip, program: Program) -> None:
    """Let sp of each hart be checked against the bounds that the program says."""
    bounds = stack_bounds(program, int(chip.config[0]["cores"]))
    for hart, (start, end) in zip(chip.harts, bounds, strict=False):
        hart["stack_start"], hart["stack_end"] = start, end


def stack_message(chip: Chip, program: Program, h: int, sp: int) -> str:
    """What is told of an sp that has left the stack of a hart."""
    hart = chip.harts[h]
    start, end = int(hart["stack_start"]), int(hart["stack_end"])
    stack = f"its stack {start:#010x}..{end:#010x}, {end - start} bytes"
    if sp > end:
        return f"stack underflow: sp {sp:#010x} is above {stack}"
    return f"stack overflow: sp {sp:#010x} is below {stack}; {_way_out(chip, program, h)}"


def _way_out(chip: Chip, program: Program, h: int) -> str:
    """How the stack would be larger: it is as the program's symbols say, or as its CSRs do."""
    hart = chip.harts[h]
    start, end = int(hart["stack_start"]), int(hart["stack_end"])
    known = stack_bounds(program, int(chip.config[0]["cores"]))
    if not known or known[h] != (start, end):
        return "stack_start and stack_end (CSRs 0x7d1 and 0x7d2) say where it is"
    larger = 2 * (end - start)
    if hart["external"]:
        return f"to double it: -Wl,--defsym={CONTROLLER_STACK_SIZE}={larger:#x} in C"
    of_kernel = f", new_kernel(chip, stack={larger}) in Python" * (larger <= LARGEST_OF_KERNEL)
    return f"to double it: -Wl,--defsym={CORE_STACK_SIZE}={larger} in C{of_kernel}"
