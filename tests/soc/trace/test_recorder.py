"""A recorded run: as without a trace, and every event in its cycle."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.workload import elf, products
from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from pulpsim.fidelity.programs import runs
from soc.aot.units import sort_events
from soc.chip.spec import load_chip
from soc.reset import new_chip
from soc.run import run_program
from soc.trace.open_waits import PATIENCE
from soc.trace.reader import EVENT, Kind, Trace
from soc.trace.recorder import BUFFER, Recording
from soc.trace.sort import in_order
from soc.trace.writer import TraceWriter
from tests.soc.engine.test_engines import training_step
from tests.soc.random_programs import random_program
from tests.soc.trace.trace_account import check, numbers, recorded
from trainlib.launch import program as kernel_program

LIMIT = 40_000
MEASURED = [run for run in runs() if run.core == "cv32e40p" and "zfinx" not in run.configuration][
    ::40
]
"""Of one instruction set: each has an interpreter of its own, which takes long to compile."""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.trace"


@pytest.fixture(scope="module")
def matmul():
    return kernel_program("matmul_f32", {"n": 24, "k": 24, "m": 24}, "pulp")


@pytest.fixture(scope="module")
def whole(matmul, tmp_path_factory):
    """A trace of all that happens in a matrix product, with DMA, barriers and regions."""
    file = tmp_path_factory.mktemp("whole") / "run.trace"
    return recorded(file, matmul.program)


@pytest.mark.parametrize("name", ["hello", "speed2_mm_hwl", "speed2_mm_naive"])
def test_a_trace_changes_nothing_and_adds_up_to_the_counters(name, file):
    plain = run_program(elf(name), max_cycles=LIMIT)
    result, trace = recorded(file, elf(name), max_cycles=LIMIT)
    assert numbers(result) == numbers(plain)
    assert result.chip.l1.tobytes() == plain.chip.l1.tobytes()
    check(trace, result)


def test_a_kernel_with_dma_barriers_and_regions_adds_up(whole, matmul):
    result, trace = whole
    assert numbers(result) == numbers(run_program(matmul.program))
    check(trace, result)
    assert trace.select(Kind.CONFLICT).size > 100
    assert trace.select(Kind.SLEEP).size > 16


def test_random_programs_add_up_and_are_not_changed(file, request):
    for seed in range(300 if request.config.getoption("--full") else 8):
        program = random_program(seed)
        plain = run_program(program, max_cycles=100_000)
        result, trace = recorded(file, program, max_cycles=100_000)
        assert numbers(result) == numbers(plain), seed
        check(trace, result)


def test_measured_programs_add_up(file, request):
    is_full = request.config.getoption("--full")
    for run in runs() if is_full else MEASURED:
        result = run.simulate(trace=Recording(file))
        check(Trace.open(file), result)


def test_both_engines_record_the_same_bytes(file, request):
    for seed in range(50 if request.config.getoption("--full") else 2):
        program = random_program(seed)
        recorded(file, program, max_cycles=100_000)
        stored = file.read_bytes()
        result, trace = recorded(file, program, engine="event", max_cycles=100_000)
        check(trace, result)
        assert file.read_bytes() == stored, seed


def test_events_are_sorted_by_cycle_hart_kind_and_fields():
    """In whichever order they are noted, and however far apart they are."""
    random = np.random.default_rng(1)
    chip = new_chip(load_chip("pulp"), "x", 600)
    noted = chip.trace.view(EVENT)[:500]
    for name, limit in {"hart": 16, "kind": 8, "extra": 3, "a": 3, "b": 3}.items():
        noted[name] = random.integers(0, limit, 500) + (name == "kind")
    noted["cycle"] = 1000 + random.integers(0, 20, 500)
    first = (Kind.MEMORY, Kind.CONFLICT, Kind.DMA, Kind.TRANSFER, Kind.SLEEP, Kind.REGION)
    ranks = {kind: rank for rank, kind in enumerate((*first, Kind.ISSUE, Kind.STALL))}
    wanted = sorted(noted.tolist(), key=lambda e: (e[0], e[2], ranks[e[1]], e[3], e[4], e[5]))

    for order in (range(500), random.permutation(500), range(499, -1, -1)):
        noted[:] = noted[list(order)]
        assert sort_events(chip, 500)
        assert chip.trace_sorted.view(EVENT)[:500].tolist() == wanted
        assert in_order(noted).tolist() == wanted


def test_both_engines_record_the_same_where_dma_and_cores_compete(file):
    some = ("cycle=20000-23000",)
    _, trace = recorded(file, training_step(), filters=some)
    events = trace.events.tolist()
    _, trace = recorded(file, training_step(), filters=some, engine="event", max_cycles=24_000)
    of_dma = trace.select(Kind.CONFLICT, hart=range(12, 16))
    assert of_dma.size > 100
    assert trace.events.tolist() == events


def test_the_size_of_batches_changes_nothing(whole, file, matmul, monkeypatch):
    monkeypatch.setattr("soc.trace.recorder.BUFFER", 1)
    for module in ("soc.trace.recorder", "soc.trace.open_waits"):
        monkeypatch.setattr(f"{module}.PATIENCE", 10)
    result, trace = recorded(file, matmul.program)
    check(trace, result)
    assert trace.events.tolist() == whole[1].events.tolist()


def test_the_event_engine_writes_batches_too(file):
    spec = load_chip("pulp")
    _, trace = recorded(file, products(spec, 24), spec)
    events = trace.events.tolist()
    _, trace = recorded(file, products(spec, 24), spec, engine="event")
    assert trace.events.size > BUFFER
    assert trace.events.tolist() == events


def test_a_run_that_ends_anywhere_adds_up(file):
    program = random_program(3)
    for cycles in range(1500, 1530):
        result, trace = recorded(file, program, max_cycles=cycles)
        check(trace, result)


def test_the_end_of_a_run_cuts_no_stall_that_is_over_before(file):
    def over(trace):
        stalls = trace.select(Kind.STALL)
        return stalls[stalls["cycle"] + stalls["b"] < 1000].tolist()

    program, some = random_program(5), ("cycle=0-1000",)
    whole = over(recorded(file, program, filters=some)[1])
    assert whole
    for cycles in range(1001, 1030):
        assert over(recorded(file, program, filters=some, max_cycles=cycles)[1]) == whole


@pytest.fixture(scope="module")
def long_sleep(tmp_path_factory):
    """One core works for some buffers' worth of events; seven sleep at a barrier meanwhile."""
    spec = load_chip("pulp")
    file = tmp_path_factory.mktemp("sleep") / "run.trace"
    return recorded(file, products(spec, 800, working=1), spec)


def test_waits_longer_than_the_buffer_are_told_as_one(long_sleep):
    result, trace = long_sleep
    check(trace, result)
    assert trace.events.size > 3 * BUFFER
    for core in range(1, 8):
        sleep = trace.select(Kind.SLEEP, core)
        longest = sleep[np.argmax(sleep["b"])]
        assert longest["b"] > 50 * PATIENCE
        assert trace.select(Kind.STALL, core, pc=int(longest["a"]))["b"].max() == longest["b"]
        issues = trace.select(Kind.ISSUE, core)["cycle"].tolist()
        assert (longest["cycle"] - 1, longest["cycle"] + longest["b"]) in pairwise(issues)


def test_the_limit_ends_the_recording_and_not_the_run(whole, file, matmul):
    result, trace = whole
    limited, start = recorded(file, matmul.program, limit=5000)
    assert numbers(limited)["harts"] == numbers(result)["harts"]
    assert start.events.tolist() == trace.events[:5000].tolist()
    end = start.events["cycle"][-1] + 1
    assert start.gap == f"it ends in cycle {end}: its limit of 5000 events is reached"
    assert limited.warnings == (f"trace {file}: {start.gap}",)


def test_a_trace_has_no_more_cycles_than_an_event_can_tell(file, monkeypatch):
    monkeypatch.setattr("soc.trace.recorder.MOST_CYCLES", 1000)
    result, trace = recorded(file, elf("hello"))
    assert trace.gap == "it ends in cycle 1000: it has 1000 cycles, the most that it can have"
    assert trace.events["cycle"][-1] == 999
    assert result.exit.reason == "exit"


def test_a_run_without_end_tells_where_its_harts_wait(file):
    source = "li t0, 0x10204000; li t1, 1; sw t1, 8(t0); p.elw t1, 0x3c(t0)"
    program = assemble(source.replace("; ", "\n"), profile("ri5cy", "x"))
    spec = load_chip("pulp", {"fabric_controller.present": False})
    result, trace = recorded(file, program, spec)
    assert result.exit.reason == "deadlock"
    check(trace, result)


def test_a_limit_in_the_middle_of_a_buffer_is_exact(long_sleep, file):
    spec = load_chip("pulp")
    limit = BUFFER + 1234
    result, trace = recorded(file, products(spec, 800, working=1), spec, limit=limit)
    expected = long_sleep[1].events[:limit]
    assert trace.events.size == limit
    same = trace.events == expected
    cut = ~same & (trace.events["b"] < expected["b"])  # waits that go on after the limit
    assert (same | cut).all()
    assert 7 <= cut.sum() <= 16
    assert numbers(result)["harts"] == numbers(long_sleep[0])["harts"]


FILTERS = {
    "kind=issue,stall": {"kind": [Kind.ISSUE, Kind.STALL]},
    "kind=conflict": {"kind": Kind.CONFLICT},
    "hart=1-2,fc,dma0": {"hart": [1, 2, 8, 12]},
    "hart=core7": {"hart": 7},
    "cycle=2000-2500": {"start": 2000, "end": 2500},
    "cycle=2000": {"start": 2000, "end": 2001},
}


@pytest.mark.parametrize("text", FILTERS)
def test_filters_keep_what_they_say(text, whole, file, matmul):
    result, trace = whole
    filtered, some = recorded(file, matmul.program, filters=(text,))
    expected = np.array(trace.select(**FILTERS[text]))
    expected["cycle"] -= some.first_cycle
    assert some.events.tolist() == expected.tolist()
    assert expected.size
    assert some.complete
    assert numbers(filtered) == numbers(result)
    assert some.header["filters"] == [text]


def test_filters_of_addresses_keep_what_is_about_these_instructions(whole, file, matmul):
    _, trace = whole
    pcs, counts = np.unique(trace.select(Kind.ISSUE)["a"], return_counts=True)
    hot = int(pcs[np.argmax(counts)])
    for text in (f"pc={hot:#x}-{hot + 8:#x}", f"pc={hot}-{hot + 8}"):
        _, some = recorded(file, matmul.program, filters=(text,))
        assert some.events.tolist() == trace.select(pc=(hot, hot + 8)).tolist()


def test_a_function_is_a_range_of_addresses(file):
    _, whole = recorded(file, elf("hello"))
    expected = {}
    for name in ("main", "_start"):
        symbol = elf("hello").symbol(name)
        start = symbol.address
        end = start + symbol.size if symbol.size else 1 << 32
        expected[name] = whole.select(pc=(start, end))
        expected[name] = expected[name][whole.function_of(_pcs(expected[name])) == name].tolist()
    for name, events in expected.items():
        _, some = recorded(file, elf("hello"), filters=(f"function={name}",))
        assert events
        assert some.events.tolist() == events


def _pcs(events):
    return np.where(events["kind"] == Kind.MEMORY, events["b"], events["a"])


def test_a_region_keeps_each_hart_between_its_markers(whole, file, matmul):
    _, trace = whole
    number = next(n for n, name in matmul.regions.items() if name == "compute")
    expected = []
    for h in range(8):
        marks = np.flatnonzero(
            (trace.events["kind"] == Kind.REGION)
            & (trace.events["hart"] == h)
            & (trace.events["extra"] == number)
        )
        for begin, end in marks.reshape(-1, 2):
            inside = trace.events[begin : end + 1]
            expected += inside[(inside["hart"] == h) & (inside["kind"] == Kind.STALL)].tolist()
    for text in ("region=compute", f"region={number}"):
        filters = (text, "kind=stall")
        _, some = recorded(file, matmul.program, filters=filters)
        assert sorted(some.events.tolist()) == sorted(expected)
        assert expected


class _Interrupted(TraceWriter):
    """Ctrl-C at the third batch, before it is written or after it."""

    def put(self, place, events):
        self.puts = getattr(self, "puts", 0) + 1
        if self.puts == 3 and self.is_early:
            raise KeyboardInterrupt
        super().put(place, events)
        if self.puts == 3:
            raise KeyboardInterrupt


@pytest.mark.parametrize("is_early", [True, False])
def test_ctrl_c_while_a_batch_is_written_loses_nothing(is_early, long_sleep, file, monkeypatch):
    monkeypatch.setattr("soc.trace.recorder.TraceWriter", _Interrupted)
    monkeypatch.setattr(_Interrupted, "is_early", is_early, raising=False)
    spec = load_chip("pulp")
    result, trace = recorded(file, products(spec, 800, working=1), spec)
    assert result.exit.reason == "interrupted"
    assert trace.gap == f"the run was interrupted in cycle {result.cycles}"
    trace.header |= {"complete": True}
    check(trace, result)
    whole = long_sleep[1].select([Kind.ISSUE, Kind.MEMORY, Kind.DMA], end=result.cycles)
    assert trace.select([Kind.ISSUE, Kind.MEMORY, Kind.DMA]).tolist() == whole.tolist()


MOST = 3 * BUFFER // 2
"""Events for which a disk has room."""


class _Full(TraceWriter):
    def put(self, place, events):
        if place + events.size > MOST:
            raise OSError(28, "No space left on device")
        super().put(place, events)


def test_a_full_disk_ends_the_recording_and_not_the_run(long_sleep, file, monkeypatch):
    monkeypatch.setattr("soc.trace.recorder.TraceWriter", _Full)
    spec = load_chip("pulp")
    result, trace = recorded(file, products(spec, 800, working=1), spec)
    assert numbers(result)["harts"] == numbers(long_sleep[0])["harts"]
    end = trace.events["cycle"][-1] + 1
    reason = "it cannot be written: No space left on device"
    assert trace.gap == f"it ends in cycle {end}: {reason}"
    assert result.warnings == (f"trace {file}: {trace.gap}",)
    count = trace.events.size
    assert BUFFER // 2 < count < MOST
    assert trace.select(Kind.ISSUE).tolist() == [
        event for event in long_sleep[1].events[:count].tolist() if event[1] == Kind.ISSUE
    ]


def test_a_trace_that_cannot_be_begun_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"^trace /dev/full: cannot be written: No space left on device$"
    ):
        run_program(elf("hello"), trace=Recording(tmp_path.__class__("/dev/full")))


def test_the_header_tells_chip_program_and_counts(whole, matmul):
    _, trace = whole
    assert trace.header["program"] == "matmul_f32"
    assert trace.header["chip"]["l1"]["banks"] == 16
    assert trace.regions == matmul.regions
    assert trace.header["exit"] == {"reason": "exit", "code": 0, "message": "", "hart": None}
    assert trace.header["counts"][0]["instructions"] == trace.select(Kind.ISSUE, 0).size
    assert [bank["conflicts"] for bank in trace.header["l1"]] == np.bincount(
        trace.select(Kind.CONFLICT)["extra"] & 0xFF, minlength=16
    ).tolist()


def test_transfers_of_the_dma_begin_and_end(whole):
    result, trace = whole
    transfers = trace.select(Kind.TRANSFER)
    started = transfers[transfers["extra"] == 0]
    assert started["b"].sum() == 3 * 4 * 24 * 24  # A and B in, C out, fp32
    assert transfers["extra"].tolist() == [0, 0, 1, 0, 1]  # A and B share an id
    assert set(transfers["a"].tolist()) == {0}
    beats = trace.select(Kind.DMA)
    assert beats.size == result.chip.dma[0]["accesses"]
    assert (beats["extra"] == 1).sum() * 4 == 2 * 4 * 24 * 24
    inward, outward = (beats["cycle"][beats["extra"] == write] for write in (1, 0))
    done = transfers["cycle"][transfers["extra"] == 1].tolist()
    assert inward.max() < done[0] < outward.min() < outward.max() < done[1]


LONG = "9" * 5000  # digits: more than Python reads as a number

BAD = {
    "nothing": "'nothing' must be KEY=VALUE with a KEY of kind, hart, cycle, pc, function, region",
    "kind=": "'kind=' must be KEY=VALUE with a KEY of kind, hart, cycle, pc, function, region",
    "kind=isue": "'kind=isue': 'isue' is no kind of event; did you mean issue?",
    "cycle=9-3": "'cycle=9-3': '9-3' is no cycle and no range such as 0x100-0x200",
    "pc=main": "'pc=main': 'main' is no pc and no range such as 0x100-0x200",
    "hart=9-99": "'hart=9-99': no hart '9-99'; there are core0, core1, core2, core3, core4, "
    "core5, core6, core7, fc, external1, external2, external3, ...",
    f"hart={LONG}": f"'hart={LONG}': no hart '{LONG}'; there are core0, core1, core2, core3, "
    "core4, core5, core6, core7, fc, external1, external2, external3, ...",
    f"region={LONG}": f"'region={LONG}': no region '{LONG}'; name one by its number; there are "
    "outer",
    "hart=core9": "'hart=core9': no hart 'core9'; did you mean core7?",
    "function=mian": "'function=mian': the program has no function 'mian'; did you mean main?",
    "region=inner": "'region=inner': no region 'inner'; name one by its number; there are outer",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_filter_with_a_mistake_is_refused(text, file):
    with pytest.raises(ValueError, match=f"^{re.escape(f'trace filter {BAD[text]}')}$"):
        recorded(file, replace(elf("hello"), regions={0: "outer"}), filters=(text,))
    assert not file.exists()
