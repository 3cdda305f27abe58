"""One simulation: SimPy owns time, the clock domain runs the clocked parts between its events."""

import codecs
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
from simpy import Environment

from isa.disasm import disassemble
from isa.program import Program
from soc import hart_status as harts_module
from soc.chip import float_registers, isa_of, load, new_chip, start_of
from soc.chip_state import Chip
from soc.code_memory import CodeMemory, known_rows
from soc.code_rows import RUN_AHEAD, row_of_memory
from soc.dma import error_message, why_waiting
from soc.event_engine import END_OF_CYCLE, SIGNAL, EventEngine
from soc.event_unit_waits import waits
from soc.guards import DEFAULT_GUARDS, Guards, console_warning, null_warning, told
from soc.interpreter import (
    Interpreter,
    Parts,
    base_extensions,
    interpreter,
    parts,
    segment_kind,
    with_group_of,
)
from soc.links import bind_for_peripherals, start_hart
from soc.peripherals.later import later
from soc.platform import Platform
from soc.recorder import Recorder, Recording, buffer_size
from soc.result import Exit, RunResult
from soc.spec import SocSpec
from soc.stacks import know_stacks, stack_message
from soc.state import COUNT, COUNTS
from soc.stop_reasons import ASLEEP, DECODE, DMA_ERROR, END, HALT, LOOK, TRACE
from soc.translation import Translator

BRIEF = 256
"""Cycles at the beginning of a window during which other threads wait: see Link.locked.

While firmware sets the chip up, hardly any window has more.
"""

LONGEST_WINDOW = 1 << 20
"""Cycles between two looks at the world outside: signals, progress."""

PERIPHERAL = 1 << 8
"""Who is told to have stopped a run, where that is no hart and not the DMA."""

WAITING = {
    harts_module.SLEEP: COUNT.event,
    harts_module.WFI: COUNT.wfi,
    harts_module.OFF: COUNT.off,
    harts_module.L1_REQUEST: COUNT.l1_contention,
    harts_module.FETCHING: COUNT.fetch,
}
"""Cause of the cycles of a hart that waits at the end, by its state."""

WAITING_CAUSES = np.array([WAITING.get(state, 0) for state in range(harts_module.LATER + 1)])

FAULTS = {
    harts_module.FAULT_ILLEGAL: "illegal instruction on this chip",
    harts_module.FAULT_CSR: "a CSR that this core does not have, or that cannot be written",
    harts_module.FAULT_BREAKPOINT: "breakpoint, and the program has no trap handler",
    harts_module.FAULT_FETCH: "the hart fetches from outside the code memory, which is L2",
    harts_module.FAULT_EVENT_UNIT: "a register that the event unit does not have",
}


class Simulation:
    """A chip with a program in it."""

    recorder_of: type[Recorder] = Recorder
    """What takes up the events of a run that is recorded."""

    def __init__(
        self,
        program: Program,
        spec: SocSpec,
        engine: str,
        on_console: Callable[[str], None],
        progress: Callable[[str], AbstractContextManager],
        recording: Recording | None = None,
        guards: Guards = DEFAULT_GUARDS,
    ):
        self.guards, self.printed, self.nulls = guards, 0, 0
        self.program, self.spec, self.engine = program, spec, engine
        self.progress = progress
        registers = float_registers(spec, program)
        self.isa = isa_of(spec, registers)
        self.extensions = base_extensions(self.isa)
        self.is_recorded = recording is not None
        self._machine_code()  # all that is not kept at once: the chip at reset needs a part of it
        self.chip: Chip = new_chip(spec, registers, buffer_size(spec) if recording else 1)
        load(self.chip, program)
        know_stacks(self.chip, program)
        core = spec.core
        rows = known_rows(core.isa, registers, core.small_floats, core.fpu_latency)
        wheel = self.chip.wheel
        self.now, self.host, self.noted = (wheel[name].data for name in ("now", "host", "nulls"))
        self.code = CodeMemory(self.chip, rows)
        kind = segment_kind(recording is not None)
        self.translator = Translator(self.chip, self.code, kind)
        self.env = Environment()
        self.text: list[str] = []
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.on_console = on_console
        self.warnings: list[str] = []
        self.end: Exit | None = None
        self.faults: list[tuple[int, int, str, str]] = []
        self.limit: int | None = None
        self.is_asleep = False  # nothing happens in the clocked parts before something outside
        self.platform: Platform | None = None
        self.driver: EventEngine | None = None
        if not spec.control_page:
            self.platform = Platform(
                self.env,
                spec,
                self.chip,
                self._exit,
                self._put,
                self.warn,
                self._fault_at_bus,
            )
            self.platform.changed = self._wake
        self.recorder: Recorder | None = None
        if recording:
            self.recorder = self.recorder_of(self.chip, spec, program, recording, self.warn)
        pc = start_of(spec, program)
        self._boot(pc)
        if engine == "compiled":
            self.extensions |= self.translator.expect(pc)
        self._compile()

    def _machine_code(self) -> Interpreter | Parts:
        """The step functions for the extensions that the program uses, compiled if need be."""
        if self.engine == "event":
            return parts(self.isa, self.extensions, self.progress)
        return interpreter(self.isa, self.extensions, self.progress, records=self.is_recorded)

    def _compile(self) -> None:
        """Get the step functions for the extensions that the program uses."""
        code = self._machine_code()
        if isinstance(code, Parts):
            self.parts = code
            return
        self.run_cycles, self.run_briefly = code.entry.unlocked, code.entry.locked
        self.run_briefly(self.chip, 0)  # loads the machine code: no part of the run
        bind_for_peripherals()
        self.translator.use(code)

    def _boot(self, pc: int) -> None:
        if self.spec.fabric_controller.present:
            start_hart(self.chip, self.spec.cores, pc, self.spec.core.reset_cycle)
            return
        for core in range(self.spec.cores):
            start_hart(self.chip, core, pc, self.spec.core.reset_cycle)

    def _exit(self, code: int) -> None:
        self.end = Exit("exit", code)

    def warn(self, text: str, who: int = PERIPHERAL) -> None:
        """Tell what is legal but hardly meant; see _stop for `who`."""
        self.warnings.append(text)
        if self.guards.is_strict and self.end is None:
            self._stop(max(int(self.env.now), self.cycle - 1), who, text, "warning")

    def _warn_of_nulls(self) -> None:
        """Tell of accesses through null pointers that are new."""
        wheel, cycle = self.chip.wheel[0], self.cycle - 1
        for place in range(self.nulls, int(wheel["nulls"])):
            row, h = int(wheel["null_row"][place]), int(wheel["null_hart"][place])
            pc, code = self.spec.l2.base + 2 * row, self.chip.code[row]
            what = null_warning(self.spec, h, code, int(wheel["null_address"][place]))
            where = self.program.place_and_line(pc)
            self.warn(self._located(h, pc, int(code["word"]), what, cycle, where), h)
        self.nulls = int(wheel["nulls"])

    def _put(self, byte: int) -> None:
        limit = self.guards.console_limit
        self.printed += 1
        if self.printed > limit:
            if self.printed == limit + 1 and self.guards.is_strict:
                self._stop(int(self.env.now), PERIPHERAL, console_warning(limit), "warning")
            return
        text = self.decoder.decode(bytes([byte]))
        if text:
            self.text.append(text)
            self.on_console(text)

    def run(self, max_cycles: int | None = None) -> Exit:
        """Simulate up to the program's end, or this cycle; returns how it ended."""
        self.limit = max_cycles
        run = self._run_by_events if self.engine == "event" else self._run_compiled
        try:
            run()
        except KeyboardInterrupt:
            self.interrupt()
        assert self.end is not None
        return self.end

    def run_on(self, cycle: int) -> Exit | None:
        """Simulate up to the start of a cycle, from wherever it is: changes nothing but the time.

        Returns how the program ended, None if it goes on.
        """
        end = self.run(cycle)
        if end.reason != "max_cycles":
            return end
        self.end = None
        return None

    def use(self, extensions: frozenset[str]) -> None:
        """Be able to execute these extensions."""
        if extensions != self.extensions:
            self.extensions = extensions
            self._compile()

    def interrupt(self) -> None:
        """Let the run end in the cycles under way; any thread may say so."""
        self.end = Exit("interrupted", 0, f"interrupted in cycle {self.cycle}")

    def _run_compiled(self) -> None:
        """Run the clocked parts in lock step, each time up to SimPy's next event."""
        env, now = self.env, self.now
        limit = float("inf") if self.limit is None else self.limit
        self.is_asleep = False
        while self.end is None:
            due = env.peek()
            if now[0] >= limit:
                self.end = self._limit_reached()
            elif due <= now[0]:  # others act before the clocked parts' cycle
                env.step()
            elif self.is_asleep and due < float("inf"):
                now[0] = int(min(due, limit))
            else:
                self._handle(self._run_to(int(min(due, limit, now[0] + LONGEST_WINDOW))))

    def _wake(self) -> None:
        """Something has changed the clocked parts from outside."""
        self.is_asleep = False

    def _run_by_events(self) -> None:
        """Let SimPy drive every part, up to the end, or to where nothing happens any more."""
        env, wheel = self.env, self.chip.wheel[0]
        if self.driver is None:
            self.driver = self._new_driver()
        noted, most = (self.chip.recorder[name].data for name in ("count", "limit"))
        while self.end is None:
            if env.peek() == float("inf"):
                self._end_in_deadlock(self.driver.acted)
                return
            if self.limit is not None and env.peek() >= self.limit:
                self.end = self._limit_reached()
                wheel["now"] = self.limit
                return
            is_peripheral = env._queue[0][1] < SIGNAL  # NOTE: SimPy tells of the time alone
            env.step()
            if is_peripheral:
                self.driver.act()
            if self.recorder and noted[0] >= most[0] > 0:
                wheel["now"] = env.now
                self.recorder.write()
        wheel["now"] = env.now

    def _new_driver(self) -> EventEngine:
        driver = EventEngine(self.env, self.chip, self.parts, self._decode, self._changed)
        if self.platform:
            self.platform.changed = driver.deliver
        return driver

    def _limit_reached(self) -> Exit:
        return Exit("max_cycles", 0, f"cycle limit of {self.limit} reached")

    def _changed(self) -> None:
        """Event engine: a hart asked the host, or stopped, or has exited."""
        wheel = self.chip.wheel[0]
        wheel["now"] = self.env.now + 1
        reason, wheel["stop"] = int(wheel["stop"]), 0
        self._handle(reason)
        driver = self.driver
        if driver and self.spec.control_page:  # the others' instructions of this cycle still count
            end = driver.at(self.env.event(), int(self.env.now), END_OF_CYCLE)
            end.callbacks.append(lambda _: self._note_exits())

    @property
    def cycle(self) -> int:
        """Cycles simulated so far."""
        return self.now[0]

    def _run_to(self, end: int) -> int:
        """Simulate cycles before `end`, decoding code as harts come to it."""
        while True:
            reason = self.run_briefly(self.chip, min(end, self.now[0] + BRIEF))
            if reason == END and self.now[0] < end:
                reason = self.run_cycles(self.chip, end)
            if self.recorder and (reason == TRACE or self.cycle >= self.recorder.end):
                self.recorder.write()
            self.translator.look(reason == LOOK)
            if reason == DECODE:
                self._decode()
            elif reason not in (TRACE, LOOK):
                return int(reason)

    def _decode(self) -> None:
        """Decode for the harts that wait for it; compile what is new.

        Before code changes, the harts that do not wait run on with what it was.
        """
        changes = self.code.changes()
        if changes:
            self.chip.wheel[0]["fence"] = RUN_AHEAD
            if self.driver:
                self.driver.run_others()
            else:
                self.run_briefly(self.chip, self.now[0])
        extensions = self.code.decode_again(changes) | self.code.decode_for_waiting_harts()
        for extension in extensions - self.extensions:
            self.extensions = with_group_of(self.isa, self.extensions, extension)
            self._compile()
            if self.driver:
                self.driver.parts = self.parts
        if self.engine == "compiled":
            self.translator.recall()

    def _handle(self, reason: int) -> None:
        asking = self.host[0]
        if asking and self.platform:
            for h in range(asking.bit_length()):
                if asking >> h & 1:
                    self.platform.access.serve(h)
            self.host[0] = 0
        if self.nulls != self.noted[0]:
            self._warn_of_nulls()
        if reason in (HALT, DMA_ERROR):
            self._note_faults()
        elif reason == ASLEEP:
            self._fall_asleep()

    def _note_faults(self) -> None:
        """What stops the simulation: harts, perhaps several in a cycle, and the DMA."""
        for h in np.flatnonzero(self.chip.harts["state"] == harts_module.STOPPED).tolist():
            self._stop(self._fault_cycle(h), h, self.fault_message(h))
        if self.chip.dma[0]["error"]:
            text = f"cycle {self.cycle - 1}: dma: {error_message(self.chip.dma[0])}"
            self._stop(self.cycle - 1, self.chip.harts.size, text)

    def _fault_at_bus(self, h: int, why: str) -> None:
        """A hart's request to a peripheral leads nowhere: that stops the run."""
        cycle = int(self.env.now)
        self._stop(cycle, h, self._located_access(h, why, cycle))

    def _stop(self, cycle: int, who: int, message: str, reason: str = "trap") -> None:
        """End the run because of what happened in this cycle, where no hart is ahead of it.

        who    did it: a hart, or after all harts the DMA, or PERIPHERAL. The first is told, of one
               cycle's also
        """
        if all(who != other for _, other, *_ in self.faults):
            self.faults.append((cycle, who, message, reason))
            last = cycle + int(self.chip.config[0]["lookahead"])
            later(self.env, max(0, last - self.env.now), self._stopped)

    def _stopped(self) -> None:
        if self.end is None:
            _, _, message, reason = min(self.faults)
            self.end = Exit(reason, 0, message)

    def _fall_asleep(self) -> None:
        """Nothing is due in the clocked parts: has the program ended, or is it stuck?"""
        self.is_asleep = True
        self._note_exits()
        if self.end is None and self.env.peek() == float("inf"):
            self._end_in_deadlock(max(self.now[0] - 1, int(self.env.now)))

    def _end_in_deadlock(self, last: int) -> None:
        """Nothing happens any more: told in the cycle after the last in which something did.

        last    cycle in which a part did, but for instructions of harts that ran ahead
        """
        last = max(last, int(self.chip.harts["issued"].max()))
        if self.limit is not None and last + 1 >= self.limit:
            self.now[0], self.end = self.limit, self._limit_reached()
        else:
            self.now[0] = last + 1
            self.end = Exit("deadlock", 0, self.deadlock_message())

    def _note_exits(self) -> None:
        """On the test benches the program has ended when all cores have."""
        if not self.spec.control_page:
            return
        cores = self.chip.harts[: self.spec.cores]
        if cores["exited"].all():
            codes = [int(code) for code in cores["exit_code"] if code]
            self.end = Exit("exit", codes[0] if codes else 0)

    def _fault_cycle(self, h: int) -> int:
        """The cycle in which a hart did what stopped the simulation; it may have run ahead."""
        hart = self.chip.harts[h]
        fault = int(hart["fault"])
        if fault == harts_module.FAULT_FETCH:
            return int(max(hart["free"], hart["seen"]))
        at_bus = (
            harts_module.FAULT_LOAD,
            harts_module.FAULT_STORE,
            harts_module.FAULT_EVENT_UNIT,
        )
        return self.cycle - 1 if fault in at_bus else int(hart["issued"])

    def fault_message(self, h: int) -> str:
        """What a hart did that stopped the simulation."""
        hart = self.chip.harts[h]
        fault, value = int(hart["fault"]), int(hart["fault_value"])
        pc, cycle = int(hart["pc"]), self._fault_cycle(h)
        if fault in (harts_module.FAULT_LOAD, harts_module.FAULT_STORE):
            access = "load" if fault == harts_module.FAULT_LOAD else "store"
            what = f"{access} at {value:#010x}, where there is neither memory nor a register"
            return self._located_access(h, what, self.cycle - 1)
        if fault == harts_module.FAULT_FETCH:
            return f"cycle {cycle}, hart {self._name(h)}, pc {pc:#010x}: {FAULTS[fault]}"
        if fault == harts_module.FAULT_STACK:
            word = int(self.chip.code[int(hart["last"])]["word"])
            what = stack_message(self.chip, self.program, h, value & 0xFFFFFFFF)
            return self._located(h, pc, word, what, cycle, self.program.place_and_line(pc))
        return self._located(h, pc, value, FAULTS[fault], cycle)

    def _located_access(self, h: int, what: str, cycle: int) -> str:
        """Say where a hart's load or store is; its pc is ahead of that."""
        row = int(self.chip.harts[h]["row"])
        pc = self.spec.l2.base + 2 * row_of_memory.function(self.chip, row)
        return self._located(h, pc, int(self.chip.code[row]["word"]), what, cycle)

    def _located(self, h: int, pc: int, word: int, what: str, cycle: int, place: str = "") -> str:
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
        return f"deadlock at cycle {self.cycle}: " + "; ".join(parts)

    def _awaited(self, h: int) -> str:
        """What a hart waits for whose access is not answered."""
        if int(self.chip.wheel[0]["at_dma"]) >> h & 1:
            return f"at the DMA {why_waiting(self.chip.dma[0], h)}"
        return f"for an answer from {int(self.chip.harts[h]['address']):#010x}"

    def result(self, end: Exit, seconds: float) -> RunResult:
        """Close the counters and return what the run leaves."""
        self.translator.remember()
        cycles = self.cycle
        if self.spec.control_page and end.reason == "exit":
            cycles = int(self.chip.harts["exit_cycle"].max()) + 1
        counts = self.chip.harts["counts"]
        before = counts.copy()
        close_counts(self.chip, cycles)
        if self.recorder:
            self._close_trace(counts - before, cycles, end)
        self._let_go()
        text, limit = "".join(self.text), self.guards.console_limit
        if self.spec.control_page:
            page = self.chip.control[0]
            self.printed, limit = int(page["length"]), min(limit, page["text"].size)
            text = bytes(page["text"][: min(self.printed, limit)]).decode("utf-8", "replace")
        warnings = told(self.warnings)
        if self.printed > limit:
            warnings = (*warnings, console_warning(limit, self.printed - limit))
        return RunResult(
            end,
            cycles,
            text,
            self.spec,
            self.chip,
            self.program,
            self.engine,
            seconds,
            warnings,
            trace_events=self.recorder.writer.count if self.recorder else None,
        )

    def _let_go(self) -> None:
        """Part with what refers to each other in circles: Python frees the rest at once then.

        Its collector would come for it later, in the midst of another run.
        """
        for part in filter(None, (self.platform, self.driver, self.env)):
            vars(part).clear()
        self.platform = self.driver = None

    def _close_trace(self, rest: np.ndarray, cycles: int, end: Exit) -> None:
        """End the recording with the counts that the trace's events add up to."""
        assert self.recorder
        banks = self.chip.banks
        why = f"the run was {end.message}" if end.reason == "interrupted" else ""
        self.recorder.close(
            rest,
            cycles,
            why,
            exit=vars(end),
            counts=[
                dict(zip(COUNTS, counts.tolist(), strict=True))
                for counts in self.chip.harts["counts"]
            ],
            l1=[{name: int(bank[name]) for name in ("accesses", "conflicts")} for bank in banks],
        )


def close_counts(chip: Chip, cycles: int) -> None:
    """Let each hart's cycles be those simulated: what it waits for at the end is counted too."""
    chip.harts["counts"] = closed_counts(chip, cycles)


def closed_counts(chip: Chip, cycles: int, waiting: np.ndarray = WAITING_CAUSES) -> np.ndarray:
    """counts[harts, COUNTS] with what harts wait for at this cycle, which is counted only later.

    waiting    cause by the state of a hart; 0: what it waited for last
    """
    closed: np.ndarray = chip.harts["counts"].copy()
    counted = closed[:, COUNT.instructions] + closed[:, COUNT.load_use :].sum(axis=1)
    awaited = waiting[chip.harts["state"]]
    last = np.where(chip.harts["cause"], chip.harts["cause"], COUNT.load_external)
    cause = np.where((awaited == 0) | (counted > cycles), last, awaited)
    closed[np.arange(len(closed)), cause] += cycles - counted
    return closed
