"""One simulation: SimPy owns time, the clock domain runs the clocked parts between its events."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from simpy import Environment

from isa.program import Program
from soc.aot.units import bind_for_peripherals, is_any_ahead, start_hart
from soc.chip.profile import float_registers, isa_of, start_of
from soc.chip.spec import SocSpec
from soc.chip.stacks import know_stacks
from soc.chip.state import Chip
from soc.cluster.phases import Phase
from soc.console_text import ConsoleText
from soc.core.decode_cache import CodeMemory, known_rows
from soc.core.decoded_index import RUN_AHEAD
from soc.diagnosis import Diagnosis
from soc.ending import Ending
from soc.engine.event_engine import EventEngine
from soc.engine.interpreter import (
    Interpreter,
    Parts,
    base_extensions,
    interpreter,
    parts,
    superblock_kind,
    with_group_of,
)
from soc.engine.run_ahead import CAREFUL, RanAheadError
from soc.final_counts import close_counts, close_trace
from soc.guards import DEFAULT_GUARDS, Guards
from soc.jit.code_cache import SHARED, CodeCache
from soc.jit.translator import Translator
from soc.peripherals.bus import step
from soc.peripherals.platform import Platform
from soc.prelude.stop_reasons import ASLEEP, DECODE, DMA_ERROR, END, HALT, POLL, TRACE
from soc.reset import load, new_chip
from soc.result import Exit, RunResult
from soc.trace.recorder import Recorder, Recording, buffer_size

BRIEF = 256
"""Cycles at the beginning of a window during which other threads wait: see Link.locked.

While firmware sets the chip up, hardly any window has more.
"""

LONGEST_WINDOW = 1 << 20
"""Cycles between two looks at the world outside: signals, progress."""

INFINITY = float("inf")


class Simulation:
    """A chip with a program in it."""

    recorder_of: type[Recorder] = Recorder
    """What notes the events of a run that is recorded."""

    is_checked = False
    """The chip has shadow memory."""

    def __init__(
        self,
        program: Program,
        spec: SocSpec,
        engine: str,
        on_console: Callable[[str], None],
        progress: Callable[[str], AbstractContextManager],
        recording: Recording | None = None,
        guards: Guards = DEFAULT_GUARDS,
        code_cache: CodeCache = SHARED,
    ):
        self.guards, self.recording = guards, recording
        self.program, self.spec, self.engine = program, spec, engine
        self.is_recorded = recording is not None
        self.progress, self.code_cache = progress, code_cache
        self.registers = float_registers(spec, program)
        self.isa = isa_of(spec, self.registers)
        self.careful = 0  # it goes a cycle at a time up to this one: see soc.engine.run_ahead
        self.is_repeatable = True  # nothing has come from outside since it began
        self.console = ConsoleText(on_console, guards.console_limit, guards.is_raw)
        self.first = 0  # cycle from which it goes on: that of a checkpoint
        self._begin()

    def _begin(self) -> None:
        """Let the chip be at reset, with the program in it, and nothing be known of its run."""
        self.console.begin()
        self.is_asleep = False  # nothing happens in the clocked parts before something outside
        self.extensions = base_extensions(self.isa)
        self._machine_code()  # all that is not kept at once: the chip at reset needs a part of it
        self.chip = self._new_chip()
        wheel = self.chip.wheel
        self.now, self.host = (wheel[name].data for name in ("now", "host"))
        self.env = Environment()
        diagnosis = Diagnosis(self.chip, self.program, self.spec, self.isa)
        self.ending = Ending(self.chip, self.env, diagnosis, self.guards, self.console)
        known = known_rows(self.isa, self.registers, self.spec.core)
        self.code = CodeMemory(self.chip, known)
        kind = superblock_kind(self.is_recorded)
        self.translator = Translator(self.chip, self.code, kind, self.code_cache)
        self.driver: EventEngine | None = None
        self.platform = None if self.spec.control_page else self._new_platform()
        self.recorder = self._new_recorder()
        pc = start_of(self.spec, self.program)
        self._boot(pc)
        if self.engine == "compiled":
            self.extensions |= self.translator.expect(pc)
        self._compile()

    def _new_chip(self) -> Chip:
        events = buffer_size(self.spec) if self.recording else 1
        chip = new_chip(self.spec, self.registers, events, self.is_checked)
        load(chip, self.program)
        know_stacks(chip, self.program)
        return chip

    def _new_platform(self) -> Platform:
        platform = Platform(
            self.env,
            self.spec,
            self.chip,
            self.ending.returned,
            self._put,
            self.ending.warn,
            self.ending.fault_at_bus,
        )
        platform.changed = self._wake
        platform.fail = self.ending.fail
        platform.before_icache = self._before_icache
        return platform

    def _new_recorder(self) -> Recorder | None:
        if self.recording is None:
            return None
        return self.recorder_of(
            self.chip, self.spec, self.program, self.recording, self.ending.warn
        )

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
        self.run_cycles, self.run_briefly = code.entry.unlocked, code.entry.of(self.chip)
        self.run_briefly(0)  # loads the machine code: no part of the run
        bind_for_peripherals()
        self.translator.use(code)

    def _boot(self, pc: int) -> None:
        if self.spec.fabric_controller.present:
            start_hart(self.chip, self.spec.cores, pc, self.spec.core.reset_cycle)
            return
        for core in range(self.spec.cores):
            start_hart(self.chip, core, pc, self.spec.core.reset_cycle)

    def _put(self, byte: int, cluster: int, core: int) -> None:
        self.console.put(byte, cluster * 16 + core)
        self.ending.printed()

    def run(self, max_cycles: int | None = None) -> Exit:
        """Simulate up to the program's end, or this cycle; returns how it ended."""
        self.ending.limit = max_cycles
        self.ending.warn_of_wrong_instructions(self.code)
        while self.ending.exit is None:
            try:
                self._run()
            except KeyboardInterrupt:
                self.interrupt()
            except RanAheadError as error:
                self._begin_anew(error)
                self.ending.limit = max_cycles
        return self.ending.exit

    def _run(self) -> None:
        if self.engine == "event":
            self._run_by_events()
        else:
            self._run_compiled()

    def _before_icache(self) -> None:
        """The instruction cache changes in this cycle: no hart may have run past it."""
        now = int(self.env.now)
        if self._may_be_ahead(now) and is_any_ahead(self.chip, now):
            raise RanAheadError(now, "the instruction cache changes")

    def _may_be_ahead(self, cycle: int) -> bool:
        """Do harts run ahead in this cycle?"""
        return self.engine == "compiled" and cycle >= self.careful

    def _begin_anew(self, error: RanAheadError) -> None:
        """Begin again, carefully; where that cannot be, the run ends."""
        if not self.is_repeatable:
            self.ending.exit = Exit("interrupted", 0, f"{error}; engine='event' lets none do so")
            return
        self.careful = CAREFUL * error.cycle
        if self.recorder:
            self.recorder.drop()
        self._let_go()
        before = self.ending
        self._begin()
        self.ending.exit = before.exit  # interrupted meanwhile

    def run_on(self, cycle: int) -> Exit | None:
        """Simulate up to the start of a cycle, from wherever it is: changes nothing but the time.

        Returns how the program ended, None if it goes on.
        """
        end = self.run(cycle)
        if end.reason != "max_cycles":
            return end
        self.ending.exit = None
        return None

    def use(self, extensions: frozenset[str]) -> None:
        """Be able to execute these extensions."""
        if extensions != self.extensions:
            self.extensions = extensions
            self._compile()

    def interrupt(self) -> None:
        """Let the run end in the cycles under way; any thread may say so."""
        self.ending.interrupt()

    def _run_compiled(self) -> None:
        """Run the clocked parts in lock step, each time up to SimPy's next event."""
        env, now = self.env, self.now
        queue = env._queue  # NOTE: SimPy's peek() takes longer than to look
        ending = self.ending
        limit = INFINITY if ending.limit is None else ending.limit
        self.is_asleep = False
        while ending.exit is None:
            due, cycle = queue[0][0] if queue else INFINITY, now[0]
            if cycle >= limit:
                ending.reach_limit()
            elif due <= cycle:  # others act before the clocked parts' cycle
                step(env)
            elif self.is_asleep and due < INFINITY:
                now[0] = int(min(due, limit))
            else:
                window = 1 if cycle < self.careful else LONGEST_WINDOW
                self._handle(self._run_to(int(min(due, limit, cycle + window))))

    def _wake(self) -> None:
        """Something has changed the clocked parts from outside."""
        self.is_asleep = False

    def _run_by_events(self) -> None:
        """Let SimPy drive every part, up to the end, or to where nothing happens any more."""
        env, ending, wheel = self.env, self.ending, self.chip.wheel[0]
        if self.driver is None:
            self.driver = self._new_driver()
        noted, most = (self.chip.recorder[name].data for name in ("count", "limit"))
        while ending.exit is None:
            if env.peek() == INFINITY:
                ending.deadlock(self.driver.acted)
                return
            if ending.limit is not None and env.peek() >= ending.limit:
                ending.reach_limit()
                wheel["now"] = ending.limit
                return
            is_peripheral = self.driver.is_peripheral_next
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

    def _changed(self) -> None:
        """Event engine: a hart asked the host, or stopped, or has exited."""
        wheel = self.chip.wheel[0]
        wheel["now"] = self.env.now + 1
        reason, wheel["stop"] = int(wheel["stop"]), 0
        self._handle(reason)
        driver = self.driver
        if driver and self.spec.control_page:  # the others' instructions of this cycle still count
            end = driver.at(self.env.event(), int(self.env.now), Phase.END)
            end.callbacks.append(lambda _: self.ending.note_exits())

    @property
    def end(self) -> Exit | None:
        """How it ended, None while it goes on."""
        return self.ending.exit

    @property
    def cycle(self) -> int:
        """Cycles simulated so far."""
        return self.now[0]

    def _run_to(self, end: int) -> int:
        """Simulate cycles before `end`, decoding code as harts come to it."""
        while True:
            reason = self.run_briefly(min(end, self.now[0] + BRIEF))
            if reason == END and self.now[0] < end:
                reason = self.run_cycles(self.chip, end)
            if self.recorder and (reason == TRACE or self.cycle >= self.recorder.end):
                self.recorder.write()
            self.translator.poll(reason == POLL)
            if reason == DECODE:
                self._decode()
            elif reason not in (TRACE, POLL):
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
                self.run_briefly(self.now[0])
        self._know(self.code.decode_again(changes) | self.code.decode_for_waiting_harts())
        if any(self.code.foreseen) and self._may_be_ahead(self.now[0]):
            if self.code.is_foreseen_wrong():
                raise RanAheadError(self.now[0], "code changes that it jumps to")

    def decode_again(self, rows: list[int]) -> None:
        """Decode rows anew whose words have changed from outside."""
        self._know(self.code.decode_again(rows))

    def _know(self, extensions: set[str]) -> None:
        """Be able to execute what has been decoded."""
        if self.code.wrong:
            self.ending.warn_of_wrong_instructions(self.code)
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
            self.host[0] = 0
            self.platform.access.serve(asking)
        if self.ending.nulls != self.ending.noted[0]:
            self.ending.warn_of_nulls()
        if reason in (HALT, DMA_ERROR):
            self.ending.note_faults()
        elif reason == ASLEEP:
            self._fall_asleep()

    def _fall_asleep(self) -> None:
        """Nothing is due in the clocked parts: has the program ended, or is it stuck?"""
        self.is_asleep = True
        self.ending.note_exits()
        if self.ending.exit is None and self.env.peek() == INFINITY:
            self.ending.deadlock(max(int(self.chip.wheel["acted"][0]), int(self.env.now)))

    def result(self, end: Exit, seconds: float) -> RunResult:
        """Close the counters and return what the run leaves."""
        self.translator.remember()
        cycles = self.cycle
        if self.spec.control_page and end.reason == "exit":
            cycles = int(self.chip.harts["exit_cycle"].max()) + 1
        rest = close_counts(self.chip, cycles)
        if self.recorder:
            close_trace(self.recorder, self.chip, rest, cycles, end)
        if self.platform:
            self.platform.finish()
        self._let_go()
        text, warnings = self.ending.said()
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
            trace_events=self.recorder.events if self.recorder else None,
        )

    def _let_go(self) -> None:
        """Part with what refers to each other in circles: Python frees the rest at once then.

        Its collector would come for it later, in the midst of another run.
        """
        for part in filter(None, (self.platform, self.driver, self.env)):
            vars(part).clear()
        self.platform = self.driver = None
