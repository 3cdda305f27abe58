"""The DMA's command arbitration, its counters, their end and the events that signal it.

Source: MCHAN's trans_arbiter_wrap, trans_queue, synch_unit, trans_allocator.
"""

import numpy as np

from soc.dma.control_ports import (
    ARBITRATED,
    FALLING,
    IDLE,
    REGISTERED,
    REPLY,
    STORED,
    next_port,
)
from soc.dma.state import (
    COMMAND_SLOTS,
    COUNTERS,
    L1_TO_L2,
    L2_TO_L1,
    NO_SLOT,
    SIDES,
)
from soc.prelude.bits import lowest_index
from soc.prelude.step import inlined_step, step

EVENT, INTERRUPT, BROADCAST = 1, 2, 4
"""PORT.events"""


@inlined_step
def ports_wait(dma):
    """Do all ports that would change phase wait for the burst splitter to take their line?"""
    for port in range(dma["ports"]):
        if dma["moving"] >> port & 1 and dma["port"][port]["phase"] != REGISTERED:
            return False
    return True


@step
def step_ports(dma):
    """Advance the ports that were not granted an access in this cycle.

    One that falls back to idle is seen to move for one more cycle: what it is asked for is granted.
    After the last store: one cycle STORED, ARBITRATED until the command's arbitration lies in an
    earlier cycle, REGISTERED until the cycle in which the burst splitter takes its (first) line.
    """
    moving = np.uint64(dma["moving"] & ~dma["granted"])
    while moving:
        port = lowest_index(moving)
        moving &= moving - np.uint64(1)
        state = dma["port"][port]
        phase = state["phase"]
        if phase == STORED:
            state["phase"] = ARBITRATED
        elif phase == FALLING:
            state["phase"] = IDLE
            dma["waiting"] = 0
        elif phase == ARBITRATED and not state["barrier"]:
            state["phase"] = REGISTERED
        elif phase in (REPLY, IDLE) or (
            phase == REGISTERED and dma["registered"] >> state["command"]["counter"] & 1
        ):
            state["phase"] = IDLE
            dma["moving"] &= ~(1 << port)
            dma["waiting"] = 0


@step
def arbitrate_commands(dma):
    """Move one command that is complete into the queue, if this is not full."""
    offered = dma["offered"]
    dma["offered"] = offered | dma["offered_next"]
    dma["offered_next"] = 0
    if offered == 0:
        return
    channels = dma["channel"]
    if channels[L1_TO_L2]["commands_seen"] + channels[L2_TO_L1]["commands_seen"] >= dma["queue"]:
        return
    port, dma["rr_command"] = next_port(dma, offered, dma["rr_command"])
    dma["offered"] &= ~(1 << port)
    state = dma["port"][port]
    counter = state["command"]["counter"]
    dma["owner"][counter] = port
    dma["events"][counter] = state["events"]
    for other in range(dma["ports"]):
        if dma["port"][other]["command"]["counter"] == counter:
            dma["port"][other]["barrier"] = 0
    _enqueue(dma["channel"][state["channel"]], state["command"])


@step
def _enqueue(channel, command):
    tail = (channel["first_command"] + channel["commands"]) % COMMAND_SLOTS
    entry = channel["command"][tail]
    entry["counter"] = command["counter"]
    entry["length"] = command["length"]
    entry["increment"] = command["increment"]
    for side in range(SIDES):
        entry["address"][side] = command["address"][side]
        entry["line"][side] = command["line"][side]
        entry["stride"][side] = command["stride"][side]
        entry["slot"][side] = command["slot"][side]
        command["slot"][side] = NO_SLOT
    channel["commands"] += 1


@step
def end_counters(dma):
    """Signal one ended counter, the highest first; a counter ends when nothing of it is pending.

    Sets `event` and `interrupt`: the lines in the next cycle.
    """
    dma["event"] = 0
    dma["interrupt"] = 0
    ended = dma["running_before"] & ~dma["running"]
    if dma["ended"]:
        dma["ended"] &= ~(1 << _highest(dma["ended"]))
    if ended:
        _note_ends(dma, ended)
    if dma["ended"]:
        _signal(dma, _highest(dma["ended"]))


@step
def _note_ends(dma, ended):
    dma["ended"] |= ended
    for counter in range(COUNTERS):
        if ended >> counter & 1:
            dma["ended_owner"][counter] = dma["owner"][counter]
            dma["ended_events"][counter] = dma["events"][counter]


@step
def _signal(dma, counter):
    events = dma["ended_events"][counter]
    ports = 1 << dma["ended_owner"][counter]
    if events & BROADCAST:
        ports = (1 << dma["ports"]) - 1
    if events & EVENT:
        dma["event"] = ports
    if events & INTERRUPT:
        dma["interrupt"] = ports


@step
def _highest(bits):
    number = COUNTERS - 1
    while not bits >> number & 1:
        number -= 1
    return number
