"""The live view in a browser: what is refused, and pages that need no network."""

import re
import socket
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("textual_serve")

from pulpsim.tui import web
from soc.config.toml import ConfigError


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind((web.HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = re.escape(f"--web: port {port} of 127.0.0.1: Address already in use")
        with pytest.raises(ConfigError, match=f"^{message}$"):
            web.serve(["run", "hello.elf", "--web"], port)


def test_without_textual_serve_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "find_spec", lambda name: None)
    message = re.escape("--web needs textual-serve: pip install 'pulpsim[web]'")
    with pytest.raises(ConfigError, match=f"^{message}$"):
        web.serve(["run", "hello.elf", "--web"])


def test_each_page_gets_a_run_of_its_own_on_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    import textual_serve.server

    served = []

    class Server:
        def __init__(self, command: str, host: str, port: int, **more: str):
            pages = [file.read_text() for file in Path(more["templates_path"]).glob("*.html")]
            served.append((command, host, port, "".join(pages)))

        def serve(self) -> None: ...

    monkeypatch.setattr(textual_serve.server, "Server", Server)
    monkeypatch.setattr(web, "_check_port", lambda port: None)
    web.serve(["run", "a b.elf", "--web"])
    [(command, host, port, pages)] = served
    assert re.fullmatch(r"\S+ -m pulpsim run 'a b.elf' --tui", command)
    assert (host, port) == ("127.0.0.1", 8000)
    assert "websocket" in pages
    assert not re.search(r"(src|href)=\"?https?://", pages)
