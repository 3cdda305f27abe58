"""Traces as files: what is written is read again, and what is no trace is refused in one line."""

import errno
import json
import re

import numpy as np
import pytest

from isa.extensions.profiles import profile
from isa.program import LineRange, LineTable, Program, Section, Segment, Symbol
from soc.chip.spec import load_chip
from soc.trace.header import ALIGNMENT, LENGTH_END, MAGIC
from soc.trace.reader import EVENT, Kind, Trace, TraceError, pcs_of
from soc.trace.writer import AHEAD, TraceWriter, hart_names, initiator_names, new_header

CODE = 0x1C000000
NOP, C_NOP = 0x00000013, 0x0001
EVENTS = np.array(
    [
        (0, Kind.ISSUE, 0, 0, CODE, NOP),
        (3, Kind.STALL, 1, 5, CODE + 4, 2),
        (3, Kind.MEMORY, 0, 0x21, 0x10000040, CODE + 6),
        (7, Kind.CONFLICT, 1, 3 | 2 << 8, CODE + 4, 0x1000000C),
        (7, Kind.DMA, 12, 1, 0x10000080, 0),
        (9, Kind.SLEEP, 0, 1, CODE + 8, 40),
    ],
    EVENT,
)


@pytest.fixture
def program():
    words = NOP.to_bytes(4, "little") + C_NOP.to_bytes(2, "little") + NOP.to_bytes(4, "little")
    return Program(
        (Segment(CODE, words, 10, executable=True),),
        CODE,
        (Symbol("main", CODE, 4, "function"), Symbol("wait", CODE + 6)),
        (Section(".text", CODE, 10, executable=True),),
        lines=LineTable([LineRange(CODE, CODE + 4, "main.c", 7)]),
        name="small.elf",
    )


@pytest.fixture
def written(tmp_path, program):
    writer = TraceWriter(tmp_path / "run.trace", new_header(load_chip("pulp"), program))
    writer.append(EVENTS[:2])
    writer.append(EVENTS[2:])
    writer.close(complete=True, cycles=50)
    return tmp_path / "run.trace"


def test_events_come_back_as_they_were_written(written):
    trace = Trace.open(written)
    assert trace.events.tolist() == EVENTS.tolist()
    assert (trace.complete, trace.gap, trace.cycles, trace.banks) == (True, "", 50, 16)
    assert trace.harts[:2] + trace.harts[-1:] == ["core0", "core1", "fc"]
    assert trace.header["chip"]["name"] == "pulp"


def test_events_begin_at_a_multiple_of_64_kib(written):
    data = written.read_bytes()
    start = LENGTH_END + int.from_bytes(data[len(MAGIC) : LENGTH_END], "little")
    assert start % ALIGNMENT == 0
    assert data[start:] == EVENTS.tobytes()


def test_an_event_takes_16_bytes():
    assert EVENT.itemsize == 16


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"kind": Kind.CONFLICT}, [3]),
        ({"kind": [Kind.ISSUE, Kind.DMA]}, [0, 4]),
        ({"hart": 1}, [1, 3]),
        ({"start": 3, "end": 7}, [1, 2]),
        ({"start": 4}, [3, 4, 5]),
        ({"pc": CODE + 4}, [1, 3]),
        ({"pc": (CODE + 4, CODE + 8)}, [1, 2, 3]),
        ({"kind": Kind.STALL, "hart": [0, 1], "end": 3}, []),
    ],
)
def test_events_are_selected_by_kind_hart_cycle_and_pc(written, wanted, rows):
    assert Trace.open(written).select(**wanted).tolist() == EVENTS[rows].tolist()


def test_cycles_are_those_of_the_run_wherever_the_trace_begins(tmp_path, program):
    header = new_header(load_chip("pulp"), program, first_cycle=1000)
    writer = TraceWriter(tmp_path / "late.trace", header)
    writer.append(EVENTS)
    writer.close(complete=True)
    trace = Trace.open(tmp_path / "late.trace")
    assert trace.select(start=1003, end=1004).tolist() == EVENTS[1:3].tolist()
    assert trace.cycles == 1010


def test_addresses_have_functions_lines_and_instructions(written):
    trace = Trace.open(written)
    pcs = [CODE, CODE + 2, CODE + 4, CODE + 6, CODE + 9, CODE + 10, 0]
    assert list(trace.function_of(pcs)) == ["main", "main", "", "wait", "wait", "", ""]
    assert list(trace.line_of(pcs[:3])) == ["main.c:7", "main.c:7", ""]
    words = [trace.word_at(pc) for pc in (CODE, CODE + 4, CODE + 10, 0)]
    assert words == [0x13, 1, None, None]  # nop, c.nop
    assert trace.symbols == [(CODE, 4, "main"), (CODE + 6, 4, "wait")]


def test_an_inner_label_ends_where_its_function_does_not(tmp_path, program):
    header = new_header(load_chip("pulp"), program)
    header["symbols"] = [[0, 100, "outer"], [40, 200, "inner"]]
    TraceWriter(tmp_path / "run.trace", header).close()
    names = Trace.open(tmp_path / "run.trace").function_of([39, 40, 150, 240])
    assert list(names) == ["outer", "inner", "inner", ""]


def test_every_kind_says_which_instruction_it_is_about():
    a_or_b = [CODE, CODE + 4, CODE + 6, CODE + 4, 0, CODE + 8]
    assert pcs_of(EVENTS).tolist() == a_or_b


def test_a_recording_that_broke_off_is_read_up_to_there(tmp_path, program):
    writer = TraceWriter(tmp_path / "run.trace", new_header(load_chip("pulp"), program))
    writer.append(EVENTS)
    writer.stream.write(b"half an event"[:9])
    writer.stream.close()
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.events.tolist() == EVENTS.tolist()
    assert trace.gap == "the recording broke off"
    assert trace.cycles == 10


def test_a_file_that_was_cut_keeps_what_is_left(written):
    data = written.read_bytes()
    written.write_bytes(data[:-20])
    trace = Trace.open(written)
    assert trace.events.size == 4
    assert trace.gap == "the file is truncated: 4 of 6 events are left"


def test_a_trace_without_events_is_read(tmp_path, program):
    writer = TraceWriter(tmp_path / "run.trace", new_header(load_chip("pulp"), program))
    writer.close(complete=False, why="limit of 0 events")
    trace = Trace.open(tmp_path / "run.trace")
    assert (trace.events.size, trace.cycles, trace.gap) == (0, 0, "limit of 0 events")


class _FullDisk:
    """A stream that takes so many bytes and no more."""

    def __init__(self, stream, room):
        self.stream, self.room = stream, room

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = self.stream.write(data[: self.room])
        self.room -= done
        return done


def test_a_full_disk_keeps_the_whole_events_of_a_batch(tmp_path, program):
    writer = TraceWriter(tmp_path / "run.trace", new_header(load_chip("pulp"), program))
    writer.append(EVENTS[:3])
    stream, writer.stream = writer.stream, _FullDisk(writer.stream, 24)
    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device$"):
        writer.append(EVENTS[3:])
    writer.stream = stream
    assert (tmp_path / "run.trace").stat().st_size == writer.start + 4 * 16
    writer.close(why="the disk is full")
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.events.tolist() == EVENTS[:4].tolist()
    assert trace.gap == "the disk is full"


def test_room_that_is_asked_ahead_does_not_show(tmp_path, program):
    file = tmp_path / "run.trace"
    writer = TraceWriter(file, new_header(load_chip("pulp"), program))
    writer.append(EVENTS)
    after = writer.start + EVENTS.nbytes
    assert (file.stat().st_size, writer.room) == (after, after + writer.start)
    many = np.resize(EVENTS, AHEAD // 16)
    writer.append(many)
    writer.append(many)
    assert writer.room == after + 2 * many.nbytes + AHEAD
    writer.close()
    size = writer.start + 16 * writer.count
    assert file.stat().st_size == size
    assert 512 * file.stat().st_blocks < size + AHEAD


def test_a_new_recording_leaves_the_old_one_to_who_reads_it(written, program):
    old = Trace.open(written)
    writer = TraceWriter(written, new_header(load_chip("pulp"), program))
    writer.close(why="nothing happened")
    assert old.events.tolist() == EVENTS.tolist()
    assert Trace.open(written).events.size == 0


def test_a_link_to_a_trace_stays_one(written, program, tmp_path):
    link = tmp_path / "latest.trace"
    link.symlink_to(written)
    TraceWriter(link, new_header(load_chip("pulp"), program)).close()
    assert link.is_symlink()
    assert Trace.open(written).events.size == 0


def test_initiators_are_named_by_their_numbers():
    pulp, small = load_chip("pulp"), load_chip("pulp", {"cores": 2})
    assert hart_names(small) == ["core0", "core1", "fc"]
    assert initiator_names(pulp)[7:] == [
        *("core7", "fc", "external1", "external2", "external3", "dma0", "dma1", "dma2", "dma3")
    ]
    unused = [""] * 6  # the interconnect's tree has a power of two of inputs
    assert initiator_names(small) == [
        *("core0", "core1", "fc", "external1", "external2", "external3", *unused),
        *("dma0", "dma1", "dma2", "dma3"),
    ]


def _header(program, **changes):
    text = json.dumps(new_header(load_chip("pulp"), program) | {"complete": True} | changes)
    return MAGIC + len(text).to_bytes(4, "little") + text.encode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a trace: the file is empty"),
        (b"\x7fELF1234", "not a trace: it begins with b'\\x7fELF1234', not with b'PULPTRC1'"),
        (b"PULPTRC2....", "a trace of format 2; this version of pulpsim reads format 1"),
        (MAGIC + b"\0", "truncated: its header ends at byte 12, the file at 9"),
        (MAGIC + b"\0\0\1\0{}", "truncated: its header ends at byte 65548, the file at 14"),
        (MAGIC + b"\2\0\0\0{{", "damaged: its header is not JSON"),
        (MAGIC + b"\2\0\0\0[]", "damaged: its header is not a JSON object"),
        (MAGIC + b"\2\0\0\0{}", "damaged: its header has no 'version' of type int"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, data, message):
    file = tmp_path / "other"
    file.write_bytes(data)
    with pytest.raises(TraceError, match=f"^{re.escape(f'{file}: {message}')}$"):
        Trace.open(file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 7}, "a trace of format 7; this version of pulpsim reads format 1"),
        ({"harts": None}, "damaged: its header has no 'harts' of type list"),
        ({"symbols": [[1, 2]]}, "damaged: 'symbols' in its header has [1, 2]"),
        ({"code": [[-1, "00"]]}, "damaged: 'code' in its header has [-1, '00']"),
        ({"harts": [1]}, "damaged: 'harts' in its header are not names"),
        ({"regions": {"a": "b"}}, "damaged: 'regions' in its header has names without numbers"),
    ],
)
def test_a_header_with_mistakes_is_refused(tmp_path, program, changes, message):
    file = tmp_path / "run.trace"
    file.write_bytes(_header(program, **changes))
    with pytest.raises(TraceError, match=f"^{re.escape(f'{file}: {message}')}$"):
        Trace.open(file)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    file = tmp_path / "none"
    with pytest.raises(
        TraceError, match=f"^{re.escape(str(file))}: cannot be read: No such file or directory$"
    ):
        Trace.open(file)


def test_every_instruction_set_is_found_by_its_name():
    from isa.extensions.profiles import profile_named

    for chosen in [("ri5cy", "f"), ("ri5cy", "x", True), ("cv32e40p", "x"), ("cv32e40p", "f")]:
        assert profile_named(profile(*chosen).name).name == profile(*chosen).name
