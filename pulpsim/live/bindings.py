"""What each key does."""

from collections.abc import Callable

import numpy as np

from pulpsim.live.app import App

ACTIONS: dict[str, Callable[[App], None]] = {
    "space": lambda app: app.start(),
    ".": lambda app: app.step(1),
    "right": lambda app: app.step(1),
    "left": lambda app: app.step(-1),
    ",": lambda app: app.step(-1),
    "page down": lambda app: app.step(int(np.diff(app.edges())[0])),
    "page up": lambda app: app.step(-int(np.diff(app.edges())[0])),
    "home": lambda app: app.go_to(0),
    "end": lambda app: app.go_to_latest(),
    "i": lambda app: app.step_instruction(),
    "n": lambda app: app.start(to_barrier=True),
    "g": lambda app: app.ask_cycle(),
    "b": lambda app: app.ask_breakpoint(),
    "m": lambda app: app.ask_memory(),
    "\t": lambda app: app.next_panel(),
    "up": lambda app: app.select(-1),
    "down": lambda app: app.select(1),
    "+": lambda app: app.change_zoom(0.5),
    "=": lambda app: app.change_zoom(0.5),
    "-": lambda app: app.change_zoom(2),
    "f": lambda app: app.change_zoom(0),
    "<": lambda app: app.change_rate(-1),
    ">": lambda app: app.change_rate(1),
    "q": lambda app: app.quit(),
}
WHILE_RUNNING = ("\t", "up", "down", "+", "=", "-", "f", "<", ">", "q")
"""Keys that do not let it pause."""


def press(app: App, key: str) -> None:
    """Do what a key stands for."""
    if key == "quit":
        app.quit()
    elif app.prompt:
        app.type(key)
    elif key in ACTIONS:
        if app.is_running and key not in WHILE_RUNNING:
            app.pause("")
            if key == "space":
                return
        ACTIONS[key](app)
