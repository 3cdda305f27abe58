"""A training step as a program: a function for each unique kernel, records of addresses, batches.

Before each batch the program hands over: it stops, so that the host reads what the batch before has
left and writes the next one (see soc.exchange), or, where batches lie in L2, copies the next one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from firmware.arena import ArenaFull
from firmware.builder import NE, CodeTooLarge, Kernel, KernelError, Label
from firmware.hyperram import reach
from firmware.registers import ZERO
from firmware.runtime import CODE_OFFSET, Team, new_kernel, team_of
from isa.program import Program
from soc.chip.spec import SocSpec
from trainlib.calls.call import point_of
from trainlib.deploy.estimate import node_cycles
from trainlib.deploy.finite import as_array
from trainlib.deploy.graph.registry import call_of
from trainlib.deploy.graph.values import DTYPES, DeployError, Graph, TooLargeError, Value
from trainlib.deploy.handover import Pool, emit_seeds, emit_stop
from trainlib.deploy.memory import ALIGNED, Memory, lifetimes, plan
from trainlib.deploy.replay import Emitted, replayed
from trainlib.deploy.schedule import Schedule, Section
from trainlib.deploy.swap import NoRoom, SwapPlan, Swaps, can_swap
from trainlib.deploy.swap_code import SwapCode, is_point
from trainlib.deploy.swap_order import Copy
from trainlib.deploy.tiles import Tiles
from trainlib.primitive.tensor import WORD, Arrays
from trainlib.tiling.functions import Function, Functions, Record, decoded
from trainlib.tiling.warm_up import repeated

ENDLESS = 1 << 30  # steps, where the host ends the run
CODE_OF_CALL, CODE_OF_FUNCTION, CODE_OF_REST = 32, 4096, 4096  # bytes, more than most take
CODE_OF_COPIES = 2048  # bytes: about what the choice of copies changes
ATTEMPTS = 2  # at the room for code, before the last one
ROUNDED = 256  # bytes: code arenas are multiples of it
AMPLE = (
    1 << 24
)  # bytes of an L2 in which steps are laid out that do not fit, to tell what they need
UNSWAPPED = "copies are in one order, and batches of the step repeat nodes: accumulate fewer"
PROGRAM = "train"  # its name
COPIES = "copies"  # the region in which nodes wait for what lies in the HyperRAM


@dataclass(frozen=True)
class Built:
    """A program with its plan.

    addresses    of all values, by name
    calls        those of kernels in their order, as the program's records have them
    macs         multiply-adds of a step
    copies       of values between L2 and the HyperRAM, in their order
    homes        where values lie in the HyperRAM between steps, by name: views, too
    """

    program: Program
    schedule: Schedule
    chip: SocSpec
    memory: Memory
    addresses: Mapping[str, int]
    calls: tuple[Emitted, ...]
    macs: int
    copies: tuple[Copy, ...] = ()
    homes: Mapping[str, int] = field(default_factory=dict)

    @property
    def contents(self) -> list[tuple[int, bytes]]:
        """Addresses in L2 and bytes of parameters, states and constants that the program has."""
        return _contents(self.schedule.graph, self.addresses, self.homes)

    def place_of(self, name: str) -> int:
        """Where the host finds a value between steps: in L2 or the HyperRAM."""
        return self.homes.get(name, self.addresses[name])

    def bytes_of(self, name: str, array: Any) -> tuple[int, bytes]:
        """Where a value lies, and what an array is there.

        raises    DeployError if it has another shape or type
        """
        value = self.schedule.graph.values[name]
        return self.place_of(name), typed(value, array).tobytes()

    def array_of(self, name: str, read: Callable[[int, int], bytes]) -> np.ndarray:
        """What a value holds, given what reads memory."""
        value = self.schedule.graph.values[name]
        data = read(self.place_of(name), value.size)
        return np.frombuffer(data, DTYPES[value.dtype]).reshape(value.shape).copy()

    def faults(self) -> list[str]:
        """What is wrong with its memory, found by a replay of its records: nothing, see there."""
        schedule, memory = self.schedule, self.memory
        how = schedule.nodes, self.calls, self.addresses, schedule.kept
        reference = schedule.reference
        extent = memory.start, memory.end
        return replayed(reference, reference.nodes, *how, extent, self.copies, self.homes)


def _contents(
    graph: Graph, addresses: Mapping[str, int], homes: Mapping[str, int]
) -> list[tuple[int, bytes]]:
    """Addresses and bytes of a graph's arrays that lie in L2."""
    inside = addresses.keys() - homes.keys()
    return [(addresses[n], array.tobytes()) for n, array in graph.arrays.items() if n in inside]


def typed(value: Value, array: Any) -> np.ndarray:
    """An array or a tensor, as a value of the graph has it.

    raises    DeployError if it has another shape or type
    """
    given, name = as_array(array), value.name
    if given.shape != value.shape and (given.shape or (1,)) != value.shape:
        is_count = value.role == "input" and given.shape[1:] == value.shape[1:] != given.shape
        way = "; all batches have as many examples: leave out the last one if it is shorter"
        raise DeployError(
            f"{name}: shape {list(given.shape)}; the network has {list(value.shape)}"
            f"{way if is_count and given.shape else ''}"
        )
    kinds = "iub" if value.dtype == "int32" else "fiub"
    if given.dtype.kind not in kinds:
        raise DeployError(f"{name}: type {given.dtype}; it takes {value.dtype}")
    return np.ascontiguousarray(given, DTYPES[value.dtype])


def build(
    schedule: Schedule,
    chip: SocSpec,
    *,
    cores: int | None = None,
    tiles: Tiles | None = None,
    pool: Sequence[Arrays] = (),
    steps: int | None = None,
    swaps: TooLargeError | None = None,
    tell: Callable[[str], None] | None = None,
) -> Built:
    """The program of a schedule.

    cores    of the team; all by default
    tiles    of kernels; None: the primitives choose, or what overlaps copies with computing
    pool     batches that it holds, taken one after the other; none: the host hands them over
    steps    how many it makes: by default those of the pool, or as many as the host wants
    swaps    why values may lie in the HyperRAM meanwhile: L2 is too small for all of them
    tell     called with each layer and its step while its kernels are planned

    raises    DeployError if it does not fit L2, KernelError if a kernel cannot be built
    """
    steps = steps or max(len(pool) // schedule.batches, 1) if pool else ENDLESS
    how = schedule, chip, cores or chip.cores, tiles or Tiles.on(chip, cores), pool, steps
    maker = _Maker(*how, swaps is not None and can_swap(schedule), tell)
    if swaps:
        code = swaps.code + CODE_OF_COPIES
    else:
        unique = len({(call.kernel, repr(sorted(call.arguments.items()))) for call in maker.calls})
        guess = CODE_OF_REST + CODE_OF_CALL * len(maker.calls) + CODE_OF_FUNCTION * unique
        code = min(guess, (chip.l2.size - CODE_OFFSET) // 4)
    for _ in range(ATTEMPTS):
        try:
            return maker.built(code)
        except _WrongRoom as found:
            code = found.code
        except CodeTooLarge as found:
            code = found.needed + CODE_OF_COPIES * maker.swaps
    return maker.built(code)


def _rounded(size: int) -> int:
    """Bytes of an arena for so much code."""
    return -(-size // ROUNDED) * ROUNDED


class _WrongRoom(Exception):
    """Values do not fit beside the room for code, which may be smaller; `code`: what it takes."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Maker:
    """A program under construction."""

    def __init__(
        self,
        schedule: Schedule,
        chip: SocSpec,
        cores: int,
        tiles: Tiles,
        batches: Sequence[Arrays],
        steps: int,
        swaps: bool,
        tell: Callable[[str], None] | None,
    ) -> None:
        self.tell = tell or (lambda layer: None)
        self.swaps, self.homes = swaps, dict[str, int]()
        self.swapped: SwapPlan | None = None
        self.unswapped = "" if can_swap(schedule) else UNSWAPPED
        self.schedule, self.chip, self.cores = schedule, chip, cores
        self.batches, self.steps = batches, steps
        self.calls = [tiles.chosen(call_of(schedule.graph, node)) for node in schedule.nodes]
        self.points = [point_of(call, cores) for call in self.calls]
        self.addresses: dict[str, int] = {}
        self.pool: Pool | None = None
        self.last: int | None = None

    def built(self, code: int) -> Built:
        """The program, with so many bytes of room for code."""
        l2 = self.chip.l2.size
        if CODE_OFFSET + code >= l2:
            raise DeployError(
                f"the step's code needs {code:,} bytes of L2, there are {l2:,}, {CODE_OFFSET:,} of "
                f"them before code: take a chip with a larger l2.size, or fewer layers that differ"
            )
        if CODE_OFFSET + _rounded(code) + ROUNDED < l2:
            with suppress(ArenaFull):
                return self._built(self.chip, code)
        size = max(AMPLE, 2 * l2)
        ample = self.chip.l2.model_copy(update={"size": size})
        return self._built(self.chip.model_copy(update={"l2": ample}), code)

    def _built(self, chip: SocSpec, code: int) -> Built:
        """The program, in the L2 of a chip, which may be larger than there is: then it is refused.

        raises    TooLargeError
        """
        k = new_kernel(chip, PROGRAM, code=_rounded(code))
        start = k.l2.next
        server = k.label("swap_server") if self.swaps else None
        with team_of(k, chip, self.cores, server) as team:
            swap = self.swap = SwapCode(k, team) if self.swaps else None
            functions = Functions(k, team)
            self.functions = [self._function(functions, n) for n in range(len(self.points))]
            tables = k.l2.next - start
            if self.batches:
                self.pool = Pool.of(k, self.schedule, self.batches, self.steps)
            batches = k.l2.next - start - tables
            memory, lack = self._plan(k)
            if swap and server:
                swap.emit_server(server, self.copies)
            self._emit(k, team)
            records = functions.records
        size = k.code_size()
        if lack:
            lack -= _rounded(code) - _rounded(size)  # room for code that it does not take
            if self.last is not None or lack > 0:
                needed = self.chip.l2.size + lack
                message = self._too_large(memory, needed, size, tables, batches)
                raise TooLargeError(message, needed, lack, size, self.unswapped)
            self.last = lack
            raise _WrongRoom(size)
        for address, data in _contents(self.schedule.graph, self.addresses, self.homes):
            k.put(address, data)
        program = k.build()
        tables += batches + WORD * sum(len(function.operands) for function in self.functions)
        return Built(
            program,
            self.schedule,
            self.chip,
            replace(memory, code=size, tables=tables),
            dict(self.addresses),
            tuple(self._recorded(program, records)),
            self._macs(),
            tuple(self.copies),
            self.homes,
        )

    def _function(self, functions: Functions, number: int) -> Function:
        """The function of a call.

        raises    KernelError with the layer's name
        """
        call = self.calls[number]
        self.tell(call.region)
        try:
            return functions.of(*self.points[number])
        except KernelError as error:
            if isinstance(error, CodeTooLarge) or getattr(error, "arena", "") == "L2":
                raise
            layer = call.region.rpartition(" ")[0]
            way = "a chip with a larger l1.size, or a smaller layer"
            if self.schedule.nodes[number].element != "f32":
                way = f'f32 for the layer, dtypes = {{"{layer}": "f32"}}, ' + way
            reason = str(error).removeprefix(f"{PROGRAM}: ")
            raise KernelError(f"layer {call.region}, {call.kernel}: {reason}; take {way}") from None

    @property
    def copies(self) -> Sequence[Copy]:
        """Those between L2 and the HyperRAM."""
        return self.swapped.copies if self.swapped else ()

    def _macs(self) -> int:
        """Multiply-adds of a step."""
        points = iter(self.points)
        return sum(
            section.times * family.macs(point)
            for section in self.schedule.sections
            for _, (family, point) in zip(section.nodes, points, strict=False)
        )

    def _plan(self, k: Kernel) -> tuple[Memory, int]:
        """Addresses of everything; and how many bytes of L2 are missing."""
        schedule, graph = self.schedule, self.schedule.graph
        spaces = {
            number: {f"{number} {name}": size for name, size in function.workspaces.items()}
            for number, function in enumerate(self.functions)
        }
        blocks = lifetimes(graph, schedule.nodes, schedule.kept, spaces)
        start = -(-k.l2.next // ALIGNED) * ALIGNED
        memory = plan(*blocks, start)
        records = sum(WORD * len(function.operands) for function in self.functions)
        room = self.chip.l2.base + self.chip.l2.size - start - records - ROUNDED
        lack = memory.peak - room
        if lack > 0 and self.swaps:
            swaps = Swaps(
                *(graph, schedule.nodes, node_cycles(self.points, self.cores), not self.batches),
                schedule.stops,
            )
            l2 = self.chip.l2
            reached = min(room, l2.base + reach(l2.size) - start)
            ram, beyond = self.chip.hyperram.size, room - reached
            try:
                swapped = swaps.plan(*blocks, start, reached, ram, beyond)
                memory, self.swapped = swapped.memory, swapped
                self.homes = self._homes(swapped.homes)
                lack = 0
            except NoRoom as error:
                lack, self.unswapped = error.lack, str(error)
        self.blocks = memory.blocks
        for name in graph.values:
            root, offset = graph.place(name)
            if root in memory.blocks:
                self.addresses[name] = (
                    memory.blocks[root].address + graph.values[root].item * offset
                )
        if lack <= 0:
            k.buffer(k.l2, "values", memory.end - memory.start, ALIGNED)
        return memory, max(lack, 0)

    def _homes(self, homes: Mapping[str, int]) -> dict[str, int]:
        """Addresses in the HyperRAM, those of views, too."""
        graph = self.schedule.graph
        places = {name: graph.place(name) for name in graph.values}
        return {
            name: homes[root] + graph.values[root].item * offset
            for name, (root, offset) in places.items()
            if root in homes
        }

    def _too_large(self, memory: Memory, needed: int, code: int, tables: int, batches: int) -> str:
        inputs = self.schedule.graph.of_role("input")
        is_one = all(value.shape[0] == 1 for value in inputs)
        data = f", {batches:,} for batches and losses" if batches else ""
        ways = ["fewer batches and steps"] if batches else []
        ways += [] if is_one else ["smaller batches and accumulate"]
        take = f"take {', '.join(ways)}, " if ways else ""
        return (
            f"the step needs {needed:,} bytes of L2, there are {self.chip.l2.size:,}: "
            f"{memory.peak:,} for values ({memory.static:,} of them stay), {code:,} for code, "
            f"{tables:,} for tables{data}; {take}freeze layers, or take a chip with a larger "
            f"l2.size"
        )

    def _emit(self, k: Kernel, team: Team) -> None:
        """All steps, then the losses if no host reads them."""
        with repeated(k, self.steps):
            first = 0
            for section in self.schedule.sections:
                calls = range(first, first + len(section.nodes))
                first = calls.stop
                if section.times == 1:
                    self._section(k, team, section, calls)
                elif section.times:
                    with repeated(k, section.times):
                        self._section(k, team, section, calls)
            self._swap(k, len(self.calls))
        if self.pool and self.schedule.graph.loss:
            self.pool.emit_print(k, team)

    def _section(self, k: Kernel, team: Team, section: Section, calls: range) -> None:
        graph = self.schedule.graph
        end = k.label()
        skipped = section.skipped and self.addresses[section.skipped[0]] + WORD * section.skipped[1]
        if skipped and not self.swap:
            _jump_if(k, skipped, end)
        if section.takes_batch:
            with k.region("next batch"):
                if self.pool:
                    self.pool.emit_copy(k, team, self.schedule, self.addresses)
                    team.barrier()
                else:
                    emit_stop(k, team)
        for number in calls:
            self._swap(k, number)
            with k.region(self.calls[number].region):
                after = k.label()
                if skipped and self.swap:  # copies take their turn all the same
                    _jump_if(k, skipped, after)
                self.functions[number].call(self._operands(number))
                k.place(after)
        if section.takes_batch:
            seeds = dict.fromkeys(n.inputs["seed"] for n in section.nodes if n.op == "dropout")
            emit_seeds(k, team, [self.addresses[name] for name in seeds])
            if self.pool and graph.loss:
                self.pool.emit_note(k, team, self.addresses[graph.loss])
        k.place(end)

    def _swap(self, k: Kernel, number: int) -> None:
        """What copies ask for before a node, or at the end of the step."""
        if self.swap and is_point(self.copies, number):
            with k.region(COPIES):
                self.swap.before(number, self.copies)

    def _operands(self, number: int) -> dict[str, int]:
        """Addresses of a call's operands and workspaces."""
        at = {o: self.addresses[name] for o, name in self.calls[number].operands.items()}
        spaces = self.functions[number].workspaces
        return at | {name: self.blocks[f"{number} {name}"].address for name in spaces}

    def _recorded(self, program: Program, records: Sequence[Record]) -> Iterator[Emitted]:
        """The calls, with the addresses that the program's records have."""
        for call, function, record in zip(self.calls, self.functions, records, strict=True):
            data = _data(program, record.address, WORD * len(record.operands))
            words = np.frombuffer(data, "<u4").tolist()
            at = dict(zip(record.operands, decoded(words), strict=True))
            spaces = tuple((at.pop(name), size) for name, size in function.workspaces.items())
            yield Emitted(call, at, spaces)


def _jump_if(k: Kernel, address: int, label: Label) -> None:
    """Jump if the word at an address is not 0."""
    with k.scope():
        word = k.x()
        k.li(word, address)
        k.lw(word, 0, word)
        with k.if_(NE, word, ZERO):
            k.j(label)


def _data(program: Program, address: int, size: int) -> bytes:
    """Bytes of a program's data."""
    for segment in program.segments:
        if segment.address <= address and address + size <= segment.address + len(segment.data):
            return segment.data[address - segment.address :][:size]
    raise KernelError(f"{program.name}: no data at {address:#010x}")
