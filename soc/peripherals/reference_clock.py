"""The 32,768 Hz reference clock, as the fabric controller's side sees its edges.

Source: pulp_soc 3.0.1 soc_peripherals.sv (line 14 of the interrupt controller: both edges),
soc_event_generator.sv (SoC event 168: the rising ones). Rising edges are in multiples of
peripherals.reference_period, where the timers count them; falling ones half-way between. Two
stages of a synchroniser, which shift all of them alike, are left out.

An edge costs nothing while no mask lets it pass: what waits for one asks for it.
"""


def rising_edge(cycle: int, period: int) -> int:
    """The first rising edge after a cycle."""
    return (cycle // period + 1) * period


def edge(cycle: int, period: int) -> int:
    """The first edge after a cycle, rising or falling."""
    rising = rising_edge(cycle, period)
    falling = rising - period + period // 2
    return falling if falling > cycle else rising
