"""The cluster's DMA, MCHAN: control ports, two channels between L1 and L2, cycle by cycle.

A cycle of the main loop, while `is_idle` is False or a port asks:

    ask(dma, port, write, offset, value)
        a request for a register; it stands until granted
    granted = grant_ports(dma)
        ports granted in this cycle; a load's data is in dma["port"][port]["reply"] after the tick
    lanes = request_lanes(dma)
        lanes that request L1, at words dma["lane_word"][lane]
    tick(dma, lanes, granted_lanes, l1, l2, path, now)
        the accesses granted are made, all stages advance

After the tick, `event` and `interrupt` are the ports whose lines are high in cycle now + 1, and
`error`, if not 0, has a message: `error_message(dma)`. A port may wait for ever, see `why_waiting`:
`is_idle` does not count it. Ports 0..7 are the cores, 8 the cluster's
peripheral port, 9 the SoC's. Lane i is L1's arbiter input 12 + i.
"""

from soc.dma.aligner import align
from soc.dma.axi_side import deliver_reads, end_writes, start_reads, take_reads, write_beats
from soc.dma.burst_splitter import split_bursts, split_lines
from soc.dma.command_arbiter import arbitrate_commands, end_counters, step_ports
from soc.dma.control_ports import (
    FREED_WHILE_RUNNING,
    IDLE,
    REPLY,
    ask,
    error_message,
    grant_ports,
    report,
    why_waiting,
)
from soc.dma.state import (
    CHANNELS,
    DMA_STATE,
    L1_TO_L2,
    L2_TO_L1,
    LANE0,
    LANES,
    DmaSpec,
    front,
    is_active,
    new_dma,
)
from soc.dma.tcdm_side import (
    end_bursts,
    read_is_wanted,
    read_lane,
    unpack_beats,
    write_is_wanted,
    write_lane,
)
from soc.prelude.step import inlined_step, step

__all__ = [
    "DMA_STATE",
    "DmaSpec",
    "ask",
    "error_message",
    "grant_ports",
    "is_idle",
    "new_dma",
    "request_lanes",
    "tick",
    "why_waiting",
]


@step
def is_idle(dma):
    """Nothing changes before a port asks (again): what is asked for now cannot be granted."""
    return (
        dma["granted"] | dma["moving"] | dma["running"] | dma["running_before"] | dma["ended"]
    ) == 0 and not (is_active(dma["channel"][L1_TO_L2]) or is_active(dma["channel"][L2_TO_L1]))


@step
def request_lanes(dma):
    """The lanes that request an access of L1 in this cycle, a bit each; see `lane_word`."""
    lanes = 0
    for direction in range(CHANNELS):
        channel = dma["channel"][direction]
        if channel["outstanding"] == 0:
            continue
        for lane in range(2):
            if direction == L1_TO_L2:
                wanted = read_is_wanted(channel, lane)
            else:
                wanted = write_is_wanted(channel, lane)
            if wanted:
                number = 2 * direction + lane
                lanes |= 1 << number
                dma["lane_word"][number] = front(channel, LANE0 + lane)[1] >> 2
    return lanes


@step
def tick(dma, requested, granted, l1, l2, path, now):
    """One cycle of all stages.

    requested, granted  lanes, a bit each, as request_lanes and L1's arbiter have them
    l1, l2              int32 words
    path                the way to L2, L2_STATE
    """
    dma["registered"] = 0
    for direction in range(CHANNELS):
        channel = dma["channel"][direction]
        if is_active(channel):
            dma["clocked"] |= 1 << direction
            split_lines(dma, channel)
            split_bursts(dma, channel, direction)
            if channel["outstanding"]:
                if direction == L1_TO_L2:
                    _move_to_l2(dma, channel, granted, l1, l2, path, now)
                else:
                    _move_to_l1(dma, channel, granted >> 2, l1, l2, path, now)
    if requested:
        _count_accesses(dma, requested, granted)
    if dma["moving"] & ~dma["granted"]:
        step_ports(dma)
    end_counters(dma)  # with what the commands of earlier cycles say of events
    if dma["offered"] | dma["offered_next"]:
        arbitrate_commands(dma)
    _end_cycle(dma)


@step
def _move_to_l2(dma, channel, granted, l1, l2, path, now):
    unpack_beats(channel)
    read_lane(channel, 0, granted & 1, l1)
    read_lane(channel, 1, granted >> 1 & 1, l1)
    end_bursts(dma, channel)
    align(channel, L1_TO_L2)
    write_beats(dma, channel, l2, path, now)
    end_writes(dma, channel, now)


@step
def _move_to_l1(dma, channel, granted, l1, l2, path, now):
    start_reads(dma, channel, path, now)
    deliver_reads(dma, channel, l2, now)
    take_reads(dma, channel)
    align(channel, L2_TO_L1)
    unpack_beats(channel)
    write_lane(channel, 0, granted & 1, l1)
    write_lane(channel, 1, granted >> 1 & 1, l1)
    end_bursts(dma, channel)


@inlined_step
def _count_accesses(dma, requested, granted):
    for lane in range(LANES):
        if requested >> lane & 1:
            dma["accesses"] += granted >> lane & 1
            dma["conflicts"] += 1 - (granted >> lane & 1)


@step
def _end_cycle(dma):
    dma["running_before"] = dma["running"]
    dma["running"] = dma["running_next"]
    for direction in range(CHANNELS):
        channel = dma["channel"][direction]
        if dma["clocked"] >> direction & 1 or is_active(channel):
            channel["seen"] = channel["level"]
            channel["commands_seen"] = channel["commands"]
    dma["clocked"] = 0
    if dma["granted"]:
        _reply(dma)
    if dma["allocated"] == 0 and dma["running"]:
        _check_clock(dma)


@step
def _check_clock(dma):
    """MCHAN's clock runs while a counter is allocated or a port is not idle."""
    for port in range(dma["ports"]):
        if dma["port"][port]["phase"] != IDLE:
            return
    report(dma, FREED_WHILE_RUNNING, 0, dma["running"])


@step
def _reply(dma):
    """A load of STATUS shows the counters in the cycle after its grant."""
    for port in range(dma["ports"]):
        if dma["granted"] >> port & 1 and dma["port"][port]["phase"] == REPLY:
            status = dma["running"] | dma["running_before"]
            dma["port"][port]["reply"] = status | dma["allocated"] << 16
