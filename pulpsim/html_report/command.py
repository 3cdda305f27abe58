"""pulpsim report: a trace, or a run's JSON, as a page of pictures."""

from pathlib import Path
from textwrap import fill

from pulpsim.commands.cli.output import check_writable, write
from pulpsim.commands.cli.output_place import beside
from pulpsim.commands.cli.terminal import neutralised, report_console
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import Figures
from pulpsim.html_report.load import read
from pulpsim.html_report.losses import LARGEST, losses
from pulpsim.html_report.page import page
from pulpsim.html_report.svg import count, percent


def report(file: Path, output: Path | None = None, cycles: str | None = None) -> Path:
    """Write a run's page, FILE.html unless told, and say the largest losses; return its path.

    cycles    "1000-2000": of these cycles of a trace alone, the end left out

    raises    ConfigError
    """
    output = output or beside(file, ".html")
    check_writable("-o", output, file)
    figures = read(file, cycles)
    write("-o", output, page(figures).encode("utf-8", "backslashreplace"))
    console = report_console()
    for line in explained(figures):
        text = fill(neutralised(line), console.width, subsequent_indent=" " * 9)
        console.print(text, soft_wrap=True)
    return output


def explained(figures: Figures) -> list[str]:
    """Notes and the largest losses, a line each."""
    evidence = Evidence(figures)
    return [f"note: {note}" for note in figures.notes] + [
        f"{percent(loss.cycles, evidence.cycles):>7}  {loss.name}: {count(loss.cycles)} cycles. "
        f"{loss.help}"
        for loss in losses(evidence)[:LARGEST]
    ]
