"""State of the chip's clocked parts: plain records, one array for each kind of part.

Both engines drive the same step functions over this state. A checkpoint is a copy of the arrays.
"""

import numpy as np

from soc.prelude.counters import COUNTS

SUPERBLOCKS = 8192
"""Rows of a program that can have machine code of their own."""


ROW = np.dtype(
    [
        ("op", "u2"),  # number of the instruction; 0: not decoded yet
        ("kind", "u1"),  # what the pipeline does with it, see soc.prelude.decoded
        ("size", "u1"),  # bytes
        ("rd", "u1"),  # entries of the register file
        ("rs1", "u1"),
        ("rs2", "u1"),
        ("rs3", "u1"),
        ("rp", "u1"),  # advanced pointer of a post-increment access
        ("access", "u1"),  # width and extension, see soc.prelude.decoded
        ("cost", "u1"),  # cycles, where they are fixed
        ("flags", "u1"),
        ("rm", "u1"),
        ("loop", "u1"),
        ("wd", "u1"),  # what the interpreter writes; SINK where the hart does (loads, CSRs)
        ("checks", "u1"),  # see soc.core.float_state and MOVES_SP of soc.core.stack_check
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
        ("id_valid", "i8"),  # it is in ID, or on the way; 2: and a jalr's target is asked for
        ("state", "i8"),
        ("row", "i8"),  # of the request
        ("address", "i8"),
        ("code", "u8"),  # machine code of what begins with the access; or 0
        ("when", "i8"),  # cycle of the request, or of what the hart waits for
        (
            "forwarded",
            "i8",
        ),  # first issue cycle that can use what the last instruction delivers late
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
        ("ex_ready", "i8"),  # first cycle in which EX can take the next instruction
        ("in_id", "i8"),  # first cycle in which it is in ID
        ("late_load", "u8"),
        # Whole lines.
        ("regs", "i4", (72,)),
        ("late_fpu", "u8"),
        ("last", "i8"),  # row of the last instruction issued
        ("issued", "i8"),  # its issue cycle
        ("cause", "i8"),  # cause of the last stall added, but for contention in L1
        # Whole lines, and the rest.
        ("second", "i8"),  # bytes of a split access in its first half, once the second is due
        ("test_and_set", "i8"),  # the load leaves -1 behind
        ("external", "i8"),  # no L1 of its own: the fabric controller
        ("exited", "i8"),
        ("mstatus", "i8"),
        ("mie", "i8"),
        ("pending", "i8"),  # an FPU result that competes for the ALU's write port is under way
        ("frm", "i8"),  # the rounding mode that instructions round by,
        ("frm_written", "i8"),  # that of the CSR,
        ("frm_cycle", "i8"),  # and the issue cycle of its last write
        ("checks", "i8"),  # states in which it is that matter to some instructions
        ("ri5cy", "i8"),
        ("loop_end_offset", "i8"),  # from a loop's end to its last instruction, bytes
        ("lp_end", "i8", (2,)),
        ("jump_ready", "i8"),  # first cycle in which the last jalr could use its register
        ("jump_waits", "i8"),  # it does so for the register alone
        ("left_in_id", "i8"),  # cycles of a division left there after a taken branch (rule S)
        ("partial", "i8"),  # what the first half of a split access read
        ("asks", "i8"),  # what a request to a peripheral asks for: ASKS_... of hart_state
        ("value", "i8"),  # what a request to a peripheral stores, or has loaded
        ("boxed", "i8"),  # operands narrower than a register are checked
        ("rtl_defects", "i8"),
        ("ibex_csrs", "i8"),  # CSR 0x7D1 is mtvec
        ("f_registers", "i8"),
        ("misa", "i8"),
        ("hart_id", "i8"),
        ("mtvec", "i8"),
        ("mepc", "i8"),
        ("mcause", "i8"),
        ("mscratch", "i8"),
        ("mip", "i8"),
        ("irq_cycle", "i8"),  # cycle in which the pending interrupt was seen
        ("waited", "i8"),  # cycle in which the last event load was granted
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
        ("stack_start", "i8"),  # between these two sp may be, see soc.core.stack_check
        ("stack_end", "i8"),
        ("deepest", "i8"),  # the lowest sp so far that was inside the stack
        ("answer", "i8"),  # cycle in which the answer of the last access comes: EX waits for it
        ("far", "i8"),  # the last access went beyond L2: FAR_LOAD, FAR_STORE
        ("foreseen", "i8"),  # an undecoded pc that it goes to, +1 if that is split; see is_split
        ("pad", "i8", (33,)),  # 36.5 cache lines in all: harts lie in different sets
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
        ("requests", "u4"),  # of this cycle: initiators, until one of them is chosen
        ("winner", "i1"),  # of the last requests
        ("following", "i1"),  # next rr, once the winner is served
        ("rr", "i1"),  # state of the arbiter
    ],
    align=True,
)


SUPERBLOCK = np.dtype(
    [
        ("code", "u8", (2,)),  # address of its machine code; 0: there is none
        ("hotness", "i8", (2,)),  # how often it was interpreted
        ("is_part", "i8"),  # the row is part of what has machine code
    ],
    align=True,
)
"""What begins with a row, see soc.jit.superblock_steps: with its access (0), or its issue (1)."""

HOT_CODE = np.dtype(
    [
        ("poll_threshold", "i8"),  # interpretations before the translator is polled
        ("changes", "i8"),  # of decoded rows
        ("translations", "i8"),  # rows that have machine code: how many, and which
        ("translated", "i8", (SUPERBLOCKS,)),
    ],
    align=True,
)

CONFIG = np.dtype(
    [
        (name, "i8")
        for name in """
            harts cores inputs code_base code_alias rows l1_base l1_size banks l2_base l2_size
            cluster_base lookahead fpu_latency ri5cy f_registers thead wfi_sleeps trap_vectors
            control_page controller_to_l1 l1_to_controller ideal_l2 elw_resume
            steady_fetch private_sets controller_ports controller_register
            one_way
            controller_to_cluster
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
        ("port_base", "i8", (5,)),  # of the generators at L2's ports: their settings,
        ("port_stride", "i8", (5,)),
        ("port_mode", "i8", (5,)),
        ("port_count", "i8", (5,)),
        ("port_done", "i8", (5,)),  # accesses made, cycle of the next one
        ("port_next", "i8", (5,)),
        ("beats_left", "i8", (2,)),  # of the burst that reads, that writes: beats still to come,
        ("beat", "i8", (2,)),  # and the address of the next one
        ("waiting_words", "i8", (4,)),  # at a port of a half of the bus: how many, and which
        ("waiting_word", "i8", (4, 2)),
        ("coming", "i8", (4,)),  # granted in the cycle before
        ("answered", "i8", (4,)),  # whose answers wait for those of the other half
        ("begun", "i8", (2,)),  # bursts that have left the FIFO of addresses,
        ("leaving", "i8", (2,)),  # and is there one that leaves as its first beat is granted
        ("registers", "i4", (1024,)),  # that the test bench has in the place of peripherals
        ("text", "u1", (65536,)),
        ("length", "i8"),
        ("device_ports", "i8"),  # ports into L1 of components of the user's own, and of each:
        ("device_busy", "i8"),  # a bit each: it asks for a word
        ("device_address", "i8", (16,)),  # of that word
        ("device_stride", "i8", (16,)),  # bytes to the next
        ("device_count", "i8", (16,)),  # words of the access
        ("device_done", "i8", (16,)),  # that were granted
        ("device_write", "i8", (16,)),
        ("device_seen", "i8", (16,)),  # what its bank had served before this cycle
        ("device_data", "i4", (16, 256)),
    ],
    align=True,
)
