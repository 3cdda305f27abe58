"""Peripherals alone: stores and loads by hand, logs of what they do at their ports."""

from collections import defaultdict
from functools import partial

import pytest
from simpy import Environment

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from soc.address_map.memory_map import Master, memory_map
from soc.address_map.registers import (
    EVENT_UNIT_SHARED,
    FABRIC_ICACHE_CONTROL,
    FLL,
    GPIO,
    ICACHE_CONTROL,
)
from soc.chip.peripherals_spec import PeripheralsSpec
from soc.event_unit.clock_edge import eu_clock
from soc.event_unit.event_unit import eu_access
from soc.event_unit.state import EventUnitSpec, event_unit_state
from soc.peripherals.bus import Bus, BusError, Decoder, Peripherals
from soc.peripherals.cluster_control import ClusterControl, cluster_configuration
from soc.peripherals.console import Console
from soc.peripherals.fll import Fll
from soc.peripherals.icache_control import IcacheControl
from soc.peripherals.interrupt_controller import NONE, InterruptController
from soc.peripherals.register_block import RegisterBlock
from soc.peripherals.shared_event_unit import SharedEventUnit
from soc.peripherals.soc_control import SocControl
from soc.peripherals.soc_events import SocEvents
from soc.run import prepare

WORD = 0xFFFFFFFF
MAP = memory_map(64 << 10, 2 << 20)


class Ports:
    """Ports that log what goes out: (name, values)."""

    def __init__(self):
        self.log = []

    def __getattr__(self, name):
        return lambda *values: self.log.append((name, *values))


def store(peripheral, name, value, index=0):
    peripheral.write(peripheral.block.offset(name, index), value, 4)


def load(peripheral, name, index=0):
    return peripheral.read(peripheral.block.offset(name, index), 4)


def test_plain_registers_remember_and_unknown_ones_warn_once():
    ports = Ports()
    gpio = RegisterBlock("gpio", GPIO, ports.warn)
    store(gpio, "OUT", 0x1234)
    gpio.write(0x80, 0xBEEF, 4)
    found = [load(gpio, "OUT"), load(gpio, "OUT_SET"), gpio.read(0x80, 4), gpio.read(0x84, 4)]
    assert found == [0x1234, 0, 0xBEEF, 0]
    assert gpio.unknown == {0x80: 2, 0x84: 1}
    assert ports.log == [
        ("warn", "gpio: store at offset 0x80, where it has no register"),
        ("warn", "gpio: load at offset 0x84, where it has no register"),
    ]


def test_a_narrow_load_takes_its_bytes_and_a_narrow_store_the_whole_word():
    gpio = RegisterBlock("gpio", GPIO, Ports().warn)
    store(gpio, "OUT", 0x89ABCDEF)
    base = GPIO.offset("OUT")
    found = [gpio.read(base + i, 1) for i in range(4)] + [gpio.read(base + 2, 2)]
    assert found == [0xEF, 0xCD, 0xAB, 0x89, 0x89AB]
    gpio.write(base + 1, 0x1FF, 1)
    assert load(gpio, "OUT") == 0xFF00


def test_a_register_reads_its_reset_value_until_it_is_written():
    fll = RegisterBlock("fll", FLL, Ports().warn)
    assert load(fll, "CONFIG_2") == 0x22004109
    store(fll, "CONFIG_2", 0)
    assert load(fll, "CONFIG_2") == 0


def cluster_control():
    ports = Ports()
    configuration = cluster_configuration(8, 64 << 10, 2 << 20, 4 << 10)
    control = ClusterControl(
        8, configuration, ports.warn, ports.fetch_enable, ports.end, ports.clock_gate
    )
    return control, ports


def test_fetch_enable_starts_cores_at_their_boot_addresses():
    control, ports = cluster_control()
    for core in range(8):
        store(control, "BOOT_ADDRESS", 0x1C000100 + 4 * core, core)
    store(control, "FETCH_ENABLE", 0xFFFF)
    store(control, "FETCH_ENABLE", 0x05)
    assert ports.log == [("fetch_enable", 0xFF), ("fetch_enable", 0x05)]
    assert load(control, "FETCH_ENABLE") == 0x05
    assert [control.boot_address(core) for core in (0, 7)] == [0x1C000100, 0x1C00011C]


def test_a_core_boots_at_the_start_of_l2_unless_told_otherwise():
    control, _ = cluster_control()
    assert control.boot_address(3) == 0x1C000000
    assert load(control, "BOOT_ADDRESS", 3) == 0x1C000000


def test_cluster_control_passes_end_and_clock_gate_on():
    control, ports = cluster_control()
    store(control, "END", 1)
    store(control, "CLOCK_GATE", 1)
    store(control, "CLOCK_GATE", 2)
    store(control, "RETURN", 0x80000007)
    assert ports.log == [("end", True), ("clock_gate", True), ("clock_gate", False)]
    found = [load(control, name) for name in ("END", "CLOCK_GATE", "RETURN", "EVENT")]
    assert found == [1, 0, 0x80000007, 0]


def test_the_configuration_of_the_cluster_is_read_only():
    control, _ = cluster_control()
    store(control, "CONFIG", 0)
    assert load(control, "CONFIG") == 2 << 20 | 1 << 4 | 1 << 2 | 2
    assert cluster_configuration(6, 1 << 20, 1 << 20, 1) == 1 << 20 | 3 << 6 | 3 << 4 | 1 << 2


def test_the_whole_cluster_can_be_enabled_at_once():
    control, ports = cluster_control()
    control.enable_all()
    assert ports.log == [("fetch_enable", 0xFF)]


def test_cache_control_turns_stores_into_orders():
    ports = Ports()
    control = IcacheControl(
        "cluster_icache",
        ICACHE_CONTROL,
        ports.warn,
        ports.enable,
        ports.flush,
        ports.flush_private,
        ports.flush_line,
    )
    store(control, "ENABLE", WORD)
    store(control, "FLUSH", 1)
    store(control, "FLUSH", 0)
    store(control, "FLUSH_PRIVATE", 1)
    store(control, "FLUSH_ADDRESS", 0x1C000040)
    store(control, "ENABLE", 0)
    assert ports.log == [
        ("enable", True),
        ("flush",),
        ("flush_private",),
        ("flush_line", 0x1C000040),
        ("enable", False),
    ]
    found = [load(control, name) for name in ("ENABLE", "FLUSH", "FLUSH_ADDRESS", "PREFETCH")]
    assert found == [0, 0, 0x1C000040, 0]


def test_the_fabric_controllers_cache_control_has_no_private_level():
    ports = Ports()
    control = IcacheControl(
        "fabric_icache", FABRIC_ICACHE_CONTROL, ports.warn, ports.enable, ports.flush
    )
    store(control, "ENABLE", 1)
    control.write(4, 1, 4)
    store(control, "FLUSH_ADDRESS", 0x1C000040)
    store(control, "STATUS", 1)
    assert ports.log == [("enable", True), ("flush",)]
    assert load(control, "ENABLE") == 1
    assert load(control, "STATUS") == 0


def soc_control():
    ports = Ports()
    return SocControl(8, ports.warn, ports.exit, ports.start_cluster), ports


def test_a_core_status_with_its_end_bit_ends_the_run():
    control, ports = soc_control()
    store(control, "CORE_STATUS", 0x12)
    store(control, "CORE_STATUS", 0x80000003)
    assert ports.log == [("exit", 3)]
    assert load(control, "CORE_STATUS") == load(control, "CORE_STATUS_READ") == 0x80000003


def test_info_tells_cores_and_clusters():
    control, _ = soc_control()
    store(control, "INFO", 0)
    store(control, "CORE_STATUS_READ", 5)
    assert load(control, "INFO") == 8 << 16 | 1
    assert load(control, "CORE_STATUS") == 0


def test_the_clusters_fetch_enable_starts_it_when_it_rises():
    control, ports = soc_control()
    assert load(control, "CLUSTER_CONTROL") == 0b1001
    for value in (0b1010, 0b1110, 0b1110, 0xF0, 0xFF):
        store(control, "CLUSTER_CONTROL", value)
    assert ports.log == [("start_cluster",), ("start_cluster",)]
    assert load(control, "CLUSTER_CONTROL") == 0b1111


def test_general_registers_of_soc_control_remember():
    control, ports = soc_control()
    store(control, "JTAG", 0)
    store(control, "PAD_FUNCTION", 0x55, 2)
    assert load(control, "PAD_FUNCTION", 2) == 0x55
    assert load(control, "PAD_CONFIG", 15) == 0x1F1F1F1F
    assert ports.log == []


def test_the_console_takes_bytes_and_words_of_any_core():
    ports = Ports()
    console = Console(ports.warn, ports.put)
    console.write(0x000, ord("a"), 1)
    console.write(0x018, 0x12345600 | ord("b"), 4)
    console.write(31 << 7, ord("c"), 4)
    assert ports.log == [("put", 97, 0, 0), ("put", 98, 0, 3), ("put", 99, 31, 0)]
    assert console.read(0, 4) == 0


def test_an_fll_reaches_the_factor_it_is_told_and_says_that_no_cycle_changes():
    ports = Ports()
    fll = Fll("fll_soc", ports.warn)
    assert load(fll, "STATUS") == 2198
    store(fll, "CONFIG_1", 0x45000000 | 1000)
    assert load(fll, "STATUS") == 2198
    for factor in (3000, 4000):
        store(fll, "CONFIG_1", 1 << 31 | factor)
    store(fll, "STATUS", 1)
    assert load(fll, "STATUS") == 4000
    assert ports.log == [
        ("warn", "fll_soc: a frequency is set; all clocks of this chip stay equal")
    ]


class Interrupts:
    """An interrupt controller that logs (cycle, line)."""

    def __init__(self, **fields):
        self.env, self.log = Environment(), []
        self.itc = InterruptController(
            self.env,
            PeripheralsSpec(**fields),
            lambda text: self.log.append(text),
            lambda line: self.log.append((self.env.now, line)),
        )

    def at(self, cycle):
        self.env.run(until=cycle)


def test_the_highest_event_of_the_mask_interrupts_one_cycle_later():
    bench = Interrupts()
    store(bench.itc, "MASK_SET", 1 << 10 | 1 << 11)
    bench.at(10)
    bench.itc.set_event(10)
    bench.itc.set_event(3)
    bench.at(20)
    bench.itc.set_event(11)
    bench.at(30)
    bench.itc.take(11)
    bench.at(40)
    store(bench.itc, "STATUS_CLEAR", 1 << 10)
    bench.at(50)
    assert bench.log == [(11, 10), (21, 11), (31, 10), (41, NONE)]
    assert load(bench.itc, "STATUS") == 1 << 3
    assert load(bench.itc, "ACK") == 1 << 11


def test_an_event_outside_the_mask_waits_for_it():
    bench = Interrupts()
    bench.itc.set_event(31)
    bench.at(10)
    store(bench.itc, "MASK", WORD)
    bench.at(20)
    store(bench.itc, "MASK_CLEAR", 1 << 31)
    bench.at(30)
    assert bench.log == [(11, 31), (21, NONE)]
    assert [load(bench.itc, name) for name in ("MASK", "MASK_SET")] == [WORD >> 1, 0]


def test_software_can_set_interrupts():
    bench = Interrupts()
    store(bench.itc, "MASK", 0xFF)
    store(bench.itc, "STATUS_SET", 1 << 4)
    bench.at(10)
    store(bench.itc, "ACK_SET", 0b11)
    store(bench.itc, "ACK_CLEAR", 0b01)
    bench.at(20)
    assert bench.log == [(1, 4)]
    assert load(bench.itc, "ACK") == 0b10


def test_soc_events_queue_after_interrupt_26():
    bench = Interrupts()
    store(bench.itc, "MASK", 1 << 26)
    accepted = [bench.itc.push_soc_event(number) for number in range(60, 65)]
    assert accepted == [True] * 4 + [False]
    found = []
    for cycle in range(10, 60, 10):
        bench.at(cycle)
        if bench.itc.asked == 26:
            bench.itc.take(26)
            found.append(load(bench.itc, "FIFO"))
    store(bench.itc, "FIFO", 1)
    bench.at(70)
    assert found == [60, 61, 62, 63]
    assert bench.log == [(2, 26), (41, NONE)]


CLOCK = 1 << 14


def test_both_edges_of_the_reference_clock_are_line_14():
    bench = Interrupts(reference_period=100)
    store(bench.itc, "MASK", CLOCK)
    for cycle in (120, 170):
        bench.at(cycle)
        bench.itc.take(14)
    bench.at(190)
    store(bench.itc, "MASK", 0)
    bench.at(1000)
    taken = [(121, NONE), (151, 14), (171, NONE)]
    assert bench.log == [(51, 14), *taken]


def test_a_masked_edge_is_seen_in_status_and_costs_no_event():
    bench = Interrupts(reference_period=100)
    bench.at(49)
    found = [load(bench.itc, "STATUS")]
    for cycle in (50, 99, 100):
        bench.at(cycle + 0.5)
        found.append(load(bench.itc, "STATUS"))
        store(bench.itc, "STATUS_CLEAR", CLOCK)
    assert found == [0, CLOCK, 0, CLOCK]
    bench.env.run()
    assert bench.env.now < 110, "nothing waits for an edge, so nothing is to come"


class Events:
    """A SoC event unit between two receivers that log (cycle, receiver, number)."""

    def __init__(self, **fields):
        self.env, self.log, self.refusals = Environment(), [], {"fabric": 0, "cluster": 0}
        self.unit = SocEvents(
            self.env,
            PeripheralsSpec(**fields),
            lambda text: self.log.append(text),
            lambda number: self.offer("fabric", number),
            lambda number: self.offer("cluster", number),
            lambda: not self.refusals["fabric"],
        )

    def offer(self, receiver, number):
        if self.refusals[receiver]:
            self.refusals[receiver] -= 1
            return False
        self.log.append((self.env.now, receiver, number))
        return True

    def open(self, mask, number):
        index, bit = divmod(number, 32)
        store(self.unit, mask, load(self.unit, mask, index) & ~(1 << bit), index)


def test_an_event_goes_where_its_mask_is_open_one_per_cycle():
    bench = Events()
    bench.open("FC_MASK", 40)
    bench.open("CLUSTER_MASK", 40)
    bench.open("CLUSTER_MASK", 255)
    bench.env.run(until=10)
    for number in (40, 7, 255):
        bench.unit.trigger(number)
    bench.env.run(until=30)
    assert bench.log == [(12, "cluster", 40), (12, "fabric", 40), (13, "cluster", 255)]


def test_software_triggers_events_after_those_of_peripherals():
    bench = Events()
    for number in (160, 163):
        bench.open("FC_MASK", number)
    store(bench.unit, "EVENT", 0b1001)
    bench.env.run(until=10)
    assert bench.log == [(1, "fabric", 160), (2, "fabric", 163)]
    assert load(bench.unit, "EVENT") == 0


def test_rising_edges_of_the_reference_clock_are_events_while_a_mask_is_open():
    bench = Events(reference_period=100)
    bench.env.run(until=10)
    bench.open("FC_MASK", 168)
    bench.env.run(until=250)
    store(bench.unit, "FC_MASK", WORD, 168 // 32)
    bench.env.run()
    assert bench.log == [(101, "fabric", 168), (201, "fabric", 168)]
    assert bench.env.now == 301, "the edge that was awaited is dropped"


def test_there_are_eight_software_events():
    bench = Events()
    for number in range(160, 176):
        bench.open("FC_MASK", number)
    store(bench.unit, "FC_MASK", load(bench.unit, "FC_MASK", 5) | 1 << 8, 5)
    store(bench.unit, "EVENT", WORD)
    bench.env.run(until=30)
    assert [number for _, _, number in bench.log] == list(range(160, 168))


def test_an_event_is_offered_to_the_cluster_until_it_is_accepted():
    bench = Events()
    bench.open("CLUSTER_MASK", 5)
    bench.refusals["cluster"] = 3
    bench.unit.trigger(5)
    bench.env.run(until=10)
    assert bench.log == [(4, "cluster", 5)]


def test_a_full_fabric_controller_blocks_the_events_of_all_others():
    bench = Events()
    bench.open("FC_MASK", 5)
    bench.open("CLUSTER_MASK", 6)
    bench.refusals["fabric"] = 1
    bench.unit.trigger(5)
    bench.unit.trigger(6)
    bench.env.run(until=10)
    assert bench.log == []
    bench.refusals["fabric"] = 0
    bench.unit.go_on()
    bench.env.run(until=20)
    assert bench.log == [(11, "fabric", 5), (12, "cluster", 6)]


def test_waiting_events_are_served_round_robin():
    bench = Events()
    for number in (3, 9, 40):
        bench.open("CLUSTER_MASK", number)
    for number in (9, 9, 40, 3):
        bench.unit.trigger(number)
    bench.env.run(until=10)
    served = [(1, "cluster", 3), (2, "cluster", 9), (3, "cluster", 40), (4, "cluster", 9)]
    assert bench.log == served


def test_one_event_too_many_is_lost_and_noted():
    bench = Events(event_queue=2)
    bench.open("FC_MASK", 37)
    for _ in range(3):
        bench.unit.trigger(37)
    store(bench.unit, "ERROR", 0, 1)
    bench.env.run(until=10)
    assert bench.log == [
        "soc_events: event 37 is lost: 2 of it wait",
        (1, "fabric", 37),
        (2, "fabric", 37),
    ]
    assert [load(bench.unit, "ERROR", 1) for _ in range(2)] == [1 << 5, 0]


def test_the_shared_event_unit_wakes_a_core_through_the_bus():
    state = event_unit_state(EventUnitSpec(), 2)
    env, eu = Environment(), state[0]
    shared = SharedEventUnit(env, eu)
    env.run(until=10)
    shared.write(EVENT_UNIT_SHARED.offset("CORE_MASK_OR", 1), 0b100, 4)
    eu_clock(eu, 10)
    eu_access(eu, 1, False, True, 0x3C, 0, 11)
    eu_clock(eu, 11)
    env.run(until=20)
    shared.write(EVENT_UNIT_SHARED.offset("SW_EVENT", 2), 0b10, 4)
    log = []
    for cycle in range(20, 25):
        if eu["next"] <= cycle:
            log.append((cycle, int(eu_clock(eu, cycle))))
    assert log == [(20, 0), (21, 0b10), (22, 0)]
    assert shared.read(EVENT_UNIT_SHARED.offset("CORE_MASK", 1), 1) == 0b100


def test_a_shared_store_that_meets_a_cores_store_is_repeated():
    state = event_unit_state(EventUnitSpec(), 2)
    env, eu = Environment(), state[0]
    shared = SharedEventUnit(env, eu)
    env.run(until=10)
    eu_access(eu, 1, True, False, 0x00, 0b1, 10)
    shared.write(EVENT_UNIT_SHARED.offset("CORE_MASK", 1), 0b10, 4)
    eu_clock(eu, 10)
    assert eu["mask"][1] == 0b1
    env.run(until=11)
    eu_clock(eu, 11)
    assert eu["mask"][1] == 0b10


def test_the_shared_event_unit_refuses_what_the_chip_does_not_have():
    state = event_unit_state(EventUnitSpec(barriers=4), 2)
    shared = SharedEventUnit(Environment(), state[0])
    message = (
        r"^event unit: nothing at offset 0x480 of the shared view; this chip has 2 cores and "
        r"4 barriers$"
    )
    with pytest.raises(BusError, match=message):
        shared.read(0x480, 4)
    with pytest.raises(BusError, match=message):
        shared.write(0x480, 0, 4)


class Recorder:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def read(self, offset, size):
        self.log.append((self.name, "read", offset, size))
        return 0xA5

    def write(self, offset, value, size):
        self.log.append((self.name, "write", offset, value, size))


def bus(master):
    log = []
    names = {
        region.name
        for region in MAP
        if region.kind.name.endswith("PERIPHERAL") and region.base == region.target
    }
    return Bus(Decoder(MAP, master), {name: Recorder(name, log) for name in names}), log


def test_the_bus_finds_the_peripheral_and_its_offset():
    cores, log = bus(Master.CORE)
    assert cores.read(0x1A10401C, 4) == 0xA5
    cores.write(0x1A10F000, 65, 1)
    cores.write(0x10200008, 0xFF, 4)
    cores.read(0x10200F00, 4)
    cores.write(0x1A100024, 1, 4)
    assert log == [
        ("soc_control", "read", 0x1C, 4),
        ("stdout", "write", 0, 65, 1),
        ("cluster_control", "write", 8, 0xFF, 4),
        ("event_unit_shared", "read", 0x700, 4),
        ("fll_cluster", "write", 4, 1, 4),
    ]


def test_cores_see_their_cluster_at_its_alias_too_the_fabric_controller_does_not():
    cores, log = bus(Master.CORE)
    cores.write(0x00200040, 5, 4)
    assert log == [("cluster_control", "write", 0x40, 5, 4)]
    fabric, log = bus(Master.FABRIC)
    message = (
        r"^address 0x00200040 \(cluster_control_alias 0x00200000\.\.0x002003ff\) is not visible to "
        r"the fabric controller$"
    )
    with pytest.raises(BusError, match=message):
        fabric.read(0x00200040, 4)
    assert log == []


@pytest.mark.parametrize(
    ("address", "size", "text"),
    [
        (
            0x1B000000,
            4,
            "address 0x1b000000 is in no region of the memory map "
            "(nearest: debug 0x1a190000..0x1a190fff)",
        ),
        (
            0x1C000000,
            4,
            "address 0x1c000000 (l2_private_0 0x1c000000..0x1c007fff) is no peripheral",
        ),
        (
            0x1A104002,
            4,
            "address 0x1a104002: 4 bytes cross a word of soc_control; peripherals answer within "
            "one word",
        ),
    ],
)
def test_the_bus_says_why_nothing_answers(address, size, text):
    cores, log = bus(Master.CORE)
    for access in (lambda: cores.read(address, size), lambda: cores.write(address, 0, size)):
        with pytest.raises(BusError) as error:
            access()
        assert str(error.value) == text
    assert log == []


def test_what_a_component_declares_is_of_registers_that_it_has():
    platform = prepare(assemble("wfi", profile("ri5cy", "x")), "pulp", "compiled").platform
    declared, there = defaultdict(set), defaultdict(set)
    for part in platform.peripherals.values():
        if isinstance(part, RegisterBlock):
            declared[type(part)] |= {*part.loads, *part.stores}
            there[type(part)] |= {register.name for register in part.block.registers}

    assert len(declared) > 8
    assert {kind: names - there[kind] for kind, names in declared.items()} == {
        kind: set() for kind in declared
    }


def test_a_bus_needs_exactly_the_peripherals_of_its_map():
    with pytest.raises(ValueError, match=r"^bus: no peripheral for advanced_timer, .*, udma$"):
        Bus(Decoder(MAP, Master.CORE), {})
    names = {region.name for region in MAP if region.kind.name.endswith("PERIPHERAL")}
    everything = {name: Recorder(name, []) for name in names if not name.endswith("_alias")}
    with pytest.raises(ValueError, match=r"^bus: no region uart; there are advanced_timer, .*$"):
        Bus(Decoder(MAP, Master.CORE), {**everything, "uart": Recorder("uart", [])})


def test_peripherals_are_made_when_they_are_accessed_first():
    log = []
    names = Decoder(MAP, Master.CORE).names
    made = Peripherals({name: partial(Recorder, name) for name in names}, log)
    cores, fabric = (Bus(Decoder(MAP, master), made) for master in (Master.CORE, Master.FABRIC))
    assert not made.made
    cores.write(0x1A10F000, 65, 1)
    fabric.write(0x1A10F004, 66, 1)
    assert list(made.made) == ["stdout"]
    assert log == [("stdout", "write", 0, 65, 1), ("stdout", "write", 4, 66, 1)]
