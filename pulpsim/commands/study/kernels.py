"""Kernels as cases of studies: which, at which size, on how many cores; and what they tell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from pulpsim.commands.study.study import Measured, Result
from soc.chip.spec import SocSpec
from soc.config.toml import ConfigError, Mistakes
from soc.config.validation import Layer, shown_value, validated
from trainlib.launch import program
from trainlib.registry import KERNELS, family_of

IMAGE = {"height": 12, "width": 12, "padding": 1, "kernel": 3}
SIZES: dict[str, dict[str, Any]] = {
    "matmul_f32": {"n": 32, "k": 32, "m": 32},
    "conv2d_fw_f32": {**IMAGE, "inputs": 8, "outputs": 16},
    "conv2d_wg_f32": {**IMAGE, "inputs": 8, "outputs": 16},
    "dwconv2d_fw_f32": {**IMAGE, "inputs": 16},
    "linear_fw_f32": {"inputs": 128, "outputs": 64},
    "linear_wg_f32": {"inputs": 128, "outputs": 64},
    "layernorm_fw_f32": {"rows": 36, "columns": 64},
    "softmax_fw_f32": {"shape": (36, 64)},
    "relu_fw_f32": {"shape": (4096,)},
    "maxpool2d_fw_f32": {"c": 16, "h": 16, "w": 16, "kernel": (2, 2)},
    "sgd_f32": {"shape": (4096,), "lr": 0.1},
    "transpose_f32": {"shape": (64, 64), "axes": (1, 0)},
}
"""Sizes that fit L1 beside sixteen stacks, for kernels that are given by name alone."""


class KernelTable(BaseModel):
    """An entry of `kernels`: {kernel = "matmul_f32", args = {n = 64, k = 64, m = 64}}."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kernel: str
    args: dict[str, Any]


@dataclass(frozen=True)
class KernelRun:
    """Builds a kernel for a number of cores.

    is_warm    its second pass is measured, its instructions in the caches
    """

    kernel: str
    args: Mapping[str, Any]
    chip: SocSpec
    cores: int
    is_warm: bool

    def __call__(self) -> Measured:
        arguments = {**self.args, "cores": self.cores, "warm": self.is_warm}
        return Measured.of_kernel(program(self.kernel, arguments, self.chip))


def kernels_of(entries: Sequence[Any]) -> dict[str, KernelTable]:
    """Entries by a name for tables and pictures; names alone get their size of SIZES.

    raises    ConfigError with all mistakes
    """
    mistakes, found = Mistakes(), dict[str, KernelTable]()
    with mistakes.collected():
        _check_sizes(entries)
    for number, entry in enumerate(entries, 1):
        with mistakes.collected():
            table = _of_name(entry) if isinstance(entry, str) else _of_table(number, entry)
            same = sum(other.kernel == table.kernel for other in found.values())
            found[f"{table.kernel} ({same + 1})" if same else table.kernel] = table
    mistakes.raise_any()
    return found


def sizes_of_repeated(entries: Sequence[Any]) -> list[str]:
    """What the names of kernels that are measured at several sizes stand for, a line each."""
    tables = kernels_of(entries)
    times = Counter(table.kernel for table in tables.values())
    return [
        f"{name}: {', '.join(f'{key} {shown_value(value)}' for key, value in table.args.items())}"
        for name, table in tables.items()
        if times[table.kernel] > 1
    ]


def _of_table(number: int, entry: Any) -> KernelTable:
    if not isinstance(entry, dict):
        rule = "must be a name, or a table with kernel and args"
        raise ConfigError([f"kernels.{number} = {shown_value(entry)}: {rule}"])
    table = validated(KernelTable, [Layer(f"kernels.{number}", entry)])
    family = family_of(table.kernel)
    validated(family.arguments, [Layer(f"kernels.{number}: {table.kernel}", table.args)])
    for name in ("cores", "warm"):
        if name in table.args:
            raise ConfigError(
                [f"kernels.{number}: {table.kernel}: {name}: the study chooses it; leave it out"]
            )
    return table


def _of_name(name: str) -> KernelTable:
    family_of(name)
    return KernelTable(kernel=name, args=SIZES.get(_single(name), {}))


def _single(name: str) -> str:
    """The kernel of single precision, at whose size those of halves are measured by name."""
    return f"{name.rpartition('_')[0]}_f32"


def _check_sizes(entries: Sequence[Any]) -> None:
    """Names alone that SIZES does not have: one mistake for all of them."""
    names = [entry for entry in entries if isinstance(entry, str) and entry in KERNELS]
    without = [name for name in dict.fromkeys(names) if _single(name) not in SIZES]
    if not without:
        return
    form = f'{{ kernel = "{without[0]}", args = {{ ... }} }}'
    need = f"{without[0]} needs a size" if len(without) == 1 else f"{', '.join(without)} need sizes"
    raise ConfigError([f"kernels: {need}: {form}; by name alone there are {', '.join(SIZES)}"])


def compute_regions(result: Result, name: str = "compute") -> list[dict[str, Any]]:
    """The entries of a region, one for each core."""
    return [r for hart in result["harts"] for r in hart["regions"] if r["name"] == name]


def stalls_of(regions: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Stall cycles by cause, of all cores."""
    total: Counter[str] = Counter()
    for region in regions:
        total.update(region["stalls"])
    return total
