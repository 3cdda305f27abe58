"""pulpsim fidelity: what it repeats, how it shows equality and differences."""

import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from isa.assembler.asm import assemble
from isa.extensions.profiles import profile
from pulpsim.commands.app import app
from pulpsim.fidelity import controller, programs
from pulpsim.fidelity.comparison import GROUPS, Comparison, Deviation, compared, error_of
from pulpsim.fidelity.l2 import measurements as l2_measurements
from pulpsim.fidelity.programs import ProgramRun
from pulpsim.fidelity.report import measurements, select
from soc.config.toml import ConfigError


def fidelity(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["fidelity", *arguments])


def test_every_measured_program_transfer_and_loop_is_in_one_of_the_groups() -> None:
    groups = [measurement.group for measurement in measurements()]

    assert {group: groups.count(group) for group in GROUPS} == {
        "programs": 183,
        "contention": 40,
        "kernels": 180,
        "dma": 13,
        "icache": 50,
        "controller": 117,
        "l2": 14,
    }


def test_a_choice_is_a_group_a_program_a_configuration_or_a_pattern() -> None:
    def chosen(*only: str) -> set[str]:
        return {measurement.title for measurement in select(only)}

    assert chosen("wfi_irq", "hwloop") == {"hwloop fpu_lat1", "wfi_irq nocluster_lat1"} | {
        f"hwloop {name}" for name in ("ri5cy_fregs_lat1", "ri5cy_zfinx_lat1")
    }
    assert len(chosen("l2")) == 14
    assert {title.split()[1] for title in chosen("fpu_lat2")} == {"fpu_lat2"}
    assert {title.split("_")[0] for title in chosen("mmz_*")} == {"mmz"}


def test_a_choice_that_matches_nothing_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^--only jmp8: no such measurement; the groups are programs, contention, kernels, "
        r"dma, icache, controller, l2; a program by name, many as in 'mm_\*'$",
    ):
        select(["jmp8"])


def test_the_event_engine_repeats_no_bench_of_a_part() -> None:
    result = fidelity("--only", "dma", "--engine", "event")

    assert result.exit_code == 2
    assert result.stderr == (
        "pulpsim: --only dma: the event engine repeats none of these; it runs whole programs "
        "under 20,000 cycles\n"
    )


def test_an_unknown_engine_is_refused() -> None:
    result = fidelity("--engine", "fast")

    assert result.exit_code == 2
    assert result.stderr == "pulpsim: --engine fast: must be compiled or event\n"


def test_equal_runs_are_shown_with_both_cycles_and_a_summary() -> None:
    result = fidelity("--only", "c8_eu")

    assert result.exit_code == 0
    header, run, _, heading, group, *_, verdict = result.stdout.splitlines()
    assert header.split()[:5] == ["run", "configuration", "RTL", "cycles", "diff"]
    assert run.split() == ["c8_eu", "eventunit_lat1", "979", "979", "10/10", "0.00"]
    assert heading.split()[:5] == ["group", "runs", "exact", "regions", "exact"]
    assert group.split()[:7] == ["contention", "1", "1", "10", "10", "979", "0.00"]
    assert verdict == (
        "1 of 1 runs and 10 of 10 regions, transfers and loops are equal to the RTL; worst error "
        "0.00 %"
    )


def test_several_at_a_time_give_the_same() -> None:
    one, three = (
        fidelity("--only", "contention", "--json", "-", "--workers", workers)
        for workers in ("1", "3")
    )
    assert len(json.loads(one.stdout)["runs"]) > 10
    assert (three.exit_code, three.stdout) == (one.exit_code, one.stdout)


@pytest.mark.usefixtures("_cluster_in_this_process")
def test_a_cluster_gives_the_same() -> None:
    here, there = (
        fidelity("--only", "ri5cy_fregs_lat1", "--json", "-", *place)
        for place in ((), ("--local-cluster", "1"))
    )
    assert len(json.loads(here.stdout)["runs"]) > 0
    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)


def test_one_place_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autotuner.dask_executor.ANSWER", 1)
    both = fidelity("--workers", "2", "--scheduler", "tcp://127.0.0.1:1")
    lost = fidelity("--only", "c8_eu", "--scheduler", "tcp://127.0.0.1:1")

    assert (both.exit_code, both.stderr) == (
        2,
        "pulpsim: --workers and --scheduler; give one of them\n",
    )
    assert lost.exit_code == 2
    assert "tcp://127.0.0.1:1: no Dask scheduler answers" in lost.stderr


def test_a_difference_is_named_and_makes_the_command_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(programs.CONFIGURATIONS, "nocluster_lat1", {"wfi_sleeps": False})

    result = fidelity("--only", "nocluster_lat1")

    assert result.exit_code == 1
    assert "wfi_irq nocluster_lat1: region " in result.stdout
    assert result.stdout.splitlines()[-1].startswith("0 of 1 runs and ")


def test_a_program_that_does_not_end_differs_in_all_its_regions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = ProgramRun("cv32e40p", "alu", "fpu_lat1")
    endless = assemble("_start:\n j _start\n", profile("cv32e40p", "f"), text_base=0x1C000080)
    monkeypatch.setattr(programs, "elfs", lambda: {"cv32e40p/alu.elf": endless.to_elf()})

    comparison = run.repeat()

    assert (comparison.exact, len(comparison.parts)) == (0, 18)
    assert comparison.error == (1928 - 464) / 464
    assert comparison.differences[-1] == "cycle limit of 1928 reached"


def test_the_whole_result_is_written_as_json(tmp_path: Path) -> None:
    file = tmp_path / "fidelity.json"

    assert fidelity("--only", "c8_eu", "--json", str(file)).exit_code == 0
    written = json.loads(file.read_text())
    assert json.loads(fidelity("--only", "c8_eu", "--json", "-").stdout) == written
    assert written["schema"] == "pulpsim.fidelity/1"
    assert written["runs"] == [
        {
            "group": "contention",
            "name": "c8_eu",
            "configuration": "eventunit_lat1",
            "rtl_cycles": 979,
            "cycles": 979,
            "rtl_l1_waits": 0,
            "l1_waits": 0,
            "regions": 10,
            "exact": 10,
            "error": 0.0,
            "differences": [],
        }
    ]


def test_numbers_that_differ_are_named_by_their_place() -> None:
    rtl = {"cycles": [10, 20], "hash": "a"}

    part = compared("region 3", rtl, {"cycles": [10, 21], "hash": "b"})

    assert part.differences == ("region 3.cycles.1: 21, RTL 20", "region 3.hash: 'b', RTL 'a'")
    assert part.error == 0.05
    assert compared("region 3", rtl, rtl) == Deviation()
    assert compared("x", {"cycles": [1]}, {"cycles": [1, 2]}).differences == (
        "x.cycles: [1, 2], RTL [1]",
    )
    assert error_of([[100, 4]], [[99, 5]]) == 0.25


def test_the_worst_error_is_that_of_a_part_or_of_the_whole_run() -> None:
    assert Comparison(100, 101, (Deviation((), 0.0),)).error == 0.01
    assert Comparison(100, 100, (Deviation(("x",), 0.5), Deviation())).error == 0.5


@pytest.mark.parametrize("engine", ["compiled", "event"])
def test_loads_stores_and_transfers_on_the_whole_chip_take_the_measured_cycles(engine: str) -> None:
    for measurement in list(l2_measurements())[: None if engine == "compiled" else 5]:
        comparison = measurement.repeat(engine)
        assert comparison.differences == []
        assert comparison.cycles == measurement.cycles


@pytest.fixture
def rom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ROM that the command takes for the one with which was measured."""
    file = tmp_path / "rom.hex"
    file.write_text("12345678")
    start = b"\x78\x56\x34\x12" + bytes(controller.ROM_START - 4)
    monkeypatch.setattr(controller, "ROM_SHA256", hashlib.sha256(start).hexdigest())
    return file


def test_with_the_boot_rom_the_controllers_programs_that_load_its_words_are_repeated(
    rom: Path,
) -> None:
    without = fidelity("--only", "rnd_pri1_22", "--json", "-")
    stored = fidelity("--only", "rnd_pri1_22", "--boot-rom", str(rom), "--json", "-")
    more = fidelity("--only", "rnd_intl_02", "--boot-rom", str(rom), "--json", "-")

    assert len(controller.runs()) == 117
    assert len(controller.runs(str(rom))) == 162
    assert without.exit_code == 0
    for run in json.loads(stored.stdout)["runs"]:  # they store words that are not these
        assert [text.split(":")[0] for text in run["differences"]] == ["run.l2_sha256"]
    assert [run["regions"] for run in json.loads(more.stdout)["runs"]] == [30, 30, 30]
    assert fidelity("--only", "rnd_intl_02").exit_code == 2


def test_another_boot_rom_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.bin"
    other.write_bytes(bytes(8))

    result = fidelity("--only", "c8_eu", "--boot-rom", str(other))
    missing = fidelity("--only", "c8_eu", "--boot-rom", str(tmp_path / "missing"))

    assert (result.exit_code, missing.exit_code) == (2, 2)
    assert result.stderr.startswith(f"pulpsim: --boot-rom {other}: not PULPissimo 8.0.0's")
    assert "missing': No such file or directory" in missing.stderr
