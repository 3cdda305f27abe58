"""Teams: sharing work, critical sections, stacks that overflow, fork and join, offloading."""

import re
from pathlib import Path

import pytest

from firmware.builder import KernelError
from firmware.fork import crew_of, offload_of
from firmware.registers import SP, ZERO, A
from firmware.runtime import STACK, new_kernel, team_of
from firmware.stacks import OVERFLOW
from firmware.team import Group, Team
from isa.assembler.names import CSRS, RI5CY_CSRS
from soc import simulation
from soc.chip.spec import load_chip
from soc.run import run_program
from tests.firmware.kernels import refusal

CHIPS = ("pulp", "pulp-cv32e40p")
PULP = load_chip("pulp")
ROUNDS = (0, 1, 3, 8, 13, 40)


def finished(k, chip=PULP, code=0):
    result = run_program(k.build(), chip, max_cycles=200_000)
    assert (result.exit.reason, result.exit.code) == ("exit", code), result.exit.message
    assert result.warnings == ()
    return result


def numbers(result, address, count):
    data = result.read(address, 4 * count)
    return [int.from_bytes(data[4 * n : 4 * n + 4], "little", signed=True) for n in range(count)]


def store_core(k, team, place, index):
    """place[index] = core + 1"""
    with k.scope():
        address, core = k.x(2)
        k.slli(address, index, 2)
        k.li(core, place)
        k.add(address, address, core)
        team.core(core)
        k.addi(core, core, 1)
        k.sw(core, 0, address)


@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize("is_register", [False, True])
@pytest.mark.parametrize("way", ["static", "cyclic"])
def test_every_round_is_done_once_by_the_core_whose_turn_it_is(way, is_register, cores):
    k = new_kernel(PULP)
    place = k.buffer(k.l1, "place", 4 * (sum(ROUNDS) + len(ROUNDS)))
    at = {}
    with team_of(k, PULP, cores) as team:
        for count in ROUNDS:
            at[count], place = place, place + 4 * (count + 1)
            with k.scope():
                register = k.x()
                k.li(register, count)
                with getattr(team, way)(register if is_register else count) as index:
                    store_core(k, team, at[count], index)
    result = finished(k)
    for count in ROUNDS:
        run = -(-count // cores) or 1
        turn = [n % cores if way == "cyclic" else n // run for n in range(count)]
        assert numbers(result, at[count], count + 1) == [*(core + 1 for core in turn), 0]


@pytest.mark.parametrize("chip", CHIPS)
def test_one_core_at_a_time_is_in_a_critical_section(chip, request):
    """Without the mutex, cores would add to what others have not stored yet."""
    if chip != "pulp" and not request.config.getoption("--full"):
        pytest.skip("--full compiles the other cores")
    spec = load_chip(chip, {"event_unit.mutexes": 8})
    k = new_kernel(spec)
    total = k.buffer(k.l1, "total", 8)
    with team_of(k, spec, 8) as team, k.scope():
        address, value, rounds = k.x(3)
        k.li(address, total)
        k.li(rounds, 20)
        with k.loop(rounds):
            for _ in range(2):
                with team.critical(7):
                    k.lw(value, 0, address)
                    for _ in range(5):
                        k.nop()
                    k.addi(value, value, 1)
                    k.sw(value, 0, address)
    assert numbers(finished(k, spec), total, 1) == [8 * 20 + 8 * 20]
    for mutex in (-1, 16):
        message = f"critical: mutex {mutex}; there are 0 to 15"
        assert refusal(team.critical(mutex).__enter__) == message


def overflowing(k, depth):
    """A function that needs 16 bytes of stack for each of a0 calls of itself."""
    with k.function("deep", arguments=1) as deep:
        skip = k.label()
        k.saved()
        k.beqz(A[0], skip)
        k.addi(A[0], A[0], -1)
        k.call(deep, A[0])
        k.place(skip)
    return deep


@pytest.fixture
def as_on_a_chip(monkeypatch):
    """Nothing is known of stacks."""
    monkeypatch.setattr(simulation, "know_stacks", lambda chip, program: None)
    monkeypatch.setitem(RI5CY_CSRS, "stack_conf", CSRS["mscratch"])


def test_sp_that_leaves_its_stack_ends_the_run_and_a_larger_stack_is_the_way_out():
    ends = []
    for stack in (STACK, 2048):
        k = new_kernel(PULP, stack=stack)
        deep = overflowing(k, 70)
        with team_of(k, PULP, 8) as team, team.only(5):
            k.call(deep, 70)
        ends.append(run_program(k.build(), PULP, max_cycles=200_000).exit)
    assert re.search(
        r", hart 5, pc 0x1c01\w{4} in deep at \S*\.py:\d+ \(addi sp, sp, -16\): stack "
        r"overflow: sp 0x1000e7f0 is below its stack 0x1000e800\.\.0x1000ec00, 1024 bytes; "
        r"to double it: -Wl,--defsym=__core_stack_size=2048 in C, "
        r"new_kernel\(chip, stack=2048\) in Python$",
        ends[0].message,
    )
    assert (ends[1].reason, ends[1].code) == ("exit", 0)


def test_stacks_have_few_sizes():
    message = "program: stack 4096; it is one of 256, 512, 1024, 2048 bytes"
    assert refusal(lambda: new_kernel(PULP, stack=4096)) == message


def test_an_overflow_names_no_size_that_a_kernel_cannot_have():
    k = new_kernel(PULP, stack=2048)
    deep = overflowing(k, 130)
    with team_of(k, PULP, 8) as team, team.only(2):
        k.call(deep, 130)
    end = run_program(k.build(), PULP, max_cycles=200_000).exit
    assert end.message.endswith("to double it: -Wl,--defsym=__core_stack_size=4096 in C")


@pytest.mark.parametrize(
    ("core", "depth", "is_over"), [(5, 60, False), (5, 70, True), (7, 90, True)]
)
@pytest.mark.usefixtures("as_on_a_chip")
def test_a_stack_that_overflows_ends_the_run_with_the_core_s_name(core, depth, is_over):
    k = new_kernel(PULP)
    deep = overflowing(k, depth)
    with team_of(k, PULP, 8) as team, team.only(core):
        k.call(deep, depth)
    result = finished(k, code=OVERFLOW if is_over else 0)
    assert result.console == (f"stack overflow on core {core}\n" if is_over else "")


@pytest.mark.usefixtures("as_on_a_chip")
def test_names_of_cores_have_two_digits_where_they_need_them():
    chip = load_chip("pulp", {"cores": 12, "dma.ports": 14})
    k = new_kernel(chip)
    deep = overflowing(k, 90)
    with team_of(k, chip, 12) as team, team.only(11):
        k.call(deep, 90)
    assert finished(k, chip, OVERFLOW).console == "stack overflow on core 11\n"


def test_the_stack_checker_of_ri5cy_knows_each_stack():
    k = new_kernel(PULP)
    place = k.buffer(k.l1, "place", 32)
    with team_of(k, PULP, 2) as team, k.scope():
        address, value = k.x(2)
        team.core(address)
        k.slli(address, address, 4)
        k.li(value, place)
        k.add(address, address, value)
        for slot, csr in enumerate((0x7D0, 0x7D1, 0x7D2)):
            k.csrr(value, csr)
            k.sw(value, 4 * slot, address)
        k.sw(SP, 12, address)
    top = 0x10010000
    assert numbers(finished(k), place, 8) == [
        *(1, top - STACK, top, top),
        *(1, top - 2 * STACK, top - STACK, top - STACK),
    ]


def adder(k, crew, place, cores):
    """add(a0): each core of the team adds a0 and its number to its own place, after a barrier."""
    team = crew.team(cores)
    with k.function(f"add_{cores}", arguments=1) as function:
        address, value = k.x(2)
        team.core(value)
        k.slli(address, value, 2)
        k.add(A[0], A[0], value)
        k.li(value, place)
        k.add(address, address, value)
        team.barrier()
        k.lw(value, 0, address)
        k.add(value, value, A[0])
        k.sw(value, 0, address)
    return function


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_core_0_forks_teams_of_any_size_again_and_again(cores):
    k = new_kernel(PULP)
    place = k.buffer(k.l1, "place", 4 * 8)
    with crew_of(k, PULP, cores) as crew:
        functions = {n: adder(k, crew, place, n) for n in {1, (cores + 1) // 2, cores}}
        with k.scope():
            argument = k.saved()
            k.li(argument, 1000)
            for n, function in functions.items():
                for _ in range(3):
                    crew.fork(function, argument, n)
        crew.fork(functions[cores], 7)
    expected = [
        sum(3 * (1000 + core) for n in functions if core < n) + (7 + core) * (core < cores)
        for core in range(8)
    ]
    assert numbers(finished(k), place, 8) == expected


def test_the_fabric_controller_lets_the_cluster_work_and_sleeps():
    k = new_kernel(PULP)
    place = k.buffer(k.l1, "place", 4 * 8)
    sums = k.buffer(k.l2, "sums", 8)
    with offload_of(k, PULP) as cluster:
        add = adder(k, cluster, place, 8)
        with k.function("work", arguments=1) as work:
            argument = k.saved()
            k.mv(argument, A[0])
            k.free(A[0])
            for _ in range(2):
                cluster.fork(add, argument)
        with k.function("total", arguments=1) as total:
            address, value, sum_, count = k.x(4)
            k.li(address, place)
            k.mv(sum_, ZERO)
            k.li(count, 8)
            with k.loop(count):
                k.load_post(value, 4, address)
                k.add(sum_, sum_, value)
            k.sw(sum_, 0, A[0])
        cluster.run(work, 100)
        cluster.run(total, sums)
        cluster.run(work, 1)
        cluster.run(total, sums + 4)
    result = finished(k)
    first = 2 * sum(100 + core for core in range(8))
    assert numbers(result, sums, 2) == [first, first + 2 * sum(1 + core for core in range(8))]
    controller = result.to_json()["harts"][8]
    assert controller["stalls"]["wfi"] > controller["cycles"] / 2


@pytest.mark.usefixtures("as_on_a_chip")
def test_a_stack_that_a_forked_function_overflows_is_told():
    k = new_kernel(PULP)
    deep = overflowing(k, 90)
    with crew_of(k, PULP) as crew:
        crew.fork(deep, 90, 1)
        crew.fork(deep, 10)
    assert finished(k, code=OVERFLOW).console.endswith("stack overflow on core 0\n")


def test_teams_that_a_crew_does_not_have_are_refused():
    k = new_kernel(PULP, "p")
    assert refusal(crew_of(k, PULP, 9).__enter__) == "p: 9 cores; the chip pulp has 1 to 8"
    assert refusal(offload_of(k, PULP, 0).__enter__) == "p: 0 cores; the chip pulp has 1 to 8"
    with crew_of(k, PULP, 4) as crew:
        for cores in (0, 5):
            message = f"fork: {cores} cores; the crew has 1 to 4"
            assert refusal(crew.team, cores) == message
            assert refusal(crew.fork, k.label(), 0, cores) == message


def test_the_program_of_the_manual_runs():
    page = (Path(__file__).parents[2] / "docs" / "programs-in-python.md").read_text()
    (source,) = re.findall(r"^```python\n(from firmware.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names = {}
    exec(source.replace("print(", "result = ("), names)
    assert names["result"] == "done\n"
    result = finished(names["k"])
    assert numbers(result, names["counts"], 100) == [n * n for n in range(100)]


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_a_group_shares_work_among_its_cores_alone(size):
    """Place 4 * group + round has the core that did it, and one of each group counts."""
    k = new_kernel(PULP)
    place, firsts = k.buffer(k.l1, "place", 4 * 4 * 8), k.buffer(k.l1, "firsts", 4 * 8)
    with team_of(k, PULP, 8) as team:
        group = Group(team, size)
        with group.cyclic(4) as index, k.scope():
            number = k.x()
            group.number(number)
            k.slli(number, number, 2)
            k.add(number, number, index)
            store_core(k, team, place, number)
        with group.only(), k.scope():
            number = k.x()
            group.number(number)
            store_core(k, team, firsts, number)
        group.barrier()
    result, groups = finished(k), 8 // size
    wanted = [group * size + index % size + 1 for group in range(groups) for index in range(4)]
    assert numbers(result, place, 4 * groups) == wanted
    assert numbers(result, firsts, groups) == [group * size + 1 for group in range(groups)]


@pytest.mark.parametrize(("cores", "size"), [(8, 3), (6, 4), (8, 0), (4, 8)])
def test_a_group_that_does_not_divide_its_team_is_refused(cores, size):
    with pytest.raises(KernelError, match=rf"^group: {size} of {cores} cores; it is a power of"):
        Group(Team(new_kernel(PULP), cores), size)
