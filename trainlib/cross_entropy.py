"""Cross-entropy with its gradient: means or sums, classes by number or by weight.

The largest logit is taken off first; logarithms are added up last, all rows together.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib.elementary import ExpOfNegative, Log
from trainlib.kernels import WORD, Address, Addresses
from trainlib.loss import ALL, Reduction, Share
from trainlib.maps import fitting
from trainlib.nest import UNROLL, Body, Load
from trainlib.rows import Field, Rows, Split, split_of
from trainlib.softmax import larger, powers, scaled


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

    def emit_rows(k: Kernel, team: Team, width: int) -> None:
        how = split_of(split, b, classes, 2, team.cores)
        with k.scope():
            entropy.emit_rows(k, team, at, how, width)

    def emit_loss(k: Kernel, team: Team, width: int) -> None:
        with k.scope():
            entropy.emit_loss(k, team, at, width)

    fitting(k, team, emit_rows, unroll)
    team.barrier()
    fitting(k, team, emit_loss, unroll)


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

    def emit_rows(self, k: Kernel, team: Team, at: Addresses, split: Split, width: int) -> None:
        """dx, and s, m and w of all rows."""
        row, one = (WORD * self.classes,), (WORD,)
        fields = {name: Field(at[name], row, one) for name in ("x", "dx")}
        fields["t"] = Field(at["t"], row, one) if self.is_soft else Field(at["t"], one, (0,))
        fields |= {name: Field(at[name], one, (0,)) for name in "smw"}
        rows = Rows(
            k, team, (self.b,), (self.classes,), fields, at["partials"], split, unroll=width
        )
        exp = ExpOfNegative(k, constant(k, 1.0), is_thrifty=self.is_soft)
        with rows.each(), k.scope():
            [most] = rows.reduce(["x"], larger, ["max"])
            if self.is_soft:
                self._soft(k, rows, exp, most)
            else:
                self._hard(k, team, rows, exp, most)

    def _hard(self, k: Kernel, team: Team, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
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
            team.barrier()
        with team.only(0) if rows.by_columns else nullcontext(), k.scope():
            place, value = of_class(k, rows, "dx"), k.f()
            k.fload(value, 0, place)
            k.fsub_s(value, value, scale)
            k.fstore(value, 0, place)

    def _soft(self, k: Kernel, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        below, weight = rows.reduce(["x", "t"], weights_of(most), ["sum", "sum"])
        rows.store("m", below)
        rows.store("w", weight)
        k.free(below)
        [total] = rows.reduce(["x"], powers(exp, most), ["sum"], targets=["dx"])
        rows.store("s", total)
        scale = constant(k, self.scale)
        rows.sweep(["dx", "t"], ["dx"], weighed(k, scale, weight, total))

    def emit_loss(self, k: Kernel, team: Team, at: Addresses, width: int) -> None:
        """loss = scale (sum of w log s + m)."""
        fields = {name: Field(at[name], (0,), (WORD,)) for name in "smw"}
        fields["loss"] = Field(at["loss"], (0,), (0,))
        rows = Rows(k, team, (1,), (self.b,), fields, at["partials"], "columns", unroll=width)
        log = Log(k)

        def step(v: Lanes, total: Lane, s: Lane, load_m: Load, load_w: Load) -> None:
            log(v, s)
            other = v.f()
            load_w(other)
            v.fmadd_s(total, s, other, total)
            load_m(other)
            v.fadd_s(total, total, other)

        with rows.each(), k.scope():
            [total] = rows.reduce(["s", "m", "w"], step, ["sum"], late=(1, 2))
            k.fmul_s(total, total, constant(k, self.scale))
            (rows.add if self.adds else rows.store)("loss", total)
