"""Packets: found however the stream is cut, and made so that GDB finds them."""

from random import Random

from pulpsim.gdb.packet import LARGEST, Framer, Signal, packet


def found(*pieces: bytes) -> list:
    framer = Framer()
    return [each for piece in pieces for each in framer.feed(piece)]


def test_packets_are_found_in_whatever_pieces_they_come() -> None:
    random = Random(1)
    data = [bytes(random.randrange(256) for _ in range(random.randrange(40))) for _ in range(50)]
    stream = b"".join(b"+" * random.randrange(3) + packet(each) for each in data)
    for _ in range(20):
        cuts = sorted(random.randrange(len(stream)) for _ in range(30))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        assert found(*pieces) == data


def test_a_packet_is_as_the_manual_has_it() -> None:
    assert packet(b"OK") == b"$OK#9a"
    assert packet(b"a}b") == b"$a}]b#9d"
    assert found(b"$OK#9a", b"$OK#9A") == [b"OK", b"OK"]


def test_what_is_no_packet_is_dropped() -> None:
    assert found(b"xyz\x03-+$OK#9a#12") == [Signal.INTERRUPT, Signal.REPEAT, b"OK"]
    assert found(b"$OK#00") == [Signal.BAD_CHECKSUM]
    assert found(b"$a}#de") == [b"a"]


def test_a_packet_without_an_end_takes_no_more_than_the_largest() -> None:
    framer = Framer()
    assert list(framer.feed(b"$" + b"a" * LARGEST)) == []
    assert Signal.BAD_CHECKSUM in list(framer.feed(b"a" * 10))
    assert list(framer.feed(packet(b"g"))) == [b"g"]
