"""Config files and options of a run, and all that can be wrong with them."""

import re
from pathlib import Path

import numpy as np
import pytest

from pulpsim.cli.output import STANDARD_OUTPUT
from pulpsim.cli.run_config import Options, PreparedRun, load_run
from soc.chip.spec import load_chip
from soc.config.toml import ConfigError
from trainlib.launch import KernelProgram

WHOLE = """
chip = "pulp"
[program]
elf = "hello.elf"
[run]
engine = "event"
max_cycles = 100_000_000
[report]
json = "run.json"
"""

KERNEL = """
[program]
kernel = "matmul_f32"
[program.args]
n = 8
k = 8
m = 8
"""


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str, name: str = "run.toml") -> Path:
        file = tmp_path / name
        file.write_text(text)
        return file

    return write


def mistakes(file: Path | None, options: Options | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_run(file, options or Options())
    return [
        line.replace(str(file), "FILE").replace(str(file and file.parent), "FOLDER")
        for line in caught.value.mistakes
    ]


def test_a_config_file_says_it_all_with_paths_relative_to_it(written) -> None:
    file = written(WHOLE)
    assert load_run(file, Options()) == PreparedRun(
        program=file.parent / "hello.elf",
        chip=load_chip("pulp"),
        engine="event",
        max_cycles=100_000_000,
        json=file.parent / "run.json",
    )


def test_options_override_the_file_with_paths_relative_to_the_caller(written) -> None:
    options = Options(
        engine="compiled", elf=Path("a.elf"), settings=["cores=4"], json=Path("-"), max_cycles=5
    )
    assert load_run(written(WHOLE), options) == PreparedRun(
        program=Path("a.elf"),
        chip=load_chip("pulp", {"cores": 4}),
        engine="compiled",
        max_cycles=5,
        json=STANDARD_OUTPUT,
    )


def test_an_elf_alone_runs_on_the_default_chip() -> None:
    assert load_run(None, Options(elf=Path("a.elf"))) == PreparedRun(
        Path("a.elf"), load_chip("pulp"), "compiled", None, None
    )


def test_a_chip_table_is_a_chip_file_in_place(written) -> None:
    assert load_run(
        written('[program]\nelf = "a.elf"\n[chip]\nbase = "pulp"\ncores = 2'), Options()
    ).chip == load_chip("pulp", {"cores": 2})


def test_a_chip_option_replaces_the_base_and_keeps_the_fields(written) -> None:
    other = written("cores = 4\ndescription = 'other'", "other.toml")
    run = written('[program]\nelf = "a.elf"\n[chip]\ncores = 2')
    chip = load_run(run, Options(chip=str(other))).chip
    assert (chip.name, chip.description, chip.cores) == ("other", "other", 2)
    chip = load_run(run, Options(chip=str(other), settings=["cores=3", "cores=1"])).chip
    assert chip.cores == 1


def test_a_chip_file_lies_relative_to_the_config(written) -> None:
    written("cores = 4", "other.toml")
    run = written('chip = "./other.toml"\n[program]\nelf = "a.elf"')
    assert load_run(run, Options()).chip.cores == 4


def test_all_mistakes_of_file_chip_and_options_come_at_once(written) -> None:
    file = written(
        """
        [program]
        elv = "hello.elf"
        [chip]
        cores = 0
        [run]
        engine = "fast"
        [reports]
        """
    )
    options = Options(max_cycles=0, settings=["core.dividr=pulp", "cores"])
    assert mistakes(file, options) == [
        "--set cores: must be path.to.field=value, such as l1.banks=32",
        "FILE: chip.cores = 0: must be greater than or equal to 1 (cores)",
        '--set: core.dividr = "pulp": no such field; did you mean core.divider?',
        'FILE: program.elv = "hello.elf": no such field; did you mean program.elf?',
        "FILE: run.engine = \"fast\": must be 'compiled' or 'event'",
        "--max-cycles: run.max_cycles = 0: must be greater than or equal to 1",
        "FILE: reports: no such field; did you mean report?",
    ]


def test_a_kernel_is_built_for_the_chip(written) -> None:
    run = load_run(written(KERNEL), Options(settings=["cores=4"]))
    assert isinstance(run.program, KernelProgram)
    assert (run.program.family.name, run.program.outputs["C"][1].shape) == ("matmul_f32", (8, 8))
    assert run.program.program != load_run(written(KERNEL), Options()).program.program


def test_a_kernels_inputs_are_in_a_file_beside_it(written, tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", A=np.full((8, 8), 2.0), B=np.ones((8, 8)))
    file = written(KERNEL.replace('"\n', '"\ninputs = "v.npz"\n', 1))
    run = load_run(file, Options())
    assert isinstance(run.program, KernelProgram)
    assert (run.program.inputs["A"] == 2).all()
    np.savez(tmp_path / "v.npz", A=np.ones((8, 8)))
    assert mistakes(file) == [
        "FILE: program.inputs = v.npz: matmul_f32: B is missing; the arguments say (8, 8)"
    ]


def test_an_elf_option_replaces_a_kernel(written) -> None:
    assert load_run(written(KERNEL), Options(elf=Path("a.elf"))).program == Path("a.elf")


def test_mistakes_of_a_kernels_arguments_come_with_those_of_the_chip(written) -> None:
    file = written(KERNEL.replace("n = 8", "n = 0\nrow = 4") + "[chip]\ncores = 0")
    assert mistakes(file) == [
        "FILE: chip.cores = 0: must be greater than or equal to 1 (cores)",
        "FILE: program.args.n = 0: must be greater than or equal to 1",
        "FILE: program.args.row = 4: no such field; did you mean program.args.rows?",
    ]


def test_mistakes_of_other_tables_do_not_hide_those_of_a_kernels_arguments(written) -> None:
    file = written(KERNEL.replace("n = 8", "n = 0") + "[run]\nengin = 'event'")
    assert mistakes(file) == [
        'FILE: run.engin = "event": no such field; did you mean run.engine?',
        "FILE: program.args.n = 0: must be greater than or equal to 1",
    ]
    file = written("[program]\nkernel = 3\nargs = {n = 0}")
    assert mistakes(file) == ["FILE: program.kernel = 3: must be a valid string"]
    assert mistakes(written("program = 3")) == ["FILE: program = 3: must be a table"]


def test_a_kernel_and_its_arguments_may_be_options(written) -> None:
    options = Options(kernel="matmul_f32", arguments=["n=4", "k=3", "m=2", "tile={n=2}"])
    program = load_run(None, options).program
    assert isinstance(program, KernelProgram)
    assert program.inputs["A"].shape == (4, 3)
    assert program.arguments.tile == {"n": 2}
    changed = load_run(written(KERNEL), Options(arguments=["n=16"])).program
    assert isinstance(changed, KernelProgram)
    assert changed.inputs["A"].shape == (16, 8)


def test_mistakes_of_options_are_told_with_those_of_a_kernel(written) -> None:
    options = Options(settings=["program.args.n=4"], arguments=["=3", "k=0"])
    assert mistakes(written(KERNEL), options) == [
        '--arg =3: must be NAME=VALUE, such as "n=64"',
        "--set program.args.n=4: changes the chip; --arg NAME=VALUE is for a kernel",
        "FILE: program.args.k = 0: must be greater than or equal to 1",
    ]
    assert mistakes(None, Options(arguments=["n=4"])) == [
        "pulpsim run: program: args belong to a kernel; name it with program.kernel"
    ]


@pytest.mark.parametrize(
    ("program", "mistake"),
    [
        (
            "kernel = 'matmul_f32'\nelf = 'a.elf'",
            "FILE: program: elf and kernel exclude each other; leave one out",
        ),
        (
            "args = {n = 8}",
            "FILE: program: args belong to a kernel; name it with program.kernel",
        ),
        (
            "inputs = 'a.npz'",
            "FILE: program: inputs belong to a kernel; name it with program.kernel",
        ),
        (
            "kernel = 'matmul_f32'\ninputs = 'a.npz'\nargs = {n = 1, k = 1, m = 1}",
            "FILE: program: FOLDER/a.npz: cannot be read: No such file or directory",
        ),
        ("kernel = 'matmul'", "FILE: kernel 'matmul': no such kernel; did you mean matmul_f32?"),
        (
            "kernel = 'matmul_f32'\nargs = {n = 1000, k = 1000, m = 1000}",
            "FILE: program: matmul_f32: L2: A of 4000000 bytes does not fit: .*",
        ),
    ],
)
def test_a_program_that_cannot_be_is_refused(written, program: str, mistake: str) -> None:
    (line,) = mistakes(written(f"[program]\n{program}"))
    assert line == mistake or re.fullmatch(mistake, line)


@pytest.mark.parametrize(
    ("kernel", "arguments", "given"),
    [
        ("matmul_f32", (), "--kernel"),
        (None, ("n=64",), "--arg"),
        ("matmul_f32", ("n=64",), "--kernel and --arg"),
    ],
)
def test_an_elf_file_and_a_kernel_on_one_command_line_are_refused(
    written, kernel: str | None, arguments: tuple[str, ...], given: str
) -> None:
    options = Options(elf=Path("a.elf"), kernel=kernel, arguments=arguments, max_cycles=0)
    assert mistakes(written(""), options) == [
        f"--elf and {given} exclude each other; leave one out",
        "--max-cycles: run.max_cycles = 0: must be greater than or equal to 1",
    ]


def test_a_run_without_a_program_is_refused(written) -> None:
    no_program = (
        "no program: give --elf FILE, --kernel NAME, or a config with program.elf or .kernel"
    )
    assert mistakes(written("")) == [f"FILE: {no_program}"]
    assert mistakes(None) == [f"pulpsim run: {no_program}"]


@pytest.mark.parametrize("chip", ["chip = 3", "chip = ['pulp']", "[chip]\nbase = 3"])
def test_a_chip_that_is_neither_name_nor_table_is_refused(written, chip: str) -> None:
    file = written(f"{chip}\n[program]\nelf = 'a.elf'" if chip[0] == "c" else chip)
    assert "FILE: chip: must be the name or the path of a chip" in mistakes(file)


def test_an_unknown_chip_is_met_with_the_nearest_one(written) -> None:
    assert mistakes(None, Options(chip="plup", elf=Path("a.elf"))) == [
        "chip 'plup': no such chip; did you mean pulp? The path of a chip file ends in .toml"
    ]


def test_paths_that_no_file_can_have_are_refused(written) -> None:
    assert mistakes(written('program.elf = ""\nreport.json = "a\\u0000b"')) == [
        'FILE: program.elf = "": must be the path of a file',
        'FILE: report.json = "a\\u0000b": must be the path of a file',
    ]


def test_a_missing_or_malformed_config_is_refused(written, tmp_path: Path) -> None:
    assert mistakes(written('chip = "pulp"\n[chip]\ncores = 4')) == [
        "FILE:2: malformed TOML: a key is set twice, or also a table (column 6)"
    ]
    assert mistakes(tmp_path / "absent.toml") == ["FILE: cannot be read: No such file or directory"]
