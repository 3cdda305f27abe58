"""RI5CY's prefetch buffer in front of a hart's private instruction cache.

The buffer asks for one 32-bit word after the other and keeps up to four in a queue. It asks for the
next word in the cycle in which one arrives if three or fewer words were asked for and not yet
handed over, else in the cycle after the next hand-over. The cache answers a hit in the next cycle,
so word k of a straight run arrives at

    arrival[k] = 1 + max(wanted[k], free)
    wanted[k]  = arrival[k - 1]    if word k - 4 left before arrival[k - 1], else left[k - 3] + 1

(`free`: first cycle in which the cache can grant a fetch). A word leaves when the instruction that
ends in it enters the decode stage. A jump empties the queue and asks for its target at once, or,
if a miss is under way, when its line has come. After the end of a hardware loop that goes back, the
loop's start is asked for: `turn` is its position, or that of a jump's target; a jump may follow
before it is asked for, and may go to such an end itself. If the end waits in a queue of three words
or more when the start arrives, the word after that is asked for a cycle later: the queue, which has
the end and the start alone then, still counts as full in that cycle. So everything follows from the
cycles in which words leave, and nothing is stepped cycle by cycle:

* STEADY: words arrive earlier than the hart can want them. Only the arrival of the word three
  ahead is carried along, and a line is looked up when the first word of the line before leaves.
* EXACT: around a miss. Arrivals and hand-overs of the last eight words are kept.
* IDEAL: there is no cache; the hart's own timing rules hold.

A hart runs ahead of global time: a miss is left in the record (`miss`, the cycle of the fetch that
misses), and hierarchy.py takes it up one cycle later. A jump in or before that cycle takes it back.
So nothing is looked up with the hand-over of a jump, or of what comes right before the end of a
hardware loop that goes back.

Sources: riscv_prefetch_buffer.sv, riscv_fetch_fifo.sv (DEPTH = 4, ready while entry 2 is empty),
riscv_if_stage.sv of RI5CY (riscv_nn astral-v1.0); pri_icache_controller.sv of hier-icache v1.3.0;
the loops measured on RTL. CV32E40P's own prefetcher was never run with this cache: its harts use
the same model.
"""

from soc.icache.private_cache import (
    CV32E40P_PORT,
    EXACT,
    IDEAL,
    PLACES,
    RI5CY_PORT,
    START,
    STEADY,
    choose_victim,
    forget_lines,
    has_lines,
    is_cached,
    keep_line,
)
from soc.prelude.step import cold_step, inlined_step, step
from soc.prelude.wheel import NEVER


@cold_step
def _become_exact(fetch, word, arrival, left):
    """Keep every word by itself from now on.

    word       address / 4 of the next one to ask for, three after the next one to leave
    arrival    of the one before it; the earlier ones come before the hart can want them
    left       the cycle in which the last word left
    """
    fetch["mode"] = EXACT
    fetch["free"] = 0
    fetch["turn"] = fetch["jump_target"] = fetch["back"] = fetch["loop_pc"] = fetch["held"] = -1
    fetch["head"] = START
    fetch["next"] = START + 3
    fetch["word"] = word
    for k in range(START):
        fetch["leaves"][k] = 0
    fetch["leaves"][START - 1] = left
    fetch["arrivals"][START - 1] = left
    for k in range(3):
        fetch["arrivals"][START + k] = arrival - 2 + k


@step
def fetch_reset(fetch, sets, ways, enabled):
    """Empty a hart's private cache; sets = 0: it has none, fetches take the ideal two cycles."""
    fetch["sets"] = sets
    fetch["ways"] = ways
    fetch["enabled"] = enabled
    fetch["lfsr"] = fetch["misses"] = 0
    fetch["miss"] = NEVER
    fetch["fresh"] = fetch["sent"] = 0
    _become_exact(fetch, 0, 0, 0)
    forget_lines(fetch)
    if sets == 0:
        fetch["mode"] = IDEAL


@cold_step
def _become_steady(fetch, pc):
    """See whether arrivals no longer limit the hart, whose next instruction is at pc."""
    head = fetch["head"]
    arrivals = fetch["arrivals"]
    left = fetch["leaves"][(head - 1) % PLACES]
    if fetch["miss"] != NEVER or fetch["next"] < head + 3 or fetch["enabled"] == 0:
        return
    if fetch["turn"] >= 0 or fetch["free"] > left + 1:
        return
    if arrivals[head % PLACES] > left + 1:
        return
    if arrivals[(head + 1) % PLACES] > left + (1 if pc & 2 else 2):
        return
    if fetch["next"] == head + 3 and fetch["word"] & 3 == 0:
        if not is_cached(fetch, fetch["word"] >> 2):
            return
    fetch["mode"] = STEADY
    fetch["loop_pc"] = -1
    fetch["arrival"] = arrivals[(head + 2) % PLACES]
    fetch["left"] = left


@step
def _word_comes(fetch, cycle):
    fetch["arrivals"][fetch["next"] % PLACES] = cycle
    fetch["next"] += 1
    fetch["word"] += 1


@inlined_step
def _has_left_before(fetch, position, cycle):
    """Has the word at a position left the queue before this cycle?"""
    return position < fetch["head"] and fetch["leaves"][position % PLACES] < cycle


@cold_step
def _ask_ahead(fetch):
    """Date every fetch that no longer depends on the hart, up to a miss."""
    arrivals = fetch["arrivals"]
    leaves = fetch["leaves"]
    head = fetch["head"]
    while fetch["miss"] == NEVER and fetch["next"] < head + 4:
        position = fetch["next"]
        wanted = arrivals[(position - 1) % PLACES]
        if fetch["port"] == CV32E40P_PORT:
            if position - 2 >= head:
                return
            wanted = max(wanted, leaves[(position - 2) % PLACES] + 1)
        elif leaves[(position - 4) % PLACES] >= wanted:
            if position - 3 >= head:
                return
            wanted = leaves[(position - 3) % PLACES] + 1
        if position == fetch["held"] and not _has_left_before(fetch, position - 2, wanted):
            wanted += 1
        granted = max(wanted, fetch["free"])
        if fetch["enabled"] == 0 or not is_cached(fetch, fetch["word"] >> 2):
            fetch["miss"] = granted
            fetch["fresh"] = 1
            return
        _word_comes(fetch, granted + 1)


@inlined_step
def _turn_cycle(fetch):
    """When the target that is next in turn can be asked for, if no miss is under way then.

    The word before it, if that is the end of a hardware loop, has come.
    """
    cycle = max(fetch["turn_cycle"], fetch["arrivals"][(fetch["turn"] - 1) % PLACES])
    return max(cycle, fetch["free"]) if fetch["port"] else cycle


@inlined_step
def _may_turn(fetch):
    """Is the word before the target there, and no miss in its way?"""
    if fetch["turn"] > fetch["next"]:
        return False
    return fetch["miss"] == NEVER or (fetch["sent"] == 0 and fetch["miss"] >= _turn_cycle(fetch))


@inlined_step
def _is_full(fetch):
    """Are there three words in the queue, from the end of the loop on, whose start is in turn?"""
    position = fetch["turn"]
    third = position - fetch["end_words"] + 2
    asked = max(fetch["turn_cycle"], fetch["arrivals"][(position - 1) % PLACES])
    return third < fetch["next"] and fetch["arrivals"][third % PLACES] <= asked


@cold_step
def _ask_target(fetch):
    """Ask for the target that is next in turn, if that may be; returns False if not."""
    if not _may_turn(fetch):
        return False
    cycle = _turn_cycle(fetch)
    position = fetch["turn"]
    is_held = position > fetch["head"] and fetch["port"] != CV32E40P_PORT and _is_full(fetch)
    fetch["held"] = position + 1 if is_held else -1
    fetch["miss"] = NEVER
    fetch["fresh"] = 0
    fetch["turn"] = -1
    fetch["next"] = position
    fetch["word"] = fetch["turn_target"] >> 2
    fetch["arrivals"][(position - 1) % PLACES] = cycle
    _ask_ahead(fetch)
    return True


@cold_step
def _is_overtaken(fetch):
    """Does a jump come before the loop's start is asked for, or the target of another jump?"""
    if _may_turn(fetch):
        return max(_turn_cycle(fetch), fetch["free"]) >= fetch["jump_cycle"]
    return fetch["sent"] == 0 and fetch["miss"] >= fetch["jump_cycle"]


@cold_step
def _take_jump(fetch):
    """Let the jump be next in turn."""
    fetch["turn"] = fetch["head"]
    fetch["turn_target"] = fetch["jump_target"]
    fetch["turn_cycle"] = fetch["jump_cycle"]
    fetch["jump_target"] = fetch["loop_pc"] = -1


@cold_step
def _take_turn(fetch):
    """Ask for what is in turn: a loop's start, a jump's target, then where that goes back to."""
    if fetch["jump_target"] >= 0 and _is_overtaken(fetch):
        _take_jump(fetch)
    if not _ask_target(fetch):
        return
    if fetch["jump_target"] >= 0:
        _take_jump(fetch)
        if not _ask_target(fetch):
            return
    if fetch["back"] >= 0:
        fetch["loop_pc"] = fetch["turn_target"]
        fetch["turn"] = fetch["head"] + 1
        fetch["end_words"] = 1
        fetch["turn_target"] = fetch["back"]
        fetch["turn_cycle"] += 1
        fetch["back"] = -1
        _ask_target(fetch)


@inlined_step
def _leave_straight(fetch):
    """Be in EXACT mode, to go on with other words than those that follow."""
    if fetch["mode"] == STEADY:
        _become_exact(fetch, 0, fetch["arrival"], fetch["left"])
    fetch["half"] = 0


@cold_step
def _jump(fetch, target, back, cycle):
    """fetch_jump where lines are missing; a loop's start in turn may still be asked for before."""
    _leave_straight(fetch)
    fetch["back"] = back
    fetch["jump_target"] = target
    fetch["jump_cycle"] = cycle
    if fetch["turn"] < 0:
        _take_jump(fetch)
    _take_turn(fetch)


@cold_step
def _loop(fetch, pc, is_split, target, cycle):
    """fetch_loop where lines are missing."""
    _leave_straight(fetch)
    fetch["end_words"] = 1 + is_split
    fetch["turn"] = fetch["head"] + fetch["end_words"]
    fetch["turn_target"] = target
    fetch["turn_cycle"] = cycle
    _take_turn(fetch)
    fetch["loop_pc"] = pc
    if is_split:
        fetch["leaves"][fetch["head"] % PLACES] = cycle - 1
        fetch["head"] += 1


@inlined_step
def _look_ahead(fetch, pc):
    """The first word of a line leaves: the next word to ask for is that of the next line."""
    line = (pc >> 4) + 1
    if not is_cached(fetch, line):
        _become_exact(fetch, line << 2, fetch["arrival"], fetch["left"])
        _ask_ahead(fetch)


@cold_step
def _let_go(fetch, cycle):
    """The end of a loop leaves: if the start has not arrived, what follows is not asked for later.

    (riscv_prefetch_buffer.sv clears the queue then.)
    """
    start = fetch["held"] - 1
    if start < fetch["next"] and cycle < fetch["arrivals"][start % PLACES]:
        fetch["held"] = -1
        fetch["next"] = start + 1
        fetch["word"] = (fetch["turn_target"] >> 2) + 1
        fetch["miss"] = NEVER
        fetch["fresh"] = 0


@inlined_step
def _next_exact(fetch, pc, size, cycle, ready):
    """fetch_next in EXACT mode."""
    head = fetch["head"]
    end = 4 if fetch["loop_pc"] == pc else (pc & 3) + size
    cycle = _available(fetch, head + 1 if end > 4 else head, cycle, ready)
    if cycle == NEVER:
        return NEVER
    if end >= 4:
        if fetch["held"] == head + 2:
            _let_go(fetch, cycle)
        fetch["loop_pc"] = -1
        fetch["leaves"][head % PLACES] = cycle
        fetch["head"] = head + 1
        if fetch["miss"] == NEVER:
            _ask_ahead(fetch)
            _become_steady(fetch, pc + size)
    return cycle


@inlined_step
def fetch_in_time(fetch, pc, size, cycle):
    """fetch_next in EXACT mode through the caches, if the instruction has come by this cycle.

    Returns False if not.
    """
    if fetch["mode"] != EXACT or fetch["port"]:
        return False
    return _next_exact(fetch, pc, size, cycle, NEVER) != NEVER


@inlined_step
def _is_asked_for(fetch, word):
    """Is it known when the word at a position comes?"""
    if word >= fetch["next"] or fetch["jump_target"] >= 0:
        return False
    return not 0 <= fetch["turn"] <= word


@step
def fetch_comes(fetch, pc, size):
    """When the last word of the instruction at pc, the next to be handed over, comes; NEVER: open.

    Of CV32E40P that is so for what follows another instruction in memory.
    """
    is_one_word = fetch["port"] == CV32E40P_PORT or fetch["loop_pc"] == pc
    word = fetch["head"] + (1 if (pc & 3) + size > 4 and not is_one_word else 0)
    if not _is_asked_for(fetch, word):
        return NEVER
    return fetch["arrivals"][word % PLACES]


@inlined_step
def _available(fetch, word, cycle, ready):
    """When a word can leave the queue, from this cycle on; NEVER if that is open."""
    if not _is_asked_for(fetch, word):
        return NEVER
    arrival = fetch["arrivals"][word % PLACES]
    if arrival <= cycle:
        return cycle
    return NEVER if ready == NEVER else max(arrival, ready)


@step
def _leave(fetch, cycle, ready):
    """Let the next word leave the queue, from this cycle on; returns when, NEVER if it is open."""
    head = fetch["head"]
    cycle = _available(fetch, head, cycle, ready)
    if cycle == NEVER:
        return NEVER
    fetch["leaves"][head % PLACES] = cycle
    fetch["head"] = head + 1
    _ask_ahead(fetch)
    return cycle


@step
def is_jump_to_half(fetch, pc, size):
    """Is it CV32E40P's instruction of two words after a jump, of which each is handed over?"""
    return fetch["port"] == CV32E40P_PORT and pc & 2 and fetch["half"] == 0 and size == 4


@step
def _next_of_cv32e40p(fetch, pc, size, cycle, ready):
    """fetch_next of CV32E40P: a word leaves as soon as its lower half does.

    The aligner keeps the upper half. A compressed instruction that it keeps is handed over when the
    next word has come (if_valid asks for fetch_valid), which stays. Of a jump to an instruction
    that begins in an upper half and ends in the next word, the first word leaves a cycle before
    the instruction can.
    """
    if is_jump_to_half(fetch, pc, size):
        first = _leave(fetch, cycle - 1, ready)
        if first == NEVER:
            return NEVER
        fetch["half"] = 1
    if pc & 2 and fetch["half"]:
        cycle = max(cycle, fetch["leaves"][(fetch["head"] - 1) % PLACES] + 1)
    if pc & 2 == 0 or fetch["half"] == 0 or size == 4:
        cycle = _leave(fetch, cycle, ready)
    else:
        cycle = _available(fetch, fetch["head"], cycle, ready)
    if cycle == NEVER:
        return NEVER
    fetch["half"] = (pc + size) >> 1 & 1
    return cycle


@inlined_step
def fetch_steadily(fetch, pc, size, cycle, turns, may_end):
    """fetch_next in STEADY mode, where the hand-over takes place in this cycle.

    may_end    may the instruction be the end of a hardware loop?
    """
    ends_loop = may_end and fetch["loop_pc"] == pc
    if (pc & 3) + size >= 4 or ends_loop:
        arrival = fetch["arrival"]
        if ends_loop:
            arrival += cycle >= fetch["late"]
            fetch["loop_pc"] = -1
        fetch["arrival"] = arrival + 1 if fetch["left"] < arrival else cycle + 2
        fetch["left"] = cycle
        if pc & 12 == 0 and not (turns or ends_loop):
            _look_ahead(fetch, pc)


@inlined_step
def fetch_next(fetch, pc, size, cycle, ready, turns):
    """Hand the instruction at pc, of size bytes, over to the decode stage.

    To be called for every instruction in turn, as soon as the one before has issued.

    cycle     the first cycle in which it could be handed over if it had arrived: the issue of the
              one before; after a jump what the hart's rules say
    ready     the first cycle in which EX can take it: as long as the decode stage is empty and
              EX is busy nothing is handed over. NEVER if that depends on a grant
    turns     fetch_jump or fetch_loop is called right after it, for the cycle after the hand-over.
              It may be left open, but costs time then, as long as a line is missing that a
              jump always takes back
    returns   the cycle of the hand-over; it can issue one later. NEVER if that is not known yet:
              call again when its line has come (or the grant)
    """
    mode = fetch["mode"]
    if mode == STEADY:
        fetch_steadily(fetch, pc, size, cycle, turns, True)
        return cycle
    if mode == EXACT:
        if fetch["port"] == CV32E40P_PORT:
            return _next_of_cv32e40p(fetch, pc, size, cycle, ready)
        return _next_exact(fetch, pc, size, cycle, ready)
    return cycle


@inlined_step
def fetch_jump(fetch, target, back, cycle):
    """Empty the queue and ask for target in this cycle.

    To be called as soon as that cycle is known: for a jump that needs no register, right after its
    hand-over.

    back     the start of the hardware loop that goes back after the target, or -1
    cycle    a jump's first one in the decode stage, a taken branch's in EX
    """
    if fetch["mode"] == IDEAL:
        return
    if fetch["mode"] == STEADY and back < 0 and has_lines(fetch, target):
        fetch["arrival"] = cycle + 3
        fetch["left"] = cycle
        fetch["loop_pc"] = -1
    else:
        _jump(fetch, target, back, cycle)


@inlined_step
def fetch_loop(fetch, pc, is_split, target, cycle):
    """After the instruction at pc go back to the start of a hardware loop.

    The queue keeps that instruction alone, as a word to itself.

    To be called before that instruction is handed over, as soon as it is next to be.

    is_split    it has 32 bits, and begins in an upper half-word
    cycle       the one after the hand-over of the instruction before it
    """
    if fetch["mode"] == IDEAL:
        return
    if fetch["mode"] == STEADY and has_lines(fetch, target):
        fetch["late"] = cycle + 1 if fetch["arrival"] <= cycle else NEVER
        fetch["arrival"] = cycle + 2
        fetch["loop_pc"] = pc
    else:
        _loop(fetch, pc, is_split, target, cycle)


@step
def fetch_stop(fetch):
    """The hart is switched off: it asks for nothing that it has not asked for yet."""
    if fetch["sent"] == 0:
        fetch["miss"] = NEVER
        fetch["fresh"] = 0


@step
def fetch_send(fetch):
    """Pass the miss on to the shared cache."""
    fetch["sent"] = 1
    fetch["misses"] += 1
    fetch["fill"] = fetch["enabled"]
    if fetch["fill"]:
        choose_victim(fetch)


@step
def fetch_arrives(fetch, cycle):
    """The line asked for arrives in this cycle.

    While a line is written no fetch is granted; past the caches there is nothing to write.
    """
    if fetch["fill"]:
        keep_line(fetch)
    fetch["miss"] = NEVER
    fetch["sent"] = 0
    fetch["free"] = max(fetch["free"], cycle + fetch["fill"])
    _word_comes(fetch, cycle)
    _ask_ahead(fetch)
    if fetch["turn"] >= 0:
        _take_turn(fetch)


@step
def fetch_control(fetch, pc, cycle, enabled):
    """Empty the private cache, switching it on or off; it grants again from this cycle on.

    A line under way still reaches the hart, but is not kept.

    pc    of the instruction to be handed over next
    """
    if fetch["mode"] == IDEAL or fetch["port"]:
        return
    forget_lines(fetch)
    fetch["enabled"] = enabled
    fetch["fill"] = 0
    if fetch["mode"] == STEADY:
        _become_exact(fetch, (pc >> 2) + 3, fetch["arrival"], fetch["left"])
    fetch["free"] = max(fetch["free"], cycle)
    if fetch["miss"] != NEVER and fetch["sent"] == 0:
        fetch["miss"] = max(fetch["miss"], cycle)
        fetch["fresh"] = 1
    _ask_ahead(fetch)


@step
def fetch_through_port(fetch, buffer):
    """Let a hart fetch from a port of L2: each word is asked for, granted, and comes a cycle later.

    buffer    RI5CY_PORT or CV32E40P_PORT
    """
    _become_exact(fetch, 0, 0, 0)
    fetch["port"] = buffer
    fetch["enabled"] = fetch["half"] = 0


@step
def fetch_asks(fetch, now):
    """Does the prefetch buffer ask for a word in this cycle?

    A jump takes over a request of RI5CY's that is not granted yet; CV32E40P's has to be granted.
    """
    if fetch["turn"] >= 0 and fetch["port"] == RI5CY_PORT and fetch["miss"] < now:
        before = fetch["arrivals"][(fetch["turn"] - 1) % PLACES]
        if fetch["turn"] <= fetch["next"] and max(fetch["turn_cycle"], before) <= now:
            fetch["miss"] = NEVER
            fetch["free"] = now
            _take_turn(fetch)
    return fetch["miss"] <= now


@step
def fetch_granted(fetch, now):
    """The word asked for is granted in this cycle: it comes in the next one."""
    fetch["misses"] += 1
    fetch_arrives(fetch, now + 1)
