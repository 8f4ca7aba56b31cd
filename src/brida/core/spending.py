"""What each request of a run came to, and which tool's results it carried: made from the events alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from brida.core.encoding import encode
from brida.core.events import ChildSettled, Event, Received, Sent, Started
from brida.core.ledger import OWN, Ledger
from brida.core.prices import Number, Prices
from brida.core.state import State
from brida.core.usage import COUNTERS, Usage


@dataclass(frozen=True, slots=True)
class Amount:
    """Tokens and US dollars. ``cost`` is None where a price is not known; ``held``: what may have been spent
    besides, by attempts of which nobody knows what they came to.
    """

    usage: Usage = field(default_factory=Usage)
    cost: Number | None = 0
    held: Number = 0

    def __add__(self, other: "Amount") -> "Amount":
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Amount(self.usage + other.usage, cost, self.held + other.held)


@dataclass(frozen=True, slots=True)
class RequestSpent:
    """One request of a run, all its attempts together. ``number``: as the trace counts replies, from 1.

    ``reads``: the tools whose results it carried to the model, each with its share of their bytes; none where
    it carried a person's text. ``at``: when it was first sent, which event ``seq`` says, counted from 1.
    """

    number: int
    seq: int
    at: float
    amount: Amount
    reads: Mapping[str, float]
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Spending:
    """What a run spent itself, by request and by tool; ``children``: what the runs that it started did.

    A request counts for the tools whose results it read, by their size: what a large result costs is seen
    where it was paid for. ``saved``: US dollars that the prompt cache saved, below 0 where it cost more than
    it saved; None where a price is not known.
    """

    requests: tuple[RequestSpent, ...] = ()
    tools: Mapping[str, Amount] = field(default_factory=dict)
    children: Amount = field(default_factory=Amount)
    saved: Number | None = 0

    @property
    def own(self) -> Amount:
        """All requests of the run itself."""
        return sum((one.amount for one in self.requests), Amount())


def spending(events: Iterable[Event]) -> Spending:
    """What the events say of it. Raises ``ValueError`` as :func:`brida.core.state.fold` does."""
    book: _Book | None = None
    for event in events:
        if book is None:
            if not isinstance(event, Started):
                raise ValueError("events: a run begins with Started")
            book = _Book(State(event))
        else:
            book.enter(event)
    return Spending() if book is None else book.closed()


class _Book:
    def __init__(self, state: State) -> None:
        self.state = state
        self.requests: list[RequestSpent] = []
        self.children = Amount()
        self.saved: Number | None = 0
        self.replies, self.seq = 0, 1
        self.reads: dict[str, float] = {}

    def enter(self, event: Event) -> None:
        state, self.seq = self.state, self.seq + 1
        if isinstance(event, Sent) and not state.attempts:
            self.reads = _shares(state, self.reads)
            closing = state.closing is not None
            self.requests.append(
                RequestSpent(self.replies + 1, self.seq, event.at, Amount(), self.reads, closing)
            )
        before = state.ledger
        settled, usage = state.settled_by(event), state.usage_by(event)
        state.apply(event)
        if isinstance(event, ChildSettled):
            self.children += Amount(event.usage, event.cost, event.held_cost)
        elif settled is not before:
            self._settle(before, settled, usage)
        if isinstance(event, Received):
            self.replies += 1

    def _settle(self, before: Ledger, after: Ledger, usage: Usage) -> None:
        cost, held = after.learned_since(before)
        last = self.requests[-1]
        self.requests[-1] = replace(last, amount=last.amount + Amount(usage, cost, held))
        if after.prices is None or cost is None or self.saved is None:
            self.saved = None
        else:
            self.saved += without_cache(usage, after.prices) - after.prices.cost(usage)

    def closed(self) -> Spending:
        account = self.state.ledger.cost
        under_way = 0 if account is None else account.open.get(OWN, 0)
        if self.requests and under_way:  # its process works on it still, or died: it may all be spent
            last = self.requests[-1]
            self.requests[-1] = replace(last, amount=last.amount + Amount(held=under_way))
        tools: dict[str, Amount] = {}
        for one in self.requests:
            for tool, share in one.reads.items():
                tools[tool] = tools.get(tool, Amount()) + part(one.amount, share)
        return Spending(tuple(self.requests), tools, self.children, self.saved)


def without_cache(usage: Usage, prices: Prices) -> Number:
    """What the usage would have come to had nothing been written to the prompt cache or read from it."""
    plain = Usage(usage.input, usage.output_tokens, web_searches=usage.web_searches)
    return prices.cost(plain)


def _shares(state: State, before: dict[str, float]) -> dict[str, float]:
    """The tools whose results the next request carries, with their shares of the bytes.

    ``before``: those of the request before, which a reply that was not kept leaves as they were.
    """
    if state.truncated_at is not None or state.malformed:
        return before
    if state.closing is not None or state.turns == 0 or not state.calls:
        return {}
    sizes: dict[str, int] = {}
    for call in state.calls.values():
        heard = call.finished.content if call.finished else call.decision.text if call.decision else ""
        sizes[call.asked.tool] = sizes.get(call.asked.tool, 0) + len(encode(heard))
    whole = sum(sizes.values())
    return {tool: size / whole for tool, size in sizes.items()}


def part(amount: Amount, share: float) -> Amount:
    """The share of an amount, from 0 to 1."""
    if share == 1:
        return amount
    counted = {name: round(getattr(amount.usage, name) * share) for name in COUNTERS}
    cost = None if amount.cost is None else amount.cost * Decimal(repr(share))
    return Amount(Usage(complete=amount.usage.complete, **counted), cost, amount.held * Decimal(repr(share)))
