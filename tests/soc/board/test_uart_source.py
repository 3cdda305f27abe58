"""Sources of the UART: every byte, in its order, as it is written."""

import os
import sys
from pathlib import Path

import pytest

from soc.board.uart_source import Source, source_of
from soc.config.toml import ConfigError

BYTES = b"a line\n\r\x03\x04\xff\x00end\n"


def taken(source: Source) -> bytes:
    return bytes(source.byte(k) or 0 for k in range(len(BYTES)))


def untold(text: str) -> None:
    raise AssertionError(text)


def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "typed").write_bytes(BYTES)
    source = source_of(str(tmp_path / "typed"), untold)
    assert (taken(source), source.byte(len(BYTES))) == (BYTES, None)


def test_a_pseudo_terminal_passes_every_byte_and_is_told() -> None:
    told: list[str] = []
    source = source_of("pty", told.append)
    (sentence,) = told
    assert sentence.startswith("uart: the other end of its line is /")
    with open(sentence.split()[-1], "wb", buffering=0) as other:
        other.write(BYTES)
    assert taken(source) == BYTES
    assert taken(source_of("pty", told.append)) == BYTES  # one for all runs of a process


def test_the_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as end, os.fdopen(theirs, "wb", buffering=0) as other:
        monkeypatch.setattr(sys, "stdin", end)
        source = source_of("-", untold)
        other.write(BYTES)
        assert taken(source) == BYTES


@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file"), ("", "no regular file")])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"^uart\.source '.*': {reason}"):
        source_of(str(tmp_path / name), untold)


def test_the_other_end_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    source_of("pty")
    assert capsys.readouterr().err.startswith("uart: the other end of its line is /")
