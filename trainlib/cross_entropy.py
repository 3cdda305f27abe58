"""Cross-entropy with its gradient: means or sums, classes by number or by weight.

The largest logit is taken off first; logarithms are added up last, all rows together.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from pydantic import Field as Setting
from pydantic import PositiveInt

from firmware.builder import Kernel, Register
from firmware.lanes import Lane, Lanes, constant
from firmware.runtime import Team
from trainlib import kernels
from trainlib.elementary import ExpOfNegative, Log
from trainlib.kernels import (
    INT32,
    WORD,
    Address,
    Addresses,
    Arrays,
    Expected,
    Family,
    Tensor,
    Tensors,
)
from trainlib.loss import ALL, Reduction, Share
from trainlib.maps import fitting, no_macs
from trainlib.nest import UNROLL, Load
from trainlib.reference import loss as reference
from trainlib.rows import PARTIALS, SCRATCH, Field, Rows, Split, split_of
from trainlib.tiled import tiled
from trainlib.tiling import Axis, Dim, TileShape


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
    entropy = _CrossEntropy(b, classes, share.scale(reduction, b), is_soft, share.adds)
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


def _of_class(k: Kernel, rows: Rows, name: str) -> Register:
    """The address of the element whose number t has, in a new register."""
    at, place = rows.address(name), rows.address("t")
    k.lw(place, 0, place)
    k.slli(place, place, 2)
    k.add(at, at, place)
    return at


def _larger(v: Lanes, most: Lane, x: Lane) -> None:
    v.fmax_s(most, most, x)


@dataclass(frozen=True)
class _CrossEntropy:
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
            [most] = rows.reduce(["x"], _larger, ["max"])
            if self.is_soft:
                self._soft(k, rows, exp, most)
            else:
                self._hard(k, team, rows, exp, most)

    def _powers(self, exp: ExpOfNegative, most: Register) -> Callable[..., list[Lane]]:
        def step(v: Lanes, total: Lane, x: Lane) -> list[Lane]:
            t, e = v.f(), v.f()
            v.fsub_s(x, x, most)
            exp.exp(v, x, t, e)
            v.fadd_s(total, total, e)
            return [e]

        return step

    def _hard(self, k: Kernel, team: Team, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        [total] = rows.reduce(["x"], self._powers(exp, most), ["sum"], targets=["dx"])
        with k.scope():
            value = k.f()
            k.fload(value, 0, _of_class(k, rows, "x"))
            k.fsub_s(most, most, value)
        for name, value in (("s", total), ("m", most), ("w", exp.one)):
            rows.store(name, value)
        scale = constant(k, self.scale)
        k.fdiv_s(total, scale, total)

        def weigh(v: Lanes, e: Lane) -> list[Lane]:
            v.fmul_s(e, e, total)
            return [e]

        rows.sweep(["dx"], ["dx"], weigh)
        if rows.by_columns:
            team.barrier()
        with team.only(0) if rows.by_columns else nullcontext(), k.scope():
            place, value = _of_class(k, rows, "dx"), k.f()
            k.fload(value, 0, place)
            k.fsub_s(value, value, scale)
            k.fstore(value, 0, place)

    def _soft(self, k: Kernel, rows: Rows, exp: ExpOfNegative, most: Register) -> None:
        def step(v: Lanes, below: Lane, weight: Lane, x: Lane, t: Lane) -> None:
            v.fsub_s(x, most, x)
            v.fadd_s(weight, weight, t)
            v.fmadd_s(below, x, t, below)

        below, weight = rows.reduce(["x", "t"], step, ["sum", "sum"])
        rows.store("m", below)
        rows.store("w", weight)
        k.free(below)
        [total] = rows.reduce(["x"], self._powers(exp, most), ["sum"], targets=["dx"])
        rows.store("s", total)
        scale = constant(k, self.scale)
        k.fmul_s(weight, weight, scale)
        k.fdiv_s(total, weight, total)

        def weigh(v: Lanes, e: Lane, t: Lane) -> list[Lane]:
            v.fmul_s(t, t, scale)
            v.fmsub_s(e, e, total, t)
            return [e]

        rows.sweep(["dx", "t"], ["dx"], weigh)

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


class CrossEntropyArguments(kernels.Arguments):
    """x[b, classes]; t[b], class numbers, or is_soft: t[b, classes], weights."""

    b: PositiveInt = 1
    classes: PositiveInt
    is_soft: bool = False
    reduction: Reduction = "mean"
    split: Split = "auto"
    unroll: int = Setting(UNROLL, ge=1, le=8)


def _cross_entropy_tensors(point: Any) -> Tensors:
    dims = point.b, point.classes
    numbers = Tensor((point.b,), dtype=INT32, below=point.classes, is_index=True)
    t = Tensor(dims) if point.is_soft else numbers
    scratch = {name: Tensor((point.b,), "scratch") for name in "smw"}
    return {
        "x": Tensor(dims),
        "t": t,
        "loss": Tensor((1,), "out"),
        "dx": Tensor(dims, "out"),
        **scratch,
        "partials": PARTIALS,
    }


def _cross_entropy_expected(point: Any, values: Arrays) -> dict[str, Expected]:
    scale = ALL.scale(point.reduction, point.b)
    loss, dx = reference.cross_entropy(values["x"], values["t"], scale, point.is_soft)
    return {"loss": loss, "dx": dx}


def _cross_entropy_emit(
    k: Kernel, team: Team, point: Any, l1: Addresses, share: Share = ALL
) -> None:
    addresses = (l1[name] for name in _cross_entropy_tensors(point))
    cross_entropy_loss_f32(
        *(k, team, *addresses, point.b, point.classes),
        is_soft=point.is_soft,
        reduction=point.reduction,
        share=share,
        split=point.split,
        unroll=point.unroll,
    )


def _cross_entropy_part(
    k: Kernel, team: Team, point: Any, part: Any, shape: TileShape, l1: Addresses
) -> None:
    _cross_entropy_emit(k, team, part, l1, Share(point.b, not shape.is_first))


def _cross_entropy_boxes(point: Any) -> dict[str, list[Axis]]:
    t: list[Axis] = ["b", None] if point.is_soft else ["b"]
    return {"x": ["b", None], "t": t, "loss": [None], "dx": ["b", None]}


CROSS_ENTROPY = tiled(
    Family(
        "cross_entropy_loss_f32",
        CrossEntropyArguments,
        _cross_entropy_tensors,
        _cross_entropy_expected,
        no_macs,
        _cross_entropy_emit,
    ),
    lambda point: [Dim("b", point.b, is_summed=True)],
    _cross_entropy_boxes,
    lambda _, shape: {"b": shape["b"]},
    lambda shape: SCRATCH | dict.fromkeys("smw", WORD * shape["b"]),
    _cross_entropy_part,
)

FAMILIES = (CROSS_ENTROPY,)
