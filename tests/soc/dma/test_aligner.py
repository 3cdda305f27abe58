"""The aligner by itself, driven by hand: which bytes of a burst's first beat it enables."""

import numpy as np
import pytest

from soc.dma.aligner import align
from soc.dma.state import (
    ALIGN_BURSTS,
    BEATS,
    CHANNEL,
    DATA0,
    DATA1,
    L1_TO_L2,
    L2_TO_L1,
    has,
    pop,
    push,
)

FULL = ((1, 2, 3), (4, 5, 6))
"""Two entries that leave a queue of the target no room."""


class Aligner:
    """A channel's aligner between a source whose bytes count up and a target."""

    def __init__(self, direction: int, length: int, push_offset: int, pop_offset: int) -> None:
        self.channel = np.zeros(1, CHANNEL)[0]
        self.direction = direction
        self.given = 0
        push(self.channel, ALIGN_BURSTS, length, push_offset, pop_offset)
        self.sources = (DATA0, DATA1) if direction == L1_TO_L2 else (BEATS,)
        self.targets = (BEATS,) if direction == L1_TO_L2 else (DATA0, DATA1)
        self.cycle(gives=False)  # takes the burst

    def cycle(self, *, gives: bool, has_room: bool = True) -> int | None:
        """One cycle; enables of the beat that was popped in it, a bit each, or None."""
        if gives:
            words = [
                int.from_bytes(bytes(range(at, at + 4)), "little")
                for at in (8 * self.given, 8 * self.given + 4)
            ]
            self.given += 1
            if self.direction == L1_TO_L2:
                push(self.channel, DATA0, words[0])
                push(self.channel, DATA1, words[1])
            else:
                push(self.channel, BEATS, *words)
        if not has_room:
            for queue in self.targets:
                for entry in FULL:
                    push(self.channel, queue, *entry)
        self.channel["seen"] = self.channel["level"]
        align(self.channel, self.direction)
        if not has_room:
            for queue in self.targets * 2:
                pop(self.channel, queue)
            return None
        self.channel["seen"] = self.channel["level"]
        if not has(self.channel, self.targets[0]):
            return None
        beats = [pop(self.channel, queue) for queue in self.targets]
        if self.direction == L1_TO_L2:
            self.words = beats[0][0], beats[0][1]
            return beats[0][2]
        self.words = beats[0][0], beats[1][0]
        return beats[0][1] | beats[1][1] << 4

    def octets(self) -> bytes:
        """The beat popped last."""
        low, high = self.words
        return int(low | high << 32).to_bytes(8, "little")


def ready(direction: int, length: int) -> Aligner:
    """An aligner that has taken two beats of a burst: its first one is ready."""
    aligner = Aligner(direction, length, push_offset=5, pop_offset=3)
    for _ in range(2):
        assert aligner.cycle(gives=True) is None
    return aligner


DIRECTIONS = pytest.mark.parametrize("direction", [L1_TO_L2, L2_TO_L1])


@DIRECTIONS
def test_the_first_beat_begins_at_the_targets_offset(direction):
    aligner = Aligner(direction, 24, push_offset=5, pop_offset=3)
    assert [aligner.cycle(gives=True) for _ in range(5)] == [None, None, 0xF8, 0xFF, 0xFF]
    assert aligner.cycle(gives=False) == 0x07


@DIRECTIONS
def test_a_first_beat_that_waits_for_room_beside_a_beat_of_the_source_keeps_its_enables(direction):
    aligner = ready(direction, 24)
    assert aligner.cycle(gives=True, has_room=False) is None
    for _ in range(3):
        assert aligner.cycle(gives=False, has_room=False) is None
    assert aligner.cycle(gives=False) == 0xF8


@DIRECTIONS
def test_a_first_beat_that_can_leave_at_once_keeps_its_enables_without_a_beat_of_the_source(
    direction,
):
    aligner = ready(direction, 24)
    assert aligner.cycle(gives=False) == 0xF8


@DIRECTIONS
def test_without_room_and_without_a_beat_of_the_source_the_first_beat_is_enabled_whole(direction):
    aligner = ready(direction, 24)
    assert aligner.cycle(gives=False, has_room=False) is None
    assert aligner.cycle(gives=True) == 0xFF
    assert aligner.octets() == bytes(range(2, 10))  # before the burst's bytes, what precedes them


@DIRECTIONS
def test_the_bytes_enabled_beside_may_be_of_the_burst_before(direction):
    aligner = Aligner(direction, 16, push_offset=0, pop_offset=0)
    for _ in range(2):
        aligner.cycle(gives=True)
    assert [aligner.cycle(gives=False) for _ in range(2)] == [0xFF, 0xFF]
    push(aligner.channel, ALIGN_BURSTS, 16, 2, 5)
    aligner.cycle(gives=False)
    assert aligner.cycle(gives=True) is None
    assert aligner.cycle(gives=False, has_room=False) is None
    assert aligner.cycle(gives=True) == 0xFF
    assert aligner.octets() == bytes([13, 14, 15, 16, 17, 18, 19, 20])


@DIRECTIONS
def test_a_burst_that_fits_into_two_beats_of_the_source_keeps_its_enables(direction):
    aligner = ready(direction, 8)
    for _ in range(3):
        assert aligner.cycle(gives=False, has_room=False) is None
    assert [aligner.cycle(gives=False) for _ in range(2)] == [0xF8, 0x07]
