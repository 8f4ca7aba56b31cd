"""What a run has spent, and what it may have spent: two meters, one way of counting.

Before a request leaves, the most that it can come to is reserved. Its reply settles the reserve. What
nobody can settle, as of a reply that was lost or a process that died, stays held for good: else a loop of
crashes would overspend. A run that starts others reserves for theirs in the same way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from brida.core.prices import TOKENS, Number, Prices
from brida.core.usage import Usage

OVERHEAD: Final = 1_024
"""Tokens that a server adds to a request with tools, which are in no byte of it (messages API, usage)."""

MARGIN: Final = 20
"""The share, one in so many, by which a server's own count of a request may be too low: it is an estimate."""

OWN: Final = ""
"""The key of the reserve for the run's own request; others are those of the runs that it started."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """The most that one request can come to: its tokens, and US dollars where its price is known."""

    input_tokens: int
    output_tokens: int
    cost: Number | None = None

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Account:
    """The sums of one meter. ``held``: reserves that nobody could settle. ``before``: what was spent when
    the budget was last renewed. ``open``: the reserves of requests under way.
    """

    counted: Number = 0
    held: Number = 0
    before: Number = 0
    open: Mapping[str, Number] = field(default_factory=dict)

    @property
    def spent(self) -> Number:
        """What is counted or held, since the budget was renewed."""
        return self.counted + self.held - self.before

    @property
    def taken(self) -> Number:
        """What is spent, or reserved now."""
        return self.spent + sum(self.open.values())

    def reserve(self, key: str, amount: Number) -> "Account":
        """With a reserve for the request under way of ``key``."""
        return Account(self.counted, self.held, self.before, {**self.open, key: amount})

    def settle(self, key: str, counted: Number, *, complete: bool, held: Number = 0) -> "Account":
        """With what the request came to; where that is not all of it, the rest of its reserve is held."""
        reserved = self.open.get(key, 0)
        rest = held if complete else max(held, reserved - counted)
        others = {name: amount for name, amount in self.open.items() if name != key}
        return Account(self.counted + counted, self.held + rest, self.before, others)

    def settle_all_but_own(self) -> "Account":
        """With every reserve for another run held for good."""
        others = sum(amount for key, amount in self.open.items() if key != OWN)
        own = {key: amount for key, amount in self.open.items() if key == OWN}
        return replace(self, held=self.held + others, open=own)

    def renewed(self) -> "Account":
        """With a budget of which nothing has been spent."""
        return replace(self, before=self.counted + self.held)


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that a run knows of what it spent. ``usage`` and ``cost`` include the runs that it started.

    ``cost`` is None where a price is not known. ``prompt``: what the next request holds at most, in tokens,
    as far as a server has counted it, when the history weighed ``weight``. ``children``: whether runs that it
    started have spent something.
    """

    prices: Prices | None = None
    usage: Usage = field(default_factory=Usage)
    tokens: Account = field(default_factory=Account)
    cost: Account | None = None
    prompt: int | None = None
    weight: int = 0
    children: bool = False

    @classmethod
    def of(cls, prices: Prices | None) -> "Ledger":
        """The empty ledger of a run of a model with such prices."""
        return cls(prices, cost=None if prices is None else Account())

    def input_bound(self, weight: int, head: int) -> int:
        """Tokens that the next request has at most, all but its output.

        What a server has counted already, and one token for each byte of what is new: no tokenizer makes
        more tokens than there are bytes. ``head``: bytes of what every request begins with.
        """
        if self.prompt is None:
            return weight + head + OVERHEAD
        return self.prompt + max(0, weight - self.weight)

    def reserve(self, key: str, tokens: Number, cost: Number | None) -> "Ledger":
        """With a reserve; where no price is known, for the tokens alone."""
        money = self.cost
        if money is not None and cost is not None:
            money = money.reserve(key, cost)
        return self._with(self.usage, self.tokens.reserve(key, tokens), money)

    def _with(self, usage: Usage, tokens: Account, cost: Account | None) -> "Ledger":
        return Ledger(self.prices, usage, tokens, cost, self.prompt, self.weight, self.children)

    def settle(self, usage: Usage, *, lost: bool = False) -> "Ledger":
        """With what the run's own request came to; ``lost``: of its reply no more than this is known.

        A model that costs nothing runs in this process and hides no thoughts: the bytes of a whole reply
        are a bound.
        """
        cost, complete = self.cost, usage.complete
        if cost is not None and self.prices is not None:
            complete = complete or (self.prices.are_zero and not lost)
            cost = cost.settle(OWN, self.prices.cost(usage), complete=complete)
        tokens = self.tokens.settle(OWN, TOKENS.cost(usage), complete=complete)
        return self._with(self.usage + usage, tokens, cost)

    def settle_child(
        self, key: str, usage: Usage, cost: Number | None, held_tokens: Number, held_cost: Number
    ) -> "Ledger":
        """With what a request of a run that this one started came to; it has prices of its own."""
        tokens = self.tokens.settle(key, TOKENS.cost(usage), complete=True, held=held_tokens)
        summed = None
        if self.cost is not None and cost is not None:
            summed = self.cost.settle(key, cost, complete=True, held=held_cost)
        return replace(self._with(self.usage + usage, tokens, summed), children=True)

    def learned_since(self, before: "Ledger") -> tuple[Number | None, Number]:
        """US dollars counted since ``before``, None where nobody knows, and those held since."""
        if self.cost is None or before.cost is None:
            return None, 0
        return self.cost.counted - before.cost.counted, self.cost.held - before.cost.held

    def orphaned(self) -> "Ledger":
        """With the reserves of the runs it started held for good: the process died meanwhile."""
        cost = None if self.cost is None else self.cost.settle_all_but_own()
        return replace(self, tokens=self.tokens.settle_all_but_own(), cost=cost)

    def priced(self, prices: Prices) -> "Ledger":
        """With prices that were not known before; what was spent until now is priced by them.

        What runs that it started spent has other prices, so the cost stays unknown then.
        """
        if self.prices is not None:
            return self
        if self.children:
            return replace(self, prices=prices)
        dearest = prices.dearest
        held = max(dearest.output, dearest.dearest(True, True)) * self.tokens.held
        return replace(self, prices=prices, cost=Account(dearest(self.usage), held))

    def renewed(self) -> "Ledger":
        """With budgets of which nothing has been spent."""
        cost = None if self.cost is None else self.cost.renewed()
        return replace(self, tokens=self.tokens.renewed(), cost=cost)

    def shortened(self, weight: int) -> "Ledger":
        """Knowing that the history lost its end and weighs ``weight`` now: what follows is new."""
        return replace(self, weight=min(self.weight, weight))

    def counted_prompt(self, tokens: int, weight: int) -> "Ledger":
        """Knowing that the next request has ``tokens`` at most where the history weighs ``weight``."""
        return replace(self, prompt=tokens, weight=weight)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a budget that the run shares with others, when it was last looked at.

    ``name``: the budget's, or empty for what the run that started this one has left. None: no limit.
    ``limit``: of the whole budget, in US dollars, where it has a name.
    """

    name: str
    tokens: Number | None = None
    cost: Number | None = None
    limit: Number | None = None


def estimate_with_margin(tokens: int) -> int:
    """An upper bound from a server's own count of a request, which is an estimate (messages API)."""
    return tokens + tokens // MARGIN + OVERHEAD // 16
