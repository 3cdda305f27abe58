"""The command `pulpsim`. A signal has its meaning before anything is imported that takes long."""

from soc.signals import take_over


def main() -> None:
    """Run the command that the arguments name."""
    take_over("pulpsim: interrupted")
    from pulpsim import cli

    cli.main()


if __name__ == "__main__":
    main()
