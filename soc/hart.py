"""A hart: the four-stage in-order pipeline of RI5CY and CV32E40P, one instruction at a time.

The pipeline is followed by its cycles, not cycle by cycle. For the next instruction the hart knows
when it is in the decode stage (`seen`), when EX can take it (`free`), and which registers the
instruction before delivers late (`late_load`, `late_fpu`, from cycle `ready` on); the latest of
these is its issue cycle. A request to the outside ends the walk: what follows depends on its grant.

Sources: the timing measured on RTL (table and rules A to U); RI5CY and CV32E40P user manuals.
"""

from collections.abc import Callable

import numpy as np

from isa.words import clz32
from soc import csr as csr_file
from soc.decode import (
    ALU,
    BRANCH,
    COUNTED,
    CSR,
    DIVIDE,
    DIVIDE_UNSIGNED,
    DIVISION,
    ELW,
    FDIV,
    FENCE,
    FENCE_CYCLES,
    FENCE_I,
    FPU,
    FSQRT,
    HWLOOP,
    ILLEGAL,
    JALR,
    JUMP,
    LOAD,
    LOOP_END,
    MARKER,
    MULTICYCLE,
    POST_INCREMENT,
    SLOW,
    STOP,
    STORE,
    SYSTEM,
    SYSTEM_OPS,
    TO_NEXT,
    UNDECODED,
    WRITES_ALU,
)
from soc.divsqrt import fdiv_cycles, fdiv_is_late, fsqrt_cycles
from soc.state import COUNT, NEVER, REGIONS, Chip
from soc.step import inlined_step, step

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

# Reasons to stop.
FAULT_ILLEGAL = 1
FAULT_FETCH = 2
FAULT_LOAD = 3
FAULT_STORE = 4
FAULT_BREAKPOINT = 5
FAULT_CSR = 6
FAULT_DMA = 7

CAUSE_ILLEGAL, CAUSE_BREAKPOINT, CAUSE_ECALL = 2, 3, 11

ECALL, MRET, WFI_OP = SYSTEM_OPS["ecall"], SYSTEM_OPS["mret"], SYSTEM_OPS["wfi"]

ECALL_CYCLES = 4
MRET_CYCLES = 5
INTERRUPT_CYCLES = 3

INSTRUCTIONS = COUNT.instructions
JUMPS, BRANCHES, TAKEN = COUNT.jumps, COUNT.branches, COUNT.taken
COMPRESSED = COUNT.compressed
LOAD_USE, JUMP_REGISTER = COUNT.load_use, COUNT.jump_register
BRANCH_STALL, JUMP_STALL = COUNT.branch, COUNT.jump
MULTICYCLE_STALL, CSR_STALL, FENCE_STALL = COUNT.multicycle, COUNT.csr, COUNT.fence
FPU_DEPENDENCY, FPU_CONTENTION = COUNT.fpu_dependency, COUNT.fpu_contention
FPU_WRITEBACK, TRAP_STALL = COUNT.fpu_writeback, COUNT.trap


@step
def row_index(config, pc):
    """Return the row of a code address; out of range if the address is not code memory."""
    return (pc - config["code_base"]) >> 1


@step
def is_split(chip, pc):
    """Is there a 32-bit instruction at 2 mod 4, which takes one more fetch to arrive?"""
    if pc & 2 == 0:
        return 0
    config = chip.config[0]
    index = row_index(config, pc)
    if index < 0 or index >= config["rows"]:
        return 0
    return 1 if chip.l2[np.uint64(index >> 1)] >> 16 & 3 == 3 else 0


@step
def division_cycles(divisor, signed):
    """Cycles of div, rem and their unsigned forms: by the divisor alone, 3..35."""
    if signed and divisor < 0:
        return 2 + clz32(~divisor)
    return 3 + clz32(divisor)


@step
def charge(hart, cause, cycles):
    """Count stall cycles."""
    hart["counts"][cause] += cycles
    hart["cause"] = cause


@step
def loop_next(hart, pc, size):
    """Return the address behind the instruction at pc, which may end a hardware loop.

    Loop 0 goes first; if both end here and it is done, loop 1 is tested in the same step.
    """
    for loop in range(2):
        if pc == hart["lp_last"][loop]:
            if hart["lp_count"][loop] > 1:
                hart["lp_count"][loop] -= 1
                return hart["lp_start"][loop]
            if hart["ri5cy"] == 0 and hart["lp_count"][loop] == 1:
                hart["lp_count"][loop] = 0
    return pc + size


@step
def mark_loop_end(chip, hart, loop):
    """Hint in the decoded program that an instruction may end a hardware loop."""
    config = chip.config[0]
    last = hart["lp_end"][loop] - (0 if hart["ri5cy"] else 4)
    hart["lp_last"][loop] = last
    index = row_index(config, last)
    if 0 <= index < config["rows"]:
        chip.code[np.uint64(index)]["flags"] |= LOOP_END


@step
def mark_region(chip, h, number, cycle):
    """Open region number / 2, or close it if number is odd, at a marker's issue.

    A grant in the marker's own issue cycle does not belong to what precedes it (rule J).
    """
    hart = chip.harts[h]
    region = chip.regions[h * REGIONS + (number >> 1)]
    counts = hart["counts"]
    early = 1 if hart["l1_grant"] == cycle else 0
    if number & 1 == 0:
        if region["count"] == 0 and region["open"] == 0:
            region["first_start"] = cycle
        region["open"] = 1
        region["start"] = cycle
        for k in range(counts.size):
            region["at_start"][k] = counts[k]
        region["at_start"][COUNT.l1_accesses] -= early
    elif region["open"]:
        region["open"] = 0
        region["count"] += 1
        region["cycles"] += cycle - region["start"]
        for k in range(counts.size):
            region["total"][k] += counts[k] - region["at_start"][k]
        region["total"][COUNT.l1_accesses] -= early


@step
def jump_register_ready(chip, hart, entry, free):
    """Return the first cycle in which jalr can use a register: one later than EX could."""
    last = chip.code[np.uint64(hart["last"])]
    ready = 0
    if entry and last["flags"] & WRITES_ALU and last["rd"] == entry:
        ready = free + 1
    if entry and last["rp"] == entry:
        ready = free + 1
    if entry and hart["load_register"] == entry and hart["load_grant"] + 2 > ready:
        ready = hart["load_grant"] + 2
    if entry and hart["fpu_register"] == entry and hart["fpu_return"] + 1 > ready:
        ready = hart["fpu_return"] + 1
    return ready


@step
def return_is_held(chip, hart, cycle, free, seen, row, waits):
    """Is an FPU result kept back in this cycle, without a conflict (rule F)?

    free, seen    of the instruction in ID, whose row it is; the one before may be in EX
    waits         it waits for that very result
    """
    if cycle <= hart["issued"] or cycle > free:
        return False
    in_ex = chip.code[np.uint64(hart["last"])]
    kind = in_ex["kind"]
    writes = in_ex["flags"] & WRITES_ALU != 0
    if kind == LOAD or kind == STORE:
        if hart["split_until"] >= cycle or in_ex["flags"] & POST_INCREMENT:
            return True
    if writes and hart["memory_grant"] == cycle - 1:
        return True
    if kind == MULTICYCLE and cycle >= hart["issued"] + 2:
        return True
    if writes and kind == JALR and seen > cycle:
        return True
    return writes and row["kind"] == JALR and seen <= cycle and not waits


@step
def settle_return(chip, hart, upto, free, seen, row, waits):
    """Let the FPU result under way return, if it does so up to this cycle (rules D to F).

    Returns the cycles that the instruction in EX stays longer because the result took its port.
    """
    while hart["pending"] and hart["fpu_return"] <= upto:
        cycle = hart["fpu_return"]
        if return_is_held(chip, hart, cycle, free, seen, row, waits):
            hart["fpu_return"] += 1
            continue
        hart["pending"] = 0
        if hart["issued"] < cycle <= free:
            if chip.code[np.uint64(hart["last"])]["flags"] & WRITES_ALU:
                return 1
    return 0


@step
def wait_for_fpu(chip, hart, row, free, seen, start):
    """Hold the instruction in ID for the FPU result under way, where it has to.

    Returns free and seen, which a conflict moves, and the issue cycle.
    """
    waits = row["uses_fpu"] & hart["fpu_mask"] != 0
    empties = row["kind"] == CSR
    while hart["pending"]:
        if waits or empties:
            start = max(start, hart["fpu_return"])
        if hart["fpu_return"] > start:
            return free, seen, start
        last = chip.code[np.uint64(hart["last"])]
        if settle_return(chip, hart, start, free, seen, row, waits):
            charge(hart, FPU_WRITEBACK, 1)
            free += 1
            if last["kind"] == JUMP or last["kind"] == JALR:
                seen += 1
            start = max(start, free, seen)
    if waits or empties:
        start = max(start, hart["fpu_return"] + (1 if empties else 0))
    return free, seen, start


@step
def shadow_cycles(chip, hart, pc, size, target, cycle):
    """Cycles that a taken branch waits for the instruction right behind it (rules Q and S)."""
    config = chip.config[0]
    index = row_index(config, pc + size)
    if index < 0 or index >= config["rows"]:
        return 0
    row = chip.code[np.uint64(index)]
    if hart["ri5cy"]:
        if row["flags"] & DIVISION:
            cycles = division_cycles(
                int(hart["regs"][row["rs2"]]), row["kind"] == DIVIDE
            )
            if is_split(chip, target):
                return max(2 + 2 * cycles - 4, 0)
            return max(2 + cycles - 3, 0)
    elif row["kind"] == CSR:
        if hart["fpu_return"] + 1 > cycle + 3:
            return hart["fpu_return"] + 1 - (cycle + 3)
    elif row["kind"] == JALR:
        if row["rs1"] == hart["fpu_register"] and hart["fpu_return"] == cycle + 2:
            return 1
    return 0


@step
def enter_trap(hart, cause, pc):
    """Go to the trap handler: base for exceptions, one vector for each interrupt."""
    hart["mepc"] = pc
    hart["mcause"] = cause
    mstatus = hart["mstatus"]
    hart["mstatus"] = mstatus & ~0x88 | (mstatus & 8) << 4
    base = hart["mtvec"] & 0xFFFFFF00
    if cause & 0x80000000 and hart["mtvec"] & 1:
        return base + 4 * (cause & 31)
    return base


@step
def leave_trap(hart):
    """mret: back to where the trap came from."""
    mstatus = hart["mstatus"]
    hart["mstatus"] = mstatus & ~8 | mstatus >> 4 & 8 | 0x80
    return hart["mepc"]


@step
def stop_at(hart, fault, value):
    """Stop the simulation at the instruction at pc."""
    hart["fault"] = fault
    hart["fault_value"] = value
    return STOPPED


@step
def csr_instruction(chip, hart, row, cycle):
    """Perform a CSR access; return False if it is illegal."""
    mode = int(row["loop"])
    number = int(row["imm"])
    if not csr_file.csr_exists(hart, number):
        return False
    if row["access"]:
        operand = int(row["imm2"])
        writes = mode == csr_file.WRITE or operand != 0
    else:
        operand = int(hart["regs"][row["rs1"]]) & 0xFFFFFFFF
        writes = mode == csr_file.WRITE or row["rs1"] != 0
    if writes and csr_file.csr_read_only(hart, number):
        return False
    old = csr_file.csr_read(hart, number, cycle)
    if writes:
        csr_file.csr_write(hart, number, csr_file.csr_modify(mode, old, operand), cycle)
        if hart["ri5cy"] and 0x7C0 <= number <= 0x7C6:
            mark_loop_end(chip, hart, number >> 2 & 1)
    hart["regs"][row["rd"]] = (old & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    return True


@step
def take_interrupt(hart, cycle):
    """Return the cause of the interrupt that the hart takes now, or 0."""
    if hart["mstatus"] & 8 == 0 or hart["mip"] & hart["mie"] == 0:
        return 0
    pending = hart["mip"] & hart["mie"]
    for line in range(31, -1, -1):
        if pending >> line & 1:
            return 0x80000000 | line
    return 0


@step
def late_start(chip, hart, row, start, free, last):
    """Return the issue cycle of an instruction that waits for more than late operands.

    jalr waits for its target register; a CSR access until the FPU is empty (rule H).
    """
    if row["kind"] == JALR:
        hart["last"] = last
        hart["jump_ready"] = jump_register_ready(chip, hart, row["rs1"], free)
        return max(start, hart["jump_ready"])
    if row["kind"] == CSR and chip.config[0]["fpu_latency"]:
        return max(start, hart["fpu_return"] + 1)
    return start


@step
def start_division(chip, hart, row, start, first, second):
    """Issue fdiv.s or fsqrt.s: the result returns later and competes for the write port."""
    config = chip.config[0]
    begin = hart["fpu_return"] if hart["pending"] else start
    extra = 1 if hart["ri5cy"] else 0
    free = begin + 1
    if row["kind"] == FDIV:
        cycles = fdiv_cycles(first, second, config["thead"], extra)
        if fdiv_is_late(second, config["thead"]):
            free += 1
    else:
        cycles = fsqrt_cycles(first, config["thead"], extra)
    charge(hart, FPU_CONTENTION, free - start - 1)
    hart["fpu_return"] = begin + cycles
    hart["fpu_register"] = row["rd"]
    hart["fpu_mask"] = row["late_fpu"]
    hart["pending"] = 1
    return free


@step
def flush_cycles(hart, row, pc):
    """Cycles of a CSR access, with what a hardware loop's end right behind adds (rule R)."""
    cycles = int(row["cost"])
    if cycles > 1 and hart["ri5cy"] == 0:
        for loop in range(2):
            ahead = hart["lp_last"][loop] - pc
            if hart["lp_count"][loop] > 1 and (ahead == 4 or ahead == 8):
                return cycles + 1
    return cycles


@step
def system_instruction(chip, hart, row, pc, start):
    """ecall, ebreak, mret, wfi: sets the next pc and its cycle; returns the hart's state."""
    operation = int(row["cost"])
    hart["free"] = start + 1
    hart["seen"] = start + 1
    hart["pc"] = pc + row["size"]
    if operation == MRET:
        hart["pc"] = leave_trap(hart)
        hart["seen"] = start + MRET_CYCLES + is_split(chip, hart["pc"])
        charge(hart, TRAP_STALL, hart["seen"] - start - 1)
        return RUN
    if operation == WFI_OP:
        return RUN if chip.config[0]["cluster"] else WFI
    if operation == ECALL:
        hart["pc"] = enter_trap(hart, CAUSE_ECALL, pc)
        hart["seen"] = start + ECALL_CYCLES
        charge(hart, TRAP_STALL, ECALL_CYCLES - 1)
        return RUN
    return exception(chip, hart, pc, start, CAUSE_BREAKPOINT, FAULT_BREAKPOINT, int(row["word"]))


@step
def exception(chip, hart, pc, start, cause, fault, value):
    """Go to the program's handler if it has one; else the simulation stops here."""
    if hart["handler"] == 0 and chip.config[0]["trap_vectors"] == 0:
        hart["pc"] = pc
        return stop_at(hart, fault, value)
    hart["pc"] = enter_trap(hart, cause, pc)
    hart["free"] = start + 1
    hart["seen"] = start + ECALL_CYCLES
    charge(hart, TRAP_STALL, ECALL_CYCLES - 1)
    return RUN


@step
def rare_instruction(chip, hart, row, pc, start, out, first, second):
    """Perform an instruction of the kinds behind JALR; returns the hart's state.

    Sets pc, free and seen for the next one.
    """
    kind = row["kind"]
    size = row["size"]
    hart["free"] = start + 1
    hart["seen"] = start + 1
    hart["pc"] = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
    if kind == CSR:
        if not csr_instruction(chip, hart, row, start):
            return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_CSR, int(row["word"]))
        cycles = flush_cycles(hart, row, pc)
        hart["seen"] = start + cycles
        charge(hart, CSR_STALL, cycles - 1)
        return RUN
    if kind == FDIV or kind == FSQRT:
        if row["rm"] == 7 and hart["frm"] > 4:
            return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"]))
        hart["free"] = start_division(chip, hart, row, start, first, second)
        return RUN
    if kind == ELW:
        hart["address"] = out
        return REQUEST
    if kind == SYSTEM:
        return system_instruction(chip, hart, row, pc, start)
    if kind == ILLEGAL:
        return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"]))
    hart["seen"] = start + FENCE_CYCLES + is_split(chip, pc + size)
    charge(hart, FENCE_STALL, hart["seen"] - start - 1)
    return NEEDS_DECODER if kind == FENCE_I else RUN


def make_advance(execute: Callable) -> Callable:
    """Return the step function that lets a hart run, around this interpreter.

    execute    generated from the declarations, see isa.compiled
    """

    @inlined_step
    def advance(chip: Chip, h: int, until: int) -> int:
        """Issue instructions in cycles before `until`, up to the next request.

        Returns the hart's new state; `when` and `address` say what it asks for.
        """
        hart = chip.harts[h]
        config = chip.config[0]
        code = chip.code
        regs = hart["regs"]
        counts = hart["counts"]
        code_base = config["code_base"]
        rows = config["rows"]
        l1_base = config["l1_base"]
        l1_size = config["l1_size"]
        external = hart["external"]
        latency = config["fpu_latency"]
        pc = hart["pc"]
        free = hart["free"]
        seen = hart["seen"]
        ready = hart["ready"]
        late_load = hart["late_load"]
        late_fpu = hart["late_fpu"]
        pending = hart["pending"]
        last = hart["last"]
        issued = hart["issued"]
        ri5cy = hart["ri5cy"]
        retired = 0
        compressed = 0
        when = until
        state = RUN
        while True:
            index = (pc - code_base) >> 1
            if index < 0 or index >= rows:
                state = stop_at(hart, FAULT_FETCH, pc)
                break
            row = code[np.uint64(index)]
            kind = row["kind"]
            base = free if free > seen else seen
            start = base
            cause = FPU_DEPENDENCY
            if (row["uses_load"] & late_load) | (row["uses_fpu"] & late_fpu) and ready > start:
                start = ready
                if late_load:
                    cause = LOAD_USE
            if pending:
                hart["last"] = last
                hart["issued"] = issued
                free, seen, start = wait_for_fpu(chip, hart, row, free, seen, start)
                pending = hart["pending"]
                base = free if free > seen else seen
            if (kind - 1) & 255 >= JALR - 1:
                if kind == UNDECODED:
                    state = NEEDS_DECODER
                    when = start
                    break
                later = late_start(chip, hart, row, start, free, last)
                if later > start and kind == JALR:
                    cause = JUMP_REGISTER
                start = later
            if start >= until:
                when = start
                break
            if start > base:
                charge(hart, cause, start - base)
            if row["flags"] & MARKER:
                counts[INSTRUCTIONS] += retired
                counts[COMPRESSED] += compressed
                retired = compressed = 0
                mark_region(chip, h, int(row["imm"]), start)
            retired += 1
            size = int(row["size"])
            compressed += size == 2
            first = int(regs[row["rs1"]])
            second = int(regs[row["rs2"]])
            out = execute(row["op"], row, regs, pc, hart)
            late_load = row["late_load"]
            late_fpu = row["late_fpu"]
            issued = start
            last = index
            free = start + 1
            if kind == ALU:
                seen = free
                pc = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
            elif kind == LOAD or kind == STORE:
                seen = free
                hart["row"] = index
                hart["address"] = out
                state = REQUEST
                if np.uint64(out - l1_base) < np.uint64(l1_size) and external == 0:
                    state = L1_REQUEST
                when = free
                pc = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
                break
            elif kind == FPU:
                seen = free
                if row["rm"] == 7 and hart["frm"] > 4:
                    retired -= 1
                    state = exception(
                        chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"])
                    )
                    pc = hart["pc"]
                    seen = hart["seen"]
                    if state != RUN:
                        break
                    continue
                if pending:
                    free = hart["fpu_return"] + 1
                    charge(hart, FPU_CONTENTION, free - start - 1)
                ready = free + latency
                hart["fpu_return"] = ready
                hart["fpu_register"] = row["rd"]
                if latency > 1:
                    hart["fpu_mask"] = late_fpu
                pending = 1 if latency > 1 else 0
                hart["pending"] = pending
                pc = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
            elif kind == BRANCH:
                counts[BRANCHES] += 1
                seen = free
                if out != pc + size:
                    if row["flags"] & TO_NEXT:
                        out = pc + size
                    wait = 2 + is_split(chip, out)
                    if ri5cy or pending:
                        wait += shadow_cycles(chip, hart, pc, size, out, start)
                    seen += wait
                    counts[TAKEN] += 1
                    charge(hart, BRANCH_STALL, wait)
                    pc = out
                else:
                    pc = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
            elif kind == JUMP or kind == JALR:
                counts[JUMPS] += 1
                fetch = seen
                again = 0
                if kind == JALR:
                    fetch = max(fetch, hart["jump_ready"])
                    if row["rd"] == row["rs1"] and start == fetch:
                        again = 1
                split = is_split(chip, out)
                if split and ri5cy:
                    seen = max(fetch + 3, free)
                else:
                    seen = max(fetch + 2, free) + split + again
                charge(hart, JUMP_STALL, seen - free)
                pc = out
            elif kind == HWLOOP:
                seen = free
                mark_loop_end(chip, hart, int(row["loop"]))
                pc += size
            elif kind <= DIVIDE_UNSIGNED:
                cycles = int(row["cost"])
                if kind != MULTICYCLE:
                    cycles = division_cycles(second, kind == DIVIDE)
                seen = free
                free = start + cycles
                charge(hart, MULTICYCLE_STALL, cycles - 1)
                pc = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
            else:
                hart["row"] = index
                hart["pending"] = pending
                counts[INSTRUCTIONS] += retired - (0 if row["flags"] & COUNTED else 1)
                retired = 0
                state = rare_instruction(chip, hart, row, pc, start, out, first, second)
                pc = hart["pc"]
                free = hart["free"]
                seen = hart["seen"]
                pending = hart["pending"]
                when = free
                if state != RUN:
                    break
        hart["pc"] = pc
        hart["free"] = free
        hart["seen"] = seen
        hart["ready"] = ready
        hart["late_load"] = late_load
        hart["late_fpu"] = late_fpu
        hart["last"] = last
        hart["issued"] = issued
        hart["when"] = when
        hart["state"] = state
        counts[INSTRUCTIONS] += retired
        counts[COMPRESSED] += compressed
        return state

    return advance
