"""Breakpoints and watchpoints as GDB inserts and removes them.

Source: GDB manual, appendix E.2: "Z0".."Z4". Both kinds of breakpoints cost nothing here, and none
changes the program; GDB is told which kind it was.
"""

from pulpsim.gdb import fields
from pulpsim.gdb.fields import BadPacket
from soc.debug.hits import Hit, Watchpoint
from soc.debug.session import Session

SOFTWARE, HARDWARE = 0, 1
WATCHED = {2: "write", 3: "read", 4: "access"}
STOPPED_BY = {"write": "watch", "read": "rwatch", "access": "awatch"}
MOST = 1 << 10
"""Points, each of which makes every search longer."""
LARGEST = 1 << 24  # bytes that are watched


class Points:
    """Breakpoints and watchpoints of one debugger."""

    def __init__(self, session: Session):
        self.session = session
        self._kinds: dict[int, set[int]] = {}

    def insert(self, rest: str) -> bytes:
        """Z."""
        kind, address, size = self._point(rest)
        if kind in WATCHED:
            if len(self.session.watchpoints) >= MOST or not 0 < size <= LARGEST:
                raise BadPacket(f"{size} bytes to watch")
            self.session.watchpoints.add(Watchpoint(address, size, WATCHED[kind]))
            return b"OK"
        memory = self.session.spec.l2
        is_code = memory.base <= address < memory.base + memory.size and address % 2 == 0
        if not is_code or len(self._kinds) >= MOST:
            raise BadPacket(f"no instruction at {address:#x}")
        self._kinds.setdefault(address, set()).add(kind)
        self.session.breakpoints.add(address)
        return b"OK"

    def remove(self, rest: str) -> bytes:
        """z."""
        kind, address, size = self._point(rest)
        if kind in WATCHED:
            self.session.watchpoints.discard(Watchpoint(address, size, WATCHED[kind]))
            return b"OK"
        kinds = self._kinds.get(address, set())
        kinds.discard(kind)
        if not kinds:
            self._kinds.pop(address, None)
            self.session.breakpoints.discard(address)
        return b"OK"

    def forget(self) -> None:
        """The debugger has gone."""
        self._kinds.clear()
        self.session.breakpoints.clear()
        self.session.watchpoints.clear()

    def reason(self, hit: Hit) -> str:
        """Reason of a stop, as stop replies have it."""
        if hit.watchpoint:
            return f"{STOPPED_BY[hit.watchpoint.kind]}:{hit.address:x};"
        return "hwbreak:;" if HARDWARE in self._kinds.get(hit.address, ()) else "swbreak:;"

    @staticmethod
    def _point(rest: str) -> tuple[int, int, int]:
        parts = rest.partition(";")[0].split(",")
        if len(parts) != 3:
            raise BadPacket(f"{len(parts)} fields instead of 3")
        kind, address, size = (fields.number(part) for part in parts)
        if kind not in (SOFTWARE, HARDWARE, *WATCHED):
            raise BadPacket(f"no kind {kind} of breakpoints")
        return kind, address, size
