"""Writes the text of a superblock for LLVM, call by call of step functions (superblock_steps)."""

from itertools import combinations

from soc.chip.state import ARRAYS, Chip
from soc.chip.superblock_call import CONVENTION
from soc.jit.edit_llvm import ENTRY
from soc.jit.superblock import Place, Superblock, goes_back
from soc.prelude.hart_state import ENTERED, RUN, SERVED

STEPS = {
    "is_common": "",
    "is_row": ", i64, ptr",
    "is_expected": ", i64",
    "begin_superblock": ", ptr, i64, i64",
    "is_usual": ", i64",
    "is_ready": ", ptr, i64",
    "expect_request": "",
    "find_next_line": ", i64",
    "has_next_line": ", i64",
    "loops_back": ", i64, i64, i64",
    "runs_out": ", i64, i64",
    "find_target": ", i64",
    "has_target": ", i64",
    "follow_superblock": ", ptr, i64, i64",
    "end_superblock": ", ptr, i64, ptr, i64, i64",
    "pause_superblock": ", i64",
    "next_code": ", i64",
    "next_row": ", i64",
    "end_turns": ", i64",
}
"""What a superblock consists of: step functions of superblock_steps, and their other arguments."""

_PLACES = list(ARRAYS)
_APART = ("harts", "fetch", "l1", "wheel", "banks")
PROLOGUE = [  # these arrays do not overlap: for calls, which have no scopes (soc.jit.edit_llvm)
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


FORETOLD = 8
"""Of so many cores a host foretells itself which superblock comes next.

For that it keeps some thousand jumps, each with those that were before; in a loop of more cores so
many are different. Of branches it keeps more.
"""

BRANCHES = 3
"""With more cores, before each jump: they choose among jumps to few superblocks, or one."""

TAKES = "i64 %chip, i64 %h, i64 %now, i64 %others"
"""What the function of a superblock takes: see soc.chip.superblock_call.call_superblock."""


class Writer:
    """Writes LLVM's text of a superblock."""

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

    def guard(self, step: str, *arguments: str, otherwise: str = "exit") -> None:
        """Take a side exit unless a step function says yes: to the interpreter, or to a label."""
        self.call(step, *arguments)
        value = self.result("i8")
        n = self.values
        self.lines += [
            f"%c{n} = icmp ne i8 {value}, 0",
            f"br i1 %c{n}, label %go{n}, label %{otherwise}",
            f"go{n}:",
        ]

    def assume(self, step: str, *arguments: str) -> None:
        """Let LLVM assume that a step function says yes; it is not tested."""
        self.guard(step, *arguments, otherwise="never")

    def turn(self, cores: int) -> None:
        """Jump to the superblock of the next hart that L1 serves, if both have one."""
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
        ]
        self.call("next_row", "i64 %others")
        self.jump(self.result(), BRANCHES if cores > FORETOLD else 0)
        self.lines += [
            "stopping:",
            f"call i32 @{self.steps}_end_turns"
            "(ptr %ret, ptr %exc, i64 %chip, i64 %other, i64 %rest)",
            f"ret i64 {SERVED}",
            "staying:",
        ]
        self.call("end_turns", "i64 %others")
        self.lines.append("ret i64 %ended")

    def jump(self, row: str, branches: int) -> None:
        """Jump to the next superblock after so many branches: by bits of the row that begins it."""
        self.values += 1
        n = self.values
        if branches == 0:
            self.lines += [
                f"%all{n} = musttail call {CONVENTION} i64 %function"
                "(i64 %chip, i64 %other, i64 %now, i64 %rest) nomerge",
                f"ret i64 %all{n}",
            ]
            return
        self.lines += [
            f"%bit{n} = and i64 {row}, {1 << branches}",  # instructions have two bytes or four
            f"%is{n} = icmp eq i64 %bit{n}, 0",
            f"br i1 %is{n}, label %even{n}, label %odd{n}",
            f"even{n}:",
        ]
        self.jump(row, branches - 1)
        self.lines.append(f"odd{n}:")
        self.jump(row, branches - 1)

    def find_lines(self, pcs: list[int]) -> None:
        """Look up the lines after these, where that is not what was looked up last."""
        for pc in pcs:
            self.call("find_next_line", f"i64 {pc}")

    def enter_lines(self, pcs: list[int]) -> None:
        """Guard that the cache has all of them."""
        for pc in pcs:
            self.guard("has_next_line", f"i64 {pc}")

    def loop(
        self, chip: Chip, superblock: Superblock, place: Place, following: Place, out: str
    ) -> None:
        """Where a hardware loop ends, guard that it does what it does in the superblock.

        out    label of the side exit, if this loop does not go back
        """
        number = f"i64 {place.loop}"
        if place.pc == superblock.left_loop:
            self.guard("runs_out", number, f"i64 {place.pc}")
        elif goes_back(chip, place, following):
            self.guard(
                "loops_back", number, f"i64 {place.pc}", f"i64 {following.pc}", otherwise=out
            )
            self.guard("has_target", f"i64 {following.pc}")

    def follow(self, place: Place, following: Place) -> None:
        """An instruction; the superblock ends after it unless the hart runs on."""
        self.call(
            "follow_superblock", f"ptr @row_{place.row}", f"i64 {place.row}", f"i64 {place.pc}"
        )
        state = self.result()
        n = self.values
        self.lines += [
            f"%r{n} = icmp eq i64 {state}, {RUN}",
            f"br i1 %r{n}, label %next{n}, label %out{n}",
            f"out{n}:",
        ]
        self.call(
            "end_superblock",
            f"ptr @row_{place.row}",
            f"i64 {place.row}",
            f"ptr @row_{following.row}",
            f"i64 {following.pc}",
            f"i64 {state}",
        )
        self.end(self.result())
        self.lines.append(f"next{n}:")

    def end(self, state: str) -> None:
        """The superblock ends with the hart in this state."""
        self.lines += [f"store i64 {state}, ptr %state", "br label %end"]
