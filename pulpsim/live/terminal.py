"""The live view at work: keys in, pictures out, and the source's clock between them."""

from time import perf_counter

from rich.live import Live

from pulpsim.live.app import SLICE, App
from pulpsim.live.bindings import press
from pulpsim.live.keys import raw_keys

FRAME = 0.1
"""Seconds between pictures while it runs, at least."""

PICTURE_SHARE = 4
"""Between two pictures it runs so many times as long as a picture takes, at least."""

IDLE = 0.25
"""Seconds between looks at the size of the terminal."""


def show(app: App) -> None:
    """Let a view have the terminal until the person leaves it."""
    live = Live(
        console=app.console,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with raw_keys() as keys, live:
        app.show = lambda: live.update(app.picture(), refresh=True)
        due, size, is_fresh = 0.0, app.console.size, False
        while not app.has_quit:
            if app.is_running:
                app.go_on()
                is_fresh = is_fresh and app.is_running and perf_counter() < due
            key = keys.get(_wait(app, is_fresh))
            if key:
                press(app, key)
            if key or not is_fresh or size != app.console.size:
                started, size, is_fresh = perf_counter(), app.console.size, True
                app.show()
                now = perf_counter()
                due = now + max(FRAME, PICTURE_SHARE * (now - started))


def _wait(app: App, is_fresh: bool) -> float:
    """Seconds to wait for a key: none if there is a picture to draw."""
    if not is_fresh:
        return 0.0
    return (SLICE if app.rate else 0.0) if app.is_running else IDLE
