"""pulpsim build: a config's kernel as an ELF file."""

from pathlib import Path

from isa.program import Program
from pulpsim.cli.output import check_writable, write
from pulpsim.cli.output_place import beside
from pulpsim.cli.run_config import Options, load_run
from soc.config.toml import ConfigError


def build(file: Path, output: Path | None, options: Options) -> Path:
    """Write the program of a config's kernel, CONF.toml to CONF.elf unless told; return its path.

    raises    ConfigError
    """
    output = output or beside(file, ".elf")
    check_writable("-o", output, file)
    program = load_run(file, options).program
    if isinstance(program, Path | Program):
        raise ConfigError([f"{file}: has an ELF already; build takes a config with program.kernel"])
    write("-o", output, program.program.to_elf())
    return output
