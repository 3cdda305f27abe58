"""The page's section of what checks have found: findings, and lines with conflicts at the banks."""

from collections.abc import Mapping
from typing import Any

from pulpsim.html_report.svg import count, shown

MOST_LINES = 40


def checks_section(checks: Mapping[str, Any]) -> str:
    """Findings as a table, the earlier access below the one that was found; then conflicts."""
    made = ", ".join(checks["made"])
    if not checks["findings"]:
        return f"<p>Checked: {shown(made)}. Nothing was found.</p>{_conflicts(checks)}"
    rows = "".join(_finding(finding) for finding in checks["findings"])
    head = "<tr><th>check</th><th>what</th><th>who</th><th>cycle</th><th>function</th>"
    return (
        f"<p>Checked: {shown(made)}.</p><table>{head}<th>line</th><th>times</th></tr>{rows}</table>"
        f"{_conflicts(checks)}"
    )


def _finding(finding: Mapping[str, Any]) -> str:
    rows = []
    for number, access in enumerate(finding["accesses"]):
        name = f"{finding['check']}: {finding['kind']}" if number == 0 else ""
        times = count(finding["count"]) if number == 0 else ""
        cells = (
            name,
            finding["what"] if number == 0 else "",
            f"{access['who']} {access['does']}",
            count(access["cycle"]),
            access["function"],
            access["line"],
            times,
        )
        rows.append("<tr>" + "".join(f"<td>{shown(cell)}</td>" for cell in cells) + "</tr>")
    return "".join(rows)


def _conflicts(checks: Mapping[str, Any]) -> str:
    if not checks["conflicts"]:
        return ""
    rows = "".join(
        f"<tr><td>{shown(line['place'])}</td><td>{count(line['accesses'])}</td>"
        f"<td>{count(line['conflicts'])}</td><td>{shown(line['advice'])}</td></tr>"
        for line in checks["conflicts"][:MOST_LINES]
    )
    return (
        "<table><tr><th>line</th><th>accesses to L1</th><th>lost arbitrations</th>"
        f"<th>what would help</th></tr>{rows}</table>"
    )
