"""A study: cases that are simulated, rows of figures, and what is made of them.

A file of a study ends in STUDY; pulpsim.commands.study.catalogue lists the files.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel
from rich.table import Table

from firmware.builder import Kernel
from isa.program import Program
from soc.chip.spec import SocSpec
from soc.result import RunResult
from trainlib.launch import KernelProgram

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value = TypeVar("Value")
Row = dict[str, Any]
Result = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Measured(Program):
    """A program, and what it should compute if it is a kernel's."""

    kernel: KernelProgram | None = None

    @classmethod
    def of(cls, k: Kernel) -> "Measured":
        """What is under construction, as a program."""
        return cls(**_content(k.build()))

    @classmethod
    def of_kernel(cls, built: KernelProgram) -> "Measured":
        """A kernel's program."""
        return cls(**_content(built.program), kernel=built)

    def result(self, run: RunResult) -> Result:
        """What is kept of a run: its counters as JSON, a kernel's report, no times of the host."""
        kept = run.to_json()
        if self.kernel:
            kept["program"] = self.kernel.report(run).to_json()
        return {name: value for name, value in kept.items() if name not in ("host", "schema")}


def batched(values: Sequence[Value], size: int) -> list[Sequence[Value]]:
    """Values in their order, `size` at a time: for the columns of tables."""
    return [values[at : at + size] for at in range(0, len(values), size)]


def counted(number: int, what: str) -> str:
    """A number with what it counts: "1 core", "8 cores"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _content(program: Program) -> dict[str, Any]:
    return {part.name: getattr(program, part.name) for part in fields(Program)}


@dataclass(frozen=True)
class Case:
    """A simulation of a study.

    point    what it is, by name: numbers and text; no two cases of a study have the same
    build    makes its program; a KernelError says why there is none
    """

    point: Mapping[str, Any]
    chip: SocSpec
    build: Callable[[], Measured]


@dataclass(frozen=True)
class Finding:
    """A case that is done.

    result     as Measured.result has it; empty if it has failed
    failure    why it has, "" if it has not
    """

    case: Case
    result: Result
    failure: str = ""


@dataclass(frozen=True)
class Study:
    """A sweep with its pictures.

    question     what it answers, in one line
    arguments    model of [study.args]
    quick        arguments of a sweep that takes seconds
    cases        from arguments and chip
    rows         figures, from arguments, chip and the findings that have not failed
    tables       of rows, each with a title; at most 100 columns wide
    explain      says in a paragraph what the rows show; there is at least one row
    draw         puts rows into a figure
    size         of the figure: width and height in inches; draw may make it larger
    """

    name: str
    question: str
    arguments: type[BaseModel]
    quick: Mapping[str, Any]
    cases: Callable[[Any, SocSpec], Sequence[Case]]
    rows: Callable[[Any, SocSpec, Sequence[Finding]], list[Row]]
    tables: Callable[[Sequence[Row]], Sequence[Table]]
    explain: Callable[[Sequence[Row]], str]
    draw: Callable[["Figure", Sequence[Row]], None]
    size: tuple[float, float] = (7.2, 4.0)
