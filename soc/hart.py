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
from soc.chip_state import Chip
from soc.code_rows import is_split, row_index
from soc.csr_numbers import WRITE
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
    FENCE_CYCLES,
    FENCE_I,
    FPU,
    FSQRT,
    HWLOOP,
    ILLEGAL,
    JALR,
    JUMP,
    LOAD,
    MARKER,
    MULTICYCLE,
    SLOW,
    STORE,
    SYSTEM,
    TO_NEXT,
    UNDECODED,
    WRITES_ALU,
)
from soc.fpu import settle_result, start_division, wrong_path_cycles
from soc.hardware_loop import loop_next, mark_loop_end
from soc.hart_status import (
    FAULT_CSR,
    FAULT_FETCH,
    FAULT_ILLEGAL,
    L1_REQUEST,
    NEEDS_DECODER,
    REQUEST,
    RUN,
    charge,
    stop_at,
)
from soc.links import csr_exists, csr_modify, csr_read, csr_read_only, csr_write
from soc.regions import mark_region
from soc.state import COUNT
from soc.step import inlined_step, step
from soc.traps import CAUSE_ILLEGAL, exception, interrupts_enabled, system_instruction

INSTRUCTIONS = COUNT.instructions
JUMPS, BRANCHES, TAKEN = COUNT.jumps, COUNT.branches, COUNT.taken
COMPRESSED = COUNT.compressed
LOAD_USE, JUMP_REGISTER = COUNT.load_use, COUNT.jump_register
BRANCH_STALL, JUMP_STALL = COUNT.branch, COUNT.jump
MULTICYCLE_STALL, CSR_STALL, FENCE_STALL = COUNT.multicycle, COUNT.csr, COUNT.fence
FPU_DEPENDENCY, FPU_CONTENTION = COUNT.fpu_dependency, COUNT.fpu_contention


@step
def division_cycles(divisor, signed):
    """Cycles of div, rem and their unsigned forms: by the divisor alone, 3..35."""
    if signed and divisor < 0:
        return 2 + clz32(~divisor)
    return 3 + clz32(divisor)


@step
def jump_register_ready(chip, hart, entry, free):
    """Return the first cycle in which jalr can use a register: one later than EX could."""
    last = chip.code[np.uint64(hart["last"])]
    ready = 0
    if entry and last["flags"] & WRITES_ALU and last["rd"] == entry:
        ready = free + 1
    if entry and last["rp"] == entry:
        ready = free + 1
    if entry and hart["load_register"] == entry:
        ready = max(ready, hart["load_grant"] + 2)
    if entry and hart["fpu_register"] == entry:
        ready = max(ready, hart["fpu_return"] + 1)
    if entry and hart["earlier_register"] == entry:
        ready = max(ready, hart["earlier_return"] + 1)
    return ready


@step
def divided_behind_branch(hart, row, split):
    """Cycles more that RI5CY's branch takes for a division right behind it (rule S).

    It is executed although the branch is taken, and again if the target's fetch takes two cycles.
    """
    cycles = division_cycles(int(hart["regs"][row["rs2"]]), row["kind"] == DIVIDE)
    return 2 * cycles - 2 if split else cycles - 1


@step
def shadow_cycles(chip, hart, behind, target, cycle):
    """Cycles that a branch taken waits for the instruction right behind it (rules Q and S)."""
    config = chip.config[0]
    index = row_index(config, behind)
    if index < 0 or index >= config["rows"]:
        return 0
    row = chip.code[np.uint64(index)]
    if hart["ri5cy"] == 0:
        return wrong_path_cycles(chip, hart, row, target, cycle)
    if row["flags"] & DIVISION:
        return divided_behind_branch(hart, row, is_split(chip, target))
    return 0


@step
def csr_instruction(chip, hart, row, cycle):
    """Perform a CSR access; return False if it is illegal."""
    mode = int(row["loop"])
    number = int(row["imm"])
    if not csr_exists(hart, number):
        return False
    if row["access"]:
        operand = int(row["imm2"])
        writes = mode == WRITE or operand != 0
    else:
        operand = int(hart["regs"][row["rs1"]]) & 0xFFFFFFFF
        writes = mode == WRITE or row["rs1"] != 0
    if writes and csr_read_only(hart, number):
        return False
    old = csr_read(hart, number, cycle)
    if writes:
        csr_write(hart, number, csr_modify(mode, old, operand), cycle)
        if hart["ri5cy"] and 0x7C0 <= number <= 0x7C6:
            mark_loop_end(chip, hart, number >> 2 & 1)
    hart["regs"][row["rd"]] = (old & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
    return True


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
    if kind == FENCE_I:
        chip.wheel[0]["stale"] = 1
        return NEEDS_DECODER
    return RUN


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
                free, seen, start = settle_result(chip, hart, row, free, seen, start, until)
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
                hart["earlier_return"] = hart["fpu_return"]
                hart["earlier_register"] = hart["fpu_register"]
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
                        wait += shadow_cycles(chip, hart, pc + size, out, start)
                    seen += wait
                    counts[TAKEN] += 1
                    charge(hart, BRANCH_STALL, wait)
                    pc = out
                else:
                    pc = loop_next(hart, pc, size) if row["flags"] & SLOW else pc + size
            elif kind == JUMP or kind == JALR:
                counts[JUMPS] += 1
                fetch = seen if kind == JUMP else max(seen, hart["jump_ready"])
                split = is_split(chip, out)
                if split and ri5cy:
                    seen = max(fetch + 3, free)
                else:
                    seen = max(fetch + 2, free) + split
                    if kind == JALR and row["rd"] == row["rs1"] and seen > free:
                        seen += 1
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
                hart["issued"] = issued
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
                if interrupts_enabled(hart):
                    until = min(until, free)
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
