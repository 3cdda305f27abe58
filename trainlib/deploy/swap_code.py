"""Code around copies to and from the HyperRAM: the fabric controller makes them, nodes wait.

The controller goes through a table of copies, once a step. A copy starts when the cluster has
passed its gate, and its end is counted. Three words in L2 say how far both are: gates passed,
copies done, and how many of these the cluster has waited for.
"""

from collections.abc import Sequence
from itertools import groupby, pairwise

from firmware.builder import EQ, Kernel, Label
from firmware.fork import CONTROLLER_EVENT
from firmware.hyperram import READ, SOC_EVENT, WRITE, HyperRam
from firmware.platform import (
    EVENT_UNIT,
    SOFTWARE_EVENT,
    WAITED_FOR,
    address_of,
    in_event_unit,
)
from firmware.registers import ZERO, A
from firmware.team import WAIT, Team
from trainlib.deploy.swap import RECORD
from trainlib.deploy.swap_order import Copy

PASSED, DONE, AWAITED = 0, 4, 8  # bytes: words of the box
BOX = 12


class SwapCode:
    """The parts of a program with copies."""

    def __init__(self, k: Kernel, team: Team) -> None:
        self.k = k
        self.box = k.words("sync_swaps", [0] * (BOX // 4))
        self.point = self._emit_point(team)

    def before(self, node: int, copies: Sequence[Copy]) -> None:
        """Emit what comes before a node: let copies start whose gate it is, wait for others.

        node    by number; the number of all nodes: the end of the step
        """
        gate = any(copy.gate == node for copy in copies)
        self.k.call(self.point, int(gate), _waited(copies, node) - _waited(copies, node - 1))

    def _emit_point(self, team: Team) -> Label:
        """Emit a function of all cores: count a gate if a0 is 1, wait for a1 more copies."""
        k = self.k
        with k.aside("swap_point") as label:
            k.place(label)
            k.registers.hold(*A[:2])
            with team.only(0), k.scope():
                box, value, unit = k.x(3)
                k.li(box, self.box)
                waits, done = k.label(), k.label()
                with k.if_(EQ, A[0], ZERO):
                    k.j(waits)
                k.lw(value, PASSED, box)
                k.addi(value, value, 1)
                k.sw(value, PASSED, box)
                k.lw(value, PASSED, box)  # it is there before the event is
                k.li(unit, address_of("interrupt_controller", "STATUS_SET"))
                k.li(value, CONTROLLER_EVENT)
                k.sw(value, 0, unit)
                k.place(waits)
                k.lw(value, AWAITED, box)
                k.add(A[1], A[1], value)
                k.sw(A[1], AWAITED, box)
                k.li(unit, EVENT_UNIT)
                k.li(value, SOFTWARE_EVENT)
                k.sw(value, in_event_unit("MASK"), unit)
                again = k.here()
                k.lw(value, DONE, box)
                k.sub(value, value, A[1])
                k.bge(value, ZERO, done)
                k.by_field(WAIT, rd=value, imm=in_event_unit("WAIT_CLEAR"), rs1=unit)
                k.j(again)
                k.place(done)
                k.li(value, WAITED_FOR)
                k.sw(value, in_event_unit("MASK"), unit)
            team.barrier()
            k.ret()
        return label

    def emit_server(self, label: Label, copies: Sequence[Copy]) -> None:
        """Emit what the fabric controller does, for ever, and the table of its copies."""
        k = self.k
        gates = [gate for gate, _ in groupby(copy.gate for copy in copies)]
        passed = {gate: number for number, gate in enumerate(gates, 1)}
        counts = [0, *(passed[copy.gate] for copy in copies)]
        rows = [
            [b - a, READ if copy.to_l2 else WRITE, copy.l2, copy.ram, copy.size]
            for (a, b), copy in zip(pairwise(counts), copies, strict=True)
        ]
        table = k.words("swap_table", [word for row in rows for word in row], 4)
        ram = HyperRam(k)
        with k.aside("swaps"), k.scope():
            k.place(label)
            ram.begin()
            box, interrupts, target, done, at, value = k.x(6)
            l2, place, size = k.x(3)
            k.li(interrupts, address_of("interrupt_controller", "MASK_SET"))
            k.li(value, CONTROLLER_EVENT)
            k.sw(value, 0, interrupts)
            k.li(interrupts, address_of("interrupt_controller", "STATUS_CLEAR"))
            k.li(box, self.box)
            k.li(target, 0)
            k.li(done, 0)
            step = k.here()
            k.li(at, table)
            with k.loop(max(len(copies), 1)):  # none where there is no room for the program anyway
                k.lw(value, 0, at)
                k.add(target, target, value)
                again, go, write, wait = k.here(), k.label(), k.label(), k.label()
                k.li(value, CONTROLLER_EVENT | SOC_EVENT)
                k.sw(value, 0, interrupts)  # a gate that is passed after this is not missed
                k.lw(value, PASSED, box)
                k.sub(value, value, target)
                k.bge(value, ZERO, go)
                k.wfi()
                k.j(again)
                k.place(go)
                k.lw(l2, 8, at)
                k.lw(place, 12, at)
                k.lw(size, 16, at)
                k.lw(value, 4, at)
                k.addi(value, value, -READ)
                k.bnez(value, write)
                ram.to_l2(l2, place, size)
                k.j(wait)
                k.place(write)
                ram.to_ram(l2, place, size)
                k.place(wait)
                ram.wait(CONTROLLER_EVENT)
                k.addi(done, done, 1)
                k.sw(done, DONE, box)
                k.lw(value, DONE, box)
                k.li(value, address_of("event_unit_shared", "SW_EVENT"))
                k.li(size, 1)
                k.sw(size, 0, value)
                k.addi(at, at, RECORD)
            k.j(step)


def is_point(copies: Sequence[Copy], node: int) -> bool:
    """Does a copy start before this node, or must one be over?"""
    return any(node in (copy.gate, copy.need) for copy in copies)


def _waited(copies: Sequence[Copy], node: int) -> int:
    """How many copies must be over before a node: they end in their order."""
    return max((number for number, copy in enumerate(copies, 1) if copy.need <= node), default=0)
