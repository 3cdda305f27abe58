"""The memory map and the registers of the platform: pure data, read by components and firmware.

Sources: PULP's public headers (pulp-runtime archi/: chips/pulp/memory_map.h, eu_v3, mchan_v7,
timer_v2, cluster_ctrl_v2, apb_soc_v3, itc_v1, soc_eu_v2, fll_v1, gpio_v3, stdout_v2) and the RTL
that they describe, named at each block.
"""

from soc.address_map.register import Block, Field, Register

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
PINS = 32
"""Pins of a bank of the GPIO: a bit each in its registers."""

GPIO_BANK = Block(
    "gpio_bank",
    "apb_gpio 0e9f142, archi/gpio/gpio_v3.h",
    (
        Register("DIRECTION", 0x00, "1: output"),
        Register("ENABLE", 0x04, "1: the input is sampled"),
        Register("IN", 0x08, "level of the pins, as they were sampled"),
        Register("OUT", 0x0C, "level that outputs drive"),
        Register("OUT_SET", 0x10, "a store sets bits of OUT"),
        Register("OUT_CLEAR", 0x14, "a store clears bits of OUT"),
        Register("INTERRUPT_ENABLE", 0x18, "pins whose edges are events"),
        Register("EDGES_LOW", 0x1C, "2 bits a pin, 0 to 15: 0 falling, 1 rising, 2 both"),
        Register("EDGES_HIGH", 0x20, "2 bits a pin, 16 to 31"),
        Register("INTERRUPT_STATUS", 0x24, "pins with an edge; a load clears them"),
        *(Register(f"PAD_CONFIG_{n}", 0x28 + 4 * n, "settings of the pads") for n in range(4)),
    ),
)
GPIO = Block("gpio", GPIO_BANK.source, _repeated(GPIO_BANK, "", 0, 2, 0x38))
PMU = Block("pmu", "GVSoC's pulp-open; its registers are not modelled", ())
DEBUG = Block("debug", "GVSoC's pulp-open; its registers are not modelled", ())


L1_BASE = 0x10000000
L2_BASE = 0x1C000000
