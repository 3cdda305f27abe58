"""Cycles of a step, about: how long copies to and from the HyperRAM have beside its nodes."""

from collections.abc import Iterable
from typing import Any

from soc.chip.spec import SocSpec
from trainlib.calls.call import point_of
from trainlib.deploy.graph.registry import call_of
from trainlib.deploy.memory import lifetimes
from trainlib.deploy.schedule import Schedule
from trainlib.deploy.swap import Swaps, can_swap
from trainlib.deploy.tiles import Tiles
from trainlib.primitive.operator import Family

RATE, MOVED = 0.62, 4.0  # multiply-adds a core and cycle, bytes of operands a cycle
CALL = 1500  # cycles besides


def node_cycles(points: Iterable[tuple[Family, Any]], cores: int) -> list[int]:
    """Cycles of calls of kernels, about: the longer of computing, and of moving their operands.

    NOTE: of the 169 parts of layers in MobileNetV1's step by Adam, half are within 10 %, and their
    sum within 3 %.
    """
    found = []
    for family, point in points:
        tensors = family.tensors(point).values()
        moved = sum(tensor.size * (1 + (tensor.role == "inout")) for tensor in tensors)
        found.append(int(max(family.macs(point) / RATE / cores, moved / MOVED) + CALL))
    return found


def step_cycles(
    schedule: Schedule, chip: SocSpec, room: int, cores: int, tiles: Tiles
) -> tuple[int, int]:
    """Cycles of what a step computes, and of the step where values lie in the HyperRAM, about.

    room      bytes of L2 for values

    raises    NoRoom if they do not suffice
    """
    calls = [tiles.chosen(call_of(schedule.graph, node)) for node in schedule.nodes]
    cycles = node_cycles((point_of(call, cores) for call in calls), cores)
    if not can_swap(schedule):
        return sum(cycles), sum(cycles)
    blocks = lifetimes(schedule.graph, schedule.nodes, schedule.kept, {})
    swaps = Swaps(schedule.graph, schedule.nodes, cycles, stops=schedule.stops)
    return sum(cycles), swaps.plan(*blocks, 0, room, chip.hyperram.size).cycles
