"""GDB's requests to go on, and the replies when harts stop.

Source: GDB manual, appendix E.2 "vCont", E.3 "Stop Reply Packets".
"""

from typing import NamedTuple

from pulpsim.gdb import fields
from pulpsim.gdb.fields import BadPacket
from pulpsim.gdb.points import Points
from pulpsim.gdb.target import PC
from soc.debug.cursor import Cursor, Moved
from soc.prelude import hart_state

SIGINT, SIGILL, SIGTRAP, SIGSEGV = 2, 4, 5, 11

SIGNALS = {
    hart_state.FAULT_ILLEGAL: SIGILL,
    hart_state.FAULT_CSR: SIGILL,
    hart_state.FAULT_FETCH: SIGSEGV,
    hart_state.FAULT_LOAD: SIGSEGV,
    hart_state.FAULT_STORE: SIGSEGV,
    hart_state.FAULT_EVENT_UNIT: SIGSEGV,
    hart_state.FAULT_STACK: SIGSEGV,
}
"""What GDB calls the faults that end a run."""


class Action(NamedTuple):
    """What a hart is to do: "c" go on, "s" one instruction, "r" all of an address range.

    hart    None: every hart that no other action names
    """

    kind: str
    hart: int | None = None
    first: int = 0
    end: int = 0


def actions(text: str, harts: int) -> list[Action]:
    """Actions of a vCont packet, the leftmost of each hart."""
    found: dict[int | None, Action] = {}
    for part in text.split(";"):
        what, point, thread = part.partition(":")
        hart = fields.thread(thread, harts) if point else None
        kind, first, end = what[:1].lower(), 0, 0
        if kind == "r":
            first, end = fields.numbers(what[1:], 2)
        elif kind not in ("c", "s"):
            raise BadPacket(f"action {what!r}")
        found.setdefault(hart, Action(kind, hart, first, end))
    return list(found.values())


def stop_reply(cursor: Cursor, points: Points, moved: Moved, hart: int) -> tuple[bytes, int]:
    """The reply, and the hart that it is about: the last one if none is the reason.

    moved    why the harts have stopped
    """
    signal, reason = SIGTRAP, ""
    if moved.hart is not None:
        hart = moved.hart
    if moved.reason == "hit" and moved.hit:
        reason = points.reason(moved.hit)
    elif moved.reason == "interrupted":
        signal = SIGINT
    elif moved.reason == "start":
        hart, reason = cursor.session.chip.harts.size - 1, "replaylog:begin;"
    elif moved.reason == "end":
        signal, hart = _fault(cursor, hart)
        reason = "replaylog:end;" if signal == SIGTRAP else ""
    pc = f"{PC:x}:{fields.word(cursor.pc(hart))};"
    return f"T{signal:02x}thread:{hart + 1:x};core:{hart:x};{pc}{reason}".encode(), hart


def _fault(cursor: Cursor, hart: int) -> tuple[int, int]:
    """The signal for what has ended a run, and whose it is; of an exit, the last one's: main's."""
    end = cursor.session.end
    if end and end.reason == "exit":
        return SIGTRAP, cursor.session.chip.harts.size - 1
    if end and end.hart is not None:
        record = cursor.session.chip.harts[end.hart]
        is_refused = int(record["state"]) != hart_state.STOPPED  # by what is on the bus
        signal = SIGSEGV if is_refused else SIGNALS.get(int(record["fault"]), SIGTRAP)
        return signal, end.hart
    return SIGTRAP, hart
