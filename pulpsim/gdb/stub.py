"""The stub: answers GDB's packets, one by one, for a session.

Source: GDB manual, appendix E.2 "Packets" to E.11 "Host I/O Packets".
"""

from collections.abc import Callable

from pulpsim.gdb import fields
from pulpsim.gdb.contents import Contents
from pulpsim.gdb.fields import BadPacket
from pulpsim.gdb.files import Files
from pulpsim.gdb.monitor import Monitor
from pulpsim.gdb.packet import LARGEST
from pulpsim.gdb.points import Points
from pulpsim.gdb.resume import Action, actions, stop_reply
from pulpsim.gdb.target import PC, description, memory_map
from soc.debug.cursor import Cursor, Moved, Step
from soc.debug.hits import WORD, Hit, Phase
from soc.debug.session import Session
from soc.debug.whereabouts import doing_of, name_of

NOT_KNOWN, OK, REFUSED = b"", b"OK", b"E01"

SUPPORTED = (
    f"PacketSize={LARGEST:x};QStartNoAckMode+;qXfer:features:read+;qXfer:memory-map:read+;"
    "qXfer:threads:read+;qXfer:exec-file:read+;ReverseStep+;ReverseContinue+;vContSupported+;"
    "swbreak+;hwbreak+"
)


class Stub:
    """One debugger's view of a session.

    show       gets text for the person at the debugger
    is_told    looks whether the debugger wants to interrupt
    is_over    the debugger has ended the session; is_left, or just left it
    """

    def __init__(
        self,
        session: Session,
        elf: bytes,
        show: Callable[[str], None] = lambda text: None,
        is_told: Callable[[], bool] = lambda: False,
    ):
        self.session, self.show = session, show
        self.cursor = Cursor(session, is_told)
        self.contents = Contents(self.cursor, session.chip.harts.size - 1)
        self.files = Files(session.program.name, elf)
        self.points = Points(session)
        self.monitor = Monitor(self.cursor, self.points)
        self.harts = session.chip.harts.size
        self.moving = self.harts - 1
        self.moved = Moved("interrupted", self.contents.hart)
        self.is_over = self.is_left = self.is_quiet = False
        self._word = b""
        self._commands: dict[str, Callable[[str], bytes]] = {
            "?": lambda rest: self._stopped(),
            "!": lambda rest: OK,
            "D": self._detach,
            "G": self.contents.write_all,
            "H": self._select,
            "P": self.contents.write_one,
            "M": self.contents.write_memory,
            "R": self._restart,
            "T": self._is_alive,
            "Z": self.points.insert,
            "b": self._reverse,
            "c": lambda rest: self._resume([Action("c")], rest),
            "C": lambda rest: self._resume([Action("c")], rest.partition(";")[2]),
            "g": lambda rest: self.contents.read_all(),
            "k": self._kill,
            "m": self.contents.read_memory,
            "p": self.contents.read_one,
            "q": self._query,
            "Q": self._set,
            "s": lambda rest: self._resume([Action("s", self.moving)], rest),
            "S": lambda rest: self._resume([Action("s", self.moving)], rest.partition(";")[2]),
            "v": self._long,
            "z": self.points.remove,
        }

    def answer(self, packet: bytes) -> bytes | None:
        """The data of the packet that answers this one; None: it is not answered."""
        if packet[:1] == b"X":
            return self._guarded(self.contents.write_binary, packet[1:])
        if packet[:6] == b"vFile:":
            return self._guarded(self.files.answer, packet[6:])
        try:
            text = packet.decode("ascii")
        except UnicodeDecodeError:
            return REFUSED
        command = self._commands.get(text[:1])
        if command is None:
            return NOT_KNOWN
        answer = self._guarded(command, text[1:])
        return None if text[:1] in ("k", "R") else answer

    @staticmethod
    def _guarded(command: Callable, rest: str | bytes) -> bytes:
        try:
            found: bytes = command(rest)
            return found
        except BadPacket:
            return REFUSED

    # Threads

    def _select(self, rest: str) -> bytes:
        hart = fields.thread(rest[1:], self.harts)
        if rest[:1] == "g" and hart is not None:
            self.contents.hart = hart
        elif rest[:1] == "c" and hart is not None:
            self.moving = hart
        return OK if rest[:1] in ("g", "c") else REFUSED

    def _is_alive(self, rest: str) -> bytes:
        fields.thread(rest, self.harts)
        return OK

    def _threads(self) -> str:
        chip = self.session.chip
        lines = [
            f'<thread id="{h + 1:x}" core="{h}" name="{name_of(chip, h)}">{self._doing(h)}</thread>'
            for h in range(self.harts)
        ]
        return f'<?xml version="1.0"?>\n<threads>\n{chr(10).join(lines)}\n</threads>\n'

    def _doing(self, h: int) -> str:
        """Say in words what a hart does."""
        if h in self.cursor.view.done:
            return "runs"
        return doing_of(self.session.chip, self.session.spec, h)[0]

    # Moves

    def _resume(self, wanted: list[Action], address: str = "") -> bytes:
        if address:
            self.contents.write(PC, fields.number(address))
        if self.session.end is not None:
            return self._ended()
        cursor = self.cursor
        steps = [action for action in wanted if action.kind != "c" and action.hart is not None]
        others = [action for action in wanted if action.hart is None]
        resumed = None if others else frozenset(a.hart for a in wanted if a.hart is not None)
        if not steps and any(action.kind != "c" for action in others):
            steps = [Action("s", self.moving)]
        if not steps:
            self.moved = cursor.run(harts=resumed)
            return self._stopped()
        step = Step(steps[0].hart or 0, steps[0].first, steps[0].end)
        is_alone = resumed is not None and not step.end
        self.moved = cursor.step_alone(step) if is_alone else cursor.run(step, resumed)
        return self._stopped()

    def _reverse(self, rest: str) -> bytes:
        if rest not in ("c", "s"):
            return NOT_KNOWN
        back = self.cursor.run_back if rest == "c" else lambda: self.cursor.step_back(self.moving)
        self.moved = back()
        return self._stopped()

    def _stopped(self) -> bytes:
        reply, hart = stop_reply(self.cursor, self.points, self.moved, self.moving)
        self.contents.hart = self.moving = hart
        if self.moved.reason == "end" and self.session.end:
            self.show(f"[{self._end_text()}]\n")
        elif self.moved.hit and self.moved.hit.position.phase == Phase.COPY:
            self._tell_of_copy(self.moved.hit, self.moved.reason == "hit")
        return reply

    def _tell_of_copy(self, hit: Hit, is_ahead: bool) -> None:
        """Say that it was the DMA, where GDB stops: by `watch` only where a word changes.

        is_ahead    GDB is about to step past it
        """
        assert hit.watchpoint
        position, before = hit.position, self._word
        self._word = self.cursor.view.read(position.address, WORD)
        is_meant = is_ahead if hit.watchpoint.kind != "write" else before != self._word
        if is_meant and is_ahead == (hit.watchpoint.kind != "write"):
            what = f"{'writes' if hit.is_store else 'reads'} {self._place(hit.address)}"
            who = name_of(self.session.chip, position.hart)
            self.show(f"[cycle {position.cycle}: the DMA {what}, for {who}]\n")

    def _place(self, address: int) -> str:
        return self.session.program.place(address)

    def _end_text(self) -> str:
        end = self.session.end
        assert end
        what = end.message or f"the program has returned {end.code} at cycle {self.session.cycle}"
        return f"{what}; it can go back from here, to go on ends the session"

    def _ended(self) -> bytes:
        """Return the answer to a request to go on past the end."""
        assert self.session.end
        self.is_left = True
        if self.session.end.reason == "exit":
            return f"W{self.session.end.code & 0xFF:02x}".encode()
        return b"X06"

    # The session

    def _kill(self, rest: str) -> bytes:
        self.is_over = True
        return OK

    def _detach(self, rest: str) -> bytes:
        self.is_left = True
        return OK

    def _restart(self, rest: str) -> bytes:
        self.monitor.reset()
        return OK

    def _query(self, rest: str) -> bytes:
        name, _, arguments = rest.partition(":")
        if name == "Xfer":
            return self._transfer(arguments)
        if name.startswith("Rcmd,"):
            return self._command(rest[5:])
        if name.startswith("ThreadExtraInfo,"):
            hart = fields.thread(name[16:], self.harts)
            name = name_of(self.session.chip, hart or 0)
            return f"{name}: {self._doing(hart or 0)}".encode().hex().encode()
        if name == "CRC":
            return self.contents.checksum(arguments)
        simple = {
            "Supported": SUPPORTED,
            "Attached": "1",
            "C": f"QC{self.contents.hart + 1:x}",
            "fThreadInfo": "m" + ",".join(f"{h + 1:x}" for h in range(self.harts)),
            "sThreadInfo": "l",
            "Symbol": "OK",
        }
        return simple.get(name, "").encode()

    def _set(self, rest: str) -> bytes:
        if rest == "StartNoAckMode":
            self.is_quiet = True
            return OK
        return NOT_KNOWN

    def _transfer(self, arguments: str) -> bytes:
        parts = arguments.split(":")
        if len(parts) != 4 or parts[1] != "read":
            return NOT_KNOWN
        thing, _, annex, span = parts
        documents: dict[tuple[str, str], Callable[[], str]] = {
            ("features", "target.xml"): lambda: description(self.contents.registers),
            ("memory-map", ""): lambda: memory_map(self.session.spec),
            ("threads", ""): self._threads,
            ("exec-file", annex): lambda: self.files.name,
        }
        document = documents.get((thing, annex))
        if document is None:
            return b"E00" if thing == "features" else NOT_KNOWN
        offset, size = fields.numbers(span, 2)
        data = document().encode()
        part = data[offset : offset + min(size, LARGEST // 2)]
        return (b"l" if offset + len(part) >= len(data) else b"m") + part

    def _command(self, digits: str) -> bytes:
        answer = self.monitor.answer(fields.data(digits).decode("utf-8", "replace"))
        if self.session.cycle != self.cursor.before.cycle:
            self.cursor.changed()
        return answer.encode().hex().encode() or OK

    def _long(self, rest: str) -> bytes:
        if rest == "Cont?":
            return b"vCont;c;C;s;S;r"
        if rest.startswith("Cont;"):
            return self._resume(actions(rest[5:], self.harts))
        if rest.startswith("Kill"):
            return self._kill("")
        if rest.startswith("Run"):
            self.monitor.reset()
            self.moved = Moved("interrupted", self.harts - 1)
            return self._stopped()
        return NOT_KNOWN
