"""A debugger's place in a run: moves between hits, step by step of a hart, forward and back.

All harts move together, as the chip's clock has it: whoever steps one of them lets the others run
for as long. A hit of theirs on the way stops the step, unless the hart was to step alone: that is
how a debugger gets past a breakpoint which others may come to in the same cycle. What is missed so
is made up for by the next move, which goes back to it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from soc.debug.hits import Hit, Phase, Position
from soc.debug.lookahead import EVERYTHING, Window
from soc.debug.session import Session
from soc.debug.view import View

PATIENCE = 64
"""Cycles that a hart which steps alone may take for an instruction; then it counts as done."""


class Step(NamedTuple):
    """One hart is to issue instructions until it leaves an address range; one at least."""

    hart: int
    first: int = 0
    end: int = 0


class Moved(NamedTuple):
    """Why a move ended.

    reason    "hit", "step", "end" of the program, "start" of the run, "interrupted"
    hit       of a step: that from which it has gone past an access of the DMA
    """

    reason: str
    hart: int | None = None
    hit: Hit | None = None


class Cursor:
    """A session's place.

    after      hits after this are ahead
    before     hits before this lie back
    is_told    polls for an interrupt by the debugger
    """

    def __init__(self, session: Session, is_told: Callable[[], bool] = lambda: False):
        self.session, self.is_told = session, is_told
        self.settle(Position(session.cycle))

    def settle(self, place: Position) -> None:
        """Be at a place without a hit."""
        self.after = self.before = place
        self._passed: Position | None = None  # by a hart that has stepped alone
        self._has_stepped_back = False
        self._stepped: int | None = None
        self._copied: Hit | None = None
        self._view: View | None = None

    @property
    def view(self) -> View:
        """What is to be seen here."""
        if self._view is None or self._view.cycle != self.session.cycle:
            self._view = View(self.session)
        return self._view

    def changed(self) -> None:
        """Something was edited here."""
        self._view = None

    def pc(self, h: int) -> int:
        """Where a hart stands; one that has stepped alone is past its instruction."""
        return int(self.session.chip.harts["pc"][h]) if h == self._stepped else self.view.pc(h)

    def go_to(self, cycle: int) -> None:
        """Be at the start of a cycle."""
        self.session.go_to(cycle)
        self.settle(Position(self.session.cycle))

    def run(self, step: Step | None = None, harts: frozenset[int] | None = None) -> Moved:
        """Go on to the next hit, the program's end, or where a hart has made its step.

        harts    whose hits count; None: all
        """
        missed = self._missed(harts)
        if missed:
            return missed
        session, left = self.session, self._to_issue(step)
        while session.end is None:
            begin = session.cycle
            if not (step or session.breakpoints or session.watchpoints):
                session.advance(1 << 62)
            else:
                window = session.window(EVERYTHING if step else session.stops.wanted)
                stepped = self._step_end(window, step, left) if step else None
                hit = session.stops.first(window, self.after, harts)
                if hit and (stepped is None or hit.position < (stepped, Phase.ISSUE)):
                    return self._at(hit)
                session.go_to(window.end if stepped is None else stepped)
                if stepped is not None and session.end is None:
                    return self._done(step)
                left = self._left(window, begin, step, left)
            if session.end is None and self.is_told():
                self.settle(Position(session.cycle))
                return Moved("interrupted")
        self.settle(Position(session.cycle, Phase.OVER))
        return Moved("end")

    def step_alone(self, step: Step) -> Moved:
        """Let a hart do one instruction, its access included, whatever the others come to."""
        session, passed = self.session, None if self._passed else self.after
        if self._copied and self._copied.position.hart == step.hart:
            return self._past_copy(self._copied, self._copied.position.cycle, passed)
        issued: int | None = session.cycle - 1
        if self._to_issue(step):
            issued = self._next_issue(step.hart)
        if issued is None:
            self.settle(Position(session.cycle))
            return Moved("interrupted" if session.end is None else "end")
        end = issued + PATIENCE
        window = session.window(EVERYTHING, until=end)
        cycles = np.concatenate([window.issues(step.hart)[0], window.accesses(step.hart)])
        cycles = cycles[(issued < cycles) & (cycles < end)]
        session.go_to(int(cycles.min()) if cycles.size else max(session.cycle, issued + 1))
        moved = self._done(step)
        if not cycles.size:
            self._stepped = step.hart
        self._passed = passed
        return moved if session.end is None else Moved("end")

    def _next_issue(self, h: int) -> int | None:
        """The cycle of a hart's next issue, to whose window the run goes; None: there is none."""
        session = self.session
        while session.end is None and not self.is_told():
            window = session.window(EVERYTHING)
            cycles = window.issues(h)[0]
            cycles = cycles[cycles >= session.cycle]
            if cycles.size:
                return int(cycles[0])
            session.go_to(window.end)
        return None

    def run_back(self) -> Moved:
        """Go back to the last hit, or the start. An access that is watched has taken place then."""
        passed = self._passed if self._has_stepped_back else None
        for hit in self.session.search_back(passed or self.before):
            if hit:
                return self._at(hit, is_done=True)
            if self.is_told():
                return Moved("interrupted")
        self.go_to(0)
        return Moved("start")

    def step_back(self, h: int) -> Moved:
        """Go back to where a hart is about to issue what it has done last."""
        session, passed = self.session, None if self._passed else self.before
        if self._copied and self._copied.position.hart == h:
            return self._past_copy(self._copied, self._copied.position.cycle - 1, passed)
        is_under_way = h != self._stepped and session.end is None and self.view.is_under_way(h)
        cycles = session.last_issues(h, session.cycle, 1 + is_under_way)
        if len(cycles) <= is_under_way:
            self.go_to(0)
            return Moved("start")
        session.go_to(cycles[is_under_way])
        moved = self._done(Step(h))
        self._passed, self._has_stepped_back = passed, True
        return moved

    def _at(self, hit: Hit, is_done: bool = False) -> Moved:
        """Be at a hit: before an access takes place, unless that is_done."""
        is_before = hit.watchpoint is not None and not is_done
        self.session.go_to(hit.position.cycle - is_before)
        self.settle(hit.position)
        self._copied = hit if hit.position.phase == Phase.COPY else None
        return Moved("hit", hit.position.hart, hit)

    def _past_copy(self, hit: Hit, cycle: int, passed: Position | None) -> Moved:
        """Be where the DMA has accessed a word, or, going back, has not: no hart has to step."""
        session = self.session
        session.window(EVERYTHING, until=hit.position.cycle + 1)
        session.go_to(cycle)
        moved = self._done(Step(hit.position.hart))
        self._passed, self._has_stepped_back = passed, cycle < hit.position.cycle
        return moved._replace(hit=hit)

    def _done(self, step: Step | None) -> Moved:
        """Be where a hart has made its step: hits of the others in this cycle are ahead."""
        self.settle(Position(self.session.cycle, Phase.ISSUE))
        return Moved("step", step.hart if step else None)

    def _missed(self, harts: frozenset[int] | None) -> Moved | None:
        """What others have come to while a hart stepped alone, if that was for a moment.

        harts    whose hits count; None: all
        """
        passed, session = None if self._has_stepped_back else self._passed, self.session
        self._passed = None
        if passed is None or not (session.breakpoints or session.watchpoints):
            return None
        window = session.known_window(passed.cycle, session.cycle)
        hit = session.stops.first(window, passed, harts) if window else None
        if hit and hit.position < self.after:
            return self._at(hit)
        return None

    def _to_issue(self, step: Step | None) -> int:
        """Instructions that a hart still has to issue of those that it is to step over: 0 or 1."""
        if step is None or step.hart == self._stepped:
            return int(step is not None)
        return int(not self.view.is_under_way(step.hart))

    def _step_end(self, window: Window, step: Step, left: int) -> int | None:
        """The cycle in a window in which a hart is about to issue what is past its step."""
        cycles, pcs = window.issues(step.hart)
        is_ahead = cycles >= self.session.cycle
        cycles, pcs = cycles[is_ahead][left:], pcs[is_ahead][left:]
        outside = (pcs < step.first) | (pcs >= step.end)
        return int(cycles[outside][0]) if outside.any() else None

    def _left(self, window: Window, begin: int, step: Step | None, left: int) -> int:
        """What is left to issue at the end of a window that the run has entered in a cycle."""
        return 0 if step is None or (window.issues(step.hart)[0] >= begin).any() else left
