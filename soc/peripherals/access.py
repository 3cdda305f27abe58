"""Harts' accesses to peripherals: each takes its way there, and back, in its cycles."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from simpy import Environment, Event

from soc.address_map.memory_map import Kind, Region
from soc.address_map.registers import SOC_CONTROL
from soc.aot.units import answer_of_peripherals
from soc.chip.profile import ending_cycles
from soc.chip.spec import SocSpec
from soc.chip.state import Chip
from soc.peripherals.bus import Bus, BusError, Calls, NotReady, Words, at
from soc.peripherals.crossbar import Target
from soc.peripherals.dma_port import DmaPort
from soc.peripherals.register_block import WORD
from soc.prelude.decoded import WIDTH
from soc.prelude.hart_state import ASKS_ADDRESS, ASKS_EXTERNAL, ASKS_SIZE, ASKS_STORE

RESPONSE = 2
"""Cycles from a peripheral's taking an access to the grant that the core sees: the answer, then the
grant (data_periph_demux.sv: TRANS_PENDING, TRANS_GRANTED)."""


ACROSS = "an access begins in memory and ends at a peripheral, which answers within one word"

MOST_WAYS = 4096
"""Ways that are remembered, of which most programs take a few dozen."""


@dataclass(slots=True)
class Way:
    """What an access leads to.

    found         what the bus's decoder finds
    size          bytes
    port          control port of the DMA that it is for
    target        of the cluster's peripheral interconnect, if it goes there
    cycles        after it is asked for, until its target or, for the fabric controller's, the
                  peripheral of the SoC is reached
    access        what it calls at the peripheral that answers, once one has: a load without
                  anything, a store with its value
    """

    bus: Bus
    found: int | None
    address: int
    size: int
    is_store: bool
    is_external: bool
    port: DmaPort | None = None
    target: Target | None = None
    cycles: int = 0
    access: Callable[..., Any] | None = None

    def find(self) -> Callable[..., Any]:
        """Find what answers. Raises BusError where no peripheral does."""
        peripheral, offset = self.bus.find(self.found, self.address, self.size)
        size, shift = self.size, 8 * (self.address & 3)
        if size == 4 and isinstance(peripheral, Words):
            of_word = peripheral.storing if self.is_store else peripheral.loading
            self.access = of_word(offset)
        elif self.is_store:
            self.access = lambda value: peripheral.write(offset, value, size)
        else:
            self.access = lambda: peripheral.read(offset, size) << shift
        return self.access


def ends_run(region: Region, address: int) -> bool:
    """Is the address that of CORE_STATUS, where programs say that they are at their end?"""
    offset = address - region.base & ~3
    return region.name == "soc_control" and offset == SOC_CONTROL.offset("CORE_STATUS")


class PeripheralAccess:
    """Carries out requests of harts to peripherals.

    core_bus, controller_bus    of the cluster's cores, of the fabric controller
    targets                     of the cluster's peripheral interconnect, by their addresses
    calls                       that these take
    dma_ports                   control ports of the DMA by the names of their regions

    Ports
        fault      out   hart, why: nothing answers at the address of its request
        changed    out   called when a hart has its answer
    """

    def __init__(
        self,
        env: Environment,
        spec: SocSpec,
        chip: Chip,
        core_bus: Bus,
        controller_bus: Bus,
        calls: Calls,
        targets: Mapping[int, Target],
        dma_ports: Mapping[str, DmaPort],
        fault: Callable[[int, str], None],
        changed: Callable[[], None],
    ):
        self.env, self.spec, self.chip = env, spec, chip
        self.core_bus, self.controller_bus = core_bus, controller_bus
        self.calls, self.targets, self.dma_ports = calls, targets, dma_ports
        self.fault, self.changed = fault, changed
        self.cluster_register = spec.access.cluster_register
        self.controller_to_cluster = spec.access.controller_to_cluster
        # as memoryviews: to look at an element takes a third of the time of a record's field
        names = "asks", "value", "when", "second"
        self.asks, self.values, self.whens, self.seconds = (chip.harts[n].data for n in names)
        self.answer = answer_of_peripherals.of(chip)
        self.ways: dict[int, Way] = {}
        self.under_way: list[Way | None] = [None] * chip.harts.size

    def serve(self, harts: int) -> None:
        """Carry out the requests of a set of harts: each takes place as its grant comes back."""
        turns: list[Target] = []
        turn = 0
        while harts:
            h = (harts & -harts).bit_length() - 1
            harts &= harts - 1
            asks = self.asks[h]
            way = self.ways.get(asks)
            if way is None:
                way = self._new_way(asks)
            self.under_way[h] = way
            target = way.target
            cycle = self.whens[h] + way.cycles
            if turns and (target is None or cycle != turn):
                self.calls.at(turn, self._choose, turns)
                turns = []
            if target is None:
                self._pass_to_soc(h, cycle, way.is_external)
            elif target.ask(h, cycle):
                turns.append(target)
                turn = cycle
        if turns:
            self.calls.at(turn, self._choose, turns)

    def _choose(self, now: int, targets: list[Target]) -> None:
        """Targets choose, each, whom they serve in this cycle."""
        winners = []
        for target in targets:
            h = target.choose(now)
            if h < 0:
                continue
            way = self.under_way[h]
            assert way
            if way.port:
                target.take()
                self.env.process(self._ask_port(h))
                continue
            winners.append(h)
            if target.asking and target.is_turn(now + 1):
                self.calls.at(now + 1, self._choose, [target])
        if winners:
            self.calls.at(now + RESPONSE, self._answer, winners)

    def _new_way(self, asks: int) -> Way:
        if len(self.ways) == MOST_WAYS:
            self.ways.clear()
        address, size = asks >> ASKS_ADDRESS, asks >> ASKS_SIZE & WIDTH
        is_store, is_external = bool(asks & ASKS_STORE), bool(asks & ASKS_EXTERNAL)
        bus = self.controller_bus if is_external else self.core_bus
        found = bus.decoder.find(address)
        way = self.ways[asks] = Way(bus, found, address, size, is_store, is_external)
        region = None if found is None else bus.decoder.seen[found]
        if region and region.kind == Kind.CLUSTER_PERIPHERAL:
            answered = self.controller_to_cluster if is_external else self.cluster_register
            way.cycles = answered - RESPONSE
            way.target = self.targets[region.target]
            way.port = self.dma_ports.get(region.name)
        elif is_external:
            is_end = region and is_store and ends_run(region, address)
            way.cycles = (
                ending_cycles(self.spec) if is_end else self.spec.access.controller_register
            )
        return way

    def _ask_port(self, h: int) -> Generator[Event, None, None]:
        """A control port of the DMA keeps the target until it grants."""
        way = self.under_way[h]
        assert way
        assert way.port
        assert way.target
        reply = yield from way.port.access(way.is_store, way.address & 0x3FF, self.values[h])
        now = int(self.env.now)
        way.target.free(now)
        if way.target.is_turn(now):
            self.calls.at(now, self._choose, [way.target])
        at(self.env, now + RESPONSE - 1, self._reply, now + RESPONSE - 1, h, reply)

    def _pass_to_soc(self, h: int, asked: int, is_external: bool) -> None:
        """A request goes to a peripheral of the SoC.

        Those of cores leave the cluster one a cycle, those to L2 among them (per2axi).
        """
        if is_external:
            self._answer_at(asked, h)
        else:
            leaves = asked + int(self.chip.l2_port[0]["demux"])
            at(self.env, leaves, self._leave_cluster, leaves, h)

    def _leave_cluster(self, now: int, h: int) -> None:
        way = self.chip.l2_port[0]
        leaves = max(now, int(way["core_free"]))
        way["core_free"] = leaves + 1
        self._answer_at(leaves + self.spec.access.soc_register - int(way["demux"]), h)

    def _answer_at(self, cycle: int, h: int) -> None:
        """Answer by an event of its own: it may be what ends the program."""
        at(self.env, cycle, self._answer_alone, cycle, h)

    def _answer_alone(self, now: int, h: int) -> None:
        self._answer(now, [h])
        self.changed()

    def _answer_now(self, h: int) -> None:
        self._answer_alone(int(self.env.now), h)

    def _answer(self, now: int, harts: list[int]) -> None:
        """Registers are loaded or stored, and the harts have their answers."""
        answered = 0
        for h in harts:
            way = self.under_way[h]
            assert way
            try:
                if self.seconds[h] and way.found is not None:  # the rest of what began in memory
                    raise BusError(f"address {way.address:#010x}: {ACROSS}")
                access = way.access or way.find()
                if way.is_store:
                    access(self.values[h])
                else:
                    self.values[h] = access() & WORD
            except NotReady as wait:
                wait.when(partial(self._answer_now, h))
            except BusError as error:
                self.fault(h, str(error))
            else:
                answered |= 1 << h
        if answered:
            self.answer(answered, now)

    def _reply(self, now: int, h: int, reply: int) -> None:
        self.values[h] = reply & WORD
        self.answer(1 << h, now)
        self.changed()
