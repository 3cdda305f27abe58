"""The time line of all harts, with the mouse: select, go to a cycle, zoom, ask."""

from collections.abc import Callable

from textual.events import Click, MouseMove, MouseScrollDown, MouseScrollUp
from textual.message import Message

from pulpsim.tui.painted import Lines, Painted


class TimeLine(Lines):
    """Harts line by line: columns up to `left` are about now, those after it about time.

    tell    a hart and a column of time in words
    """

    class Zoomed(Message):
        """The wheel was turned on a column."""

        def __init__(self, factor: float, column: int):
            super().__init__()
            self.factor, self.column = factor, column

    def __init__(self, name: str, tell: Callable[[int, int], str]):
        super().__init__(name)
        self.left, self.tell = 0, tell

    def on_mouse_move(self, event: MouseMove) -> None:
        hart, column = event.y + round(self.scroll_offset.y), event.x - self.left
        is_told = column >= 0 and hart < self.page.count
        self.tooltip = self.tell(hart, column) if is_told else None

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self._zoom(event, 0.5)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self._zoom(event, 2.0)

    def _zoom(self, event: MouseScrollUp | MouseScrollDown, factor: float) -> None:
        if event.x >= self.left:
            event.stop()
            event.prevent_default()
            self.post_message(self.Zoomed(factor, event.x - self.left))


class Cluster(Painted):
    """The time line of the cluster, line by line.

    tell    a line and a column of time in words
    """

    def __init__(self, name: str, tell: Callable[[int, int], str]):
        super().__init__(name)
        self.left, self.tell = 0, tell

    def on_mouse_move(self, event: MouseMove) -> None:
        self.tooltip = self.tell(event.y, event.x - self.left) if event.x >= self.left else None


class Slider(Painted):
    """Title and state; below them where the cycle lies in what is known."""

    class Moved(Message):
        """Wanted: this share of what is known."""

        def __init__(self, share: float):
            super().__init__()
            self.share = share

    def on_click(self, event: Click) -> None:
        if event.y == 1:
            self.post_message(self.Moved(event.x / max(1, self.size.width - 1)))


class PanelBar(Painted):
    """The names of the panels, of which one is chosen."""

    class Chosen(Message):
        """A name was clicked on."""

        def __init__(self, column: int):
            super().__init__()
            self.column = column

    def on_click(self, event: Click) -> None:
        self.post_message(self.Chosen(event.x))
