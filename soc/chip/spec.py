"""The chip: the components' Specs composed, and chips by name from configs/*.toml.

A chip file holds the fields that differ from the defaults, table by table as `SocSpec` has them.
`base = "pulp"` starts from another chip instead, by name or by path relative to the file.
"""

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from soc.address_map.memory_map import (
    BOOT_ROM,
    BOOT_ROM_SPACE,
    CLUSTER_ALIAS_SIZE,
    CLUSTER_SPACE,
    SOC_SPACE,
    Kind,
    memory_map,
)
from soc.chip.core_spec import AccessSpec, CoreSpec, FabricControllerSpec
from soc.chip.device_spec import FOLDER, MOST_PORTS, ChipFolder, DeviceSpec
from soc.chip.peripherals_spec import (
    BootRomSpec,
    DdrSpec,
    EepromSpec,
    FlashSpec,
    GpioSpec,
    HyperRamSpec,
    PeripheralsSpec,
    UartSpec,
)
from soc.config.toml import ConfigError, Table, nested, read_toml
from soc.config.validation import Layer, field_note, fields, shown_value, validated
from soc.dma.state import DmaSpec
from soc.event_unit.state import EventUnitSpec
from soc.host.notebook import frame, html_table
from soc.icache.hierarchy import IcacheSpec
from soc.interconnect.axi_l2 import L2Spec
from soc.interconnect.tcdm import L1Spec
from soc.prelude.field import setting

CONFIGS = Path(__file__).parents[2] / "configs"
DEFAULT_CHIP = "pulp"
MOST_CORES = 16
SPACES = (CLUSTER_SPACE[0], CLUSTER_SPACE[0] + 0x4000), SOC_SPACE
CONTROL_PAGE_SIZE = 0x1000
L1_SPACE = 0x200000
"""Addresses of L1 and of its test-and-set alias, from L1's base (core_demux.sv)."""


class SocSpec(BaseModel):
    """A chip. Cores and the cluster around them share one clock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = setting("", "", "chip file, its name")
    description: str = setting("", "", "chip file")
    cores: int = setting(8, "cores", "pulp_cluster caaa973, NB_CORES", ge=1, le=MOST_CORES)
    core: CoreSpec = CoreSpec()
    fabric_controller: FabricControllerSpec = FabricControllerSpec()
    l1: L1Spec = L1Spec()
    l2: L2Spec = L2Spec()
    dma: DmaSpec = DmaSpec()
    icache: IcacheSpec = IcacheSpec()
    event_unit: EventUnitSpec = EventUnitSpec()
    boot_rom: BootRomSpec = BootRomSpec()
    peripherals: PeripheralsSpec = PeripheralsSpec()
    uart: UartSpec = UartSpec()
    gpio: GpioSpec = GpioSpec()
    hyperram: HyperRamSpec = HyperRamSpec()
    flash: FlashSpec = FlashSpec()
    eeprom_0: EepromSpec = EepromSpec()
    eeprom_1: EepromSpec = EepromSpec()
    ddr: DdrSpec = DdrSpec()
    access: AccessSpec = AccessSpec()
    device: tuple[DeviceSpec, ...] = setting(
        (), "", "chip file: components of the user's own, a table each"
    )
    control_page: int = setting(
        0,
        "address",
        "0: none; test benches of the RTL: exit, barrier, traffic; L2 is ideal then",
        multiple_of=CONTROL_PAGE_SIZE,
    )

    @property
    def eeproms(self) -> tuple[EepromSpec, ...]:
        """The EEPROMs by the numbers of their I2C buses."""
        return self.eeprom_0, self.eeprom_1

    def __repr__(self) -> str:
        l1, l2 = self.l1, self.l2
        return (
            f"<SocSpec {self.name}: {self.cores} {self.core.isa} cores, {l1.size // 1024} kB of L1 "
            f"in {l1.banks} banks, {l2.size // 1024} kB of L2>"
        )

    def _repr_html_(self) -> str:
        return html_table(repr(self)[1:-1], self.rows(), self.description)

    def rows(self) -> list[dict[str, Any]]:
        """Every field, a dictionary each: field, value, unit, source."""
        return [
            {
                "field": ".".join(path),
                "value": _shown(reduce(getattr, path, self), field_note(field, "unit")),
                "unit": field_note(field, "unit"),
                "source": field_note(field, "source"),
            }
            for path, field in fields(type(self))
        ]

    def to_frame(self) -> Any:
        """The rows as a pandas.DataFrame. Raises ImportError without pandas."""
        return frame(self.rows())

    @model_validator(mode="after")
    def _places_lie_apart(self) -> "SocSpec":
        places = [
            (f"{n} {base:#010x}..{end - 1:#010x}", base, end) for n, base, end in self._places()
        ]
        mistakes = [f"{place} is past 0xffffffff" for place, _, end in places if end > 1 << 32] + [
            f"{one} overlaps {other}"
            for (one, base, end), (other, start, stop) in combinations(places, 2)
            if base < stop and start < end
        ]
        mistakes += self._mistakes_of_devices()
        if self.fabric_controller.fetch == "l2" and not self.control_page:
            mistakes.append(
                'fabric_controller.fetch = "l2" is for test benches with a control_page: what the '
                'controller reaches beyond L2 is the bench\'s there; take "ideal"'
            )
        if mistakes:
            raise ValueError("; ".join(mistakes))
        return self

    def _mistakes_of_devices(self) -> Iterator[str]:
        """Windows of devices lie in the spaces of registers, where nothing else answers."""
        known = [
            (region.name, region.base, region.end)
            for region in memory_map(self.l1.size, self.l2.size)
            if region.kind in (Kind.CLUSTER_PERIPHERAL, Kind.SOC_PERIPHERAL)
        ]
        if self.boot_rom.load:
            known.append(("boot_rom", BOOT_ROM, BOOT_ROM + BOOT_ROM_SPACE))
        if self.ddr.size:
            known.append(("ddr", self.ddr.base, self.ddr.base + self.ddr.size))
            if self.control_page:
                yield "ddr: test benches with a control_page have none"
        if self.device and self.control_page:
            yield "device: test benches with a control_page have no peripherals"
        for device in self.device:
            window = f"device {device.name!r} {device.base:#010x}"
            end = device.base + device.size
            if not any(low <= device.base and end <= high for low, high in SPACES):
                yield f"{window}: outside of the registers of cluster and SoC"
            for name, base, stop in known:
                if base < end and device.base < stop:
                    yield f"{window} overlaps {name} {base:#010x}"
                if name == device.name:
                    yield f"device {name!r}: the chip has a region of that name"
            known.append((device.name, device.base, end))
        if sum(device.ports for device in self.device) > MOST_PORTS:
            yield f"device: more than {MOST_PORTS} ports into L1"

    def _places(self) -> Iterator[tuple[str, int, int]]:
        """What addresses lead to: name, first address, first address after."""
        yield "l2", self.l2.base, self.l2.base + self.l2.size
        if self.ddr.size:
            yield "ddr", self.ddr.base, self.ddr.base + self.ddr.size
        yield "l1 with its alias", self.l1.base, self.l1.base + L1_SPACE
        if self.control_page:
            yield "control_page", self.control_page, self.control_page + CONTROL_PAGE_SIZE
        else:
            yield "the space of the SoC's registers", *SOC_SPACE
        yield "the space of the cluster's registers", *CLUSTER_SPACE
        yield "the cluster's alias", 0, CLUSTER_ALIAS_SIZE


def _shown(value: Any, unit: str) -> str:
    return f"{value:#010x}" if unit == "address" else shown_value(value)


def chip_names() -> list[str]:
    """The chips that come with the simulator."""
    return sorted(file.stem for file in CONFIGS.glob("*.toml"))


def load_chip(
    chip: str | Path = DEFAULT_CHIP,
    overrides: Mapping[str, Any] | None = None,
    *,
    folder: Path = Path(),
) -> SocSpec:
    """A chip by name or by file, with some fields changed.

    chip        a name in configs/, or the path of a .toml file, relative to `folder`
    overrides   tables or dotted keys: {"l1.banks": 32, "core": {"fpu_latency": 2}}

    raises      ConfigError with every mistake in chip and overrides

        chip = load_chip("pulp", {"l1.banks": 32})
        chip.l1.banks, chip.to_frame()
    """
    return compose([*chip_layers(chip, folder), Layer("overrides", nested(overrides or {}))])


def compose(layers: list[Layer]) -> SocSpec:
    """The chip that layers describe, the first one (of chip_layers) its base."""
    return validated(SocSpec, layers)


def chip_layers(chip: str | Path, folder: Path = Path(), source: str = "") -> list[Layer]:
    """What a chip's file and the files it is based on say, the outermost base first.

    source    where the chip is named, for messages: "run.toml: "
    """
    file = _chip_file(str(chip), folder, source)
    layers: list[Layer] = []
    files: list[Path] = []
    while file not in files:
        files.append(file)
        table = read_toml(file)
        base = table.pop("base", None)
        for device in _tables(table.get("device")):
            device[FOLDER] = ChipFolder(file.parent.absolute())
        layers.insert(0, Layer(str(file), table))
        if base is None:
            return [Layer("chip", {"name": files[0].stem}), *layers]
        if not isinstance(base, str):
            raise ConfigError(
                [f"{file}: base = {shown_value(base)}: must be the name or the path of a chip"]
            )
        file = _chip_file(base, file.parent, f"{file}: base: ")
    circle = " -> ".join(str(file) for file in [*files[files.index(file) :], file])
    raise ConfigError([f"{files[0]}: base: chips are based on each other: {circle}"])


def _tables(written: Any) -> list[Table]:
    return [entry for entry in written if isinstance(entry, dict)] if written else []


def written_chip(source: str, written: Any) -> tuple[str, Table]:
    """The chip that a config's `chip` names, and the fields that it changes.

    source    the config, for messages
    raises    ConfigError if it is neither a name nor a table
    """
    fields: Table = dict(written) if isinstance(written, dict) else {}
    base = fields.pop("base", DEFAULT_CHIP) if isinstance(written, dict) else written
    if not isinstance(base, str):
        raise ConfigError([f"{source}: chip: must be the name or the path of a chip"])
    return base, fields


def _chip_file(chip: str, folder: Path, source: str) -> Path:
    if chip.endswith(".toml"):
        return Path(os.path.normpath(folder / chip))
    names = chip_names()
    if chip in names:
        return CONFIGS / f"{chip}.toml"
    near = get_close_matches(chip, names, n=1)
    known = f"did you mean {near[0]}? The" if near else f"chips are {', '.join(names)}; the"
    rule = f"no such chip; {known} path of a chip file ends in .toml"
    raise ConfigError([f"{source}chip {chip!r}: {rule}"])
