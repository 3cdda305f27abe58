"""Emitters on the chip: operands in L1 between guards, as numbers or in registers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from firmware.runtime import STACK, new_kernel, team_of
from soc.chip.spec import SocSpec, load_chip
from soc.run import run_program
from tests.firmware.machine import L1, L1_SIZE, L2, Machine
from trainlib.launch import program

PULP = load_chip("pulp")
WARM = load_chip("pulp", {"icache.kind": "ideal"})  # as if every instruction were cached
CHIPS = {
    "ri5cy-x": PULP,
    "ri5cy-f": load_chip("pulp", {"core.float_registers": "f"}),
    "cv32e40p-x": load_chip("pulp-cv32e40p"),
    "cv32e40p-f": load_chip("pulp-cv32e40p", {"core.float_registers": "f"}),
}
GUARD = 64  # bytes around each operand, NaN: what reads them shows
COMPUTE = "compute"


@dataclass(frozen=True)
class Outcome:
    """What a run left: operands by name, cycles of the slowest core, stalls of each core."""

    values: dict[str, np.ndarray]
    cycles: int
    stalls: list[dict[str, int]]


def run(
    emit: Callable,
    operands: Mapping[str, np.ndarray],
    *,
    cores: int = 8,
    chip: SocSpec = WARM,
    in_registers: bool = False,
    writes: tuple[str, ...] | None = None,
) -> Outcome:
    """Run emit(k, team, **addresses) and a barrier on a team.

    writes    operands that it may change; None: any

    Nothing but these and the stacks may change.
    """
    k = new_kernel(chip, "test")
    start = k.l1.next
    image = bytearray()
    addresses = {}
    for name, array in operands.items():
        image += b"\xff" * GUARD
        addresses[name] = start + len(image)
        image += array.astype("<f4").tobytes()
    image += b"\xff" * GUARD
    k.put(k.buffer(k.l1, "operands", len(image)), bytes(image))
    with team_of(k, chip, cores) as team, k.scope():
        given = dict(addresses)
        if in_registers:
            for name, register in zip(addresses, k.x(len(addresses)), strict=True):
                k.li(register, addresses[name])
                given[name] = register
        team.barrier()
        with k.region(COMPUTE):
            emit(k, team, **given)
            team.barrier()
        if in_registers:
            check_registers(k, given, addresses)
    result = run_program(k.build(), chip, max_cycles=10_000_000)
    assert (result.exit.reason, result.exit.code) == ("exit", 0), result.exit
    assert result.warnings == ()
    left = bytearray(result.read(start, chip.l1.size - STACK * chip.cores))
    values = {}
    for name, array in operands.items():
        offset = addresses[name] - start
        data = bytes(left[offset : offset + array.nbytes])
        values[name] = np.frombuffer(data, "<f4").reshape(array.shape)
        if writes is None or name in writes:
            left[offset : offset + array.nbytes] = image[offset : offset + array.nbytes]
    assert bytes(left[: len(image)]) == bytes(image), "a guard or an input is overwritten"
    assert not any(left[len(image) :]), "memory after the operands is written"
    regions = [r for hart in result.to_json()["harts"] for r in hart["regions"]]
    return Outcome(values, max(r["cycles"] for r in regions), [r["stalls"] for r in regions])


def check_registers(k, given, addresses):
    """Trap if an address register has changed."""
    for name, register in given.items():
        with k.scope():
            t = k.x()
            fine = k.label()
            k.li(t, addresses[name])
            k.beq(t, register, fine)
            k.ebreak()
            k.place(fine)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normally distributed float32."""
    return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)


def is_right_without_time(kernel: str, point: Mapping, chip: SocSpec) -> bool:
    """Does the program compute what it should, by the meanings of its instructions alone?

    Nothing but outputs, buffers in L1 and stacks may change.
    """
    built = program(kernel, point, chip, guard=GUARD)
    machine = Machine(built.program, built.isa)
    before = {base: bytes(memory) for base, memory in machine.memories.items()}
    machine.run()
    assert machine.code == 0
    own = [(address, tensor.size) for address, tensor in built.outputs.values()]
    own += [(s.address, s.size) for s in built.program.symbols if L1 <= s.address < L1 + L1_SIZE]
    own.append((L1 + chip.l1.size - STACK * chip.cores, STACK * chip.cores))
    for base in (L1, L2):
        after = bytearray(machine.memories[base])
        for start, size in own:
            if base <= start < base + len(after):
                after[start - base : start - base + size] = before[base][start - base :][:size]
        assert bytes(after) == before[base]
    expected = built.family.reference(built.arguments, built.inputs)
    is_right = True
    for name, (address, tensor) in built.outputs.items():
        values = np.frombuffer(machine.read(address, tensor.size), "<f4").reshape(tensor.shape)
        exact, bound = expected[name]
        is_right &= bool((np.abs(values - exact) <= bound).all())
    return is_right
