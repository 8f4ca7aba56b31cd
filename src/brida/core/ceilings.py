"""Limits of tokens and money as ceilings: no request leaves that might not fit what is left.

What a request may come to is known before it leaves: its input at the highest price that may apply, and
``max_tokens`` of output. Where that does not fit, ``max_tokens`` is lowered to what does; below a minimum
the run stops.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from brida.core.ledger import OVERHEAD, Account, Reserve
from brida.core.limits import Limits
from brida.core.prices import TOKENS, Number, Prices
from brida.core.request import Head
from brida.core.state import State
from brida.core.stops import Stop

SMALLEST_REPLY: Final = 1_024
"""Tokens below which ``max_tokens`` is not lowered, unless less was asked for."""

NO_ROOM: Final = -1
"""What is left where nobody can count."""

CLOSING_REQUEST: Final = 2_048
"""Tokens of what the request for a closing reply adds, at most: its text, and what closes the open calls."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """One limit: what may be spent still, in the money of ``prices``. ``facts`` say which, and how much."""

    kind: str
    prices: Prices
    left: Number
    facts: Mapping[str, object]

    def stop(self, needed: Number, more: Mapping[str, object]) -> Stop:
        """The stop where the least that a request may come to is ``needed``, and does not fit."""
        short = {"needed": plain(needed), "short": plain(needed - self.left)}
        return Stop(self.kind, {**self.facts, **short, **more})


def plain(amount: Number) -> int | float:
    """An amount as JSON has it: what is said of a stop is for reading, not for adding."""
    return float(amount) if isinstance(amount, Decimal) else amount


def ceilings(state: State, limits: Limits) -> Iterator[Ceiling]:
    """Every limit that a request must fit: the run's own, and those that it shares."""
    ledger = state.ledger
    if limits.max_tokens_total is not None:
        yield _of("token_budget", TOKENS, ledger.tokens, limits.max_tokens_total)
    if limits.cost is not None:
        yield _of("cost_budget", ledger.prices, ledger.cost, limits.cost)
    for one in state.left:
        which = {"budget": one.name} if one.name else {"of": "parent"}
        if one.tokens is not None:
            facts: dict[str, object] = {"limit": plain(one.tokens), "used": 0, **which}
            yield Ceiling("token_budget", TOKENS, one.tokens, facts)
        if one.cost is not None:
            limit = one.cost if one.limit is None else one.limit
            facts = {"limit": plain(limit), "used": plain(limit - one.cost), **which}
            left = NO_ROOM if ledger.prices is None else one.cost
            yield Ceiling("cost_budget", ledger.prices or TOKENS, left, facts)


def _of(kind: str, prices: Prices | None, account: Account | None, limit: Number) -> Ceiling:
    if prices is None or account is None:  # what nobody can count fits nowhere
        return Ceiling(kind, TOKENS, NO_ROOM, {"limit": plain(limit), "used": 0, "unknown_price": True})
    facts: dict[str, object] = {"limit": plain(limit), "used": plain(account.taken)}
    if account.held:
        facts["held"] = plain(account.held)
    return Ceiling(kind, prices, limit - account.taken, facts)


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Stops a run of which not even the smallest next request fits the limits of tokens and money.

    Belongs to the request gate and the turn gate: results that could never be sent are not made. The
    request for a closing reply is held back from both.
    """

    limits: Limits

    def __call__(self, state: State) -> Stop | None:
        fits = largest(state, self.limits, state.head, state.max_tokens)
        return fits if isinstance(fits, Stop) else None


def largest(state: State, limits: Limits, head: Head, wanted: int, *, closing: bool = False) -> int | Stop:
    """The largest ``max_tokens`` up to ``wanted`` of a request that fits; the stop where none does."""
    known = list(ceilings(state, limits))
    if not known:
        return wanted
    need = _Need(state, head, None if closing else limits.closing_reply, closing)
    least = smallest_reply(state, wanted, closing=closing)
    for one in known:
        if need.of(one.prices, least) > one.left:
            return one.stop(need.of(one.prices, least), _more(state, limits, closing))
    fitting = wanted
    for one in known:
        if need.of(one.prices, fitting) <= one.left:
            continue
        low, high = least, fitting
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if need.of(one.prices, middle) <= one.left else (low, middle)
        fitting = low
    return fitting


def smallest_reply(state: State, wanted: int, *, closing: bool) -> int:
    """The least ``max_tokens`` that makes sense: more than was cut, and more than the model may think."""
    least = min(SMALLEST_REPLY, state.started.max_tokens, wanted)
    if state.truncated_at is not None and not closing:
        least = max(least, state.truncated_at + 1)
    thinking = (state.started.extra or {}).get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return max(least, budget + 1) if isinstance(budget, int) else least


def _more(state: State, limits: Limits, closing: bool) -> dict[str, object]:
    facts: dict[str, object] = {}
    if limits.closing_reply is not None and not closing:
        facts["held_back"] = limits.closing_reply
    if state.truncated_at is not None:
        facts["truncated_at"] = state.truncated_at
    return facts


@dataclass(frozen=True, slots=True)
class _Need:
    """What the next request may come to, with the closing reply that must still be possible after it."""

    state: State
    head: Head
    held_back: int | None
    closing: bool

    def of(self, prices: Prices, max_tokens: int) -> Number:
        """The most that it comes to where the reply has ``max_tokens`` at most."""
        size = input_bound(self.state, self.head, closing=self.closing)
        amount = _worst(prices, self.head, size, max_tokens)
        if self.held_back is None:
            return amount
        return amount + _worst(prices, self.head, size + max_tokens + CLOSING_REQUEST, self.held_back)


def _worst(prices: Prices, head: Head, size: int, max_tokens: int) -> Number:
    return prices.worst(size, max_tokens, cached=head.cached, for_an_hour=head.for_an_hour)


def closing_reply(state: State, limits: Limits, prices: Prices) -> Number:
    """The most that a closing reply may come to as things stand; 0 where none is wanted."""
    if limits.closing_reply is None:
        return 0
    size = input_bound(state, state.head, closing=True) + CLOSING_REQUEST
    return _worst(prices, state.head, size, limits.closing_reply)


def input_bound(state: State, head: Head, *, closing: bool = False) -> int:
    """Tokens that the next request has at most, all but its output. Never below what a server counts."""
    bound = state.ledger.input_bound(state.history.weight, len(head.encoded))
    return bound + OVERHEAD if closing else bound


def reserve(state: State, head: Head, max_tokens: int) -> Reserve:
    """What is reserved for a request of ``max_tokens``."""
    size = input_bound(state, head, closing=state.closing is not None)
    prices = state.ledger.prices
    return Reserve(size, max_tokens, None if prices is None else _worst(prices, head, size, max_tokens))
