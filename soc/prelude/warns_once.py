"""What is told once: the base of components that warn."""

from collections.abc import Callable


class WarnsOnce:
    """A component with a name that its sentences begin with.

    Ports
        warn    out   a sentence

    State: `warned_of`, the things that it has warned of.
    """

    def __init__(self, name: str, warn: Callable[[str], None]):
        self.name, self.warn = name, warn
        self.warned_of: list[str] = []

    def warn_once(self, text: str, of: str = "") -> None:
        """Warn of a thing once: the text itself, or, where that may differ, what `of` names."""
        thing = of or text
        if thing not in self.warned_of:
            self.warned_of.append(thing)
            self.warn(f"{self.name}: {text}")
