"""Keys and their actions, on the clock or on the screen."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pulpsim.tui.player import Player

Act = Callable[[Player, int], None]
"""What is done with a player, on a screen with so many columns of time."""


class Key(NamedTuple):
    """Something that a person can do.

    keys      as Textual names them, with commas
    shown     as people name them
    name      of the screen's action, or of what is done with the player
    hint      one word for the footer; "" where there is none
    help      the same at length
    act       what is done with the player; None if the screen does it
    """

    keys: str
    shown: str
    name: str
    hint: str
    help: str
    act: Act | None = None


def _column(player: Player, columns: int) -> int:
    """Cycles of a column."""
    return int(np.diff(player.edges(columns))[0])


KEYS = (
    Key("space", "space", "run", "Run", "run, pause", lambda p, n: p.toggle()),
    Key("full_stop,right", "→  .", "on", "Cycle", "a cycle on", lambda p, n: p.step(1)),
    Key("left,comma", "←  ,", "back", "", "a cycle back", lambda p, n: p.step(-1)),
    Key(
        *("i", "i", "instruction", "Instr", "the selected hart's next instruction"),
        lambda p, n: p.step_instruction(),
    ),
    Key(
        *("n", "n", "barrier", "Barrier", "run to where a barrier is complete"),
        lambda p, n: p.start(to_barrier=True),
    ),
    Key("g", "g", "ask_cycle", "Go", "go to any cycle: 12,345"),
    Key("b", "b", "ask_stop", "Break", "set or remove a breakpoint: a function, or an address"),
    Key("slash", "/", "ask_text", "Find", "find a text in the panel; again with F3, Shift+F3"),
    Key("tab", "tab", "next_panel(1)", "Panel", "the next panel; Shift+Tab the one before"),
    Key("question_mark,f1,h", "?  F1", "help", "Help", "this page"),
    Key("q,ctrl+c,ctrl+d", "q  ^C", "leave", "Quit", "leave, with the report"),
    Key(
        *("pagedown", "page ↓", "column_on", "", "a column of the time line on"),
        lambda p, n: p.step(_column(p, n)),
    ),
    Key(
        *("pageup", "page ↑", "column_back", "", "a column of the time line back"),
        lambda p, n: p.step(-_column(p, n)),
    ),
    Key("home", "home", "first", "", "the first cycle", lambda p, n: p.go_to(0)),
    Key("end", "end", "last", "", "the last cycle that is known", lambda p, n: p.go_to_latest()),
    Key("up", "↑", "hart_up", "", "the hart above", lambda p, n: p.select(p.selected - 1)),
    Key("down", "↓", "hart_down", "", "the hart below", lambda p, n: p.select(p.selected + 1)),
    Key(
        *(
            "plus,equals_sign",
            "+",
            "closer",
            "",
            "fewer cycles a column, down to one; Shift+← → other cycles",
        ),
        lambda p, n: p.change_zoom(0.5, n),
    ),
    Key(
        *("minus", "-", "farther", "", "more cycles a column"),
        lambda p, n: p.change_zoom(2, n),
    ),
    Key("f", "f", "fit", "", "the whole run", lambda p, n: p.change_zoom(0, n)),
    Key(
        *("less_than_sign", "<", "slower", "", "slower: down to one cycle a second"),
        lambda p, n: p.change_rate(-1),
    ),
    Key(
        *("greater_than_sign", ">", "faster", "", "faster, up to no limit"),
        lambda p, n: p.change_rate(1),
    ),
    Key("m", "m", "ask_memory", "", "show memory at an address or a name"),
    Key("v", "v", "next_format", "", "words as hex, decimal, float32 or two float16"),
    Key("j,shift+down", "j", "scroll(1)", "", "scroll the panel down; J by a page"),
    Key("k,shift+up", "k", "scroll(-1)", "", "scroll the panel up; K by a page"),
    Key("t", "t", "other_ground", "", "a light ground, or a dark one"),
)

MORE = {
    "shift+right": "wish('later')",
    "shift+left": "wish('earlier')",
    "J": "scroll_page(1)",
    "K": "scroll_page(-1)",
    "shift+tab": "next_panel(-1)",
    "f3": "find_next(1)",
    "shift+f3": "find_next(-1)",
    "escape": "escape",
}
"""Further keys, named with those above."""

ACTS: dict[str, Act] = {key.name: key.act for key in KEYS if key.act}
ACTS["later"] = lambda p, n: p.pan(n, 0.25)
ACTS["earlier"] = lambda p, n: p.pan(n, -0.25)
