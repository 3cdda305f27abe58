"""A network's layers as `pulpsim tune` takes them: each kernel and its arguments once."""

from pulpsim.cli.toml_text import toml_value
from trainlib.calls.call import Call
from trainlib.deploy import Deployed
from trainlib.deploy.graph.registry import call_of

HEAD = """# Calls of kernels in a training step. `pulpsim tune` finds their tiles, and
# `pulpsim deploy --tuned` takes those.
"""


def layers_toml(deployed: Deployed) -> str:
    """A config with a table of [[layers]] for each call, and how often it occurs."""
    schedule = deployed.schedule
    unique: dict[tuple[str, str], list[Call]] = {}
    for node in schedule.nodes:
        call = call_of(schedule.graph, node)
        key = call.kernel, repr(sorted(call.arguments.items()))
        unique.setdefault(key, []).append(call)
    tables, names = [HEAD], set[str]()
    for calls in unique.values():
        name = _name(calls[0], names)
        names.add(name)
        tables.append(_table(name, calls))
    return "\n".join(tables)


def _name(call: Call, taken: set[str]) -> str:
    """Return a unique name: the layer's, the step's and, of several kernels, the kernel's."""
    name = call.region.replace(" ", ".")
    kernel = call.kernel.rpartition("_")[0]
    names = [name, f"{name}.{kernel}", *(f"{name}.{kernel}.{n}" for n in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _table(name: str, calls: list[Call]) -> str:
    return "\n".join(
        [
            "[[layers]]",
            f"name = {toml_value(name)}",
            f"kernel = {toml_value(calls[0].kernel)}",
            f"count = {len(calls)}",
            f"args = {toml_value(dict(calls[0].arguments))}",
            "",
        ]
    )
