"""A primitive as a program that works through tiles: tensors in L2, a few buffers of each in L1.

The schedule is data: Python works out all steps and writes them into a table in L2, an entry each.
The code that walks it is short. In every step each core

    waits for the copies that it has started in the step before, then for the other cores;
    starts its share of this step's copies: outputs of the tile before, inputs of the tile behind,
        and the next entry;
    jumps to the function for this tile's shape, which jumps back.

An entry: the function, the entry's successor, the address of each buffer that is not always the
same, a zero, then blocks of commands: their number of words, and the words. Block i is for core
cores - 1 - i: the last cores have the least to compute. Commands are spread over cores since a port
of the DMA takes its next command only when the last one has begun.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firmware.builder import LT, Kernel, Label, Register
from firmware.drivers import COMMAND, CONTROL, Dma, command_words
from firmware.registers import SP, A, S
from firmware.runtime import EVENT_UNIT, Team
from trainlib.kernels import WORD, Address, Tensors
from trainlib.schedule import Step, schedule
from trainlib.tile_choice import Choice
from trainlib.tiling import Sizes, TileShape, Tiling

FRAME = 16  # bytes of a core's stack: its entry, its block's offset, its counter
ENTRY, BLOCK, COUNTER = (WORD * slot for slot in range(3))
FUNCTION, NEXT, ADDRESSES = (WORD * word for word in range(3))  # of an entry
WORDS_OF_COMMAND = 7


def emit_tiled(
    k: Kernel,
    team: Team,
    tiling: Tiling,
    tensors: Tensors,
    l2: Mapping[str, int],
    tile: Sizes,
    buffers: int,
) -> None:
    """Emit the body of the program; its region is compute, and dma_wait inside it.

    l2         addresses of tensors by name
    tile       sizes by dimension; what it leaves out is chosen
    buffers    1: copy, then compute; 2: both at once

    raises     KernelError if no tile or not this one fits L1, or the schedule does not fit L2
    """
    plan = Plan.of(k, team, tiling, tensors, tile, buffers)
    with k.region("compute"):
        Walk(k, team, plan, l2).emit()
        team.barrier()


@dataclass(frozen=True)
class Plan:
    """What is computed when, and the buffers for it.

    slots    buffers of each tensor
    sizes    bytes of each of them
    """

    tiling: Tiling
    steps: list[Step]
    slots: dict[str, int]
    sizes: dict[str, int]
    scratch: dict[str, int]
    cores: int

    @classmethod
    def of(
        cls, k: Kernel, team: Team, tiling: Tiling, tensors: Tensors, tile: Sizes, buffers: int
    ) -> "Plan":
        """Choose sizes of tiles until the table's entries fit too."""
        entries = 0
        while True:
            choice = Choice(k.name, tiling, tensors, buffers, k.l1, entries)
            sizes = choice.sizes(tile)
            slots = choice.slots(sizes)
            tiles = list(tiling.tiles(sizes, tensors))
            steps = schedule(tiles, tensors, slots)
            plan = cls(tiling, steps, slots, *_bytes(tiling, tiles), team.cores)
            if 2 * plan.entry_size <= entries:
                return plan
            entries = 2 * plan.entry_size

    @property
    def shapes(self) -> list[TileShape]:
        """All distinct shapes of tiles, in the order of their first use."""
        return list(dict.fromkeys(step.shape for step in self.steps if step.shape is not None))

    @property
    def moving(self) -> list[str]:
        """Tensors that have more than one buffer."""
        return [name for name, slots in self.slots.items() if slots > 1]

    @property
    def issuers(self) -> int:
        """Cores that start copies; one of them loads entries."""
        most = max(len(step.transfers) for step in self.steps) + 1
        return min(self.cores, most)

    @property
    def first_block(self) -> int:
        """Bytes in an entry before the blocks of commands."""
        return ADDRESSES + WORD * (len(self.moving) + 1)

    @property
    def block(self) -> int:
        """Bytes of a block of commands."""
        most = max(len(step.transfers) for step in self.steps) + 1
        return WORD * (1 + WORDS_OF_COMMAND * -(-most // self.issuers))

    @property
    def entry_size(self) -> int:
        """Bytes of an entry."""
        return -(-(self.first_block + self.issuers * self.block) // 16) * 16


def _bytes(tiling: Tiling, tiles: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes that the largest part of each tensor takes, and the largest scratch buffers."""
    sizes: dict[str, int] = {}
    scratch: dict[str, int] = {}
    for shape in dict.fromkeys(tile.shape for tile in tiles):
        for name, part in shape.parts:
            sizes[name] = max(sizes.get(name, 0), part.size)
        for name, size in (tiling.scratch(shape) if tiling.scratch else {}).items():
            scratch[name] = max(scratch.get(name, 0), size)
    return sizes, scratch


class Walk:
    """The code and the table of a plan."""

    def __init__(self, k: Kernel, team: Team, plan: Plan, l2: Mapping[str, int]) -> None:
        self.k, self.team, self.plan, self.l2 = k, team, plan, l2
        self.slots = {
            name: [k.buffer(k.l1, f"{name}_in_L1_{slot}", plan.sizes[name]) for slot in range(n)]
            for name, n in plan.slots.items()
        }
        self.scratch = {name: k.buffer(k.l1, name, size) for name, size in plan.scratch.items()}
        self.entries = [k.buffer(k.l1, f"entry_{i}", plan.entry_size) for i in range(2)]
        self.next, self.finish = k.label("next_step"), k.label("last_step")

    def emit(self) -> None:
        """Emit all of it."""
        k = self.k
        functions = {shape: self._function(i, shape) for i, shape in enumerate(self.plan.shapes)}
        table = self._table(functions)
        k.addi(SP, SP, -FRAME)
        self._prepare(table)
        k.place(self.next)
        self._step()
        k.place(self.finish)
        with k.scope():
            counter = k.x()
            k.lw(counter, COUNTER, SP)
            dma = Dma(k)
            dma.wait(counter)
        k.addi(SP, SP, FRAME)

    def _prepare(self, table: int) -> None:
        """Fill the core's frame. Cores that issue commands load the first entry, each its block.

        NOTE: a port of the DMA that has allocated a counter takes nothing but a command.
        """
        k, plan = self.k, self.plan
        with k.scope():
            place, value, most, counter, l1, l2 = k.x(6)
            k.li(l1, self.entries[0])
            k.sw(l1, ENTRY, SP)
            self.team.core(value)
            k.li(place, plan.cores - 1)
            k.sub(place, place, value)
            k.li(value, plan.first_block - WORD)
            k.li(counter, 0)
            k.li(most, plan.issuers)
            with k.if_(LT, place, most):
                k.li(value, plan.block)
                k.mul(value, value, place)
                k.add(l1, l1, value)
                k.li(l2, table)
                k.add(l2, l2, value)
                dma = Dma(k)
                dma.begin(counter)
                dma.to_l1(l1, l2, plan.first_block + plan.block)
                k.addi(value, value, plan.first_block)
            k.sw(value, BLOCK, SP)
            k.sw(counter, COUNTER, SP)

    def _step(self) -> None:
        """Wait, start copies, jump to the tile's function with the entry in a0."""
        k = self.k
        entry = A[0]
        with k.scope():
            k.registers.hold(entry)
            counter, block, base, value = k.x(4)
            k.lw(counter, COUNTER, SP)
            Dma(k).wait_open(counter, "dma_wait")
            self.team.barrier()
            k.lw(entry, ENTRY, SP)
            k.lw(block, BLOCK, SP)
            k.add(block, block, entry)
            k.load_post(counter, WORD, block)
            k.lw(value, NEXT, entry)
            k.sw(value, ENTRY, SP)
            skip = k.label()
            k.beqz(counter, skip)
            k.li(base, EVENT_UNIT)
            with k.hwloop(counter):
                k.load_post(value, WORD, block)
                k.nop()  # the load's delay
                k.sw(value, CONTROL + COMMAND, base)
            k.place(skip)
            k.lw(value, FUNCTION, entry)
            k.jr(value)

    def _function(self, number: int, shape: TileShape) -> Label:
        """The code for tiles of a shape; it takes from the entry which buffers they have."""
        k, plan = self.k, self.plan
        with k.routine(f"tile_{number}") as label:
            k.registers.hold(A[0])
            addresses: dict[str, Address] = dict(self.scratch)
            registers = iter(reversed(S))
            for name, slots in self.slots.items():
                if name in plan.moving:
                    register: Register = next(registers)
                    k.registers.hold(register)
                    k.lw(register, ADDRESSES + WORD * plan.moving.index(name), A[0])
                    addresses[name] = register
                else:
                    addresses[name] = slots[0]
            k.free(A[0])
            plan.tiling.emit(k, self.team, shape, addresses)
            k.j(self.next)
        return label

    def _table(self, functions: Mapping[TileShape, Label]) -> int:
        """Put the table into L2; return its address."""
        k, plan = self.k, self.plan
        at = -(-k.l2.next // 16) * 16
        words: list[int | Label] = []
        for number, step in enumerate(plan.steps):
            following = at + (number + 1) * plan.entry_size
            words += self._entry(number, step, functions, following)
        words += self._words(self.finish, 0, {}, [])
        return k.words("schedule", words)

    def _entry(
        self, number: int, step: Step, functions: Mapping[TileShape, Label], following: int
    ) -> list[int | Label]:
        successor = self.entries[(number + 1) % 2]
        commands = [command_words(True, successor, following, self.plan.entry_size)]
        for transfer in step.transfers:
            l1 = self.slots[transfer.name][transfer.slot]
            commands.append(transfer.copy.words(transfer.to_l1, l1, self.l2[transfer.name]))
        function = functions[step.shape] if step.shape else self.next
        return self._words(function, successor, step.slots, commands)

    def _words(
        self, function: Label, successor: int, slots: Mapping[str, int], commands: list[Any]
    ) -> list[int | Label]:
        plan = self.plan
        words: list[int | Label] = [function, successor]
        words += [self.slots[name][slots.get(name, 0)] for name in plan.moving]
        words.append(0)
        for issuer in range(plan.issuers):
            block = [word for command in commands[issuer :: plan.issuers] for word in command]
            words += [len(block), *block]
            words += [0] * (plan.block // WORD - 1 - len(block))
        return words + [0] * (plan.entry_size // WORD - len(words))
