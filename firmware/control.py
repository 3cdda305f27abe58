"""Control flow of code under construction: loops, hardware loops, conditions, functions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from firmware.code import Code, Item, Label
from firmware.forms import WORD, Forms
from firmware.hwloop import MOST, OpenLoop, check
from firmware.registers import RA, SP, ZERO, A, KernelError, Register, Registers
from isa.declare import Isa

BRANCH_REACH = 4000  # bytes, less than the 4096 of its immediate: what an else_ adds comes later
SETUP_REACH = {"last": 15, "after": 30}  # instructions of a body that lp.setupi, cv.setupi reach


class Condition(NamedTuple):
    """A comparison of two x registers: branches taken if it holds, and if it does not."""

    holds: str
    fails: str


EQ, NE = Condition("beq", "bne"), Condition("bne", "beq")
LT, GE = Condition("blt", "bge"), Condition("bge", "blt")
LTU, GEU = Condition("bltu", "bgeu"), Condition("bgeu", "bltu")


class Control(Forms):
    """Blocks of code, as `with` statements."""

    def __init__(self, isa: Isa, name: str) -> None:
        super().__init__(isa, name)
        self._functions: list[Code] = []
        self._loops: list[OpenLoop] = []
        self._epilogue: Label | None = None  # of the function that is being emitted
        self._calls = False  # does it call others?

    @contextmanager
    def loop(self, count: Register | int, step: int = 1) -> Iterator[None]:
        """Repeat the body while count, less step each time, is above zero; at least once.

        A register is counted down in place, a number in a register taken for it.

        raises    KernelError if a number or the step is not positive
        """
        if step < 1 or isinstance(count, int) and count < 1:
            raise KernelError(f"loop: count {count}, step {step}; both are at least 1")
        if isinstance(count, int) and count <= step:
            yield
            return
        counter = self.x() if isinstance(count, int) else count
        if isinstance(count, int):
            self.li(counter, count)
        top = self.here()
        yield
        self.addi(counter, counter, -step)
        self.code.items += self._branch(LT, ZERO, counter, top, self.code.size_since(top))
        if isinstance(count, int):
            self.free(counter)

    @contextmanager
    def hwloop(
        self, count: Register | int, before: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Repeat the body without overhead; at least once. Two may be nested.

        before    emits what runs between the loop's setup and its body, and may jump into that: its
                  end is reached `count` times, wherever the first round begins

        raises    KernelError if the core cannot have this loop
        """
        if isinstance(count, int) and not 1 <= count <= MOST:
            raise KernelError(
                f"hwloop: count {count}; a number is from 1 to {MOST}, a register any"
            )
        if before and self.isa.loop_end == "after":
            raise KernelError(
                "hwloop: CV32E40P enters a loop at its start only; leave `before` out"
            )
        place = self.here() if before else None
        if before:
            before()
        loop = OpenLoop(self.here())
        self._loops.append(loop)
        yield
        self._loops.pop()
        check(loop, self.code, self.isa.loop_end == "after")
        self._insert_setup(loop, count, place)
        if self._loops:
            outer = self._loops[-1]
            outer.inner, outer.depth = self.code.items[-1], max(outer.depth, loop.depth + 1)

    def _insert_setup(
        self, loop: OpenLoop, count: Register | int, before: Label | None = None
    ) -> None:
        """Insert a hardware loop's set-up before its body or at a label, and a label at its end."""
        items, ends_last = self.code.items, self.isa.loop_end == "last"
        end = self.label()
        end.is_placed = True
        items.insert(len(items) - ends_last, end)
        number, body = loop.depth, len(self.code.after(loop.start))
        if isinstance(count, Register) and not before:
            setup = [self.made(("lp_setup", "cv_setup"), L=number, rs1=count, uimmL=end)]
        elif body <= SETUP_REACH[self.isa.loop_end] and not before:
            setup = [self.made(("lp_setupi", "cv_setupi"), L=number, uimmL=count, uimmS=end)]
        else:
            setup = [
                self.made(("lp_starti", "cv_starti"), L=number, uimmL=loop.start),
                self.made(("lp_endi", "cv_endi"), L=number, uimmL=end),
                self.made(("lp_count", "cv_count"), L=number, rs1=count)
                if isinstance(count, Register)
                else self.made(("lp_counti", "cv_counti"), L=number, uimmL=count),
            ]
        place = items.index(before or loop.start)
        items[place:place] = setup

    @contextmanager
    def if_(self, condition: Condition, rs1: Register, rs2: Register) -> Iterator[None]:
        """Run the body if the condition holds: `with k.if_(LT, a, b):`, then maybe `k.else_()`."""
        skip = self.label()
        skip.kind = "skip"
        body = self.here()
        yield
        items, size = self.code.items, self.code.size_since(body)
        fails = Condition(condition.fails, condition.holds)
        place = items.index(body)
        items[place:place] = self._branch(fails, rs1, rs2, skip, size)
        self.place(skip)

    def _branch(
        self, condition: Condition, rs1: Register, rs2: Register, target: Label, size: int
    ) -> list[Item]:
        """Return a branch over `size` bytes; out of its reach, the inverse branch around a jump."""
        if size < BRANCH_REACH:
            return [self.made((condition.holds,), rs1=rs1, rs2=rs2, imm=target)]
        around = self.label()
        around.is_placed = True
        return [
            self.made((condition.fails,), rs1=rs1, rs2=rs2, imm=around),
            self.made(("jal",), rd=ZERO, imm=target),
            around,
        ]

    @contextmanager
    def else_(self) -> Iterator[None]:
        """Run the body if the condition of the if_ right before did not hold.

        raises    KernelError if there is none
        """
        items = self.code.items
        skip = items[-1] if items else None
        if not isinstance(skip, Label) or skip.kind != "skip":
            raise KernelError("else_: no if_ ends right before it")
        end = self.label()
        items.pop()
        self.j(end)
        self.append(skip)
        yield
        self.place(end)

    # Functions

    @contextmanager
    def function(self, name: str, arguments: int = 0) -> Iterator[Label]:
        """Emit a function, out of the way of the code around it; `as` its label.

        Its arguments are in a0, a1, ... until they are freed. It restores the saved registers that
        its body takes, and ra if it calls; it returns at its end and at return_().
        """
        with self.aside(name) as label:
            epilogue = self._epilogue = self.label()
            self.registers.hold(*A[:arguments])
            yield label
            body, used = self.code, self.registers.used | ({RA} if self._calls else set())
            saved = sorted((r for r in used if r.is_saved), key=lambda r: (r.file, r.number))
            self.code = Code()
            self.place(label)
            self._save(saved)
            self.code.items += body.items
            self.place(epilogue)
            self._restore(saved)
            self.ret()

    @contextmanager
    def routine(self, label: Label) -> Iterator[None]:
        """Emit code that is jumped to right here, after a jump.

        All registers are free in it, and none is restored. It ends with a jump.
        """
        outer, label.kind = self.registers, "function"
        self.registers = Registers()
        self.place(label)
        yield
        self.registers = outer

    @contextmanager
    def aside(self, name: str) -> Iterator[Label]:
        """Let the body be emitted after all other code; `as` its label, to place in it.

        All registers are free in it, and none is restored.
        """
        outer = self.code, self.registers, self._loops, self._epilogue, self._calls
        label = self.label(name)
        label.kind = "function"
        self.code, self.registers, self._loops = Code(), Registers(), []
        self._epilogue, self._calls = None, False
        yield label
        self._functions.append(self.code)
        self.code, self.registers, self._loops, self._epilogue, self._calls = outer

    def return_(self) -> None:
        """Return from the function.

        raises    KernelError outside of one
        """
        if self._epilogue is None:
            raise KernelError("return_: not in a function")
        self.j(self._epilogue)

    def call(self, function: Label, *arguments: Register | int) -> None:
        """Call a function with arguments in a0, a1, ...; its result is in a0.

        Temporary registers do not survive a call, except that the arguments may be in some.

        raises    KernelError if a temporary or ra is live, with more than 8 arguments, or inside
                  a hardware loop
        """
        if len(arguments) > len(A):
            raise KernelError(
                f"call of {function.name}: {len(arguments)} arguments; registers carry {len(A)}"
            )
        if self._loops:
            raise KernelError(f"call of {function.name}: its loops would end the hardware loop")
        live = self.registers.live - set(arguments)
        lost = sorted(r.name for r in live if r == RA or not r.is_saved)
        if lost:
            raise KernelError(
                f"call of {function.name}: {', '.join(lost)} would be lost; take what survives "
                f"calls from saved(), free the rest"
            )
        self._calls = True
        for target, argument in zip(A, arguments, strict=False):  # A may be longer
            if isinstance(argument, int):
                self.li(target, argument)
            elif argument in A and A.index(argument) < A.index(target):
                raise KernelError(f"call of {function.name}: {argument} is overwritten too early")
            elif argument != target:
                self.mv(target, argument)
        self.jal(RA, function)

    def _save(self, saved: list[Register]) -> None:
        if saved:
            self.addi(SP, SP, -_frame(saved))
        for slot, register in enumerate(saved):
            (self.sw if register.file == "x" else self.fsw)(register, WORD * slot, SP)

    def _restore(self, saved: list[Register]) -> None:
        for slot, register in enumerate(saved):
            (self.lw if register.file == "x" else self.flw)(register, WORD * slot, SP)
        if saved:
            self.addi(SP, SP, _frame(saved))


def _frame(saved: list[Register]) -> int:
    """Return the bytes of a stack frame: a multiple of 16."""
    return -(-WORD * len(saved) // 16) * 16
