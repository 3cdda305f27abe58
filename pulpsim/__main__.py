"""The command `pulpsim`. A signal has its meaning before anything is imported that takes long."""

import _signal  # type: ignore  # of `signal`: there without an import that takes time


def main() -> None:
    """Run the command that the arguments name."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # it ends the command, as SIGTERM does
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
