"""A hart: the four-stage in-order pipeline of RI5CY and CV32E40P, one instruction at a time.

The pipeline is followed by its cycles, not cycle by cycle. For the next instruction the hart knows
when it is in the decode stage (`seen`), when EX can take it (`free`), and which registers the
instruction before delivers late (`late_load`, `late_fpu`, from cycle `ready` on); the latest of
these is its issue cycle. A request to the outside ends the walk: what follows depends on its grant.

Sources: the timing measured on RTL (table and rules A to U); RI5CY and CV32E40P user manuals.
"""

from collections.abc import Callable

import numpy as np

from soc.bits import bit
from soc.branches import jump_register_ready, taken_branch
from soc.chip_state import Chip
from soc.decode import (
    BRANCH,
    COUNTED,
    CSR,
    FENCE_I,
    FPU,
    HWLOOP,
    JALR,
    LOAD,
    LOOP_END,
    MARKER,
    STORE,
    UNDECODED,
)
from soc.fetch import fetch_jump
from soc.float_state import is_legal_float
from soc.fpu import settle_result
from soc.handover import await_hand_over, hand_over, hand_over_behind_access
from soc.hardware_loop import find_loop_end, loop_next, mark_row
from soc.hart_status import (
    FAULT_FETCH,
    FAULT_STACK,
    FETCHING,
    GO_ON,
    L1_REQUEST,
    LATER,
    NEEDS_DECODER,
    REQUEST,
    RUN,
    charge,
    stop_at,
)
from soc.l1_access import asks_l1, is_plain_request
from soc.rare import illegal_float, rare_instruction
from soc.regions import mark_region
from soc.stack_check import MOVES_SP, SP, leaves_stack
from soc.state import COUNT
from soc.step import cold_step, inlined_step
from soc.trace_points import note_issue
from soc.traps import interrupts_enabled

INSTRUCTIONS, BRANCHES, COMPRESSED = COUNT.instructions, COUNT.branches, COUNT.compressed
LOAD_USE, JUMP_REGISTER = COUNT.load_use, COUNT.jump_register
FPU_DEPENDENCY, FPU_CONTENTION = COUNT.fpu_dependency, COUNT.fpu_contention


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


@inlined_step
def charge_wait(chip, hart, by_load, cycles):
    """Count the cycles for which an instruction waited in ID.

    by_load    for a load; else for what late_start says
    """
    cause = LOAD_USE if by_load else FPU_DEPENDENCY
    if hart["jump_waits"]:
        hart["jump_waits"] = 0
        cause = JUMP_REGISTER
    charge(chip, hart, cause, cycles)


@inlined_step
def occupy_fpu(chip, hart, row, start):
    """Start an operation of the FPU."""
    if hart["pending"]:
        hart["free"] = hart["fpu_return"] + 1
        charge(chip, hart, FPU_CONTENTION, hart["free"] - start - 1)
    latency = chip.config[0]["fpu_latency"]
    returns = hart["free"] + latency
    hart["ready"] = returns
    hart["earlier_return"] = hart["fpu_return"]
    hart["earlier_register"] = hart["fpu_register"]
    hart["fpu_return"] = returns
    hart["fpu_register"] = row["rd"]
    hart["pending"] = latency > 1
    if latency > 1:
        hart["fpu_mask"] = row["late_fpu"]


@inlined_step
def request_memory(chip, h, hart, row, index, address, cycle, expects_plain):
    """Ask for a load or store from this cycle on; returns the hart's state.

    expects_plain    the wheel takes it for a plain one already
    """
    hart["row"] = np.int64(index)
    hart["address"] = address
    hart["when"] = cycle
    is_plain = is_plain_request(chip, hart, row)
    wheel = chip.wheel[0]
    if not expects_plain and wheel["plain"] >> np.uint64(h) & np.uint64(1) != is_plain:
        wheel["plain"] ^= bit(h)
    return L1_REQUEST if asks_l1(chip, hart) else REQUEST


@inlined_step
def set_up_loop(chip, hart, row, pc, start):
    """Go on behind an instruction for hardware loops; returns the hart's state.

    That is GO_ON if its loop's end was not known: then all segments are dropped, this one too.
    """
    hart["seen"] = start + 1
    hart["pc"] = pc + int(row["size"])
    index = find_loop_end(chip, hart, int(row["loop"]))
    if index < 0:
        return RUN
    hart["code"] = np.uint64(0)
    mark_row(chip, index)
    return GO_ON


def make_issue(execute: Callable, in_segment: bool = False) -> Callable:
    """Return the step function that issues an instruction, around this interpreter.

    execute       generated from the declarations, see isa.compiled
    in_segment    it is known to issue before `until`, and a request is expected to be plain
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
            if kind == FENCE_I:  # it sees what others store up to its cycle: no running ahead
                until = chip.wheel[0]["now"] + 1
            start = late_start(chip, hart, fetch, row, start, until)
            base = max(hart["free"], hart["seen"])
        hart["when"] = start
        if not in_segment and start >= until:
            return LATER
        if start > base:
            charge_wait(chip, hart, by_load, start - base)
        if flags & MARKER:
            mark_region(chip, h, int(row["imm"]), start)
        if row["checks"] & hart["checks"] and not is_legal_float(hart, row):
            return illegal_float(chip, hart, fetch, row, pc, start)
        note_issue(chip, h, row, pc, start)
        counts = hart["counts"]
        counts[INSTRUCTIONS] += 1
        counts[COMPRESSED] += size == 2
        regs = hart["regs"]
        first = int(regs[row["rs1"]])
        second = int(regs[row["rs2"]])
        sp = regs[SP]
        out = execute(row["op"], row, regs, pc, hart)
        hart["late_load"] = row["late_load"]
        hart["late_fpu"] = row["late_fpu"]
        hart["issued"] = start
        hart["last"] = np.int64(index)
        hart["handed"] = 0
        hart["free"] = start + 1
        if row["checks"] & MOVES_SP and leaves_stack(hart, sp):
            return stop_at(hart, FAULT_STACK, regs[SP])
        if kind > FPU:
            if kind > BRANCH:
                if in_segment and kind == HWLOOP and flags & COUNTED:
                    return set_up_loop(chip, hart, row, pc, start)
                return rare_instruction(chip, hart, fetch, row, pc, start, out, first, second)
            counts[BRANCHES] += 1
            if out != pc + size:
                taken_branch(chip, hart, fetch, row, pc, start, out)
                return RUN
        hart["seen"] = start + 1
        hart["pc"] = loop_next(hart, pc, size) if flags & LOOP_END else pc + size
        if kind == LOAD or kind == STORE:
            return request_memory(chip, h, hart, row, index, out, start + 1, in_segment)
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
            if kind == UNDECODED:  # what memory holds as the one before it issues is decoded
                hart["when"] = hart["issued"]
                state = LATER if hart["when"] > chip.wheel[0]["now"] else NEEDS_DECODER
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
