"""A child process of a tool: with the environment that it was given, and ended whole where its call is.

The child gets a process group of its own, so a signal to the group reaches what the child started too.
"""

import asyncio
import codecs
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, cast

from brida.tools.output import RESULT_LIMIT

INHERITED: Final = (
    *("PATH", "HOME", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE"),
    *("LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY", "LC_NAME", "LC_NUMERIC"),
    *("LC_PAPER", "LC_TELEPHONE", "LC_TIME"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE"),
)
"""The variables that a child has from us where it is given no other value: none of them holds a secret."""

MOMENT: Final = 0.6
"""Seconds between SIGTERM and SIGKILL: less than a run waits for a call that it ends, so it hears the end."""

DRAINING: Final = 1.0
"""Seconds after the child's end in which its output is still read, where something holds it open."""

_LAST: Final = 0.2
_LOOK: Final = 0.01


@dataclass(frozen=True, slots=True)
class Finished:
    """How a child process ended.

    ``exit_code``: negative where a signal ended it, such as -9. ``output``: what it wrote to stdout and
    stderr, in that order of time, as UTF-8; what is none becomes U+FFFD. ``dropped``: bytes that came after
    the limit.
    """

    exit_code: int
    output: str
    dropped: int = 0


async def run_process(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    environment: Mapping[str, str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    input: str | bytes | None = None,
    output_limit: int = RESULT_LIMIT,
) -> Finished:
    """Runs a program to its end, for a tool that needs one::

        @tool(impact="high", timeout=120)
        async def run_tests(folder: str) -> str:
            done = await run_process([sys.executable, "-m", "pytest", "-q", "--", folder])
            return f"exit code {done.exit_code}\\n{done.output}"

    ``arguments``: the program and its arguments; no shell reads them. ``environment``: all that the child's
    environment has, besides the variables of :data:`INHERITED` that are set here; no secret of ours is
    in it unless it is given. ``directory``: where it runs. ``input``: what its stdin holds; without it
    stdin is empty. ``output_limit``: bytes of output that are kept; the rest is counted and dropped, and the
    child is not held up.

    Waits for the child, not for what it leaves behind in the background, which lives on: where that keeps
    the output open, it is read for one more second.

    Cancelled (a timeout, the deadline, the second Ctrl-C), or where it raises, it ends the whole process
    group: SIGTERM, a moment, SIGKILL; cancelled again, SIGKILL at once. Out of its reach is what has left the
    group, as a daemon does, and on Windows whatever the child started. Where this process is killed itself,
    the child lives on until it writes to its output, which nobody reads any more, or ends by itself.

    Raises ``OSError`` where the program cannot be started, ``TypeError`` or ``ValueError`` for bad arguments.
    """
    command, data = _command(arguments), _data(input)
    child = _Child(_bytes(output_limit))
    starting = asyncio.ensure_future(
        _started(child, command, data, directory, _environment(environment or {}))
    )
    try:
        await asyncio.shield(starting)  # cancelled meanwhile, there may be a child, and it must be known
        child.say(data)
        return await child.finished()
    except BaseException:
        try:
            if not starting.done():
                await asyncio.wait([starting], timeout=MOMENT)
        finally:
            if not starting.cancel() and not starting.cancelled() and starting.exception() is None:
                await child.end()
        raise
    finally:
        await child.close()


async def _started(
    child: "_Child",
    command: Sequence[str],
    data: bytes | None,
    directory: str | os.PathLike[str] | None,
    environment: Mapping[str, str],
) -> object:
    return await asyncio.get_running_loop().subprocess_exec(
        lambda: child,
        *command,
        stdin=asyncio.subprocess.DEVNULL if data is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=directory,
        env=environment,
        start_new_session=True,
    )


def _command(arguments: Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(arguments, str | bytes):
        raise TypeError("arguments: expected a list of the program and its arguments, got one text")
    command = [os.fspath(argument) for argument in arguments]
    if not command:
        raise ValueError("arguments: expected the program to run, got nothing")
    return command


def _data(given: object) -> bytes | None:
    if not isinstance(given, str | bytes | None):
        raise TypeError(f"input: expected a text or bytes, got {type(given).__name__}")
    return given.encode() if isinstance(given, str) else given


def _bytes(limit: object) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise ValueError(f"output_limit: expected a number of bytes of at least 0, got {limit!r}")
    return limit


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    return {**{name: os.environ[name] for name in INHERITED if name in os.environ}, **given}


class _Child(asyncio.SubprocessProtocol):
    """A child, what is kept of its output, and its end. Belongs to the running loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._dropped = 0
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        loop = asyncio.get_running_loop()
        self._exited: asyncio.Future[None] = loop.create_future()
        self._silent: asyncio.Future[None] = loop.create_future()
        self._over: asyncio.Future[None] = loop.create_future()

    # -- what the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002
        room = max(0, self._limit - len(self._kept))
        self._kept += data[:room]
        self._dropped += max(0, len(data) - room)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        if fd == 1:
            _settle(self._silent)
        else:
            self._stdin = None

    def process_exited(self) -> None:
        _settle(self._exited)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        _settle(self._over)

    # -- what is asked of it

    def say(self, data: bytes | None) -> None:
        """Sends the child its input, and that there is no more."""
        if data is None or self._transport is None:
            return
        self._stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self._stdin.write(data)
        self._stdin.close()

    async def finished(self) -> Finished:
        """Waits for the end of the child, and a little for its output."""
        await self._exited
        await asyncio.wait([self._silent], timeout=DRAINING)
        assert self._transport is not None
        code = self._transport.get_returncode()
        assert code is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        output = decoder.decode(bytes(self._kept), final=not self._dropped)
        return Finished(code, output, self._dropped + len(decoder.getstate()[0]))

    async def end(self) -> None:
        """Ends the whole group: asks it to, waits a moment, kills it."""
        self._signal(signal.SIGTERM)
        try:
            await self._gone(MOMENT)
        finally:
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
            await self._gone(_LAST)

    async def close(self) -> None:
        """Lets go of the pipes, and of the child, which has ended."""
        if self._transport is not None:
            if self._stdin is not None:
                with suppress(AttributeError):  # asyncio's own, where the pipe has just closed by itself
                    self._stdin.abort()  # nobody reads what is left of the input
            self._transport.close()
            await asyncio.wait([self._over], timeout=_LAST)

    async def _gone(self, seconds: float) -> None:
        """Waits until nothing of the group is there, at most so long."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self._signal(0) and loop.time() < until:
            await asyncio.sleep(_LOOK)

    def _signal(self, number: int) -> bool:
        """Signals the group; False where nothing of it can be."""
        assert self._transport is not None
        killpg: Any = getattr(os, "killpg", None)
        if killpg is None:
            with suppress(ProcessLookupError):
                self._transport.terminate()
            return not self._exited.done()
        try:
            killpg(self._transport.get_pid(), number)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group of zombies
            return False
        return True


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
