"""The compiled interpreter: generated for the instructions that a program needs.

One unit of machine code for each instruction set and engine (soc.aot.unit), and one for each group
of optional extensions, which these call. Their text is generated where it is compiled; beside the
machine code it can be read.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

from isa.declare import Isa
from isa.extensions.profiles import executed_as, profile_named, without_small_floats
from soc.aot import units
from soc.aot.unit import Link, Unit, require
from soc.chip.state import Chip
from soc.host.compile_process import Progress
from soc.prelude.records import HART, ROW
from soc.prelude.step import step

OPTIONAL = {
    "xpulpvect": "simd",
    "xpulplate": "simd",
    "xcvsimd": "simd",
    "xf16": "small_floats",
    "xf16alt": "small_floats",
    "xf8": "small_floats",
    "xfvec": "small_floats",
    "xfaux": "small_floats",
}
"""Extensions that are compiled only for programs which use them: the group of each."""

GROUPS = tuple(dict.fromkeys(OPTIONAL.values()))

SOURCE = "interpreter.py"

TEXT = '''\
"""The interpreter of {name}, generated from the declarations in isa/."""

import numpy as np

from isa.words import i32, u32
from soc.core.pipeline import make_advance, make_issue
from soc.core.deferred_state import is_common
from soc.engine.interpreter import meanings
from soc.engine.cycle_loop import make_run, make_run_hart
from soc.jit.superblock_steps import (
    begin_superblock,
    end_superblock,
    end_turns,
    expect_request,
    find_next_line,
    find_target,
    has_next_line,
    has_target,
    is_expected,
    is_ready,
    is_row,
    is_usual,
    loops_back,
    make_follow,
    next_code,
    next_row,
    pause_superblock,
    runs_out,
)
from soc.prelude.step import Step

globals().update(meanings("{name}", {extensions}))


{execute}

execute = Step(execute, is_inlined=True, keeps_types=True)
advance = make_advance(make_issue(execute))
run = make_run(advance)
run_hart = make_run_hart(advance)
follow_superblock = make_follow(make_issue(execute, in_superblock=True))
'''


GROUP_TEXT = '''\
"""A group of optional extensions of {name}, generated from the declarations in isa/."""

import numpy as np

from isa.words import i32, u32
from soc.engine.interpreter import meanings
from soc.prelude.step import Step

globals().update(meanings("{name}", {extensions}))


{execute}

execute = Step(execute, keeps_types=True)


def {entry}(op, row, pc, hart):
    return execute(op, row, hart["regs"], pc, hart)
'''


class Generated(Unit):
    """A unit whose text is generated, for the instructions of some extensions of a profile."""

    @property
    def modules(self) -> set[str]:
        """Where its text comes from, and what this imports."""
        return {"soc.engine.interpreter", "isa.compiled", "isa.extensions.profiles"}

    def text(self) -> str:
        """The module that declares its step functions."""
        raise NotImplementedError

    def generate(self) -> None:
        """Make the module of the text; it finds the groups that it calls by their names."""
        self.generated = ModuleType("interpreter")
        for unit in self.uses:
            if isinstance(unit, Group):
                vars(self.generated)[unit.entry.name] = unit.entry
        exec(compile(self.text(), SOURCE, "exec"), vars(self.generated))

    def declaring(self, module: str) -> ModuleType:
        """The generated module."""
        return self.generated


class Group(Generated):
    """The instructions of a group of optional extensions, which interpreters call.

    Without extensions it is there for interpreters of programs that use none of them.

    profile    "ri5cy-x" or "cv32e40p-f-small"
    """

    def __init__(self, group: str, profile: str, extensions: Iterable[str]):
        self.profile, self.extensions = executed_as(profile, extensions)
        super().__init__(" ".join([group, self.profile, *self.extensions]), uses=(units.FLOATS,))
        self.entry = self.link(f"interpreter.{_entry(group)}", int, ROW, int, HART, returns=int)

    def text(self) -> str:
        """The module that declares its step function."""
        return GROUP_TEXT.format(
            name=self.profile,
            extensions=self.extensions,
            execute=_execute(self.profile, self.extensions),
            entry=self.entry.name,
        )


def _entry(group: str) -> str:
    """The function that performs instructions of a group."""
    return f"execute_{group}"


def _execute(profile: str, extensions: Iterable[str], **options: Any) -> str:
    from isa.compiled import execute_source

    return execute_source(profile_named(profile), extensions, **options).rstrip()


class Interpreter(Generated):
    """The instructions of some extensions of a profile, in one of the loops around them.

    entry      "run", all harts, for the compiled engine; "run_recording", with trace points;
               "run_hart", one hart, with trace points, too; or "superblocks" and
               "superblocks_recording", what those of the first two consist of
               (soc.jit.superblock_steps), as LLVM's bitcode to be translated
    profile    "ri5cy-x" or "cv32e40p-f-small"

    Optional extensions lie in groups, so that its machine code serves programs with and without
    them; what superblocks consist of has them in itself.
    """

    def __init__(self, entry: str, profile: str, extensions: Iterable[str]):
        self.profile, self.extensions = profile, sorted(extensions)
        self.own_profile, self.own = self.profile, self.extensions
        groups: list[Group] = []
        if not entry.startswith("superblocks"):
            self.own_profile = without_small_floats(profile)
            self.own = [name for name in self.extensions if name not in OPTIONAL]
            groups = [_group(each, profile, self._of_group(each)) for each in GROUPS]
        super().__init__(
            " ".join([entry, self.own_profile, *self.own]), uses=(*units.LINKED, *groups)
        )
        self.records = entry not in ("run", "superblocks")
        if entry in ("run", "run_recording"):
            self.entry = self.link("interpreter.run", Chip, int, returns=int)
        elif entry != "run_hart":
            self.is_bitcode = True
            self.constants = {"config": "pulpsim_config"}
            self.link("interpreter.is_common", Chip, int, returns=bool)
            self.link("interpreter.is_row", Chip, int, int, ROW, returns=bool)
            self.link("interpreter.is_expected", Chip, int, int, returns=bool)
            self.link("interpreter.begin_superblock", Chip, int, ROW, int, int)
            self.link("interpreter.is_usual", Chip, int, int, returns=bool)
            self.link("interpreter.is_ready", Chip, int, ROW, int, returns=bool)
            self.link("interpreter.expect_request", Chip, int)
            self.link("interpreter.find_next_line", Chip, int, int)
            self.link("interpreter.has_next_line", Chip, int, int, returns=bool)
            self.link("interpreter.find_target", Chip, int, int)
            self.link("interpreter.loops_back", Chip, int, int, int, int, returns=bool)
            self.link("interpreter.runs_out", Chip, int, int, int, returns=bool)
            self.link("interpreter.has_target", Chip, int, int, returns=bool)
            self.link("interpreter.follow_superblock", Chip, int, ROW, int, int, returns=int)
            self.link("interpreter.next_code", Chip, int, units.BITS, returns=units.BITS)
            self.link("interpreter.next_row", Chip, int, units.BITS, returns=int)
            self.link("interpreter.end_turns", Chip, int, units.BITS)
            self.link("interpreter.pause_superblock", Chip, int, int, returns=int)
            self.link("interpreter.end_superblock", Chip, int, ROW, int, ROW, int, int, returns=int)
        else:
            self.entry = self.link("interpreter.run_hart", Chip, int, int, int, int)

    def _of_group(self, group: str) -> tuple[str, ...]:
        return tuple(name for name in self.extensions if OPTIONAL.get(name) == group)

    @property
    def modules(self) -> set[str]:
        """Where its text comes from, and what this imports."""
        found = super().modules | {"soc.core.pipeline", "soc.engine.cycle_loop"}
        return found | ({"soc.jit.compile_worker"} if self.is_bitcode else set())

    def text(self) -> str:
        """The module that declares its step functions."""
        apart = {} if self.is_bitcode else {_entry(group): members(group) for group in GROUPS}
        return TEXT.format(
            name=self.own_profile,
            extensions=self.own,
            execute=_execute(self.own_profile, self.own, apart=apart),
        )


@cache
def _group(group: str, profile: str, extensions: tuple[str, ...]) -> Group:
    """The one for all interpreters that call it."""
    return Group(group, profile, extensions)


def generated_unit(name: str) -> Group | Interpreter:
    """The unit of this name; a loop, for programs without optional extensions."""
    kind, profile, *extensions = name.split()
    return (Group if kind in GROUPS else Interpreter)(kind, profile, extensions)


def members(group: str) -> set[str]:
    """The extensions of a group."""
    return {name for name, its_group in OPTIONAL.items() if its_group == group}


def superblock_kind(records: bool) -> str:
    """The kind of steps that superblocks consist of."""
    return "superblocks_recording" if records else "superblocks"


@cache
def steps_of_superblocks(interpreter: Interpreter) -> Interpreter:
    """The steps that superblocks of programs for an interpreter consist of."""
    entry = superblock_kind(interpreter.records)
    return Interpreter(entry, interpreter.profile, interpreter.extensions)


def meanings(profile: str, extensions: Iterable[str]) -> dict[str, object]:
    """The names in the text of an interpreter."""
    from isa.compiled import meanings

    called, names = meanings(profile_named(profile), extensions)
    return names | {key: _step_of(function) for key, function in called.items()}


_step_of = cache(step)
"""One for all interpreters: what is compiled of it serves the next one in the same process."""


def base_extensions(isa: Isa) -> frozenset[str]:
    """The extensions of an instruction set that every program gets."""
    return frozenset(e.name for e in isa.extensions if e.name not in OPTIONAL)


def with_group_of(isa: Isa, extensions: frozenset[str], extension: str) -> frozenset[str]:
    """Add the group of an optional extension."""
    group = OPTIONAL[extension]
    return extensions | {e.name for e in isa.extensions if OPTIONAL.get(e.name) == group}


@cache
def _interpreter(entry: str, profile: str, extensions: frozenset[str]) -> Interpreter:
    """The one for all profiles in which these extensions are the same."""
    return Interpreter(entry, *executed_as(profile, extensions))


def interpreter(
    isa: Isa, extensions: frozenset[str], progress: Progress = nullcontext, *, records: bool = False
) -> Interpreter:
    """Return what executes these extensions, compiled; its entry is the loop `run(chip, end)`.

    records    with trace points
    """
    unit = _interpreter("run_recording" if records else "run", isa.name, extensions)
    require((unit, *unit.uses, units.HOST), progress)
    return unit


class Parts(NamedTuple):
    """The step functions by themselves, compiled: what the event engine calls."""

    run_hart: Link
    collect_hart: Link = units.collect_hart
    access_l1: Link = units.access_l1
    collect_ports: Link = units.collect_ports
    grant_ports_of_l2: Link = units.grant_ports_of_l2
    signal_dma: Link = units.signal_dma
    grant_ports: Link = units.grant_ports
    request_dma_lanes: Link = units.request_dma_lanes
    cycle_dma: Link = units.cycle_dma
    clock_event_unit: Link = units.clock_event_unit
    step_icache: Link = units.step_icache
    interrupt_from_control_page: Link = units.interrupt_from_control_page
    generator_request: Link = units.generator_request
    cycle_generator: Link = units.cycle_generator


def parts(isa: Isa, extensions: frozenset[str], progress: Progress = nullcontext) -> Parts:
    """Return the step functions, for harts that execute these extensions."""
    unit = _interpreter("run_hart", isa.name, extensions)
    require((unit, *unit.uses, units.HOST, units.PHASES), progress)
    return Parts(unit.entry)
