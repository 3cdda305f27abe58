"""Code fetched ahead: the cores of a team bring its lines into the shared instruction cache.

Cores that execute the same code for the first time miss the same lines, one after the other, all at
once: one miss is under way where L2 would answer eight. Here each core fetches an eighth of the
lines, before the code comes to them.

    with ahead(k, team) as fetch:
        ...
        fetch()         # all that follows, up to the end
        ...

A core fetches a line by executing an instruction of it that only computes a register which nobody
needs then. It comes back since a hardware loop ends there for the moment: RI5CY takes where from a
CSR, and goes back whichever way it has come there. CV32E40P has no such CSR, and fetches nothing.

An instruction may begin in the middle of another: its half-words are as good as any, if by chance
they are something harmless. So lines are fetched, too, that only load, store and branch.

NOTE: while the DMA reads from L2, a line waits for the bursts that the DMA has asked for, up to 256
cycles. So where the first copies are short and all cores start them, code is fetched before them;
where they are long, or one core starts them, while they run.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

from firmware.builder import Kernel, KernelError, Label, Register
from firmware.code import Code, Half, Value
from firmware.registers import GP, RA, SP, TP, ZERO, S
from firmware.team import Team
from isa.assembler.names import RI5CY_CSRS, has_float_registers
from isa.assembler.syntax import syntax_of
from isa.declare import Isa
from isa.extensions.flex_v import ALWAYS_WRONG

LINE = 16  # bytes
NIBBLE = 4  # bits of the table for a line
EACH = 32 // NIBBLE  # lines of a word of it
PLACES = LINE // 2 - 1  # half-words of a line in which an instruction may begin that is executed
SKIP, END = 0b1000, 0b1100
"""Instead of a place: none of the line's instructions will do, there are no more lines."""
LEAST, MOST = 24, 120
"""Lines for which that is worth its own code, and those that are fetched at most: the shared cache
has 256, and replaces them at random."""
LOOPS = MOST + 1  # more than a core comes back

HARMLESS = ("alu", "mul", "fpu")  # timing classes of instructions that only compute
LINES, TABLE, RETURN, WORD, PLACE = OWN = (GP, TP, RA, *S[10:12])
"""Registers of the code that fetches: those given out last, so few instructions change them."""


@contextmanager
def ahead(
    k: Kernel, team: Team, is_cold: bool = True, *, by_halves: bool = False
) -> Iterator[Callable[[], None]]:
    """Yield what emits the fetch of all code from there to the end of the body, if it is worth it.

    No register of OWN is in use there, and no hardware loop is open; others keep their values.

    is_cold      is the code in no cache?
    by_halves    fetch lines whose instructions all do more than compute, too: by half-words of them
                 that are something harmless by themselves
    """
    begun: list[Stretch] = []

    def fetch() -> None:
        if is_cold and team.cores > 1 and k.isa.loop_end == "last":
            begun.append(Stretch.begin(k, team, by_halves))

    yield fetch
    for stretch in reversed(begun):  # the code that fetches one is part of those before
        stretch.finish(k, team)


@dataclass
class Stretch:
    """Code that is fetched ahead.

    kept         registers whose values are needed where it is fetched
    is_called    is it one of many functions, all of which call the code that fetches?
    by_halves    see ahead
    start        where it begins; `first` stands for the address of its first line, less 2
    share        stands for the bytes of a core's lines
    table        stands for the address of the table: a row for each EACH lines of every core. A
                 core's word has a nibble for each of its lines, the first one in the highest:
                 half-words from the line's start to the instruction to execute, plus 1; or SKIP,
                 or END
    """

    isa: Isa
    cores: int
    kept: frozenset[Register]
    is_called: bool
    by_halves: bool
    start: Label
    first: Label
    share: Label
    table: Label
    end: Label = field(init=False)

    @classmethod
    def begin(cls, k: Kernel, team: Team, by_halves: bool) -> "Stretch":
        """Let it begin here, where it is fetched."""
        kept = frozenset((SP, *k.registers.live))
        if taken := kept.intersection(OWN):
            raise KernelError(f"{k.name}: {', '.join(r.name for r in taken)} in use, fetching code")
        labels = (k.label() for _ in range(3))
        is_called = team.fetcher is not None
        return cls(k.isa, team.cores, kept, is_called, by_halves, k.here(), *labels)

    def finish(self, k: Kernel, team: Team) -> None:
        """Let it end here, and insert what fetches it."""
        self.end = k.here()
        size = k.code.size_since(self.start)
        if size < LEAST * LINE:
            return
        lines = min((size - 2) // LINE + 2, MOST)  # wherever it will begin
        words = self.cores * (self._share_of(lines) // EACH + 1)
        self.table.address = k.words_of_code("lines", words, self._words)
        around, k.code = k.code, Code()
        with k.compact():
            self._fetch(k, team)
        place = around.items.index(self.start)
        around.items[place:place] = k.code.items
        k.code = around

    def _fetch(self, k: Kernel, team: Team) -> None:
        k.la(TABLE, self.table)
        k.la(LINES, self.first)
        k.addi(WORD, ZERO, Half(self.share, False))
        if team.fetcher:
            k.jal(RETURN, team.fetcher)
        else:
            _emit_fetch(k, team)

    def _words(self, code: Code) -> list[int]:
        """The table."""
        assert self.start.address is not None
        assert self.end.address is not None
        first = self.start.address // LINE
        end = min(-(-self.end.address // LINE), first + MOST)
        share = self._share_of(end - first)
        self.first.address, self.share.address = first * LINE - 2, share * LINE
        places = self._places(code, end)
        words: list[int] = []
        for row in range(0, share + 1, EACH):
            for core in range(self.cores):
                word = 0
                for number in range(row, row + EACH):
                    line = first + core * share + number
                    is_there = number < share and line < end
                    word = word << NIBBLE | (places.get(line, SKIP) if is_there else END)
                words.append(word)
        return words

    def _share_of(self, lines: int) -> int:
        """Lines of a core. In one of many functions two are left out rather than to have a row for
        one and END: all tables are to be short.
        """
        share = -(-lines // self.cores)
        over = share % EACH + 1
        return share - over if self.is_called and share >= EACH and over <= 2 else share

    def _places(self, code: Code, end: int) -> dict[int, int]:
        """The nibbles of lines, by their numbers; a word to itself is best."""
        halves, starts = self._halves(code, end * LINE)
        best: dict[int, tuple[bool, int]] = {}
        for address in halves if self.by_halves else starts:
            line, place, half = address // LINE, address % LINE // 2, halves[address]
            is_short = half & 3 != 3
            other = 0 if is_short else halves.get(address + 2)
            if place >= PLACES or other is None:
                continue
            if _is_harmless(self.isa, half | other << 16, self.kept):
                found = is_short or bool(place % 2), place + 1
                best[line] = min(best.get(line, found), found)
        return {line: nibble for line, (_, nibble) in best.items()}

    def _halves(self, code: Code, end: int) -> tuple[dict[int, int], list[int]]:
        """The half-words up to an address, by theirs, and where instructions begin; but of those
        that depend on a label without an address yet.
        """
        assert self.start.address is not None
        halves: dict[int, int] = {}
        starts: list[int] = []
        address, syntax = self.start.address, syntax_of(self.isa)
        for instruction in code.after(self.start):
            if address >= end:
                break
            size = instruction.insn.encoding.size
            if all(map(_is_known, instruction.operands.values())):
                word = instruction.encode(syntax, address)
                halves |= {address + at: word >> 8 * at & 0xFFFF for at in range(0, size, 2)}
                starts.append(address)
            address += size
        return halves, starts


def emit_fetcher(k: Kernel, team: Team) -> None:
    """Emit the code that fetches as a function, for all that the team fetches from now on."""
    with k.aside("fetch_ahead") as label, k.compact():
        k.place(label)
        _emit_fetch(k, team)
        k.jr(RETURN)
    team.fetcher = label


def _emit_fetch(k: Kernel, team: Team) -> None:
    """Fetch the core's share, given TABLE, LINES and the share in WORD."""
    again, row, seldom, done = (k.label() for _ in range(4))
    team.core(PLACE)
    k.mul(WORD, WORD, PLACE)
    k.slli(PLACE, PLACE, 2)
    k.add(TABLE, TABLE, PLACE)
    k.add(LINES, LINES, WORD)
    k.lp_starti(0, again)
    k.lp_counti(0, LOOPS)
    k.place(row)
    k.load_post(WORD, 4 * team.cores, TABLE)
    k.place(again)
    k.blt(WORD, ZERO, seldom)
    k.beqz(WORD, row)
    k.p_extractu(PLACE, WORD, NIBBLE - 2, 32 - NIBBLE)
    k.slli(WORD, WORD, NIBBLE)
    k.slli(PLACE, PLACE, 1)
    k.add(PLACE, PLACE, LINES)
    k.csrw(RI5CY_CSRS["lpend0"], PLACE)
    k.addi(LINES, LINES, LINE)
    k.jr(PLACE)
    k.place(seldom)
    k.slli(WORD, WORD, 1)
    k.blt(WORD, ZERO, done)
    k.slli(WORD, WORD, NIBBLE - 1)
    k.addi(LINES, LINES, LINE)
    k.j(again)
    k.place(done)
    k.lp_counti(0, 0)
    k.csrw(RI5CY_CSRS["lpend0"], ZERO)


def _is_known(value: Value) -> bool:
    label = value.label if isinstance(value, Half) else value
    return isinstance(label, int) or label.address is not None


def _is_harmless(isa: Isa, word: int, kept: frozenset[Register]) -> bool:
    """Does it only compute a register that is neither kept nor of those that fetch?"""
    changed = _computed_by(isa, word)
    return changed is not None and not changed.intersection((*kept, *OWN))


@cache
def _computed_by(isa: Isa, word: int) -> frozenset[Register] | None:
    """The registers that an instruction computes, None if it does anything else.

    NOTE: slti to x0 marks a region.
    """
    meant = isa.decode(word)
    if meant is None or meant.insn.timing not in HARMLESS:
        return None
    if meant.insn.key == "slti" and meant.operands["rd"] == ZERO.number:
        return None
    if meant.insn.name in ALWAYS_WRONG:  # it does no harm, but the simulator warns of it
        return None
    files = {"rd": "x", "fd": "f" if has_float_registers(isa) else "x"}
    writes = meant.insn.writes
    return frozenset(Register(meant.operands[w], files[w]) for w in writes if w in files)
