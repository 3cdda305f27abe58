"""The command `pulpsim`. A signal has its meaning before anything is imported that takes long."""

import _signal  # type: ignore  # of `signal`: there without an import that takes time

ALLOCATED = 200_000
"""Objects more than are freed between two collections: imports make so many that all stay."""


def main() -> None:
    """Run the command that the arguments name."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # it ends the command, as SIGTERM does
    import atexit
    import gc
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's threads would only wait, busily
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")  # it would look for them everywhere
    gc.set_threshold(ALLOCATED)
    atexit.register(gc.freeze)  # or Python would search all that is left for garbage, at its end
    from soc.host.supported import require_supported_system

    try:
        require_supported_system()
    except ImportError as error:
        raise SystemExit(str(error)) from None
    from soc.host.signals import take_over

    take_over("pulpsim: interrupted")
    from pulpsim.commands import app as cli

    cli.main()


if __name__ == "__main__":
    main()
