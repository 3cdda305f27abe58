"""Translates what is hot into machine code: see soc.jit.superblock_steps.

Translating takes a tenth of a second for each superblock, so a process of its own does it while the
simulation goes on; the machine code is kept beside that of the units, under a name that says all
that goes into it, and the next simulation that comes to the same code finds it there.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import is_
from time import monotonic
from typing import NamedTuple

import numpy as np

from soc.chip.state import Chip
from soc.core.decode_cache import WHOLE_ROW, CodeMemory
from soc.core.hotness import ISSUE
from soc.engine.interpreter import Interpreter, steps_of_superblocks
from soc.jit.code_cache import CodeCache
from soc.jit.emit_llvm import module_text
from soc.jit.profile import Profile, profile_of
from soc.jit.profile_store import Name
from soc.jit.superblock import Superblock, content, superblock_from
from soc.jit.translation import Batch, Translation, translation
from soc.prelude.decoded import UNDECODED
from soc.prelude.records import SUPERBLOCKS

PAUSE = 0.01
"""Seconds after which to ask again for what is being translated."""
MOST_PAUSES = 50
"""How much longer than it takes to ask the pause is, at least."""
FREE_CHOICES = 0.05
"""Seconds for which a run may choose what to translate before pauses are for that, too."""
MOST_CHOICES = 50
"""How much longer than it takes beyond that the run is: a large program has much to choose from."""
AROUND = 16
"""How much less hot than what is worth a translation may be what is around it, to be worth one."""
BATCH = 64
"""Superblocks that a process translates, the hottest ones: then it is seen which these are."""

Begin = tuple[int, int]
"""With which row a superblock begins, and how."""


class Hot(NamedTuple):
    """What is interpreted: how many times up to now, and where it begins."""

    times: int
    begin: Begin


class Translator:
    """Translates the hot superblocks of a simulation.

    kind           of the steps that they consist of, see superblock_kind
    cache          of machine code and profiles
    choosing       seconds that it has taken to choose what to translate
    superblocks    that were found since decoded rows have changed
    remembered     of those that are waited for since then, and fit: need not be found again
    """

    def __init__(self, chip: Chip, code: CodeMemory, kind: str, cache: CodeCache):
        self.chip, self.code, self.kind = chip, code, kind
        self.cache, self.policy = cache, cache.policy
        self.hot_code = chip.hot_code[0]
        self.hot_code["poll_threshold"] = self.policy.poll_threshold
        self.now, self.count = chip.wheel["now"].data, chip.hot_code["translations"].data
        self.decoded = chip.code.view(WHOLE_ROW)
        self.name: Name | None = None
        self.profile: Profile | None = None
        self.batch: Batch | None = None
        self.is_new = False
        self.changes = -1
        self.next_poll = 0  # cycle
        self.next_wait = self.next_choice = self.choosing = 0.0  # s
        self.began = monotonic()
        self.superblocks: dict[Begin, tuple[Superblock, Translation]] = {}
        self.remembered: set[Begin] = set()
        self.waiting: list[Translation] = []
        self.used: list[Translation] = []

    def expect(self, pc: int) -> frozenset[str]:
        """Find the profile of the program that begins here; returns extensions that it comes to."""
        first = (pc - self.code.base) >> 1
        is_code = 0 <= first < len(self.code.halves)
        if is_code and self.policy.poll_threshold <= self.policy.compile_threshold:
            self.name = self.cache.profiles.name(self.kind, self.code, first)
            self.profile = self.cache.profiles.recall(self.name, self.cache.folder)
        return self.profile.extensions if self.profile else frozenset()

    def use(self, interpreter: Interpreter) -> None:
        """Let superblocks consist of the steps of this interpreter from now on.

        Machine code that runs before this one have used is loaded.
        """
        self.steps, self.extensions = steps_of_superblocks(interpreter), interpreter.extensions
        profile = self.profile
        self.is_new = profile is not None and profile.steps == self.cache.key(self.steps)
        if profile and self.is_new:
            self.batch = self.cache.batch(profile)
            self.code.expected = dict(profile.runs)

    def recall(self) -> None:
        """Apply the profile to newly decoded code."""
        if self.profile and self.is_new:
            self.is_new = False
            self.profile.apply(self.chip)
            if self.batch and self.batch.fits(self.decoded):
                self.waiting = [*self.batch.made, *self.batch.others]
                self._install(self.batch)
                self.next_wait = monotonic() + PAUSE
                return
            self.batch = None
            self.waiting += self.profile.translations
        self._use_what_is_there()

    def remember(self) -> None:
        """Let the program's next run have the profile of this one; to be called at its end."""
        if not (self.name and self.code.count):
            return
        now = (*self.used, *self.waiting)
        then = self.profile.translations if self.profile else ()
        is_same = len(now) == len(then) and all(map(is_, now, then))
        profile = profile_of(
            self.cache.key(self.steps),
            frozenset(self.extensions),
            self.code,
            now,
            self.batch if is_same else None,
        )
        self.cache.profiles.remember(self.name, profile)

    def poll(self, is_due: bool) -> None:
        """Use what is translated; to be called between two calls of run.

        is_due    something has become hot
        """
        is_due = is_due and self.now[0] >= self.next_poll and self._is_time(self.next_choice)
        if self.count[0] < len(self.used):  # decoded rows have changed
            self.waiting += self.used
            self.used = []
            self.next_wait = 0.0
        self._use_what_is_there()
        if is_due:
            self.next_poll = self.now[0] + self.policy.poll_interval
            started = monotonic()
            self._choose()
            self.choosing += monotonic() - started
            self.next_choice = self.began + MOST_CHOICES * (self.choosing - FREE_CHOICES)
            self._use_what_is_there()

    def _is_time(self, when: float) -> bool:
        """Has this time come? Who waits for translations does not wait for it."""
        return self.policy.waits or monotonic() >= when

    def _use_what_is_there(self) -> None:
        """Install what is translated by now, and made of what is decoded now."""
        if not (self.waiting and self._is_time(self.next_wait)):
            return
        started = monotonic()
        kinds = self.chip.code["kind"]
        there = self.cache.loaded.there(self.waiting)
        decoded = [each for each in there if kinds[each.row] != UNDECODED]
        if decoded:
            most = SUPERBLOCKS - self.count[0]
            self._install(self.cache.loaded.batch(decoded, self.decoded, most))
        now = monotonic()
        self.next_wait = now + max(PAUSE, MOST_PAUSES * (now - started))

    def _choose(self) -> None:
        """Choose what is worth a translation."""
        if self.hot_code["changes"] != self.changes:
            self.changes = int(self.hot_code["changes"])
            self.superblocks = {}
            fitting = (each for each in self.waiting if self.cache.loaded.fits(each, self.decoded))
            self.remembered = {(each.row, each.begins) for each in fitting}
        least = self._least_polled()
        hot = self._hot(min(least, self.policy.compile_threshold // AROUND))
        if not (self._is_worth(hot) or self._may_be_there()):
            return
        new = [each.begin for each in hot if each.times >= least]
        new = [begin for begin in new if begin not in self.remembered]
        self._wait_for(made for _, made in self._superblocks(new))
        if self.cache.is_translating():
            return
        chosen = list(islice(self._missing(hot), BATCH))
        self._wait_for(made for _, made in chosen)
        texts = {
            str(made.file): module_text(self.chip, superblock, f"pulpsim_{self.steps.kind}")
            for superblock, made in chosen
        }
        if texts:
            self.cache.translate(self.steps.name, texts)

    def _least_polled(self) -> int:
        """How often at least what is looked for was interpreted: others may have translated it."""
        return self.policy.poll_threshold - self.policy.poll_threshold // 8

    def _may_be_there(self) -> bool:
        """May anything of this program have been translated that is not in use?"""
        is_known = self.waiting or self.count[0]
        return bool(is_known) or self.cache.loaded.has_others(self.cache.folder)

    def _is_worth(self, hot: list[Hot]) -> bool:
        """Is the hottest worth a translation, whatever is translated already?"""
        return bool(hot) and hot[0].times >= self.policy.compile_threshold

    def _missing(self, hot: list[Hot]) -> Iterator[tuple[Superblock, Translation]]:
        """What is so hot that it is worth a translation, and not translated; the hottest first."""
        threshold = self.policy.compile_threshold
        if self.count[0] or self._is_worth(hot):
            threshold //= AROUND
        there = {(each.row, each.begins) for each in self.cache.loaded.there(self.waiting)}
        worth = [each.begin for each in hot if each.times >= threshold]
        missing = [begin for begin in worth if begin not in there]
        for superblock, made in self._superblocks(missing):
            if not self.cache.loaded.there([made]):
                yield superblock, made

    def _wait_for(self, found: Iterable[Translation]) -> None:
        """Wait for the machine code of these: others may translate it, too."""
        codes = self.chip.superblocks["code"]
        missing = [made for made in found if not codes[made.row, made.begins]]
        new = {(made.row, made.begins): made for made in missing}
        waiting = {(each.row, each.begins): each for each in self.waiting}
        if not new.keys() <= waiting.keys():
            self.next_wait = 0.0
        others = [each for begin, each in waiting.items() if begin not in new]
        self.waiting = [*new.values(), *others]

    def _superblocks(self, begins: list[Begin]) -> Iterator[tuple[Superblock, Translation]]:
        """The superblocks that begin so, and those that begin where these pause."""
        waiting, seen = list(begins), set(begins)
        for begin in waiting:
            if begin not in self.superblocks:
                superblock = superblock_from(self.chip, *begin)
                if superblock is None:
                    continue
                known = self.cache.key(self.steps).encode() + content(self.chip, superblock)
                made = translation(self.chip, superblock, self.cache.file(known))
                self.superblocks[begin] = superblock, made
            superblock = self.superblocks[begin][0]
            next_begin = superblock.places[-1].row, ISSUE
            if superblock.pauses and next_begin not in seen:
                seen.add(next_begin)
                waiting.append(next_begin)
            if len(superblock.places) > 1:
                yield self.superblocks[begin]

    def _hot(self, least: int) -> list[Hot]:
        """What is interpreted, so many times up to now; the hottest first."""
        found: list[Hot] = []
        for first, end in self.code.spans:
            counts, codes = (self.chip.superblocks[name][first:end] for name in ("hotness", "code"))
            rows, begins = np.nonzero(counts >= least)
            is_decoded = self.chip.code["kind"][first:end][rows] != UNDECODED
            is_interpreted = is_decoded & (codes[rows, begins] == 0)
            rows, begins = rows[is_interpreted], begins[is_interpreted]
            beginning = zip((rows + first).tolist(), begins.tolist(), strict=True)
            found += map(Hot, counts[rows, begins].tolist(), beginning)
        return sorted(found, key=lambda each: (-each.times, each.begin))

    def _install(self, batch: Batch) -> None:
        """Use machine code from now on."""
        installed = frozenset(map(id, batch.made))
        self.waiting = [each for each in self.waiting if id(each) not in installed]
        if not batch.made:
            return
        first = self.count[0]
        self.chip.superblocks["code"][batch.rows, batch.begins] = batch.codes
        self.chip.superblocks["is_part"][batch.parts] = 1
        self.hot_code["translated"][first : first + len(batch.made)] = batch.rows
        self.count[0] = first + len(batch.made)
        self.used += batch.made
