"""The registers of the SPI master, and the commands that it carries out.

Source: udma_qspi rtl/udma_spim_reg_if.sv, udma_spim_ctrl.sv, udma_spim_defines.sv.
"""

from enum import IntEnum

from soc.address_map.register import Block, Field, Register
from soc.address_map.udma import channel

SPIM = Block(
    "spim",
    "udma_qspi rtl/udma_spim_reg_if.sv",
    (
        *channel("RX", 0x00),
        *channel("TX", 0x10),
        *channel("CMD", 0x20),
        Register(
            "STATUS", 0x30, "", (Field("repeated", 0, 2, "0: not yet; 1: matched; 2: to the end"),)
        ),
    ),
)


class Command(IntEnum):
    """Bits 31:28 of a command."""

    CONFIG = 0  # 7:0 divider, 8 CPHA, 9 CPOL
    START = 1  # 1:0 device to select
    SEND = 2  # 15:0 value, 20:16 bits - 1, 27 quad
    DUMMY = 4  # 20:16 clocks - 1
    WAIT = 5  # 9:8 0: trigger 1:0; 1: cycles 7:0
    TX_DATA = 6  # 15:0 words - 1, 20:16 bits - 1, 22:21 words of a transfer, 26 LSB first, 27 quad
    RX_DATA = 7  # as TX_DATA
    REPEAT = 8  # 15:0 times
    END = 9  # 0: tell it, 1: the device stays selected
    REPEAT_END = 10
    CHECK = 11  # 15:0 value, 19:16 bits - 1, 25:24 how
    FULL_DUPLEX = 12  # as TX_DATA
    SET_ADDRESS = 13  # 27: 1 TX, 0 RX; an address
    SET_SIZE = 14  # 27: 1 TX, 0 RX; 26:25 data size, 19:0 bytes; starts
