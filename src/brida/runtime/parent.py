"""What a run is to the runs that its calls start: they spend what it has left, and stop when it stops."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from brida.core.events import ChildSent, ChildSettled, Event
from brida.core.ledger import Left, Reserve
from brida.core.state import State
from brida.core.turn import Phase
from brida.runtime.accounts import NO_ROOM, Spent, fits, room_in
from brida.runtime.attention import Urgency
from brida.runtime.recording import Recorder
from brida.runtime.work import Work

if TYPE_CHECKING:
    from brida.runtime.local import LocalRun
    from brida.runtime.outcome import Outcome


class Parent(Recorder):
    """The part of a driver that other runs see which its calls have started. See :class:`Above`."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._children: set[LocalRun[Any]] = set()

    @property
    def work(self) -> Work:
        """What the run was made of."""
        return self._work

    @property
    def state(self) -> State:
        """What the run knows; not to be changed."""
        return self._state

    @property
    def events(self) -> tuple[Event, ...]:
        """What it has learned so far."""
        return tuple(self._events)

    def room(self) -> Left:
        """See :class:`Above`."""
        if self._state.phase is not Phase.TURN or self._state.stop_requested or self._state.stop:
            return NO_ROOM
        left = room_in(self._state, self._work.env.limits)
        above = None if self._work.above is None else self._work.above.room()
        if above is None:
            return left
        tokens = [one for one in (left.tokens, above.tokens) if one is not None]
        cost = [one for one in (left.cost, above.cost) if one is not None]
        return Left("", min(tokens, default=None), min(cost, default=None))

    def child_may_send(self, reserve: Reserve) -> bool:
        """See :class:`Above`."""
        return fits(reserve, self.room())

    def child_sent(self, run_id: str, reserve: Reserve) -> bool:
        """See :class:`Above`."""
        self._record(ChildSent(self._now(), run_id, reserve.tokens, reserve.cost))
        above = self._work.above is None or self._work.above.child_sent(run_id, reserve)
        return above and self._keeper.error is None

    def child_settled(self, run_id: str, spent: Spent) -> None:
        """See :class:`Above`."""
        if self._state.stop is None:
            held = spent.held_tokens, spent.held_cost
            self._record(ChildSettled(self._now(), run_id, spent.usage, spent.cost, *held))
        if self._work.above is not None:
            self._work.above.child_settled(run_id, spent)

    async def outcome_of(self, child: "LocalRun[Any]") -> "Outcome[Any]":
        """How a run ends that a call of this one started. Where this one stops, so does that."""
        self._children.add(child)
        try:
            waiting = asyncio.ensure_future(child)
            leaving = self._attention.reached(Urgency.SOFT)
            await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                child.interrupt()
            outcome: Outcome[Any] = await waiting
            return outcome
        except asyncio.CancelledError:
            child.cancel()
            raise
        finally:
            if child.ended:
                self._children.discard(child)

    async def _end_children(self) -> None:
        """Nothing that this run has started outlives it."""
        for child in tuple(self._children):
            child.cancel()
        for child in tuple(self._children):
            await child.end()
        self._children.clear()


_running: Final[ContextVar[Parent]] = ContextVar("brida_run")


def running_run() -> Parent | None:
    """The run in whose call this code runs; None outside one."""
    return _running.get(None)


@contextmanager
def running(run: Parent) -> Iterator[None]:
    """Makes ``run`` the one that is running, for what the block starts."""
    token = _running.set(run)
    try:
        yield
    finally:
        _running.reset(token)
