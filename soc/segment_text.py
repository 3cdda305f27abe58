"""The text of a segment for LLVM.

It calls the step functions of soc.segments with the addresses of decoded rows. These are constants,
as is the chip's configuration; the functions are inlined, and the rest is LLVM's.
"""

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise

import numpy as np
from llvmlite.binding import llvm_version_info

from soc.alias_scopes import ENTRY
from soc.chip_state import ARRAYS, Chip
from soc.decode import HWLOOP, LOAD, STORE
from soc.hart_status import ENTERED, GO_ON, RESUMED, RUN, SERVED
from soc.hot_code import ACCESS
from soc.linking import Link
from soc.links import FLOATS
from soc.segment_path import Place, Segment, goes_back

STEPS = {
    "is_expected": ", i64",
    "begin_segment": ", ptr, i64, i64",
    "is_usual": ", i64",
    "is_ready": ", ptr, i64",
    "expect_request": "",
    "find_next_line": ", i64",
    "has_next_line": ", i64",
    "loops_back": ", i64, i64, i64",
    "runs_out": ", i64, i64",
    "find_target": ", i64",
    "has_target": ", i64",
    "follow_segment": ", ptr, i64, i64",
    "end_segment": ", ptr, i64, ptr, i64, i64",
    "pause_segment": ", i64",
    "next_code": ", i64",
    "end_turns": ", i64",
}
"""What a segment consists of: step functions of soc.segments, what they take besides chip and h."""


def constant(symbol: str, record: np.void) -> str:
    """LLVM's text of a constant with a record's bytes."""
    data = record.tobytes()
    text = data.hex("\\")
    return f'@{symbol} = constant [{len(data)} x i8] c"\\{text}", align 8'


_PLACES = list(ARRAYS)
_APART = ("harts", "fetch", "l1", "wheel", "banks")
PROLOGUE = [  # these arrays do not overlap: for calls, which have no scopes (soc.alias_scopes)
    "%table = inttoptr i64 %chip to ptr",
    *(
        line
        for name in _APART
        for line in (
            f"%{name}_place = getelementptr i8, ptr %table, i64 {ENTRY * _PLACES.index(name)}",
            f"%{name}_word = load i64, ptr %{name}_place, align 8, !invariant.load !0",
            f"%{name} = inttoptr i64 %{name}_word to ptr",
        )
    ),
    *(
        f'call void @llvm.assume(i1 true) ["separate_storage"(ptr %{a}, ptr %{b})]'
        for a, b in combinations(_APART, 2)
    ),
]


TAKES = "i64 %chip, i64 %h, i64 %now, i64 %others"
"""What the function of a segment takes: see soc.hot_code.call_segment."""


class Writer:
    """Writes LLVM's text of a segment."""

    def __init__(self, steps: str):
        self.steps = steps
        self.lines: list[str] = []
        self.values = 0

    def call(self, step: str, *arguments: str) -> None:
        given = ", ".join(("ptr %ret", "ptr %exc", "i64 %chip", "i64 %h", *arguments))
        self.lines.append(f"call i32 @{self.steps}_{step}({given})")

    def result(self, kind: str = "i64") -> str:
        self.values += 1
        self.lines.append(f"%v{self.values} = load {kind}, ptr %ret")
        return f"%v{self.values}"

    def leave_unless(self, step: str, *arguments: str, otherwise: str = "leave") -> None:
        """Leave everything to the interpreter, or go elsewhere, if a step function says no."""
        self.call(step, *arguments)
        value = self.result("i8")
        n = self.values
        self.lines += [
            f"%c{n} = icmp ne i8 {value}, 0",
            f"br i1 %c{n}, label %go{n}, label %{otherwise}",
            f"go{n}:",
        ]

    def turn(self) -> None:
        """Jump to the segment of the next hart that L1 serves, if this one and that one allow."""
        self.lines += [
            "end:",
            "%ended = load i64, ptr %state",
            f"%entered = icmp eq i64 %ended, {ENTERED}",
            "br i1 %entered, label %entering, label %staying",
            "entering:",
            "%none = icmp eq i64 %others, 0",
            "br i1 %none, label %alone, label %turning",
            "alone:",
            f"ret i64 {ENTERED}",
            "turning:",
        ]
        self.call("next_code", "i64 %others")
        code = self.result()
        self.lines += [
            "%other = call i64 @llvm.cttz.i64(i64 %others, i1 true)",
            "%fewer = add i64 %others, -1",
            "%rest = and i64 %others, %fewer",
            f"%known = icmp ne i64 {code}, 0",
            "br i1 %known, label %jumping, label %stopping",
            "jumping:",
            f"%function = inttoptr i64 {code} to ptr",
            "%all = musttail call i64 %function(i64 %chip, i64 %other, i64 %now, i64 %rest)",
            "ret i64 %all",
            "stopping:",
            f"call i32 @{self.steps}_end_turns"
            "(ptr %ret, ptr %exc, i64 %chip, i64 %other, i64 %rest)",
            f"ret i64 {SERVED}",
            "staying:",
        ]
        self.call("end_turns", "i64 %others")
        self.lines.append("ret i64 %ended")

    def find_lines(self, pcs: list[int]) -> None:
        """Look up the lines behind these, where that is not what was looked up last."""
        for pc in pcs:
            self.call("find_next_line", f"i64 {pc}")

    def enter_lines(self, pcs: list[int]) -> None:
        """Leave unless the cache has all of them."""
        for pc in pcs:
            self.leave_unless("has_next_line", f"i64 {pc}")

    def loop(self, chip: Chip, segment: Segment, place: Place, behind: Place, out: str) -> None:
        """Where a hardware loop ends, leave unless it does what it does in the segment.

        out    label of the way on, if this loop does not go back
        """
        number = f"i64 {place.loop}"
        if place.pc == segment.leaves:
            self.leave_unless("runs_out", number, f"i64 {place.pc}")
        elif goes_back(chip, place, behind):
            self.leave_unless(
                "loops_back", number, f"i64 {place.pc}", f"i64 {behind.pc}", otherwise=out
            )
            self.leave_unless("has_target", f"i64 {behind.pc}")

    def follow(self, place: Place, behind: Place) -> None:
        """An instruction; the segment ends behind it unless the hart runs on."""
        self.call("follow_segment", f"ptr @row_{place.row}", f"i64 {place.row}", f"i64 {place.pc}")
        state = self.result()
        n = self.values
        self.lines += [
            f"%r{n} = icmp eq i64 {state}, {RUN}",
            f"br i1 %r{n}, label %next{n}, label %out{n}",
            f"out{n}:",
        ]
        self.call(
            "end_segment",
            f"ptr @row_{place.row}",
            f"i64 {place.row}",
            f"ptr @row_{behind.row}",
            f"i64 {behind.pc}",
            f"i64 {state}",
        )
        self.end(self.result())
        self.lines.append(f"next{n}:")

    def end(self, state: str) -> None:
        """The segment ends with the hart in this state."""
        self.lines += [f"store i64 {state}, ptr %state", "br label %end"]


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


def _segment_text(chip: Chip, segment: Segment, steps: str) -> str:
    """The function itself: what is tested first need not be tested in between."""
    writer = Writer(steps)
    places = segment.places
    lines = _first_of_lines(chip, segment)
    writer.find_lines(lines)
    for target in _targets(chip, segment):
        writer.call("find_target", f"i64 {target}")
    if segment.begins == ACCESS:
        access, *places = places
        writer.leave_unless("is_expected", f"i64 {places[0].pc}")
    else:
        writer.leave_unless("is_usual", "i64 %now")
        writer.leave_unless("is_ready", f"ptr @row_{places[0].row}", "i64 %now")
    writer.enter_lines(lines)
    way = segment.way_out
    out = "out" if way else "leave"
    for place, behind in pairwise(places):
        if chip.code[place.row]["kind"] == HWLOOP:  # what loops do behind it is not known before
            break
        writer.loop(chip, segment, place, behind, out)
        out = "leave" if goes_back(chip, place, behind) else out
    if segment.begins == ACCESS:
        writer.call("begin_segment", f"ptr @row_{access.row}", f"i64 {access.row}", "i64 %now")
    else:
        writer.call("expect_request")
    for place, behind in pairwise(places):
        writer.follow(place, behind)
    result = str(GO_ON)
    if segment.pauses:
        writer.call("pause_segment", f"i64 {places[-1].row}")
        result = writer.result()
    writer.end(result)
    writer.lines.append("leave:")
    writer.end(str(SERVED if segment.begins == ACCESS else RESUMED))
    writer.turn()
    return "\n".join(
        [
            f"define i64 @{segment.symbol}({TAKES}) {{",
            "%ret = alloca i64",
            "%exc = alloca ptr",
            "%state = alloca i64",
            *PROLOGUE,
            *writer.lines,
            *(_way_on(way) if way else ()),
            "}",
        ]
    )


def _way_on(way: Segment) -> Iterator[str]:
    """Go on as where the loop is left."""
    yield "out:"
    yield f"%way = tail call i64 @{way.symbol}({TAKES})"
    yield "ret i64 %way"


def module_text(chip: Chip, segment: Segment, steps: str) -> str:
    """LLVM's text of a segment, with all that it refers to.

    steps    what the symbols of the step functions begin with
    """
    rows = sorted({place.row for way in segment.ways for place in way.places})
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
