"""Kernels to try, and what they leave when they are run without time."""

import pytest

from firmware.arena import Arena
from firmware.builder import Kernel, KernelError
from firmware.runtime import exit_
from isa.extensions.profiles import profile
from tests.firmware.machine import Machine

PROFILES = (("ri5cy", "x"), ("ri5cy", "f"), ("cv32e40p", "x"), ("cv32e40p", "f"))


def new_kernel(core: str = "ri5cy", registers: str = "x") -> Kernel:
    """An empty kernel with all of both memories."""
    l1, l2 = Arena("L1", 0x10000000, 0xE000), Arena("L2", 0x1C020000, 0x1E0000)
    return Kernel(profile(core, registers), l1, l2, name="test")


def returned(k: Kernel, value) -> int:
    """Run what is emitted so far on one hart; return what the register then holds, 31 bits."""
    exit_(k, value)
    return Machine(k.build(), k.isa).run().code


def words(k: Kernel) -> list[int]:
    """The words of a kernel's code, all of 32 bits."""
    text = k.build().segments[0].data
    return [int.from_bytes(text[i : i + 4], "little") for i in range(0, len(text), 4)]


def refusal(function, *arguments, **named) -> str:
    """The KernelError that a call raises, as text."""
    with pytest.raises(KernelError) as caught:
        function(*arguments, **named)
    return str(caught.value)
