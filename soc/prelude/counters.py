"""Counters of a hart: what is counted, and the causes of stalls."""

from collections import namedtuple
from typing import Any

REGIONS = 1024
"""Regions that a hart can measure: ids 0..1023, the range of the marker's immediate."""

# Where the cycles of a hart go when it does not issue. The order is that of reports.
CAUSES = (
    "load_use",  # LD_STALL: operand of the load right before
    "jump_register",  # JMP_STALL: target register of jalr not ready
    "branch",  # bubbles after a taken branch
    "jump",  # bubbles after jal, jalr
    "fetch",  # IMISS: instruction cache
    "l1_contention",  # TCDM_CONT: lost arbitrations
    "misaligned",  # second transaction
    "multicycle",  # mulh, div
    "csr",  # pipeline flush by a CSR access
    "fence",
    "fpu_dependency",  # APU_DEP: operand still in the FPU
    "fpu_contention",  # APU_CONT: the FPU is busy
    "fpu_writeback",  # APU_WB: write port taken by a result of the FPU
    "load_external",  # LD_EXT_CYC: L2, peripherals
    "store_external",  # ST_EXT_CYC
    "event",  # ELW: asleep at the event unit
    "trap",  # entering and leaving handlers
    "wfi",
    "off",  # fetch not enabled, or halted
)


COUNTS = (
    "instructions",
    "loads",
    "stores",
    "jumps",
    "branches",
    "taken",
    "compressed",
    "l1_accesses",
    "external_loads",
    "external_stores",
    *CAUSES,
)
"""What is counted for a hart, and between the markers of a region. Causes are cycles."""


COUNT: Any = namedtuple("COUNT", COUNTS)(*range(len(COUNTS)))
"""Index of each in the array `counts`."""
