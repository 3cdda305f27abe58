"""The panels of the live view, line by line: code, registers, memory, regions, banks and so on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.cells import set_cell_size
from rich.text import Text

from isa.assembler.names import F_NAMES, X_NAMES
from pulpsim.cli.terminal import neutralised, one_line, short
from pulpsim.tui.charts import Paint, styled
from pulpsim.tui.formats import WIDTH, shown
from pulpsim.tui.frame import PANELS, Frame
from pulpsim.tui.listing import Listing, first_word
from pulpsim.tui.source import RegionNow

CODE_TEXT, NARROW_CODE_TEXT = 36, 26
"""Columns of an instruction, where there is room and where there is less."""

HERE = 6
"""Columns that name the harts at an instruction."""


@dataclass(frozen=True)
class Page:
    """The lines of a panel: how many, each when it is asked for, and the one to be in sight.

    key    what `at` is about: another key, and it comes into sight anew
    """

    count: int
    line: Callable[[int], Text]
    at: int | None = None
    key: object = None


def panel_names(frame: Frame) -> list[str]:
    """The panels that there is something for."""
    if not frame.registers:
        return ["code", "regions", "banks", "stops"]
    return [name for name in PANELS if name != "floats" or f_names(frame)]


def _page(lines: list[Text], at: int | None = None, key: object = None) -> Page:
    return Page(len(lines), lines.__getitem__, at, key)


def code(frame: Frame, listing: Listing, width: int, paint: Paint) -> Page:
    """The program's instructions, with the harts that are about to issue them."""
    pc = frame.harts[frame.selected].pc
    here: dict[int, list[int]] = {}
    for number, hart in enumerate(frame.harts):
        if hart.what != "off":
            here.setdefault(hart.pc, []).append(number)
    stops = {address for address, _ in frame.stops}
    room = CODE_TEXT if width >= 100 else NARROW_CODE_TEXT

    def line(index: int) -> Text:
        address, label = listing.rows[index]
        if label:
            return styled(f"{'':{4 + HERE}}{one_line(label)}:", paint.strong)
        is_here = address == pc
        text = styled("●" if address in stops else " ", paint.alarm)
        text.append("▶ " if is_here else "  ", paint.strong)
        names = _together(here.get(address, []), frame)
        text.append(f"{names[:HERE]:>{HERE}} ", paint.series)
        text.append(f"{address:08x}  ", paint.label)
        instruction = one_line(listing.text(address, _word(frame, listing, address)))
        text.append(f"{instruction:{room}} ", paint.strong if is_here else "")
        place, source = listing.source(address)
        if (
            is_here
            or index == 0
            or listing.rows[index - 1].label
            or _before(listing, index) != place
        ):
            text.append(f" {one_line(place.rpartition('/')[2])}  ", paint.label)
            text.append(one_line(source), paint.strong if is_here else "")
        return text

    return Page(len(listing.rows), line, listing.row_of(pc), (frame.selected, pc))


def _before(listing: Listing, index: int) -> str:
    """The source line of the instruction above."""
    return listing.line_of(listing.rows[index - 1].address)


def _word(frame: Frame, listing: Listing, address: int) -> int:
    """The instruction as memory has it, or else the program's file."""
    start, data = frame.code
    if start <= address < start + len(data) - 3:
        return first_word(data[address - start :][:4])
    return listing.word(address)


def _together(harts: list[int], frame: Frame) -> str:
    """Numbers of harts: "0-3,7", "fc"."""
    found: list[list[int]] = []
    names = ["fc" if frame.harts[h].name == "fc" else "" for h in harts]
    for h, name in zip(harts, names, strict=True):
        if name:
            continue
        if found and found[-1][-1] == h - 1:
            found[-1].append(h)
        else:
            found.append([h])
    spans = [str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in found]
    return ",".join([*spans, *filter(None, names)])


def registers(
    frame: Frame, names: list[str], form: str, width: int, height: int, paint: Paint
) -> Page:
    """Registers in columns; the hexadecimal pattern too, where there is room."""
    cell = 6 + WIDTH[form] + 1
    with_pattern = cell + (WIDTH["hex"] + 1 if form != "hex" else 0)
    is_wide = -(-len(names) // max(1, width // with_pattern)) <= height
    if form == "auto" and not is_wide:
        return registers(frame, names, "hex", width, height, paint)
    columns = max(1, width // (with_pattern if is_wide else cell))
    rows = -(-len(names) // columns)
    lines = []
    for row in range(rows):
        text = Text()
        for name in names[row::rows]:
            style = paint.changed if name in frame.changed else ""
            value = frame.registers[name]
            text.append(f"{name:>5} ", style or paint.label)
            if is_wide and form != "hex":
                text.append(f"{shown(value, 'hex')} ", style or paint.label)
            text.append(f"{shown(value, form):>{WIDTH[form]}} ", style)
        lines.append(text)
    return _page(lines)


def x_names(frame: Frame) -> list[str]:
    """The pc and the integer registers of a frame that knows them."""
    return [name for name in ("pc", *X_NAMES) if name in frame.registers]


def f_names(frame: Frame) -> list[str]:
    """The floating-point registers of a frame, if it has them."""
    return [name for name in F_NAMES if name in frame.registers]


def memory_words(form: str, width: int) -> int:
    """Words in a line of memory: a power of two for which there is room."""
    per_word = WIDTH[form] + 1 + (4 if form == "hex" else 0)
    room = max(1, (width - 12) // per_word)
    return 1 << min(4, room.bit_length() - 1)


def memory(frame: Frame, form: str, width: int, paint: Paint) -> Page:
    """Words from an address on; with hexadecimal ones their characters."""
    address, data = frame.memory
    if isinstance(data, str):
        return _page([styled(f" {address:08x}  {data}", paint.label)])
    words, lines = memory_words(form, width), []
    for start in range(0, len(data), 4 * words):
        part = data[start : start + 4 * words]
        text = styled(f" {address + start:08x}  ", paint.label)
        for k in range(0, len(part) - 3, 4):
            word = int.from_bytes(part[k : k + 4], "little")
            text.append(f"{shown(word, form):>{WIDTH[form]}} ", paint.label if not word else "")
        if form == "hex":
            shown_bytes = "".join(chr(b) if 32 <= b < 127 else "·" for b in part)
            text.append(" " + shown_bytes, paint.label)
        lines.append(text)
    return _page(lines or [Text("")])


def regions(frame: Frame, paint: Paint, name: int = 28) -> Page:
    """Regions, those that are entered now first, then the longest."""
    heading = f"{'  region':{name}}{'harts':>6}{'count':>8}{'cycles':>10}{'instr':>10}{'IPC':>6}"
    lines = [styled(heading, paint.strong)]
    lines += [region_line(region, paint, name) for region in in_order(frame.regions)]
    if not frame.regions:
        lines.append(styled("  the program has entered none yet", paint.label))
    return _page(lines)


def in_order(found: list[RegionNow]) -> list[RegionNow]:
    """Those that are entered now first, then the longest."""
    return sorted(found, key=lambda r: (not r.is_open, -r.cycles))


def region_line(region: RegionNow, paint: Paint, name: int) -> Text:
    """A region as a row."""
    row = (
        f"{_region_name(region, name)}{region.harts:>6}{short(region.count):>8}"
        f"{short(region.cycles):>10}{short(region.instructions):>10}{_ipc(region):>6}"
    )
    return styled(row, paint.strong if region.is_open else "")


def short_region_line(region: RegionNow, paint: Paint, name: int) -> Text:
    """The same without harts and instructions."""
    row = (
        f"{_region_name(region, name)}{short(region.count):>6}{short(region.cycles):>7}"
        f"{_ipc(region):>5}"
    )
    return styled(row, paint.strong if region.is_open else "")


def _region_name(region: RegionNow, width: int) -> str:
    return set_cell_size(("▶ " if region.is_open else "  ") + one_line(region.name), width)


def _ipc(region: RegionNow) -> str:
    total = region.cycles * region.harts
    return f"{region.instructions / total:.2f}" if total else ""


def banks(frame: Frame, left: int, paint: Paint) -> Page:
    """Conflicts of each bank over the columns, and their sum."""
    conflicts, spans = frame.bins.conflicts, np.maximum(1, np.diff(frame.edges))
    rates = conflicts / spans
    largest, top = float(rates.max(initial=0.0)), len(paint.colours.heat) - 1
    heading = f"{'bank':>6} {'conflicts':>12}"
    head = styled(heading.ljust(left), paint.strong)
    head.append(f"strongest: {largest:.2f} conflicts a cycle", paint.label)
    lines = [head]
    for bank, row in enumerate(rates):
        text = Text(f"{bank:>6} {int(conflicts[bank].sum()):>12,}".ljust(left))
        steps = np.ceil(row / (largest or 1.0) * top).astype(int)
        for step in steps.tolist():
            text.append("▄", paint.heat(step, step))
        lines.append(text)
    return _page(lines)


def console(frame: Frame) -> Page:
    """What the program has printed, its end in sight."""
    lines = neutralised(frame.console).expandtabs().split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return Page(len(lines), lambda k: Text(lines[k]), len(lines) - 1, len(frame.console))


def stops(frame: Frame, paint: Paint) -> Page:
    """Breakpoints."""
    if not frame.stops:
        return _page([styled(" none; b sets one, so does a click on an instruction", paint.label)])
    return _page([Text(f" ● {address:08x}  {one_line(place)}") for address, place in frame.stops])
