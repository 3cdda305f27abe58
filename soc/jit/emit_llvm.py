"""The text of a segment for LLVM.

It calls the step functions of soc.segments with the addresses of decoded rows. These are constants,
as is the chip's configuration; the functions are inlined, and the rest is LLVM's.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
from llvmlite.binding import llvm_version_info

from soc.chip_state import Chip
from soc.decode import BRANCH, HWLOOP, LOAD, STORE, UNDECODED
from soc.hart_status import GO_ON, RESUMED, SERVED
from soc.hot_code import ACCESS, CONVENTION
from soc.linking import Link
from soc.links import FLOATS
from soc.segment_path import Place, Segment, goes_back, row_behind, rows_of
from soc.segment_writer import PROLOGUE, STEPS, TAKES, Writer


def constant(symbol: str, record: np.void) -> str:
    """LLVM's text of a constant with a record's bytes."""
    data = record.tobytes()
    text = data.hex("\\")
    return f'@{symbol} = constant [{len(data)} x i8] c"\\{text}", align 8'


def _first_of_lines(chip: Chip, segment: Segment) -> list[int]:
    """Addresses of instructions with whose hand-over the fetch comes to a line.

    Where a hardware loop ends and goes back it does not.
    """
    handed = segment.places[1 if segment.begins == ACCESS else 0 :]
    if chip.code[segment.places[-2].row]["kind"] not in (LOAD, STORE) or segment.pauses:
        handed = handed[:-1]
    turns = [each for each, behind in pairwise(segment.places) if goes_back(chip, each, behind)]
    return [
        place.pc
        for place in handed
        if place.pc & 12 == 0
        and (place.pc & 3) + int(chip.code[place.row]["size"]) >= 4
        and place not in turns
    ]


def _targets(chip: Chip, segment: Segment) -> list[int]:
    """Where its hardware loops go back to; the access with which it begins ends none."""
    run = segment.places[1 if segment.begins == ACCESS else 0 :]
    return [behind.pc for place, behind in pairwise(run) if goes_back(chip, place, behind)]


def _branch_target(chip: Chip, segment: Segment) -> int | None:
    """Where its only branch goes to that is taken, if no hardware loop goes back.

    The target of one jump is all that a hart's cache remembers.
    """
    taken = {
        behind.pc
        for place, behind in pairwise(segment.places)
        if chip.code[place.row]["kind"] == BRANCH and chip.code[place.row]["imm"] < 0
    }
    return taken.pop() if len(taken) == 1 and not _targets(chip, segment) else None


def _rows_beside(chip: Chip, place: Place, behind: Place) -> list[int]:
    """Rows that a branch looks at besides its own: the one in memory behind it, and its target's.

    What is not decoded may be later.
    """
    shadow = row_behind(chip, place)
    rows = [] if shadow is None else [shadow, behind.row]
    return [row for row in rows if chip.code[row]["kind"] != UNDECODED]


def _enter(writer: Writer, chip: Chip, segment: Segment) -> None:
    """Leave unless all goes as it likely does: what is tested first need not be in between."""
    places = segment.places
    lines = _first_of_lines(chip, segment)
    targets, target = _targets(chip, segment), _branch_target(chip, segment)
    if segment.begins == ACCESS:
        writer.rely_on("is_common")
    writer.find_lines(lines)
    for each in targets if target is None else [target]:
        writer.call("find_target", f"i64 {each}")
    if segment.begins == ACCESS:
        places = places[1:]
        writer.rely_on("is_common")  # still, whatever looking up has done
        writer.leave_unless("is_expected", f"i64 {places[0].pc}")
    else:
        writer.leave_unless("is_usual", "i64 %now")
        writer.leave_unless("is_ready", f"ptr @row_{places[0].row}", "i64 %now")
    writer.enter_lines(lines)
    if target is not None:
        writer.leave_unless("has_target", f"i64 {target}")
    out = "out" if segment.way_out else "leave"
    for place, behind in pairwise(places):
        if chip.code[place.row]["kind"] == HWLOOP:  # what loops do behind it is not known before
            break
        writer.loop(chip, segment, place, behind, out)
        out = "leave" if goes_back(chip, place, behind) else out


def _segment_text(chip: Chip, segment: Segment, steps: str) -> str:
    """The function itself."""
    writer = Writer(steps)
    places, way = segment.places, segment.way_out
    _enter(writer, chip, segment)
    if segment.begins == ACCESS:
        access, *places = places
        writer.call("begin_segment", f"ptr @row_{access.row}", f"i64 {access.row}", "i64 %now")
    else:
        writer.call("expect_request")
    for place, behind in pairwise(places):
        for row in _rows_beside(chip, place, behind):
            writer.rely_on("is_row", f"i64 {row}", f"ptr @row_{row}")
        writer.follow(place, behind)
    result = str(GO_ON)
    if segment.pauses:
        writer.call("pause_segment", f"i64 {places[-1].row}")
        result = writer.result()
    writer.end(result)
    writer.lines.append("leave:")
    writer.end(str(SERVED if segment.begins == ACCESS else RESUMED))
    writer.turn(int(chip.config[0]["cores"]))
    return "\n".join(
        [
            f"define {CONVENTION} i64 @{segment.symbol}({TAKES}) {{",
            "%ret = alloca i64",
            "%exc = alloca ptr",
            "%state = alloca i64",
            *PROLOGUE,
            *writer.lines,
            *(_way_on(way) if way else ()),
            "never:",
            "unreachable",
            "}",
        ]
    )


def _way_on(way: Segment) -> Iterator[str]:
    """Go on as where the loop is left."""
    yield "out:"
    yield f"%way = tail call {CONVENTION} i64 @{way.symbol}({TAKES})"
    yield "ret i64 %way"


def module_text(chip: Chip, segment: Segment, steps: str) -> str:
    """LLVM's text of a segment, with all that it refers to.

    steps    what the symbols of the step functions begin with
    """
    rows = rows_of(chip, segment)
    declared = [
        f"declare i32 @{steps}_{step}(ptr, ptr, i64, i64{takes})" for step, takes in STEPS.items()
    ]
    return "\n".join(
        [
            "!0 = !{}",
            "declare void @llvm.assume(i1)",
            "declare i64 @llvm.cttz.i64(i64, i1)",
            constant("pulpsim_config", chip.config[0]),
            *(constant(f"row_{index}", chip.code[index]) for index in rows),
            *declared,
            _pure_calls(),
            *(_segment_text(chip, way, steps) for way in segment.ways),
        ]
    )


PURE_SYMBOL = "{}_pure"
"""Under this name too, segments call the definitions of floating-point operations."""

PURE = "memory(argmem: readwrite) nounwind willreturn"
NOT_KEPT = " captures(none)" if llvm_version_info >= (21,) else " nocapture"


COLD = "preserve_mostcc"
"""How segments call what is rare: the callee saves registers, not each segment on its way in."""


@cache
def _pure_calls() -> str:
    """What LLVM may know of these definitions: they touch nothing else, and always succeed."""
    return "\n".join(line for link in FLOATS.links.values() for line in _pure_call(link))


def _pure_call(link: Link) -> Iterator[str]:
    pure = PURE_SYMBOL.format(link.symbol)
    kinds = ["ptr", "ptr", *["i64"] * len(link.takes)]
    names = ", ".join(f"{kind} %{place}" for place, kind in enumerate(kinds))
    takes = [f"{kind}{NOT_KEPT if kind == 'ptr' else ''}" for kind in kinds]
    yield f"declare i32 @{pure}({', '.join(takes)}) {PURE}"
    named = ", ".join(f"{kind} %{place}" for place, kind in enumerate(takes))
    yield f"define internal {COLD} i32 @{pure}_apart({named}) noinline {PURE} {{"
    yield f"call i32 @{pure}({names})"
    yield "ret i32 0"
    yield "}"
    yield f"define i32 @{link.symbol}({names}) alwaysinline {{"
    yield f"call {COLD} i32 @{pure}_apart({names})"
    yield "ret i32 0"
    yield "}"
