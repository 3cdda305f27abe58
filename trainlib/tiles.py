"""A primitive as a program that works through tiles: tensors in L2, a few buffers of each in L1.

The schedule is data: Python works out all steps and writes them into a table in L2, an entry each.
The code that walks it is short. In every step each core

    waits for the others: the tile before is computed, its buffers are free;
    starts its share of this step's copies: outputs of the tile before, inputs of the tile behind,
        and the next entry but one;
    waits for the others again, one of which waits for all copies of the step before;
    jumps to the function for this tile's shape, which jumps back.

So the DMA always has its next commands while it works. An entry: the function, the entry's
successor, the address of each buffer that is not always the same, a zero, then blocks of commands:
their number of words, and the words. Block i is for core cores - 1 - i: the last cores have the
least to compute. A port of the DMA takes its next command, or says who is done, only when its last
command has begun: so commands are spread over cores, and the one that waits for them has none.
"""

from collections.abc import Mapping
from typing import Any

from firmware.builder import LT, NE, Kernel, KernelError, Label, Register
from firmware.drivers import COMMAND, CONTROL, Dma, command_words
from firmware.registers import SP, ZERO, A, S
from firmware.runtime import EVENT_UNIT, Team
from trainlib.kernels import WORD, Address, Tensors
from trainlib.passes import passes
from trainlib.schedule import Step
from trainlib.tile_plan import ADDRESSES, FUNCTION, NEXT, RING, Plan
from trainlib.tiling import Sizes, TileShape, Tiling

FRAME = 16  # bytes of a core's stack
ENTRY, BLOCK, COUNTERS, WAITS = (WORD * slot for slot in range(4))
"""Its entry, its block's offset, the counters that it waits for, and 1 if it does."""


def emit_tiled(
    k: Kernel,
    team: Team,
    tiling: Tiling,
    tensors: Tensors,
    l2: Mapping[str, int],
    tile: Sizes,
    buffers: int,
    *,
    is_warm: bool = False,
) -> None:
    """Emit the body of the program; its region is compute, and dma_wait inside it.

    l2         addresses of tensors by name
    tile       sizes by dimension; what it leaves out is chosen
    buffers    1: copy, then compute; 2: both at once
    is_warm    do all of it twice, and measure the second time

    raises     KernelError if no tile or not this one fits L1, or the schedule does not fit L2; if
               is_warm and a tensor is overwritten whose values the second time needs
    """
    overwritten = [name for name, tensor in tensors.items() if tensor.role == "inout"]
    if is_warm and overwritten:
        raise KernelError(
            f"{k.name}: warm with {overwritten[0]} in L2, which is read and overwritten; leave "
            f"warm out, or take tensors that fit L1"
        )
    plan = Plan.of(k, team, tiling, tensors, tile, buffers)
    with passes(k, is_warm) as region, region("compute"):
        Walk(k, team, plan, l2).emit()
        team.barrier()


class Walk:
    """The code and the table of a plan."""

    def __init__(self, k: Kernel, team: Team, plan: Plan, l2: Mapping[str, int]) -> None:
        self.k, self.team, self.plan, self.l2 = k, team, plan, l2
        self.slots = {
            name: [k.buffer(k.l1, f"{name}_in_L1_{slot}", plan.sizes[name]) for slot in range(n)]
            for name, n in plan.slots.items()
        }
        self.scratch = {name: k.buffer(k.l1, name, size) for name, size in plan.scratch.items()}
        self.entries = k.buffer(k.l1, "entries", RING * plan.entry_size)
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
            counters = k.x()
            k.lw(counters, COUNTERS, SP)
            Dma(k).wait(counters)
        k.addi(SP, SP, FRAME)

    def _prepare(self, table: int) -> None:
        """Fill the core's frame, and load the first two entries."""
        k, plan = self.k, self.plan
        with k.scope():
            place, value, most = k.x(3)
            for slot in (COUNTERS, WAITS):
                k.sw(ZERO, slot, SP)
            k.li(value, self.entries)
            k.sw(value, ENTRY, SP)
            self.team.core(value)
            k.li(place, plan.cores - 1)
            k.sub(place, place, value)
            k.li(value, plan.first_block - WORD)
            k.li(most, plan.issuers)
            with k.if_(LT, place, most):
                k.li(value, plan.block)
                k.mul(value, value, place)
                k.addi(value, value, plan.first_block)
            k.sw(value, BLOCK, SP)
        with self.team.only(plan.waiter), k.scope():
            counter, dma = k.x(), Dma(k)
            k.li(counter, 1)
            k.sw(counter, WAITS, SP)
            dma.begin(counter)
            dma.to_l1(self.entries, table, 2 * plan.entry_size)
            dma.wait(counter)

    def _step(self) -> None:
        """Wait, start copies, wait, jump to the tile's function with the entry in a0."""
        k, entry = self.k, A[0]
        self.team.barrier()
        with k.scope():
            k.registers.hold(entry)
            block, words, value, counters = k.x(4)
            k.lw(entry, ENTRY, SP)
            k.lw(block, BLOCK, SP)
            k.lw(counters, COUNTERS, SP)
            k.add(block, block, entry)
            k.lw(value, NEXT, entry)
            k.lw(words, 0, block)
            k.sw(value, ENTRY, SP)
            with k.region("dma_wait"):
                if self.plan.cores == 1:
                    self._wait(counters)
                with k.if_(NE, words, ZERO):
                    self._start(block, words)
                if self.plan.cores > 1:
                    self._wait(counters)
            self.team.barrier()
            k.lw(value, FUNCTION, entry)
            self._note(entry, counters)
            k.jr(value)

    def _wait(self, counters: Register) -> None:
        with self.k.if_(NE, counters, ZERO):
            Dma(self.k).wait(counters)

    def _start(self, block: Register, words: Register) -> None:
        """Start the copies of a block under a fresh counter, and leave that in the block."""
        k = self.k
        with k.scope():
            base, value, counter = k.x(3)
            Dma(k).begin(counter)
            k.sw(counter, 0, block)
            k.addi(block, block, WORD)
            k.li(base, EVENT_UNIT)
            with k.hwloop(words):
                k.load_post(value, WORD, block)
                k.nop()  # the load's delay
                k.sw(value, CONTROL + COMMAND, base)
            k.nop()  # a label may not end a hardware loop

    def _note(self, entry: Register, counters: Register) -> None:
        """Keep the counters of all blocks for the core that waits for them."""
        k, plan = self.k, self.plan
        with k.scope():
            values = k.x(plan.issuers)
            k.lw(counters, WAITS, SP)
            with k.if_(NE, counters, ZERO):
                for issuer, value in enumerate(values):
                    k.lw(value, plan.first_block + issuer * plan.block, entry)
                k.mv(counters, values[0])
                for value in values[1:]:
                    k.or_(counters, counters, value)
                k.sw(counters, COUNTERS, SP)

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
        words += self._words(self.finish, self.entries, {}, [])
        return k.words("schedule", words)

    def _entry(
        self, number: int, step: Step, functions: Mapping[TileShape, Label], following: int
    ) -> list[int | Label]:
        size = self.plan.entry_size
        places = [self.entries + (number + ahead) % RING * size for ahead in range(RING)]
        commands = [command_words(True, places[2], following + size, size, to_all=True)]
        for transfer in step.transfers:
            l1 = self.slots[transfer.name][transfer.slot]
            commands.append(transfer.copy.words(transfer.to_l1, l1, self.l2[transfer.name], True))
        function = functions[step.shape] if step.shape else self.next
        return self._words(function, places[1], step.slots, commands)

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
