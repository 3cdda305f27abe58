"""The thread in which the simulation runs, so that the screen answers at once.

Only this thread touches the source. The screen gives it wishes, functions of the player, and gets
frames; between two wishes at most a slice of time passes, or one way back.
"""

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event, Thread
from time import perf_counter

from pulpsim.tui.frame import Frame, Look, Registers, frame
from pulpsim.tui.player import SLICE, Player

Wish = Callable[[Player], None]

PERIOD = 0.1
"""Seconds between frames while it runs, at least."""

SHARE = 4
"""Between two frames it runs so many times as long as a frame takes, at least."""


class Worker(Thread):
    """Runs a player and publishes frames.

    get_ready   makes the player, which may take its time
    on_frame    called in this thread with each frame
    on_error    called in this thread with what has ended it
    """

    def __init__(
        self,
        get_ready: Callable[[], Player],
        on_frame: Callable[[Frame], None],
        on_error: Callable[[BaseException], None],
    ):
        super().__init__(name="live view", daemon=True)
        self.player: Player
        self.look = Look()
        self._get_ready = get_ready
        self._on_frame, self._on_error = on_frame, on_error
        self._wishes: SimpleQueue[Wish] = SimpleQueue()
        self._registers = Registers()
        self._is_closed = Event()
        self._answered = 0
        self._due = 0.0

    def do(self, wish: Wish) -> None:
        """Have something done with the player; a ValueError becomes its message."""
        self._wishes.put(wish)

    def see(self, look: Look) -> None:
        """Have this shown from now on."""
        self.do(lambda player: setattr(self, "look", look))

    def close(self) -> None:
        """End; returns when the source is no longer touched."""
        self._is_closed.set()
        self.do(lambda player: None)
        if self.is_alive():
            self.join()

    def run(self) -> None:
        try:
            self.player = self._get_ready()
            self._publish()
            while not self._is_closed.is_set():
                self._turn()
        except BaseException as error:
            self._on_error(error)

    def _turn(self) -> None:
        """Fulfil what is wished, run for a slice, show it."""
        has_obeyed = self._obey()
        if self._is_closed.is_set():
            return
        was_running = self.player.is_running
        if was_running:
            self.player.go_on()
        has_stopped = was_running and not self.player.is_running
        if has_obeyed or has_stopped or was_running and perf_counter() >= self._due:
            self._publish()

    def _obey(self) -> bool:
        """Fulfil what is wished; if nothing runs, wait until something is."""
        is_idle = not self.player.is_running
        seconds = None if is_idle else SLICE if self.player.rate else 0.0
        count = 0
        try:
            wish = self._wishes.get(timeout=seconds) if seconds != 0.0 else self._wishes.get(False)
            while True:
                count += 1
                try:
                    wish(self.player)
                except ValueError as error:
                    self.player.message = str(error)
                wish = self._wishes.get(block=False)
        except Empty:
            pass
        self._answered += count
        return count > 0

    def _publish(self) -> None:
        """Show what is known at once, and then exactly, unless something else is wished first."""
        player, started = self.player, perf_counter()
        edges = player.edges(self.look.columns)
        is_exact = player.is_running or player.source.refine(edges, lambda: False)
        self._on_frame(frame(player, self.look, self._registers, self._answered, is_exact))
        now = perf_counter()
        self._due = now + max(PERIOD, SHARE * (now - started))
        if not is_exact and player.source.refine(edges, self._wishes.empty):
            self._on_frame(frame(player, self.look, self._registers, self._answered, True))
