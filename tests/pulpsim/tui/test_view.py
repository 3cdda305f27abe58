"""The live view's screen, by Textual's pilot: keys, mouse, prompt, panels, both grounds."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path
from threading import Event, current_thread

import pytest

pytest.importorskip("textual")

from textual.widgets import Input

from isa.program import Program
from pulpsim.tui.canvas import PATIENCE
from pulpsim.tui.keys import KEYS
from pulpsim.tui.palette import DARK, LIGHT
from pulpsim.tui.player import Player
from pulpsim.tui.screenshot import press, settled
from pulpsim.tui.source import Source
from pulpsim.tui.trace_source import TraceSource
from pulpsim.tui.view import LiveView
from tests.pulpsim.tui.person import live

ROOT = Path(__file__).parents[3]


class Watching:
    """A view on a screen that nobody sees."""

    def __init__(self, source: Source, size: tuple[int, int] = (100, 30), cycle: int = 0):
        self.player = Player(source)
        self.player.go_to(cycle)
        while self.player.is_running:
            self.player.go_on()
        self.view = LiveView(lambda: self.player)
        self.size = size

    async def __aenter__(self) -> "Watching":
        self._running = self.view.run_test(size=self.size)
        self.pilot = await self._running.__aenter__()
        await self.settle()
        return self

    async def __aexit__(self, *how: object) -> None:
        await self._running.__aexit__(*how)
        self.view.worker.close()
        assert self.view.failure is None

    async def settle(self) -> None:
        await settled(self.view, self.pilot)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await press(self.view, self.pilot, key)

    async def type(self, key: str, text: str) -> None:
        await self.press(key)
        self.view.prompt.input.value = text
        await self.press("enter")

    @property
    def screen(self) -> str:
        """The characters that are seen."""
        width, height = self.size
        strips = self.view.screen._compositor.render_strips()
        lines = ["".join(segment.text for segment in strip) for strip in strips]
        assert len(lines) == height
        assert all(len(line) <= width for line in lines)
        return "\n".join(lines)

    @property
    def message(self) -> str:
        return str(self.view.prompt.label.content).strip()


def shown(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that waits for the screen, in an event loop of its own."""

    @wraps(test)
    def run(*arguments: object, **named: object) -> None:
        asyncio.run(test(*arguments, **named))  # type: ignore[arg-type]

    return run


@shown
async def test_keys_move_the_clock_and_the_selection(hello: Program) -> None:
    async with Watching(live(hello)) as at:
        await at.press("space")
        last = at.player.source.latest
        assert "■ ended" in at.screen
        assert at.message == at.player.source.end
        await at.press("left", "comma", "right")
        assert at.view.frame.cycle == last - 1
        await at.press("home")
        assert "cycle 0 " in at.screen
        await at.press("end", "pageup")
        assert 0 < at.view.frame.cycle < last
        await at.press("down", "down")
        assert at.view.frame.selected == 2
        assert "▶core2" in at.screen
        await at.press("up", "f", "plus", "less_than_sign")
        assert "limit 10.0M cycles/s" in at.screen
        await at.press("greater_than_sign", "n")
        assert at.player.source.latest == last


@shown
async def test_what_is_asked_for_is_typed(hello: Program) -> None:
    async with Watching(live(hello)) as at:
        await at.type("b", "core")
        await at.press("space")
        assert at.message.startswith("breakpoint: core0")
        assert "Stops 1" in at.screen
        await at.type("g", "1,2")
        assert at.view.frame.cycle == 12
        await at.type("g", "soon")
        assert at.message == "'soon' is no cycle: a number as 12,345"
        await at.type("b", "nowhere")
        assert "'nowhere' is no name in the program" in at.message
        await at.type("m", "0x1g")
        assert "'0x1g' is no name in the program" in at.message
        await at.press("b")
        await at.pilot.press("q", "tab", "q")
        assert at.view.prompt.input.value == "qq"
        await at.press("escape")
        assert not at.view.prompt.is_open
        await at.type("b", "*")
        assert not at.player.source.breakpoints


@shown
async def test_each_panel_shows_what_it_says(hello: Program) -> None:
    source = live(hello)
    async with Watching(source, cycle=200) as at:
        await at.press("space")
        assert "1c0100bc  j sleep" in at.screen
        await at.press("tab")
        assert f"sp {source.registers(0)['sp']:08x}" in at.screen
        await at.type("m", "core")
        word = hello.bytes_at(hello.symbol("core").address, 4)[::-1].hex()
        assert f"{hello.symbol('core').address:08x}  {word}" in at.screen
        await at.press("j")
        assert at.view.address == hello.symbol("core").address + 16
        await at.press("v", "v")
        assert at.view.forms["memory"] == "float"
        await at.type("m", "0x20000000")
        assert "are not in L1" in at.screen
        await at.press("tab")
        assert "the program has entered none yet" in at.screen
        await at.press("tab")
        assert "conflicts a cycle" in at.screen
        await at.press("tab")
        assert source.console.split("\n")[0] in at.screen
        await at.press("tab", "tab", "shift+tab")
        assert "none; b sets one" in at.screen


@shown
async def test_code_is_found_and_the_line_is_in_sight(program: Program) -> None:
    async with Watching(live(program)) as at:
        rows = at.view.listing.rows
        labels = [row.label for row in rows if row.label]
        await at.type("slash", labels[-1])
        await at.view.workers.wait_for_complete()
        await at.settle()
        first = at.view.lines.found
        assert labels[-1] in at.view.lines.page.line(first).plain
        assert first in at.view.lines.in_sight
        await at.press("f3")
        await at.view.workers.wait_for_complete()
        await at.settle()
        assert labels[-1] in at.view.lines.page.line(at.view.lines.found).plain
        await at.type("slash", "no such text")
        await at.view.workers.wait_for_complete()
        await at.settle()
        assert at.message == "'no such text' is not in this panel"
        at.view.show_function(labels[0])
        await at.settle()
        assert rows[at.view.lines.found].label == labels[0]


@shown
async def test_the_mouse_selects_goes_zooms_and_breaks(program: Program) -> None:
    async with Watching(live(program), cycle=1200) as at:
        left, edges = at.view.harts.left, at.view.frame.edges
        await at.pilot.click("#harts", offset=(3, 4))
        await at.settle()
        assert at.view.frame.selected == 4
        await at.pilot.click("#harts", offset=(left + 10, 2))
        await at.settle()
        assert at.view.frame.selected == 2
        assert edges[10] < at.view.frame.cycle <= edges[11]
        await at.pilot.hover("#harts", offset=(left + 10, 2))
        assert at.view.harts.tooltip.startswith(f"core2, cycles {edges[10]:,} .. ")
        await at.pilot.hover("#cluster", offset=(left + 10, 1))
        assert "beats of the DMA to L1 a cycle" in at.view.cluster.tooltip
        await at.pilot.click("#status", offset=(99, 1))
        await at.settle()
        assert at.view.frame.cycle == 1200
        row = at.view.lines.in_sight[2]
        await at.pilot.click("#panel", offset=(20, 2))
        await at.settle()
        assert at.player.source.breakpoints == {at.view.listing.rows[row].address}
        assert "●" in at.view.lines.page.line(row).plain
        await at.pilot.click("#panels", offset=(8, 0))
        await at.settle()
        assert at.view.panel == "registers"


@shown
async def test_every_size_is_filled_light_and_dark(program: Program) -> None:
    async with Watching(live(program), (80, 24), cycle=800) as at:
        grounds = set()
        for theme in ("textual-dark", "textual-light"):
            at.view.theme = theme
            for size in ((80, 24), (100, 30), (160, 50)):
                at.size = size
                await at.pilot.resize_terminal(*size)
                await at.settle()
                screen = at.screen
                assert "paused" in screen
                assert "q Quit" in screen
                assert len(at.view.frame.edges) - 1 == at.view.place.right
                assert ("L1 conflicts/cycle" in screen) == (size[1] >= 30)
                assert at.view.side.display == (size[0] >= 140)
            grounds.add(at.view.paint.colours)
        assert grounds == {DARK, LIGHT}
        await at.press("t")
        assert at.view.paint.colours is DARK


@shown
async def test_the_help_page_names_every_key(program: Program) -> None:
    async with Watching(live(program), (100, 60)) as at:
        await at.press("question_mark")
        screen = at.screen
        for key in KEYS:
            assert f"{key.shown} " in screen
        await at.press("escape")
        assert len(at.view.screen_stack) == 1


@shown
async def test_the_command_palette_knows_keys_and_functions(program: Program) -> None:
    async with Watching(live(program)) as at:
        await at.press("ctrl+p")
        at.view.screen.query_one(Input).value = "barrier is complete"
        for _ in range(100):
            await at.pilot.pause(0.02)
            if "Run to where a barrier is complete" in at.screen:
                break
        assert "Run to where a barrier is complete" in at.screen


@shown
async def test_the_simulation_runs_in_a_thread_and_keys_wait_for_nothing(program: Program) -> None:
    source, is_there, may_go_on = live(program), Event(), Event()
    threads, go_to = [], source.go_to

    def slow(cycle: int) -> None:
        threads.append(current_thread())
        is_there.set()
        assert may_go_on.wait(30)
        go_to(cycle)

    async with Watching(source, cycle=100) as at:
        source.go_to = slow  # type: ignore[method-assign]
        at.view.simulate_key("left")
        assert await asyncio.to_thread(is_there.wait, 30)
        at.view.simulate_key("tab")
        await at.pilot.pause(2 * PATIENCE)
        assert at.view.panel == "registers"
        assert "working" in at.screen
        may_go_on.set()
        await at.settle()
        assert at.view.frame.cycle == 99
        assert set(threads) == {at.view.worker}


@shown
async def test_a_recording_has_fewer_panels(trace: Path) -> None:
    async with Watching(TraceSource.open(trace), cycle=10**6) as at:
        assert "Code  Regions  Banks  Stops" in at.screen
        await at.press("m")
        assert at.message == "a recording has no registers and no memory"
        await at.press("space")
        assert at.message == "end of the recording; ← or home go back"
        await at.press("home", "space")
        assert at.view.frame.cycle == at.view.frame.latest


@shown
async def test_what_ends_the_worker_ends_the_view() -> None:
    def get_ready() -> Player:
        raise ValueError("no such thing")

    view = LiveView(get_ready)
    async with view.run_test() as pilot:
        await settled(view, pilot)
    assert str(view.failure) == "no such thing"
    view.worker.close()


def texts(picture: str) -> list[str]:
    """The characters of a picture, and none of how it is written."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture)


def test_the_picture_of_the_readme_can_be_made(tmp_path: Path) -> None:
    from pulpsim.tui.screenshot import screenshot

    screenshot(tmp_path / "live.svg")
    made = (tmp_path / "live.svg").read_text()
    kept = (ROOT / "docs" / "live.svg").read_text()
    assert texts(made) == texts(kept)
    assert "linear_2&#160;backward" in made
    assert "url(" not in made.replace("url(#", "")
    assert "docs/live.svg" in (ROOT / "README.md").read_text()
