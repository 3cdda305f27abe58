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
from soc.bits import bit
from soc.chip_state import Chip
from soc.code_rows import is_split
from soc.csr_numbers import WRITE
from soc.decode import (
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
    STORE,
    SYSTEM,
    TO_NEXT,
    UNDECODED,
    WRITES_ALU,
)
from soc.fetch import fetch_jump, fetch_loop, fetch_next, fetch_steadily
from soc.fpu import settle_result, start_division, wrong_path_cycles
from soc.hardware_loop import loop_next, loop_start, mark_loop_end
from soc.hart_status import (
    FAULT_CSR,
    FAULT_FETCH,
    FAULT_ILLEGAL,
    FETCHING,
    L1_REQUEST,
    LATER,
    NEEDS_DECODER,
    REQUEST,
    RUN,
    charge,
    stop_at,
)
from soc.links import csr_exists, csr_modify, csr_read, csr_read_only, csr_write
from soc.memory import WORD
from soc.private_cache import IDEAL, STEADY
from soc.regions import mark_region
from soc.state import COUNT, NEVER
from soc.step import cold_step, inlined_step, step
from soc.traps import CAUSE_ILLEGAL, exception, interrupts_enabled, system_instruction

INSTRUCTIONS = COUNT.instructions
JUMPS, BRANCHES, TAKEN = COUNT.jumps, COUNT.branches, COUNT.taken
COMPRESSED = COUNT.compressed
LOAD_USE, JUMP_REGISTER = COUNT.load_use, COUNT.jump_register
BRANCH_STALL, JUMP_STALL = COUNT.branch, COUNT.jump
MULTICYCLE_STALL, CSR_STALL, FENCE_STALL = COUNT.multicycle, COUNT.csr, COUNT.fence
FETCH_STALL = COUNT.fetch
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


@cold_step
def divided_behind_branch(hart, row, split):
    """Cycles more that RI5CY's branch takes for a division right behind it (rule S).

    It is executed although the branch is taken, and again if the target's fetch takes two cycles.
    """
    cycles = division_cycles(int(hart["regs"][row["rs2"]]), row["kind"] == DIVIDE)
    return 2 * cycles - 2 if split else cycles - 1


@inlined_step
def shadow_cycles(chip, hart, behind, target, cycle):
    """Cycles that a branch taken waits for the instruction right behind it (rules Q and S)."""
    index = np.uint64(behind - chip.config[0]["code_base"]) >> np.uint64(1)
    if index >= np.uint64(chip.config[0]["rows"]):
        return 0
    row = chip.code[index]
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


@cold_step
def late_start(chip, hart, fetch, row, start, until):
    """Return the issue cycle of an instruction that waits for more than late operands.

    That is for a result of the FPU under way; jalr for its target register, to ask for its target
    as soon as that is known; a CSR access until the FPU is empty (rule H). `free` and `seen` may
    become later.
    """
    if hart["pending"]:
        start = settle_result(chip, hart, row, start, until)
    hart["jump_waits"] = 0
    if row["kind"] == JALR:
        hart["jump_ready"] = jump_register_ready(chip, hart, row["rs1"], hart["free"])
        hart["jump_waits"] = hart["jump_ready"] > start
        if hart["handed"] == 1:
            target = int(hart["regs"][row["rs1"]]) + row["imm"] & 0xFFFFFFFE
            fetch_jump(fetch, target, max(hart["seen"], hart["jump_ready"]))
            hart["handed"] = 2
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


@cold_step
def charge_wait(hart, by_load, cycles):
    """Count the cycles for which an instruction waited in ID.

    by_load    for a load; else for what late_start says
    """
    cause = LOAD_USE if by_load else FPU_DEPENDENCY
    if hart["jump_waits"]:
        hart["jump_waits"] = 0
        cause = JUMP_REGISTER
    charge(hart, cause, cycles)


@step
def jump(chip, hart, row, target):
    """jal, jalr: go to the target, which was asked for when the jump was in ID."""
    hart["counts"][JUMPS] += 1
    free = hart["free"]
    asked = hart["seen"] if row["kind"] == JUMP else max(hart["seen"], hart["jump_ready"])
    split = is_split(chip, target)
    if split and hart["ri5cy"]:
        seen = max(asked + 3, free)
    else:
        seen = max(asked + 2, free) + split
        if row["kind"] == JALR and row["rd"] == row["rs1"] and seen > free:
            seen += 1
    charge(hart, JUMP_STALL, seen - free)
    hart["seen"] = seen
    hart["pc"] = target
    return RUN


@step
def multicycle(hart, row, start, second):
    """Stay in EX for more than one cycle."""
    cycles = int(row["cost"])
    if row["kind"] != MULTICYCLE:
        cycles = division_cycles(second, row["kind"] == DIVIDE)
    hart["free"] = start + cycles
    charge(hart, MULTICYCLE_STALL, cycles - 1)
    return RUN


@step
def serialising(chip, hart, row, pc, start):
    """Perform a CSR access, a fence or a system instruction."""
    kind = row["kind"]
    if kind == CSR:
        if not csr_instruction(chip, hart, row, start):
            return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_CSR, int(row["word"]))
        cycles = flush_cycles(hart, row, pc)
        hart["seen"] = start + cycles
        charge(hart, CSR_STALL, cycles - 1)
        return RUN
    if kind == SYSTEM:
        return system_instruction(chip, hart, row, pc, start)
    if kind == ILLEGAL:
        return exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"]))
    hart["seen"] = start + FENCE_CYCLES + is_split(chip, hart["pc"])
    counted = 1 if row["flags"] & COUNTED else 0
    charge(hart, FENCE_STALL, hart["seen"] - start - counted)
    if kind == FENCE_I:
        chip.wheel[0]["stale"] = 1
        return NEEDS_DECODER
    return RUN


@cold_step
def rare_instruction(chip, hart, fetch, row, pc, start, out, first, second):
    """Perform an instruction of the kinds behind BRANCH; returns the hart's state.

    Sets pc, free and seen for the next one.
    """
    kind = row["kind"]
    if row["flags"] & COUNTED == 0:
        hart["counts"][INSTRUCTIONS] -= 1
    if kind == JUMP or kind == JALR:
        return jump(chip, hart, row, out)
    hart["seen"] = start + 1
    hart["pc"] = pc + int(row["size"])
    if kind == HWLOOP:
        mark_loop_end(chip, hart, int(row["loop"]))
        return RUN
    if row["flags"] & LOOP_END:
        hart["pc"] = loop_next(hart, pc, int(row["size"]))
    if kind <= DIVIDE_UNSIGNED:
        return multicycle(hart, row, start, second)
    if kind == FDIV or kind == FSQRT:
        hart["free"] = start_division(chip, hart, row, start, first, second)
        return RUN
    if kind == ELW:
        hart["row"] = hart["last"]
        hart["address"] = out
        return REQUEST
    state = serialising(chip, hart, row, pc, start)
    leaves = hart["pc"] != pc + row["size"] and row["flags"] & LOOP_END == 0
    if leaves or kind == FENCE or kind == FENCE_I:
        fetch_jump(fetch, hart["pc"], hart["seen"] - 2 - is_split(chip, hart["pc"]))
    return state


@cold_step
def illegal_rounding(chip, hart, fetch, row, pc, start):
    """An operation of the FPU asks for the rounding mode in frm, which is none."""
    hart["issued"] = start
    hart["late_load"] = hart["late_fpu"] = np.uint64(0)
    hart["handed"] = 0
    state = exception(chip, hart, pc, start, CAUSE_ILLEGAL, FAULT_ILLEGAL, int(row["word"]))
    fetch_jump(fetch, hart["pc"], hart["seen"] - 2 - is_split(chip, hart["pc"]))
    return state


@inlined_step
def taken_branch(chip, hart, fetch, row, pc, start, target):
    """Go to the target of a branch, which is asked for when the branch is in EX."""
    size = int(row["size"])
    if row["flags"] & TO_NEXT:
        target = pc + size
    split = is_split(chip, target)
    wait = 2 + split
    if hart["ri5cy"] or hart["pending"]:
        wait += shadow_cycles(chip, hart, pc + size, target, start)
    seen = start + 1 + wait
    hart["counts"][TAKEN] += 1
    charge(hart, BRANCH_STALL, wait)
    hart["seen"] = seen
    hart["pc"] = target
    fetch_jump(fetch, target, seen - 2 - split)


@inlined_step
def occupy_fpu(chip, hart, row, start):
    """Start an operation of the FPU."""
    if hart["pending"]:
        hart["free"] = hart["fpu_return"] + 1
        charge(hart, FPU_CONTENTION, hart["free"] - start - 1)
    latency = chip.config[0]["fpu_latency"]
    returns = hart["free"] + latency
    hart["ready"] = returns
    hart["earlier_return"] = hart["fpu_return"]
    hart["earlier_register"] = hart["fpu_register"]
    hart["fpu_return"] = returns
    hart["fpu_register"] = row["rd"]
    hart["fpu_mask"] = row["late_fpu"]
    hart["pending"] = latency > 1


@inlined_step
def request_memory(chip, h, hart, row, index, address, cycle):
    """Ask for a load or store from this cycle on; returns the hart's state."""
    config = chip.config[0]
    hart["row"] = np.int64(index)
    hart["address"] = address
    hart["when"] = cycle
    offset = np.uint64(address - config["l1_base"])
    if offset >= np.uint64(config["l1_size"]) or hart["external"]:
        return REQUEST
    if row["access"] == WORD and address & 3 == 0:
        chip.wheel[0]["plain"] |= bit(h)
    return L1_REQUEST


@inlined_step
def fetch_behind(chip, hart, fetch, row, pc, cycle):
    """Ask for what follows an instruction that entered the decode stage in this cycle.

    A jump asks for its target; what comes right before the end of a hardware loop for its start.
    """
    if row["kind"] == JUMP:
        fetch_jump(fetch, pc + row["imm"], cycle)
        return
    end = pc + int(row["size"])
    index = np.uint64(end - chip.config[0]["code_base"]) >> np.uint64(1)
    if index < np.uint64(chip.config[0]["rows"]) and chip.code[index]["flags"] & LOOP_END:
        start = loop_start(hart, end)
        if start >= 0:
            fetch_loop(fetch, end, start, cycle)


@inlined_step
def hand_over(chip, hart, fetch, row, pc):
    """Let the next instruction enter the decode stage, if it has certainly come.

    Returns False if not: see await_hand_over.
    """
    mode = fetch["mode"]
    if mode != IDEAL:
        if mode != STEADY:
            return False
        fetch_steadily(fetch, pc, int(row["size"]), hart["seen"] - 1)
        fetch_behind(chip, hart, fetch, row, pc, hart["seen"])
    hart["handed"] = 1
    return True


@cold_step
def await_hand_over(chip, hart, fetch, row, pc, ready):
    """Let the next instruction enter the decode stage when it comes; returns False if that is open.

    ready    first cycle in which EX can take it, or NEVER: see fetch_next
    """
    given = fetch_next(fetch, pc, int(row["size"]), hart["seen"] - 1, ready)
    if given == NEVER:
        return False
    given += 1
    late = given - max(hart["seen"], hart["free"])
    if late > 0:
        charge(hart, FETCH_STALL, late)
    hart["seen"] = max(hart["seen"], given)
    fetch_behind(chip, hart, fetch, row, pc, given)
    hart["handed"] = 1
    return True


@inlined_step
def hand_over_behind_access(chip, hart, fetch):
    """Let the instruction behind a load or store enter the decode stage while that is in EX."""
    pc = hart["pc"]
    index = np.uint64(pc - chip.config[0]["code_base"]) >> np.uint64(1)
    if index < np.uint64(chip.config[0]["rows"]):
        row = chip.code[index]
        if row["kind"] != UNDECODED and not hand_over(chip, hart, fetch, row, pc):
            await_hand_over(chip, hart, fetch, row, pc, NEVER)


def make_issue(execute: Callable) -> Callable:
    """Return the step function that issues an instruction, around this interpreter.

    execute    generated from the declarations, see isa.compiled
    """

    @inlined_step
    def issue(chip, h, hart, fetch, row, index, pc, until):
        """Issue the instruction in the decode stage, if that is in a cycle before `until`.

        Returns the hart's new state; LATER if it does not issue yet.
        """
        kind = row["kind"]
        flags = row["flags"]
        size = int(row["size"])
        base = max(hart["free"], hart["seen"])
        start = base
        waits = row["uses_load"] & hart["late_load"] | row["uses_fpu"] & hart["late_fpu"]
        if waits:
            start = max(start, hart["ready"])
        by_load = start > base and hart["late_load"] != 0
        if hart["pending"] or kind >= JALR:
            start = late_start(chip, hart, fetch, row, start, until)
            base = max(hart["free"], hart["seen"])
        hart["when"] = start
        if start >= until:
            return LATER
        if start > base:
            charge_wait(hart, by_load, start - base)
        if flags & MARKER:
            mark_region(chip, h, int(row["imm"]), start)
        if row["rm"] == 7 and hart["frm"] > 4:
            return illegal_rounding(chip, hart, fetch, row, pc, start)
        counts = hart["counts"]
        counts[INSTRUCTIONS] += 1
        counts[COMPRESSED] += size == 2
        regs = hart["regs"]
        first = int(regs[row["rs1"]])
        second = int(regs[row["rs2"]])
        out = execute(row["op"], row, regs, pc, hart)
        hart["late_load"] = row["late_load"]
        hart["late_fpu"] = row["late_fpu"]
        hart["issued"] = start
        hart["last"] = np.int64(index)
        hart["handed"] = 0
        hart["free"] = start + 1
        if kind > FPU:
            if kind > BRANCH:
                return rare_instruction(chip, hart, fetch, row, pc, start, out, first, second)
            counts[BRANCHES] += 1
            if out != pc + size:
                taken_branch(chip, hart, fetch, row, pc, start, out)
                return RUN
        hart["seen"] = start + 1
        hart["pc"] = loop_next(hart, pc, size) if flags & LOOP_END else pc + size
        if kind == LOAD or kind == STORE:
            return request_memory(chip, h, hart, row, index, out, start + 1)
        if kind == FPU:
            occupy_fpu(chip, hart, row, start)
        return RUN

    return issue


def make_advance(issue: Callable) -> Callable:
    """Return the step function that lets a hart run, around this `issue`."""

    @inlined_step
    def advance(chip: Chip, h: int, until: int) -> int:
        """Issue instructions in cycles before `until`, up to the next request.

        Returns the hart's new state; `when` and `address` say what it asks for.
        """
        hart = chip.harts[np.uint64(h)]
        fetch = chip.fetch[np.uint64(h)]
        state = RUN
        kind = UNDECODED
        while state == RUN:
            pc = hart["pc"]
            index = np.uint64(pc - chip.config[0]["code_base"]) >> np.uint64(1)
            if index >= np.uint64(chip.config[0]["rows"]):
                state = stop_at(hart, FAULT_FETCH, pc)
                break
            row = chip.code[index]
            kind = row["kind"]
            if kind == UNDECODED:
                hart["when"] = max(hart["free"], hart["seen"])
                state = NEEDS_DECODER
                break
            if hart["handed"] == 0 and not hand_over(chip, hart, fetch, row, pc):
                if not await_hand_over(chip, hart, fetch, row, pc, hart["free"]):
                    state = FETCHING
                    break
            state = issue(chip, h, hart, fetch, row, index, pc, until)
            if kind > BRANCH and state != LATER:
                hart["when"] = hart["free"]
                if interrupts_enabled(hart):
                    until = min(until, hart["free"])
        if state == LATER:
            state = RUN
        elif (state == L1_REQUEST or state == REQUEST) and kind <= STORE:
            hand_over_behind_access(chip, hart, fetch)
        hart["state"] = state
        return state

    return advance
