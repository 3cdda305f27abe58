"""pulpsim asm, dis and isa: source to ELF, ELF to text, and the pages of instructions."""

import re
from collections import defaultdict
from itertools import product
from pathlib import Path
from textwrap import fill

from isa.assembler.asm import assemble_file, listing
from isa.declare import Insn
from isa.elf.attributes import extensions
from isa.extensions.docs import find, page, search
from isa.extensions.profiles import CORES, profile
from isa.program import Program
from pulpsim.cli.output import check_writable, write
from pulpsim.cli.output_place import beside
from pulpsim.cli.terminal import WIDTH
from soc.chip.spec import chip_names, load_chip
from soc.config.toml import ConfigError

MOST = 8  # names that a message suggests
FLOAT_REGISTER = re.compile(r"\bf(?:[ast]?\d{1,2})\b")


def assemble(source: Path, output: Path | None, core: str | None, floats: str | None) -> Path:
    """Assemble a source into an ELF file, FILE.s into FILE.elf unless told; return its path.

    Floats live in f registers if the source names one, unless told.
    raises    AsmError, ConfigError
    """
    output = output or beside(source, ".elf")
    check_writable("-o", output, source)
    if floats is None and source.is_file():
        text = source.read_text("utf-8", "replace")
        floats = "f" if FLOAT_REGISTER.search(text) else "x"
    program = assemble_file(source, profile(_core(core), _floats(floats), True))
    write("-o", output, program.to_elf())
    return output


def disassembly(elf: Path, core: str | None, floats: str | None) -> str:
    """The listing of a program, for the core and registers that its attributes name, unless told.

    raises    ElfError, ConfigError
    """
    program = Program.from_elf(elf)
    names = extensions(program.architecture or "")
    if core is None and any(name.startswith(("xcv", "xcorev")) for name in names):
        core = "cv32e40p"
    return listing(program, profile(_core(core), _floats(floats or program.float_registers), True))


def instruction_pages(name: str) -> str:
    """The reference pages of all instructions of a name. Raises ConfigError if there are none."""
    found = find(name)
    if found:
        return "\n\n".join(f"{page(insn)}Chips        {_chips_with(insn)}" for insn in found)
    near = search(name)
    more = f", or {len(near) - MOST} more" if len(near) > MOST else ""
    known = f"did you mean {', '.join(near[:MOST])}{more}?"
    way_out = known if near else "`pulpsim isa` lists them all"
    raise ConfigError([f"isa {name}: no such instruction; {way_out}"])


def _chips_with(insn: Insn) -> str:
    chips = []
    for name in chip_names():
        core = load_chip(name).core
        floats = "fx" if core.float_registers == "auto" else core.float_registers
        isas = [core.instructions(registers) for registers in floats]
        if any(insn.key in isa and isa[insn.key].encoding == insn.encoding for isa in isas):
            chips.append(name)
    return ", ".join(chips) or "none; set core.dot_products = true"


def all_mnemonics() -> str:
    """Every mnemonic, by extension."""
    extension_mnemonics: dict[str, dict[str, None]] = defaultdict(dict)
    for core, floats in product(CORES, "fx"):
        isa = profile(core, floats, True)
        for insn in (*isa.insns, *isa.compressed):
            extension_mnemonics[insn.extension][insn.name] = None
    return "\n".join(
        f"{extension}\n{fill(' '.join(names), WIDTH, initial_indent='  ', subsequent_indent='  ')}"
        for extension, names in extension_mnemonics.items()
    )


def _core(core: str | None) -> str:
    if core not in (None, *CORES):
        raise ConfigError([f"--core {core}: must be {' or '.join(CORES)}"])
    return core or "ri5cy"


def _floats(floats: str | None) -> str:
    if floats not in (None, "f", "x"):
        raise ConfigError([f"--float-registers {floats}: must be f or x"])
    return floats or "x"
