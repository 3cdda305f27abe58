"""Who is compiled apart from whom: the units of machine code that all chips share.

What runs once per instruction or once per access of L1 is compiled with the interpreter; the rest,
far more text, is not compiled again when that changes.
"""

from functools import cache

import numpy as np

from soc.aot.unit import WORDS, Unit
from soc.chip.state import Chip
from soc.dma.state import DMA_STATE
from soc.event_unit.state import EU_STATE
from soc.icache.private_cache import FETCH
from soc.interconnect.axi_l2 import L2_STATE
from soc.prelude.records import HART

BITS = np.uint64  # a set of harts
RESULT = (int, int)  # pattern, flags

DMA = Unit("dma")
ask = DMA.link("soc.dma.control_ports.ask", DMA_STATE, int, int, int, int)
grant_ports = DMA.link("soc.dma.control_ports.grant_ports", DMA_STATE, returns=int)
request_lanes = DMA.link("soc.dma.mchan.request_lanes", DMA_STATE, returns=int)
tick = DMA.link("soc.dma.mchan.tick", DMA_STATE, int, int, WORDS, WORDS, L2_STATE, int)
is_idle = DMA.link("soc.dma.mchan.is_idle", DMA_STATE, returns=bool)
begin_streams = DMA.link("soc.dma.stream.begin_streams", DMA_STATE, int, returns=int)
end_streams = DMA.link("soc.dma.stream.end_streams", DMA_STATE)

EVENT_UNIT = Unit("event_unit")
_unit, _clock = "soc.event_unit.event_unit", "soc.event_unit.clock_edge"
eu_access = EVENT_UNIT.link(
    f"{_unit}.eu_access", EU_STATE, int, int, int, int, int, int, returns=int
)
eu_clock = EVENT_UNIT.link(f"{_clock}.eu_clock", EU_STATE, int, returns=int)
eu_set_event = EVENT_UNIT.link(f"{_unit}.eu_set_event", EU_STATE, int, int, int)
eu_interrupt = EVENT_UNIT.link(f"{_unit}.eu_interrupt", EU_STATE, int, returns=int)
eu_take_interrupt = EVENT_UNIT.link(f"{_unit}.eu_take_interrupt", EU_STATE, int, int, int)
eu_push_soc_event = EVENT_UNIT.link(f"{_unit}.eu_push_soc_event", EU_STATE, int, int, returns=bool)
eu_shared_exists = EVENT_UNIT.link(f"{_unit}.eu_shared_exists", EU_STATE, int, returns=bool)
eu_shared_store = EVENT_UNIT.link(f"{_unit}.eu_shared_store", EU_STATE, int, int, int, returns=int)
eu_shared_load = EVENT_UNIT.link(f"{_unit}.eu_shared_load", EU_STATE, int, int, returns=int)

REGISTERS = Unit("csr")
csr_exists = REGISTERS.link("soc.core.csr.csr_exists", HART, int, returns=bool)
csr_read_only = REGISTERS.link("soc.core.csr.csr_read_only", HART, int, returns=bool)
csr_read = REGISTERS.link("soc.core.csr.csr_read", HART, int, int, returns=int)
csr_write = REGISTERS.link("soc.core.csr.csr_write", HART, int, int, int)
csr_modify = REGISTERS.link("soc.core.csr.csr_modify", int, int, int, returns=int)

FLOATS = Unit("float")
_forms = "isa.floats.hostfloat.defined_"
float_links = [
    FLOATS.link(f"{_forms}{name}", *[int] * operands, int, returns=RESULT)
    for name, operands in {
        "add": 2,
        "subtract": 2,
        "multiply": 2,
        "multiply_add": 3,
        "divide": 2,
        "square_root": 1,
        "from_integer": 1,
    }.items()
]
"""The operands that the host's floating-point unit does not settle."""

ICACHE = Unit("icache")
step_icache = ICACHE.link("soc.cluster.icache_access.step_icache", Chip, int)
fetch_reset = ICACHE.link("soc.icache.prefetch_buffer.fetch_reset", FETCH, int, int, int)
start_fetching = ICACHE.link("soc.cluster.icache_access.start_fetching", Chip, int, int, int)
switch_icache = ICACHE.link("soc.cluster.icache_access.switch_icache", Chip, int, int)
flush_icache = ICACHE.link("soc.cluster.icache_access.flush_icache", Chip, int, int)

LINKED = (DMA, EVENT_UNIT, REGISTERS, FLOATS, ICACHE)
"""The units that interpreters call."""

HOST = Unit("host", uses=LINKED)
answer_of_peripherals = HOST.link("soc.cluster.demux.answer_of_peripherals", Chip, int, int)
raise_interrupt = HOST.link("soc.core.interrupts.raise_interrupt", Chip, int, int, int)
is_any_ahead = HOST.link("soc.engine.run_ahead.is_any_ahead", Chip, int, returns=bool)
start_hart = HOST.link("soc.cluster.demux.start_hart", Chip, int, int, int)
sort_events = HOST.link("soc.trace.sort.sort_events", Chip, int, returns=int)
note_change = HOST.link("soc.core.hotness.note_change", Chip, int, int)
set_next_pc = HOST.link("soc.core.next_pc.set_next_pc", Chip, int, int, int)


@cache
def bind_for_peripherals() -> None:
    """Load what peripherals call: else their first calls do, in the midst of a run."""
    for unit in (HOST, EVENT_UNIT, ICACHE):
        unit.bind()


PHASES = Unit("phases", uses=LINKED)
collect_hart = PHASES.link("soc.engine.cycle_loop.collect_hart", Chip, int, int, returns=BITS)
access_l1 = PHASES.link("soc.cluster.l1_access.access_l1", Chip, BITS, int, returns=BITS)
collect_ports = PHASES.link("soc.cluster.l2_access.collect_ports", Chip, int)
grant_ports_of_l2 = PHASES.link("soc.cluster.l2_access.grant_ports_of_l2", Chip, int, returns=BITS)
signal_dma = PHASES.link("soc.cluster.phases.signal_dma", Chip, int)
request_dma_lanes = PHASES.link("soc.cluster.phases.request_dma_lanes", Chip, int, returns=int)
cycle_dma = PHASES.link("soc.cluster.phases.cycle_dma", Chip, int, int, int, returns=BITS)
answer_dma_ports = PHASES.link("soc.cluster.phases.answer_dma_ports", Chip, int, int, returns=BITS)
clock_event_unit = PHASES.link("soc.cluster.phases.clock_event_unit", Chip, int, returns=BITS)
interrupt_from_control_page = PHASES.link(
    "soc.cluster.testbench.interrupt_from_control_page", Chip, int
)
generator_request = PHASES.link("soc.cluster.testbench.generator_request", Chip, int)
cycle_generator = PHASES.link("soc.cluster.phases.cycle_generator", Chip, int)

CHECKS = Unit("checks")
check_events = CHECKS.link("soc.check.events.check_events", Chip, int, int)

SHARED = {unit.name: unit for unit in (*LINKED, HOST, PHASES, CHECKS)}
"""By name: the units that do not depend on the instruction set."""
