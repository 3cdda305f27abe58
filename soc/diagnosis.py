"""Texts about what went wrong in a run: faults of harts, deadlocks, null pointers."""

from isa.assembler.disasm import disassemble
from isa.declare import Isa
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.chip.stacks import stack_message
from soc.chip.state import Chip
from soc.dma.mchan import why_waiting
from soc.event_unit.diagnosis import waits
from soc.guards import null_warning
from soc.prelude import hart_state as harts_module
from soc.prelude.decoded import row_of_memory

FAULTS = {
    harts_module.FAULT_ILLEGAL: "illegal instruction on this chip",
    harts_module.FAULT_CSR: "a CSR that this core does not have, or that cannot be written",
    harts_module.FAULT_BREAKPOINT: "breakpoint, and the program has no trap handler",
    harts_module.FAULT_FETCH: "the hart fetches from outside the code memory, which is L2",
    harts_module.FAULT_EVENT_UNIT: "a register that the event unit does not have",
}


class Diagnosis:
    """Says where and why a program on a chip has failed, from the chip's state in that cycle."""

    def __init__(self, chip: Chip, program: Program, spec: SocSpec, isa: Isa):
        self.chip, self.program, self.spec, self.isa = chip, program, spec, isa

    @property
    def _cycle(self) -> int:
        """Cycles simulated so far."""
        return int(self.chip.wheel[0]["now"])

    def fault_cycle(self, h: int) -> int:
        """The cycle in which a hart did what stopped the simulation; it may have run ahead."""
        hart = self.chip.harts[h]
        fault = int(hart["fault"])
        if fault == harts_module.FAULT_FETCH:
            return int(max(hart["ex_ready"], hart["in_id"]))
        at_bus = (
            harts_module.FAULT_LOAD,
            harts_module.FAULT_STORE,
            harts_module.FAULT_EVENT_UNIT,
        )
        return self._cycle - 1 if fault in at_bus else int(hart["issued"])

    def fault_message(self, h: int) -> str:
        """What a hart did that stopped the simulation."""
        hart = self.chip.harts[h]
        fault, value = int(hart["fault"]), int(hart["fault_value"])
        pc, cycle = int(hart["pc"]), self.fault_cycle(h)
        if fault in (harts_module.FAULT_LOAD, harts_module.FAULT_STORE):
            access = "load" if fault == harts_module.FAULT_LOAD else "store"
            what = f"{access} at {value:#010x}, where there is neither memory nor a register"
            return self.located_access(h, what, self._cycle - 1)
        if fault == harts_module.FAULT_FETCH:
            return f"cycle {cycle}, hart {self._name(h)}, pc {pc:#010x}: {FAULTS[fault]}"
        if fault == harts_module.FAULT_STACK:
            word = int(self.chip.code[int(hart["last"])]["word"])
            what = stack_message(self.chip, self.program, h, value & 0xFFFFFFFF)
            return self.located(h, pc, word, what, cycle, self.program.place_and_line(pc))
        return self.located(h, pc, value, FAULTS[fault], cycle)

    def located_access(self, h: int, what: str, cycle: int) -> str:
        """Say where a hart's load or store is; its pc is ahead of that."""
        row = int(self.chip.harts[h]["row"])
        pc = self.spec.l2.base + 2 * row_of_memory.function(self.chip, row)
        return self.located(h, pc, int(self.chip.code[row]["word"]), what, cycle)

    def located(self, h: int, pc: int, word: int, what: str, cycle: int, place: str = "") -> str:
        text = disassemble(word, self.isa, pc)
        where = f"{pc:#010x} in {place}" if place else f"{pc:#010x}"
        return f"cycle {cycle}, hart {self._name(h)}, pc {where} ({text}): {what}"

    def _name(self, h: int) -> str:
        return "fc" if self.chip.harts[h]["external"] else str(h)

    def deadlock_message(self) -> str:
        """Who waits for what, when nothing can happen any more."""
        names = [f"hart {core}" for core in range(self.spec.cores)]
        parts = list(waits(self.chip.event_unit[0], names))
        groups: dict[str, list[str]] = {}
        for h, hart in enumerate(self.chip.harts):
            state = int(hart["state"])
            if state == harts_module.WFI:
                groups.setdefault("wait for an interrupt (wfi)", []).append(self._name(h))
            elif state == harts_module.OFF and not hart["exited"]:
                groups.setdefault("are not started", []).append(self._name(h))
            elif state == harts_module.WAIT:
                groups.setdefault(f"wait {self._awaited(h)}", []).append(self._name(h))
        parts += [f"harts {', '.join(harts)} {what}" for what, harts in groups.items()]
        return f"deadlock at cycle {self._cycle}: " + "; ".join(parts)

    def _awaited(self, h: int) -> str:
        """What a hart waits for whose access is not answered."""
        if int(self.chip.wheel[0]["at_dma"]) >> h & 1:
            return f"at the DMA {why_waiting(self.chip.dma[0], h)}"
        return f"for an answer from {int(self.chip.harts[h]['address']):#010x}"

    def null_warning(self, place: int) -> tuple[str, int]:
        """The text for an access through a null pointer, the n-th that is noted; and its hart."""
        wheel = self.chip.wheel[0]
        row, h = int(wheel["null_row"][place]), int(wheel["null_hart"][place])
        pc, code = self.spec.l2.base + 2 * row, self.chip.code[row]
        what = null_warning(self.spec, h, code, int(wheel["null_address"][place]))
        where = self.program.place_and_line(pc)
        return self.located(h, pc, int(code["word"]), what, self._cycle - 1, where), h
