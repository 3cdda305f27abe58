"""The readable engine: SimPy schedules every part of the chip, one process each.

A process for each hart, for L1's arbiter, the DMA, the event unit. They call the step functions
that the compiled loop fuses, in the phases of a cycle (soc.cluster.phases.Phase): SimPy orders
events of one time by priority. Between two instructions of a hart nothing is skipped; the
instruction cache is clocked when something happens to it. So this defines what the compiled engine,
which lets harts run ahead, must come to. Where a step function enters a hart into the timing wheel,
that is a letter to the hart's process: `deliver` passes it on as an event.
"""

from collections.abc import Callable, Generator

from simpy import Environment, Event
from simpy.events import EventPriority

from soc.chip.state import Chip
from soc.cluster.phases import Phase
from soc.engine.interpreter import Parts
from soc.prelude.bits import lowest_index
from soc.prelude.hart_state import GO_ON, L1_REQUEST, RUN
from soc.prelude.wheel import NEVER, PORTS

HARTS = 64
"""Priorities of SimPy's events in a phase, one for each hart. SimPy's own are 0 and 1."""


AFTER_DMA = 1
"""Place in a phase of the generator, which has the DMA's ports: its store of a word is the last."""


class EventEngine:
    """Drives the clocked parts of a chip by SimPy alone.

    acted    the last cycle in which a part did something, but for the instruction cache

    Ports
        parts      the step functions, compiled
        decode     called when harts have come to code that is not decoded
        changed    called in cycles in which a hart asked the host or stopped the simulation
    """

    def __init__(
        self,
        env: Environment,
        chip: Chip,
        parts: Parts,
        decode: Callable[[], None],
        changed: Callable[[], None],
    ):
        self.env, self.chip, self.parts = env, chip, parts
        self.acted = -1
        self.decode, self.changed = decode, changed
        wheel, state = chip.wheel, chip.harts
        self.entered, self.resume = wheel["due"].data, wheel["resume"].data
        self.fence = wheel["fence"].data
        self.dma_busy, self.host, self.stop = (wheel[n].data for n in ("dma_busy", "host", "stop"))
        self.slots = wheel["slots"][0]
        self.unit_next = chip.event_unit["next"].data
        self.icache_wake = chip.icache["wake"].data
        self.state, self.when, self.exited = (state[n].data for n in ("state", "when", "exited"))
        harts = range(state.size)
        self.due = [env.event() for _ in harts]
        self.going = [env.event() for _ in harts]
        self.requests = env.event()
        self.posted = 0
        self.undecoded = env.event()
        self.dma_awake = env.event()
        self.unit_due = env.event()
        self.unit_cycle = NEVER
        for h in harts:
            env.process(self.hart(h))
        env.process(self.decoder())
        env.process(self.l1())
        env.process(self.dma())
        self.icache_cycle = NEVER
        env.process(self.event_unit())
        self.asking = wheel["asking"]
        self.has_page = bool(chip.config[0]["control_page"] | chip.control[0]["device_ports"])
        self.page_busy, self.page_irq = (chip.control[n].data for n in ("busy", "irq_cycle"))
        self.generating = env.event()
        self.generated = -1
        self.irq_cycle = NEVER
        self.ports_cycle = NEVER
        self.ports, self.asked = wheel["ports"].data, wheel["asked"].data
        if self.has_page:
            env.process(self.generator())
        self.deliver()

    @property
    def is_peripheral_next(self) -> bool:
        """Is SimPy's next event one of a process behind the bus?

        NOTE: SimPy tells of the next event's time alone.
        """
        return bool(self.env._queue[0][1] < HARTS * Phase.SIGNAL)

    @property
    def now(self) -> int:
        """The cycle."""
        return int(self.env.now)

    def act(self) -> int:
        """Note that a part does something in this cycle; returns the cycle."""
        self.acted = self.now
        return self.acted

    def at(self, event: Event, cycle: int, phase: Phase, hart: int = 0) -> Event:
        """Let an event happen in this phase of a cycle."""
        if event.callbacks is not None and not event.triggered:
            event._ok = True
            event._value = None
            self.env.schedule(event, EventPriority(HARTS * phase + hart), cycle - self.env.now)
        return event

    def hart(self, h: int) -> Generator[Event, None, None]:
        """Serve a hart's requests as they fall due; run it on when it is granted."""
        self.env.process(self.run_on(h))
        while True:
            yield self.due[h]
            self.due[h] = self.env.event()
            now = self.act()
            self.go_on(self.parts.collect_hart(self.chip, h, now))
            if self.state[h] == L1_REQUEST and self.when[h] <= now:
                self.posted |= 1 << h
                self.at(self.requests, now, Phase.ACCESS_L1)
            if self.asked[0]:
                self.at(self.requests, now, Phase.ACCESS_L1)
            self.deliver()

    def collect_ports(self, _: Event) -> None:
        """Let masters of L2's ports ask that are no harts; they may have been woken for nothing."""
        self.ports_cycle = NEVER
        if self.ports[0] <= self.now:
            self.parts.collect_ports(self.chip, self.now)
            if self.asked[0]:
                self.at(self.requests, self.now, Phase.ACCESS_L1)
        self.deliver()

    def run_on(self, h: int) -> Generator[Event, None, None]:
        """Issue a hart's next instruction, if that is in this cycle."""
        while True:
            yield self.going[h]
            self.going[h] = self.env.event()
            self.run(h, self.act() + 1)
            if self.resume[0]:
                self.at(self.undecoded, self.now, Phase.DECODE)
            self.deliver()

    def run(self, h: int, end: int) -> None:
        """Let a hart run on, in cycles before `end`."""
        self.parts.run_hart(self.chip, h, self.now, end, GO_ON)
        if self.exited[h]:
            self.changed()

    def decoder(self) -> Generator[Event, None, None]:
        """Decode for the harts that wait for it at the end of a cycle; they run on in it."""
        while True:
            yield self.undecoded
            self.undecoded = self.env.event()
            while self.resume[0]:
                self.decode()
                waiting, self.resume[0] = self.resume[0], 0
                while waiting:
                    h = lowest_index(waiting)
                    waiting &= waiting - 1
                    self.run(h, self.now + 1)
            self.deliver()

    def run_others(self) -> None:
        """Let harts that run, but for those that wait for the decoder, run ahead as far as any may.

        So they do in the compiled engine, some before the cycle in which code changes.
        """
        self.fence[0] = 0
        for h, state in enumerate(self.state):
            if state == RUN and not self.resume[0] >> h & 1:
                self.run(h, NEVER)

    def l1(self) -> Generator[Event, None, None]:
        """Arbitrate the banks in cycles with requests."""
        while True:
            yield self.requests
            self.requests = self.env.event()
            posted, self.posted = self.posted, 0
            self.go_on(self.parts.access_l1(self.chip, posted, self.now))
            if self.asked[0]:
                self.go_on(self.parts.grant_ports_of_l2(self.chip, self.act()))
            self.deliver()

    def dma(self) -> Generator[Event, None, None]:
        """Clock the DMA while it is busy."""
        chip = self.chip
        while True:
            if self.dma_busy[0]:
                self.parts.signal_dma(chip, self.now)
                self.deliver()
            while not self.dma_busy[0]:
                yield self.dma_awake
                self.dma_awake = self.env.event()
            yield self.at(self.env.event(), self.now, Phase.DMA_REQUEST)
            granted = self.parts.grant_ports(chip.dma[0])
            lanes = self.parts.request_dma_lanes(chip, self.act())
            yield self.at(self.env.event(), self.now, Phase.DMA_ACCESS)
            self.go_on(self.parts.cycle_dma(chip, granted, lanes, self.now))
            self.deliver()
            yield self.at(self.env.event(), self.now + 1, Phase.SIGNAL)

    def event_unit(self) -> Generator[Event, None, None]:
        """Clock the event unit in cycles in which something happens to it."""
        while True:
            yield self.unit_due
            self.unit_due = self.env.event()
            self.unit_cycle = NEVER
            if self.unit_next[0] <= self.now:
                self.go_on(self.parts.clock_event_unit(self.chip, self.act()))
            self.deliver()

    def icache(self, _: Event) -> None:
        """Clock the instruction cache; it may have been woken for nothing."""
        self.icache_cycle = NEVER
        if self.icache_wake[0] <= self.now:
            self.parts.step_icache(self.chip, self.now)
        self.deliver()

    def generator(self) -> Generator[Event, None, None]:
        """Clock the generator of the test benches' control page while it is busy."""
        while True:
            yield self.generating
            self.generating = self.env.event()
            self.generated = self.act()
            self.parts.generator_request(self.chip, self.now)
            yield self.at(self.env.event(), self.now, Phase.DMA_ACCESS, AFTER_DMA)
            self.asking.fill(0)  # requests that the other engine's short way would have served
            self.parts.cycle_generator(self.chip, self.now)
            self.deliver()

    def interrupt(self, _: Event) -> None:
        """Raise the control page's interrupt, unless it has been taken back."""
        self.irq_cycle = NEVER
        if self.page_irq[0] == self.now:
            self.parts.interrupt_from_control_page(self.chip, self.act())
        self.deliver()

    def deliver_to_page(self) -> None:
        """Let the control page act when it has to."""
        if self.page_busy[0]:
            self.at(self.generating, self.now + (self.generated == self.now), Phase.DMA_REQUEST)
        irq = self.page_irq[0]
        if self.now <= irq < self.irq_cycle:
            self.irq_cycle = irq
            event = self.at(self.env.event(), irq, Phase.DMA_REQUEST)
            event.callbacks.append(self.interrupt)

    def go_on(self, harts: int) -> None:
        """Let these harts run on at the end of this cycle."""
        now, rest = self.now, int(harts)
        while rest:
            h = lowest_index(rest)
            rest &= rest - 1
            self.at(self.going[h], now, Phase.GO_ON, h)

    def deliver(self) -> None:
        """Pass on what step functions have entered for later cycles."""
        now, entered = self.now, self.entered[0]
        if entered:
            self.entered[0] = 0
            self.slots.fill(0)
            entered &= ~(1 << PORTS)
            while entered:
                h = lowest_index(entered)
                entered &= entered - 1
                when = self.when[h]
                # A loser of L1's arbitration is due in the next cycle.
                cycle = when if when > now or self.state[h] == RUN else now + 1
                self.at(self.due[h], cycle, Phase.COLLECT, h)
        ports = self.ports[0]
        if ports < self.ports_cycle:
            self.ports_cycle = int(ports)
            event = self.at(self.env.event(), max(self.ports_cycle, now), Phase.COLLECT, PORTS)
            event.callbacks.append(self.collect_ports)
        unit = self.unit_next[0]
        if unit < self.unit_cycle:
            self.unit_cycle = unit
            self.at(self.unit_due, max(unit, now), Phase.EVENT_UNIT)
        wake = self.icache_wake[0]
        if wake < self.icache_cycle:
            self.icache_cycle = int(wake)
            event = self.at(self.env.event(), max(self.icache_cycle, now), Phase.ICACHE)
            event.callbacks.append(self.icache)
        if self.dma_busy[0]:
            self.at(self.dma_awake, now, Phase.DMA_REQUEST)
        if self.has_page:
            self.deliver_to_page()
        if self.host[0] or self.stop[0]:
            self.changed()
