"""Tables of what tuning has found."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from autotuner.result import Found
from pulpsim.cli.terminal import compact_table, neutralised, print_whole
from pulpsim.commands.tune.result import (
    ByType,
    Tuned,
    best_total,
    fastest,
    one_size,
    own_total,
    paper_total,
)

SHOWN = 5  # points of a layer


def show_layer(layer: Tuned, console: Console) -> None:
    """The best points of a layer, and what they are better than."""
    failed = sum(found.outcome.cycles is None for found in layer.found)
    console.print(
        f"{layer.name}: {len(layer.space):,} points, {len(layer.found):,} measured, "
        f"{layer.simulated:,} simulated now, {failed:,} failed",
        soft_wrap=True,
    )
    show_reasons(layer, console)
    if layer.best is None:
        console.print()
        return
    table = compact_table("tile", "blocking", "buffers", "cores", "L1 bytes", "cycles", left=2)
    for text in table.columns[:2]:
        text.no_wrap = False  # narrow terminals keep the numbers
    shown = different(layer.found)[:SHOWN]
    for found in shown:
        point, outcome = found.point, found.outcome
        sign = "~" if found.is_estimated else ""
        numbers = f"{point.buffers}", f"{point.cores}", f"{outcome.l1_bytes:,}"
        cycles = f"{sign}{outcome.cycles:,}"
        table.add_row(point.tile_shown, point.kernel_shown, *numbers, cycles)
    console.print(table)
    if any(found.is_estimated for found in shown):
        console.print("~ estimated from a part of its tiles")
    others = [("its own choice", layer.default)]
    if layer.paper:
        what = f"the paper's policy with {layer.paper.tiles:,} simulations of tiles"
        others.append((what, layer.paper.outcome))
    for what, outcome in others:
        gain = layer.gain(outcome)
        if gain and outcome.cycles is not None:
            faster = "as fast as" if gain == 1 else f"{gain:.2f} times as fast as"
            console.print(f"{faster} {what}: {outcome.cycles:,} cycles", soft_wrap=True)
    console.print()


def show_reasons(layer: Tuned, console: Console) -> None:
    """Why points of a layer have failed, the most frequent reasons first."""
    failed = [found.outcome for found in layer.found if found.outcome.cycles is None]
    reasons = Counter(outcome.reason for outcome in failed).most_common()
    for reason, count in reasons[:SHOWN]:
        console.print(f"  {count:,} of them: {neutralised(reason)}", soft_wrap=True)
    if len(reasons) > SHOWN:
        console.print(f"  {len(reasons) - SHOWN} more reasons: the JSON has all")


def different(found: Sequence[Found]) -> list[Found]:
    """One of the points that take as many cycles and bytes: most are the same program."""
    seen: dict[tuple[float, int | None], Found] = {}
    for one in found:
        if one.outcome.cycles is not None:
            seen.setdefault((one.outcome.rank, one.outcome.l1_bytes), one)
    return list(seen.values())


def show_network(layers: Sequence[Tuned], console: Console) -> None:
    """All layers of a network, tuned, against their own choice, one kernel and the paper's."""
    one = one_size(layers)
    has_paper = any(layer.paper for layer in layers)
    headings = ["layer", "times", "before", "after", "gain", "over one kernel", "over the paper"]
    table = compact_table(*headings[: 7 if has_paper else 6], left=1)
    for column in table.columns[5:]:
        column.no_wrap = False  # headings are wider than numbers
    for layer in layers:
        gains = [layer.gain(layer.default), layer.gain(layer.with_kernel(one))]
        if has_paper:
            gains.append(layer.gain(layer.paper.outcome) if layer.paper else None)
        best = layer.best
        cycles = [layer.default.cycles, best.outcome.cycles if best else None]
        table.add_row(layer.name, f"{layer.count}", *map(_cycles, cycles), *map(_times, gains))
    before, after = own_total(layers), best_total(layers)
    totals = [before, one.cycles if one else None, paper_total(layers)]
    if after:
        gains = [total / after if total else None for total in totals[: 3 if has_paper else 2]]
        sums = map(_cycles, (before, after))
        table.add_row("a training step", "", *sums, *map(_times, gains))
    console.print(
        "cycles before tuning, as each layer chooses itself, and after; how much faster that is"
    )
    console.print(table)
    if one:
        console.print(f"the best single kernel: {one.kernel}: {one.cycles:,} cycles")
    if before and after:
        console.print(
            f"a training step takes {before:,} cycles before, {after:,} after: "
            f"{before / after:.2f} times as fast"
        )


def show_types(layers: ByType, console: Console) -> None:
    """Layers in all element types that were tried: cycles, bytes in L2, and the fastest."""
    types = list(dict.fromkeys(of for own in layers.values() for of in own))
    headings = [f"{of} cycles" for of in types] + [f"{of} bytes" for of in types]
    table = compact_table("layer", "times", *headings, "fastest", left=1)
    sums: dict[str, list[int | None]] = {of: [] for of in types}
    chosen: list[int | None] = []
    for name, own in layers.items():
        best = fastest(own)
        taken = {of: _best(own[of]) if of in own else _best(best) for of in types}
        size = {of: f"{own[of].tensor_bytes:,}" if of in own else "" for of in types}
        counted = [(taken[of], sums[of]) for of in types] + [(_best(best), chosen)]
        for cycles, total in counted:
            total.append(None if cycles is None else cycles * best.count)
        shown = [_cycles(taken[of]) if of in own else "" for of in types]
        title = next(of for of, each in own.items() if each is best)
        table.add_row(name, f"{best.count}", *shown, *size.values(), title if best.best else "")
    if len(layers) > 1:
        totals = [_cycles(_summed(sums[of])) for of in types]
        table.add_row("all", "", *totals, *[""] * len(types), _cycles(_summed(chosen)))
    print_whole(console, table)
    console.print(
        "bytes of a layer's tensors in L2; a kernel that a type has not runs in its own; casts "
        "between layers of different types come on top",
        soft_wrap=True,
    )


def _best(layer: Tuned) -> int | None:
    return layer.best.outcome.cycles if layer.best else None


def _summed(cycles: Sequence[int | None]) -> int | None:
    return None if None in cycles else sum(filter(None, cycles))


def _cycles(cycles: int | None) -> str:
    return "failed" if cycles is None else f"{cycles:,}"


def _times(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2f}"
