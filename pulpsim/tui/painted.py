"""Widgets that are lines of coloured text: some that fit, and some that scroll."""

from rich.text import Text
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from pulpsim.tui.panels import Page


def strip_of(text: Text, width: int, widget: Widget) -> Strip:
    """A line of a widget on its ground, cut or filled up to a width."""
    text = text.copy()
    text.end = ""
    text.no_wrap = True
    strip = Strip(text.render(widget.app.console))
    return strip.adjust_cell_length(width).apply_style(widget.rich_style)


class Painted(Widget):
    """Lines that fill their place."""

    def __init__(self, name: str):
        super().__init__(id=name)
        self.lines: list[Text] = []

    def show(self, lines: list[Text]) -> None:
        """Show these lines from now on."""
        self.lines = lines
        self.refresh()

    def render_line(self, y: int) -> Strip:
        text = self.lines[y] if y < len(self.lines) else Text()
        return strip_of(text, self.size.width, self)


class Lines(ScrollView):
    """A page of lines, as many as there are, of which some are in sight."""

    can_focus = False

    class Clicked(Message):
        """A line was clicked on."""

        def __init__(self, lines: "Lines", line: int, column: int):
            super().__init__()
            self.lines, self.line, self.column = lines, line, column

    class Scrolled(Message):
        """Other lines are in sight."""

    def __init__(self, name: str):
        super().__init__(id=name)
        self.page = Page(0, lambda k: Text())
        self.found: int | None = None

    def show(self, page: Page) -> None:
        """Show this page; what it is about comes into sight if that is something else."""
        is_other = page.key != self.page.key
        self.page = page
        self.virtual_size = Size(self.scrollable_content_region.width, page.count)
        if is_other and page.at is not None:
            self.found = None
            self.bring(page.at)
        self.refresh()

    def bring(self, line: int) -> None:
        """Have a line in sight, in the middle if it was not."""
        top, height = round(self.scroll_offset.y), self.size.height
        if not top + 1 <= line < top + height - 1:
            self.scroll_to(y=max(0, line - height // 2), animate=False, immediate=True)

    def on_resize(self) -> None:
        if self.page.at is not None:
            self.bring(self.page.at)

    def find(self, line: int) -> None:
        """Mark a line that was looked for, in sight."""
        self.found = line
        self.bring(line)
        self.refresh()

    @property
    def in_sight(self) -> range:
        """The lines that are seen."""
        top = round(self.scroll_offset.y)
        return range(min(top, self.page.count), min(self.page.count, top + self.size.height))

    def render_line(self, y: int) -> Strip:
        index = y + round(self.scroll_offset.y)
        text = self.page.line(index) if index < self.page.count else Text()
        if index == self.found:
            text = text.copy()
            text.stylize("underline")
        return strip_of(text, self.scrollable_content_region.width, self)

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        if round(old) != round(new):
            self.post_message(self.Scrolled())

    def on_click(self, event: Click) -> None:
        line = event.y + round(self.scroll_offset.y)
        if line < self.page.count:
            self.post_message(self.Clicked(self, line, event.x))
