"""The pages of `pulpsim kernels`."""

from typing import Annotated, Literal

import pytest
from pydantic import Field
from rich.console import Console
from typer.testing import CliRunner

from pulpsim.commands.app import app
from pulpsim.commands.inspect.kernels import arguments_table, shown_type
from trainlib.network.layers import Activation, LinearLayer
from trainlib.registry import KERNELS


def page(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["kernels", *arguments], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    return result.stdout


def test_every_kernel_is_listed() -> None:
    lines = page().split("\n\n")[0].splitlines()
    names = [name for line in lines if line[0] == " " for name in line.split()]
    assert sorted(names) == sorted(KERNELS)
    assert max(map(len, lines)) <= 100


def test_kernels_stand_under_the_folder_of_their_code() -> None:
    lines = page().splitlines()
    at = lines.index("conv")
    assert lines[at + 1].split()[:3] == ["conv2d_fw_f32", "conv2d_wg_f32", "conv2d_ig_f32"]
    assert lines[lines.index("network") + 1] == "  train_f32"


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_has_a_page_with_its_arguments(name: str) -> None:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(arguments_table(name), highlight=False)
    rows = capture.get().split("argument ")[-1].splitlines()
    assert [row.split()[0] for row in rows[1:]] == list(KERNELS[name].arguments.model_fields)
    words = capture.get().replace(";", " ").replace(":", " ").replace(",", " ").split()
    assert not {"None", "True", "False"} & set(words)  # a config file has no such words


def test_a_page_says_what_is_required_and_what_is_chosen() -> None:
    lines = [line.split() for line in page("matmul_f32").splitlines()]
    assert ["k", "integer", "required"] in lines
    assert ["split", "2", "integers", "chosen"] in lines


def test_an_unknown_kernel_is_bad_input() -> None:
    result = CliRunner().invoke(app, ["kernels", "matmul_f23"])
    assert result.exit_code == 2
    assert result.stderr == (
        "pulpsim: kernel 'matmul_f23': no such kernel; did you mean matmul_f32?\n"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int | None, "integer"),
        (Literal["chw", "hwc"], '"chw" | "hwc"'),
        (tuple[Annotated[int, Field(ge=1)], ...], "a list of integers"),
        (dict[str, float], "a table of numbers"),
        (bool, "true | false"),
        (tuple[LinearLayer | Activation, ...], "a list of tables"),
    ],
)
def test_types_are_shown_as_a_person_says_them(kind: object, text: str) -> None:
    assert shown_type(kind) == text
