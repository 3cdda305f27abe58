"""pulpsim report: a trace, or a run's JSON, as a page of pictures."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from pulpsim.cli.output import check_writable, write
from pulpsim.cli.output_place import beside
from pulpsim.cli.terminal import neutralised, progress, report_console
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import Figures
from pulpsim.html_report.load import read
from pulpsim.html_report.losses import LARGEST, Trial, losses
from pulpsim.html_report.page import page
from pulpsim.html_report.svg import count, percent


def report(
    file: Path, output: Path | None = None, cycles: str | None = None, is_tried: bool = False
) -> Path:
    """Write a run's page, FILE.html unless told, and say the largest losses; return its path.

    cycles      "1000-2000": of these cycles of a trace alone, the end left out
    is_tried    simulate what would help

    raises    ConfigError
    """
    output = output or beside(file, ".html")
    check_writable("-o", output, file)
    figures = read(file, cycles)
    found: list[Trial] = []
    if is_tried:
        from pulpsim.html_report.trials import trials

        found = trials(Evidence(figures), str(file), progress)
    write("-o", output, page(figures, found).encode("utf-8", "backslashreplace"))
    console = report_console()
    for line in explained(figures, found):
        text = fill(neutralised(line), console.width, subsequent_indent=" " * 9)
        console.print(text, soft_wrap=True)
    return output


def explained(figures: Figures, trials: Sequence[Trial] = ()) -> list[str]:
    """Notes and the largest losses, a line each; after it, what was simulated for it."""
    evidence = Evidence(figures)
    lines = [f"note: {note}" for note in figures.notes]
    for loss in losses(evidence)[:LARGEST]:
        share = percent(loss.cycles, evidence.cycles)
        lines.append(f"{share:>7}  {loss.name}: {count(loss.cycles)} cycles. {loss.help}")
        own = (trial for trial in trials if trial.loss == loss.name)
        lines += [f"{'':9}Simulated: {trial.sentence(figures.cycles)}." for trial in own]
    return lines
