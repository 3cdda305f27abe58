"""The command palette: everything that a key does, and every function of the program."""

from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from pulpsim.tui.keys import KEYS


class Actions(Provider):
    """Actions, found by their words."""

    @property
    def _view(self) -> Any:
        """The LiveView, which imports this file."""
        return self.app

    async def discover(self) -> Hits:
        for key in KEYS:
            yield DiscoveryHit(self._title(key.help), partial(self._run, key.name), help=key.shown)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for key in KEYS:
            title = self._title(key.help)
            if (score := matcher.match(title)) > 0:
                action = partial(self._run, key.name)
                yield Hit(score, matcher.highlight(title), action, help=key.shown)
        for name in sorted(set(self._view.listing.labels.values())):
            title = f"Show {name}"
            if (score := matcher.match(title)) > 0:
                yield Hit(score, matcher.highlight(title), partial(self._view.show_function, name))

    def _title(self, text: str) -> str:
        return text[0].upper() + text[1:]

    async def _run(self, name: str) -> None:
        is_act = any(key.act for key in KEYS if key.name == name)
        await self._view.run_action(f"wish('{name}')" if is_act else name)
