"""Where every hart is: its function, its callers, what it waits for and since when."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from isa.program import Program
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.debug.call_chain import Place, call_chain
from soc.dma.control_ports import why_waiting
from soc.event_unit.diagnosis import awaited
from soc.prelude import hart_state as states
from soc.prelude.decoded import STORE, row_of_memory
from soc.result import RunResult, read_memory

ENDED_BY = "is stopped by what it did"

PENDING = (states.L1_REQUEST, states.REQUEST, states.ACCESS, states.SLEEP, states.WAIT)
"""States of a hart whose load or store is under way."""


@dataclass(frozen=True)
class Whereabouts:
    """One hart.

    frames    its call chain, the innermost first
    doing     "runs", "waits at barrier 0 (...)", "is not started", ...
    since     the first cycle of that, None if it runs
    """

    name: str
    frames: tuple[Place, ...]
    doing: str
    since: int | None

    @property
    def text(self) -> str:
        """A line for a person."""
        return line_of(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """As `pulpsim run --json` has it."""
        frames = [
            {"pc": frame.pc, "function": frame.function, "file": frame.file, "line": frame.line}
            for frame in self.frames
        ]
        return {"name": self.name, "doing": self.doing, "since": self.since, "frames": frames}


def line_of(hart: dict[str, Any]) -> str:
    """A line for a person, from the JSON form of a hart."""
    first, *callers = hart["frames"]
    line = f" at {PurePath(first['file']).name}:{first['line']}" if first["file"] else ""
    chain = " < ".join([first["function"] + line, *(frame["function"] for frame in callers)])
    since = "" if hart["since"] is None else f" since cycle {hart['since']:,}"
    return f"{hart['name']}: {chain}: {hart['doing']}{since}"


def name_of(chip: Chip, h: int) -> str:
    """ "core3", "fc"."""
    return "fc" if chip.harts["external"][h] else f"core{h}"


def is_pending(hart: np.void) -> bool:
    """Is an access of a hart under way?"""
    return int(hart["state"]) in PENDING


def pc_of_access(chip: Chip, hart: np.void) -> int:
    """The address of the load or store that is under way."""
    row = row_of_memory.function(chip, int(hart["row"]))
    return int(chip.config[0]["code_base"]) + 2 * row


def pc_of_last(chip: Chip, hart: np.void) -> int:
    """The address of the instruction that a hart has issued last."""
    row = row_of_memory.function(chip, int(hart["last"]))
    return int(chip.config[0]["code_base"]) + 2 * row


def whereabouts(result: RunResult) -> list[Whereabouts]:
    """All harts at the end of a run."""
    return whereabouts_now(result.chip, result.spec, result.program, result.exit.hart)


def whereabouts_now(
    chip: Chip, spec: SocSpec, program: Program, at_fault: int | None = None
) -> list[Whereabouts]:
    """All harts of a chip that stands between two cycles.

    at_fault    the one that has ended the run by what it did
    """
    return [_of_hart(chip, spec, program, h, h == at_fault) for h in range(chip.harts.size)]


def _of_hart(chip: Chip, spec: SocSpec, program: Program, h: int, is_at_fault: bool) -> Whereabouts:
    hart = chip.harts[h]
    is_past = is_pending(hart) or int(hart["state"]) == states.WFI
    pc = pc_of_last(chip, hart) if is_past else int(hart["pc"])
    registers = dict(enumerate(hart["regs"][:32].view(np.uint32).tolist()))

    def word(address: int) -> int | None:
        try:
            return int.from_bytes(read_memory(chip, spec, address, 4), "little")
        except ValueError:
            return None

    frames = call_chain(program, pc, registers, word)
    doing = (ENDED_BY, None) if is_at_fault else doing_of(chip, spec, h)
    return Whereabouts(name_of(chip, h), tuple(frames), *doing)


def doing_of(chip: Chip, spec: SocSpec, h: int) -> tuple[str, int | None]:
    """What a hart does, in words, and since when."""
    hart = chip.harts[h]
    state, since = int(hart["state"]), int(hart["issued"]) + 1
    if state == states.OFF:
        if hart["exited"]:
            return "has exited", int(hart["exit_cycle"])
        return ("is halted", since) if hart["counts"][0] else ("is not started", 0)
    if state == states.STOPPED:
        return ENDED_BY, since - 1
    if state == states.WFI:
        return "waits for an interrupt (wfi)", since
    if state == states.FETCHING:
        return f"waits for its next instruction, at {int(hart['pc']):#010x}", since
    if is_pending(hart):
        return f"waits {_awaited(chip, spec, h)}", since
    return "runs", None


def _awaited(chip: Chip, spec: SocSpec, h: int) -> str:
    """What the access of a hart waits for."""
    hart, names = chip.harts[h], [f"core{core}" for core in range(spec.cores)]
    state, address = int(hart["state"]), int(hart["address"])
    what = "store to" if chip.code[int(hart["row"])]["kind"] == STORE else "load from"
    if state == states.SLEEP:
        return awaited(chip.event_unit[0], h, names)
    if state == states.L1_REQUEST:
        return f"for bank {(address >> 2) % spec.l1.banks} of L1, to {what} {address:#010x}"
    if state == states.WAIT and int(chip.wheel[0]["at_dma"]) >> h & 1:
        return f"at the DMA {why_waiting(chip.dma[0], h)}"
    if int(chip.control[0]["waiting"]) >> h & 1:
        return "at the barrier of the test bench"
    return f"to {what} {address:#010x}"
