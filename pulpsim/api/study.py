"""pulpsim.study: sweeps over chips and programs, as `pulpsim study` carries them out."""

from dataclasses import dataclass, replace
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from rich.console import Console

from pulpsim.api.chip import Chip, chip_option
from pulpsim.cli.executor import cluster_of
from pulpsim.commands.study.config import Options, Plan, load_plan
from pulpsim.commands.study.files import prepare_folder, write_files
from pulpsim.commands.study.result_store import Store
from pulpsim.commands.study.simulate import Simulate
from pulpsim.commands.study.study import Finding, Row
from soc.host.notebook import frame, html_table


@dataclass(frozen=True, repr=False)
class StudyResult:
    """The result of a study.

    plan      the study, its arguments, its chip
    rows      figures, a dictionary each
    text      the paragraph that says what they show
    failed    cases without figures, and why
    """

    plan: Plan
    rows: list[Row]
    text: str
    failed: tuple[Finding, ...] = ()

    def to_frame(self) -> Any:
        """The rows as a pandas.DataFrame. Raises ImportError without pandas."""
        return frame(self.rows)

    def svg(self) -> str:
        """The study's picture. Raises ImportError without matplotlib."""
        from pulpsim.commands.study.plot_style import pictures

        return pictures(self.plan.study, self.rows)["svg"].decode()

    def save(self, folder: str | PathLike[str]) -> list[Path]:
        """Write rows as JSON and CSV, and pictures where matplotlib is; return the files.

        raises    ConfigError if they cannot be written
        """
        target = Path(folder)
        prepare_folder(target)
        return write_files(replace(self.plan, output=target), self.rows, self.failed, self.text)[0]

    def __repr__(self) -> str:
        failed = f", {len(self.failed)} failed" if self.failed else ""
        return (
            f"<StudyResult {self.plan.study.name} on {self.plan.chip.name}: "
            f"{len(self.rows)} rows{failed}>"
        )

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], self.rows, self.text)


def study(
    what: str | PathLike[str],
    chip: Chip | None = None,
    *,
    quick: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    database: str | PathLike[str] | None = None,
    **arguments: Any,
) -> StudyResult:
    """Sweep over chips and programs, several simulations at a time.

    what         "banking", "stride", "traffic", "dma", "scaling", "roofline", or a config file
    chip         as for `run`
    quick        a sweep that takes seconds
    workers      simulations at a time; None: as many as there are processors
    scheduler    of a Dask cluster that simulates, "tcp://HOST:PORT"
    database     file that keeps every simulation; None: one in the user's cache folder
    arguments    of the study, which `pulpsim study` lists: banks=[8, 16, 32]

    raises    ConfigError with every mistake in study, arguments and chip

        banking = ps.study("banking", quick=True)
        banking.to_frame(), banking.text
    """
    options = Options(
        arguments=arguments,
        chip=chip_option(chip),
        quick=quick,
        workers=workers,
        scheduler=scheduler,
        database=Path(database) if database else None,
    )
    plan = load_plan(fspath(what), options)
    store = Store(plan.database)
    try:
        with cluster_of(plan.executor, Console(quiet=True)) as executor:
            workers = plan.executor.workers
            simulate = Simulate(plan.study.name, store, workers=workers, executor=executor)
            findings = simulate(plan.cases)
    finally:
        store.close()
    good = [finding for finding in findings if not finding.failure]
    rows = plan.study.rows(plan.arguments, plan.chip, good) if good else []
    failed = tuple(finding for finding in findings if finding.failure)
    return StudyResult(plan, rows, plan.study.explain(rows) if rows else "", failed)
