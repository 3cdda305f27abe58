"""What the bench of the DMA notes in every cycle, as the measured logs have it."""

import numba

import soc.aot.numba_steps  # noqa: F401 (lets Numba call step functions)
from soc.dma.state import DATA0, front

AXI = ("AW", "W0", "WL", "W1", "B", "AR", "R0", "RL", "R1")
AW, W0, WL, W1, B, AR, R0, RL, R1 = range(9)
"""W0, R0: first beat of a burst, WL, RL: last, W1, R1: the only one."""

ACCESSES, EVENTS, STATUSES, BURSTS, LANES = range(5)
"""The logs, rows of up to six numbers that begin with the cycle."""

step = numba.njit(error_model="numpy")


@step
def note(logs, counts, log, cycle, a, b, c, d, e):
    row = logs[log, counts[log]]
    row[0] = cycle
    row[1] = a
    row[2] = b
    row[3] = c
    row[4] = d
    row[5] = e
    counts[log] += 1


@step
def note_outputs(dma, logs, counts, shown, now):
    status = dma["running"] | dma["running_before"]
    if status != shown:
        note(logs, counts, STATUSES, now, status, 0, 0, 0, 0)
    if dma["event"] or dma["interrupt"]:
        note(logs, counts, EVENTS, now, dma["event"], dma["interrupt"], 0, 0, 0)
    return status


@step
def note_lanes(dma, lanes, won, logs, counts, now):
    for lane in range(4):
        if lanes >> lane & 1:
            enables = 15
            if lane >= 2:
                enables = front(dma["channel"][1], DATA0 + lane - 2)[1]
            address = 4 * dma["lane_word"][lane]
            note(logs, counts, LANES, now, lane, lane >> 1, address, won >> lane & 1, enables)


@step
def note_bursts(dma, before, logs, counts, now):
    """What happened on the AXI side: addresses and write beats are on the bus one cycle later."""
    for direction, kind in ((0, AW), (1, AR)):
        channel = dma["channel"][direction]
        for number in range(16):
            burst = channel["open"][number]
            if channel["ids"] >> number & 1 and not before[direction] >> number & 1:
                note(
                    logs, counts, BURSTS, now + 1, kind, burst["l2"], burst["beats"] - 1, number, 0
                )
            if direction == 0 and before[0] >> number & 1 and not channel["ids"] >> number & 1:
                note(logs, counts, BURSTS, now - 1, B, number, 0, 0, 0)
    write = dma["channel"][0]
    number = write["send_id"]
    beats = write["open"][number]["beats"]
    if write["moved"] != before[2]:
        _note_beat(logs, counts, beats - write["sending"], beats, W0, number, now + 1)
    read = dma["channel"][1]
    if read["moved"] != before[3]:
        received = read["received"]
        number = read["order"][(read["first"] - (received == 0)) % 16]
        beats = read["open"][number]["beats"]
        _note_beat(logs, counts, received if received else beats, beats, R0, number, now)


@step
def _note_beat(logs, counts, beat, beats, first, number, cycle):
    if beats == 1:
        note(logs, counts, BURSTS, cycle, first + 2, number, 0, 0, 0)
    elif beat == 1 or beat == beats:
        note(logs, counts, BURSTS, cycle, first + (beat == beats), number, 0, 0, 0)
