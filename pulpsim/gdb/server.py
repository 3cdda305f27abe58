"""The server: lets a session run until a debugger comes, and answers it."""

import os
import select
import socket
from collections.abc import Callable

from pulpsim.gdb.channel import Channel
from pulpsim.gdb.stub import Stub
from soc.config.toml import ConfigError
from soc.debug.session import Session

HOST = "127.0.0.1"


class Server:
    """One session, and one debugger at a time.

    show_here    shows the program's text here
    """

    def __init__(self, session: Session, elf: bytes, show_here: Callable[[str], None]):
        self.session, self.elf, self.show_here = session, elf, show_here
        self._channel: Channel | None = None

    def print(self, text: str) -> None:
        """Show what the program prints."""
        if self._channel:
            self._channel.show(text)
        self.show_here(text)

    def serve(self, channel: Channel) -> bool:
        """Answer a debugger until it goes; returns True if the session is over with that."""
        self._channel = channel
        stub = Stub(self.session, self.elf, channel.show, channel.is_told)
        try:
            while (packet := channel.next()) is not None:
                answer = stub.answer(packet)
                end = self.session.end
                if end and end.reason == "interrupted":
                    raise KeyboardInterrupt
                if answer is not None:
                    channel.send(answer)
                channel.acknowledges = not stub.is_quiet
                if stub.is_over or stub.is_left:
                    return stub.is_over
        finally:
            stub.points.forget()
            self._channel = None
        return False

    def serve_pipe(self) -> None:
        """Answer the debugger that has started this process; others of its writers are told off."""
        source, sink = os.dup(0), os.dup(1)
        os.dup2(2, 1)
        self.serve(Channel(source, sink))

    def serve_port(self, port: int, waits: bool, tell: Callable[[str], None]) -> None:
        """Let the program run, and answer debuggers that come to a port of the loopback.

        waits     for the first one before the program begins
        tell      says where
        raises    ConfigError if the port cannot be had
        """
        with _listening(port) as listening:
            host, number = listening.getsockname()
            tell(f"GDB server at {host}:{number}; gdb-multiarch -ex 'target remote :{number}'")
            is_over = False
            while not is_over:
                if not waits:
                    self._run_until(listening)
                connection, _ = listening.accept()
                with connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    file = connection.fileno()

                    def refuse() -> None:
                        listening.accept()[0].close()

                    channel = Channel(file, file, (listening.fileno(),), refuse)
                    is_over = self.serve(channel)
                    waits = not channel.is_open

    def _run_until(self, listening: socket.socket) -> None:
        """Let the program run on until a debugger connects."""
        while self.session.end is None:
            self.session.advance(1 << 62)
            if select.select([listening], [], [], 0)[0]:
                return
        if self.session.end.reason == "interrupted":
            raise KeyboardInterrupt


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port), backlog=1)
    except (OSError, OverflowError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number else "a port is a number up to 65535"
        raise ConfigError([f"--port {port}: {reason}; --port 0 takes one that is free"]) from None
