"""The registers of HyperBus: those of each of its eight queues, and the common ones.

Source: udma_hyper 83ab704, pulp-sdk udma_hyper_v3.h.
"""

from soc.address_map.register import Block, Field, Register
from soc.address_map.udma import channel

_2D = (
    Register("DEVICE_2D", 0x28, "1: lines in the device"),
    Register("DEVICE_COUNT", 0x2C, "bytes of a line"),
    Register("DEVICE_STRIDE", 0x30, "bytes from one to the next"),
    Register("L2_2D", 0x34, "1: lines in L2"),
    Register("L2_COUNT", 0x38, "bytes of a line"),
    Register("L2_STRIDE", 0x3C, "bytes from one to the next"),
)
HYPERBUS = Block(
    "hyperbus",
    "udma_hyper, udma_hyper_v3.h: one of eight queues",
    (
        *channel("RX", 0x00),
        *channel("TX", 0x0C),
        Register(
            "COMMAND",
            0x18,
            "",
            (Field("burst", 0, 1, ""), Field("register", 1, 1, ""), Field("read", 2, 1, "")),
            reset=5,
        ),
        Register("ADDRESS", 0x1C, "byte address in the device"),
        Register("REGISTER_DATA", 0x20, "16 bits for a register of the device"),
        Register("STATUS", 0x24, "bit 0: busy; bits 8:1: transactions that wait"),
        *_2D,
    ),
)
HYPERBUS_COMMON = Block(
    "hyperbus_common",
    "udma_hyper, udma_hyper_v3.h",
    (
        Register("PAGE_BOUND", 0x00, "0..3: split at 128, 256, 512, 1024 bytes; 4..7: nowhere"),
        Register("LATENCY", 0x04, "clocks", reset=6),
        Register("LATENCY_ADD", 0x08, "1: always twice the latency", reset=1),
        Register("SELECT_MAX", 0x0C, "PHY cycles after which the device is cut off", reset=665),
        Register("RECOVERY", 0x10, "clocks", reset=6),
        Register("DELAY", 0x14, "of RWDS", reset=2),
        Register("SAMPLE", 0x18, "cycle in which RWDS is looked at", reset=3),
        Register("DEVICES", 0x1C, "", reset=1),
        Register("DEVICE", 0x20, "0: HyperRAM"),
        Register("TRANSACTION", 0x24, "lowest id that is not busy; 0 if all are"),
    ),
)
