"""The text of a superblock for LLVM.

It calls the step functions of soc.jit.superblock_steps with the addresses of decoded rows. These
are constants, as is the chip's configuration; the functions are inlined, and the rest is LLVM's.
"""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise, zip_longest

import numpy as np
from llvmlite.binding import llvm_version_info

from soc.aot.unit import Link
from soc.aot.units import FLOATS
from soc.chip.state import Chip
from soc.chip.superblock_call import CONVENTION
from soc.core.hotness import ACCESS
from soc.jit.edit_llvm import COLD
from soc.jit.llvm_writer import PROLOGUE, STEPS, TAKES, Writer
from soc.jit.superblock import Place, Superblock, fetch_turns, goes_back, row_after, rows_of
from soc.prelude.decoded import BRANCH, HWLOOP, LOAD, STORE, UNDECODED
from soc.prelude.hart_state import GO_ON, RESUMED, SERVED


def constant(symbol: str, record: np.void) -> str:
    """LLVM's text of a constant with a record's bytes."""
    data = record.tobytes()
    text = data.hex("\\")
    return f'@{symbol} = constant [{len(data)} x i8] c"\\{text}", align 8'


def _first_of_lines(chip: Chip, superblock: Superblock) -> list[int]:
    """Addresses of instructions with whose hand-over the fetch comes to a line.

    Where it turns, to a jump's target or back in a hardware loop, it does not.
    """
    run = superblock.places[1 if superblock.begins == ACCESS else 0 :]
    handed = list(zip_longest(run, run[1:]))
    if chip.code[superblock.places[-2].row]["kind"] not in (LOAD, STORE) or superblock.pauses:
        handed = handed[:-1]
    return [
        place.pc
        for place, following in handed
        if place.pc & 12 == 0
        and (place.pc & 3) + int(chip.code[place.row]["size"]) >= 4
        and not fetch_turns(chip, place, following, superblock.left_loop)
    ]


def _targets(chip: Chip, superblock: Superblock) -> list[int]:
    """Where its hardware loops go back to; the access with which it begins ends none."""
    run = superblock.places[1 if superblock.begins == ACCESS else 0 :]
    return [following.pc for place, following in pairwise(run) if goes_back(chip, place, following)]


def _branch_targets(chip: Chip, superblock: Superblock) -> list[int]:
    """Where its branches go to that are taken."""
    return [
        following.pc
        for place, following in pairwise(superblock.places)
        if chip.code[place.row]["kind"] == BRANCH and chip.code[place.row]["imm"] < 0
    ]


def _rows_beside(chip: Chip, place: Place, following: Place) -> list[int]:
    """Rows that a branch looks at besides its own: the one after it in memory, and its target's.

    What is not decoded may be later.
    """
    shadow = row_after(chip, place)
    rows = [] if shadow is None else [shadow, following.row]
    return [row for row in rows if chip.code[row]["kind"] != UNDECODED]


def _enter(writer: Writer, chip: Chip, superblock: Superblock) -> None:
    """Test on entry that all goes as it likely does: what is tested here need not be in between."""
    places = superblock.places
    lines = _first_of_lines(chip, superblock)
    targets = sorted({*_branch_targets(chip, superblock)})
    if superblock.begins == ACCESS:
        writer.assume("is_common")
    writer.find_lines(lines)
    for each in sorted({*targets, *_targets(chip, superblock)}):
        writer.call("find_target", f"i64 {each}")
    if superblock.begins == ACCESS:
        places = places[1:]
        writer.assume("is_common")  # still, whatever looking up has done
        writer.guard("is_expected", f"i64 {places[0].pc}")
    else:
        writer.guard("is_usual", "i64 %now")
        writer.guard("is_ready", f"ptr @row_{places[0].row}", "i64 %now")
    writer.enter_lines(lines)
    for each in targets:
        writer.guard("has_target", f"i64 {each}")
    out = "left_loop" if superblock.side_exit else "exit"
    for place, following in pairwise(places):
        if chip.code[place.row]["kind"] == HWLOOP:  # what loops do after it is not known before
            break
        writer.loop(chip, superblock, place, following, out)
        out = "exit" if goes_back(chip, place, following) else out


def _superblock_text(chip: Chip, superblock: Superblock, steps: str) -> str:
    """The function itself."""
    writer = Writer(steps)
    places = superblock.places
    _enter(writer, chip, superblock)
    if superblock.begins == ACCESS:
        access, *places = places
        writer.call("begin_superblock", f"ptr @row_{access.row}", f"i64 {access.row}", "i64 %now")
    else:
        writer.call("expect_request")
    for place, following in pairwise(places):
        for row in _rows_beside(chip, place, following):
            writer.assume("is_row", f"i64 {row}", f"ptr @row_{row}")
        writer.follow(place, following)
    result = str(GO_ON)
    if superblock.pauses:
        writer.call("pause_superblock", f"i64 {places[-1].row}")
        result = writer.result()
    writer.end(result)
    writer.lines.append("exit:")
    writer.end(str(SERVED if superblock.begins == ACCESS else RESUMED))
    writer.turn(int(chip.config[0]["cores"]))
    return "\n".join(
        [
            f"define {CONVENTION} i64 @{superblock.symbol}({TAKES}) {{",
            "%ret = alloca i64",
            "%exc = alloca ptr",
            "%state = alloca i64",
            *PROLOGUE,
            *writer.lines,
            *(_side_exit(superblock.side_exit) if superblock.side_exit else ()),
            "never:",
            "unreachable",
            "}",
        ]
    )


def _side_exit(superblock: Superblock) -> Iterator[str]:
    """Go on with the superblock in which the loop is left."""
    yield "left_loop:"
    yield f"%side_exit = tail call {CONVENTION} i64 @{superblock.symbol}({TAKES})"
    yield "ret i64 %side_exit"


def module_text(chip: Chip, superblock: Superblock, steps: str) -> str:
    """LLVM's text of a superblock, with all that it refers to.

    steps    what the symbols of the step functions begin with
    """
    rows = rows_of(chip, superblock)
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
            *(_superblock_text(chip, part, steps) for part in superblock.parts),
        ]
    )


PURE_SYMBOL = "{}_pure"
"""Under this name too, superblocks call the definitions of floating-point operations."""

PURE = "memory(argmem: readwrite) nounwind willreturn"
NOT_KEPT = " captures(none)" if llvm_version_info >= (21,) else " nocapture"


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
