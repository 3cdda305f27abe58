"""The live view: a simulation or a recording on a terminal, by Textual; keys and the mouse."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding, BindingType

from pulpsim.tui import panels
from pulpsim.tui.canvas import Canvas
from pulpsim.tui.formats import next_format
from pulpsim.tui.help_screen import HelpScreen
from pulpsim.tui.keys import ACTS, KEYS, MORE
from pulpsim.tui.painted import Lines
from pulpsim.tui.player import Player
from pulpsim.tui.search import Actions
from pulpsim.tui.time_line import PanelBar, Slider, TimeLine


def _bindings() -> list[BindingType]:
    found: list[BindingType] = []
    for key in KEYS:
        action = f"wish('{key.name}')" if key.act else key.name
        found.append(
            Binding(
                *(key.keys, action, key.hint or key.help),
                show=bool(key.hint),
                key_display=key.shown.split("  ")[0],
                priority=key.keys == "tab",
            )
        )
    found += [
        Binding(key, action, show=False, priority="tab" in key) for key, action in MORE.items()
    ]
    return [*found, Binding("ctrl+c", "leave", show=False, priority=True)]


class LiveView(Canvas):
    """The live view: it applies a person's actions to the worker and to what is shown."""

    COMMANDS = App.COMMANDS | {Actions}
    BINDINGS: ClassVar[list[BindingType]] = _bindings()

    def action_wish(self, name: str) -> None:
        """Have the player do what a key stands for."""
        if not self.prompt.is_open and self.place:
            columns = self.place.right
            self.do(lambda player: ACTS[name](player, columns))

    def action_leave(self) -> None:
        """Leave."""
        self.exit()

    def action_help(self) -> None:
        """Show the help page."""
        self.push_screen(HelpScreen(self.paint))

    def action_escape(self) -> None:
        """Ask no longer; mark nothing."""
        if self.prompt.is_open:
            self.prompt.close()
        self.lines.found = None
        self.redraw()

    def action_other_ground(self) -> None:
        """Light instead of dark, or the other way round."""
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_next_panel(self, by: int) -> None:
        """Another panel."""
        if self.frame and not self.prompt.is_open:
            names = panels.panel_names(self.frame)
            self.show_panel(names[(names.index(self.panel) + by) % len(names)])

    def show_panel(self, name: str) -> None:
        """This panel."""
        self.panel, self.lines.found = name, None
        self.lay_out_side()
        self.lines.page = panels.Page(0, lambda k: Text())
        self.lines.scroll_to(y=0, animate=False, immediate=True)
        self.redraw()
        self.see()
        self.call_after_refresh(self.see)

    def action_next_format(self) -> None:
        """Words in another format."""
        name = self.panel if self.panel in self.forms else "registers"
        self.forms[name] = next_format(self.forms[name])
        self.redraw()
        self.see()

    def action_scroll(self, by: int) -> None:
        """Scroll the panel by lines."""
        if self.panel == "memory":
            words = panels.memory_words(self.forms["memory"], self.lines.size.width)
            self.show_memory(max(0, self.address + 4 * words * by))
        else:
            self.lines.scroll_relative(y=by, animate=False)

    def action_scroll_page(self, by: int) -> None:
        """Scroll the panel by pages."""
        self.action_scroll(by * max(1, self.lines.size.height - 1))

    def show_function(self, name: str) -> None:
        """The code of a function."""
        rows = self.listing.rows
        if self.panel != "code":
            self.show_panel("code")
        line = next((k for k, row in enumerate(rows) if row.label == name), 0)
        self.call_after_refresh(partial(self.lines.find, line))

    def show_memory(self, address: int) -> None:
        """Memory from an address on."""
        self.address = address & ~3 & 0xFFFFFFFF
        if self.panel != "memory":
            self.show_panel("memory")
        else:
            self.see()

    def action_ask_cycle(self) -> None:
        """Go to a cycle that is typed."""
        self._ask("go to cycle:", "12,345", [], lambda p, text: p.go_to_text(text))

    def action_ask_stop(self) -> None:
        """Set or remove a breakpoint that is typed."""
        hint = "function, function+0x10 or 0x1c008080; again removes it, * all"
        names = self.listing.labels.values()
        self._ask("breakpoint at:", hint, names, lambda p, text: p.toggle_breakpoint(text))

    def _ask(
        self, question: str, hint: str, names: Iterable[str], act: Callable[[Player, str], None]
    ) -> None:
        """Let something be typed that the player is to do; it pauses for that."""
        self.do(lambda player: player.pause())
        take = lambda text: self.do(lambda player: act(player, text))  # noqa: E731
        self.prompt.ask(question, hint, names, take)

    def action_ask_memory(self) -> None:
        """Show memory from an address that is typed."""
        if self.frame and not self.frame.registers:
            self.do(lambda player: player.pause("a recording has no registers and no memory"))
            return
        self._ask("memory at:", "address or name", [], self._show_memory_at)

    def _show_memory_at(self, player: Player, place: str) -> None:
        """Called by the worker."""
        assert player.source.state
        address = player.source.state.memory_address(place)
        self.call_later(partial(self.show_memory, address))

    def action_ask_text(self) -> None:
        """Find a text that is typed."""
        names = self.listing.labels.values() if self.panel == "code" else []
        self.prompt.ask("find:", self.sought or f"text in {self.panel}", names, self._find_typed)

    def _find_typed(self, text: str) -> None:
        self.sought = text or self.sought
        self.action_find_next(1)

    def action_find_next(self, by: int) -> None:
        """The next line with the text that was looked for."""
        if self.sought:
            self.run_worker(partial(self._find, by), thread=True, exclusive=True, group="find")

    def _find(self, by: int) -> None:
        """Look for it; in a thread, for the code may be long."""
        seen, page = self.lines.in_sight, self.lines.page
        after = seen.start - 1 if self.lines.found is None else self.lines.found
        if self.panel == "code":
            found = self.listing.find(self.sought, after, by)
        else:
            order = ((after + by * k) % page.count for k in range(1, page.count + 1))
            wanted = self.sought.lower()
            found = next((k for k in order if wanted in page.line(k).plain.lower()), None)
        self.call_from_thread(self._show_found, found)

    def _show_found(self, line: int | None) -> None:
        if line is None:
            self.prompt.say(f"{self.sought!r} is not in this panel")
        else:
            self.lines.find(line)

    # The mouse

    def on_slider_moved(self, event: Slider.Moved) -> None:
        share = event.share
        self.do(lambda player: player.go_to(round(share * player.source.latest)))

    def on_time_line_zoomed(self, event: TimeLine.Zoomed) -> None:
        if self.place:
            columns, factor, column = self.place.right, event.factor, event.column
            self.do(lambda player: player.change_zoom(factor, columns, column))

    def on_lines_scrolled(self) -> None:
        self.see()

    def on_lines_clicked(self, event: Lines.Clicked) -> None:
        assert self.frame
        if event.lines is self.harts:
            self._click_hart(event.line, event.column - self.harts.left)
        elif event.lines is self.lines and self.panel == "code":
            row = self.listing.rows[event.line]
            self.do(lambda player: player.toggle_breakpoint(f"{row.address:#x}"))
        elif event.lines is self.lines and self.panel == "stops" and self.frame.stops:
            address, _ = self.frame.stops[event.line]
            self.do(lambda player: player.toggle_breakpoint(f"{address:#x}"))

    def _click_hart(self, hart: int, column: int) -> None:
        assert self.frame
        self.do(lambda player: player.select(hart))
        if 0 <= column < len(self.frame.edges) - 1:
            first, last = self.frame.edges[column : column + 2].tolist()
            cycle = min((first + last + 1) // 2, self.frame.latest)
            self.do(lambda player: player.go_to(cycle))

    def on_panel_bar_chosen(self, event: PanelBar.Chosen) -> None:
        assert self.frame
        start = 0
        for name in panels.panel_names(self.frame):
            end = start + len(self.title_of(name, self.frame)) + 2
            if start <= event.column < end:
                self.show_panel(name)
            start = end
