"""The memory map and the registers: nothing overlaps, and known firmware finds what it knows."""

from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest

from soc.address_map import registers
from soc.address_map.events import CLUSTER_EVENTS, FABRIC_EVENTS, event_line
from soc.address_map.memory_map import Kind, Master, hole, memory_map, region_at
from soc.address_map.register import Block

KB, MB = 1 << 10, 1 << 20
MAP = memory_map(64 * KB, 2 * MB)
BLOCKS = [block for block in vars(registers).values() if isinstance(block, Block)]

# What bare-metal firmware for PULP writes out as numbers.
KNOWN_ADDRESSES = [
    ("cluster_control", "FETCH_ENABLE", 0, 0x10200008),
    ("cluster_control", "BOOT_ADDRESS", 7, 0x1020005C),
    ("cluster_timer", "VALUE", 0, 0x10200408),
    ("cluster_icache", "ENABLE", 0, 0x10201400),
    ("cluster_icache", "FLUSH", 0, 0x10201404),
    ("dma_shared", "STATUS", 0, 0x10201804),
    ("event_unit", "MASK_AND", 0, 0x10204004),
    ("event_unit", "MASK_OR", 0, 0x10204008),
    ("event_unit", "BUFFER_CLEAR", 0, 0x10204028),
    ("event_unit", "WAIT_CLEAR", 0, 0x1020403C),
    ("event_unit", "DISPATCH", 0, 0x10204080),
    ("event_unit", "MUTEX", 0, 0x102040C0),
    ("event_unit", "SW_EVENT", 0, 0x10204100),
    ("event_unit", "BARRIER_TRIGGER_MASK", 0, 0x10204200),
    ("event_unit", "BARRIER_TARGET_MASK", 0, 0x1020420C),
    ("event_unit", "BARRIER_TRIGGER_WAIT_CLEAR", 0, 0x1020421C),
    ("event_unit", "BARRIER_TRIGGER_WAIT_CLEAR", 1, 0x1020423C),
    ("event_unit_shared", "CORE_MASK", 1, 0x10200840),
    ("event_unit_shared", "BARRIER_TRIGGER_MASK", 0, 0x10200C00),
    ("event_unit_shared", "SW_EVENT", 0, 0x10200E00),
    ("event_unit_shared", "SOC_EVENT", 0, 0x10200F00),
    ("dma", "COMMAND", 0, 0x10204400),
    ("fll_cluster", "CONFIG_1", 0, 0x1A100024),
    ("soc_control", "JTAG", 0, 0x1A104074),
    ("soc_control", "CORE_STATUS", 0, 0x1A1040A0),
    ("soc_events", "FC_MASK", 0, 0x1A106004),
    ("soc_events", "CLUSTER_MASK", 0, 0x1A106024),
    ("fabric_icache", "ENABLE", 0, 0x1A108800),
    ("interrupt_controller", "MASK_SET", 0, 0x1A109804),
    ("fabric_timer", "CONFIG", 0, 0x1A10B000),
    ("fabric_timer", "COMPARE", 1, 0x1A10B014),
    ("stdout", "PUT", 0, 0x1A10F000),
    ("stdout", "PUT", 16 + 3, 0x1A10F098),
]


@pytest.mark.parametrize(("region", "register", "index", "address"), KNOWN_ADDRESSES)
def test_a_register_lies_where_firmware_knows_it(region, register, index, address):
    base = {entry.name: entry for entry in MAP}[region]
    assert base.block is not None
    assert base.base + base.block.offset(register, index) == address
    found = region_at(MAP, address, Master.CORE)
    assert found is base
    assert base.block.at(address - base.base) == (base.block.register(register), index)


@pytest.mark.parametrize("master", [Master.CORE, Master.FABRIC])
def test_no_master_sees_two_regions_at_one_address(master):
    seen = sorted((r.base, r.end) for r in MAP if master in r.masters)
    assert all(end <= base for (_, end), (base, _) in pairwise(seen))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_registers_of_a_block_do_not_overlap(block):
    offsets = [r.offset + r.stride * i for r in block.registers for i in range(r.count)]
    assert len(set(offsets)) == len(offsets)
    assert all(offset % 4 == 0 for offset in offsets)
    assert len({r.name for r in block.registers}) == len(block.registers)


@pytest.mark.parametrize("region", MAP, ids=lambda region: region.name)
def test_registers_lie_inside_their_region(region):
    for register in region.block.registers if region.block else ():
        assert register.offset + register.stride * (register.count - 1) + 4 <= region.size


def test_fields_of_a_register_do_not_overlap():
    for block in BLOCKS:
        for register in block.registers:
            used = 0
            for field in register.fields:
                assert not used & field.mask
                used |= field.mask
            assert used < 1 << 32


def test_every_register_has_an_offset_that_leads_back_to_it():
    for block in BLOCKS:
        for register in block.registers:
            last = register.count - 1
            assert block.at(block.offset(register.name, last)) == (register, last)


def test_between_registers_there_is_none():
    assert registers.CLUSTER_CONTROL.at(0x04) is None
    assert registers.TIMER.at(0x28) is None
    assert registers.STDOUT.at(0x04) is None


@pytest.mark.parametrize(
    ("master", "address", "kind", "target"),
    [
        (Master.CORE, 0x00000010, Kind.L1, 0x10000000),
        (Master.FABRIC, 0x00000010, Kind.L2, 0x1C000000),
        (Master.CORE, 0x00100010, Kind.L1_TEST_AND_SET, 0x10000000),
        (Master.CORE, 0x10100010, Kind.L1_TEST_AND_SET, 0x10000000),
        (Master.CORE, 0x00204200, Kind.EVENT_UNIT, 0x10204000),
        (Master.CORE, 0x00200008, Kind.CLUSTER_PERIPHERAL, 0x10200000),
        (Master.FABRIC, 0x10200008, Kind.CLUSTER_PERIPHERAL, 0x10200000),
        (Master.CORE, 0x10204404, Kind.DMA, 0x10204400),
        (Master.CORE, 0x1C007FFC, Kind.L2, 0x1C000000),
        (Master.CORE, 0x1C008000, Kind.L2, 0x1C008000),
        (Master.FABRIC, 0x1C1FFFFC, Kind.L2, 0x1C010000),
    ],
)
def test_what_a_master_sees(master, address, kind, target):
    region = region_at(MAP, address, master)
    assert region is not None
    assert (region.kind, region.target) == (kind, target)


def test_sizes_of_memories_are_those_of_the_chip():
    names = {region.name: region for region in memory_map(128 * KB, MB)}
    assert names["l1"].end == 0x10020000
    assert names["l1_alias"].end == 0x00020000
    assert names["l2_shared"].end == 0x1C100000


@pytest.mark.parametrize(
    ("address", "master", "text"),
    [
        (
            0x1B000000,
            Master.CORE,
            "address 0x1b000000 is in no region of the memory map "
            "(nearest: debug 0x1a190000..0x1a190fff)",
        ),
        (
            0x10010000,
            Master.CORE,
            "address 0x10010000 is in no region of the memory map "
            "(nearest: l1 0x10000000..0x1000ffff)",
        ),
        (
            0xFFFFFFFC,
            Master.FABRIC,
            "address 0xfffffffc is in no region of the memory map "
            "(nearest: l2_shared 0x1c010000..0x1c1fffff)",
        ),
        (
            0x10204000,
            Master.FABRIC,
            "address 0x10204000 (event_unit 0x10204000..0x102043ff) is not visible to the fabric "
            "controller",
        ),
    ],
)
def test_a_hole_is_told_with_its_neighbour(address, master, text):
    assert region_at(MAP, address, master) is None
    assert hole(MAP, address, master) == text


def test_event_lines_are_those_of_the_rtl():
    names = ("software", "dma", "timer", "accelerator", "barrier", "mutex", "dispatch", "soc")
    assert [event_line(CLUSTER_EVENTS, name) for name in names] == [0, 8, 10, 12, 16, 17, 18, 27]
    assert [event_line(FABRIC_EVENTS, name) for name in ("timer", "soc")] == [10, 26]


def test_unknown_names_are_refused_with_the_known_ones():
    message = r"^['\"]stdout has no register PUTC; it has PUT['\"]$"
    with pytest.raises(KeyError, match=message):
        registers.STDOUT.offset("PUTC")
    message = (
        r"^['\"]no event uart; there are software, dma, timer, cluster, reference_clock, gpio, "
        r"advanced_timer, soc, lost, unused['\"]$"
    )
    with pytest.raises(KeyError, match=message):
        event_line(FABRIC_EVENTS, "uart")


def test_registers_are_data_that_nobody_changes():
    with pytest.raises(FrozenInstanceError):
        registers.DMA.registers[0].offset = 4
