"""The budgets that a run shares: those of its journal, and what the run that started it has left."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Protocol

from brida.core.ceilings import ceilings, closing_reply
from brida.core.ledger import Ledger, Left, Reserve
from brida.core.limits import Limits
from brida.core.prices import Number
from brida.core.state import State
from brida.core.usage import Usage
from brida.journal.base import Charge, Journal, Settle, SharedReserve


@dataclass(frozen=True, slots=True)
class Spent:
    """What one attempt came to: its counters, US dollars, and what of its reserve stays held."""

    usage: Usage
    cost: Number | None
    held_tokens: Number
    held_cost: Number

    @classmethod
    def between(cls, before: Ledger, after: Ledger, usage: Usage) -> "Spent":
        """What a ledger has learned of an attempt with such counters."""
        cost, held = after.learned_since(before)
        return cls(usage, cost, after.tokens.held - before.tokens.held, held)

    @property
    def whole_cost(self) -> Decimal:
        """US dollars that count for good."""
        return Decimal(self.cost or 0) + Decimal(self.held_cost)


NOTHING_SPENT: Final = Spent(Usage(), Decimal(0), 0, 0)
"""Of an attempt that was never sent."""


class Above(Protocol):
    """The run that started another, as that one sees it. Used from the event loop of both."""

    def room(self) -> Left:
        """What is left for the runs that it started; nothing once its turn is over."""
        ...

    def child_may_send(self, reserve: Reserve) -> bool:
        """Whether the reserve fits what is left, here and above."""
        ...

    def child_sent(self, run_id: str, reserve: Reserve) -> bool:
        """Reserves it, here and above; False where that could not be recorded, so that nothing may leave."""
        ...

    def child_settled(self, run_id: str, spent: Spent) -> None:
        """Settles the reserve of that run, here and above."""
        ...


@dataclass(frozen=True, slots=True)
class Accounts:
    """What the requests of one run count in besides its own limits.

    ``names``: the budgets in ``journal``. Methods that read the journal raise :class:`JournalError`.
    """

    run_id: str
    journal: Journal | None = None
    names: Sequence[str] = ()
    above: Above | None = None

    @property
    def shared(self) -> bool:
        """Whether there are any."""
        return bool(self.names) or self.above is not None

    def read(self) -> tuple[Left, ...]:
        """What is left in each now."""
        named: list[Left] = []
        for name in self.names if self.journal is not None else ():
            row = self.journal.budget(name)  # type: ignore[union-attr]
            named.append(Left(name, cost=row.left, limit=row.limit))
        return (*named, *(() if self.above is None else (self.above.room(),)))

    def may_send(self, reserve: Reserve) -> bool:
        """Whether whoever stands above lets the reserve pass."""
        return self.above is None or self.above.child_may_send(reserve)

    def sent(self, reserve: Reserve) -> bool:
        """Whether whoever stands above has recorded the reserve."""
        return self.above is None or self.above.child_sent(self.run_id, reserve)

    def settled(self, spent: Spent) -> None:
        """Tells whoever stands above."""
        if self.above is not None:
            self.above.child_settled(self.run_id, spent)

    def charge_of(self, reserve: Reserve) -> Charge | None:
        """What the journal reserves together with the record of the attempt."""
        return SharedReserve(tuple(self.names), Decimal(reserve.cost or 0)) if self.names else None

    def charge_for(self, spent: Spent) -> Charge | None:
        """What the journal settles together with the record of what came of it."""
        return Settle(spent.whole_cost) if self.names else None


NO_ROOM: Final = Left("", tokens=0, cost=0)
"""What is left above where its turn is over."""


def room_in(state: State, limits: Limits) -> Left:
    """What of a run's limits is left for the runs that it started; the budgets they share are their own.

    What a closing reply may come to is held back from them too.
    """
    left: dict[str, Number] = {}
    for one in ceilings(state, limits):
        if "budget" not in one.facts:
            rest = one.left - closing_reply(state, limits, one.prices)
            left[one.kind] = min(rest, left.get(one.kind, rest))
    return Left("", left.get("token_budget"), left.get("cost_budget"))


def fits(reserve: Reserve, room: Left) -> bool:
    """Whether the reserve fits what is left; of an unknown price nobody knows."""
    if room.tokens is not None and reserve.tokens > room.tokens:
        return False
    return room.cost is None or (reserve.cost is not None and reserve.cost <= room.cost)
