"""Data for the page's script: the pictures' numbers, in their own bins and in finer ones.

The finer ones are drawn as soon as the reader zooms in; they lie in the page compressed.
"""

import json
from base64 import b64encode
from typing import Any
from zlib import compress

import numpy as np

from pulpsim.html_report import heat
from pulpsim.html_report.bins import MOST
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.style import LEVELS
from pulpsim.html_report.svg import LABELS, PLOT
from pulpsim.html_report.timeline import Timeline
from soc.trace.reader import Kind

FINE = 1 << 14
"""Bins of what is seen closer, at most."""


def data(timeline: Timeline) -> dict[str, Any]:
    """Bins, and the rows of both pictures with a number for each bin."""
    recording = timeline.recording
    bins, height = recording.bins, heat.row_height(recording.trace.banks)
    rates = recording.heat / bins.widths
    return {
        "bins": {
            "first": bins.first,
            "cycles": bins.cycles,
            "width": bins.width,
            "count": bins.count,
        },
        "left": LABELS,
        "plot": PLOT,
        "columns": MOST,
        "heat": {"most": float(rates.max(initial=0.0)), "levels": LEVELS},
        "rows": {
            "activity": [
                {
                    "name": row.name,
                    "top": y,
                    "height": row.height,
                    "full": row.full,
                    "peak": row.peak,
                    "series": [[name, v.tolist(), key] for key, name, v in row.series],
                }
                for y, row in timeline.places()
            ],
            "heat": [
                {
                    "name": f"bank {bank}",
                    "top": top,
                    "height": height,
                    "series": [["lost arbitrations", lost.tolist(), ""]],
                }
                for bank, (top, lost) in enumerate(heat.heat_rows(recording))
            ],
        },
    }


def fine_data(timeline: Timeline) -> dict[str, Any]:
    """The same, and each hart's next instruction at the begin of each bin.

    next       by hart: for each bin a place in `code`, -1 after its last instruction
    code       instruction, place and source line
    """
    recording = timeline.recording
    found = [_next_pcs(recording, hart) for hart in range(len(recording.trace.harts))]
    pcs, places = np.unique(np.stack(found), return_inverse=True)
    places = places.reshape(len(found), -1) - int(pcs[0] < 0)
    code = recording.code
    told = [[code.text(pc), code.place(pc), code.line_name(pc)] for pc in pcs.tolist() if pc >= 0]
    return data(timeline) | {"next": places.tolist(), "code": told}


def _next_pcs(recording: Recording, hart: int) -> np.ndarray:
    """The instruction that a hart issues next, at the begin of each bin; -1: none any more."""
    issues = recording.of(Kind.ISSUE)
    issues = issues[issues["hart"] == hart]
    starts = np.arange(recording.bins.count) * recording.bins.width
    index = np.searchsorted(issues["cycle"], starts)
    pcs = np.append(issues["a"].astype(np.int64), -1)
    return pcs[index]


def packed(contents: Any) -> str:
    """JSON, deflated, in base 64."""
    text = json.dumps(contents, separators=(",", ":"))
    return b64encode(compress(text.encode(), 6)).decode()
