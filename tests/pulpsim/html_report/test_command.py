"""pulpsim report as a command: what it writes and says, and what it refuses."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from pulpsim.commands.app import app
from pulpsim.html_report.command import explained
from tests.pulpsim.html_report.traces import RESULT, everything, figures


def invoke(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["report", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_the_command_writes_the_page_beside_the_result_unless_told(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_bytes(RESULT.read_bytes())
    assert invoke(file)[:2] == (0, f"{tmp_path / 'run.html'}\n")
    status, _, told = invoke(file, "-o", tmp_path / "other.html")
    assert status == 0
    lines = told.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line[6] == "%" for line in lines) == 3
    assert all(line[6] == "%" or line.startswith((" " * 9, "note: ")) for line in lines)
    assert (tmp_path / "other.html").read_text() == (tmp_path / "run.html").read_text()


def test_the_command_says_notes_and_the_largest_losses() -> None:
    lines = explained(figures(everything(), cycles=30, chip={"name": "x"}))
    assert lines == [
        "note: the events do not account for every cycle of core0, core1",
        " 20.0 %  Barriers themselves: 10 cycles. Fewer of them: join phases that need no exchange "
        "between cores.",
        " 10.0 %  Waits for slower cores: 5 cycles. core1 has more to do than the others: share "
        "its work differently, or let the others help in what it does alone.",
        " 10.0 %  Instruction-cache misses: 5 cycles. Mostly cold misses: shorter code (unroll "
        "less), or more work per pass through it; runs of a second pass (warm = true) show what "
        "is left.",
    ]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (
            b"",
            "{file}: neither a trace nor the result of a run; make one with "
            "`pulpsim run --trace FILE`, or `--json FILE`",
        ),
        (
            b'{"schema": "other"}',
            "{file}: neither a trace nor the result of a run; make one with "
            "`pulpsim run --trace FILE`, or `--json FILE`",
        ),
        (
            b'{"schema": "pulpsim.run/1", "cycles": 1}',
            "{file}: harts: missing; make it again with `pulpsim run --json FILE`",
        ),
        (
            b'{"schema": "pulpsim.run/1", "cycles": 1, "harts": 5}',
            "{file}: harts = 5: must be a valid list; make it again with `pulpsim run --json FILE`",
        ),
        (
            b"PULPTRC9",
            "{file}: a trace of format 9; this version of pulpsim reads format 1",
        ),
    ],
)
def test_other_files_are_refused_in_one_sentence(
    tmp_path: Path, contents: bytes, message: str
) -> None:
    file = tmp_path / "it"
    file.write_bytes(contents)
    assert invoke(file) == (2, "", f"pulpsim: {message.format(file=file)}\n")


def test_a_file_that_cannot_be_read_and_a_place_that_cannot_be_written_are_named(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "missing.trace"
    assert invoke(missing) == (
        2,
        "",
        f"pulpsim: {missing}: cannot be read: No such file or directory\n",
    )
    nowhere = tmp_path / "no" / "page.html"
    assert invoke(RESULT, "-o", nowhere) == (
        2,
        "",
        f"pulpsim: -o {nowhere}: there is no folder {tmp_path / 'no'}\n",
    )
