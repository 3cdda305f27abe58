"""Where the simulator runs."""

import sys

import pytest

import pulpsim
from pulpsim.__main__ import main

SENTENCE = "pulpsim: Windows is not supported; it runs on Linux and macOS, and on Windows in WSL 2"


def test_windows_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(pulpsim), "load_chip", raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == SENTENCE
    with pytest.raises(ImportError) as refused:
        _ = pulpsim.load_chip
    assert str(refused.value) == SENTENCE
