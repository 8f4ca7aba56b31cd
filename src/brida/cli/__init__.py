"""The command line. Nothing heavy is imported until it is known that a task will run."""

import os
import threading


def main() -> None:
    """The entry point of the command ``brida``: runs it and exits with its code.

    A thread that is still at something (a tool that ignores its timeout, a look-up of a host) does not
    hold the process.
    """
    from brida.cli.main import run_command_line

    code = run_command_line()
    if threading.active_count() > 1:
        os._exit(code)
    raise SystemExit(code)
