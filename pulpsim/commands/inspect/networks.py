"""The networks that come with the simulator: layer lists in configs/networks."""

from difflib import get_close_matches
from pathlib import Path

from soc.chip.spec import CONFIGS
from soc.config.toml import ConfigError

NETWORKS = CONFIGS / "networks"


def network_names() -> list[str]:
    """Their names."""
    return sorted(file.stem for file in NETWORKS.glob("*.toml"))


def config_file(written: Path) -> Path:
    """The file that was meant: a config file, or a network by name.

    raises    ConfigError if it is neither
    """
    if written.exists() or written.suffix or len(written.parts) > 1:
        return written
    names = network_names()
    if written.name in names:
        return NETWORKS / f"{written.name}.toml"
    near = get_close_matches(written.name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"the networks are {', '.join(names)}"
    raise ConfigError([f"{written}: no such file, and no such network; {hint}"])
