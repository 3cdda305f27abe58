"""Compiles a generated module in a process of its own: python -m soc.build_interpreter FOLDER NAME

The module's source lies in the folder; its entries come as JSON on standard input. What compiling
needs (memory, Numba's state of half a thousand functions) ends with the process.
"""

import json
import sys
from itertools import count
from pathlib import Path

import numba
from numba.core.bytecode import FunctionIdentity

from isa import hostfloat
from soc.chip_types import CHIP_TYPE
from soc.interpreter import load_generated


def main() -> None:
    folder, name = sys.argv[1:]
    # Symbols end in a running number; those of two modules in one process must not be the same.
    FunctionIdentity._unique_ids = count(int(name[:12], 16))
    hostfloat.register()
    module = load_generated(Path(folder), name)
    for entry, arguments in json.load(sys.stdin).items():
        types = (getattr(numba, argument) for argument in arguments)
        getattr(module, entry).compile((CHIP_TYPE, *types))


if __name__ == "__main__":
    main()
