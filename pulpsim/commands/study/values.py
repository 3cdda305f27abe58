"""Types of the values that studies sweep."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field

Value = TypeVar("Value")


def _check_some(values: tuple) -> tuple:
    if not values:
        raise ValueError("must have at least one value")
    return values


def _check_power(least: int, most: int) -> AfterValidator:
    def check(value: int) -> int:
        if value & (value - 1) or not least <= value <= most:
            raise ValueError(f"must be powers of two from {least} to {most}")
        return value

    return AfterValidator(check)


Some = Annotated[tuple[Value, ...], AfterValidator(_check_some)]
Cores = Annotated[int, Field(ge=1, le=16)]
Banks = Annotated[int, _check_power(1, 64)]
Burst = Annotated[int, _check_power(16, 2048)]
Words = Annotated[int, Field(ge=0, le=64)]
Stride = Annotated[int, Field(ge=1, le=64)]
Rate = Annotated[float, Field(ge=0, le=1)]
PositiveRate = Annotated[float, Field(gt=0, le=1)]
Size = Annotated[int, Field(ge=8, le=16384, multiple_of=8)]
