"""Performance counters as programs read them: PCCR of RI5CY, mhpmcounter of CV32E40P.

Numbers of events: RI5CY and CV32E40P user manuals; what the cluster and the FPU add, and when an
access takes effect: riscv_cs_registers.sv, data_periph_demux.sv, cv32e40p_cs_registers.sv.
"""

from typing import Any

import numpy as np
import pytest

from pulpsim.fidelity.l2 import Way
from soc.prelude.counters import COUNT
from soc.result import RunResult
from tests.soc.core.pipeline_bench import CV32E40P, RI5CY, Bench

ALL = 0x1FFFFF
RI5CY_EVENTS = (
    "cycles instructions load_use jump_register fetch loads stores jumps branches taken compressed "
    "event external_loads external_stores load_external store_external l1_contention conflict "
    "fpu_contention fpu_dependency fpu_writeback"
).split()
CV32E40P_EVENTS = [*RI5CY_EVENTS[:12], *RI5CY_EVENTS[17:]]

CODE = {
    "load_use": ("lw a0, 0(s0); addi a1, a0, 1", {"loads": 1, "load_use": 1}),
    "jump_register": ("auipc t1, 0; jalr ra, 8(t1)", {"jumps": 1, "jump_register": 1}),
    "loads": ("lw a0, 0(s0); lb a0, 1(s0); lh a0, 2(s0)", {"loads": 3}),
    "stores": ("sw a0, 0(s0); sb a0, 1(s0)", {"stores": 2}),
    "jumps": ("j 1f; 1: jal ra, 2f; 2: nop", {"jumps": 2}),
    "branches": (
        "beq x0, x0, 1f; nop; 1: bne x0, x0, 2f; nop; 2: nop",
        {"branches": 2, "taken": 1},
    ),
    "compressed": ("c.nop; c.nop; c.mv a0, a1; c.nop", {"compressed": 4}),
    "nothing": ("mulh a0, a1, a2; div a0, a1, a2; csrr a0, mscratch", {}),
}
"""Code for both cores, and the events other than cycles and instructions that occur in it."""


class Counters:
    """Programs that count all events in a piece of code and leave the counters in L1."""

    def __init__(self, bench: Bench, events: list[str], on: str, off: str, first: int, setup: str):
        self.bench, self.events = bench, events
        self.on, self.off, self.first, self.setup = on, off, first, setup

    def run(self, code: str) -> tuple[dict[str, int], RunResult]:
        """Events counted by name, and the run; markers 2 are around the code."""
        code = f"{self.on}; slti x0, x0, 4; {code}; slti x0, x0, 5; {self.off}"
        reads = "; ".join(
            f"csrr t1, {self.first + k:#x}; sw t1, {4 * k}(s1)" for k in range(len(self.events))
        )
        result = self.bench.run(code, setup=self.setup, after=f"li a0, 0; {reads}")
        assert result.exit.reason == "exit", result.exit.message
        values = np.frombuffer(result.read(0x10000400, 4 * len(self.events)), np.uint32)
        return dict(zip(self.events, values.tolist(), strict=True)), result


PCCR = Counters(
    RI5CY,
    RI5CY_EVENTS,
    on="csrw 0xcc0, t0",
    off="csrw 0xcc0, x0",
    first=0x780,
    setup=f"csrwi 0x79f, 0; li t0, {ALL}",
)
HPM = Counters(
    CV32E40P,
    CV32E40P_EVENTS,
    on="csrwi mcountinhibit, 0",
    off="csrw mcountinhibit, t0",
    first=0xB03,
    setup="li t0, -1; csrw mcountinhibit, t0; "
    + "; ".join(
        f"li t1, {1 << k}; csrw {0x323 + k:#x}, t1; csrwi {0xB03 + k:#x}, 0" for k in range(16)
    ),
)
BOTH = pytest.mark.parametrize("counters", [PCCR, HPM], ids=["ri5cy", "cv32e40p"])


def region(result: RunResult) -> np.ndarray:
    """What the report counts between the two markers around the code."""
    return result.chip.regions[2]["total"]


@BOTH
@pytest.mark.parametrize("name", CODE)
def test_events_are_counted_under_the_numbers_of_the_manual(counters: Counters, name: str) -> None:
    code, expected = CODE[name]
    values, _ = counters.run(code)
    rest = {key: value for key, value in values.items() if key not in ("cycles", "instructions")}
    assert {key: value for key, value in rest.items() if value} == expected


@BOTH
@pytest.mark.parametrize("name", CODE)
def test_counters_equal_those_of_the_report(counters: Counters, name: str) -> None:
    values, result = counters.run(CODE[name][0])
    total = region(result)
    causes = ("load_use", "jump_register", "loads", "stores", "jumps", "branches", "taken")
    assert {key: values[key] for key in causes} == {
        key: int(total[getattr(COUNT, key)]) for key in causes
    }


@BOTH
def test_cycles_and_instructions_are_counted_between_the_accesses_that_switch_them(
    counters: Counters,
) -> None:
    """Both take effect as late: between them is the code, its markers, one of the accesses."""
    values, result = counters.run("nop; lw a0, 0(s0); addi a0, a0, 1; mulh a0, a0, a0")
    spec = result.chip.regions[2]
    access = 1 if counters is PCCR else 4  # cycles of the CSR access before the code
    assert values["cycles"] == spec["cycles"] + 1 + access
    assert values["instructions"] == 4 + 2 + 1


FPU = {
    "fadd.s f1, f2, f3; fadd.s f4, f1, f3": {"fpu_dependency": 1},
    "fmul.s f1, f2, f3; nop; fadd.s f4, f1, f3": {},
}
"""With one pipeline register: a dependent operation waits one cycle."""


@BOTH
@pytest.mark.parametrize("code", FPU)
def test_waits_for_the_fpu_are_counted(counters: Counters, code: str) -> None:
    values, _ = counters.run(f"{code}; nop; nop; nop")  # a CSR access waits for the FPU, too
    waits = {key: value for key, value in values.items() if key.startswith("fpu") and value}
    assert waits == FPU[code]


def test_counters_that_ri5cy_does_not_have_read_zero_and_pcer_keeps_21_bits() -> None:
    after = "li t0, -1; csrw 0xcc0, t0; csrr t1, 0xcc0; sw t1, 0(s1); csrw 0x795, t0; "
    result = RI5CY.run("nop", after=after + "csrr t1, 0x795; sw t1, 4(s1); li a0, 0")
    assert words(result, 2) == [ALL, 0]


def words(result: RunResult, count: int) -> list[int]:
    assert result.exit.reason == "exit", result.exit.message
    return np.frombuffer(result.read(0x10000400, 4 * count), np.uint32).tolist()


@pytest.mark.parametrize(
    ("mode", "expected"), [(3, 0xFFFFFFFF), (1, 0x00000007)], ids=["saturating", "wrapping"]
)
def test_a_pccr_stops_at_its_largest_value_if_pcmr_says_so(mode: int, expected: int) -> None:
    """From its value -3 on, 10 cycles pass: those after the write and before the read."""
    code = f"csrwi 0xcc1, {mode}; li t0, 1; csrw 0xcc0, t0; li t1, -3; csrw 0x780, t1"
    result = RI5CY.run(code + "; nop" * 10, after="csrr t1, 0x780; sw t1, 0(s1); li a0, 0")
    value = words(result, 1)[0]
    between = 10 + 1 + 2  # the nops, the marker after the code, two nops
    assert value == (expected if mode == 3 else between - 3)


def test_a_pccr_that_was_written_counts_what_comes_after() -> None:
    """Read right after, it has its value; an instruction later, one cycle and one instruction."""
    setup = f"li t0, {ALL}; csrw 0xcc0, t0; li t1, 100"
    after = "; ".join(
        f"csrw {csr:#x}, t1; {'nop; ' * between}csrr t2, {csr:#x}; sw t2, {place}(s1)"
        for place, (csr, between) in {
            0: (0x780, 0),
            4: (0x780, 3),
            8: (0x781, 0),
            12: (0x781, 3),
        }.items()
    )
    result = RI5CY.run("nop", setup=setup, after=after + "; li a0, 0")
    assert words(result, 4) == [100, 103, 100, 103]


def test_mcycle_and_minstret_count_from_the_access_that_lets_them_on() -> None:
    after = """
        li t0, -1; csrw mcountinhibit, t0; csrw mcycle, x0; csrw minstret, x0
        csrwi mcountinhibit, 0; csrr t1, mcycle; csrr t2, minstret; nop; nop; csrr t3, minstret
        sub t3, t3, t2; sw t1, 0(s1); sw t2, 4(s1); sw t3, 8(s1); li a0, 0
    """
    result = CV32E40P.run("nop", after=after)
    # The read issues 4 cycles after the write; 3 of them are after its taking effect.
    assert words(result, 3) == [3, 1, 3]


def external(code: str) -> dict[str, int]:
    """RI5CY's counters 12 to 15 around code on the whole chip: s0 points to L2."""
    reads = "\n".join(f"csrr t1, {0x780 + k:#x}\nsw t1, {4 * k}(s2)" for k in range(12, 16))
    text = f"li s2, 0x10000000\nli t0, {ALL}\ncsrw 0xcc0, t0\n{code}\ncsrw 0xcc0, x0\n{reads}\n"
    result = Way().run(text.replace(";", "\n"))
    values: list[Any] = np.frombuffer(result.read(0x10000000 + 48, 16), np.uint32).tolist()
    return dict(zip(RI5CY_EVENTS[12:16], values, strict=True))


def test_accesses_outside_l1_are_counted_with_the_cycles_of_their_requests() -> None:
    """A load of L2 stalls 15 cycles and is granted in the 16th, a store one later."""
    assert external("lw t0, 0(s0); lw t0, 4(s0); sw t0, 0(s0)") == {
        "external_loads": 2,
        "external_stores": 1,
        "load_external": 32,
        "store_external": 17,
    }
