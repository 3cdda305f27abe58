"""The operating systems that the simulator runs on."""

import sys


def require_supported_system() -> None:
    """See that the system has POSIX file locks, signals and processes.

    raises    ImportError on Windows
    """
    if sys.platform == "win32":
        raise ImportError(
            "pulpsim: Windows is not supported; it runs on Linux and macOS, and on Windows in WSL 2"
        )
