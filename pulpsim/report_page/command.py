"""pulpsim report: a trace, or a run's JSON, as a page of pictures."""

from pathlib import Path

from pulpsim.output import check_writable, write
from pulpsim.report_page.page import page
from pulpsim.report_page.reading import read


def report(file: Path, output: Path | None = None, cycles: str | None = None) -> Path:
    """Write a run's page, FILE.html unless told; return its path.

    cycles    "1000-2000": of these cycles of a trace alone

    raises    ConfigError
    """
    output = output or file.with_suffix(".html")
    check_writable("-o", output)
    write("-o", output, page(read(file, cycles)).encode("utf-8", "backslashreplace"))
    return output
