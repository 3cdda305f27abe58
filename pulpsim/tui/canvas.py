"""The live view's screen: what a worker finds, in widgets."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Footer

from pulpsim.cli.terminal import one_line
from pulpsim.tui import overview, panels
from pulpsim.tui.charts import Paint
from pulpsim.tui.frame import Frame, Look
from pulpsim.tui.listing import Listing
from pulpsim.tui.overview import Layout
from pulpsim.tui.painted import Lines, Painted
from pulpsim.tui.palette import DARK, LIGHT
from pulpsim.tui.player import Player
from pulpsim.tui.prompt import Prompt
from pulpsim.tui.time_line import Cluster, PanelBar, Slider, TimeLine
from pulpsim.tui.worker import Worker

L1 = 0x10000000
"""Where the memory panel begins."""

WIDE = 140
"""Columns from which on the registers have a place of their own."""

PATIENCE = 0.3
"""Seconds after which it says that it works."""


class Canvas(App[None]):
    """A screen that shows what a worker finds.

    get_ready    makes the player, in the worker's thread
    failure      what has ended the worker
    """

    TITLE = "pulpsim"
    AUTO_FOCUS = ""
    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #status { height: 2; }
    #axis, #legend, #panels { height: 1; }
    #panels { background: $panel; }
    #body { height: 1fr; }
    Lines { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1;
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; scrollbar-color: $primary; }
    #harts { scrollbar-size-vertical: 0; }
    #panel { width: 1fr; }
    #side { width: 56; border-left: vkey $panel; padding-left: 1; }
    """

    class Fresh(Message):
        """There is a new frame."""

    def __init__(self, get_ready: Callable[[], Player], title: str = ""):
        super().__init__()
        self.worker = Worker(get_ready, self._take, self._fail)
        self.subject = title
        self.frame: Frame | None = None
        self.newest: Frame | None = None
        self.panel, self.address = "code", L1
        self.forms = {"registers": "auto", "floats": "float", "memory": "hex"}
        self.wished, self.sought = 0, ""
        self.failure: BaseException | None = None
        self.place: Layout | None = None
        self.status = Slider("status")
        self.axis, self.legend = Painted("axis"), Painted("legend")
        self.harts = TimeLine("harts", self._tell)
        self.cluster = Cluster("cluster", self._tell_of_cluster)
        self.bar = PanelBar("panels")
        self.lines, self.side, self.prompt = Lines("panel"), Lines("side"), Prompt()

    def compose(self) -> ComposeResult:
        yield from (self.status, self.axis, self.harts, self.legend, self.cluster, self.bar)
        with Horizontal(id="body"):
            yield self.lines
            yield self.side
        yield self.prompt
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda theme: self.redraw())
        self.prompt.say(f"reading {self.subject} ..." if self.subject else "")
        self.set_interval(PATIENCE, self._tell_if_busy)
        if not self.is_headless:
            self._leave_on_signals()
        self.worker.start()

    def _leave_on_signals(self) -> None:
        """End as by a key; the terminal gets back what it was."""
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            with suppress(NotImplementedError, AttributeError):
                asyncio.get_running_loop().add_signal_handler(getattr(signal, name), self.exit)

    # Frames and the worker

    def _take(self, frame: Frame) -> None:
        """Called by the worker."""
        self.newest = frame
        self.post_message(self.Fresh())

    def _fail(self, error: BaseException) -> None:
        """Called by the worker."""
        self.failure = error
        self.call_later(self.exit)

    def on_canvas_fresh(self) -> None:
        if self.newest is not self.frame:
            self.frame = self.newest
            self.redraw()

    def do(self, wish: Callable[[Player], None]) -> None:
        """Have something done with the player."""
        self.wished += 1
        self.worker.do(wish)

    @property
    def is_busy(self) -> bool:
        """Is something wished that is not shown yet?"""
        return self.newest is None or self.newest.answered < self.wished

    @property
    def is_settled(self) -> bool:
        """Is all shown that is wished, exactly, and does nothing run?"""
        frame = self.frame
        is_last = frame is not None and frame is self.newest and not self.is_busy
        return is_last and frame.is_exact and not frame.is_running  # type: ignore[union-attr]

    def _tell_if_busy(self) -> None:
        if self.frame and self.is_busy and self.place:
            self.status.show(overview.status(self.frame, self.place.width, True, self.paint))

    def see(self) -> None:
        """Tell the worker what is wanted."""
        if self.place is None or self.frame is None:
            return
        words = panels.memory_words(self.forms["memory"], self.lines.size.width)
        size = 4 * words * self.lines.size.height if self.panel == "memory" else 0
        look = Look(self.place.right, (self.address, size), self._code_in_sight())
        self.wished += 1
        self.worker.see(look)

    def _code_in_sight(self) -> tuple[int, int]:
        rows = self.listing.rows if self.panel == "code" else []
        seen = [rows[k].address for k in self.lines.in_sight if k < len(rows)]
        return (seen[0], seen[-1] + 4 - seen[0]) if seen else (0, 0)

    @property
    def listing(self) -> Listing:
        """The program's code."""
        return self.worker.player.source.code

    # Drawing

    @property
    def paint(self) -> Paint:
        """The colours of the ground."""
        return Paint(DARK if self.current_theme.dark else LIGHT)

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        if self.frame is None:
            return
        width, height = self.size
        banks = self.frame.bins.conflicts.shape[0]
        place = overview.layout(width, height, len(self.frame.harts), banks)
        is_other, self.place = place != self.place, place
        if is_other:
            self.harts.styles.height = place.harts
            self.harts.left = self.cluster.left = place.left
            self.cluster.styles.height = place.heat + 4
            self.cluster.display = place.heat > 0
            self.lay_out_side()
            self.call_after_refresh(self.see)

    def lay_out_side(self) -> None:
        """Registers beside the panel, where there is room and they are not in it."""
        has_room = self.size.width >= WIDE and bool(self.frame and self.frame.registers)
        self.side.display = has_room and self.panel != "registers"

    def redraw(self) -> None:
        """Draw the frame."""
        if self.frame is None:
            return
        self._lay_out()
        frame, place, paint = self.frame, self.place, self.paint
        assert place
        if len(frame.edges) - 1 == place.right:
            self._draw_overview(frame, place, paint)
        self._draw_panel(frame, paint)
        self.prompt.say(frame.message)

    def _draw_overview(self, frame: Frame, place: Layout, paint: Paint) -> None:
        self.status.show(overview.status(frame, place.width, False, paint))
        self.axis.show(overview.heading(frame, place, paint))
        rows = [overview.hart_line(frame, h, place, paint) for h in range(len(frame.harts))]
        page = panels.Page(len(rows), rows.__getitem__, frame.selected, frame.selected)
        self.harts.show(page)
        self.legend.show(overview.legend(frame, place, paint))
        if place.heat:
            self.cluster.show(overview.cluster(frame, place, paint))

    def _draw_panel(self, frame: Frame, paint: Paint) -> None:
        self.bar.show([self._bar(frame, paint)])
        size = self.lines.scrollable_content_region
        self.lines.show(self._page(frame, self.panel, size.width, size.height, paint))
        if self.side.display:
            names, form = panels.x_names(frame), self.forms["registers"]
            room = self.side.size
            self.side.show(panels.registers(frame, names, form, room.width, 40, paint))

    def _page(self, frame: Frame, name: str, width: int, height: int, paint: Paint) -> panels.Page:
        """A panel's lines."""
        if name in ("registers", "floats"):
            names = panels.x_names(frame) if name == "registers" else panels.f_names(frame)
            return panels.registers(frame, names, self.forms[name], width, height, paint)
        assert self.place
        pages: dict[str, Callable[[], panels.Page]] = {
            "code": lambda: panels.code(frame, self.listing, width, paint),
            "memory": lambda: panels.memory(frame, self.forms["memory"], width, paint),
            "regions": lambda: panels.regions(frame, paint),
            "banks": lambda: panels.banks(frame, self.place.left, paint),  # type: ignore[union-attr]
            "console": lambda: panels.console(frame),
            "stops": lambda: panels.stops(frame, paint),
        }
        return pages[name]()

    def _bar(self, frame: Frame, paint: Paint) -> Text:
        text = Text()
        for name in panels.panel_names(frame):
            style = paint.strong + paint.reverse if name == self.panel else paint.label
            text.append(f" {self.title_of(name, frame)} ", style)
        if self.panel in ("code", "registers", "floats"):
            hart = frame.harts[frame.selected]
            text.append(f"   {hart.name}", paint.strong)
            text.append(f" {one_line(hart.place)}  {hart.what}", paint.label)
            if self.panel == "code" and self.listing.row_of(hart.pc) is None:
                text.append("  outside of the program's code", paint.label)
        return text

    def title_of(self, name: str, frame: Frame) -> str:
        """A panel's name in the bar."""
        count = f" {len(frame.stops)}" if name == "stops" and frame.stops else ""
        return name.capitalize() + count

    def _tell(self, hart: int, column: int) -> str:
        if self.frame is None or column >= len(self.frame.edges) - 1:
            return ""
        return overview.told(self.frame, hart, column)

    def _tell_of_cluster(self, line: int, column: int) -> str:
        if self.frame is None or not self.place or column >= len(self.frame.edges) - 1:
            return ""
        return overview.told_of_cluster(self.frame, line, column, self.place.heat)
