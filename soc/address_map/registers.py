"""The memory map and the registers of the platform: pure data, read by components and firmware.

Sources: PULP's public headers (pulp-runtime archi/: chips/pulp/memory_map.h, eu_v3, mchan_v7,
timer_v2, cluster_ctrl_v2, apb_soc_v3, itc_v1, soc_eu_v2, fll_v1, gpio_v2, stdout_v2) and the RTL
that they describe, named at each block.
"""

from dataclasses import dataclass
from enum import Flag, IntEnum
from functools import cached_property


@dataclass(frozen=True)
class Field:
    """Bits low .. low + width - 1 of a register."""

    name: str
    low: int
    width: int
    meaning: str

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.low


@dataclass(frozen=True)
class Register:
    """A 32-bit register, or `count` of them `stride` bytes apart.

    offset    bytes from the start of its block
    """

    name: str
    offset: int
    meaning: str
    fields: tuple[Field, ...] = ()
    count: int = 1
    stride: int = 4
    reset: int = 0


@dataclass(frozen=True)
class Block:
    """The registers of one component."""

    name: str
    source: str
    registers: tuple[Register, ...]

    def register(self, name: str) -> Register:
        """Raises KeyError for a name that the block does not have."""
        for register in self.registers:
            if register.name == name:
                return register
        names = ", ".join(register.name for register in self.registers)
        raise KeyError(f"{self.name} has no register {name}; it has {names}")

    def offset(self, name: str, index: int = 0) -> int:
        """Bytes from the start of the block to a register, the index-th of its kind."""
        register = self.register(name)
        return register.offset + register.stride * index

    def at(self, offset: int) -> tuple[Register, int] | None:
        """The register whose word lies at an offset, and its index; None if none does."""
        return self._by_offset.get(offset)

    @cached_property
    def _by_offset(self) -> dict[int, tuple[Register, int]]:
        return {
            register.offset + register.stride * index: (register, index)
            for register in reversed(self.registers)  # the first one of two at an offset
            for index in range(register.count)
        }


@dataclass(frozen=True)
class Event:
    """Consecutive event lines of the cluster's event unit. Bit `line` of mask and buffer."""

    name: str
    line: int
    count: int
    meaning: str


CLUSTER_EVENTS = (  # pulp_cluster rtl/cluster_event_map.sv
    Event("software", 0, 8, "stores to SW_EVENT"),
    Event("dma", 8, 2, "a transfer of this core ended: 8 as event, 9 as interrupt"),
    Event("timer", 10, 2, "the cluster timer reached its target: low, high counter"),
    Event("accelerator", 12, 4, "hardware accelerator"),
    Event("barrier", 16, 1, "a barrier is complete"),
    Event("mutex", 17, 1, "a mutex is locked for this core"),
    Event("dispatch", 18, 1, "the dispatch FIFO holds a value for this core"),
    Event("cluster", 22, 2, "inputs of the cluster"),
    Event("soc", 27, 1, "the SoC event FIFO is not empty"),
)
FABRIC_EVENTS = (  # pulp_soc rtl/pulp_soc/soc_peripherals.sv, fc_events_o
    Event("software", 0, 8, "stores to STATUS_SET"),
    Event("dma", 8, 2, "a transfer of the fabric controller ended: event, interrupt"),
    Event("timer", 10, 2, "FC timer 0 reached its target: low, high counter"),
    Event("reference_clock", 14, 1, "edge of the reference clock"),
    Event("gpio", 15, 1, "a pin changed"),
    Event("soc", 26, 1, "the SoC event FIFO holds an event"),
)


def event_line(events: tuple[Event, ...], name: str) -> int:
    """First line of an event by name. Raises KeyError for an unknown name."""
    for event in events:
        if event.name == name:
            return event.line
    raise KeyError(f"no event {name}; there are {', '.join(event.name for event in events)}")


CORES = 16  # address bits 9:6 of the event unit's shared view
BARRIERS = 16  # address bits 8:5 of its barriers
MUTEXES = 16  # address bits 5:2 of its mutexes

CORE_EVENTS = Block(
    "core_events",
    "event_unit_flex rtl/event_unit_core.sv",
    (
        Register("MASK", 0x00, "events that end a wait"),
        Register("MASK_AND", 0x04, "a store clears these bits of MASK"),
        Register("MASK_OR", 0x08, "a store sets these bits of MASK"),
        Register("IRQ_MASK", 0x0C, "events that request an interrupt"),
        Register("IRQ_MASK_AND", 0x10, "a store clears these bits of IRQ_MASK"),
        Register("IRQ_MASK_OR", 0x14, "a store sets these bits of IRQ_MASK"),
        Register("STATUS", 0x18, "", (Field("clock", 0, 1, "the core's clock runs"),)),
        Register("BUFFER", 0x1C, "events since they were cleared"),
        Register("BUFFER_MASKED", 0x20, "BUFFER and MASK"),
        Register("BUFFER_IRQ_MASKED", 0x24, "BUFFER and IRQ_MASK"),
        Register("BUFFER_CLEAR", 0x28, "a store clears these bits of BUFFER"),
        Register("SW_EVENT_MASK", 0x2C, "cores that SW_EVENT_WAIT triggers; 0: all"),
        Register("SW_EVENT_MASK_AND", 0x30, "a store clears these bits of SW_EVENT_MASK"),
        Register("SW_EVENT_MASK_OR", 0x34, "a store sets these bits of SW_EVENT_MASK"),
        Register("WAIT", 0x38, "a load waits for an event of MASK"),
        Register("WAIT_CLEAR", 0x3C, "the same, then clears the events of MASK"),
    ),
)
BARRIER = Block(
    "barrier",
    "event_unit_flex rtl/hw_barrier_unit.sv",
    (
        Register("TRIGGER_MASK", 0x00, "cores that must arrive"),
        Register("STATUS", 0x04, "cores that have arrived"),
        Register("STATUS_SUMMARY", 0x08, "reads 0"),
        Register("TARGET_MASK", 0x0C, "cores that get the event"),
        Register("TRIGGER", 0x10, "a store lets these cores arrive"),
        Register("TRIGGER_SELF", 0x14, "a load lets this core arrive"),
        Register("TRIGGER_WAIT", 0x18, "the same, then waits"),
        Register("TRIGGER_WAIT_CLEAR", 0x1C, "the same, then waits and clears the events of MASK"),
    ),
)


def _repeated(block: Block, prefix: str, base: int, count: int, size: int) -> tuple[Register, ...]:
    """The registers of a block that exists `count` times, every `size` bytes from base."""
    return tuple(
        Register(prefix + r.name, base + r.offset, r.meaning, r.fields, count, size, r.reset)
        for r in block.registers
    )


EVENT_UNIT = Block(
    "event_unit",
    "event_unit_flex rtl/event_unit_core.sv, event_unit_interface_mux.sv: a core's private view",
    (
        *CORE_EVENTS.registers,
        Register("DISPATCH", 0x80, "a store pushes a value for TEAM, a load waits for one"),
        Register("DISPATCH_TEAM", 0x84, "cores that the next value is for"),
        Register(
            "MUTEX", 0xC0, "a load locks, a store unlocks and leaves a message", count=MUTEXES
        ),
        Register("SW_EVENT", 0x100, "a store triggers it for these cores; 0: all", count=8),
        Register("SW_EVENT_WAIT", 0x140, "a load triggers it for SW_EVENT_MASK, waits", count=8),
        Register("SW_EVENT_WAIT_CLEAR", 0x180, "the same, then clears", count=8),
        *_repeated(BARRIER, "BARRIER_", 0x200, BARRIERS, 0x20),
    ),
)
EVENT_UNIT_SHARED = Block(
    "event_unit_shared",
    "event_unit_flex rtl/event_unit_interface_mux.sv: the view of all and of the fabric controller",
    (
        *_repeated(CORE_EVENTS, "CORE_", 0x000, CORES, 0x40),
        *_repeated(BARRIER, "BARRIER_", 0x400, BARRIERS, 0x20),
        Register("SW_EVENT", 0x600, "a store triggers it for these cores; 0: all", count=8),
        Register(
            "SOC_EVENT",
            0x700,
            "a load takes the oldest SoC event",
            (Field("event", 0, 8, "number"), Field("valid", 31, 1, "there was one")),
        ),
    ),
)
DMA = Block(
    "dma",
    "mchan, archi/dma/mchan_v7.h",
    (
        Register(
            "COMMAND",
            0x0,
            "a load allocates a counter; stores: command, L1, L2 address (, length, stride)",
            (
                Field("length", 0, 17, "bytes"),
                Field("to_l1", 17, 1, "1: L2 to L1, 0: L1 to L2"),
                Field("increment", 18, 1, "addresses advance"),
                Field("l2_2d", 19, 1, "lines on the L2 side"),
                Field("event", 20, 1, "event line 8 at the end"),
                Field("interrupt", 21, 1, "event line 9 at the end"),
                Field("broadcast", 22, 1, "to all cores"),
                Field("l1_2d", 23, 1, "lines on the L1 side"),
            ),
        ),
        Register(
            "STATUS",
            0x4,
            "a store frees counters",
            (
                Field("busy", 0, 16, "counters with transfers under way"),
                Field("allocated", 16, 16, "counters in use"),
            ),
        ),
    ),
)
_TIMER_CONFIG = (
    Field("enable", 0, 1, "counts"),
    Field("reset", 1, 1, "a store of 1 resets the count"),
    Field("event", 2, 1, "reaching the target is an event"),
    Field("input_event", 3, 1, "an input starts it"),
    Field("clear", 4, 1, "reaching the target resets the count"),
    Field("one_shot", 5, 1, "reaching the target stops it"),
    Field("prescaler_enable", 6, 1, "counts every prescaler + 1 cycles"),
    Field("reference_clock", 7, 1, "counts reference clock cycles"),
    Field("prescaler", 8, 8, ""),
    Field("wide", 31, 1, "low and high are one 64-bit counter"),
)
TIMER = Block(
    "timer",
    "timer_unit rtl/timer_unit.sv",
    (
        Register("CONFIG", 0x00, "", _TIMER_CONFIG, count=2),
        Register("VALUE", 0x08, "count: low, high", count=2),
        Register("COMPARE", 0x10, "target: low, high", count=2),
        Register("START", 0x18, "a store starts: low, high", count=2),
        Register("RESET", 0x20, "a store resets the count: low, high", count=2),
    ),
)
CLUSTER_CONTROL = Block(
    "cluster_control",
    "cluster_peripherals cluster_control_unit.sv, archi/cluster_ctrl/cluster_ctrl_v2.h",
    (
        Register("END", 0x00, "", (Field("end", 0, 1, "end of computation"),)),
        Register("FETCH_ENABLE", 0x08, "a bit per core: it runs"),
        Register("EVENT", 0x10, "not connected"),
        Register("CONFIG", 0x14, "sizes of the cluster, read only"),
        Register("INTERCONNECT", 0x18, "arbitration and accelerator settings"),
        Register("CLOCK_GATE", 0x20, "", (Field("enable", 0, 1, "gate the cluster's clock"),)),
        Register("DEBUG_STATUS", 0x28, "a bit per core: halted"),
        Register("DEBUG_HALT_MASK", 0x38, "a bit per core: halts with the others"),
        Register("BOOT_ADDRESS", 0x40, "of each core", count=CORES, reset=0x1C000000),
        Register("L1_ARBITRATION", 0x80, "policy: cores, DMA", count=2, stride=8),
        Register("RETURN", 0x100, "value that the cluster returns"),
    ),
)
ICACHE_CONTROL = Block(
    "icache_control",
    "hier-icache hier_icache_ctrl_unit.sv",
    (
        Register("ENABLE", 0x00, "", (Field("enable", 0, 1, "0: bypass"),)),
        Register("FLUSH", 0x04, "a store of 1 invalidates both levels"),
        Register("FLUSH_PRIVATE", 0x08, "a store of 1 invalidates the private level"),
        Register("FLUSH_ADDRESS", 0x0C, "a store invalidates the line of this address"),
        Register("CLEAR_COUNTERS", 0x10, "a store of 1 clears the statistics"),
        Register("ENABLE_COUNTERS", 0x14, "a store of 1 starts the statistics"),
        Register("PREFETCH", 0x1C, "a bit per core; the RTL leaves it out"),
    ),
)
FABRIC_ICACHE_CONTROL = Block(
    "fabric_icache_control",
    "GVSoC's pulp-open: enable and flush as in the cluster",
    (
        Register("ENABLE", 0x00, "", (Field("enable", 0, 1, "0: bypass"),)),
        Register("FLUSH", 0x04, "a store of 1 invalidates it"),
        Register("FLUSH_ADDRESS", 0x08, "a store invalidates the line of this address"),
        Register("STATUS", 0x0C, "", (Field("busy", 0, 1, "an invalidation is under way"),)),
    ),
)
SOC_CONTROL = Block(
    "soc_control",
    "pulp_soc rtl/components/apb_soc_ctrl.sv, archi/apb_soc_v3.h",
    (
        Register(
            "INFO",
            0x00,
            "",
            (Field("clusters", 0, 16, ""), Field("cores", 16, 16, "in the cluster")),
        ),
        Register("FC_BOOT", 0x04, "boot address of the fabric controller", reset=0x1A000080),
        Register("FC_FETCH", 0x08, "", (Field("enable", 0, 1, "the fabric controller runs"),)),
        Register("PAD_FUNCTION", 0x10, "2 bits a pad", count=4),
        Register("PAD_CONFIG", 0x20, "8 bits a pad", count=16, reset=0x1F1F1F1F),
        Register("CLUSTER_BUSY", 0x6C, "", (Field("busy", 0, 1, ""),)),
        Register(
            "CLUSTER_CONTROL",
            0x70,
            "",
            (
                Field("bypass", 0, 1, ""),
                Field("power", 1, 1, ""),
                Field("fetch_enable", 2, 1, ""),
                Field("reset_n", 3, 1, "0: the cluster is held in reset"),
            ),
            reset=0x9,
        ),
        Register("JTAG", 0x74, "general purpose, seen by the debugger"),
        Register("PERIPHERAL_CONTROL", 0x78, ""),
        Register("CLUSTER_IRQ", 0x7C, ""),
        Register("CLUSTER_BOOT", 0x80, "boot address of the cluster: low, high", count=2),
        Register(
            "CORE_STATUS",
            0xA0,
            "a store with `end` ends the run",
            (Field("status", 0, 31, "exit code"), Field("end", 31, 1, "end of computation")),
        ),
        Register("CORE_STATUS_READ", 0xC0, "mirror of CORE_STATUS"),
        Register("BOOT_SELECT", 0xC4, ""),
        Register("CLOCK_SELECT", 0xC8, ""),
        Register("CLOCK_DIVIDER", 0xD4, "of SoC, cluster, peripherals", count=3),
    ),
)
FLL = Block(
    "fll",
    "archi/fll/fll_v1.h; DCO input for the 144.06 MHz of GVSoC's pulp-open",
    (
        Register(
            "STATUS",
            0x0,
            "",
            (Field("factor", 0, 16, "multiplication that it has reached"),),
            reset=2198,
        ),
        Register(
            "CONFIG_1",
            0x4,
            "",
            (
                Field("factor", 0, 16, "multiplication of the reference clock"),
                Field("dco", 16, 10, "oscillator input while stand-alone"),
                Field("divider", 26, 4, "output is divided by 2^divider"),
                Field("lock_enable", 30, 1, "no output while unlocked"),
                Field("mode", 31, 1, "0: stand-alone, 1: locked to the reference clock"),
            ),
            reset=1 << 30 | 1 << 26 | 0x14C << 16 | 0x5F5,
        ),
        Register("CONFIG_2", 0x8, "loop gain, lock counters, tolerance", reset=0x22004109),
        Register("INTEGRATOR", 0xC, "state of the loop"),
    ),
)
STDOUT = Block(
    "stdout",
    "archi/stdout/stdout_v2.h; address = base + cluster << 7 | core << 3",
    (Register("PUT", 0x0, "a store prints the character of its low byte", count=512, stride=8),),
)
INTERRUPT_CONTROLLER = Block(
    "interrupt_controller",
    "apb_interrupt_cntrl.sv, archi/itc/itc_v1.h",
    (
        Register("MASK", 0x00, "events that interrupt the fabric controller"),
        Register("MASK_SET", 0x04, "a store sets bits of MASK"),
        Register("MASK_CLEAR", 0x08, "a store clears bits of MASK"),
        Register("STATUS", 0x0C, "events since they were cleared"),
        Register("STATUS_SET", 0x10, "a store sets bits of STATUS"),
        Register("STATUS_CLEAR", 0x14, "a store clears bits of STATUS"),
        Register("ACK", 0x18, "interrupts that were taken"),
        Register("ACK_SET", 0x1C, "a store sets bits of ACK"),
        Register("ACK_CLEAR", 0x20, "a store clears bits of ACK"),
        Register("FIFO", 0x24, "SoC event of the last interrupt 26"),
    ),
)
SOC_EVENTS = Block(
    "soc_events",
    "pulp_soc rtl/pulp_soc/soc_event_generator.sv",
    (
        Register("EVENT", 0x00, "a store triggers software events: a bit each"),
        Register("FC_MASK", 0x04, "1: not for the fabric controller", count=8, reset=0xFFFFFFFF),
        Register("CLUSTER_MASK", 0x24, "1: not for the cluster", count=8, reset=0xFFFFFFFF),
        Register("PERIPHERAL_MASK", 0x44, "1: not for peripherals", count=8, reset=0xFFFFFFFF),
        Register("ERROR", 0x64, "events that were lost; a load clears them", count=8),
        Register("TIMER_SELECT_HIGH", 0x84, "event that starts the timer's high counter"),
        Register("TIMER_SELECT_LOW", 0x88, "event that starts the timer's low counter"),
    ),
)
GPIO = Block(
    "gpio",
    "apb_gpio, archi/gpio/gpio_v2.h",
    (
        Register("DIRECTION", 0x00, "a bit per pin: output"),
        Register("IN", 0x04, "level of the pins"),
        Register("OUT", 0x08, "level that outputs drive"),
        Register("IRQ_ENABLE", 0x0C, ""),
        Register("IRQ_TYPE", 0x10, "2 bits a pin", count=2),
        Register("IRQ_STATUS", 0x18, ""),
        Register("ENABLE", 0x1C, ""),
        Register("PAD_CONFIG", 0x20, "8 bits a pin", count=8),
    ),
)
UDMA = Block(
    "udma",
    "udma_core; the channels' registers are not modelled",
    (
        Register("CLOCK_GATE", 0x00, "a bit per channel"),
        Register("EVENT_IN", 0x04, "four events that channels can wait for"),
    ),
)
PMU = Block("pmu", "GVSoC's pulp-open; its registers are not modelled", ())
DEBUG = Block("debug", "GVSoC's pulp-open; its registers are not modelled", ())
CONTROL_PAGE = Block(
    "control_page",
    "test bench of the RTL measurements: ideal fetch, magic barrier, DMA-like generator",
    (
        Register("EXIT", 0x00, "a store ends this core with a code"),
        Register("PUT", 0x04, "a store prints a character"),
        Register("BARRIER", 0x10, "granted when all cores access it"),
        Register("CORES", 0x14, "number of cores"),
        Register("CYCLE", 0x18, "cycle counter"),
        Register("GENERATOR_BASE", 0x20, "first address of the DMA-like generator"),
        Register("GENERATOR_CONFIG", 0x24, "bits 3:0 ports, bit 8 write"),
        Register("GENERATOR_START", 0x28, "accesses of each port"),
        Register("IRQ_RAISE", 0x30, "interrupt 16 rises this many cycles later"),
        Register("IRQ_CLEAR", 0x34, "interrupt 16 falls"),
    ),
)


class Kind(IntEnum):
    """What an address leads to."""

    L1 = 1
    L1_TEST_AND_SET = 2  # a load also stores -1
    L2 = 3
    EVENT_UNIT = 4  # the core's own port
    DMA = 5  # the core's own port
    CLUSTER_PERIPHERAL = 6
    SOC_PERIPHERAL = 7
    CONTROL_PAGE = 8


class Master(Flag):
    """Who sees a region."""

    CORE = 1
    FABRIC = 2
    ALL = 3


@dataclass(frozen=True)
class Region:
    """Addresses base .. base + size - 1.

    target    where an alias leads; base itself if it is none
    block     its registers, None for memory
    """

    name: str
    base: int
    size: int
    kind: Kind
    masters: Master
    target: int
    block: Block | None = None

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.base + self.size

    def __str__(self) -> str:
        return f"{self.name} {self.base:#010x}..{self.end - 1:#010x}"


L1_BASE = 0x10000000
L2_BASE = 0x1C000000
CLUSTER_ALIAS = 0x10000000  # cores see their own cluster at 0 as well
CLUSTER_ALIAS_SIZE = 0x400000
CLUSTER_SPACE = 0x10200000, 0x10400000  # registers of the cluster, up to the end of its addresses
SOC_SPACE = 0x1A000000, 0x1A200000
PRIVATE_SIZE = 32 * 1024  # of each of the two private L2 banks

_CLUSTER = (  # name, base, size, kind, masters, block
    ("cluster_control", 0x10200000, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, CLUSTER_CONTROL),
    ("cluster_timer", 0x10200400, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, TIMER),
    (
        "event_unit_shared",
        0x10200800,
        0x800,
        Kind.CLUSTER_PERIPHERAL,
        Master.ALL,
        EVENT_UNIT_SHARED,
    ),
    ("cluster_icache", 0x10201400, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, ICACHE_CONTROL),
    ("dma_shared", 0x10201800, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, DMA),
    ("dma_fabric", 0x10201C00, 0x400, Kind.CLUSTER_PERIPHERAL, Master.ALL, DMA),
    ("event_unit", 0x10204000, 0x400, Kind.EVENT_UNIT, Master.CORE, EVENT_UNIT),
    ("dma", 0x10204400, 0x400, Kind.DMA, Master.CORE, DMA),
)
_SOC = (  # name, base, size, block
    ("fll_soc", 0x1A100000, 0x10, FLL),
    ("fll_peripheral", 0x1A100010, 0x10, FLL),
    ("fll_cluster", 0x1A100020, 0x10, FLL),
    ("gpio", 0x1A101000, 0x1000, GPIO),
    ("udma", 0x1A102000, 0x2000, UDMA),
    ("soc_control", 0x1A104000, 0x1000, SOC_CONTROL),
    ("soc_events", 0x1A106000, 0x1000, SOC_EVENTS),
    ("pmu", 0x1A107000, 0x1000, PMU),
    ("fabric_icache", 0x1A108800, 0x800, FABRIC_ICACHE_CONTROL),
    ("interrupt_controller", 0x1A109800, 0x800, INTERRUPT_CONTROLLER),
    ("fabric_timer_0", 0x1A10B000, 0x800, TIMER),
    ("fabric_timer_1", 0x1A10B800, 0x800, TIMER),
    ("stdout", 0x1A10F000, 0x1000, STDOUT),
    ("debug", 0x1A190000, 0x1000, DEBUG),
)


def memory_map(l1_size: int, l2_size: int) -> tuple[Region, ...]:
    """The platform's regions, lowest address first; aliases of two masters may overlap.

    l1_size, l2_size    bytes; L2 begins with the two private banks
    """
    regions = [
        *_l1(l1_size),
        *(Region(n, base, size, k, m, base, b) for n, base, size, k, m, b in _CLUSTER),
    ]
    regions += [_core_alias(region) for region in regions]
    regions += _l2(l2_size)
    regions += [
        Region(name, base, size, Kind.SOC_PERIPHERAL, Master.ALL, base, block)
        for name, base, size, block in _SOC
    ]
    return tuple(sorted(regions, key=lambda region: region.base))


def control_page_map(l1_size: int, l2_size: int) -> tuple[Region, ...]:
    """The regions of the chips that carry out the RTL test programs' platform contract."""
    units = [row for row in _CLUSTER if row[3] in (Kind.EVENT_UNIT, Kind.DMA)]
    return (
        _l1(l1_size)[0],
        *(Region(n, base, size, k, m, base, b) for n, base, size, k, m, b in units),
        Region(
            "control_page",
            0x1A100000,
            0x1000,
            Kind.CONTROL_PAGE,
            Master.ALL,
            0x1A100000,
            CONTROL_PAGE,
        ),
        Region("l2", L2_BASE, l2_size, Kind.L2, Master.ALL, L2_BASE),
    )


def _l1(size: int) -> list[Region]:
    return [
        Region("l1", L1_BASE, size, Kind.L1, Master.ALL, L1_BASE),
        Region(
            "l1_test_and_set", L1_BASE | 1 << 20, size, Kind.L1_TEST_AND_SET, Master.ALL, L1_BASE
        ),
    ]


def _l2(size: int) -> list[Region]:
    banks = [
        ("l2_private_0", L2_BASE, PRIVATE_SIZE),
        ("l2_private_1", L2_BASE + PRIVATE_SIZE, PRIVATE_SIZE),
        ("l2_shared", L2_BASE + 2 * PRIVATE_SIZE, size - 2 * PRIVATE_SIZE),
    ]
    regions = [Region(n, base, size, Kind.L2, Master.ALL, base) for n, base, size in banks]
    return [Region("l2_alias", 0, PRIVATE_SIZE, Kind.L2, Master.FABRIC, L2_BASE), *regions]


def _core_alias(region: Region) -> Region:
    base = region.base - CLUSTER_ALIAS
    name = f"{region.name}_alias"
    return Region(name, base, region.size, region.kind, Master.CORE, region.target, region.block)


def region_at(regions: tuple[Region, ...], address: int, master: Master) -> Region | None:
    """The region that a master sees at an address; None in a hole."""
    for region in regions:
        if 0 <= address - region.base < region.size and master in region.masters:
            return region
    return None


def hole(regions: tuple[Region, ...], address: int, master: Master) -> str:
    """What to tell about an address that leads nowhere."""
    seen = [region for region in regions if master in region.masters]
    others = region_at(regions, address, Master.ALL & ~master)
    if others:
        who = {Master.CORE: "the cluster's cores", Master.FABRIC: "the fabric controller"}
        return f"address {address:#010x} ({others}) is not visible to {who[master]}"
    nearest = min(seen, key=lambda region: max(region.base - address, address - region.end + 1))
    return f"address {address:#010x} is in no region of the memory map (nearest: {nearest})"
