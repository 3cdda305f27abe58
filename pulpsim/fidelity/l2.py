"""The way to L2 on the whole chip: a core's loads and stores, the DMA's transfers.

Measured on RTL with equal clocks: what a load and a store stall with so many synchronizer stages in
the clock crossing, and the cycles from the last control store of a transfer to its event for the
latencies of L2 that these stages and slower banks make.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from isa.assembler.asm import assemble
from pulpsim.fidelity.comparison import Comparison, Deviation, Measurement, compared
from soc.chip.profile import isa_of
from soc.chip.spec import load_chip
from soc.result import RunResult
from soc.run import run_program

CODE = 0x1C01_0000
PROGRAM = """
_start:
    li s0, 0x1c020000       # L2
    li s1, 0x10204000       # event unit; the DMA's port is 0x400 after
    li t0, 0x100
    sw t0, 8(s1)            # wait for the DMA's event
    {code}
    li t0, 0x1a1040a0
    li t1, 0x80000000
    sw t1, 0(t0)
end:
    j end
"""
ACCESS = """
    slti x0, x0, {start}
    {instruction}
    slti x0, x0, {stop}
"""
TRANSFER = """
    lw t0, 0x400(s1)
    li t0, {command}
    li t1, 0x10001000
    sw t0, 0x400(s1)
    sw t1, 0x400(s1)
    slti x0, x0, {start}
    sw s0, 0x400(s1)
    p.elw t0, 0x3c(s1)
    slti x0, x0, {stop}
    li t0, 0xffff
    sw t0, 0x404(s1)        # free its counter
"""
AROUND = 6
"""Cycles of a region around a transfer: the marker, the store up to its grant, waking up 4."""

STALLS = {
    (3, 3): (15, 16),
    (2, 2): (13, 14),
    (3, 2): (14, 15),
    (0, 0): (5, 6),
}
"""Stages on the cluster's side and on the SoC's: cycles that a load, a store stalls."""

SIZES = (4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
TO_L1 = (15, 17, 23, 31, 47, 81, 149, 285, 557, 1101, 2189, 4365)
TO_L2 = (15, 17, 23, 31, 47, 82, 152, 292, 572, 1132, 2252, 4492)
"""Cycles of a transfer of so many aligned bytes, less the latency of L2."""

LATENCIES = {1: (0, 1), 9: (2, 1), 11: (3, 1), 16: (3, 6), 24: (3, 14)}
"""Measured latencies: stages on both sides and the cycles of a bank that make each of them."""


@dataclass(frozen=True)
class Way:
    """A way to L2: stages of the clock crossing on either side, cycles of a bank."""

    cluster_stages: int = 3
    soc_stages: int = 3
    bank_latency: int = 1

    def run(self, code: str, engine: str = "compiled") -> RunResult:
        """Run code on one core of the chip, without a fabric controller."""
        chip = load_chip(
            "pulp",
            {
                "cores": 1,
                "fabric_controller.present": False,
                "icache.kind": "ideal",  # as it was measured: nothing else on the way
                "l2.cluster_synchronizer_stages": self.cluster_stages,
                "l2.soc_synchronizer_stages": self.soc_stages,
                "l2.bank_latency": self.bank_latency,
            },
        )
        program = assemble(PROGRAM.format(code=code), isa_of(chip, "x"), text_base=CODE)
        result = run_program(program, chip, engine=engine)
        assert result.exit.reason == "exit", result.exit.message
        return result


def measurements() -> Iterator[Measurement]:
    """Loads and stores by the stages of the clock crossing; transfers by the latency of L2."""
    for (cluster, soc), stalls in STALLS.items():
        name, way = f"{cluster} + {soc} stages", Way(cluster, soc)
        repeat = partial(repeat_accesses, way, stalls)
        yield Measurement("l2", "load, store", name, sum(stalls), repeat)
    for latency, (stages, banks) in LATENCIES.items():
        way = Way(stages, stages, banks)
        for name, base, to_l1 in (("L2 to L1", TO_L1, True), ("L1 to L2", TO_L2, False)):
            cycles = [latency + cycles for cycles in base]
            repeat = partial(repeat_transfers, way, to_l1, cycles)
            yield Measurement("l2", name, f"latency {latency}", sum(cycles), repeat)


def repeat_accesses(way: Way, stalls: tuple[int, int], engine: str = "compiled") -> Comparison:
    """A load and a store on an idle way."""
    code = "".join(
        ACCESS.format(start=4 * k, instruction=f"{name} t0, 0(s0)", stop=4 * k + 1)
        for k, name in enumerate(("lw", "sw"))
    )
    regions = _regions(way.run(code, engine))
    found = [region["cycles"] - 2 for region in regions]
    causes = [
        regions[0]["stalls"].get("load_external"),
        regions[1]["stalls"].get("store_external"),
    ]
    parts = tuple(
        compared(name, {"cycles": rtl, "stall": rtl}, {"cycles": cycles, "stall": cause})
        for name, rtl, cycles, cause in zip(("load", "store"), stalls, found, causes, strict=True)
    )
    return Comparison(sum(stalls), sum(found), parts)


def repeat_transfers(
    way: Way, to_l1: bool, cycles: list[int], engine: str = "compiled"
) -> Comparison:
    """Transfers of all sizes, one after the other."""
    increment_and_event = 1 << 18 | 1 << 20
    code = "".join(
        TRANSFER.format(
            command=size | to_l1 << 17 | increment_and_event, start=2 * k, stop=2 * k + 1
        )
        for k, size in enumerate(SIZES)
    )
    regions = _regions(way.run(code, engine))
    found = [region["cycles"] - AROUND for region in regions]
    parts: tuple[Deviation, ...] = tuple(
        compared(f"{size} bytes", {"cycles": rtl}, {"cycles": ours})
        for size, rtl, ours in zip(SIZES, cycles, found, strict=True)
    )
    return Comparison(sum(cycles), sum(found), parts)


def _regions(result: RunResult) -> list[dict[str, Any]]:
    return result.to_json()["harts"][0]["regions"]
