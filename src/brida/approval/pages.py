"""Long texts for a person: in their own pager, or page by page."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from brida.approval import edits, programs
from brida.core.wording import Say

T = TypeVar("T")

_QUIET: Final = (0, *programs.INTERRUPTED, -getattr(signal, "SIGPIPE", 0))
"""How a pager ends that did its work, as far as the person wanted it."""


@dataclass(frozen=True, slots=True)
class Pages:
    """Shows rows to a person. ``line(text)`` shows a text and gives what is typed after it."""

    say: Say
    write: Callable[[str], None]
    line: Callable[[str], Awaitable[str]]
    environ: Mapping[str, str]

    async def show(self, make: Callable[[], list[str]]) -> None:
        """Shows what ``make`` gives, which runs in a thread: at once where it fits, else by pages.

        The rows are safe for a terminal already. Raises what ``make`` and ``line`` raise.
        """
        rows = await _in_thread(make)
        if len(rows) < _height() - 4:
            self.write("\n".join(rows) + "\n")
        elif not await self._in_pager(rows):
            await self._by_hand(rows)

    async def _in_pager(self, rows: list[str]) -> bool:
        """Whether the person's pager has shown them."""
        pager = programs.pager_of(self.environ)
        if not pager:
            return False
        try:
            code = await programs.run_program(pager, "\n".join(rows) + "\n")
        except OSError as error:
            why = str(error)
        else:
            if code in _QUIET:
                return True
            why = self.say("exit code {code}", code=code)
        text = self.say("the pager {pager} did not work: {error}", pager=pager[0], error=why)
        self.write(edits.shown(text) + "\n")
        return False

    async def _by_hand(self, rows: list[str]) -> None:
        size = max(4, _height() - 2)
        for start in range(0, len(rows), size):
            end = min(len(rows), start + size)
            page = "\n".join(rows[start:end]) + "\n"
            if end == len(rows):
                self.write(page)
                return
            ask = self.say("-- {end} of {count} rows: [Enter] more · q enough", end=end, count=len(rows))
            if (await self.line(f"{page}{ask}\n")).lower() == "q":
                return


def _height() -> int:
    """Lines of the terminal."""
    try:
        return max(8, os.get_terminal_size(sys.stderr.fileno()).lines)
    except (OSError, ValueError, AttributeError):
        return 24


async def _in_thread(make: Callable[[], T]) -> T:
    """What ``make`` gives, from a thread that nobody waits for at the end of the process."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(act: Callable[[], None]) -> None:
        if not done.done():
            act()

    def work() -> None:
        try:
            value = make()
        except BaseException as raised:
            error = raised
            act = lambda: done.set_exception(error)  # noqa: E731
        else:
            act = lambda: done.set_result(value)  # noqa: E731
        with suppress(RuntimeError):  # the loop is closed: nobody waits for this any more
            loop.call_soon_threadsafe(settle, act)

    threading.Thread(target=work, name="brida approval", daemon=True).start()
    return await done
