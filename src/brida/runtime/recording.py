"""What a run learns: every fact becomes an event, kept before anything is done that needs it.

Also what it hears from outside: texts for the model, a wish that it stop, and what is left of the budgets
that it shares with others.
"""

import asyncio
from collections import deque
from dataclasses import replace
from typing import Final

from brida.core.events import (
    BudgetsRead,
    Event,
    Resumed,
    Said,
    Sent,
    Started,
    StopRequested,
)
from brida.core.ledger import Reserve
from brida.core.state import State, fold
from brida.core.stops import Stop
from brida.core.turn import Phase
from brida.errors import BudgetExceeded, ConfigurationError, JournalError, UnknownBudget
from brida.models.base import Delta, Waiting
from brida.runtime.accounts import NOTHING_SPENT, Accounts, Spent
from brida.runtime.attention import Attention, Reason, Urgency
from brida.runtime.keeping import Keeper
from brida.runtime.masked import masked
from brida.runtime.work import Work, wall_clock
from brida.tools.text import clean

LISTENING: Final = 0.2
"""Seconds between two looks at what other processes have to say to the run."""


class Recorder:
    """The part of a driver that learns, and tells."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._clock = work.clock or wall_clock()
        self._not_before = 0.0
        self._listener = work.listener
        self._cause: BaseException | None = None
        self._heard: deque[str] = deque()
        self._attention = Attention()
        self._keeper = Keeper(work.writer)
        begins = work.begins
        self._events: list[Event] = [] if isinstance(begins, Started) else list(begins)
        if isinstance(begins, Started):
            self._state = State(replace(begins, at=self._now()))
        else:
            self._state = fold(begins)
        self._not_before = self._state.at
        self._accounts = Accounts(self.id, work.journal, self._state.started.budgets, work.above)

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._state.started.run_id

    @property
    def unheard(self) -> tuple[str, ...]:
        """Texts of :meth:`steer` that came too late: the run had ended."""
        return tuple(self._heard)

    def steer(self, text: str) -> None:
        """Says something while the run works: the model reads it after the results of the current turn.

        May be called from any thread. Where the run ends before it is heard, it is in :attr:`unheard`.
        Raises ``TypeError`` or ``ValueError`` for what is no text that says anything.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected a text, got {type(text).__name__}")
        if not text.strip():
            raise ValueError("text: expected a text that says something, got a blank one")
        self._heard.append(clean(text))

    # -- what is learned

    def _commit(self, *events: Event) -> bool:
        """Records what must be known before a step is done; False where that cannot be.

        Then the run ends, or the budgets that it shares have less left by now, and it looks again.
        """
        stamped = self._stamped(events)
        reserve = next((one.reserve for one in stamped if isinstance(one, Sent)), None)
        if reserve is not None and self._accounts.shared:
            return self._commit_shared(stamped, reserve)
        if not self._keeper.keep(stamped, self._state):
            self._give_up()
            return False
        self._learn(stamped)
        return True

    def _commit_shared(self, stamped: tuple[Event, ...], reserve: Reserve) -> bool:
        """As :meth:`_commit`, where others pay too. Whoever stands above reserves first: should the process
        die in between, more is held than was sent, never less.
        """
        if not self._accounts.may_send(reserve):
            return False
        told = self._accounts.sent(reserve)
        try:
            kept = told and self._keeper.keep(stamped, self._state, charge=self._accounts.charge_of(reserve))
        except (BudgetExceeded, UnknownBudget):  # the next look says so
            kept = False
        if not kept:
            self._accounts.settled(NOTHING_SPENT)
            self._give_up()
            return False
        self._learn(stamped)
        return True

    def _record(self, *events: Event, taken: tuple[int, ...] = ()) -> None:
        """Records what has happened: the run learns it, whether it can be kept or not."""
        stamped = self._stamped(events)
        before = self._state.ledger
        first, spent = stamped[0] if stamped else None, None
        if first is not None and self._accounts.shared:
            after = self._state.settled_by(first)
            if after is not before:
                spent = Spent.between(before, after, self._state.usage_by(first))
        charge = None if spent is None else self._accounts.charge_for(spent)
        kept = self._keeper.keep(stamped, self._state, taken, charge)
        self._learn(stamped)
        if spent is not None and not isinstance(first, Resumed):
            self._accounts.settled(spent)  # of what died with its process, all is held above already
        if not kept:
            self._give_up()

    def _stamped(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        return tuple(masked(replace(event, at=self._now()), self._work.mask) for event in events)

    def _learn(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._state.apply(event)
            self._events.append(event)
            self._tell(event)

    def _give_up(self) -> None:
        """The journal keeps nothing any more: nothing else is begun."""
        if self._state.stop is None and self._keeper.error is not None:
            self._request_stop(self._keeper.error)

    def _hear(self) -> None:
        """What was said to the run while it worked becomes part of it."""
        while self._heard and self._state.stop is None:
            self._record(Said(self._now(), self._heard.popleft(), steering=True))
        for message in self._keeper.messages():
            if message.kind == "stop":
                stop = Stop("stopped", {"reason": clean(message.by)})
                self._record(StopRequested(self._now(), stop), taken=(message.id,))
            elif self._state.stop is None:
                self._record(Said(self._now(), clean(message.text), steering=True), taken=(message.id,))

    def _read_budgets(self) -> None:
        """What is left of the shared budgets, before each gate that asks for it."""
        state = self._state
        gate = state.phase is Phase.READY or (state.phase is Phase.TURN and not state.turn_open)
        ends = state.stop or state.stop_requested or self._keeper.error
        if ends or not (self._accounts.shared and gate):
            return None
        try:
            left = self._accounts.read()
        except UnknownBudget as error:
            return self._request_stop(Stop("stopped", {"reason": clean(str(error))}))
        except JournalError as error:
            self._keeper.fail(error)
            return self._give_up()
        if left != state.left:
            self._record(BudgetsRead(self._now(), left))
        return None

    async def _listen(self) -> None:
        """Calls the run away where another process stops it."""
        while True:
            await asyncio.sleep(LISTENING)
            if any(message.kind == "stop" for message in self._keeper.messages()):
                self._hear()
                self._attention.raise_to(Urgency.SOFT)

    def _tell(self, what: Event | Delta | Waiting) -> None:
        if self._listener is None:
            return
        try:
            self._listener(what)
        except BaseException as error:
            self._listener = None
            self._fail("listener", error)

    def _fail(self, where: str, error: BaseException) -> None:
        """A hook, a model or a listener is broken: the run ends for it, its history whole."""
        if self._state.stop is not None:
            return  # the run is over already
        self._cause = error
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, ConfigurationError):
            words = str(error).removeprefix(f"{where}: ")
        facts = {"where": where, "error": clean(" ".join(words.split()))}
        self._request_stop(Stop("configuration_error", facts))

    def _request_stop(self, stop: Stop) -> None:
        self._record(StopRequested(self._now(), stop))

    def _let_time_pass(self, reason: Reason | None, seconds: float | None) -> None:
        """Where a timer of the deadline rang, no event after it may be stamped before it."""
        if reason == "time" and seconds is not None:
            self._not_before = self._state.at + seconds

    def _now(self) -> float:
        return max(self._clock(), self._not_before)
