"""The person's own programs, an editor and a pager, run in the foreground of the terminal.

While one runs, Ctrl-C and Ctrl-backslash are its own: it shares our process group, so the terminal sends
them to both, and here they do nothing. Ctrl-Z stops both, and both go on together. The event loop goes on
all the while. Whoever cancels ends the program; then, as after every other end, the terminal gets back the
modes it had. A program that an editor has itself started is not ended with it.
"""

import asyncio
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from brida.approval import modes
from brida.texts.masking import Mask

ENDING: Final = 0.5
"""Seconds that a program gets to end by itself once it is told to."""

INTERRUPTED: Final = (-signal.SIGINT, 128 + signal.SIGINT)
"""How a program ends that Ctrl-C has ended: by the signal, or as a shell tells of it."""

_INPUT, _OUTPUT = 0, 2  # the terminal: the standard output may be a pipe

_SECRET: Final = re.compile(r"(?i)(?:^|_)(?:api_?key|key|token|secret|password|credentials?|headers)(?:_|$)")
"""Names of variables that hold secrets whatever their values: an editor or a pager was not given them."""


def _environment() -> dict[str, str]:
    """The environment of the person's own programs, without what looks secret by name or by value."""
    secret = Mask.of(os.environ).names
    return {n: value for n, value in os.environ.items() if n not in secret and not _SECRET.search(n)}


def editor_of(environ: Mapping[str, str]) -> str:
    """The command line of the person's editor, not yet split; empty where none is set."""
    return environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip()


def has_colours(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has colours and the person wants any."""
    return environ.get("TERM", "") not in ("", "dumb") and not environ.get("NO_COLOR")


def pager_of(environ: Mapping[str, str]) -> list[str]:
    """The pager and its arguments; empty where there is none, or where it cannot be told which."""
    wanted = environ.get("PAGER")
    if wanted is None:
        plain = environ.get("TERM", "") in ("", "dumb")
        wanted = next((name for name in ("less", "more") if not plain and shutil.which(name)), "")
    try:
        command = shlex.split(wanted)
    except ValueError:
        return []
    if command and has_colours(environ) and os.path.basename(command[0]) == "less":
        command.append("-R")
    return command


async def edit_file(command: Sequence[str], text: str) -> tuple[int, str]:
    """Lets the person edit ``text``; gives how the editor ended (see :func:`run_program`) and what it left.

    The text is in a file that nobody else can read, and that is gone when this returns or raises: ``OSError``
    where the editor cannot be started or has removed the file, ``ValueError`` where what it left is no UTF-8.
    """
    folder = tempfile.mkdtemp(prefix="brida-")
    try:
        path = Path(folder, "arguments.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        code = await run_program([*command, str(path)])
        return code, path.read_text("utf-8-sig")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def run_program(command: Sequence[str], feed: str | None = None) -> int:
    """Runs a program that has the terminal; gives its exit code, or the signal that ended it, negative.

    ``feed`` is what it reads from its standard input; without it, it reads the terminal. Raises ``OSError``
    where it cannot be started. No shell reads the command.
    """
    with modes.kept(_INPUT), _signals_are_its_own():
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=None if feed is None else asyncio.subprocess.PIPE,
            stdout=_OUTPUT,
            env=_environment(),
        )
        try:
            await process.communicate(None if feed is None else _encoded(feed))
        finally:
            if process.returncode is None:
                await _end(process)
        return process.returncode or 0


def _encoded(text: str) -> bytes:
    return text.encode(getattr(sys.stderr, "encoding", None) or "utf-8", "backslashreplace")


async def _end(process: asyncio.subprocess.Process) -> None:
    for end in (process.terminate, process.kill):
        with suppress(ProcessLookupError):
            end()
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), ENDING)
            return


@contextmanager
def _signals_are_its_own() -> Iterator[None]:
    """Ctrl-C and Ctrl-backslash do nothing to us. They are caught and not ignored, which is inherited."""
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGQUIT") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []  # only there can a handler be set
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
