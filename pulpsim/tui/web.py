"""The live view in a browser, on the loopback: a server that starts the command for each page."""

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pulpsim.tui.command import check_textual
from soc.config.toml import ConfigError

HOST, PORT = "127.0.0.1", 8000
WITHOUT_SERVER = "--web needs textual-serve: pip install 'pulpsim[web]'"


def serve(arguments: Sequence[str], port: int = PORT) -> None:
    """Serve the view of `pulpsim ARGUMENTS` until Ctrl-C; --web among them becomes --tui.

    raises    ConfigError without Textual or textual-serve, or if the port is taken
    """
    check_textual()
    if find_spec("textual_serve") is None:
        raise ConfigError([WITHOUT_SERVER])
    from textual_serve.server import Server

    _check_port(port)
    command = [sys.executable, "-m", "pulpsim"]
    command += ["--tui" if argument == "--web" else argument for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        templates = _templates(Path(folder))
        server = Server(
            shlex.join(command), HOST, port, title="pulpsim", templates_path=str(templates)
        )
        server.serve()


def _check_port(port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise ConfigError([f"--web: port {port} of {HOST}: {why}"]) from None


def _templates(folder: Path) -> Path:
    """The server's pages, without what they would fetch from the network."""
    import textual_serve

    for file in (Path(textual_serve.__file__).parent / "templates").glob("*.html"):
        page = re.sub(r"<link[^>]*fonts\.googleapis\.com[^>]*>", "", file.read_text("utf-8"))
        (folder / file.name).write_text(page, "utf-8")
    return folder
