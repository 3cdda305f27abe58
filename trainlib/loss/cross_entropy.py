"""Cross-entropy with its gradient: means or sums, classes by number or by weight.

The largest logit is taken off first; logarithms are added up last, all rows together.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.loops.nest import UNROLL, Body, Load
from trainlib.loss.elements import ALL, Reduction, Share
from trainlib.maps.elementary import ExpOfNegative, Log
from trainlib.primitive.tensor import WORD, Address, Addresses
from trainlib.rows.softmax import larger, powers, scaled
from trainlib.rows.sweep import Field, Rows, Split
from trainlib.rows.view import View, line_of


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
    split: Split = "auto",
    unroll: int = UNROLL,
) -> None:
    """loss = mean over b rows of -log softmax(x)[t], and its gradient dx.

    t          class numbers, 0 .. classes - 1, as integers; is_soft: weights of all classes
    s, m, w    scratch, b words each
    """
    entropy = CrossEntropy(b, classes, share.scale(reduction, b), is_soft, share.adds)
    at = {"x": x, "t": t, "dx": dx, "loss": loss, "partials": partials, "s": s, "m": m, "w": w}

    entropy.emit_rows(k, team, at, split, unroll)
    team.barrier()
    entropy.emit_loss(k, team, at, unroll)


def of_class(k: Kernel, rows: Rows, name: str) -> Register:
    """The address of the element whose number t has, in a new register."""
    at, place = rows.address(name), rows.address("t")
    k.lw(place, 0, place)
    k.slli(place, place, 2)
    k.add(at, at, place)
    return at


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
    """For each row: s = sum of e^(x - max), m = sum of t (max - x), w = sum of t; w log s + m."""

    b: int
    classes: int
    scale: float
    is_soft: bool
    adds: bool

    def emit_rows(self, k: Kernel, team: Team, at: Addresses, split: Split, unroll: int) -> None:
        """dx, and s, m and w of all rows."""
        row, one = (WORD * self.classes,), (WORD,)
        fields = {name: Field(at[name], row, one) for name in ("x", "dx")}
        fields["t"] = Field(at["t"], row, one) if self.is_soft else Field(at["t"], one, (0,))
        fields |= {name: Field(at[name], one, (0,)) for name in "smw"}

        def work(rows: Rows) -> None:
            exp = ExpOfNegative(rows.k, constant(rows.k, 1.0), is_thrifty=self.is_soft)
            with rows.each():
                [most] = rows.reduce(["x"], larger, ["max"])
                (self._soft if self.is_soft else self._hard)(rows, exp, most)

        view = View((self.b,), (self.classes,), fields, at["partials"], split, unroll)
        view.emit(k, team, work, reductions=2)

    def _hard(self, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        k = rows.k
        [total] = rows.reduce(["x"], powers(exp, most), ["sum"], targets=["dx"])
        with k.scope():
            value = k.f()
            k.fload(value, 0, of_class(k, rows, "x"))
            k.fsub_s(most, most, value)
        for name, value in (("s", total), ("m", most), ("w", exp.one)):
            rows.store(name, value)
        scale = constant(k, self.scale)
        k.fdiv_s(total, scale, total)
        rows.sweep(["dx"], ["dx"], scaled(total))
        if rows.by_columns:
            rows.team.barrier()
        with rows.team.only(0) if rows.by_columns else nullcontext(), k.scope():
            place, value = of_class(k, rows, "dx"), k.f()
            k.fload(value, 0, place)
            k.fsub_s(value, value, scale)
            k.fstore(value, 0, place)

    def _soft(self, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        below, weight = rows.reduce(["x", "t"], weights_of(most), ["sum", "sum"])
        rows.store("m", below)
        rows.store("w", weight)
        rows.k.free(below)
        [total] = rows.reduce(["x"], powers(exp, most), ["sum"], targets=["dx"])
        rows.store("s", total)
        scale = constant(rows.k, self.scale)
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
                [total] = rows.reduce(["s", "m", "w"], step, ["sum"], late=(1, 2))
                rows.k.fmul_s(total, total, constant(rows.k, self.scale))
                (rows.add if self.adds else rows.store)("loss", total)

        sums, loss = {name: at[name] for name in "smw"}, {"loss": at["loss"]}
        line_of(sums, loss, self.b, at["partials"], unroll).emit(k, team, work)
