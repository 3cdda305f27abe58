"""The call of a superblock's machine code from step functions: see soc.jit.superblock_steps."""

from soc.chip.state import Chip

CONVENTION = "preserve_nonecc"
"""How superblocks are called: they save no registers, the loop around them does so for all."""


def call_superblock(code: int, chip: Chip, h: int, now: int, others: int) -> int:
    """Call the machine code of a superblock, and of those of other harts that L1 serves.

    Returns ENTERED if they have all entered their next requests; else the state of wheel.turn, and
    wheel.others are left to be served. Step functions in plain Python never get here: nothing is
    translated for them.
    """
    raise NotImplementedError
