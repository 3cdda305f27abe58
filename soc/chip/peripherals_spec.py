"""Fields of the peripherals."""

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from soc.prelude.field import setting


def _power_of_two(value: int, info: ValidationInfo) -> int:
    if value & value - 1:
        raise ValueError(f"{info.field_name} {value} is no power of two")
    return value


class UartSpec(BaseModel):
    """What is at the other end of the UART's line. What it sends goes to the console."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str = setting(
        "", "", 'what it receives: path of a file, "-": standard input, "pty": a pseudo-terminal'
    )
    loopback: bool = setting(False, "", "it receives what it sends, as in pulp's tb_pulp.sv")


class GpioSpec(BaseModel):
    """What the pins of the GPIO are wired to. A pin that is driven by none is low."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    loopback: bool = setting(
        False, "", "pin i of each 32 is wired to pin i + 16, as in pulp's tb_pulp.sv"
    )


class HyperRamSpec(BaseModel):
    """The HyperRAM on HyperBus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = setting(8 << 20, "bytes", "S27KS0641", ge=1 << 12, le=1 << 28, multiple_of=1 << 12)
    load: str = setting("", "", "path of a file: its content at reset; the rest is 0xFF")
    save: str = setting("", "", "path of a file that gets its content at the end of a run")


class FlashSpec(BaseModel):
    """The flash at chip select 0 of the SPI master: a S25FS256S, as in pulp's tb_pulp.sv."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = setting(
        0, "bytes", "0: none; a S25FS256S has 0x200_0000", ge=0, le=1 << 28, multiple_of=1 << 16
    )
    load: str = setting("", "", "path of a file: its content at reset; the rest is 0xFF")
    save: str = setting("", "", "path of a file that gets its content at the end of a run")
    program_time: int = setting(
        18_000, "cycles", "of a page: 0.36 ms at 49.97 MHz, not from RTL", ge=0, le=1 << 40
    )
    erase_time: int = setting(
        6_500_000, "cycles", "130 ms at 49.97 MHz, not from RTL", ge=0, le=1 << 40
    )


class EepromSpec(BaseModel):
    """The EEPROM on an I2C bus, whose number A0 has: a 24FC1025, as in pulp's tb_pulp.sv."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = setting(
        0, "bytes", "0: none; a 24FC1025 has 0x2_0000", ge=0, le=1 << 17, multiple_of=1 << 12
    )
    load: str = setting("", "", "path of a file: its content at reset; the rest is 0xFF")
    save: str = setting("", "", "path of a file that gets its content at the end of a run")
    page: int = setting(128, "bytes", "24FC1025: written at once", ge=1, le=256)
    write_time: int = setting(
        150_000, "cycles", "of a page: 3 ms at 49.97 MHz, not from RTL", ge=0, le=1 << 40
    )

    _is_power_of_two = field_validator("size", "page")(_power_of_two)


class BootRomSpec(BaseModel):
    """The SoC's boot ROM, which loads read; programs start in L2."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = setting(
        1 << 13, "bytes", "pulp_soc boot_rom.sv, ROM_ADDR_WIDTH = 13", ge=4, le=1 << 18
    )
    load: str = setting(
        "",
        "",
        "path of its content, an ELF file, words in hexadecimal or plain bytes; none: no ROM",
    )

    _is_power_of_two = field_validator("size")(_power_of_two)


class DdrSpec(BaseModel):
    """A plain memory behind the SoC's AXI."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int = setting(0, "bytes", "0: none", ge=0, le=1 << 30, multiple_of=1 << 12)
    base: int = setting(
        0x8000_0000, "address", "not from RTL: pulp has no such memory", multiple_of=1 << 12
    )
    load: str = setting("", "", "path of a file: its content at reset; the rest is 0xFF")
    save: str = setting("", "", "path of a file that gets its content at the end of a run")


class PeripheralsSpec(BaseModel):
    """Sizes and rates of the SoC's peripherals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference_period: int = setting(
        2198, "cycles", "72.03 MHz (reset of GVSoC's pulp-open) over the 32,768 Hz reference", ge=1
    )
    interrupt_fifo: int = setting(4, "events", "apb_interrupt_cntrl.sv, i_event_fifo", ge=1)
    first_software_event: int = setting(
        160, "", "pulp_soc soc_peripherals.sv: events of peripherals come first", ge=0, le=239
    )
    software_events: int = setting(
        8, "events", "soc_peripherals.sv, APB_EVNT_NUM of soc_event_generator", ge=1, le=8
    )
    event_queue: int = setting(
        3, "events", "soc_event_queue.sv: of one number that wait; more are lost", ge=1
    )
