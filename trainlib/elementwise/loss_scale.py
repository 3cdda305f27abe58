"""The scale of a loss, which grows until gradients are not finite any more.

Source: torch.amp.GradScaler, whose growth and backoff factors it has.
"""

from typing import Any

import numpy as np
from pydantic import Field, field_validator

from firmware.builder import EQ, LT, NE, Kernel, Register
from firmware.registers import ZERO
from firmware.runtime import Team
from trainlib.elementwise.elementwise import no_macs
from trainlib.primitive.arguments import TiledArguments
from trainlib.primitive.operator import Expected, Family
from trainlib.primitive.tensor import INT32, WORD, Address, Addresses, Arrays, Tensor, Tensors

EXPONENT = 23, 8  # of single precision: its first bit, and how many there are
LEAST, MOST = 1, 253  # exponents with which the scale and its inverse are normal numbers
INVERSE = 254  # the sum of both exponents
NOT_FINITE = 255


class ScaleArguments(TiledArguments):
    """growth, backoff    powers of two that the scale is multiplied by, see interval
    interval              steps in a row with finite gradients, after which it grows
    """

    growth: float = Field(2.0, gt=1, allow_inf_nan=False)
    backoff: float = Field(0.5, gt=0, lt=1)
    interval: int = Field(2000, ge=1, lt=1 << 31)

    @field_validator("growth", "backoff")
    @classmethod
    def _is_power(cls, value: float) -> float:
        if np.frexp(value)[0] != 0.5:
            raise ValueError("a power of two")
        return value


def change_scale_f32(
    k: Kernel,
    team: Team,
    total: Address,
    scale: Address,
    steps: Address,
    *,
    growth: float,
    backoff: float,
    interval: int,
) -> None:
    """Let a scale grow, or back off where a total is not finite.

    total    one number: the sum of all gradients, say
    scale    itself and its inverse, powers of two from 2^-126 to 2^126
    steps    those in a row with a finite total, whether this one has none, how many have had none
    """
    with team.only(0), k.scope():
        at, value, count, limit = k.x(4)
        k.set(at, total)
        k.lw(value, 0, at)
        _exponent(k, value, value)
        k.set(at, steps)
        k.lw(count, 0, at)
        k.li(limit, NOT_FINITE)
        with k.if_(NE, value, limit):
            k.sw(ZERO, WORD, at)
            k.addi(count, count, 1)
            k.sw(count, 0, at)
            k.li(limit, interval)
            with k.if_(EQ, count, limit):
                k.sw(ZERO, 0, at)
                _scaled(k, scale, growth)
        with k.else_():
            k.sw(ZERO, 0, at)
            k.li(limit, 1)
            k.sw(limit, WORD, at)
            k.lw(count, 2 * WORD, at)
            k.addi(count, count, 1)
            k.sw(count, 2 * WORD, at)
            _scaled(k, scale, backoff)


def _exponent(k: Kernel, rd: Register, rs1: Register) -> None:
    """The bits of a number's exponent."""
    k.slli(rd, rs1, 1)
    k.srli(rd, rd, EXPONENT[0] + 1)


def _scaled(k: Kernel, scale: Address, factor: float) -> None:
    """Multiply a scale, and divide its inverse, if both stay normal numbers."""
    with k.scope():
        at, value, inverse = k.x(3)
        power = int(np.log2(factor))
        k.set(at, scale)
        k.lw(value, 0, at)
        _exponent(k, value, value)
        k.addi(value, value, power)
        k.li(inverse, MOST + 1 if power > 0 else LEAST - 1)
        lower, higher = (value, inverse) if power > 0 else (inverse, value)
        with k.if_(LT, lower, higher):
            k.li(inverse, INVERSE)
            k.sub(inverse, inverse, value)
            for place, exponent in enumerate((value, inverse)):
                k.slli(exponent, exponent, EXPONENT[0])
                k.sw(exponent, WORD * place, at)


def _tensors(_: Any) -> Tensors:
    return {
        "total": Tensor((1,)),
        "scale": Tensor((2,), "inout"),
        "steps": Tensor((3,), "inout", INT32),
    }


def expected(point: Any, values: Arrays) -> dict[str, Expected]:
    """What becomes of the scale and of the numbers of steps."""
    (scale, _), (count, _, skipped) = values["scale"], values["steps"]
    is_finite = bool(np.isfinite(values["total"]).all())
    count = count + 1 if is_finite else 0
    factor = 1.0
    if not is_finite:
        factor = point.backoff
    elif count == point.interval:
        count, factor = 0, point.growth
    if 2.0**-126 <= scale * factor <= 2.0**126:
        scale = scale * factor
    steps = np.array([count, not is_finite, skipped + (not is_finite)])
    return {"scale": (np.array([scale, 1 / scale]), 0.0), "steps": (steps, 0.0)}


def _emit(k: Kernel, team: Team, point: Any, l1: Addresses) -> None:
    how = {name: getattr(point, name) for name in ("growth", "backoff", "interval")}
    change_scale_f32(k, team, l1["total"], l1["scale"], l1["steps"], **how)


def _draw(point: Any, numbers: np.random.Generator) -> Arrays:
    """Before the scale grows."""
    scale = np.float32(2.0) ** numbers.integers(-8, 8)
    steps = np.array([point.interval - 1, 1, 3], np.int32)
    return {"scale": np.array([scale, 1 / scale], np.float32), "steps": steps}


FAMILIES = (
    Family("change_scale_f32", ScaleArguments, _tensors, expected, no_macs, _emit, draw=_draw),
)
