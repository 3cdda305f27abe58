"""The registry: what a config's [program] can name, with its arguments, tensors and meaning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel

from firmware.builder import Kernel
from soc.spec import SocSpec

Shapes = dict[str, tuple[int, ...]]
Expected = tuple[np.ndarray, np.ndarray]  # float64 values, largest errors


@dataclass(frozen=True)
class Family:
    """A kernel: all its shapes and points are arguments.

    arguments    model of [program.args]
    inputs       shapes of what it reads, by name
    outputs      shapes of what it writes, by name
    reference    inputs -> outputs, exact, each with the largest error that is correct
    macs         multiply-adds
    emit         emit the whole program, given L2 addresses of inputs and outputs by name
    """

    name: str
    arguments: type[BaseModel]
    inputs: Callable[[Any], Shapes]
    outputs: Callable[[Any], Shapes]
    reference: Callable[[Mapping[str, np.ndarray]], dict[str, Expected]]
    macs: Callable[[Any], int]
    emit: Callable[[Kernel, SocSpec, Any, Mapping[str, int]], None]
