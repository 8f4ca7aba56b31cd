"""What a journal is: the events of runs, in order, each run written by one process at a time.

The events are the truth. What else a journal holds can be made from them again. Whoever wants to write
to a run holds it; every append is fenced by an epoch, so a process that lost its hold while it slept
changes nothing when it wakes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal, Protocol, TypeAlias

from brida.core.events import Event
from brida.core.state import State

DURABLE: Final = frozenset(
    (
        *("Started", "Said", "Sent", "Asked", "Answered", "Edited", "CallStarted", "CallFinished"),
        *("Reconciled", "Closing", "StopRequested", "Stopped", "Resumed"),
    )
)
"""Kinds of events that are on the disk before anything else is done: they survive a loss of power. The
others survive the death of the process; what they say can be had again."""

MessageKind: TypeAlias = Literal["steer", "stop"]


@dataclass(frozen=True, slots=True)
class Record:
    """One event and its number in the run, from 1 on, without gaps."""

    seq: int
    event: Event


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that holds a run; ``since`` is in seconds since the epoch."""

    pid: int
    host: str
    since: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run at a glance. ``stop``: the kind of its last stop, None where it has none.

    ``task``: the beginning of the first text. ``owner``: the process that holds it now. Times are in
    seconds since the epoch. Counts lag behind the events by the last ones, until the run stops.
    """

    run_id: str
    created: float
    updated: float
    task: str
    stop: str | None
    turns: int
    requests: int
    tokens: int
    model: str
    last_seq: int
    owner: Owner | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it has stopped and waits for nobody."""
        return self.stop not in (None, "waiting")

    @property
    def is_over(self) -> bool:
        """Whether it has ended, and no process works on it."""
        return self.has_ended and self.owner is None


@dataclass(frozen=True, slots=True)
class Message:
    """What another process has to say to a run, and it has not heard."""

    id: int
    at: float
    kind: MessageKind
    text: str
    by: str


Period: TypeAlias = Literal["day", "week", "month", "total"]
"""How often a budget begins again, by the calendar of UTC: processes of one journal may have other clocks."""


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """A budget that runs share, in US dollars.

    ``period``: the one it is in now, such as ``"2026-12-01"``, ``"2026-W49"``, ``"2026-12"``, ``"total"``;
    ``ends``: when that is over, in seconds since the epoch, None for never. ``reserved``: for requests under
    way, and for those of which nobody could say what they came to.
    """

    name: str
    limit: Decimal
    per: Period
    period: str
    spent: Decimal
    reserved: Decimal
    created: float
    ends: float | None = None

    @property
    def left(self) -> Decimal:
        """What a request may take still."""
        return max(Decimal(0), self.limit - self.spent - self.reserved)


@dataclass(frozen=True, slots=True)
class SharedReserve:
    """US dollars to be reserved in every one of these budgets, together with the events, or not at all."""

    names: tuple[str, ...]
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Settle:
    """What the open reserve of the run becomes for good, in the period it was made in."""

    amount: Decimal


Charge: TypeAlias = SharedReserve | Settle


class Writer(Protocol):
    """The hold of one process on one run. Used from one thread."""

    @property
    def run_id(self) -> str:
        """The run that is held."""
        ...

    @property
    def epoch(self) -> int:
        """How often the run has been held, this time included."""
        ...

    def append(
        self,
        events: Sequence[Event],
        state: State,
        *,
        taken: Iterable[int] = (),
        charge: Charge | None = None,
    ) -> None:
        """Keeps the events, all or none; ``state`` is the run's before them.

        ``taken``: the messages that became these events. ``charge``: what shared budgets pay with them.
        Durable where one of the events is :data:`DURABLE`, or where there is a charge.

        Raises :class:`BudgetExceeded` where a budget has not so much left, :class:`UnknownBudget`, and
        :class:`JournalError` where nothing could be kept: nothing is then. Raises :class:`LeaseLost` where
        another process holds the run by now: the events are kept as late, and nothing else changes.
        """
        ...

    def inbox(self) -> tuple[Message, ...]:
        """The messages that were not taken yet, oldest first."""
        ...

    def release(self) -> None:
        """Gives the run up. More than once does no harm."""
        ...


class Journal(Protocol):
    """A place for the events of many runs. May be used from several threads."""

    def begin(self, run_id: str) -> Writer:
        """Holds a new run. The journal learns of it with the first append. Raises :class:`JournalError` where
        there is such a run already.
        """
        ...

    def hold(self, run_id: str, *, take_over: bool = False) -> Writer:
        """Holds a run. Raises :class:`RunBusy` where a process that lives holds it, unless ``take_over``;
        :class:`UnknownRun`.
        """
        ...

    def read(self, run_id: str) -> tuple[Record, ...]:
        """All events of a run. Raises :class:`Damaged`, :class:`NewerRecord`, :class:`UnknownRun`."""
        ...

    def runs(self) -> list[RunRow]:
        """All runs, the one that was updated last first."""
        ...

    def find(self, prefix: str) -> str:
        """The id that begins so, where only one does; ``"-"`` is the run updated last. Raises
        :class:`UnknownRun`.
        """
        ...

    def post(self, run_id: str, kind: MessageKind, text: str, by: str) -> None:
        """Leaves a message for the process that holds the run, or will."""
        ...

    def late(self, run_id: str) -> tuple[Record, ...]:
        """What processes that had lost their hold still had to say; ``seq`` numbers these alone."""
        ...

    def remove(self, run_id: str) -> None:
        """Forgets a run. Raises :class:`RunBusy` where a process holds it, :class:`UnknownRun`."""
        ...

    def sweep(self, *, before: float) -> list[str]:
        """Forgets the runs that have stopped, wait for nobody and were not updated since ``before``; their
        ids. Gives the room back where nobody else uses the journal.
        """
        ...

    def budgets(self) -> list[BudgetRow]:
        """All budgets, by name."""
        ...

    def budget(self, name: str) -> BudgetRow:
        """The budget as it stands now. Raises :class:`UnknownBudget`."""
        ...

    def create_budget(self, name: str, limit: Decimal, per: Period) -> None:
        """A new budget. Raises :class:`WrongBudget` where there is one, or where a value makes no sense."""
        ...

    def change_budget(self, name: str, limit: Decimal) -> None:
        """Another limit for a budget. Raises :class:`UnknownBudget`, :class:`WrongBudget`."""
        ...

    def remove_budget(self, name: str) -> None:
        """Forgets a budget. Raises :class:`UnknownBudget`."""
        ...

    def rebuild(self) -> None:
        """Makes the table of runs again from the events."""
        ...
