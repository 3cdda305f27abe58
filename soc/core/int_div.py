"""Integer divisions: how long they take.

Source: the timing measured on RTL.
"""

from isa.words import clz32
from soc.prelude.decoded import DIVIDE
from soc.prelude.step import step


@step
def division_cycles(divisor, signed):
    """Cycles of div, rem and their unsigned forms: by the divisor alone, 3..35."""
    if signed and divisor < 0:
        return 2 + clz32(~divisor)
    return 3 + clz32(divisor)


@step
def division_cycles_of(hart, row):
    """Cycles of a division with what the registers hold now."""
    return division_cycles(int(hart["regs"][row["rs2"]]), row["kind"] == DIVIDE)
