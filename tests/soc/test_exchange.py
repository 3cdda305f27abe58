"""Runs that stop where their program says so: memory is read and written between two stops."""

import re

import pytest

from firmware.platform import address_of
from firmware.runtime import exit_, new_kernel, team_of
from soc.chip.spec import load_chip
from soc.exchange import Exchange
from trainlib.tiling.warm_up import repeated

STOP = 77


@pytest.fixture(scope="module")
def adder():
    """A program that adds, three times, what it is given to a sum; and where both lie."""
    chip = load_chip("pulp")
    k = new_kernel(chip, "adder")
    given, total = k.words("given", [0]), k.words("sum", [0])
    with team_of(k, chip, chip.cores) as team, repeated(k, 3):
        with team.only(0), k.scope():
            exit_(k, STOP)
            place, value, old = k.x(3)
            k.li(place, address_of("soc_control", "CORE_STATUS"))
            k.lw(place, 0, place)
            k.li(place, given)
            k.lw(value, 0, place)
            k.li(place, total)
            k.lw(old, 0, place)
            k.add(value, value, old)
            k.sw(value, 0, place)
        team.barrier()
    return k.build(), given, total


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_a_program_goes_on_with_what_is_written_while_it_is_stopped(adder, engine):
    program, given, total = adder
    exchange = Exchange(program, engine=engine)
    log = []
    while (end := exchange.go_on()).code == STOP:
        log.append((exchange.cycle, int.from_bytes(exchange.read(total, 4), "little")))
        exchange.write(given, (10 ** len(log)).to_bytes(4, "little"))
    assert (end.reason, end.code) == ("exit", 0)
    assert [value for _, value in log] == [0, 10, 110]
    assert exchange.read(total, 4) == (1110).to_bytes(4, "little")
    assert exchange.result().exit == end
    assert exchange.result().cycles == exchange.cycle


def test_both_engines_stop_in_the_same_cycles(adder):
    cycles = []
    for engine in ("compiled", "event"):
        exchange = Exchange(adder[0], engine=engine)
        cycles.append([exchange.go_on() and exchange.cycle for _ in range(4)])
    assert cycles[0] == cycles[1]


def test_a_limit_of_cycles_ends_a_run(adder):
    exchange = Exchange(adder[0])
    assert exchange.go_on(100).reason == "max_cycles"
    with pytest.raises(ValueError, match=r"^the run has ended: cycle limit of 100 reached$"):
        exchange.go_on()


def test_what_is_not_in_l2_is_not_written(adder):
    exchange = Exchange(adder[0])
    message = "8 bytes at 0x10000000 are not in L2 (0x1c000000, 2097152)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        exchange.write(0x10000000, bytes(8))
