"""The command line. Nothing heavy is imported until it is known that a task will run."""

import os
import signal
import threading
from types import FrameType


def main() -> None:
    """The entry point of the command ``brida``: runs it and exits with its code.

    A thread that is still at something (a tool that ignores its timeout, a look-up of a host) does not
    hold the process.
    """
    signal.signal(signal.SIGINT, _leave)  # until there is a run that can be stopped
    from brida.cli.main import run_command_line

    code = run_command_line()
    if threading.active_count() > 1:
        os._exit(code)
    raise SystemExit(code)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Ctrl-C before anything has begun: the process ends at once, without a trace of where it was."""
    os._exit(130)
