"""A primitive as a program that works through tiles: tensors in L2, a few buffers of each in L1.

The schedule is data: Python works out all steps and writes them into a table in L2, an entry each.
The code that walks it is short. In every step

    one core waits for the copies of the step before, then all meet: the tile before is computed,
        its buffers are free, this step's tile is there;
    cores start their shares of this step's copies: outputs of the tile before, inputs of the tile
        after, and the next entry but one;
    all jump to the function for this tile's shape, which jumps back.

An entry: the function, the entry's successor, the address of each buffer that is not always the
same, what to compute of a tile whose size the table says, the end of the function's code if that is
new, a zero, a word for each block of commands, its length and where in the entry it starts, and the
blocks, one after the other; a core that has started its block leaves 0 for its word. Block i is for
core cores - 1 - i: the last cores have the least to compute. Entries are as long as what they hold:
a table takes L2, and the DMA's time.

A port of the DMA takes its next command, or says who is done, only when its last command has begun:
so commands are spread over cores, and the one that waits for them has none. Code starts the first
step's copies itself, if they are few. Where copying is what takes longest, cores start copies
before they wait for the last ones, and no step follows the one with the last copies. If it always
does, all of a short table is there before the first tile, and of a long one cores fetch entries
themselves; and they begin to compute one after the other: those that begin at once meet each other
and the DMA in every bank. Where cores can do all of it by themselves, they do, without steps: see
trainlib.tiling.per_core_loop.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from firmware.builder import Kernel, KernelError, Label, Register
from firmware.code import Code
from firmware.drivers import LONGEST, command_words
from firmware.fetch_ahead import can_fetch
from firmware.registers import A, S
from firmware.runtime import Team
from trainlib.primitive.slices import TileShape
from trainlib.primitive.tensor import WORD, Address, Tensor, Tensors
from trainlib.primitive.tile_spec import EACH, Sizes, Tiling
from trainlib.tiling.line_loop import LineWalk
from trainlib.tiling.line_schedule import lines_of_cores
from trainlib.tiling.per_core_loop import AloneWalk
from trainlib.tiling.per_core_schedule import share_of
from trainlib.tiling.plan import ADDRESSES, Plan
from trainlib.tiling.records import Far, Operand, Relatives, bases_of
from trainlib.tiling.schedule import Step, Transfer
from trainlib.tiling.step_code import Steps
from trainlib.tiling.streaming_step_code import Ahead, Streaming
from trainlib.tiling.tile_size import PRICE
from trainlib.tiling.warm_up import passes

AT_ONCE = 1400
"""Bytes of functions that are fetched at once: with steps, about what is fetched at most."""


def emit_tiled(
    k: Kernel,
    team: Team,
    tiling: Tiling,
    tensors: Tensors,
    l2: Mapping[str, Far],
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
    if is_warm:
        check_repeatable(k, tensors)
    with passes(k, team, is_warm) as region, region("compute"):
        emit_walk(k, team, tiling, tensors, l2, tile, buffers, is_cold=not is_warm)


def check_repeatable(k: Kernel, tensors: Tensors) -> None:
    """Raise KernelError if a second time would not begin with the same values."""
    overwritten = [name for name, tensor in tensors.items() if tensor.role == "inout"]
    if overwritten:
        raise KernelError(
            f"{k.name}: warm with {overwritten[0]} in L2, which is read and overwritten; leave "
            f"warm out, or take tensors that fit L1"
        )


def emit_walk(
    k: Kernel,
    team: Team,
    tiling: Tiling,
    tensors: Tensors,
    l2: Mapping[str, Far],
    tile: Sizes,
    buffers: int,
    kept: int = 0,
    *,
    is_cold: bool = True,
) -> None:
    """Emit what works through the tiles, and a barrier; see emit_tiled.

    kept       bytes of L2 that are for others, if possible
    is_cold    is its code in no cache?
    """
    if share := share_of(k, team, tiling, tensors, tile, buffers):
        AloneWalk(k, team, share, l2, is_cold=is_cold).emit()
        return
    if lines := lines_of_cores(k, team, tiling, tensors, tile, buffers):
        LineWalk(k, team, lines, l2, is_cold=is_cold).emit()
        return
    plan = plan_of(k, team, tiling, tensors, l2, tile, buffers, kept, is_cold=is_cold)
    Walk(k, team, plan, tensors, l2, is_cold=is_cold).emit()


def plan_of(
    k: Kernel,
    team: Team,
    tiling: Tiling,
    tensors: Tensors,
    l2: Mapping[str, Far],
    tile: Sizes,
    buffers: int,
    kept: int = 0,
    *,
    is_cold: bool = True,
) -> Plan:
    """The plan by which emit_walk works through tiles that all cores share."""
    price = 0 if bases_of(l2.values()) is None else PRICE  # of a function: one of many
    is_new = is_cold and not price and can_fetch(k, team)
    return Plan.of(k, team, tiling, tensors, tile, buffers, kept, price, is_new)


class Walk:
    """The code and the table of a plan."""

    def __init__(
        self,
        k: Kernel,
        team: Team,
        plan: Plan,
        tensors: Tensors,
        l2: Mapping[str, Far],
        *,
        is_cold: bool = True,
    ) -> None:
        self.k, self.team, self.plan, self.l2, self.is_cold = k, team, plan, l2, is_cold
        self.slots = {
            name: [
                self._buffer(f"{name}_in_L1_{slot}", plan.sizes[name], tensors[name])
                for slot in range(n)
            ]
            for name, n in plan.slots.items()
        }
        self.scratch = {name: k.buffer(k.l1, name, size) for name, size in plan.scratch.items()}
        self.entries = k.buffer(k.l1, "entries", plan.ring * plan.entry_size)
        self.bases = bases_of(l2.values())
        self.lengths: set[int] = set()  # words of the commands in the table
        self.next, self.finish = k.label("next_step"), k.label("last_step")
        self.untold: dict[Label, Label] = {}  # ends of functions that no entry has told

    def _buffer(self, name: str, size: int, tensor: Tensor) -> int:
        """Take a buffer in L1 that begins in the tensor's bank."""
        address = self.k.buffer(self.k.l1, name, size + tensor.slack)
        if tensor.padding:
            self.k.name_part(f"{tensor.padding}{name}", address, size + tensor.slack)
        return address + (WORD * (tensor.bank or 0) - address) % (tensor.slack or 1)

    def emit(self) -> None:
        """Emit all of it; at its end all cores are there."""
        k, plan = self.k, self.plan
        functions = {s: k.label(f"tile_{i}") for i, s in enumerate(plan.shapes)}
        steps = Ahead if plan.is_ahead else Steps
        steps = Streaming if plan.tiling.streams else steps
        ends = {label: k.label() for label in (*functions.values(), self.finish)}
        code = self._aside(ends) if plan.has_code else Code()
        first, *others = ends
        fetched = None
        if code.size > AT_ONCE:
            self.untold = {label: ends[label] for label in others}
            fetched = ends[first], ends[self.finish]
        table = self._table(functions)
        opening = [self._command(transfer) for transfer in plan.opening]
        places, labels = (self.entries, table), (self.next, self.finish)
        how = opening, self._relatives, self.is_cold, fetched
        with steps(k, self.team, plan, places, labels, *how).around():
            if plan.has_code:
                k.code.items += code.items
            else:
                self._functions(ends)

    def _aside(self, ends: Mapping[Label, Label]) -> Code:
        """The functions, as short as they are after steps."""
        k = self.k
        before, k.code = k.code, Code()
        with k.compressing():
            self._functions(ends)
        code, k.code = k.code, before
        return code

    def _functions(self, ends: Mapping[Label, Label]) -> None:
        """Emit the code for tiles of all shapes, each function with its end."""
        for (label, end), shape in zip(ends.items(), self.plan.shapes, strict=False):
            self._function(label, shape)
            self.k.place(end)

    def _command(self, transfer: Transfer) -> list[Any]:
        l1 = self.slots[transfer.name][transfer.slot]
        return transfer.copy.words(transfer.to_l1, l1, self.l2[transfer.name], True)

    def _function(self, label: Label, shape: TileShape) -> None:
        """Emit the code for tiles of a shape; it takes from the entry which buffers they have."""
        k, plan = self.k, self.plan
        with k.routine(label):
            k.registers.hold(A[0])
            addresses: dict[str, Address] = dict(self.scratch)
            registers: Iterator[Register] = iter(reversed(S))
            for name, slots in self.slots.items():
                if name in plan.moving:
                    register = next(registers)
                    k.registers.hold(register)
                    k.lw(register, ADDRESSES + WORD * plan.moving.index(name), A[0])
                    addresses[name] = register
                else:
                    addresses[name] = slots[0]
            if shape.is_grown:
                register = next(registers)
                k.registers.hold(register)
                k.lw(register, plan.each, A[0])
                addresses[EACH] = register
            k.free(A[0])
            plan.tiling.emit(k, self.team, shape, addresses)
            k.j(self.next)

    def _table(self, functions: Mapping[TileShape, Label]) -> int:
        """Put the table into L2; return its address."""
        k, plan = self.k, self.plan
        at = -(-k.l2.next // 16) * 16
        places = list(accumulate(plan.lengths, initial=at))
        words: list[int | Label] = []
        for number, step in enumerate(plan.walked):
            words += self._entry(number, step, functions, places)
            words += [0] * ((places[number + 1] - at) // WORD - len(words))
        if plan.entries > len(plan.walked):
            words += self._words(self.finish, self.entries, Step(), [])
        return k.words("schedule", words)

    def _entry(
        self, number: int, step: Step, functions: Mapping[TileShape, Label], places: Sequence[int]
    ) -> list[int | Label]:
        """The words of an entry; places: of all entries in L2.

        NOTE: a port takes a core's second command when the first one has left the DMA's queue, and
        until then the core waits. So where cores have two, the short ones are the first, unless it
        is the copies that take longest: these begin with both directions.
        """
        plan = self.plan
        successor, fetched = (
            self.entries + (number + ahead) % plan.ring * plan.entry_size for ahead in (1, 2)
        )
        commands = [self._command(transfer) for transfer in step.transfers]
        if number + 2 < plan.entries and not plan.tiling.streams:
            size = plan.lengths[number + 2]
            fetch = command_words(True, fetched, places[number + 2], size, to_all=True)
            commands.insert(0, fetch)
        if len(commands) > plan.issuers and not plan.is_ahead:
            commands.sort(key=lambda words: words[0] & LONGEST)
        is_last = number + 1 == plan.entries
        function = self.finish if is_last else self.next
        if step.shape:
            function = functions[step.shape]
        return self._words(function, successor, step, commands)

    def _words(
        self, function: Label, successor: int, step: Step, commands: list[Any]
    ) -> list[int | Label]:
        plan = self.plan
        words: list[int | Label] = [function, successor]
        words += [self.slots[name][step.slots.get(name, 0)] for name in plan.moving]
        if plan.grows:
            words.append(step.each or 0)
        blocks = [commands[issuer :: plan.issuers] for issuer in range(plan.issuers)]
        if plan.has_code:
            words.append(self.untold.pop(function, 0))
        counts, stored = [], list[int]()
        for block in blocks:
            counts.append(self._count(block, plan.first_block + WORD * len(stored)))
            stored += [word for command in block for word in self._relative(command)]
        return [*words, 0, *counts, *stored]

    @property
    def _relatives(self) -> Relatives | None:
        return None if self.bases is None else Relatives(self.bases, frozenset(self.lengths))

    def _count(self, block: list[list[Any]], start: int) -> int:
        """What an entry says of a block: in the lower half how many commands it has if they are
        relative, else how many words, in the upper half where it starts; 0 if it has none.

        raises    KernelError if a half cannot say it
        """
        length = len(block) if self.bases is not None else sum(map(len, block))
        if max(start, length) >= 1 << 16:
            raise KernelError(
                f"{self.k.name}: commands {start} bytes after the start of an entry, where less "
                f"than {1 << 16} can be told; take smaller tiles"
            )
        return start << 16 | length if block else 0

    def _relative(self, command: list[Any]) -> list[int]:
        """A command as a table has it: its L2 address relative to a base, if there are any."""
        if self.bases is None:
            return command
        self.lengths.add(len(command))
        to, l1, l2, *lines = command
        place = l2 if isinstance(l2, Operand) else Operand(self.bases, l2 - self.k.l2.base)
        return [to, l1, place.word, *lines]
