"""GDB itself, driven by its machine interface: C on eight cores, forward and back."""

import re

import pytest

from soc.prelude.trace_event import STORE, Kind
from soc.run import run_program
from soc.trace.reader import Trace
from soc.trace.recorder import Recording
from tests.pulpsim.gdb.c_programs import compiled, line_of, needs_compiler, needs_gdb
from tests.pulpsim.gdb.machine_interface import debugged

pytestmark = [needs_compiler, needs_gdb]

NAMES = [*(f"core{core}" for core in range(8)), "fc"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program" in metafunc.fixturenames:
        levels = ["-O0", "-O2"] if metafunc.config.getoption("--full") else ["-O2"]
        metafunc.parametrize("program", levels, indirect=True, scope="module")


@pytest.fixture(scope="module")
def program(request, tmp_path_factory):
    return compiled("sum", tmp_path_factory.mktemp("c"), request.param)


def recorded(elf, folder) -> Trace:
    file = folder / "run.trace"
    run_program(elf, trace=Recording(file, filters=("kind=issue,memory",)))
    return Trace.open(file)


def to_the_end(gdb) -> str:
    """Go on to the program's end, and return what is said of that."""
    gdb.console.clear()
    gdb.go("-exec-continue")
    text = "".join(gdb.console)
    found = re.search(r"^\[(.*?)(?: at cycle \d+)?; it can go back from here", text, re.M)
    assert found, text
    assert "No more reverse-execution history" in text
    return found[1]


def test_harts_are_threads_with_their_names_and_states(program) -> None:
    with debugged(program) as gdb:
        threads = gdb.do("-thread-info")["threads"]
        assert [thread["name"] for thread in threads] == NAMES
        assert [thread["details"] for thread in threads] == ["is not started"] * 8 + ["runs"]
        gdb.do("-break-insert add_up")
        gdb.go("-exec-continue")
        assert "waits for an interrupt (wfi)" in gdb.say("info threads")
        assert gdb.value("$mhartid") == str(int(gdb.stops[-1]["thread-id"]) - 1)
        names = [name for name in gdb.do("-data-list-register-names")["register-names"] if name]
        assert {"ra", "a0", "pc", "ft0", "mstatus", "lpstart0", "lpcount1", "pccr0"} <= set(names)


def test_eight_cores_stop_at_a_breakpoint_each_in_its_cycle(program, tmp_path) -> None:
    issues = recorded(program, tmp_path).select(Kind.ISSUE)
    with debugged(program) as gdb:
        pc = int(gdb.do("-break-insert weigh")["bkpt"]["addr"], 16)
        at = issues[issues["a"] == pc]
        wanted = sorted(zip(at["cycle"].tolist(), at["hart"].tolist(), strict=True))
        assert len(wanted) == 128
        for cycle, hart in wanted[:24]:
            stop = gdb.go("-exec-continue")
            assert stop["reason"] == "breakpoint-hit"
            assert (gdb.cycle(), int(stop["thread-id"]) - 1) == (cycle, hart)
            weight = [arg["value"] for arg in stop["frame"]["args"] if arg["name"] == "weight"]
            assert weight == [str(hart + 1)]
        for cycle, hart in wanted[22::-1]:
            stop = gdb.go("-exec-continue --reverse")
            assert (gdb.cycle(), int(stop["thread-id"]) - 1) == (cycle, hart)


def test_a_watchpoint_is_hit_by_the_right_hart_in_the_right_cycle(program, tmp_path) -> None:
    accesses = recorded(program, tmp_path).select(Kind.MEMORY)
    with debugged(program) as gdb:
        address = int(gdb.value("&totals[3]").split()[0], 16)
        writes = accesses[(accesses["a"] == address) & (accesses["extra"] & STORE != 0)]
        [(cycle, hart)] = zip(writes["cycle"].tolist(), writes["hart"].tolist(), strict=True)
        gdb.do("-break-watch totals[3]")
        stop = gdb.go("-exec-continue")
        assert stop["reason"] == "watchpoint-trigger"
        assert stop["value"] == {"old": "0", "new": str(120 * 3 * 4 + 16)}
        assert (gdb.cycle(), int(stop["thread-id"]) - 1) == (cycle, hart) == (cycle, 3)
        gdb.do("-break-delete")
        gdb.do("-break-watch -r totals[3]")
        stop = gdb.go("-exec-continue")
        reads = accesses[(accesses["a"] == address) & (accesses["extra"] & STORE == 0)]
        assert stop["reason"] == "read-watchpoint-trigger"
        assert (gdb.cycle(), stop["thread-id"]) == (int(reads["cycle"][0]), "1")


def test_a_write_of_the_dma_stops_whoever_has_asked_for_it_and_says_so(tmp_path) -> None:
    elf = compiled("copies", tmp_path, "-O2")
    with debugged(elf) as gdb:
        gdb.do("-break-watch near[2]")
        gdb.console.clear()
        stop = gdb.go("-exec-continue")
        told, cycle = "".join(gdb.console), gdb.cycle()
        assert told.startswith(f"[cycle {cycle}: the DMA writes near+0x8, for core3]\n")
        assert (stop["thread-id"], stop["value"]) == ("4", {"old": "0", "new": "33"})
        stop = gdb.go("-exec-continue")
        assert (stop["thread-id"], stop["value"]) == ("4", {"old": "33", "new": "66"})
        stop = gdb.go("-exec-continue --reverse")
        assert stop["value"] == {"old": "66", "new": "33"}
        gdb.console.clear()
        stop = gdb.go("-exec-continue --reverse")
        assert told.splitlines()[0] in "".join(gdb.console)
        assert (stop["value"], gdb.cycle()) == ({"old": "33", "new": "0"}, cycle - 1)


def test_locals_and_call_chain_are_those_of_the_source(program, request) -> None:
    with debugged(program) as gdb:
        gdb.do(f"-break-insert sum.c:{line_of('sum', 'return product + 1')}")
        stop = gdb.go("-exec-continue")
        hart = int(stop["thread-id"]) - 1
        frames = gdb.frames()
        assert frames[0] == "weigh"
        assert frames[1] in ("add_up", "work")
        assert gdb.value("value * weight") == str(gdb_product(gdb, hart))
        gdb.do("-stack-select-frame 1")
        assert gdb.value("core") in (str(hart), "<optimized out>")


def gdb_product(gdb, hart: int) -> int:
    """What `weigh` computes for the first element, by the values that the source says."""
    return int(gdb.value("value")) * (hart + 1)


def test_back_to_the_last_write_of_a_variable(program, tmp_path) -> None:
    accesses = recorded(program, tmp_path).select(Kind.MEMORY)
    with debugged(program) as gdb:
        address = int(gdb.value("&grand").split()[0], 16)
        writes = accesses[(accesses["a"] == address) & (accesses["extra"] & STORE != 0)]
        assert to_the_end(gdb) == "the program has returned 0"
        assert gdb.value("grand") == "20288"
        gdb.do("-break-watch grand")
        stop = gdb.go("-exec-continue --reverse")
        assert stop["reason"] == "watchpoint-trigger"
        assert stop["value"] == {"old": "20288", "new": "0"}
        assert gdb.cycle() < int(writes["cycle"][-1])
        assert stop["frame"]["func"] == "work"
        assert (int(stop["thread-id"]) - 1, gdb.value("total")) == (0, "20288")
        stop = gdb.go("-exec-continue")
        assert stop["value"] == {"old": "0", "new": "20288"}
        assert gdb.cycle() == int(writes["cycle"][-1])


def test_steps_go_from_line_to_line_and_back_to_the_same_cycles(program) -> None:
    with debugged(program) as gdb:
        gdb.do("-break-insert -t main")
        gdb.go("-exec-continue")
        places = [(gdb.cycle(), gdb.value("$pc"))]
        for _ in range(3):
            gdb.go("-exec-step-instruction")
            places.append((gdb.cycle(), gdb.value("$pc")))
        assert sorted(set(places)) == places
        for place in places[-2::-1]:
            gdb.go("-exec-step-instruction --reverse")
            assert (gdb.cycle(), gdb.value("$pc")) == place
        gdb.do("-break-insert -t add_up")
        thread = gdb.go("-exec-continue")["thread-id"]
        at_entry = gdb.cycle()
        stop = gdb.go("-exec-finish")
        assert stop["reason"] == "function-finished"
        assert stop["thread-id"] == thread
        core = int(thread) - 1
        assert stop["return-value"] == str(120 * core * (core + 1) + 16)
        after = gdb.cycle()
        gdb.do(f"-break-insert -p {thread} add_up")
        for _ in range(2):
            gdb.go("-exec-continue --reverse")
            assert gdb.cycle() == at_entry
            gdb.say(f"monitor goto {after}")
            gdb.say("maintenance flush register-cache")
            assert gdb.cycle() == after


def test_with_scheduler_locking_others_do_not_stop_a_hart(program) -> None:
    with debugged(program) as gdb:
        gdb.do("-break-insert add_up")
        thread = gdb.go("-exec-continue")["thread-id"]
        gdb.do("-gdb-set scheduler-locking on")
        cycle = gdb.cycle()
        for _ in range(12):
            assert gdb.go("-exec-next")["thread-id"] == thread
            assert gdb.cycle() > cycle
            cycle = gdb.cycle()
        gdb.do("-gdb-set scheduler-locking off")
        gdb.do("-break-delete")
        gdb.do("-break-insert console_signed")
        assert gdb.go("-exec-continue")["thread-id"] == "9"


def test_values_can_be_changed_and_code_be_loaded(program) -> None:
    with debugged(program) as gdb:
        gdb.do("-break-insert console_signed")
        gdb.go("-exec-continue")
        gdb.say("set var value = 42")
        gdb.do("-break-delete")
        gdb.console.clear()
        to_the_end(gdb)
        assert "".join(gdb.console).startswith("42\n")
        gdb.say("monitor reset")
        gdb.say("maintenance flush register-cache")
        assert "Start address" in gdb.say("load")
        assert gdb.say("compare-sections").count("matched") >= 3
        assert "MIS-MATCHED" not in gdb.say("compare-sections")


def test_a_deadlock_or_trap_is_a_stop_from_which_one_can_go_back(tmp_path) -> None:
    with debugged(compiled("trap", tmp_path, "-O0")) as gdb:
        stop = gdb.go("-exec-continue")
        assert (stop["signal-name"], stop["thread-id"]) == ("SIGSEGV", "6")
        assert gdb.frames() == ["write_to", "work", "fork_loop"]
    elf = compiled("stuck", tmp_path, "-O0")
    with debugged(elf, "--max-cycles", "20000") as gdb:
        assert to_the_end(gdb) == "cycle limit of 20000 reached"
        gdb.do("-thread-select 4")
        assert gdb.frames()[0] == "meet"
        where = gdb.say("monitor where")
        assert where.count("waits at barrier 0 for core3") == 7
        gdb.do("-break-insert team_barrier")
        assert gdb.go("-exec-continue --reverse")["reason"] == "breakpoint-hit"


def test_monitor_commands_answer(program, tmp_path) -> None:
    with debugged(program) as gdb:
        assert gdb.say("monitor help").count("monitor ") == 11
        assert "is complete" in gdb.say("monitor barrier")
        gdb.say("monitor checkpoint here")
        here = gdb.cycle()
        gdb.say("monitor trace on")
        gdb.say("monitor goto 3000")
        assert "events of cycles" in gdb.say(f"monitor trace off {tmp_path}/part.trace")
        trace = Trace.open(tmp_path / "part.trace")
        cycles = trace.events["cycle"] + trace.first_cycle
        assert here <= cycles.min() <= cycles.max() < 3000
        gdb.say("monitor goto here")
        assert gdb.cycle() == here
        assert gdb.say("monitor icount").splitlines()[8].startswith("fc: ")
        assert "load_external" in gdb.say("monitor stalls")
        assert gdb.say("monitor regions") == "no region has ended\n"
        assert "is no cycle" in gdb.say("monitor goto nowhere")
        assert "goto CYCLE or NAME" in gdb.say("monitor goto")
