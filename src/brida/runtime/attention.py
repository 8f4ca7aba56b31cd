"""Waiting for something while listening for a stop: the one way in which a driver waits.

An operation (a request, a wait, a question, a call) runs as its own future. Whoever wants the run to
end raises the level of urgency; the deadline does the same by the clock. What is under way is then
cancelled, given a moment to end, and left behind if it does not: nothing that ignores being cancelled
can hold a run.
"""

import asyncio
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Final, Literal, TypeAlias

GRACE: Final = 1.0
"""Seconds that something cancelled gets to end before it is left behind."""

Future: TypeAlias = "asyncio.Future[Any]"
Reason: TypeAlias = Literal["time", "stop"]


class Urgency(IntEnum):
    """How urgently somebody wants the run to end."""

    NONE = 0
    SOFT = 1
    """A request, a wait or a question is abandoned; a running call is let end."""
    HARD = 2
    """The call is ended too."""
    NEVER = 3
    """No wish for an end reaches this: what waits so is never called away."""


class Attention:
    """Lets one driver wait for its operations and be called away from them.

    Belongs to one event loop. :meth:`raise_to` may be called from that loop only.
    """

    def __init__(self) -> None:
        self.urgency = Urgency.NONE
        loop = asyncio.get_running_loop()
        self._signals: dict[Urgency, Future] = {level: loop.create_future() for level in Urgency}

    def raise_to(self, level: Urgency) -> None:
        """Asks for an end at ``level``; a lower level than before changes nothing."""
        self.urgency = max(self.urgency, level)
        for at, signal in self._signals.items():
            if at <= self.urgency and not signal.done():
                signal.set_result(None)

    def reached(self, level: Urgency) -> Future:
        """Is done once the urgency has reached ``level``. Whoever waits for it does not cancel it."""
        return self._signals[level]

    async def wait(
        self, work: Iterable[Future], *, until: Urgency = Urgency.NEVER, seconds: float | None = None
    ) -> Reason | None:
        """Waits until all of ``work`` is done; gives the reason where something else came first.

        ``until``: the level at which it lets itself be called away. ``seconds``: at most so long. What
        is not done then is cancelled, and left behind where it does not end within :data:`GRACE`. Being
        cancelled from outside counts as a hard stop, so that the caller can record what happened;
        :attr:`urgency` says so.
        """
        pending = {future for future in work if not future.done()}
        signal = self._signals[until]
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while pending:
            left = None if end is None else end - loop.time()
            if signal.done() or (left is not None and left <= 0):
                await self._abandon(pending)
                return "stop" if signal.done() else "time"
            try:
                waited = await asyncio.wait(
                    {*pending, signal}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
            except asyncio.CancelledError:
                self.raise_to(Urgency.HARD)
                continue
            pending -= waited[0]
        return None

    async def _abandon(self, pending: set[Future]) -> None:
        for future in pending:
            future.cancel()
        try:
            await asyncio.wait(pending, timeout=GRACE)
        except asyncio.CancelledError:
            self.raise_to(Urgency.HARD)
        for future in pending:
            if not future.done():
                future.add_done_callback(_forget)


def _forget(future: Future) -> None:
    """Whatever a left-behind operation ends with later is nobody's business: no warning about it."""
    if not future.cancelled():
        future.exception()
