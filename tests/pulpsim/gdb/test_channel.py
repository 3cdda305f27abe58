"""A connection to a debugger: what belongs together, however it is read."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pulpsim.gdb.channel import Channel
from pulpsim.gdb.packet import packet

INTERRUPT = b"\x03"


@contextmanager
def channel_that_reads(data: bytes) -> Iterator[Channel]:
    debugger, server = socket.socketpair()
    with debugger, server:
        debugger.sendall(data)
        yield Channel(server.fileno(), server.fileno())


def test_an_interrupt_read_together_with_its_command_reaches_it() -> None:
    with channel_that_reads(packet(b"vCont;c") + INTERRUPT) as channel:
        assert channel.next() == b"vCont;c"
        assert channel.is_told()
        assert not channel.is_told()


def test_an_interrupt_after_its_command_has_ended_is_dropped() -> None:
    with channel_that_reads(packet(b"vCont;s") + INTERRUPT * 2 + packet(b"vCont;c")) as channel:
        assert channel.next() == b"vCont;s"
        assert channel.next() == b"vCont;c"
        assert not channel.is_told()
