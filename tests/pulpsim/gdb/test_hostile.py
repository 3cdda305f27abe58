"""Packets that no debugger sends: each is answered or dropped, and the session stays what it is."""

from random import Random
from time import process_time

import pytest

from pulpsim.gdb.packet import LARGEST, Framer, packet
from pulpsim.gdb.stub import Stub
from soc.debug.session import Session
from soc.run import run_program
from tests.soc.random_programs import random_program

GOOD = [
    b"qSupported:swbreak+;hwbreak+;vContSupported+",
    b"QStartNoAckMode",
    b"?",
    b"g",
    b"p20",
    b"P20=0000011c",
    b"P0a=78563412",
    b"P341=00000000",
    b"G" + b"0" * 264,
    b"m10000000,40",
    b"m1c010000,100",
    b"M10000000,4:01020304",
    b"X10000000,4:abcd",
    b"X1c010000,0:",
    b"Hg3",
    b"Hc-1",
    b"T2",
    b"Z0,1c010000,4",
    b"z0,1c010000,4",
    b"Z2,10000000,4",
    b"z2,10000000,4",
    b"Z4,10000100,8",
    b"Z3,1c010000,1",
    b"vCont?",
    b"vCont;s:1",
    b"vCont;c",
    b"vCont;s:9;c",
    b"vCont;r1c010000,1c010010:9;c",
    b"vCont;c:3",
    b"bs",
    b"bc",
    b"s",
    b"c1c010000",
    b"qXfer:features:read:target.xml:0,1000",
    b"qXfer:memory-map:read::0,1000",
    b"qXfer:threads:read::0,1000",
    b"qXfer:exec-file:read:1:0,1000",
    b"qfThreadInfo",
    b"qThreadExtraInfo,3",
    b"qCRC:1c010000,100",
    b"qRcmd," + b"monitor".hex().encode(),
    *(b"qRcmd," + text.hex().encode() for text in (b"goto 500", b"barrier", b"where", b"stalls")),
    b"qRcmd," + b"checkpoint a".hex().encode(),
    b"vFile:setfs:0",
    b"vFile:open:6162,0,0",
    b"vFile:pread:3,1000,0",
    b"vFile:fstat:3",
    b"vFile:close:3",
    b"R00",
    b"D",
    b"k",
    b"vRun;",
    b"vKill;1",
]
BYTES = b"0123456789abcdef,;:-+=$#}*\x00\x03\xff"


def mutated(random: Random) -> bytes:
    """A packet's data, or several, damaged."""
    data = bytearray(random.choice(GOOD))
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        place = random.randrange(len(data) + 1)
        how = random.randrange(5)
        if how == 0:
            data[place:place] = bytes(random.choices(BYTES, k=random.choice((1, 1, 3, 30))))
        elif how == 1:
            del data[place : place + random.choice((1, 1, 4))]
        elif how == 2 and data:
            data[place % len(data)] = random.choice(BYTES)
        elif how == 3:
            data[place:] = random.choice(GOOD)[random.randrange(4) :]
        else:
            data[place:place] = b"f" * random.choice((8, 16, 17, 1000))
    return bytes(data[: LARGEST // 2])


class Bench:
    """A stub for a program whose runs are short: packets go in as bytes of a stream."""

    def __init__(self, seed: int):
        self.session = Session(random_program(seed), max_cycles=3000)
        self.new()

    def new(self) -> None:
        self.framer, self.stub = Framer(), Stub(self.session, b"\x7fELF")

    def feed(self, stream: bytes) -> None:
        for found in self.framer.feed(stream):
            if isinstance(found, bytes):
                answer = self.stub.answer(found)
                assert answer is None or isinstance(answer, bytes)
        if self.stub.is_over or self.stub.is_left:
            self.new()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_packets_are_answered_or_dropped(seed, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # a damaged `monitor checkpoint` may name a file
    random, bench = Random(seed), Bench(3)
    slowest = 0.0
    for _ in range(2500):
        data = mutated(random)
        stream = bytearray(packet(data))
        if random.random() < 0.2:
            stream[random.randrange(len(stream))] = random.randrange(256)
        started = process_time()
        bench.feed(bytes(stream))
        slowest = max(slowest, process_time() - started)
    assert slowest < 20
    bench.feed(packet(b"R00"))
    bench.session.forget_edits()
    bench.session.go_to(1 << 40)
    expected = run_program(random_program(3), max_cycles=3000).to_json()
    assert bench.session.result().to_json()["harts"] == expected["harts"]


def test_what_no_packet_may_ask_is_refused() -> None:
    stub = Stub(Session(random_program(3)), b"")
    assert stub.answer(b"m0,10") == b"E0e"
    assert stub.answer(b"m1a104000,4") == b"E0e"
    assert stub.answer(b"M0,4:00000000") == b"E0e"
    assert stub.answer(b"X10000000,4:abc") == b"E01"
    assert stub.answer(b"Z0,0,4") == b"E01"
    assert stub.answer(b"Z2,10000000,fffffff") == b"E01"
    assert stub.answer(b"Hg20") == b"E01"
    assert stub.answer(b"p1fff") == b"E01"
    assert stub.answer(b"vFile:open:2f6574632f706173737764,0,0") == b"F-1,2"
    assert stub.answer(b"\xff\xfe") == b"E01"
    assert stub.answer(b"nonsense") == b""
    assert stub.answer(b"") == b""
