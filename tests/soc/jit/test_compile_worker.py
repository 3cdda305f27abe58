"""Processes that translate superblocks: how many at a time."""

from contextlib import ExitStack

import pytest

from soc.jit.compile_worker import take_turn


@pytest.mark.parametrize("most", [1, 2])
def test_so_many_processes_translate_at_once(most, tmp_path):
    with ExitStack() as others:
        for _ in range(most):
            assert take_turn(others, tmp_path, most, waits=False)
        with ExitStack() as own:
            assert not take_turn(own, tmp_path, most, waits=False)
    with ExitStack() as own:
        assert take_turn(own, tmp_path, most, waits=True)
