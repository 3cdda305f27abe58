"""The page: sections in order, one file without any network, whole without its script."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pulpsim import __version__
from pulpsim.html_report import banks, breakdown, heat
from pulpsim.html_report.checks import checks_section
from pulpsim.html_report.detail import FINE, data, fine_data, packed
from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.figures import Figures
from pulpsim.html_report.losses import LARGEST, Loss, Trial, losses
from pulpsim.html_report.matrix import matrix
from pulpsim.html_report.recording import Recording
from pulpsim.html_report.region_table import region_table
from pulpsim.html_report.script import BUTTONS, SCRIPT
from pulpsim.html_report.spots import hot_spots
from pulpsim.html_report.stall_groups import PARTS
from pulpsim.html_report.style import style_sheet
from pulpsim.html_report.svg import count, counted, percent, shown
from pulpsim.html_report.timeline import Timeline

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
OTHERS = (
    ("dma_in", "DMA into L1"),
    ("dma_out", "DMA out of L1"),
    ("accent", "share inside a region"),
)
"""Colours of the timeline beside those of parts."""
Section = tuple[str, str, str]
"""Anchor, heading, contents."""


def page(figures: Figures, trials: Sequence[Trial] = ()) -> str:
    """The HTML of a run's page, with what was simulated for its losses."""
    name = figures.about or figures.file
    timeline = Timeline(figures.recording) if figures.recording else None
    sections = list(_sections(figures, timeline, trials))
    links = "".join(f'<a href="#{anchor}">{heading}</a>' for anchor, heading, _ in sections)
    bodies = "".join(
        f'<section id="{anchor}"><h2>{heading}</h2>{body}</section>'
        for anchor, heading, body in sections
    )
    notes = "".join(f'<p class="warning">{shown(note)}</p>' for note in figures.notes)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{shown(name)}: where the cycles went</title><style>{style_sheet()}</style></head>"
        f"<body><main><h1>{shown(name)}</h1>"
        f'<div class="soft">pulpsim {shown(__version__)}, from {shown(figures.file)}</div>'
        f"{notes}{_headline(figures)}<nav>{links}</nav>{bodies}</main>"
        f"{_scripts(figures.recording, timeline)}</body></html>\n"
    )


def _headline(figures: Figures) -> str:
    harts = [figures.harts[index] for index in figures.workers]
    instructions = sum(hart.instructions for hart in figures.harts)
    accesses = sum(accesses for accesses, _ in figures.banks)
    cycles = sum(hart.cycles for hart in harts)
    asleep = sum(hart.stalls.get("event", 0) for hart in harts)
    tiles = [
        (count(figures.cycles), "cycles"),
        (count(instructions), "instructions"),
        (f"{sum(h.instructions for h in harts) / max(1, cycles):.2f}", "instructions a core-cycle"),
        (count(accesses), "accesses to L1"),
        (percent(figures.by_dma, accesses), "of them by the DMA"),
        (count(figures.conflicts), "lost arbitrations"),
        (percent(asleep, cycles), "of core-cycles asleep"),
    ]
    if figures.kernel.get("macs_per_cycle"):
        tiles.append(
            (f"{figures.kernel['macs_per_cycle']:.2f}", "multiply-adds a cycle in compute")
        )
        if figures.kernel.get("lanes", 1) > 1:
            limit = figures.kernel["macs_per_cycle_limit"]
            tiles.append((f"{limit}", "at most, of pairs of halves"))
    cells = "".join(f"<div><b>{value}</b><span>{what}</span></div>" for value, what in tiles)
    return f'<div class="figures">{cells}</div>'


def _sections(
    figures: Figures, timeline: Timeline | None, trials: Sequence[Trial]
) -> Iterator[Section]:
    recording = figures.recording
    if figures.checks:
        yield "checks", "What the checks have found", checks_section(figures.checks)
    yield "explain", "The largest losses", _explain(figures, trials)
    yield "stalls", "Where each hart's cycles went", _stalls(figures)
    if timeline:
        yield "timeline", "Over time", _timeline(timeline)
    if recording and recording.heat.any():
        yield "heat", "Conflicts by bank and time", _heat(recording)
    if any(accesses for accesses, _ in figures.banks):
        yield "banks", "Load of the banks", _load(figures)
    if recording and recording.matrix.any():
        yield "matrix", "Who blocks whom", _matrix(recording)
    regions = region_table(figures)
    if regions:
        yield "regions", "Regions", _regions(figures, regions)
    if recording and recording.sites.size:
        yield "spots", "Hot spots", _spots(recording)


def _explain(figures: Figures, trials: Sequence[Trial]) -> str:
    evidence = Evidence(figures)
    found = losses(evidence)
    cores = len(evidence.cores)
    if not found:
        return "<p>No cycle was lost.</p>"
    work = evidence.cycles - sum(loss.cycles for loss in found)
    rest = sum(loss.cycles for loss in found[LARGEST:])
    items = "".join(_loss(loss, figures, evidence, trials) for loss in found[:LARGEST])
    return (
        f"<p>Of the {count(evidence.cycles)} cycles that {cores} "
        f"{'cores have' if cores > 1 else 'core has'} together, instructions take "
        f"{percent(work, evidence.cycles)}. The largest losses:</p>"
        f'<ol class="losses">{items}</ol>'
        + (
            f'<p class="note">All other losses together: {count(rest)} cycles, '
            f"{percent(rest, evidence.cycles)}.</p>"
            if rest
            else ""
        )
    )


def _loss(loss: Loss, figures: Figures, evidence: Evidence, trials: Sequence[Trial]) -> str:
    whole, cores = evidence.cycles, len(evidence.cores)
    own = (trial.sentence(figures.cycles) for trial in trials if trial.loss == loss.name)
    tried = "".join(f"<p><b>Simulated:</b> {_prose(sentence)}.</p>" for sentence in own)
    each = f", {count(loss.cycles / cores)} a core" if cores > 1 else ""
    return (
        f'<li class="edge-{loss.key}"><h3>{shown(loss.name)}</h3>'
        f"<b>{percent(loss.cycles, whole)}: {count(loss.cycles)} cycles{each}</b>"
        f"<p>{_prose(loss.where)}</p>"
        f"<p><b>What would help:</b> {_prose(loss.help)}</p>{tried}</li>"
    )


def _prose(text: str) -> str:
    """Format sentences; what stands between backquotes is code."""
    pieces = shown(text).replace(" %", "&nbsp;%").split("`")
    return "".join(f"<code>{p}</code>" if i % 2 else p for i, p in enumerate(pieces))


def _stalls(figures: Figures) -> str:
    return (
        f"{breakdown.parts_legend(figures)}<figure>{breakdown.bars(figures)}</figure>"
        f"{breakdown.table(figures, in_percent=True)}"
        "<details><summary>In cycles</summary>"
        f"{breakdown.table(figures, in_percent=False)}</details>"
    )


def _timeline(timeline: Timeline) -> str:
    drawn = {key for row in timeline.rows for key, _, values in row.series if values.any()}
    known = [*((part.key, part.name) for part in PARTS), *OTHERS]
    width = counted(timeline.recording.bins.width, "cycle")
    return (
        f"{BUTTONS}<figure>{timeline.drawn()}<figcaption>One column is "
        f'<span id="column">{width}</span>; a hart\'s row is filled with what it did in them. '
        "Closer, columns have fewer cycles.</figcaption></figure>"
        f"{breakdown.legend([each for each in known if each[0] in drawn])}"
    )


def _heat(recording: Recording) -> str:
    return (
        f"<figure>{heat.heat_map(recording)}<figcaption>At the right, all that were lost at each "
        f"bank: {count(int(recording.heat.sum()))} together.</figcaption></figure>"
        f"{heat.heat_legend(recording)}"
    )


def _load(figures: Figures) -> str:
    keys = [("work", "accesses granted"), ("conflict", "arbitrations lost")]
    return (
        f"<p>{shown(banks.imbalance(figures))}</p><figure>{banks.load(figures)}</figure>"
        f"{breakdown.legend(keys)}"
    )


def _matrix(recording: Recording) -> str:
    return (
        f"<figure>{matrix(recording)}<figcaption>Row: who lost an arbitration, and so a "
        "cycle; column: who won it. At the right, all that each one lost; below, all that each "
        "one won from others.</figcaption></figure>"
    )


def _regions(figures: Figures, table: str) -> str:
    nesting = "indented where one lies inside another; " if figures.recording else ""
    return (
        f'<p class="note">In the order of time, {nesting}cycles are those of the core that spent '
        f"most in it, shares are of all cores' cycles inside.</p>{table}"
    )


def _spots(recording: Recording) -> str:
    return (
        '<p class="note">Cycles of all harts together, without sleep: one for each instruction, '
        f"and those that it made its hart wait.</p>{hot_spots(recording)}"
    )


def _scripts(recording: Recording | None, timeline: Timeline | None) -> str:
    if not recording or not timeline:
        return ""
    fine = recording.binned(FINE)
    return (
        f'<script type="application/json" id="data">{embedded(data(timeline))}</script>'
        f'<script type="text/plain" id="fine">{packed(fine_data(Timeline(fine)))}</script>'
        f"<script>{SCRIPT}</script>"
    )


def embedded(data: Any) -> str:
    """JSON that no markup can end: what HTML takes for its own is escaped."""
    text = json.dumps(data, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
