"""Harts' accesses to peripherals: each takes its way there, and back, in its cycles."""

from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import NamedTuple

from simpy import Environment, Event

from soc.chip_state import Chip
from soc.decode import STORE, WIDTH
from soc.links import answer_of_peripheral, stored
from soc.peripherals.bus import Bus, BusError
from soc.peripherals.crossbar import Crossbar
from soc.peripherals.dma_port import DmaPort
from soc.peripherals.later import later
from soc.registers import Kind, Region
from soc.spec import SocSpec

RESPONSE = 2
"""Cycles from a peripheral's taking an access to the grant that the core sees: the answer, then the
grant (data_periph_demux.sv: TRANS_PENDING, TRANS_GRANTED)."""


ACROSS = "an access begins in memory and ends at a peripheral, which answers within one word"


class Request(NamedTuple):
    """A hart's access to a peripheral.

    found    what the bus's decoder finds
    size     bytes
    value    that is stored
    rest     it is for the rest of a misaligned access, which began in memory
    """

    hart: int
    bus: Bus
    found: int | None
    address: int
    size: int
    is_store: bool
    value: int
    rest: bool


class PeripheralAccess:
    """Carries out requests of harts to peripherals.

    core_bus, controller_bus    of the cluster's cores, of the fabric controller
    crossbar                    the cluster's peripheral interconnect
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
        crossbar: Crossbar,
        dma_ports: Mapping[str, DmaPort],
        fault: Callable[[int, str], None],
        changed: Callable[[], None],
    ):
        self.env, self.spec, self.chip = env, spec, chip
        self.core_bus, self.controller_bus = core_bus, controller_bus
        self.crossbar, self.dma_ports = crossbar, dma_ports
        self.fault, self.changed = fault, changed
        # as memoryviews: to look at an element takes a third of the time of a record's field
        names = "row", "external", "address", "when", "second"
        self.asked = [chip.harts[name].data for name in names]
        self.kinds, self.accesses = chip.code["kind"].data, chip.code["access"].data

    def serve(self, h: int) -> None:
        """Carry out a hart's request to a peripheral: it takes place as its grant comes back."""
        row, is_external, address, asked, second = (of_harts[h] for of_harts in self.asked)
        access = self.spec.access
        bus = self.controller_bus if is_external else self.core_bus
        found = bus.decoder.find(address)
        is_store, size = self.kinds[row] == STORE, self.accesses[row] & WIDTH
        value = stored(self.chip, h) if is_store else 0
        request = Request(h, bus, found, address, size, is_store, value, second != 0)
        region = None if found is None else bus.decoder.seen[found]
        if region and region.kind == Kind.CLUSTER_PERIPHERAL:
            way = access.controller_to_cluster if is_external else access.cluster_register
            self._pass_to_cluster(request, region, asked + way)
        elif is_external:
            answered = asked + access.controller_register
            later(self.env, answered - self.env.now, self._answer, request)
        else:
            self._pass_to_soc(request, asked)

    def _pass_to_cluster(self, request: Request, region: Region, answered: int) -> None:
        """A request goes by the cluster's peripheral interconnect.

        answered    cycle in which it is, at the earliest
        """
        port = self.dma_ports.get(region.name)
        served = partial(self._serve_port, port) if port else self._serve_register
        turn = partial(served, request, region.target)
        self.crossbar.take(region.target, request.hart, answered - RESPONSE, turn)

    def _serve_register(self, request: Request, target: int) -> None:
        self.crossbar.free(target, 1)
        later(self.env, RESPONSE, self._answer, request)

    def _serve_port(self, port: DmaPort, request: Request, target: int) -> None:
        self.env.process(self._ask_port(port, request, target))

    def _ask_port(
        self, port: DmaPort, request: Request, target: int
    ) -> Generator[Event, None, None]:
        """A control port of the DMA keeps the target until it grants."""
        reply = yield from port.access(request.is_store, request.address & 0x3FF, request.value)
        self.crossbar.free(target, 0)
        later(self.env, RESPONSE - 1, self._reply, request, reply)

    def _pass_to_soc(self, request: Request, asked: int) -> None:
        """A core's request goes to a peripheral of the SoC.

        Such accesses leave the cluster one a cycle, those to L2 among them (per2axi).
        """
        leaves = asked + int(self.chip.l2_port[0]["demux"])
        later(self.env, leaves - self.env.now, self._leave_cluster, request)

    def _leave_cluster(self, request: Request) -> None:
        way = self.chip.l2_port[0]
        waited = max(0, int(way["core_free"]) - self.env.now)
        way["core_free"] = self.env.now + waited + 1
        rest = self.spec.access.soc_register - int(way["demux"])
        later(self.env, waited + rest, self._answer, request)

    def _answer(self, request: Request) -> None:
        """A register is loaded or stored, and the hart has its answer."""
        try:
            reply = self._access(request)
        except BusError as error:
            self.fault(request.hart, str(error))
        else:
            self._reply(request, reply)

    @staticmethod
    def _access(request: Request) -> int:
        """Load or store the register; returns what is loaded. Raises BusError if there is none."""
        address, size = request.address, request.size
        if request.rest and request.found is not None:
            raise BusError(f"address {address:#010x}: {ACROSS}")
        peripheral, offset = request.bus.find(request.found, address, size)
        if request.is_store:
            peripheral.write(offset, request.value, size)
            return 0
        return peripheral.read(offset, size) << 8 * (address & 3)

    def _reply(self, request: Request, reply: int) -> None:
        answer_of_peripheral(self.chip, request.hart, reply, self.env.now)
        self.changed()
