"""The garbage collector is paused for a while, and as it was afterwards."""

import gc

import pytest

from soc.host.collector import paused_collector


def test_it_is_paused_and_goes_on_whatever_happens() -> None:
    @paused_collector()
    def fail() -> None:
        assert not gc.isenabled()
        with paused_collector():
            pass
        assert not gc.isenabled()
        raise ValueError

    assert gc.isenabled()
    with pytest.raises(ValueError):
        fail()
    assert gc.isenabled()
