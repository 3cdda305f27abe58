"""The registers of an I2C master, and the commands that it carries out.

Source: udma_i2c rtl/udma_i2c_reg_if.sv, udma_i2c_control.sv, udma_i2c_defines.sv.
"""

from enum import IntEnum

from soc.address_map.register import Block, Field, Register
from soc.address_map.udma import channel

I2C = Block(
    "i2c",
    "udma_i2c rtl/udma_i2c_reg_if.sv",
    (
        *channel("RX", 0x00),
        *channel("TX", 0x10),
        *channel("CMD", 0x20),
        Register(
            "STATUS",
            0x30,
            "a load clears it",
            (
                Field("busy", 0, 1, "the bus has become busy"),
                Field("lost", 1, 1, "arbitration was lost"),
            ),
        ),
        Register("SETUP", 0x34, "", (Field("reset", 0, 1, "holds the master in reset"),)),
        Register("NACK", 0x38, "a load clears it: a byte was not acknowledged"),
    ),
)


class Command(IntEnum):
    """Bits 31:28 of a command. Those that are not here do nothing."""

    START = 0x0
    WAIT_EVENT = 0x1  # 25:24 trigger
    STOP = 0x2
    SET_ADDRESS = 0x3  # 27: 1 TX, 0 RX; an address
    READ_ACK = 0x4
    SET_SIZE = 0x5  # 27: 1 TX, 0 RX; 19:0 bytes; starts
    READ_NACK = 0x6
    WRITE_BYTE = 0x7  # 7:0 byte
    WRITE = 0x8  # a byte of TX
    END = 0x9  # tell it
    WAIT = 0xA  # 7:0 bits - 1
    REPEAT = 0xC  # 15:0 times the next read or write
    CONFIG = 0xE  # 15:0 divider
