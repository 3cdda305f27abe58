"""What a run will do: windows of events, which scouts find out ahead of it, each kept once."""

from collections.abc import Callable

from soc.debug.lookahead import EVERYTHING, Scout, Wanted, Window
from soc.prelude.wheel import NEVER
from soc.result import Exit

SHORTEST, LONGEST = 1 << 10, 1 << 20
"""Cycles of a window: as long as there is nothing in it, the next one is longer."""
LONGEST_OF_ALL = 1 << 14
"""Of a window with everything that happens."""

GROWTH = 4


class Windows:
    """The windows from where a run is.

    scout_at    makes a scout at a cycle
    """

    def __init__(self, scout_at: Callable[[int], Scout]):
        self._scout_at = scout_at
        self._scouts: dict[Wanted, Scout] = {}
        self._kept: dict[Wanted, Window] = {}

    def forget(self) -> None:
        """The run has changed."""
        self._scouts.clear()
        self._kept.clear()

    def keep(self, window: Window, wanted: Wanted) -> None:
        """Keep a window that has been looked at; of each kind one."""
        self._kept[wanted] = window

    def known(self, start: int, end: int, wanted: Wanted) -> Window | None:
        """The window that is kept, if it has these cycles."""
        window = self._kept.get(wanted)
        return window if window and window.start <= start and end <= window.end else None

    def window(
        self, cycle: int, wanted: Wanted, longest: int = NEVER, until: int = 0
    ) -> tuple[Window, Exit | None]:
        """The window that a cycle is in; and how the program ends, if it does so there.

        longest    cycles of a new one
        until      the cycle to which it goes, at least
        """
        window, end = self._kept.get(wanted), None
        if window is None or not window.start <= cycle < window.end:
            window, end = self._next(cycle, wanted, longest)
        elif window.end < until:
            window, end = self._extended(window, wanted, until)
        if not (end and end.reason == "interrupted"):
            self.keep(window, wanted)
        return window, end

    def _next(self, cycle: int, wanted: Wanted, longest: int) -> tuple[Window, Exit | None]:
        """A new window, longer than the last one if that was empty."""
        before, scout = self._kept.get(wanted), self._scouts.pop(wanted, None)
        if scout is None or scout.end is not None or scout.cycle != cycle:
            self._forget_others()
            scout, before = self._scout_at(cycle), None
        self._scouts[wanted] = scout
        return scout.look(cycle + min(self._length(before, wanted), longest), wanted)

    def _extended(self, window: Window, wanted: Wanted, until: int) -> tuple[Window, Exit | None]:
        """A window with what comes after it."""
        scout = self._scouts.get(wanted)
        if scout is None or scout.end is not None or scout.cycle != window.end:
            scout = self._scouts[wanted] = self._scout_at(window.end)
        more, end = scout.look(until, wanted)
        return window.joined(more), end

    def _length(self, before: Window | None, wanted: Wanted) -> int:
        """Cycles of the window after this one."""
        longest = LONGEST_OF_ALL if wanted == EVERYTHING else LONGEST
        if before is None or (wanted != EVERYTHING and before.events.size):
            return SHORTEST
        return min(GROWTH * (before.end - before.start), longest)

    def _forget_others(self) -> None:
        """Keep no more scouts than two, this one among them."""
        while len(self._scouts) > 1:
            del self._scouts[next(iter(self._scouts))]
        while len(self._kept) > 2:
            del self._kept[next(iter(self._kept))]
