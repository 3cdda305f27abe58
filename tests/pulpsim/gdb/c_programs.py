"""Programs in C for GDB's tests, compiled as firmware/c says."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SDK, HERE = ROOT / "firmware" / "c", Path(__file__).parent / "c"
GCC, GDB = "riscv64-unknown-elf-gcc", "gdb-multiarch"
TARGET = ("-march=rv32imf_zicsr", "-mabi=ilp32f", "-ffreestanding", "-nostdlib", "-Wall", "-Werror")

needs_compiler = pytest.mark.skipif(
    not shutil.which(GCC), reason="gcc-riscv64-unknown-elf is not installed"
)
needs_gdb = pytest.mark.skipif(not shutil.which(GDB), reason="gdb-multiarch is not installed")


def compiled(name: str, folder: Path, *options: str) -> Path:
    """The program of a source file here, with debugging information."""
    elf = folder / f"{name}.elf"
    sources = (SDK / "crt0.S", SDK / "pulp.c", HERE / f"{name}.c")
    script = (f"-T{SDK / 'link.ld'}", "-Wl,--no-warn-rwx-segments")
    command = (GCC, *TARGET, "-g", f"-I{SDK}", *script, *options, *sources, "-lgcc", "-o", elf)
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return elf


def line_of(name: str, text: str) -> int:
    """The number of the line of a source file that has this text, counted from 1."""
    lines = (HERE / f"{name}.c").read_text().splitlines()
    [number] = [k for k, line in enumerate(lines, 1) if text in line]
    return number
