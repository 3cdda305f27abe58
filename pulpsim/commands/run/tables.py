"""A run's result as tables for a person: who spent which cycles on what.

Reads the JSON form of a result, schema pulpsim.run/1, so that a saved report shows the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table

from pulpsim.cli.terminal import compact_table, neutralised, short
from soc.debug.whereabouts import line_of

CAUSES = (5, 4, 3, 2, 1)  # columns of stall causes: as many as fit beside the rest
BANKS = (8, 4, 2, 1)  # banks in a row
STALLS = (None, 24, 20, 0)  # width of the stalls of regions: two in a line, one, or none
FINDINGS = 20  # that are printed; the JSON has all
CONFLICTS = 10  # lines of source
REGIONS = 40  # rows of the table of regions; the JSON has them all

Result = dict[str, Any]

EXITS = {
    "exit": "exit: the program returned {code}",
    "max_cycles": "stopped at the limit of {cycles:,} cycles",
    "interrupted": "interrupted at cycle {cycles:,}",
}


def show(result: Result, title: str, console: Console) -> None:
    """Print a result, `title` first: what ran on which chip."""
    for index, part in enumerate(parts(result, title, console)):
        if index:
            console.print()
        console.print(part, soft_wrap=isinstance(part, str))  # sentences stay whole


def parts(result: Result, title: str, console: Console) -> Iterator[RenderableType]:
    """What a report consists of, top to bottom; a narrow terminal gets fewer columns."""
    yield header(result, title)
    yield fitting((harts_table(result, causes) for causes in CAUSES), console)
    if any(hart["regions"] for hart in result["harts"]):
        yield fitting((regions_table(result, width) for width in STALLS), console)
    if any(bank["accesses"] for bank in result["l1"]["banks"]):
        yield l1_part(result["l1"]["banks"], console)
    if any(_counts(result["dma"])):
        yield dma_line(result["dma"])
    if "program" in result:
        yield kernel_line(result["program"], result["exit"]["reason"] == "exit", result["cycles"])
    if "trace" in result:
        yield trace_line(result["trace"])
    if "checks" in result:
        yield from checks_part(result)
    for warning in result["warnings"]:
        yield neutralised(f"warning: {warning}")
    yield exit_line(result)
    if "where" in result:
        yield "\n".join(neutralised(line_of(hart)) for hart in result["where"])


def fitting(tables: Iterable[Table], console: Console) -> Table:
    """The first table whose numbers all have room, or the last one."""
    unlimited = console.options.update(width=10_000)
    for table in tables:
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    return table


def header(result: Result, title: str) -> str:
    host = result["host"]
    return neutralised(
        f"{title}, {host['engine']} engine: {result['cycles']:,} cycles, "
        f"{result['instructions']:,} instructions, {host['mips']:.3g} MIPS, {host['seconds']:.2f} s"
    )


def exit_line(result: Result) -> str:
    """Why the run ended; a trap or a deadlock says so in its own words."""
    end = result["exit"]
    plain = EXITS.get(end["reason"], end["reason"]).format(**{**result, **end})
    text = end.get("message") or plain
    if end["reason"] == "deadlock" and "where" in result:
        text = text.partition(":")[0]  # what follows is said hart by hart
    return neutralised(text)


def trace_line(trace: Result) -> str:
    """What was recorded, and where it is."""
    return neutralised(f"trace: {trace['events']:,} events in {trace['file']}")


def checks_part(result: Result) -> Iterator[RenderableType]:
    """What the checks have found, how deep stacks were, and which lines had conflicts."""
    checks = result["checks"]
    if "stack" in checks["made"]:
        used = [(hart["name"], hart["stack"]) for hart in result["harts"] if hart["stack"]]
        yield "stack: " + (
            ", ".join(f"{name} {s['deepest']:,} of {s['size']:,}" for name, s in used)
            or "the program does not say where its stacks are"
        )
    if "performance" in checks["made"] and checks["conflicts"]:
        yield conflicts_table(checks["conflicts"])
    findings = checks["findings"]
    for finding in findings[:FINDINGS]:
        yield neutralised(finding["message"])
    if len(findings) > FINDINGS:
        yield f"and {len(findings) - FINDINGS:,} findings more, which the JSON has"
    if checks["dropped"]:
        yield f"and {checks['dropped']:,} accesses more, for which there was no room"
    if not findings:
        yield f"checked: {', '.join(checks['made'])}; nothing found"


def conflicts_table(lines: list[Result]) -> Table:
    """Lines by what they have lost at the banks, and what would avoid it."""
    table = compact_table("line", "accesses", "lost", "each")
    table.add_column("what would help")
    for line in lines[:CONFLICTS]:
        numbers = f"{line['accesses']:,}", f"{line['conflicts']:,}", f"{line['share']:.2f}"
        table.add_row(neutralised(line["place"]), *numbers, neutralised(line["advice"]))
    return table


def kernel_line(kernel: Result, has_ended: bool, cycles: int) -> str:
    """What a kernel computed, how fast, and whether it is right.

    cycles    of the whole run, with the copies and the controller's part
    """
    if not has_ended:
        return f"{kernel['macs']:,} multiply-adds, not all of them done"
    rate, error = kernel["macs_per_cycle"], kernel["max_error"]
    has_pairs = rate is not None and kernel.get("lanes", 1) > 1
    is_once = rate is not None and cycles and not kernel.get("warm")
    return (
        f"{kernel['macs']:,} multiply-adds"
        + (f", {rate:.2f} a cycle in compute" if rate is not None else "")
        + (f" (pairs of halves: {kernel['macs_per_cycle_limit']} at most)" if has_pairs else "")
        + (f", {kernel['macs'] / cycles:.2f} in the whole run" if is_once else "")
        + (f"; largest error {error:.2g}" if error is not None else "; not finite")
        + ("" if kernel["correct"] else ": WRONG")
    )


def harts_table(result: Result, causes: int) -> Table:
    """Cycles, instructions and the largest causes of stalls, in percent of the hart's cycles."""
    harts = result["harts"]
    total: Counter[str] = Counter()
    for hart in harts:
        total.update(hart["stalls"])
    largest = {cause for cause, cycles in total.most_common(causes) if cycles}
    shown = [cause for cause in total if cause in largest]
    rest = any(cycles for cause, cycles in total.items() if cause not in largest)
    headings = [cause.replace("_", "\n", 1) for cause in shown] + ["other"] * rest
    table = compact_table("hart", "cycles", "instr", "IPC", *(f"{name} %" for name in headings))
    for hart in harts:
        stalls = [hart["stalls"].get(cause, 0) for cause in shown]
        others = [sum(hart["stalls"].values()) - sum(stalls)] * rest
        table.add_row(
            neutralised(hart["name"]),
            *_work(hart["cycles"], hart["instructions"]),
            *(_percent(cycles, hart["cycles"]) for cycles in stalls + others),
        )
    return table


def regions_table(result: Result, stalls: int | None = None) -> Table:
    """Regions, each over all harts that went through it: cycles of the slowest, work of all.

    stalls    width of that column; None: as wide as it gets, 0: left out
    """
    table = compact_table("region", "harts", "count", "max cycles", "instr", "IPC")
    if stalls != 0:
        table.add_column("stalls", width=stalls)
    regions = _regions(result["harts"])
    for name, entries in list(regions.items())[:REGIONS]:
        cycles = sum(entry["cycles"] for entry in entries)
        _, instructions, per_cycle = _work(cycles, sum(entry["instructions"] for entry in entries))
        table.add_row(
            neutralised(name),
            str(len(entries)),
            f"{sum(entry['count'] for entry in entries):,}",
            f"{max(entry['cycles'] for entry in entries):,}",
            instructions,
            per_cycle,
            *([] if stalls == 0 else [_main_stalls(entries, cycles)]),
        )
    if len(regions) > REGIONS:
        table.caption = f"... {len(regions) - REGIONS} more: --json has all"
        table.caption_justify = "left"
    return table


def _regions(harts: Iterable[Result]) -> dict[str, list[Result]]:
    """Group entries of all harts by the region's name, in the order of its id."""
    entries = [entry for hart in harts for entry in hart["regions"]]
    by_name: dict[str, list[Result]] = {}
    for entry in sorted(entries, key=lambda entry: entry["id"]):
        by_name.setdefault(entry["name"], []).append(entry)
    return by_name


def _main_stalls(entries: Iterable[Result], cycles: int) -> str:
    total: Counter[str] = Counter()
    for entry in entries:
        total.update(entry["stalls"])
    largest = [(cause, count) for cause, count in total.most_common(2) if count]
    return ", ".join(f"{cause} {_percent(count, cycles)}%" for cause, count in largest)


def l1_part(banks: list[dict[str, int]], console: Console) -> Group:
    """What all banks did together, and each of them."""
    accesses = sum(bank["accesses"] for bank in banks)
    conflicts = sum(bank["conflicts"] for bank in banks)
    table = fitting((banks_table(banks, in_row) for in_row in BANKS), console)
    return Group(f"L1: {accesses:,} accesses / {conflicts:,} conflicts", table)


def banks_table(banks: list[dict[str, int]], in_row: int) -> Table:
    """Accesses and lost arbitrations of each bank."""
    table = compact_table("bank", *(f"+{offset}" for offset in range(min(in_row, len(banks)))))
    for first in range(0, len(banks), in_row):
        row = banks[first : first + in_row]
        cells = [f"{short(bank['accesses'])}/{short(bank['conflicts'])}" for bank in row]
        table.add_row(str(first), *cells)
    return table


def dma_line(dma: Result) -> str:
    return f"DMA: {', '.join(_counts(dma))}"


def _counts(dma: Result) -> Iterator[str]:
    """Format the DMA's counters; a list has one number a direction, L1 to L2 first."""
    for name, value in dma.items():
        ways = (" to L2", " to L1") if isinstance(value, list) else ("",)
        numbers = value if isinstance(value, list) else [value]
        if any(numbers):
            counts = (f"{number:,}{way}" for number, way in zip(numbers, ways, strict=True))
            yield f"{name.replace('_', ' ')} {' + '.join(counts)}"


def _work(cycles: int, instructions: int) -> tuple[str, str, str]:
    return f"{cycles:,}", f"{instructions:,}", f"{instructions / cycles:.2f}" if cycles else ""


def _percent(part: int, whole: int) -> str:
    """Format a share with one decimal; "" for nothing, so that what matters stands out."""
    return f"{100 * part / whole:.1f}" if part else ""
