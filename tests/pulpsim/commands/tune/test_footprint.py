"""The command footprint."""

import json
import re
from pathlib import Path

from typer.testing import CliRunner, Result

from pulpsim.commands import app as cli


def pulpsim(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_a_footprint_has_every_tensor_and_buffer(network: Path) -> None:
    result = pulpsim("footprint", network)
    assert result.exit_code == 0
    every_line = [line.split() for line in result.stdout.splitlines() if line.strip()]
    lines = {tuple(line[:-1]): line[-1] for line in every_line}
    assert lines["fc.fw", "L2", "X", "f32"] == "64"
    assert lines["fc.fw", "L2", "W", "f32"] == "512"
    assert lines["fc.wg", "L1", "dW_in_L1"] == "512"
    in_l1_of_fw = 64 + 512 + 64 + 8 * 4 * 8  # the last: parts of 8 sums
    assert lines["fc.fw", "L1", "all", "buffers"] == str(in_l1_of_fw)
    assert lines["fc.fw", "L1", "stacks"] == "8,192"
    every = 64 + 512 + 32
    in_l1 = 64 + 64 + 512  # of the gradient: buffers begin 64 bytes apart
    for step, count, largest in (("fw", 3, in_l1_of_fw), ("wg", 3, in_l1), ("all", 6, in_l1_of_fw)):
        assert [step, f"{count}", f"{count * every:,}", f"{largest}"] in every_line
    assert ["X", "f32", "192"] in every_line  # once for both steps


def test_a_footprint_is_json_too(network: Path) -> None:
    report = json.loads(pulpsim("footprint", network, "--json", "-").stdout)
    assert report["schema"] == "pulpsim.footprint/1"
    first, second = report["layers"]
    assert (first["name"], first["count"], second["name"]) == ("fc.fw", 3, "fc.wg")
    assert first["tensors"]["W"] == {"dtype": "f32", "bytes": 512}
    assert (first["tensor_bytes"], first["l1_bytes"]) == (608, 896)
    assert {"name": "dW", "dtype": "f32", "bytes": 3 * 512} in report["tensors"]
    file = network.parent / "bytes.json"
    assert pulpsim("footprint", network, "--json", file).exit_code == 0
    assert json.loads(file.read_text()) == report


def test_a_footprint_is_of_the_chip_that_is_chosen(network: Path) -> None:
    chosen = pulpsim("footprint", network, "--set", "cores=4", "--json", "-")
    assert [layer["stacks"] for layer in json.loads(chosen.stdout)["layers"]] == [4096, 4096]
    network.write_text(f"chip = {{ cores = 2 }}\n{network.read_text()}")
    written = pulpsim("footprint", network, "--json", "-")
    assert [layer["stacks"] for layer in json.loads(written.stdout)["layers"]] == [2048, 2048]


def test_layers_without_a_footprint_are_told_all_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(
        '[[layers]]\nname = "a"\nkernel = "relu_fw_f32"\nargs = {shape = [999999]}\n'
        '[[layers]]\nname = "b"\nkernel = "relu_fw_f32"\n'
    )
    result = pulpsim("footprint", file)
    assert result.exit_code == 2
    first, second = plain(result.stderr).splitlines()
    assert first == (
        f"pulpsim: {file}: a: relu_fw_f32: L2: x of 3999996 bytes does not fit: 1966080 of "
        f"1966080 bytes are left"
    )
    assert second == f"pulpsim: {file}: b: relu_fw_f32: shape: missing"
