"""The DMA's control ports: the registers as each port sees them, and the allocation of counters.

A port takes alloc (load of CMD), then stores to CMD: command word, L1 address, L2 address, and for
each side that is 2D the bytes of a line and the stride (L2 first). It takes nothing else until the
burst splitter has the command. STATUS: load = running and allocated counters, store = free.

Asked for anything but a command word, a port with a counter falls back to idle for a cycle, and
grants it in the next: a second load of CMD allocates another counter, and the first stays allocated
until it is freed. A command needs no allocation of its own; it runs on the port's newest counter.

Source: MCHAN's ctrl_fsm, trans_allocator, twd_trans_queue.
"""

import numpy as np

from soc.dma.state import L1_SIDE, L2_SIDE, NO_SLOT, SIDES
from soc.interconnect.rr_arbiter import arbitrate_counting
from soc.prelude.step import inlined_step, step

CMD = 0
STATUS = 4

# Command word
LENGTH = 0x1FFFF
CHANNEL_BIT = 17
INCREMENT_BIT = 18
L2_LINES_BIT = 19
EVENT_BITS = 20  # event, interrupt, broadcast
L1_LINES_BIT = 23

# Phases of a port. From ALLOCATED to STRIDE + 2 it waits for the next store of a command.
IDLE = 0
ALLOCATED = 1
L1_ADDRESS = 2
L2_ADDRESS = 3
LINES = 4  # 4, 5: line and stride of the L2 side; 6, 7: of the L1 side
STORED = 8  # the cycle after the command's last store
ARBITRATED = 9  # waits until the command is in the queue
REGISTERED = 10  # waits until the burst splitter has it
REPLY = 11  # the cycle after an access to STATUS
FALLING = 12  # the cycle in which an allocation without a command is left

# Where hardware hangs, or does what no program can mean.
NO_ERROR = 0
UNKNOWN_REGISTER = 1
ALLOCATED_WITHIN = 2
ZERO_LENGTH = 3
NOT_L1 = 4
NOT_WITHIN_L1 = 5
NOT_L2 = 6
FREED_WHILE_RUNNING = 7
STATUS_WITHIN = 8

RULES = {
    UNKNOWN_REGISTER: "port {port}: offset {value:#x} is no register and never answers; "
    "the registers are CMD (0) and STATUS (4)",
    ALLOCATED_WITHIN: "port {port}: load of CMD (0) in the middle of a command, which takes "
    "another counter and hangs the port after the transfer; store addresses and lines first",
    STATUS_WITHIN: "port {port}: access to STATUS (4) in the middle of a command; what is stored "
    "to CMD (0) next is taken for a command word; store addresses and lines first",
    ZERO_LENGTH: "port {port}: command word {value:#010x} has length 0, which moves 2^17 bytes; "
    "a length is 1..131071 bytes",
    NOT_L1: "port {port}: L1 address {value:#010x} is not in L1; the DMA drops the upper bits of "
    "an L1 address",
    NOT_WITHIN_L1: "port {port}: a line begins or ends at L1 offset {value:#x}, outside L1; the "
    "DMA drops the upper bits of an L1 address and goes on at the other end of L1",
    NOT_L2: "port {port}: a line begins or ends at external address {value:#010x}, outside L2, "
    "the only memory that the DMA reaches",
    FREED_WHILE_RUNNING: "counters {value:#06x} are running and no counter is allocated, which "
    "stops the DMA's clock; free a counter when its bit in STATUS is 0",
}


def error_message(dma) -> str:
    """What stands in `error`, as the rule of the hardware that was broken."""
    rule = RULES[int(dma["error"])]
    return rule.format(port=int(dma["error_port"]), value=int(dma["error_value"]))


def why_waiting(dma, port: int) -> str:
    """Why the access that a port asks for is not granted, for messages of a deadlock."""
    state = dma["port"][port]
    phase = int(state["phase"])
    if phase >= STORED:
        return "until its last command leaves the queue for the burst splitter"
    if phase == IDLE and state["offset"] == CMD and not state["write"]:
        taken = int(dma["allocated"]).bit_count()
        return f"for a counter: {taken} of {int(dma['counters'])} are allocated; store to STATUS"
    return "for an entry of the 2D queue"


@inlined_step
def report(dma, error, port, value):
    """Keep the first error; the main loop stops on it."""
    if dma["error"] == NO_ERROR:
        dma["error"] = error
        dma["error_port"] = port
        dma["error_value"] = value


@inlined_step
def next_port(dma, requests, rr):
    """Choose among ports that request, a bit each; returns the winner and the arbiter's next rr."""
    port, following, _ = arbitrate_counting(np.uint64(requests), rr, dma["rr_mask"])
    return port, following


@inlined_step
def _lowest_free(taken):
    number = 0
    while taken >> number & 1:
        number += 1
    return number


@step
def ask(dma, port, write, offset, value):
    """Request an access to a register; it stands until `grant_ports` grants it.

    offset, value   byte offset in the DMA's registers, which repeat every 16 bytes; the word stored
    """
    state = dma["port"][port]
    state["write"] = write
    state["offset"] = offset & 15
    state["value"] = value & 0xFFFFFFFF
    dma["asked"] |= 1 << port


@step
def grant_ports(dma):
    """Grant what can be granted in this cycle; the ports, a bit each. Call it before dma_tick.

    If that changes nothing, the ports that ask are `waiting`: nor does it in the cycles to come,
    before another port asks, or a port is idle again or an entry of the 2D queues is free: then
    none is `waiting`. As long as all ports that ask are, this may be left out.
    """
    asked = dma["asked"]
    dma["granted"] = dma["waiting"] = 0
    if asked == 0:
        return 0
    moving, lines = dma["moving"], (dma["lines_taken"][0], dma["lines_taken"][1])
    allocating = 0
    with_lines = 0
    others = 0
    for port in range(dma["ports"]):
        if asked >> port & 1:
            state = dma["port"][port]
            if state["phase"] == IDLE and state["offset"] == CMD and not state["write"]:
                allocating |= 1 << port
            elif _stores_lines(state):
                with_lines |= 1 << port
            elif state["phase"] == ALLOCATED and (state["offset"] != CMD or not state["write"]):
                state["phase"] = FALLING
                dma["moving"] |= 1 << port
            else:
                others |= 1 << port
    granted = 0
    if allocating:
        granted |= _allocate(dma, allocating)
    if with_lines:
        granted |= _grant_commands_with_lines(dma, with_lines)
    for port in range(dma["ports"]):
        if others >> port & 1 and _step_port(dma, port, dma["port"][port]):
            granted |= 1 << port
    dma["asked"] = asked & ~granted
    dma["granted"] = granted
    is_same = moving == dma["moving"] and lines == (dma["lines_taken"][0], dma["lines_taken"][1])
    if granted == 0 and is_same:
        dma["waiting"] = asked
    return granted


@inlined_step
def _stores_lines(state):
    """A command word that is 2D on one side or both."""
    if state["phase"] > ALLOCATED or state["offset"] != CMD or not state["write"]:
        return False
    return (state["value"] >> L2_LINES_BIT | state["value"] >> L1_LINES_BIT) & 1 != 0


@step
def _allocate(dma, requests):
    """Give one port the lowest free counter."""
    if dma["allocated"] == (1 << dma["counters"]) - 1:
        return 0
    port, dma["rr_counter"] = next_port(dma, requests, dma["rr_counter"])
    counter = _lowest_free(dma["allocated"])
    dma["allocated"] |= 1 << counter
    dma["moving"] &= ~(1 << port)
    state = dma["port"][port]
    state["command"]["counter"] = counter
    state["reply"] = counter
    state["phase"] = ALLOCATED
    return 1 << port


@step
def _grant_commands_with_lines(dma, requests):
    """Each 2D side needs an entry of its queue, given to one port in a cycle; both in the same one.

    A port that gets one of two asks for both again. The one that it got is lost: never freed.
    """
    granted = requests
    given = 0
    for side, bit in ((L2_SIDE, L2_LINES_BIT), (L1_SIDE, L1_LINES_BIT)):
        candidates = 0
        for port in range(dma["ports"]):
            if requests >> port & 1 and dma["port"][port]["value"] >> bit & 1:
                candidates |= 1 << port
        winner = _give_entry(dma, side, candidates)
        granted &= ~candidates | winner
        given |= winner
    for port in range(dma["ports"]):
        state = dma["port"][port]
        if granted >> port & 1:
            _store_command(dma, port, state)
        elif given >> port & 1:
            dma["lost_entries"] += 1
    return granted


@inlined_step
def _give_entry(dma, side, requests):
    """Give one port the lowest free entry of a side's 2D queue; the port, as a bit, or 0."""
    taken = dma["lines_taken"][side]
    if requests == 0 or taken == (1 << dma["line_queue"]) - 1:
        return 0
    port, dma["rr_lines"][side] = next_port(dma, requests, dma["rr_lines"][side])
    slot = _lowest_free(taken)
    dma["lines_taken"][side] = taken | 1 << slot
    dma["port"][port]["command"]["slot"][side] = slot
    return 1 << port


@step
def _step_port(dma, port, state):
    """An access that needs no arbitration; True if it is granted."""
    phase = state["phase"]
    if phase >= STORED:
        return False
    if phase == IDLE and state["offset"] == STATUS:
        if state["write"]:
            dma["allocated"] &= ~state["value"]
        state["phase"] = REPLY
        dma["moving"] |= 1 << port
        return True
    if state["offset"] != CMD or not state["write"]:
        error = UNKNOWN_REGISTER
        if state["offset"] == STATUS:
            error = STATUS_WITHIN
        elif state["offset"] == CMD:
            error = ALLOCATED_WITHIN
        report(dma, error, port, state["offset"])
        return False
    if phase <= ALLOCATED:
        _store_command(dma, port, state)
    else:
        _store_operand(dma, port, state)
    return True


@step
def _store_command(dma, port, state):
    word = state["value"]
    length = word & LENGTH
    if length == 0:
        report(dma, ZERO_LENGTH, port, word)
    command = state["command"]
    command["length"] = length
    command["increment"] = word >> INCREMENT_BIT & 1
    for side in range(SIDES):
        command["line"][side] = length
        command["stride"][side] = 0
    state["channel"] = word >> CHANNEL_BIT & 1
    state["events"] = word >> EVENT_BITS & 7
    state["barrier"] = 1
    state["phase"] = L1_ADDRESS


@inlined_step
def _l1_offset(dma, port, address):
    """L1 is seen at its base and at 0."""
    offset = address - dma["l1_base"]
    if 0 <= offset < dma["l1_size"]:
        return offset
    if address >= dma["l1_size"]:
        report(dma, NOT_L1, port, address)
    return address


@step
def _store_operand(dma, port, state):
    """Store the next operand; with the last one the command is offered to the queue.

    A 2D command is offered in the cycle of its last store, any other in the next. Addresses are
    added up modulo 2^32, so a stride may lead backwards.
    """
    phase = state["phase"]
    value = state["value"]
    command = state["command"]
    if phase == L1_ADDRESS:
        command["address"][L1_SIDE] = _l1_offset(dma, port, value)
    elif phase == L2_ADDRESS:
        command["address"][L2_SIDE] = value
    elif (phase - LINES) & 1:
        command["stride"][(phase - LINES) >> 1] = (value ^ 0x80000000) - 0x80000000
    else:
        command["line"][(phase - LINES) >> 1] = value if value else command["length"]
    following = phase + 1
    if following == LINES and command["slot"][L2_SIDE] == NO_SLOT:
        following += 2
    if following == LINES + 2 and command["slot"][L1_SIDE] == NO_SLOT:
        following += 2
    state["phase"] = following
    if following == STORED:
        dma["moving"] |= 1 << port
        if phase == L2_ADDRESS:
            dma["offered_next"] |= 1 << port
        else:
            dma["offered"] |= 1 << port
