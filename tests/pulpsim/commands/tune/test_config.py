"""What can be tuned, and what a search is told that cannot."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pulpsim.commands import app as cli
from pulpsim.commands.tune.config import Options, load_tuning
from soc.config.toml import ConfigError


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "",
            r"{file}: give one layer as program.kernel or --kernel, or several as \[\[layers\]\]",
        ),
        (
            '[program]\nelf = "a.elf"\nargs.n = 4\n[zz]',
            r"{file}: program.elf = \"a.elf\": no such field; program has args, count, kernel\n"
            r"{file}: zz: no such field; this table has chip, layers, program, report, run, trace, "
            r"tune",
        ),
        (
            "[program]\nargs.n = 4",
            r"{file}: program: args belong to a kernel; name it with program.kernel",
        ),
        (
            '[tune]\npolicy = "best"\n[program]\nkernel = "relu_fw_f32"\nargs.shape = [4]',
            r"{file}: tune.policy = \"best\": must be 'guided', 'exhaustive' or 'paper'",
        ),
        (
            '[program]\nkernel = "linear_fw_f32"\nargs.inputs = 4',
            r"{file}: linear_fw_f32: outputs: missing",
        ),
        (
            '[program]\nkernel = "linear_fw_f32"\nargs = {inputs = 4, outputs = 4}\n'
            "[tune]\ncores = [9]",
            r"{file}: tune.cores: 9; the chip pulp has 1 to 8",
        ),
        (
            '[[layers]]\nname = "a"\nkernel = "relu_fw_f32"\nargs.shape = [4]\n' * 2,
            r"{file}: layers: there are two of the name a",
        ),
        (
            '[[layers]]\nname = "a"\nkernel = "relu_fw_f32"\ncount = 0\n[[layers]]\nname = "b"',
            r"{file}: layers\[0\].count = 0: must be greater than or equal to 1\n"
            r"{file}: layers\[1\].kernel: missing",
        ),
        (
            'layers = ["a"]',
            r"{file}: layers\[0\].kernel: missing\n{file}: layers\[0\].name: missing",
        ),
        (
            '[[layers]]\nname = "a"\nkernel = "relu_fw_f32"\nstep = ["fw"]',
            r"{file}: layers\[0\].step = \(.fw.,\): no such field; "
            r"did you mean layers\[0\].steps\?",
        ),
        (
            '[program]\nkernel = "conv2d_fw_f32"\n'
            "args = {inputs = 1, outputs = 1, height = 200, width = 200, kernel = [150, 150]}",
            r"{file}: conv2d_fw_f32: the smallest tile of n = 1, y = 1, x = 1, co = 1, ci = 1 "
            r"needs 180016 bytes of L1 with buffers = 1, 57344 are free; none fits",
        ),
    ],
)
def test_what_cannot_be_tuned_is_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=f"^{message.replace('{file}', re.escape(str(file)))}$"):
        load_tuning(file, Options())


def test_what_a_config_says_to_run_it_is_left_to_the_run(tmp_path: Path) -> None:
    file = tmp_path / "layer.toml"
    file.write_text(
        'chip = { base = "pulp", l1.banks = 32 }\n'
        '[program]\nkernel = "relu_fw_f32"\nargs.shape = [4]\n'
        '[run]\nengine = "event"\n[report]\njson = "a.json"\n[trace]\nfile = "a.trace"\n'
    )
    (space,) = load_tuning(file, Options()).spaces.values()
    assert (space.layer.kernel, space.chip.l1.banks) == ("relu_fw_f32", 32)


def test_a_bad_argument_of_the_command_line_is_told() -> None:
    with pytest.raises(
        ConfigError,
        match=r'^--arg inputs: must be NAME=VALUE, such as "inputs=640"\n'
        r"--set x: must be path.to.field=value, such as l1.banks=32\n"
        r"--policy: tune.policy = \"best\": must be 'guided', 'exhaustive' or 'paper'$",
    ):
        load_tuning(None, Options("linear_fw_f32", ["inputs"], settings=["x"], policy="best"))


def test_what_the_command_line_alone_says_is_told_as_such() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^command line: linear_fw_f32: outputs: missing\n"
        r"command line: linear_fw_f32: input = 4: no such field; did you mean inputs\?$",
    ):
        load_tuning(None, Options("linear_fw_f32", ["inputs=4", "input=4"]))


@pytest.mark.parametrize("command", ["tune", "footprint"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--set", "l1.size=4096"],
            "chip pulp: l1.size 4096 and l2.size 2097152 leave no room after 8192 bytes of stacks "
            "in L1 and 131072 bytes of code in L2",
        ),
        (
            ["--chip", "ri5cy-rtl"],
            "chip ri5cy-rtl: the chip ri5cy-rtl is a test bench without PULP's peripherals",
        ),
        (["--chip", "plup"], "chip 'plup': no such chip; did you mean pulp? The path of a chip "
                             "file ends in .toml"),
    ],
)  # fmt: skip
def test_a_chip_that_takes_no_programs_is_told_once(
    command: str, options: list[str], message: str
) -> None:
    result = pulpsim(command, "dscnn", *options)
    assert (result.exit_code, plain(result.stderr)) == (2, f"pulpsim: {message}\n")


def test_an_unknown_network_and_a_bad_database_are_told(network: Path) -> None:
    missing = pulpsim("tune", network.parent / "no.toml")
    assert (missing.exit_code, plain(missing.stderr)) == (
        2,
        f"pulpsim: {network.parent}/no.toml: cannot be read: No such file or directory\n",
    )
    bad = pulpsim("tune", network, "--database", network)
    assert (bad.exit_code, plain(bad.stderr)) == (
        2,
        f"pulpsim: {network}: not a database of measurements; give another file\n",
    )
