"""From commands to bursts: the 2D splitter and the burst splitter of a DMA channel.

Source: MCHAN's twd_trans_splitter and trans_unpack.
"""

from soc.dma.control_ports import NOT_L2, NOT_WITHIN_L1, report
from soc.dma.state import (
    ALIGN_BURSTS,
    COMMAND_SLOTS,
    L1_BURSTS,
    L1_SIDE,
    L1_TO_L2,
    L2_BURSTS,
    L2_SIDE,
    LINES,
    NO_SLOT,
    SIDES,
    has,
    has_room,
    pop,
    push,
    settle,
)
from soc.prelude.step import inlined_step, step


@inlined_step
def splits_lines(channel):
    """Is there a command, or a line of one, to pass on in this cycle?"""
    return has_room(channel, LINES) and channel["splitting"] | channel["commands_seen"] != 0


@step
def split_lines(dma, channel):
    """Take a command, or pass on one line of the command taken."""
    if not splits_lines(channel):
        return
    if channel["splitting"]:
        _next_line(channel)
    else:
        _take_command(dma, channel)


@step
def _take_command(dma, channel):
    command = channel["command"][channel["first_command"]]
    split = channel["split"]
    split["counter"] = command["counter"]
    split["length"] = command["length"]
    split["increment"] = command["increment"]
    for side in range(SIDES):
        split["address"][side] = command["address"][side]
        split["line"][side] = command["line"][side]
        split["stride"][side] = command["stride"][side]
        channel["line_left"][side] = min(command["line"][side], command["length"])
        channel["line_start"][side] = command["address"][side]
        if command["slot"][side] != NO_SLOT:
            dma["lines_taken"][side] &= ~(1 << command["slot"][side])
            dma["waiting"] = 0
    channel["splitting"] = 1
    channel["first_command"] = (channel["first_command"] + 1) % COMMAND_SLOTS
    channel["commands"] -= 1


@step
def _next_line(channel):
    """Pass on what lies together on both sides."""
    split = channel["split"]
    size = min(split["length"], channel["line_left"][L2_SIDE], channel["line_left"][L1_SIDE])
    l1 = split["address"][L1_SIDE]
    push(channel, LINES, split["counter"], size, l1, split["address"][L2_SIDE], split["increment"])
    split["length"] -= size
    if split["length"] == 0:
        channel["splitting"] = 0
    for side in range(SIDES):
        if channel["line_left"][side] > size:
            channel["line_left"][side] -= size
            split["address"][side] += size
        else:
            channel["line_left"][side] = split["line"][side]
            channel["line_start"][side] += split["stride"][side]
            split["address"][side] = channel["line_start"][side]


@inlined_step
def splits_bursts(channel, direction):
    """Is there a line, or a burst of one, to pass on in this cycle?"""
    if not has_room(channel, L2_BURSTS):
        return False
    if direction == L1_TO_L2:
        if not has_room(channel, L1_BURSTS) or not has_room(channel, ALIGN_BURSTS):
            return False
    return channel["bursts"] > 0 or has(channel, LINES)


@step
def split_bursts(dma, channel, direction):
    """Take a line, or pass on one burst of the line taken."""
    if not splits_bursts(channel, direction):
        return
    if channel["bursts"] > 0:
        _next_burst(dma, channel, direction)
    else:
        _take_line(dma, channel)


@inlined_step
def first_burst(dma, address, length):
    """Bytes up to the next boundary of the external address, or all if none is crossed."""
    return min(length, dma["burst"] - address % dma["burst"])


@inlined_step
def count_bursts(dma, length, first):
    """A rest of one byte joins the burst before it (MCHAN counts bytes less one)."""
    if length == first:
        return 1
    rest = length - first - 1
    return 1 + (rest + dma["burst"] - 1) // dma["burst"]


@step
def _take_line(dma, channel):
    counter, length, l1, l2, increment = pop(channel, LINES)
    _check_line(dma, counter, length, l1, l2, increment)
    burst = channel["burst"]
    burst["counter"] = counter
    burst["length"] = length
    burst["l1"] = l1
    burst["l2"] = l2
    burst["increment"] = increment
    channel["burst_size"] = first_burst(dma, l2, length)
    bursts = count_bursts(dma, length, channel["burst_size"])
    channel["bursts"] = bursts
    channel["outstanding"] += 2 * bursts
    dma["l1_pending"][counter] += bursts
    dma["l2_pending"][counter] += bursts
    settle(dma, counter)
    dma["registered"] |= 1 << counter


@step
def _check_line(dma, counter, length, l1, l2, increment):
    """Report a line that does not lie in L1 and in L2."""
    port = dma["owner"][counter]
    end = l1 + length
    if l1 < 0 or end > dma["l1_size"]:
        report(dma, NOT_WITHIN_L1, port, min(l1, 0) or end)
    end = l2 + length if increment else (l2 | 7) + 1
    if l2 < dma["l2_base"]:
        report(dma, NOT_L2, port, l2 & 0xFFFFFFFF)
    elif end > dma["l2_base"] + dma["l2_size"]:
        report(dma, NOT_L2, port, end)


@step
def _next_burst(dma, channel, direction):
    burst = channel["burst"]
    size = channel["burst_size"] if channel["bursts"] > 1 else burst["length"]
    channel["burst_size"] = dma["burst"]
    push(channel, L2_BURSTS, burst["counter"], size, burst["l1"], burst["l2"], burst["increment"])
    if direction == L1_TO_L2:
        push(channel, L1_BURSTS, burst["counter"], size, burst["l1"])
        push(channel, ALIGN_BURSTS, size, burst["l1"] & 7, burst["l2"] & 7)
    burst["length"] -= size
    burst["l1"] += size
    if burst["increment"]:
        burst["l2"] += size
    channel["bursts"] -= 1
