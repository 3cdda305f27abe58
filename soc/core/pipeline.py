"""A hart: the four-stage in-order pipeline of RI5CY and CV32E40P, one instruction at a time.

The pipeline is followed by its cycles, not cycle by cycle. For the next instruction the hart knows
when it is in the decode stage (`in_id`), when EX can take it (`ex_ready`), and which registers the
instruction before delivers late (`late_load`, `late_fpu`, from cycle `ready` on); the latest of
these is its issue cycle. A request to the outside ends the walk: what follows depends on its grant.

Sources: the timing measured on RTL (table and rules A to Y); RI5CY and CV32E40P user manuals.
"""

from collections.abc import Callable

import numpy as np

from soc.chip.state import Chip
from soc.core.branches import jump_register_ready, taken_branch
from soc.core.decoded_index import row_index
from soc.core.float_state import is_legal_float
from soc.core.fpu import follows_division, settle_result
from soc.core.hardware_loop import find_loop_end, loop_next, mark_row
from soc.core.if_stage import (
    await_hand_over,
    fetch_target,
    hand_over,
    hand_over_after_access,
    hand_over_in_time,
)
from soc.core.lsu import asks_for_word, asks_l1
from soc.core.regions import mark_region
from soc.core.stack_check import MOVES_SP, SP, leaves_stack, note_depth
from soc.core.system import illegal_float, rare_instruction
from soc.core.traps import interrupts_enabled
from soc.prelude.bits import bit
from soc.prelude.counters import COUNT
from soc.prelude.decoded import (
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
from soc.prelude.hart_state import (
    FAULT_FETCH,
    FAULT_STACK,
    FETCHING,
    GO_ON,
    L1_REQUEST,
    LATER,
    NEEDS_DECODER,
    REQUEST,
    RUN,
    add_stall,
    stop_at,
)
from soc.prelude.step import cold_step, inlined_step
from soc.prelude.trace_points import note_issue, note_written

INSTRUCTIONS, BRANCHES, COMPRESSED = COUNT.instructions, COUNT.branches, COUNT.compressed
LOAD_USE, JUMP_REGISTER = COUNT.load_use, COUNT.jump_register
FPU_DEPENDENCY, FPU_CONTENTION = COUNT.fpu_dependency, COUNT.fpu_contention


@cold_step
def late_start(chip, hart, fetch, row, start, until):
    """Return the issue cycle of an instruction that waits for more than late operands.

    That is for a result of the FPU under way; jalr for its target register, to ask for its target
    as soon as that is known; a CSR access until the FPU is empty (rules H and Y). `ex_ready` and
    `in_id` may become later.
    """
    if hart["pending"]:
        start = settle_result(chip, hart, row, start, until)
    hart["jump_waits"] = 0
    if row["kind"] == JALR:
        hart["jump_ready"] = jump_register_ready(chip, hart, row["rs1"], hart["ex_ready"])
        hart["jump_waits"] = hart["jump_ready"] > start
        if hart["id_valid"] == 1:
            target = int(hart["regs"][row["rs1"]]) + row["imm"] & 0xFFFFFFFE
            fetch_target(hart, fetch, target, max(hart["in_id"], hart["jump_ready"]))
            hart["id_valid"] = 2
        return max(start, hart["jump_ready"])
    is_csr = row["kind"] == CSR and chip.config[0]["fpu_latency"] != 0
    if is_csr and not follows_division(chip, hart):
        return max(start, hart["fpu_return"] + 1)
    return start


@inlined_step
def add_hazard_stall(chip, hart, by_load, cycles):
    """Count the cycles for which an instruction waited in ID.

    by_load    for a load; else for what late_start says
    """
    cause = LOAD_USE if by_load else FPU_DEPENDENCY
    if hart["jump_waits"]:
        hart["jump_waits"] = 0
        cause = JUMP_REGISTER
    add_stall(chip, hart, cause, cycles)


@inlined_step
def occupy_fpu(chip, hart, row, start):
    """Start an operation of the FPU."""
    if hart["pending"]:
        hart["ex_ready"] = hart["fpu_return"] + 1
        add_stall(chip, hart, FPU_CONTENTION, hart["ex_ready"] - start - 1)
    latency = chip.config[0]["fpu_latency"]
    returns = hart["ex_ready"] + latency
    hart["forwarded"] = returns
    hart["earlier_return"] = hart["fpu_return"]
    hart["earlier_register"] = hart["fpu_register"]
    hart["fpu_return"] = returns
    hart["fpu_register"] = row["rd"]
    hart["pending"] = latency > 1
    if latency > 1:
        hart["fpu_mask"] = row["late_fpu"]


@inlined_step
def request_memory(chip, h, hart, row, index, address, cycle, expects_word):
    """Ask for a load or store from this cycle on; returns the hart's state.

    expects_word    the wheel takes it for one of an aligned word already
    """
    hart["row"] = np.int64(index)
    hart["address"] = address
    hart["when"] = cycle
    is_word = asks_for_word(chip, hart, row)
    wheel = chip.wheel[0]
    if not expects_word and wheel["words"] >> np.uint64(h) & np.uint64(1) != is_word:
        wheel["words"] ^= bit(h)
    return L1_REQUEST if asks_l1(chip, hart) else REQUEST


@inlined_step
def set_up_loop(chip, hart, row, pc, start):
    """Go on after an instruction for hardware loops; returns the hart's state.

    That is GO_ON if its loop's end was not known: then all superblocks are dropped, this one too.
    """
    hart["in_id"] = start + 1
    hart["pc"] = pc + int(row["size"])
    index = find_loop_end(chip, hart, int(row["loop"]))
    if index < 0:
        return RUN
    hart["code"] = np.uint64(0)
    mark_row(chip, index)
    return GO_ON


def make_issue(execute: Callable, in_superblock: bool = False) -> Callable:
    """Return the step function that issues an instruction, around this interpreter.

    execute       generated from the declarations, see isa.compiled
    in_superblock    it issues before `until`, and what it asks for is taken for an aligned word
    """

    @inlined_step
    def issue(chip, h, hart, fetch, row, index, pc, until):
        """Issue the instruction in the decode stage, if that is in a cycle before `until`.

        Returns the hart's new state; LATER if it does not issue yet.
        """
        kind = row["kind"]
        flags = row["flags"]
        size = int(row["size"])
        base = max(hart["ex_ready"], hart["in_id"])
        start = base
        waits = row["uses_load"] & hart["late_load"] | row["uses_fpu"] & hart["late_fpu"]
        if waits:
            start = max(start, hart["forwarded"])
        by_load = start > base and hart["late_load"] != 0
        if hart["pending"] or kind >= JALR:
            if kind == FENCE_I:  # it sees what others store up to its cycle: no running ahead
                until = chip.wheel[0]["now"] + 1
            start = late_start(chip, hart, fetch, row, start, until)
            base = max(hart["ex_ready"], hart["in_id"])
        hart["when"] = start
        if not in_superblock and start >= until:
            return LATER
        if start > base:
            add_hazard_stall(chip, hart, by_load, start - base)
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
        note_written(chip, h, row["wd"], regs[row["wd"]], pc, start)
        note_written(chip, h, row["rp"], regs[row["rp"]], pc, start)
        hart["late_load"] = row["late_load"]
        hart["late_fpu"] = row["late_fpu"]
        hart["issued"] = start
        hart["last"] = np.int64(index)
        hart["id_valid"] = 0
        hart["ex_ready"] = start + 1
        if row["checks"] & MOVES_SP:
            if leaves_stack(hart, sp):
                return stop_at(hart, FAULT_STACK, regs[SP])
            note_depth(hart)
        if kind > FPU:
            if kind > BRANCH:
                if in_superblock and kind == HWLOOP and flags & COUNTED:
                    return set_up_loop(chip, hart, row, pc, start)
                return rare_instruction(chip, hart, fetch, row, pc, start, out, first, second)
            counts[BRANCHES] += 1
            if out != pc + size:
                taken_branch(chip, hart, fetch, row, pc, start, out)
                return RUN
        hart["in_id"] = start + 1
        hart["pc"] = loop_next(hart, pc, size) if flags & LOOP_END else pc + size
        if kind == LOAD or kind == STORE:
            return request_memory(chip, h, hart, row, index, out, start + 1, in_superblock)
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
            index = np.uint64(row_index(chip.config[0], pc))
            if index >= np.uint64(chip.config[0]["rows"]):
                state = stop_at(hart, FAULT_FETCH, pc)
                break
            row = chip.code[index]
            kind = row["kind"]
            if kind == UNDECODED:  # what memory holds as the one before it issues is decoded
                hart["when"] = hart["issued"]
                state = LATER if hart["when"] > chip.wheel[0]["now"] else NEEDS_DECODER
                break
            if hart["id_valid"] == 0 and not hand_over(chip, hart, fetch, row, pc):
                is_there = hand_over_in_time(hart, fetch, row, pc)
                if not is_there:
                    ready = hart["ex_ready"]
                    is_there = await_hand_over(chip, hart, fetch, row, pc, ready)
                if not is_there:
                    state = FETCHING
                    break
            state = issue(chip, h, hart, fetch, row, index, pc, until)
            if kind > BRANCH and state != LATER:
                hart["when"] = hart["ex_ready"]
                if interrupts_enabled(hart):
                    until = min(until, hart["ex_ready"])
        if state == LATER:
            state = RUN
        elif (state == L1_REQUEST or state == REQUEST) and kind <= STORE:
            hand_over_after_access(chip, hart, fetch)
        hart["state"] = state
        return state

    return advance
