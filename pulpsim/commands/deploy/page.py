"""A deployment as one HTML page: cycles by layer and cause, losses, memory by lifetime."""

from collections.abc import Iterator, Mapping
from math import isfinite

from pulpsim import __version__
from pulpsim.commands.deploy.pictures import layer_bars, loss_curve
from pulpsim.commands.deploy.tables import bytes_by_layer, kernels_by_layer, macs_by_layer
from pulpsim.html_report.style import style_sheet
from pulpsim.html_report.svg import (
    LABELS,
    PLOT,
    count,
    element,
    label,
    level,
    percent,
    picture,
    shown,
    ticks,
    title,
)
from trainlib.deploy import Deployed, Trained
from trainlib.deploy.memory import Block

HEIGHT, TOP, BOTTOM = 420, 14, 34  # of the picture of memory, and of what is above and below it
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
COLOURS = {  # of blocks, by the role of the value that lies there
    "parameter": "work",
    "buffer": "other",
    "state": "flow",
    "input": "dma_in",
    "constant": "barrier",
    "forward": "fetch",
    "backward": "conflict",
    "workspace": "wait",
}
LARGEST = 30  # rows of the table of values


def page_of(deployed: Deployed, name: str, trained: Trained | None) -> str:
    """The HTML of it, without any network or script."""
    parts = [_headline(deployed, trained)]
    if trained:
        parts.append(f"<h2>Where a batch's cycles go</h2>{layer_bars(trained, _cores(deployed))}")
        if len(trained.losses) > 1 and all(map(isfinite, trained.losses)):
            parts.append(f"<h2>Losses</h2>{loss_curve(trained.losses)}")
        parts.append(f"<h2>Layers</h2>{_layers(deployed, trained)}")
    parts += [
        f"<h2>Memory</h2>{_memory(deployed)}",
        f"<h2>Largest values</h2>{_values(deployed)}",
    ]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{shown(name)}: a training step</title><style>{style_sheet()}</style></head>"
        f"<body><main><h1>{shown(name)}</h1>"
        f'<div class="soft">pulpsim {shown(__version__)}, on {shown(deployed.chip.name)}</div>'
        f"{''.join(parts)}</main></body></html>\n"
    )


def _headline(deployed: Deployed, trained: Trained | None) -> str:
    memory, built = deployed.memory, deployed.built()
    figures = {"operators": len(built.schedule.nodes), "multiply-adds a step": built.macs}
    if trained:
        figures["cycles a step"] = (
            trained.report.cycles * deployed.accumulate // len(trained.report.batches)
        )
    figures |= {
        "bytes of values": memory.peak,
        "of them stay": memory.static,
        "bytes of code": memory.code,
        "bytes of tables": memory.tables,
        "bytes of L2": deployed.chip.l2.size,
    }
    if built.copies:
        figures["bytes copied by HyperBus"] = sum(copy.size for copy in built.copies)
    boxes = (f"<div><b>{count(n)}</b><span>{what}</span></div>" for what, n in figures.items())
    return f'<div class="figures">{"".join(boxes)}</div>'


def _cores(deployed: Deployed) -> int:
    return deployed.cores or deployed.chip.cores


def _layers(deployed: Deployed, trained: Trained) -> str:
    report, macs = trained.report, macs_by_layer(deployed)
    kernels, moved = kernels_by_layer(deployed), bytes_by_layer(deployed)
    batches, cores = len(report.batches), _cores(deployed)
    rows = []
    for layer in report.layers:
        key = layer.layer, layer.step
        done = macs.get(key, 0) * batches / deployed.accumulate
        stalls = sum(layer.stalls.values())
        causes = sorted(layer.stalls.items(), key=lambda pair: -pair[1])[:2]
        most = ", ".join(f"{cause} {percent(cycles, stalls, 0)}" for cause, cycles in causes)
        cells = (
            count(layer.cycles / batches),
            percent(layer.cycles, report.cycles),
            f"{done / layer.cycles:.2f}" if done else "",
            f"{layer.instructions / layer.cycles:.2f}",
            percent(stalls, cores * layer.cycles, 0),
            count(moved.get(key, 0) / deployed.accumulate),
        )
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        names = "".join(f'<td class="left">{shown(text)}</td>' for text in key)
        names += f'<td class="left meaning">{shown(", ".join(kernels.get(key, ())))}</td>'
        rows.append(f'<tr>{names}{numbers}<td class="left meaning">{shown(most)}</td></tr>')
    heads = (
        *("layer", "step", "kernels", "cycles a batch", "share"),
        *("MAC/cycle", "IPC", "stalls", "bytes", "mostly"),
    )
    left = {"layer", "step", "kernels", "mostly"}
    head = "".join(f'<th class="{"left" if h in left else ""}">{h}</th>' for h in heads)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>"
    )


def _memory(deployed: Deployed) -> str:
    """Draw the memory: calls to the right, addresses upward, a rectangle for each value."""
    built, memory = deployed.built(), deployed.memory
    calls = len(built.schedule.nodes)
    scale = HEIGHT / max(memory.peak, 1)
    kinds = _kinds(deployed)
    parts = list(_axes(memory.peak, calls, scale))
    for block in memory.blocks.values():
        bottom = TOP + HEIGHT - (block.address - memory.start) * scale
        parts += [
            element(
                "rect",
                title(_told(block, calls)),
                class_=COLOURS[kinds[block.name]],
                x=LABELS + PLOT * first / calls,
                y=bottom - block.size * scale,
                width=PLOT * (min(last, calls - 1) + 1 - first) / calls,
                height=max(block.size * scale, 0.3),
                stroke="var(--paper)",
                stroke_width=0.4,
            )
            for first, last in block.times
        ]
    legend = "".join(
        f'<span><i class="fill-{colour}"></i>{kind}</span>'
        for kind, colour in COLOURS.items()
        if kind in kinds.values()
    )
    about = "Memory of a training step: for each value, when it is there and where it lies"
    drawn = picture(TOP + HEIGHT + BOTTOM, *parts, name="memory", about=about)
    return (
        f'<div class="legend">{legend}</div><figure>{drawn}<figcaption>Calls of kernels in their '
        "order from left to right, bytes from the first value upward. A pointer that rests on a "
        "value shows what it is.</figcaption></figure>"
    )


def _axes(peak: int, calls: int, scale: float) -> Iterator[str]:
    bottom = TOP + HEIGHT
    for size in ticks(peak):
        yield level(bottom - size * scale, count(size))
    for call in ticks(calls):
        x = LABELS + PLOT * call / calls
        yield label(x, bottom + 16, count(call), class_="tick", text_anchor="middle")
    yield label(LABELS + PLOT + 40, bottom + 16, "call", class_="tick")


def _told(block: Block, calls: int) -> str:
    lives = "all the time"
    if (block.first, block.last) != (0, calls):
        lives = f"from call {block.first} to {min(block.last, calls - 1)}"
    return f"{block.name}: {count(block.size)} bytes at {block.address:#010x}, {lives}"


def _kinds(deployed: Deployed) -> Mapping[str, str]:
    """Return the legend's name of each block."""
    schedule = deployed.schedule
    made = {
        schedule.graph.root(value): node.step
        for node in reversed(schedule.nodes)
        for value in node.outputs.values()
    }
    kinds = {}
    for name in deployed.memory.blocks:
        value = schedule.graph.values.get(name)
        if value is None:
            kinds[name] = "workspace"
        elif value.role == "temporary":
            kinds[name] = "forward" if made.get(name) == "forward" else "backward"
        else:
            kinds[name] = value.role
    return kinds


def _values(deployed: Deployed) -> str:
    kinds, calls = _kinds(deployed), len(deployed.schedule.nodes)
    largest = sorted(deployed.memory.blocks.values(), key=lambda b: -b.size)[:LARGEST]
    rows = "".join(
        f'<tr><td class="left">{shown(b.name)}</td><td class="left">{kinds[b.name]}</td>'
        f'<td>{count(b.size)}</td><td class="code">{b.address:#010x}</td><td>{b.first}</td>'
        f"<td>{min(b.last, calls - 1)}</td></tr>"
        for b in largest
    )
    heads = (("value", 1), ("kind", 1), ("bytes", 0), ("address", 0), ("from", 0), ("to call", 0))
    head = "".join(f'<th class="{"left" * is_left}">{name}</th>' for name, is_left in heads)
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
        "</div>"
    )
