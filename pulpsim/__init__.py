"""A cycle-accurate simulator of the PULP system on chip. `import pulpsim as ps` has all one needs:

    result = ps.run("prog.elf")                          # or a config file, or a Program
    outputs, report = ps.launch("matmul_f32", {"n": 64, "k": 64, "m": 64})
    chip = ps.load_chip("pulp", {"l1.banks": 32})

Running        run, run_many, Run, launch, load_chip, Session, Trace, Recording
Training       deploy, SGD, Adam, AdamW
Searching      tune, study
Programming    Program, new_kernel, team_of, crew_of, offload_of, Console, Dma

Nothing is imported before it is used.
"""

_HOME = {
    "run": "pulpsim.api.run",
    "run_many": "pulpsim.api.run",
    "Run": "soc.run_many",
    "tune": "pulpsim.api.tune",
    "study": "pulpsim.api.study",
    "launch": "trainlib.launch",
    "deploy": "trainlib.deploy",
    "SGD": "trainlib.deploy",
    "Adam": "trainlib.deploy",
    "AdamW": "trainlib.deploy",
    "load_chip": "soc.chip.spec",
    "Session": "soc.debug.session",
    "Trace": "soc.trace.reader",
    "Recording": "soc.trace.recorder",
    "Program": "isa.program",
    "new_kernel": "firmware.runtime",
    "team_of": "firmware.runtime",
    "crew_of": "firmware.fork",
    "offload_of": "firmware.fork",
    "Console": "firmware.console",
    "Dma": "firmware.drivers",
    "ConfigError": "soc.config.toml",
}
"""The module of each name. __init__.pyi, which type checkers and editors read, has the same."""

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return _version()
    if name not in _HOME:
        raise AttributeError(f"module 'pulpsim' has no attribute {name!r}")
    from importlib import import_module  # not above: an import of the command's, before signals

    import_module("soc.host.supported").require_supported_system()
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def _version() -> str:
    """Return the version of the installed distribution; reading it takes milliseconds."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pulpsim")
    except PackageNotFoundError:  # a checkout on the path
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
