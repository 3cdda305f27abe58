"""State of the chip's clocked parts: plain records, one array for each kind of part.

Both engines drive the same step functions over this state. A checkpoint is a copy of the arrays.
"""

from collections import namedtuple
from typing import Any

import numpy as np

REGIONS = 1024
"""Regions that a hart can measure: ids 0..1023, the range of the marker's immediate."""

SLOTS = 64
"""Cycles that the timing wheel looks ahead."""

RING = 16
"""Cycles that a hart can be ahead with its request to L1, at most; a power of two."""

SEGMENTS = 2048
"""Rows of a program that can have machine code of their own."""

WRITES = 1024
"""Words of decoded instructions that are noted as they are written; of more, all are looked at."""
NULL_PLACES = 64
"""Instructions that are noted for an access through a null pointer, at most."""

NEVER = 1 << 62
"""A cycle that does not come."""

# Where the cycles of a hart go when it does not issue. The order is that of reports.
CAUSES = (
    "load_use",  # LD_STALL: operand of the load right before
    "jump_register",  # JMP_STALL: target register of jalr not ready
    "branch",  # bubbles behind a taken branch
    "jump",  # bubbles behind jal, jalr
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

ROW = np.dtype(
    [
        ("op", "u2"),  # number of the instruction; 0: not decoded yet
        ("kind", "u1"),  # what the pipeline does with it, see soc.decode
        ("size", "u1"),  # bytes
        ("rd", "u1"),  # entries of the register file
        ("rs1", "u1"),
        ("rs2", "u1"),
        ("rs3", "u1"),
        ("rp", "u1"),  # advanced pointer of a post-increment access
        ("access", "u1"),  # width and extension, see soc.decode
        ("cost", "u1"),  # cycles, where they are fixed
        ("flags", "u1"),
        ("rm", "u1"),
        ("loop", "u1"),
        ("wd", "u1"),  # what the interpreter writes; SINK where the hart does (loads, CSRs)
        ("checks", "u1"),  # see soc.float_state and MOVES_SP of soc.stack_check
        ("imm", "i4"),
        ("imm2", "i4"),
        ("imm3", "i4"),
        ("word", "u4"),
        ("uses_load", "u8"),  # registers for which it waits if a load right before delivers them
        ("uses_fpu", "u8"),  # the same for results of the FPU
        ("late_load", "u8"),  # registers that it delivers late, as a load
        ("late_fpu", "u8"),  # as an FPU operation
    ],
    align=True,
)
"""One decoded half-word of code memory."""

HART = np.dtype(
    [
        # What every access to L1 reads and writes: few cache lines of 64 bytes.
        ("pc", "i8"),
        ("handed", "i8"),  # it is in decode, or on the way; 2: and a jalr's target is asked for
        ("state", "i8"),
        ("row", "i8"),  # of the request
        ("address", "i8"),
        ("code", "u8"),  # machine code of what begins with the access, see soc.segments; or 0
        ("when", "i8"),  # cycle of the request, or of what the hart waits for
        ("ready", "i8"),  # first issue cycle that can use what the last instruction delivers late
        # One line.
        ("load_register", "i8"),  # destination of the last load and the cycle of its grant
        ("load_grant", "i8"),
        ("memory_grant", "i8"),  # of the last load or store
        ("l1_grant", "i8"),
        ("lp_start", "i8", (2,)),
        ("lp_last", "i8", (2,)),  # address of the last instruction of the body
        # One line.
        ("lp_count", "i8", (2,)),
        ("fflags", "i8"),
        ("fpu_return", "i8"),  # cycle in which the last FPU result returns
        ("fpu_register", "i8"),
        ("earlier_return", "i8"),  # the same of the result before
        ("earlier_register", "i8"),
        ("fpu_mask", "u8"),
        # One line.
        ("counts", "i8", (len(COUNTS),)),
        ("free", "i8"),  # first cycle in which the next instruction can issue
        ("seen", "i8"),  # first cycle in which it is in the decode stage
        ("late_load", "u8"),
        # Whole lines.
        ("regs", "i4", (72,)),
        ("late_fpu", "u8"),
        ("last", "i8"),  # row of the last instruction issued
        ("issued", "i8"),  # its issue cycle
        ("cause", "i8"),  # stall cause charged last, but for contention in L1
        # Whole lines, and the rest.
        ("second", "i8"),  # bytes of a split access in its first half, once the second is due
        ("test_and_set", "i8"),  # the load leaves -1 behind
        ("external", "i8"),  # no L1 of its own: the fabric controller
        ("exited", "i8"),
        ("mstatus", "i8"),
        ("mie", "i8"),
        ("pending", "i8"),  # an FPU result that competes for the ALU's write port is under way
        ("frm", "i8"),
        ("checks", "i8"),  # states in which it is that matter to some instructions
        ("ri5cy", "i8"),
        ("lp_end", "i8", (2,)),
        ("jump_ready", "i8"),  # first cycle in which the last jalr could use its register
        ("jump_waits", "i8"),  # it does so for the register alone
        ("partial", "i8"),  # what the first half of a split access read
        ("value", "i8"),  # data of a peripheral access
        ("boxed", "i8"),
        ("f_registers", "i8"),
        ("misa", "i8"),
        ("hart_id", "i8"),
        ("mtvec", "i8"),
        ("mepc", "i8"),
        ("mcause", "i8"),
        ("mscratch", "i8"),
        ("mip", "i8"),
        ("irq_cycle", "i8"),  # cycle in which the pending interrupt was seen
        ("handler", "i8"),  # the program has installed a trap handler
        ("fault", "i8"),
        ("fault_value", "i8"),
        ("exit_code", "i8"),
        ("exit_cycle", "i8"),
        ("first_issue", "i8"),
        ("mcountinhibit", "i8"),
        ("events", "i8"),  # PCER
        ("count_mode", "i8"),  # PCMR
        ("counter", "i8", (32,)),  # PCCR, mhpmcounter: value while stopped
        ("counter_base", "i8", (32,)),  # live count when it was started
        ("hpm_event", "i8", (32,)),
        ("csr", "i8", (16,)),  # plain storage: stack checker, fprec, ...
        ("number", "i8"),  # its index, for traces
        ("accounted", "i8"),  # cycle from which the next stall in a trace counts
        ("open", "i8"),  # the trace has a wait of this hart whose end it does not know
        ("stack_start", "i8"),  # between these two sp may be, see soc.stack_check
        ("stack_end", "i8"),
        ("pad", "i8", (40,)),  # 36 cache lines: harts lie in different sets
    ],
    align=True,
)

REGION = np.dtype(
    [
        ("count", "i8"),
        ("first_start", "i8"),
        ("open", "i8"),
        ("start", "i8"),
        ("cycles", "i8"),
        ("total", "i8", (len(COUNTS),)),
        ("at_start", "i8", (len(COUNTS),)),
    ],
    align=True,
)

BANK = np.dtype(
    [
        ("accesses", "i8"),
        ("conflicts", "i8"),
        ("asked", "i8"),  # last cycle with requests, whose are
        ("requests", "u4"),  # initiators
        ("winner", "i1"),
        ("key", "i1"),  # winner XOR rr
        ("rr", "i1"),
    ],
    align=True,
)

WHEEL = np.dtype(
    [
        ("slots", "u8", (SLOTS,)),  # harts due in cycle c: bits of slot c % SLOTS
        ("asking", "u2", (RING, 64)),  # cycle % RING, bank: harts with plain requests
        ("shared", "u8", (RING,)),  # cycle % RING: banks that several of these are for
        ("now", "i8"),
        ("due", "u8"),  # harts that are in some slot
        ("resume", "u8"),  # harts that go on in this cycle, once their code is decoded
        ("fence", "i8"),  # what a fence.i asks for, see soc.code_rows
        ("dma_busy", "i8"),
        ("host", "u8"),  # harts whose request waits for the host
        ("plain", "u8"),  # harts whose request, if it is due, is for an aligned word of L1
        ("running", "u8"),  # harts that are due just to run on
        ("turn", "i8"),  # hart with which segments have ended: see soc.hot_code.call_segment
        ("others", "u8"),  # harts that come behind it in this cycle
        ("at_event_unit", "u8"),  # harts whose load the event unit holds
        ("at_dma", "u8"),  # harts whose access a DMA port holds
        ("stop", "i8"),  # why the loop returned
        ("writes", "i8"),  # stores since the last fence.i to words whose instructions are decoded
        ("written", "i8", (WRITES,)),  # these words, from the start of L2
        ("nulls", "i8"),  # accesses through a null pointer that are noted: how many, and of each
        ("null_row", "i8", (NULL_PLACES,)),
        ("null_hart", "i8", (NULL_PLACES,)),
        ("null_address", "i8", (NULL_PLACES,)),
    ],
    align=True,
)

SEGMENT = np.dtype(
    [
        ("code", "u8", (2,)),  # address of its machine code; 0: there is none
        ("heat", "i8", (2,)),  # how often it was interpreted
        ("is_part", "i8"),  # the row is part of what has machine code
    ],
    align=True,
)
"""What begins with a row, see soc.segments: with its access (0), or its issue (1)."""

HOT_CODE = np.dtype(
    [
        ("warm", "i8"),  # how often a segment is interpreted before the first look at it
        ("changes", "i8"),  # of decoded rows
        ("translations", "i8"),  # rows that have machine code: how many, and which
        ("translated", "i8", (SEGMENTS,)),
    ],
    align=True,
)

CONFIG = np.dtype(
    [
        (name, "i8")
        for name in """
            harts cores inputs code_base rows l1_base l1_size banks l2_base l2_size
            cluster_base lookahead fpu_latency ri5cy f_registers thead wfi_sleeps trap_vectors
            control_page controller_to_l1 l1_to_controller ideal_l2 elw_resume
            steady_fetch private_sets
        """.split()
    ]
)
"""What the step functions need of the chip's Spec."""

CONTROL = np.dtype(
    [
        ("busy", "i8"),  # the generator has requests
        ("waiting", "u8"),  # harts at the magic barrier
        ("base", "i8"),
        ("ports", "i8"),
        ("write", "i8"),
        ("count", "i8"),
        ("done", "i8", (4,)),  # accesses made by each port
        ("next", "i8", (4,)),  # cycle of a port's next request
        ("irq_cycle", "i8"),
        ("text", "u1", (65536,)),
        ("length", "i8"),
    ],
    align=True,
)
