"""pulpsim report: a trace, or a run's JSON, as a page of pictures."""

from pathlib import Path

from pulpsim.output import check_writable, write
from pulpsim.report_page.figures import read
from pulpsim.report_page.page import page


def report(file: Path, output: Path | None) -> Path:
    """Write a run's page, FILE.html unless told; return its path.

    raises    ConfigError
    """
    output = output or file.with_suffix(".html")
    check_writable("-o", output)
    write("-o", output, page(read(file)).encode("utf-8", "backslashreplace"))
    return output
