"""The files that people hand in: samples of each format, how one is damaged, and who reads it."""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from tests.fuzz.damage import damaged_bytes, damaged_text, json_text, toml_text
from tests.isa.fuzz import asm_seeds, elf_seeds, mutate_asm, mutate_elf

ROOT = Path(__file__).parents[2]
CYCLES = ["--max-cycles", "10000", "--quiet"]
PRODUCT = {"kernel": "matmul_f32", "args": {"n": 8, "k": 4, "m": 8}}

Command = list[str] | Callable[[], object]
Case = tuple[Path, Command]
"""A damaged file, and what reads it: a command line, or a function."""


class Format:
    """A format of files.

    name        of it
    count       files of the whole campaign
    is_usage    are they command lines? What is said then need not name the file
    """

    name: ClassVar[str]
    count: ClassVar[int]
    is_usage: ClassVar[bool] = False

    @staticmethod
    def make_samples(folder: Path) -> None:
        """Write what takes a simulation to make."""

    def prepare(self, samples: Path) -> None:
        """Read what is to be damaged, in the process that does it."""
        raise NotImplementedError

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        """Write a damaged file into a folder."""
        raise NotImplementedError


def made(format: Format, folder: Path, number: int, seed: int) -> Case:
    """The case of a number."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)  # for what is nested deeply; who reads it has the usual limit
    try:
        return format.case(folder, number, random.Random(f"{format.name} {seed} {number}"))
    finally:
        sys.setrecursionlimit(limit)


def written(file: Path, data: bytes) -> Path:
    """The file, with these contents."""
    file.write_bytes(data)
    return file


class Elf(Format):
    name, count = "elf", 10_000

    def prepare(self, samples: Path) -> None:
        self.seeds = elf_seeds()

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        data = rng.choice(self.seeds)
        damaged = mutate_elf(data, rng) if number % 4 else damaged_bytes(data, rng)
        file = written(folder / "damaged.elf", damaged)
        run = ["run", "--elf", str(file), *CYCLES]
        return file, ["dis", str(file)] if number % 10 == 9 else run


class Asm(Format):
    name, count = "asm", 2_000

    def prepare(self, samples: Path) -> None:
        self.seeds = asm_seeds()

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        data = rng.choice(self.seeds)
        damaged = mutate_asm(data, rng) if number % 4 else damaged_bytes(data, rng)
        file = written(folder / "damaged.s", damaged)
        return file, ["asm", str(file)]


class Toml(Format):
    """Files of TOML that commands take, each with the commands that take it."""

    samples: ClassVar[list[tuple[dict[str, Any], list[str]]]]

    def prepare(self, samples: Path) -> None:
        self.elf = assemble(
            (ROOT / "examples" / "hello.s").read_text(), profile("ri5cy"), text_base=0x1C010000
        ).to_elf()

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        table, readers = self.samples[number % len(self.samples)]
        file = written(folder / "damaged.toml", damaged_text(table, toml_text, rng))
        program = written(folder / "hello.elf", self.elf)
        reader = readers[number // len(self.samples) % len(readers)]
        return file, self.command(reader, file, program)

    def command(self, reader: str, file: Path, program: Path) -> Command:
        name = str(file)
        if reader == "tune":
            from pulpsim.commands.tune.config import Options, load_tuning

            return lambda: load_tuning(file, Options(database=Path("tuned.db")))
        if reader == "study":
            from pulpsim.commands.study.config import Options as StudyOptions
            from pulpsim.commands.study.config import load_plan

            return lambda: load_plan(name, StudyOptions(database=Path("studies.db")))
        commands = {
            "run": ["run", name, *CYCLES],
            "build": ["build", name, "-o", "built.elf"],
            "footprint": ["footprint", name],
            "chips": ["chips", name],
            "chip": ["run", "--elf", str(program), "--chip", name, *CYCLES],
        }
        return commands[reader]


class Config(Toml):
    name, count = "config", 3_000
    samples: ClassVar = [
        (
            {
                "chip": {"base": "pulp", "cores": 4, "l1": {"banks": 8}},
                "program": PRODUCT,
                "run": {"engine": "compiled", "max_cycles": 5000},
                "report": {"json": "run.json"},
            },
            ["run", "build"],
        ),
        (
            {
                "chip": "pulp",
                "program": {"elf": "hello.elf"},
                "run": {"engine": "compiled", "max_cycles": 5000},
                "trace": {
                    "file": "run.trace",
                    "limit": 1000,
                    "filters": ["kind=issue,stall", "hart=0-3", "cycle=10-500", "region=0"],
                },
            },
            ["run"],
        ),
        (
            {
                "program": {
                    "kernel": "train_f32",
                    "args": {
                        "input": [2, 4, 4],
                        "lr": 0.1,
                        "steps": 1,
                        "layers": [
                            {"kind": "conv2d", "outputs": 2, "kernel": 3},
                            {"kind": "relu"},
                            {"kind": "linear", "outputs": 4},
                        ],
                    },
                },
            },
            ["run", "build"],
        ),
        (
            {
                "layers": [
                    {
                        "name": "fc",
                        "kernel": "linear_{}_f32",
                        "steps": ["fw", "wg"],
                        "count": 3,
                        "args": {"inputs": 16, "outputs": 8},
                    },
                    {
                        "name": "conv",
                        "kernel": "conv2d_fw_f32",
                        "args": {"channels": 2, "outputs": 2, "height": 6, "width": 6},
                    },
                ],
                "tune": {"sizes": 2, "workers": 1, "database": "tuned.db", "cores": [8, 4]},
            },
            ["tune", "footprint"],
        ),
        (
            {
                "chip": {"base": "pulp", "l1": {"banks": 16}},
                "study": {"name": "banking", "quick": True, "args": {"cores": [1, 2]}},
            },
            ["study"],
        ),
        (
            {"study": {"name": "dma", "workers": 1, "database": "x.db", "output": "y"}},
            ["study"],
        ),
    ]


class ChipFile(Toml):
    name, count = "chip", 2_000

    def prepare(self, samples: Path) -> None:
        from soc.chip.spec import load_chip

        super().prepare(samples)
        whole = load_chip("pulp").model_dump(mode="json", by_alias=True)
        small = {"base": "pulp", "cores": 4, "l1": {"banks": 8, "size": 65536}}
        tested = {"base": "cv32e40p-rtl", "core": {"fpu_latency": 2}, "l2": {"size": 0x40000}}
        self.samples = [(whole, ["chips", "chip"]), (small, ["chip"]), (tested, ["chip"])]


class Json(Format):
    name, count = "json", 2_000

    @staticmethod
    def make_samples(folder: Path) -> None:
        from soc.run import run_program
        from trainlib import launch

        kernel = launch.program(PRODUCT["kernel"], PRODUCT["args"])
        result = run_program(kernel.program)
        report = result.to_json() | {"program": kernel.report(result).to_json()}
        (folder / "result.json").write_text(json.dumps(report))

    def prepare(self, samples: Path) -> None:
        files = samples / "result.json", ROOT / "tests" / "pulpsim" / "data" / "result.json"
        self.seeds = [json.loads(file.read_text()) for file in files]

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        data = damaged_text(rng.choice(self.seeds), json_text, rng)
        file = written(folder / "damaged.json", data)
        return file, ["report", str(file)]


class TraceFile(Format):
    name, count = "trace", 2_000
    exports: ClassVar = "perfetto vcd konata spike speedscope callgrind csv parquet".split()

    @staticmethod
    def make_samples(folder: Path) -> None:
        from soc.run import run_program
        from soc.trace.recorder import Recording
        from tests.pulpsim.trace.recordings import recording
        from trainlib import launch

        kernel = launch.program(PRODUCT["kernel"], PRODUCT["args"])
        run_program(kernel.program, trace=Recording(folder / "run.trace"))
        filters = ("kind=issue,stall,memory", "hart=0-3")
        run_program(kernel.program, trace=Recording(folder / "part.trace", 2000, filters))
        recording(folder)

    def prepare(self, samples: Path) -> None:
        files = sorted(samples.glob("*.trace"))
        self.seeds = [file.read_bytes() for file in files]

    def case(self, folder: Path, number: int, rng: random.Random) -> Case:
        data = rng.choice(self.seeds)
        kind = rng.randrange(3)
        damaged = (
            self.with_header(data, rng)
            if kind == 0
            else self.with_events(data, rng)
            if kind == 1
            else damaged_bytes(data, rng)
        )
        file = written(folder / "damaged.trace", damaged)
        return file, self.command(file, number)

    @staticmethod
    def with_header(data: bytes, rng: random.Random) -> bytes:
        """A header whose structure is damaged, and the events."""
        end = 12 + int.from_bytes(data[8:12], "little")
        text = damaged_text(json.loads(data[12:end]), json_text, rng)
        text = text.ljust(-len(text) % (1 << 16) - 12 + len(text))
        return data[:8] + len(text).to_bytes(4, "little") + text + data[end:]

    @staticmethod
    def with_events(data: bytes, rng: random.Random) -> bytes:
        """Events with other fields, or in another order."""
        end = 12 + int.from_bytes(data[8:12], "little")
        return data[:end] + damaged_bytes(data[end:], rng)

    def command(self, file: Path, number: int) -> Command:
        kind, name = number % 6, str(file)
        if kind == 0:
            return ["report", name]
        if kind == 1:
            return ["annotate", name]
        if kind == 2:
            return ["trace", name]
        if kind == 3:
            to = self.exports[number // 6 % len(self.exports)]
            return ["trace", "export", name, "--to", to, "-o", "exported"]
        if kind == 4:
            return lambda: watched(file)
        filters = (["--cycle", "3-9"], ["--hart", "core0"], ["--region", "work"], ["--top", "2"])
        return ["annotate", name, *filters[number // 6 % len(filters)]]


def watched(file: Path) -> None:
    """What `pulpsim trace FILE --tui` does, by a person who presses keys."""
    from pulpsim.tui.trace_source import TraceSource
    from soc.config.toml import ConfigError
    from soc.trace.reader import TraceError
    from tests.pulpsim.tui.person import Person

    try:
        person = Person(TraceSource.open(file))
    except TraceError as error:
        raise ConfigError([str(error)]) from None
    for key in ("home", "space", "left", "i", "n", "end", "down", "plus", "f"):
        person.press(key)
        assert person.lines


def _all() -> dict[str, Format]:
    from tests.fuzz.archives import Npz
    from tests.fuzz.databases import Studies, Tuned
    from tests.fuzz.options import Options

    files = Elf(), Asm(), Config(), ChipFile(), TraceFile(), Json(), Tuned(), Studies(), Npz()
    formats: tuple[Format, ...] = (*files, Options())
    return {format.name: format for format in formats}


FORMATS = _all()
