"""The chip's State from its Spec, and a program in its memory."""

from functools import lru_cache

import numpy as np

from isa.program import Program
from soc.chip.boot_rom import boot_rom
from soc.chip.profile import UnfitProgramError, lookahead
from soc.chip.shadow import COUNTERS, MOST_FINDINGS
from soc.chip.spec import SocSpec
from soc.chip.state import (
    Chip,
    Image,
    copied,
    image,
    nothing_translated,
    unchecked,
    zeros_together,
)
from soc.cluster.icache_access import icache_state, private_sets
from soc.cluster.testbench import control_state
from soc.core.csr_numbers import MSTATUS_RESET
from soc.core.float_state import FLOATS_OFF
from soc.core.stack_check import HIGHEST
from soc.dma.mchan import new_dma
from soc.event_unit.state import event_unit_state
from soc.icache.prefetch_buffer import fetch_through_port
from soc.icache.private_cache import CV32E40P_PORT, IDEAL, RI5CY_PORT, STEADY
from soc.interconnect.axi_l2 import l2_state
from soc.interconnect.tcdm import DMA_PORTS, EXTERNAL_PORTS
from soc.prelude.counters import REGIONS
from soc.prelude.hart_state import OFF
from soc.prelude.records import BANK, CONFIG, HART
from soc.prelude.trace_event import RECORDER, SORTED_CYCLES
from soc.prelude.wheel import NEVER, WHEEL

LONG_AGO = -10
CLUSTER_BASE = 0x10200000
ALL_LINES = 0xFFFFFFFF
MISA = {"ri5cy": 0x40001104, "cv32e40p": 0x40001104}
"""RV32IMC; the X bit and F are added by core."""


def new_chip(
    spec: SocSpec, registers: str, trace_buffer: int = 1, is_checked: bool = False
) -> Chip:
    """The chip at reset, with empty memories.

    trace_buffer    events that fit into it
    is_checked      it has shadow memory
    """
    harts = spec.cores + (1 if spec.fabric_controller.present else 0)
    rows = spec.l2.size // 2 + harts
    counts = {
        "code": rows,
        "superblocks": rows,
        "regions": harts * REGIONS,
        "l2": spec.l2.size // 4,
    }
    if is_checked:
        counts |= _shadow_counts(spec, harts)
    return Chip(
        **({} if is_checked else unchecked()),
        **copied(_at_reset(spec, registers, harts)),
        **zeros_together(counts),
        l1=np.zeros(spec.l1.size // 4, np.int32),
        rom=boot_rom(spec.boot_rom, spec.fabric_controller.fetch == "l2"),
        trace=np.zeros(2 * trace_buffer, np.uint64),
        trace_sorted=np.zeros(2 * trace_buffer, np.uint64),
        trace_places=np.zeros(SORTED_CYCLES if trace_buffer > 1 else 1, np.int64),
        hot_code=nothing_translated(),
    )


def _shadow_counts(spec: SocSpec, harts: int) -> dict[str, int]:
    """Elements of the arrays of the shadow memory: most of their pages are never touched."""
    words = (spec.l1.size + spec.l2.size) // 4
    return {
        "check": 1,
        "bytes": words,
        "cells": 4 * words,
        "readers": words * (harts + COUNTERS),
        "seen": words * harts,
        "findings": MOST_FINDINGS,
        "sites": spec.l2.size // 2,
    }


@lru_cache(maxsize=16)
def _at_reset(spec: SocSpec, registers: str, harts: int) -> Image:
    """All but the memories and what is noted of a run: copied, which is faster than to make it."""
    icache, fetch = icache_state(spec.icache, spec.cores, harts - spec.cores)
    if spec.fabric_controller.present and spec.fabric_controller.fetch == "l2":
        buffer = RI5CY_PORT if spec.core.isa == "ri5cy" else CV32E40P_PORT
        fetch_through_port(fetch[spec.cores], buffer)
    arrays = {
        "config": _config(spec, registers, harts),
        "icache": icache,
        "fetch": fetch,
        "harts": _harts(spec, registers, harts),
        "banks": np.zeros(spec.l1.banks, BANK),
        "wheel": _wheel(),
        "event_unit": event_unit_state(spec.event_unit, spec.cores),
        "dma": new_dma(
            spec.dma,
            l1_base=spec.l1.base,
            l1_size=spec.l1.size,
            l2_base=spec.l2.base,
            l2_size=spec.l2.size,
        ),
        "l2_port": l2_state(spec.l2),
        "l2_banks": np.zeros(spec.l2.private_banks + spec.l2.banks + 1, BANK),
        "recorder": np.zeros(1, RECORDER),
        "control": _control(spec),  # last: mostly it is zeros, which are not copied
    }
    return image(arrays)


def _wheel() -> np.ndarray:
    wheel = np.zeros(1, WHEEL)
    wheel["ports"] = NEVER
    return wheel


def _control(spec: SocSpec) -> np.ndarray:
    control = control_state()
    control["device_ports"] = sum(device.ports for device in spec.device)
    return control


def _config(spec: SocSpec, registers: str, harts: int) -> np.ndarray:
    config = np.zeros(1, CONFIG)
    record = config[0]
    inputs = spec.cores + EXTERNAL_PORTS + DMA_PORTS
    record["harts"], record["cores"] = harts, spec.cores
    record["inputs"] = 1 << (inputs - 1).bit_length()
    record["code_base"], record["rows"] = spec.l2.base, spec.l2.size // 2
    record["code_alias"] = spec.l2.size if spec.control_page else 0
    record["l1_base"], record["l1_size"] = spec.l1.base, spec.l1.size
    record["banks"] = spec.l1.banks
    record["l2_base"], record["l2_size"] = spec.l2.base, spec.l2.size
    record["cluster_base"] = CLUSTER_BASE
    record["fpu_latency"] = spec.core.fpu_latency
    record["ri5cy"] = spec.core.isa == "ri5cy"
    record["f_registers"] = registers == "f"
    record["thead"] = spec.core.isa != "ri5cy" and spec.core.divider == "thead"
    record["wfi_sleeps"] = spec.core.wfi_sleeps
    record["trap_vectors"] = spec.core.traps == "handler"
    record["control_page"] = spec.control_page
    record["controller_to_l1"] = spec.access.controller_to_l1
    record["l1_to_controller"] = spec.access.l1_to_controller
    record["controller_ports"] = spec.fabric_controller.fetch == "l2"
    record["one_way"] = spec.fabric_controller.way == "soc3"
    record["controller_register"] = spec.access.controller_register
    record["controller_to_cluster"] = spec.access.controller_to_cluster
    record["elw_resume"] = spec.event_unit.resume
    record["ideal_l2"] = spec.control_page != 0
    record["private_sets"] = private_sets(spec.icache)
    record["steady_fetch"] = IDEAL if spec.icache.kind == "ideal" else STEADY
    record["lookahead"] = lookahead(spec)
    return config


def _harts(spec: SocSpec, registers: str, count: int) -> np.ndarray:
    harts = np.zeros(count, HART)
    harts["number"] = range(count)
    ri5cy = spec.core.isa == "ri5cy"
    harts["ri5cy"] = ri5cy
    harts["f_registers"] = registers == "f"
    harts["rtl_defects"] = spec.core.rtl_defects
    harts["boxed"] = registers == "f" and not spec.core.rtl_defects  # flex-v: EnableNanBox = 0
    harts["misa"] = MISA[spec.core.isa] | (1 << 23) | ((1 << 5) if registers == "f" else 0)
    harts["mstatus"] = MSTATUS_RESET
    is_xcv = spec.core.encodings == "xcv" or (spec.core.encodings == "auto" and not ri5cy)
    harts["loop_end_offset"] = 4 if is_xcv else 0
    harts["checks"] = FLOATS_OFF if registers == "f" and not ri5cy else 0
    harts["mtvec"] = spec.core.reset_pc & 0xFFFFFF00 | 1
    harts["mie"] = ALL_LINES if ri5cy else 0
    harts["mcountinhibit"] = 0xD
    harts["count_mode"] = 3
    for name in ("load_grant", "fpu_return", "memory_grant", "l1_grant"):
        harts[name] = LONG_AGO
    harts["irq_cycle"] = LONG_AGO
    harts["lp_last"] = -1
    harts["state"] = OFF
    harts["stack_end"] = harts["deepest"] = HIGHEST
    for h in range(spec.cores):
        harts[h]["hart_id"] = h
    if count > spec.cores:
        harts[spec.cores]["hart_id"] = spec.fabric_controller.hart_id
        harts[spec.cores]["ibex_csrs"] = spec.fabric_controller.ibex_csrs
        harts[spec.cores]["external"] = 1
    return harts


def load(chip: Chip, program: Program) -> None:
    """Copy a program's segments into the memories.

    raises    UnfitProgramError for a segment outside of them
    """
    config = chip.config[0]
    memories = (
        ("L1", int(config["l1_base"]), chip.l1),
        ("L2", int(config["l2_base"]), chip.l2),
    )
    for segment in program.segments:
        end = segment.address + segment.size
        for _, base, words in memories:
            if base <= segment.address and end <= base + words.nbytes:
                start = segment.address - base
                data = np.frombuffer(bytes(segment.data), np.uint8)
                words.view(np.uint8)[start : start + data.size] = data
                break
        else:
            ranges = ", ".join(
                f"{name} {base:#010x}..{base + words.nbytes - 1:#010x}"
                for name, base, words in memories
            )
            raise UnfitProgramError(
                f"segment {segment.address:#010x}..{end - 1:#010x} of the program is outside the "
                f"chip's memories ({ranges}); link it to these, or enlarge l1.size or l2.size"
            )
