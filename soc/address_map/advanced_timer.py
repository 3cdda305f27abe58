"""The registers of the four advanced timers.

Source: apb_adv_timer rtl/adv_timer_apb_if.sv.
"""

from soc.address_map.register import Block, Field, Register

TIMERS = 4
_STRIDE = 0x40

ADVANCED_TIMER = Block(
    "advanced_timer",
    "apb_adv_timer rtl/adv_timer_apb_if.sv",
    (
        Register(
            "COMMAND",
            0x00,
            "a store commands",
            (
                Field("start", 0, 1, ""),
                Field("stop", 1, 1, ""),
                Field("update", 2, 1, "takes up COUNT_RANGE and CONFIG's sawtooth"),
                Field("reset", 3, 1, ""),
                Field("arm", 4, 1, "for the input's modes 6 and 7"),
            ),
            count=TIMERS,
            stride=_STRIDE,
        ),
        Register(
            "CONFIG",
            0x04,
            "",
            (
                Field("select", 0, 8, "input: 0..31 pins, 32..47 channels"),
                Field("mode", 8, 3, "of the input"),
                Field("by_clock", 11, 1, "edges of the reference clock alone count"),
                Field("sawtooth", 12, 1, "from first to last and anew; 0: up and down"),
                Field("prescaler", 16, 8, "ticks of a count - 1"),
            ),
            count=TIMERS,
            stride=_STRIDE,
            reset=1 << 12,
        ),
        Register(
            "COUNT_RANGE",
            0x08,
            "",
            (Field("first", 0, 16, ""), Field("last", 16, 16, "")),
            count=TIMERS,
            stride=_STRIDE,
        ),
        *(
            Register(
                f"COMPARE_{channel}",
                0x0C + 4 * channel,
                "",
                (Field("count", 0, 16, ""), Field("operation", 16, 3, "on the channel")),
                count=TIMERS,
                stride=_STRIDE,
            )
            for channel in range(4)
        ),
        *(
            Register(f"TABLE_{channel}", 0x1C + 4 * channel, "stored", count=TIMERS, stride=_STRIDE)
            for channel in range(4)
        ),
        Register("COUNTER", 0x2C, "the count", count=TIMERS, stride=_STRIDE),
        Register(
            "EVENTS",
            0x100,
            "",
            (Field("select", 0, 16, "a channel, 4 bits each"), Field("enable", 16, 4, "")),
        ),
        Register("CLOCK_GATE", 0x104, "a bit per timer: its clock runs"),
    ),
)
