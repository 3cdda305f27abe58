"""A picture of the live view, as the README has it.

python -m pulpsim.tui.screenshot docs/live.svg [--size 108x34] [--light] [--key KEY]...
"""

import argparse
import asyncio
import re
from pathlib import Path

from textual.pilot import Pilot

from pulpsim.cli.run_config import Options, load_run
from pulpsim.tui.player import Player
from pulpsim.tui.simulation_source import RunSource
from pulpsim.tui.view import LiveView
from soc.debug.session import Session

EXAMPLE = Path(__file__).parents[2] / "examples" / "train.toml"
SIZE = "108x34"
CYCLE = 126_000
SEEN = 190_000
"""Cycles that the picture has run for, and the one to which it has gone back."""

QUEUES = 8
"""More than a key passes through: the application, a widget, the widgets around it, the screen."""

REMOTE_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""What a picture would fetch from the network."""


def example() -> Player:
    """The training run of the examples, gone back to the middle."""
    from trainlib.launch import KernelProgram

    ready = load_run(EXAMPLE, Options())
    assert isinstance(ready.program, KernelProgram)
    session = Session(ready.program.program, ready.chip, on_console=lambda text: source.print(text))
    source = RunSource(session, "train_f32 on pulp")
    while source.cycle < SEEN:
        source.run(1.0, SEEN)
    source.go_to(CYCLE - 1)
    player = Player(source)
    player.select(3)
    return player


async def settled(view: LiveView, pilot: Pilot) -> None:
    """Wait until everything that is wished is shown."""
    while view.is_running and not view.failure:
        await pilot.pause(0.002)
        if view.is_settled:
            await pilot.pause(0.002)
            return


async def press(view: LiveView, pilot: Pilot, key: str) -> None:
    """Press a key, and wait until what it stands for is shown.

    The key passes from the application to the widget in focus and up through its parents, each
    with a queue of its own: a pause for each of these queues, before anything can be expected.
    """
    view.simulate_key(key)
    for _ in range(QUEUES):
        await pilot.pause(0)
    await settled(view, pilot)


async def _picture(player: Player, size: tuple[int, int], theme: str, keys: list[str]) -> str:
    view = LiveView(lambda: player)
    async with view.run_test(size=size) as pilot:
        view.theme = theme
        await settled(view, pilot)
        for key in ["full_stop", *keys]:
            await press(view, pilot, key)
        drawn = view.export_screenshot(title="pulpsim run examples/train.toml --tui")
    view.worker.close()
    return REMOTE_FONTS.sub("", drawn)


def screenshot(
    file: Path, size: str = SIZE, light: bool = False, keys: tuple[str, ...] = ()
) -> None:
    """Write the picture as SVG, after some keys."""
    width, height = map(int, size.split("x"))
    theme = "textual-light" if light else "textual-dark"
    picture = asyncio.run(_picture(example(), (width, height), theme, list(keys)))
    file.write_text(picture, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="A picture of the live view, as SVG.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", default=SIZE, metavar="COLUMNSxLINES")
    parser.add_argument("--light", action="store_true")
    parser.add_argument("--key", action="append", default=[], help="as Textual names it")
    chosen = parser.parse_args()
    screenshot(chosen.file, chosen.size, chosen.light, tuple(chosen.key))


if __name__ == "__main__":
    main()
