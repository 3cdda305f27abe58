"""pulpsim study: carry out a study, show it, and write its files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic_core import PydanticUndefined
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pulpsim.cli.executor import cluster_of
from pulpsim.cli.terminal import (
    compact_table,
    neutralised,
    page_console,
    print_whole,
    report_console,
)
from pulpsim.commands.study.catalogue import STUDIES
from pulpsim.commands.study.config import Options, Plan, load_plan
from pulpsim.commands.study.files import prepare_folder, write_files
from pulpsim.commands.study.kernels import sizes_of_repeated
from pulpsim.commands.study.result_store import Store
from pulpsim.commands.study.simulate import Simulate
from pulpsim.commands.study.study import Finding, counted
from soc.config.validation import shown_value

SUCCESS, FAILED, INTERRUPTED = 0, 1, 130
FAILURES = 5  # that are shown; the JSON has them all


def study(what: str | None, options: Options) -> int:
    """Carry out a study, or list them; return the command's exit status.

    what      its name, or a config file; None: list them

    raises    ConfigError
    """
    if what is None:
        list_studies(page_console())
        return SUCCESS
    plan = load_plan(what, options)
    prepare_folder(plan.output)
    store = Store(plan.database)
    console = report_console()
    try:
        with (
            shown_progress(plan, console) as progress,
            cluster_of(plan.executor, console) as executor,
        ):
            simulate = Simulate(
                plan.study.name,
                store,
                workers=plan.executor.workers,
                executor=executor,
                on_built=progress.built,
                on_end=progress.done,
                progress=progress.compiling,
            )
            findings = simulate(plan.cases)
    except KeyboardInterrupt:
        console.print(
            f"interrupted; {len(store)} simulations are in {plan.database}: the same command goes "
            f"on from here",
            soft_wrap=True,
        )
        return INTERRUPTED
    finally:
        store.close()
    console.print(
        f"{plan.study.name} on {neutralised(plan.chip.name)}: {counted(len(findings), 'case')}, "
        f"{simulate.simulated:,} simulated now"
    )
    return show(plan, findings, page_console(), console)


def show(plan: Plan, findings: Sequence[Finding], page: Console, console: Console) -> int:
    """Print tables and text, write files; return the exit status.

    raises    ConfigError
    """
    good = [finding for finding in findings if not finding.failure]
    failed = [finding for finding in findings if finding.failure]
    rows = plan.study.rows(plan.arguments, plan.chip, good) if good else []
    text = plan.study.explain(rows) if rows else ""
    if rows:
        for table in plan.study.tables(rows):
            page.print(table.title)
            table.title = None  # which would be broken to the table's width
            print_whole(page, table)
            page.print()
        sizes = sizes_of_repeated(dict(plan.arguments).get("kernels", ()))
        if sizes:
            page.print("\n".join(sizes))
            page.print()
        page.print(text)
        page.print()
    show_failures(failed, len(findings), console)
    files, reason = write_files(plan, rows, failed, text)
    names = ", ".join(file.name for file in files)
    console.print(f"written to {plan.output}: {names}", soft_wrap=True)
    if reason:
        console.print(reason, soft_wrap=True)
    return SUCCESS if rows else FAILED


def show_failures(failed: Sequence[Finding], cases: int, console: Console) -> None:
    """What is missing, and why."""
    if not failed:
        return
    console.print(f"{len(failed)} of {cases} cases have failed:")
    for finding in failed[:FAILURES]:
        point = ", ".join(f"{name} {value}" for name, value in finding.case.point.items())
        console.print(neutralised(f"  {point}: {finding.failure}"), soft_wrap=True)
    if len(failed) > FAILURES:
        console.print(f"  ... {len(failed) - FAILURES} more: the JSON has all")


def list_studies(console: Console) -> None:
    """All studies with their arguments."""
    for entry in STUDIES.values():
        console.print(f"{entry.name}: {entry.question}", style="bold", soft_wrap=True)
        table = compact_table("argument", "what", "default", left=3)
        table.show_header, table.columns[-1].no_wrap = False, False
        for name, field in entry.arguments.model_fields.items():
            default = field.default
            shown = "" if default is PydanticUndefined else short_value(default)
            table.add_row(f"  {name}", field.description or "", shown)
        console.print(table)
    console.print(
        "\npulpsim study NAME [--quick] [--arg NAME=VALUE], or a config with a [study] table"
    )


def short_value(value: object) -> str:
    """A default in a few words."""
    if isinstance(value, tuple):
        return " ".join(str(v["kernel"] if isinstance(v, dict) else v) for v in value)
    return shown_value(value)


class Shown:
    """How far a study is, in a terminal."""

    def __init__(self, progress: Progress | None, name: str, cases: int) -> None:
        self.progress, self.name = progress, name
        self.task = progress.add_task(f"{name}: programs", total=cases) if progress else None
        self.cases, self.programs = cases, 0

    def built(self) -> None:
        """A program is built."""
        self.programs += 1
        if self.programs == self.cases:
            self._update(description=f"{self.name}: simulations", completed=0)
        else:
            self._update(advance=1)

    def done(self, finding: Finding) -> None:
        """A case is done."""
        self._update(advance=1)

    @contextmanager
    def compiling(self, message: str) -> Iterator[None]:
        """Something long is going on."""
        self._update(description=message)
        yield
        self._update(description=f"{self.name}: simulations")

    def _update(self, **what: object) -> None:
        if self.progress and self.task is not None:
            self.progress.update(self.task, **what)  # type: ignore[arg-type]


@contextmanager
def shown_progress(plan: Plan, console: Console) -> Iterator[Shown]:
    """Show progress in a terminal while the body runs."""
    if not console.is_terminal:
        yield Shown(None, plan.study.name, len(plan.cases))
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield Shown(progress, plan.study.name, len(plan.cases))
