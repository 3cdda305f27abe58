"""A picture of the live view, as the README has it.

python -m pulpsim.live.screenshot docs/live.svg
"""

import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from pulpsim.config import Options, load_run
from pulpsim.live.app import App
from pulpsim.live.run_source import RunSource
from soc.session import Session

EXAMPLE = Path(__file__).parents[2] / "examples" / "train.toml"
SIZE = 108, 34
CYCLE = 126_000
SEEN = 190_000
"""Cycles that the picture has run for, and the one to which it has gone back."""


def screenshot(file: Path) -> None:
    """Write the picture as SVG."""
    from trainlib.launch import KernelProgram

    ready = load_run(EXAMPLE, Options())
    assert isinstance(ready.program, KernelProgram)
    session = Session(ready.program.program, ready.chip)
    source = RunSource(session, "train_f32 on pulp", ready.program.regions)
    width, height = SIZE
    console = Console(
        file=StringIO(),
        record=True,
        width=width,
        height=height,
        force_terminal=True,
        color_system="truecolor",
    )
    while source.cycle < SEEN:
        source.run(1.0, SEEN)
    source.go_to(CYCLE)
    app = App(source, console, is_running=False)
    app.panel, app.selected = "code", 3
    console.print(app.picture())
    console.save_svg(str(file), title="pulpsim run examples/train.toml --tui")


if __name__ == "__main__":
    screenshot(Path(sys.argv[1]))
