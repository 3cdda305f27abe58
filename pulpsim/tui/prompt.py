"""The line in which something is typed, and in which messages stand otherwise."""

from collections.abc import Callable, Iterable

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label

Take = Callable[[str], None]


class Answer(Input):
    """A line to type in, which is closed in the moment in which Enter is pressed."""

    def __init__(self, take: Take):
        super().__init__()
        self.take = take

    async def action_submit(self) -> None:
        self.take(self.value.strip())


class Prompt(Horizontal):
    """A question and its answer; without a question, a message."""

    DEFAULT_CSS = """
    Prompt { height: 1; }
    Prompt > Label { width: auto; text-style: bold; }
    Prompt > Input { width: 1fr; height: 1; border: none; padding: 0 1; display: none; }
    Prompt > Input:focus { border: none; }
    Prompt.is-open > Input { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.take: Take | None = None
        self.label = Label("", markup=False)
        self.input = Answer(self._answered)

    def compose(self) -> ComposeResult:
        yield self.label
        yield self.input

    @property
    def is_open(self) -> bool:
        """Is an answer being typed?"""
        return self.take is not None

    def ask(self, question: str, hint: str, names: Iterable[str], take: Take) -> None:
        """Let an answer be typed; names complete it with the right arrow."""
        self.take = take
        self.label.update(f" {question}")
        self.input.value, self.input.placeholder = "", hint
        self.input.suggester = SuggestFromList(sorted(names), case_sensitive=False)
        self.add_class("is-open")
        self.input.focus()

    def say(self, message: str) -> None:
        """Show a message, unless an answer is being typed."""
        if not self.is_open:
            self.label.update(f" {message}")

    def close(self) -> None:
        """Ask no longer."""
        self.take = None
        self.remove_class("is-open")
        self.screen.set_focus(None)
        self.label.update("")

    def _answered(self, text: str) -> None:
        take = self.take
        self.close()
        if take:
            take(text)
