"""A call of a primitive in a network."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainlib.calls.primitives import PRIMITIVES
from trainlib.primitive.operator import Family


@dataclass(frozen=True)
class Call:
    """A primitive in a network.

    region       what its cycles count for
    kernel       its name
    arguments    of the primitive
    operands     the network's tensors by the primitive's names
    """

    region: str
    kernel: str
    arguments: Mapping[str, Any]
    operands: Mapping[str, str]


def point_of(call: Call, cores: int | None) -> tuple[Family, Any]:
    """A call's primitive and its arguments."""
    family = PRIMITIVES[call.kernel]
    return family, family.arguments.model_validate({**call.arguments, "cores": cores})
