import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

from pulpsim.html_report.figures import of_result, of_trace
from pulpsim.html_report.page import embedded, page
from pulpsim.html_report.style import DARK, LIGHT
from soc.trace.reader import EVENT, Kind
from tests.pulpsim.html_report.traces import (
    CODE,
    RESULT,
    everything,
    figures,
    issues,
    trace,
)

EVIL = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e&\"'"
SECTIONS = ["explain", "stalls", "timeline", "heat", "banks", "matrix", "regions", "spots"]
VOID = {"meta"}


class Elements(HTMLParser):
    """What a browser would build: elements and their attributes; fails where ends do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def evil_page() -> str:
    """A page of a trace in which every name is markup, escape sequences and quotes."""
    return page(
        figures(
            everything(),
            cycles=25,
            initiators=["core0", EVIL, EVIL, EVIL],
            symbols=[[CODE, 256, EVIL]],
            lines=[[CODE, f"{EVIL}:1"]],
            regions={"3": EVIL},
            program=EVIL,
            chip={"name": EVIL},
            filters=[EVIL],
            exit={"reason": "trap", "code": 0, "message": EVIL},
        )
    )


def test_names_from_the_trace_are_text_whatever_they_contain() -> None:
    harmless = Elements(page(figures(everything(), cycles=25, regions={"3": "r"})))
    evil = Elements(evil_page())
    assert "img" not in evil.tags
    assert evil.tags.count("script") == harmless.tags.count("script") == 3
    assert not [name for name, _ in evil.attributes if name.startswith("on")]
    shown = "".join(evil.text)
    assert "</script><img src=x onerror=alert(1)>\\x1b[31m\\u202e" in shown
    assert not [char for char in evil_page() if not char.isprintable() and char not in "\n\t"]


def test_what_the_script_reads_cannot_end_it() -> None:
    text = embedded({"name": EVIL + "\u2028<!--"})
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text)["name"] == EVIL + "\u2028<!--"


def test_a_page_needs_nothing_but_itself() -> None:
    html = page(figures(everything(), cycles=25))
    elements = Elements(html)
    assert not {"link", "img", "iframe", "object", "base"} & set(elements.tags)
    names = {name for name, _ in elements.attributes}
    assert not {"src", "xlink:href", "srcset", "action"} & names
    assert all(
        value and value.startswith("#") for name, value in elements.attributes if name == "href"
    )
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_a_page_of_a_trace_has_all_sections_and_that_of_a_result_those_without_times() -> None:
    html = page(figures(everything(), cycles=25, regions={"3": "layer"}))
    assert re.findall('<section id="(.*?)">', html) == SECTIONS
    result = page(of_result(json.loads(RESULT.read_text()), "result.json"))
    assert re.findall('<section id="(.*?)">', result) == ["explain", "stalls", "banks", "regions"]
    assert "<script" not in result
    Elements(result)


def test_the_rate_of_a_kernel_of_halves_stands_beside_what_pairs_allow():
    kernel = {"macs_per_cycle": 10.1, "lanes": 2, "macs_per_cycle_limit": 16}
    result = json.loads(RESULT.read_text()) | {"program": kernel}
    html = page(of_result(result, "result.json"))
    assert "<b>16</b><span>at most, of pairs of halves</span>" in html


def test_tables_of_many_harts_are_written_smaller() -> None:
    def tables(harts: int) -> int:
        rows = [row for hart in range(harts) for row in issues(hart, 0, 5)]
        return page(figures(rows, harts)).count('<table class="many">')

    assert (tables(9), tables(10)) == (0, 2)


def test_an_empty_trace_makes_a_page() -> None:
    html = page(figures([]))
    assert "No cycle was lost." in html
    Elements(html)


def test_every_percentage_column_is_shown_to_close_to_100() -> None:
    html = page(of_result(json.loads(RESULT.read_text()), "result.json"))
    table = html[html.index("% of the hart") :]
    table = table[: table.index("</table>")]
    lines = [re.findall("<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", table)]
    body, sums = [line for line in lines if line][:-1], lines[-1]
    for column in range(1, len(sums) - 1):
        hundredths = sum(round(100 * float(row[column] or 0)) for row in body)
        assert (hundredths, sums[column]) == (10_000, "100.00")


def test_a_trace_that_is_not_whole_says_so() -> None:
    def notes(**header: Any) -> tuple[str, ...]:
        return figures(everything(), **header).notes

    assert notes(cycles=25) == ()
    assert notes(cycles=26) == ("the events do not account for every cycle of core0, core1",)
    assert notes(cycles=25, filters=["hart=0"]) == (
        "recorded with filters (hart=0): pictures do not show the rest",
    )
    assert notes(cycles=90, complete=False, why="its limit of 5 events is reached") == (
        "the trace is not complete: its limit of 5 events is reached",
    )
    assert notes(cycles=25, exit={"reason": "exit", "code": 3}) == ("the run ended by exit 3",)


def test_colours_of_parts_can_be_told_from_the_paper_and_from_their_neighbours() -> None:
    for colours in (LIGHT, DARK):
        assert _contrast(colours["ink"], colours["paper"]) > 7
        assert _contrast(colours["soft"], colours["paper"]) > 4.5
        assert _contrast(colours["accent"], colours["paper"]) > 4.5
        for one, other in (("work", "conflict"), ("work", "fetch"), ("barrier", "asleep")):
            assert _contrast(colours[one], colours[other]) > 1.25


def _contrast(one: str, other: str) -> float:
    """WCAG 2: of relative luminances."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    values = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def many(count: int, harts: int = 16, banks: int = 64) -> np.ndarray:
    """Random events, `count` of them, of `harts` cores and two DMA lanes."""
    random = np.random.default_rng(5)
    events = np.zeros(count, EVENT)
    events["cycle"] = np.sort(random.integers(0, count, count))
    kinds = [Kind.ISSUE, Kind.STALL, Kind.MEMORY, Kind.CONFLICT, Kind.DMA, Kind.SLEEP, Kind.REGION]
    events["kind"] = random.choice(kinds, count, p=[0.5, 0.2, 0.15, 0.1, 0.03, 0.01, 0.01])
    events["hart"] = random.integers(0, harts, count)
    extra = {
        Kind.STALL: random.integers(0, 19, count),
        Kind.CONFLICT: random.integers(0, banks, count) | random.integers(0, harts, count) << 8,
        Kind.SLEEP: random.integers(0, 2, count),
        Kind.REGION: random.integers(0, 40, count),
    }
    for kind, numbers in extra.items():
        chosen = events["kind"] == kind
        events["extra"][chosen] = numbers[chosen]
    events["a"] = CODE + 4 * random.integers(0, 60, count)
    marks = events["kind"] == Kind.REGION
    events["a"][marks] = random.integers(0, 2, count)[marks]
    events["b"] = 1
    return events


def test_a_page_stays_small_however_many_events_harts_and_banks_there_are(
    request: pytest.FixtureRequest,
) -> None:
    count = 10_000_000 if request.config.getoption("--full") else 300_000
    recorded = trace(many(count), harts=16, banks=64)
    html = page(of_trace(recorded))
    assert len(html) < 3_000_000


@pytest.mark.parametrize("kinds", [*([kind] for kind in Kind), list(Kind)[1:], list(Kind)[::2]])
def test_a_trace_of_some_kinds_of_events_makes_a_page(kinds: list[Kind]) -> None:
    chosen = [row for row in everything() if row[1] in kinds]
    filters = [f"kind={kind.name.lower()}" for kind in kinds]
    Elements(page(figures(chosen, cycles=25, filters=filters)))
