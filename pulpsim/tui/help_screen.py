"""The help page: keys, mouse, colours."""

from typing import ClassVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from pulpsim.tui.charts import Paint
from pulpsim.tui.keys import KEYS
from pulpsim.tui.palette import KINDS

MOUSE = (
    ("click on a hart", "select it"),
    ("click on its time", "go to that cycle; also on the slider below the title"),
    ("pointer on its time", "says what the hart did there"),
    ("wheel on the time", "fewer or more cycles a column"),
    ("click on an instruction", "set or remove a breakpoint"),
    ("wheel on a panel", "scroll it"),
)


class HelpScreen(ModalScreen[None]):
    """The help screen: it lists what can be done, and a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,f1,h,q,enter,space", "dismiss", "Close")
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 78; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; background: $surface; padding: 0 1;
        border-title-style: bold;
    }
    """

    def __init__(self, paint: Paint):
        super().__init__()
        self.paint = paint

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = "Help (escape closes)"
            yield Static(self._page())

    def _page(self) -> RenderableType:
        keys = [(key.shown, key.help) for key in KEYS]
        colours = [
            (Text(f" {kind.letter} ", self.paint.filled[n]), f"{kind.name}: {kind.meaning}")
            for n, kind in enumerate(KINDS)
        ]
        colours[0] = Text(" █ ", self.paint.run), f"{KINDS[0].name}: the higher, the more"
        return Group(
            Text("Keys", self.paint.strong),
            self._table(keys, 8),
            Text("\nMouse", self.paint.strong),
            self._table(MOUSE, 23),
            Text("\nCycles of a hart", self.paint.strong),
            self._table(colours, 3),
            Text(
                "\nA column shows what the hart spent most of its cycles on. Everything is about "
                "the cycles of the axis, IPC and bars up to the current one. ≈: exact soon."
            ),
        )

    def _table(self, rows: object, width: int) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        table.add_column(style=self.paint.series, no_wrap=True, min_width=width)
        table.add_column()
        for key, what in rows:  # type: ignore[attr-defined]
            table.add_row(key, what)
        return table
