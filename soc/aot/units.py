"""Who is compiled apart from whom: the units of machine code that all chips share.

What runs once per instruction or once per access of L1 is compiled with the interpreter; the rest,
far more text, is not compiled again when that changes.
"""

from functools import cache

import numpy as np

from soc.chip_state import Chip
from soc.dma_state import DMA_STATE
from soc.event_unit_state import EU_STATE
from soc.l2 import L2_STATE
from soc.linking import WORDS, Unit
from soc.private_cache import FETCH
from soc.state import HART

BITS = np.uint64  # a set of harts
RESULT = (int, int)  # pattern, flags

DMA = Unit("dma")
ask = DMA.link("soc.dma_control.ask", DMA_STATE, int, int, int, int)
grant_ports = DMA.link("soc.dma_control.grant_ports", DMA_STATE, returns=int)
request_lanes = DMA.link("soc.dma.request_lanes", DMA_STATE, returns=int)
tick = DMA.link("soc.dma.tick", DMA_STATE, int, int, WORDS, WORDS, L2_STATE, int)
is_idle = DMA.link("soc.dma.is_idle", DMA_STATE, returns=bool)

EVENT_UNIT = Unit("event_unit")
_unit, _clock = "soc.event_unit", "soc.event_unit_clock"
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
csr_exists = REGISTERS.link("soc.csr.csr_exists", HART, int, returns=bool)
csr_read_only = REGISTERS.link("soc.csr.csr_read_only", HART, int, returns=bool)
csr_read = REGISTERS.link("soc.csr.csr_read", HART, int, int, returns=int)
csr_write = REGISTERS.link("soc.csr.csr_write", HART, int, int, int)
csr_modify = REGISTERS.link("soc.csr.csr_modify", int, int, int, returns=int)

FLOATS = Unit("float")
_forms = "isa.hostfloat.defined_"
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
step_icache = ICACHE.link("soc.fetching.step_icache", Chip, int)
fetch_reset = ICACHE.link("soc.fetch.fetch_reset", FETCH, int, int, int)
start_fetching = ICACHE.link("soc.fetching.start_fetching", Chip, int, int, int)
switch_icache = ICACHE.link("soc.fetching.switch_icache", Chip, int, int)
flush_icache = ICACHE.link("soc.fetching.flush_icache", Chip, int, int)

LINKED = (DMA, EVENT_UNIT, REGISTERS, FLOATS, ICACHE)
"""The units that interpreters call."""

HOST = Unit("host", uses=LINKED)
answer_of_peripheral = HOST.link("soc.requests.answer_of_peripheral", Chip, int, int, int)
stored = HOST.link("soc.requests.stored", Chip, int, returns=int)
raise_interrupt = HOST.link("soc.interrupts.raise_interrupt", Chip, int, int, int)
start_hart = HOST.link("soc.requests.start_hart", Chip, int, int, int)
sort_events = HOST.link("soc.trace_sort.sort_events", Chip, int, returns=int)
note_change = HOST.link("soc.hot_code.note_change", Chip, int, int)


@cache
def bind_for_peripherals() -> None:
    """Load what peripherals call: else their first calls do, in the midst of a run."""
    for unit in (HOST, EVENT_UNIT, ICACHE):
        unit.bind()


PHASES = Unit("phases", uses=LINKED)
collect_hart = PHASES.link("soc.loop.collect_hart", Chip, int, int, returns=BITS)
access_l1 = PHASES.link("soc.l1_access.access_l1", Chip, BITS, int, returns=BITS)
signal_dma = PHASES.link("soc.phases.signal_dma", Chip, int)
request_dma_lanes = PHASES.link("soc.phases.request_dma_lanes", Chip, int, returns=int)
cycle_dma = PHASES.link("soc.phases.cycle_dma", Chip, int, int, int, returns=BITS)
clock_event_unit = PHASES.link("soc.phases.clock_event_unit", Chip, int, returns=BITS)
interrupt_from_control_page = PHASES.link("soc.interrupts.interrupt_from_control_page", Chip, int)
generator_request = PHASES.link("soc.control_page.generator_request", Chip, int)
cycle_generator = PHASES.link("soc.phases.cycle_generator", Chip, int)

SHARED = {unit.name: unit for unit in (*LINKED, HOST, PHASES)}
"""By name: the units that do not depend on the instruction set."""
