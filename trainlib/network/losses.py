"""Losses that a program has kept, printed at its end."""

from firmware.builder import Kernel
from firmware.console import Console
from firmware.runtime import Team
from trainlib.primitive.tensor import WORD
from trainlib.tiling.warm_up import repeated


def emit_print(k: Kernel, team: Team, losses: int, count: int, what: str) -> None:
    """Print words in L2, with what they are of and their number: "step 1: loss 1.23e-01"."""
    console = Console(k)
    with team.only(0), k.scope():
        number, place, value = k.saved(3)
        k.li(place, losses)
        k.li(number, 1)
        with repeated(k, count):
            console.text(f"{what} ")
            console.number(number)
            console.text(": loss ")
            k.lw(value, 0, place)
            console.float(value)
            console.text("\n")
            k.addi(place, place, WORD)
            k.addi(number, number, 1)
