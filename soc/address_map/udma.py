"""The registers of the uDMA and of the peripherals that it serves.

Address bits 11:7 choose a block, of which block 0 is the uDMA's own and block p + 1 is that of the
peripheral with number p. Sources: udma_core 1.1.2, udma_uart 1.0.2, udma_hyper 83ab704, pulp_soc
3.0.1 udma_subsystem.sv.
"""

from soc.address_map.register import Block, Field, Register

BLOCK_SIZE = 0x80
BLOCKS = 18
"""Blocks that exist: an access to others is never answered."""

UART_ID, SPIM_ID, HYPERBUS_ID, HYPERBUS_COMMON_ID = 0, 1, 8, 16
I2C_IDS = 2, 3
HYPERBUS_QUEUES = 8
NAMES = {
    0: "uart",
    1: "spim",
    2: "i2c_0",
    3: "i2c_1",
    4: "sdio",
    5: "i2s",
    6: "camera",
    7: "filter",
    **{HYPERBUS_ID + i: f"hyperbus_{i}" for i in range(HYPERBUS_QUEUES)},
    HYPERBUS_COMMON_ID: "hyperbus",
}
"""Peripherals by their numbers."""
EVENTS = 4
"""Event numbers of a peripheral, from EVENTS times its own number."""

CONTINUOUS, ENABLE, PENDING, CLEAR = 1 << 0, 1 << 4, 1 << 5, 1 << 6
"""Bits of a channel's CONFIG."""

UDMA_CORE = Block(
    "udma",
    "udma_core rtl/core/udma_ctrl.sv",
    (
        Register("CLOCK_GATE", 0x00, "a bit per peripheral: its clock runs"),
        Register("EVENT_IN", 0x04, "four events that peripherals can wait for, 8 bits each"),
        Register("RESET", 0x08, "stored, drives nothing"),
    ),
)

_CONFIG = (
    Field("continuous", 0, 1, "begins again at its end"),
    Field("data_size", 1, 2, "8, 16, 32 bits"),
    Field("enable", 4, 1, "a store of 1 starts; busy"),
    Field("pending", 5, 1, "a second transfer waits"),
    Field("clear", 6, 1, "a store of 1 ends the transfer"),
)


def channel(prefix: str, offset: int) -> tuple[Register, ...]:
    """The registers of a channel between a peripheral and L2."""
    return (
        Register(f"{prefix}_ADDRESS", offset, "in L2; a load finds that of the next element"),
        Register(f"{prefix}_SIZE", offset + 4, "bytes, 20 bits; a load finds those that are left"),
        Register(f"{prefix}_CONFIG", offset + 8, "", _CONFIG),
    )


UART = Block(
    "uart",
    "udma_uart rtl/udma_uart_reg_if.sv",
    (
        *channel("RX", 0x00),
        *channel("TX", 0x10),
        Register(
            "STATUS",
            0x20,
            "",
            (Field("tx_busy", 0, 1, "sends a character"), Field("rx_busy", 1, 1, "receives one")),
        ),
        Register(
            "SETUP",
            0x24,
            "",
            (
                Field("parity", 0, 1, "an even parity bit follows the data"),
                Field("length", 1, 2, "5 to 8 bits"),
                Field("stop_bits", 3, 1, "two instead of one"),
                Field("polling", 4, 1, "characters go to DATA"),
                Field("clean", 5, 1, "received characters are dropped"),
                Field("tx", 8, 1, "transmitter on"),
                Field("rx", 9, 1, "receiver on"),
                Field("divider", 16, 16, "cycles of a bit - 1"),
            ),
        ),
        Register(
            "ERROR",
            0x28,
            "a load clears it",
            (Field("overflow", 0, 1, "a character was lost"), Field("parity", 1, 1, "")),
        ),
        Register("INTERRUPTS", 0x2C, "", (Field("rx", 0, 1, ""), Field("error", 1, 1, ""))),
        Register("VALID", 0x30, "", (Field("valid", 0, 1, "DATA holds a character"),)),
        Register("DATA", 0x34, "a load takes the character"),
    ),
)
