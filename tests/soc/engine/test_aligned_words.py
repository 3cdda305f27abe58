"""The fast path of aligned words comes to what the arbiter's rule says, in all its states."""

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from soc.chip.spec import load_chip
from soc.chip.state import Chip
from soc.engine.aligned_words import (
    grant_words,
    note_word,
    request_words,
    share_banks,
    take_bank,
)
from soc.engine.aligned_words_dma import serve_lanes
from soc.interconnect.rr_arbiter import arbitrate
from soc.interconnect.tcdm import DMA_PORTS, ask_bank, grant_bank
from soc.prelude.bits import set_of
from soc.prelude.wheel import RING
from soc.reset import new_chip

CORES, INPUTS = 8, 16
FIRST_LANE = INPUTS - DMA_PORTS
NOW = 5


class Banks:
    """The banks of a chip, beside those of a model that follows the arbiter's rule alone.

    asking    bank of each initiator that asks
    """

    def __init__(self) -> None:
        self.chip: Chip = new_chip(load_chip("pulp"), "x")
        self.asking: dict[int, int] = {}
        self.now = NOW
        count = len(self.chip.banks)
        self.rr, self.accesses, self.conflicts = [0] * count, [0] * count, [0] * count

    def set_rr(self, bank: int, rr: int) -> None:
        self.rr[bank] = self.chip.banks[bank]["rr"] = rr

    def ask(self, initiator: int, bank: int) -> None:
        """Let an initiator ask for a bank in this cycle."""
        self.asking[initiator] = bank
        if initiator < CORES:
            self.chip.harts[initiator]["address"] = 0x10000000 + 4 * bank
            note_word(self.chip, initiator, self.now)
        else:
            self.chip.dma[0]["lane_word"][initiator - FIRST_LANE] = bank

    def by_rule(self) -> set[int]:
        """Initiators that are served in this cycle; the others still ask in the next one."""
        served = set()
        for bank in set(self.asking.values()):
            requests = [each for each, other in self.asking.items() if other == bank]
            winner, self.rr[bank], losers = arbitrate(set_of(requests), self.rr[bank])
            self.accesses[bank] += 1
            self.conflicts[bank] += int(losers).bit_count()
            served.add(winner)
        self.asking = {i: bank for i, bank in self.asking.items() if i not in served}
        return served

    def serve_by(self, fast: Callable[["Banks"], set[int]]) -> None:
        """Let the fast path serve a cycle's requests, as the rule does."""
        found = fast(self)
        assert found == self.by_rule()
        for name in ("rr", "accesses", "conflicts"):
            assert self.chip.banks[name].tolist() == getattr(self, name), name
        noted = self.chip.wheel[0]["asking"]
        assert not noted[self.now % RING].any()
        self.now += 1
        again = [0] * 64
        for core, bank in self.asking.items():
            again[bank] |= 1 << core if core < CORES else 0
        assert noted[self.now % RING].tolist() == again
        several = [bank for bank, cores in enumerate(again) if cores.bit_count() > 1]
        assert self.chip.wheel[0]["shared"][self.now % RING] == set_of(several)

    def forget(self) -> None:
        """Let nobody ask any more."""
        self.asking = {}
        self.chip.wheel[0]["asking"] = self.chip.wheel[0]["shared"] = 0


def cores_of(banks: Banks) -> np.uint64:
    return set_of(initiator for initiator in banks.asking if initiator < CORES)


def lanes_of(banks: Banks) -> int:
    return sum(1 << i - FIRST_LANE for i in banks.asking if i >= FIRST_LANE)


def taken(banks: Banks, lost: int) -> set[int]:
    """Harts that have not lost take their banks."""
    served = {h for h in banks.asking if h < CORES and not int(lost) >> h & 1}
    for h in served:
        take_bank(banks.chip, h, banks.now)
    return served


def by_words_alone(banks: Banks) -> set[int]:
    return taken(banks, share_banks(banks.chip, banks.now))


def beside_lanes(banks: Banks) -> set[int]:
    won, lost = serve_lanes(banks.chip, lanes_of(banks), banks.now)
    lost |= share_banks(banks.chip, banks.now)
    return taken(banks, lost) | {FIRST_LANE + lane for lane in range(4) if won >> lane & 1}


def beside_others(banks: Banks) -> set[int]:
    """Put to the banks one by one, with others' requests: here those of the DMA's lanes."""
    chip, lanes = banks.chip, [i for i in banks.asking if i >= FIRST_LANE]
    for lane in lanes:
        ask_bank(chip.banks[banks.asking[lane]], lane)
    cores = cores_of(banks)
    request_words(chip, cores, banks.now)
    granted = grant_words(chip, cores, banks.now)
    won = {lane for lane in lanes if grant_bank(chip.banks[banks.asking[lane]], lane)}
    return taken(banks, int(cores) & ~int(granted)) | won


def members(mask: int) -> list[int]:
    return [initiator for initiator in range(INPUTS) if mask >> initiator & 1]


def of_cores() -> Iterator[list[int]]:
    return (members(mask) for mask in range(1, 1 << CORES))


def of_cores_and_lanes() -> Iterator[list[int]]:
    """Four cores, and four lanes."""
    for cores, lanes in product(range(1 << 4), range(1 << DMA_PORTS)):
        if cores or lanes:
            yield members(cores | lanes << FIRST_LANE)


@pytest.mark.parametrize(
    ("fast", "requests"),
    [
        (by_words_alone, of_cores),
        (beside_others, of_cores),
        (beside_lanes, of_cores_and_lanes),
        (beside_others, of_cores_and_lanes),
    ],
)
def test_one_bank_serves_as_the_rule_says_whoever_asks_in_whichever_state(
    fast: Callable, requests: Callable[[], Iterable[list[int]]]
) -> None:
    banks = Banks()
    for asking, rr in product(requests(), range(INPUTS)):
        banks.forget()
        banks.set_rr(3, rr)
        for initiator in asking:
            banks.ask(initiator, 3)
        banks.serve_by(fast)


@pytest.mark.parametrize("fast", [by_words_alone, beside_lanes, beside_others])
def test_losers_ask_again_beside_others_cycle_after_cycle(fast: Callable) -> None:
    random, banks = Random(7), Banks()
    lanes = [] if fast is by_words_alone else range(FIRST_LANE, INPUTS)
    for _ in range(1000):
        for initiator in (*range(CORES), *lanes):
            if initiator not in banks.asking and random.random() < 0.4:
                banks.ask(initiator, random.randrange(4))
        if banks.asking:
            banks.serve_by(fast)
    assert sum(banks.conflicts) > 1000
