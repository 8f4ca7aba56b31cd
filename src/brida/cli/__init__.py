"""The command line. Nothing heavy is imported until it is known that a task will run."""


def main() -> None:
    """The entry point of the command ``brida``: runs it and exits with its code."""
    from brida.cli.main import run_command_line

    raise SystemExit(run_command_line())
