"""Fields of a component of the user's own: which Python class, at which addresses."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, model_validator

from soc.prelude.field import setting

MOST_PORTS = 16
FOLDER = "folder"
"""Key of a device's table that chip_layers adds: no TOML or JSON file can have such a value."""


class ChipFolder:
    """The folder of a chip file that names a device: what allows its code to be run."""

    def __init__(self, path: Path):
        self.path = path


class DeviceSpec(BaseModel):
    """A component of the user's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = setting("device", "", "chip file: of its region, in messages and traces")
    module: str = setting("", "", 'chip file: "mine.py:Engine", path relative to the chip file')
    base: int = setting(
        0x10201000, "address", "hardware accelerator of pulp_cluster", multiple_of=4
    )
    size: int = setting(0x400, "bytes", "of its window", ge=4, multiple_of=4)
    ports: int = setting(0, "ports", "into L1, a word a cycle each", le=MOST_PORTS)

    _folder: Path | None = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _named_by_a_file(
        cls, table: Any, handler: ModelWrapValidatorHandler["DeviceSpec"]
    ) -> "DeviceSpec":
        folder = None
        if isinstance(table, dict) and isinstance(table.get(FOLDER), ChipFolder):
            folder = table[FOLDER].path
            table = {key: value for key, value in table.items() if key != FOLDER}
        made = handler(table)
        if folder is not None:
            made._folder = folder
        return made

    @property
    def folder(self) -> Path | None:
        """Of the chip file that names it; None if a trace, a checkpoint or the like does."""
        return self._folder
