"""Cross-entropy with its gradient: means or sums, classes by number or by weight.

The largest logit is taken off first; logarithms are added up last, all rows together.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.codegen.loop_nest import UNROLL, Body, Load
from trainlib.elementwise.approximations import ExpOfNegative, Log
from trainlib.loss.elementwise import ALL, Reduction, Share
from trainlib.primitive.element import F32, Element, load, store_rounded
from trainlib.primitive.tensor import WORD, Address, Addresses
from trainlib.reduction.row_reduction import LONG_OF_PRODUCTS, Field, Rows, Split
from trainlib.reduction.row_view import View, line_of
from trainlib.reduction.softmax import powers, scaled


def cross_entropy_loss_f32(
    k: Kernel,
    team: Team,
    x: Address,
    t: Address,
    loss: Address,
    dx: Address,
    s: Address,
    m: Address,
    w: Address,
    partials: Address,
    b: int,
    classes: int,
    *,
    is_soft: bool = False,
    reduction: Reduction = "mean",
    share: Share = ALL,
    element: Element = F32,
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """loss = mean over b rows of -log softmax(x)[t], and its gradient dx.

    t          class numbers, 0 .. classes - 1, as integers; is_soft: weights of all classes
    s, m, w    scratch, b words each
    element    type of x, dx and weights; the loss is single precision
    """
    entropy = CrossEntropy(b, classes, share.scale(reduction, b), is_soft, share.adds, element)
    at = {"x": x, "t": t, "dx": dx, "loss": loss, "partials": partials, "s": s, "m": m, "w": w}

    entropy.emit_rows(k, team, at, split, unroll)
    team.barrier()
    entropy.emit_loss(k, team, at, unroll)


def of_class(k: Kernel, rows: Rows, name: str) -> Register:
    """The address of the element whose number t has, in a new register."""
    at, place = rows.address(name), rows.address("t")
    k.lw(place, 0, place)
    k.slli(place, place, rows.fields[name].element.size.bit_length() - 1)
    k.add(at, at, place)
    return at


def load_element(k: Kernel, element: Element, value: Register, at: Register) -> None:
    """Load one of any type."""
    load(k, element.size, value, 0, at)
    element.widen(k, [value])


def added_powers(exp: ExpOfNegative, most: Register) -> Callable[..., None]:
    """powers, which go nowhere."""
    step = powers(exp, most)

    def add(v: Lanes, total: Lane, x: Lane) -> None:
        step(v, total, x)

    return add


def powers_times(exp: ExpOfNegative, most: Register, factor: Register) -> Body:
    """e^(x - most) times a factor."""

    def body(v: Lanes, x: Lane) -> list[Lane]:
        t, e = v.f(), v.f()
        v.fsub_s(x, x, most)
        exp.exp(v, x, t, e)
        v.fmul_s(e, e, factor)
        return [e]

    return body


def weighed_powers(
    k: Kernel,
    exp: ExpOfNegative,
    most: Register,
    scale: Register,
    weight: Register,
    total: Register,
) -> Body:
    """dx from x and weights: weighed, of powers that are computed again."""
    made = weighed(k, scale, weight, total)

    def body(v: Lanes, x: Lane, load_t: Load) -> Sequence[Lane]:
        t, e = v.f(), v.f()
        v.fsub_s(x, x, most)
        exp.exp(v, x, t, e)
        load_t(t)
        return made(v, e, t)

    return body


def store_of_class(
    k: Kernel,
    exp: ExpOfNegative,
    element: Element,
    x: Register,
    dx: Register,
    most: Register,
    factors: tuple[Register, Register],
) -> None:
    """dx of a row's class, given addresses: e^(x - most) times a factor, less the scale."""
    factor, scale = factors
    with k.scope():
        value, t, power = k.f(3)
        load_element(k, element, value, x)
        k.fsub_s(value, value, most)
        exp.exp(Lanes(k, 1), [value], [t], [power])
        k.fmsub_s(power, power, factor, scale)
        store_rounded(k, element, power, 0, dx)


def weights_of(most: Register) -> Callable[..., None]:
    """A step of two sums: of t (max - x), and of t."""

    def step(v: Lanes, below: Lane, weight: Lane, x: Lane, t: Lane) -> None:
        v.fsub_s(x, most, x)
        v.fadd_s(weight, weight, t)
        v.fmadd_s(below, x, t, below)

    return step


def weighed(k: Kernel, scale: Register, weight: Register, total: Register) -> Body:
    """dx from powers and weights, given sums of both, which change."""
    k.fmul_s(weight, weight, scale)
    k.fdiv_s(total, weight, total)

    def body(v: Lanes, e: Lane, t: Lane) -> list[Lane]:
        v.fmul_s(t, t, scale)
        v.fmsub_s(e, e, total, t)
        return [e]

    return body


@dataclass(frozen=True)
class CrossEntropy:
    """For each row: s = sum of e^(x - max), m = sum of t (max - x), w = sum of t; w log s + m.

    Halves have no room for powers that are rounded once more: dx computes them again.
    """

    b: int
    classes: int
    scale: float
    is_soft: bool
    adds: bool
    element: Element = F32

    def emit_rows(self, k: Kernel, team: Team, at: Addresses, split: Split, unroll: int) -> None:
        """dx, and s, m and w of all rows."""
        element, one = self.element, (WORD,)
        row = (element.size * self.classes,), (element.size,)
        wide = ("x", "dx", "t") if self.is_soft else ("x", "dx")
        fields = {name: Field(at[name], *row, element) for name in wide}
        fields.setdefault("t", Field(at["t"], one, (0,)))
        fields |= {name: Field(at[name], one, (0,)) for name in "smw"}

        def work(rows: Rows) -> None:
            exp = ExpOfNegative(rows.k, constant(rows.k, 1.0), is_thrifty=self.is_soft)
            with rows.each():
                most = rows.largest("x")
                (self._soft if self.is_soft else self._hard)(rows, exp, most)

        view = View((self.b,), (self.classes,), fields, at["partials"], split, unroll)
        view.emit(k, team, work, reductions=2)

    def _hard(self, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        k = rows.k
        again = self.element.is_half
        total = self._total(rows, exp, most)
        value = k.f()
        with k.scope():
            load_element(k, self.element, value, of_class(k, rows, "x"))
        away = value if again else most
        k.fsub_s(away, most, value)
        if not again:
            k.free(value)
        for name, register in (("s", total), ("m", away), ("w", exp.one)):
            rows.store(name, register)
        if again:
            k.free(value)
        scale = constant(k, self.scale)
        k.fdiv_s(total, scale, total)
        made = powers_times(exp, most, total) if again else scaled(total)
        rows.sweep(["x" if again else "dx"], ["dx"], made)
        if rows.by_columns:
            rows.team.barrier()
        with rows.team.only(0) if rows.by_columns else nullcontext(), k.scope():
            place = of_class(k, rows, "dx")
            if again:
                x = of_class(k, rows, "x")
                store_of_class(k, exp, self.element, x, place, most, (total, scale))
            else:
                value = k.f()
                k.fload(value, 0, place)
                k.fsub_s(value, value, scale)
                k.fstore(value, 0, place)

    def _total(self, rows: Rows, exp: ExpOfNegative, most: Register) -> Register:
        """The sum of powers, which are in dx unless they are to be computed again."""
        if self.element.is_half:
            return rows.total(["x"], added_powers(exp, most), longest=LONG_OF_PRODUCTS)
        return rows.total(["x"], powers(exp, most), targets=["dx"], longest=LONG_OF_PRODUCTS)

    def _soft(self, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        below, weight = rows.totals(["x", "t"], weights_of(most), 2, longest=LONG_OF_PRODUCTS)
        rows.store("m", below)
        rows.store("w", weight)
        rows.k.free(below)
        total = self._total(rows, exp, most)
        rows.store("s", total)
        scale = constant(rows.k, self.scale)
        if self.element.is_half:
            made = weighed_powers(rows.k, exp, most, scale, weight, total)
            rows.sweep(["x", "t"], ["dx"], made, late=(1,))
        else:
            rows.sweep(["dx", "t"], ["dx"], weighed(rows.k, scale, weight, total))

    def emit_loss(self, k: Kernel, team: Team, at: Addresses, unroll: int) -> None:
        """loss = scale (sum of w log s + m)."""

        def work(rows: Rows) -> None:
            log = Log(rows.k)

            def step(v: Lanes, total: Lane, s: Lane, load_m: Load, load_w: Load) -> None:
                log(v, s)
                other = v.f()
                load_w(other)
                v.fmadd_s(total, s, other, total)
                load_m(other)
                v.fadd_s(total, total, other)

            with rows.each():
                total = rows.total(["s", "m", "w"], step, late=(1, 2))
                rows.k.fmul_s(total, total, constant(rows.k, self.scale))
                (rows.add if self.adds else rows.store)("loss", total)

        sums, loss = {name: at[name] for name in "smw"}, {"loss": at["loss"]}
        line_of(sums, loss, self.b, at["partials"], unroll).emit(k, team, work)
