"""Advice about each loss: how it shows in the figures, and what would help.

Every function takes the evidence and the causes, and returns these two as sentences.
"""

import numpy as np

from pulpsim.html_report.evidence import Evidence
from pulpsim.html_report.hot_spots_index import stalled
from pulpsim.html_report.sleep import union
from pulpsim.html_report.svg import count, counted, percent
from soc.icache.private_cache import LINE_BYTES
from soc.prelude.counters import CAUSES
from soc.trace.reader import Kind

Words = tuple[str, str]
NOTABLE = 0.1
"""Share of a loss from which on an instruction is named."""


def idle(evidence: Evidence) -> Words:
    names = evidence.names(evidence.idle)
    number, all_cores = len(evidence.idle), len(evidence.cores)
    return (
        f"{names}: {number} of {all_cores} cores had hardly anything to execute.",
        "Share the work among all cores, or build the program for as many as it can use.",
    )


def fetch(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    first = _first_times(evidence)
    private = evidence.chip.get("icache", {}).get("private_size")
    where = place(evidence, causes)
    if first is None or evidence.sites is None:
        return where, "Shorter code: unroll less, so that the inner loop fits the core's cache."
    hot = hot_code(evidence.sites)
    where += (
        f" {percent(first, 1, 0)} is paid where a core executes an instruction for the first time; "
        f"90 % of all instructions come from {count(hot)} bytes of code"
        + (f", a core's own cache holds {count(private)}." if private else ".")
    )
    if first >= 0.5:
        return where, (
            "Mostly cold misses: shorter code (unroll less), or more work per pass through it; "
            "runs of a second pass (warm = true) show what is left."
        )
    if private and hot > private:
        return where, "The hot code does not fit: unroll less, or split the loop into two."
    return where, "Misses come back: phases displace each other's code. Keep each loop compact."


def _first_times(evidence: Evidence) -> float | None:
    """Return the share of fetch stalls at instructions that the hart has not executed before."""
    recording = evidence.figures.recording
    if recording is None:
        return None
    stalls = recording.of(Kind.STALL)
    stalls = stalls[(stalls["extra"] == CAUSES.index("fetch"))]
    stalls = stalls[np.isin(stalls["hart"], evidence.busy)]
    if not stalls.size:
        return None
    keys = stalls["hart"].astype(np.int64) << 32 | stalls["a"]
    _, first = np.unique(keys, return_index=True)
    return float(stalls["b"][first].sum() / stalls["b"].sum())


def hot_code(sites: np.ndarray) -> int:
    """Bytes of the cache lines that 90 % of the executed instructions lie in."""
    lines, which = np.unique(sites["pc"] // LINE_BYTES, return_inverse=True)
    issues = np.sort(np.bincount(which, sites["issues"], lines.size))[::-1]
    if not issues.size:
        return 0
    return int(np.searchsorted(np.cumsum(issues), 0.9 * issues.sum()) + 1) * LINE_BYTES


def load_use(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    return place(evidence, causes), (
        "Put something that does not need the loaded value directly after the load: "
        "unroll, or load the next round's operands early."
    )


def fpu(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    latency = evidence.chip.get("core", {}).get("fpu_latency")
    known = f"A result takes {latency + 1} cycles. " if isinstance(latency, int) else ""
    return place(evidence, causes), (
        known + "More sums side by side (a larger block in registers), so that no operation "
        "needs the result of the one right before."
    )


def multicycle(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    return place(evidence, causes), (
        "Divide outside of loops, multiply by a reciprocal, or shift where the divisor is a "
        "power of two."
    )


def flow(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    return place(evidence, causes), (
        "Hardware loops (lp.setup) cost nothing for a round; unroll what has no room for one, "
        "and inline short functions."
    )


def outside(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    return place(evidence, causes), (
        "Let the DMA bring to L1 what is used more than once; keep constants in registers; "
        "leave registers of the event unit and the DMA to one core."
    )


def misaligned(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    return place(evidence, causes), "Align buffers and rows to words: each access counts double."


def rare(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    return place(evidence, causes), "Read core numbers once; keep CSRs and fences out of loops."


def for_good(evidence: Evidence, causes: tuple[str, ...]) -> Words:
    harts = evidence.figures.harts
    cycles = {core: sum(harts[core].stalls.get(c, 0) for c in causes) for core in evidence.busy}
    longest = max(cycles.values(), default=0)
    those = [core for core in cycles if cycles[core] > longest / 2]
    return (
        f"{evidence.names(those)}: up to {count(longest)} cycles each.",
        "Start all cores at once, and share what others do before these begin or after they end.",
    )


def asleep(evidence: Evidence) -> Words:
    return place(evidence, ("event",)), (
        "Record all of the run (`pulpsim run --trace FILE`): that tells waits for the DMA from "
        "waits for slower cores."
    )


def dma(evidence: Evidence) -> Words:
    recording, sleep = evidence.figures.recording, evidence.sleep
    if recording is None or sleep is None:
        return "", ""
    starts = recording.of(Kind.TRANSFER)
    starts = starts[starts["extra"] == 0]
    spans = recording.transfers
    share = union(spans.start, spans.start + spans.length).cycles / recording.cycles
    where = (
        f"{counted(starts.size, 'copy', 'copies')} of {count(int(starts['b'].sum()))} bytes "
        f"together, under way in {percent(share, 1, 0)} of the run's cycles; in "
        f"{percent(sleep.hidden, 1, 0)} of these no core waits."
    )
    if share > 0.8:
        return where, (
            "The DMA hardly pauses: the copies themselves are the limit. Larger tiles fetch what "
            "they share less often."
        )
    if sleep.hidden > 0.5:
        return where, (
            "Most copying is hidden behind computation. What is left are copies that take longer "
            "than the computation beside them: larger tiles, or several tiles' copies at once."
        )
    return where, (
        "Start the next copy before computing on the last one: two buffers for each operand, as "
        "with `tile = {}` in a kernel's config, hide what computation is long enough for."
    )


def imbalance(evidence: Evidence) -> Words:
    sleep = evidence.sleep
    if sleep is None or not sleep.barriers:
        return "", ""
    mean = sleep.imbalance / sleep.barriers / len(evidence.busy)
    core, cycles = max(sleep.awaited.items(), key=lambda item: item[1])
    name, share = evidence.figures.harts[core].name, cycles / max(1, sleep.imbalance)
    where = (
        f"{counted(sleep.barriers, 'barrier')}, at each of which a core waits {mean:.1f} cycles on "
        f"average for the last one; {percent(share, 1, 0)} of these cycles are for {name}."
    )
    if share > 0.5:
        return where, (
            f"{name} has more to do than the others: share its work differently, or let the "
            "others help in what it does alone."
        )
    return where, (
        "It is not always the same core: cut the work into finer pieces or multiples of the "
        "number of cores, and drop barriers that nothing needs."
    )


def barriers(evidence: Evidence) -> Words:
    sleep = evidence.sleep
    number = sleep.barriers if sleep else 0
    return (
        f"{counted(number, 'barrier')}, counted from when the last core has come.",
        "Fewer of them: join phases that need no exchange between cores.",
    )


def other_sleep(evidence: Evidence) -> Words:
    return place(evidence, ("event",)), (
        "Cores sleep until another one gives them work or frees a mutex: fork less often, with "
        "more work each, and let all cores take part."
    )


def place(evidence: Evidence, causes: tuple[str, ...]) -> str:
    """Where most cycles of some causes lie: a function and an instruction, or else a region."""
    recording = evidence.figures.recording
    if recording is None:
        return _region_of(evidence, causes)
    sites, trace = recording.sites, recording.trace
    cycles = stalled(sites, causes)
    total = int(cycles.sum())
    if not total:
        return ""
    names = trace.function_of(sites["pc"]).astype(str)
    functions, which = np.unique(names, return_inverse=True)
    inside = np.bincount(which, cycles, functions.size)
    function, index = functions[inside.argmax()], int(cycles.argmax())
    pc = int(sites["pc"][index])
    line = str(trace.line_of([pc])[0])
    where = f"{percent(inside.max(), total, 0)} of it in {function}" if function else ""
    if cycles[index] < NOTABLE * total:
        return f"{where}." if where else ""
    return (
        (f"{where}, " if where else "")
        + f"{percent(int(cycles[index]), total, 0)} at {pc:#x} `{recording.code.text(pc)}`"
        + (f" ({line.rsplit('/', 1)[-1]})" if line else "")
        + "."
    )


def _region_of(evidence: Evidence, causes: tuple[str, ...]) -> str:
    cycles: dict[str, int] = {}
    for core in evidence.busy:
        for region in evidence.figures.harts[core].regions:
            here = sum(region["stalls"].get(cause, 0) for cause in causes)
            cycles[region["name"]] = cycles.get(region["name"], 0) + here
    total = sum(evidence.stalls[cause] for cause in causes)
    if not total or not any(cycles.values()):
        return ""
    name = max(cycles, key=lambda region: cycles[region])
    return f"{percent(cycles[name], total, 0)} of it in the region {name}."
