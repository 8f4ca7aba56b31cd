"""How far a run may go."""

from dataclasses import dataclass
from decimal import Decimal
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far a run may go. ``None`` switches a limit off, where it can be.

    ``max_turns``: turns of tool calls; turn ``max_turns + 1`` is never started; 0 lets the model answer
    but never run a tool. ``max_requests``: requests to the model, by default 4 x ``max_turns`` + 14;
    attempts of one request count once. ``max_attempts``: attempts of one request, the first included.
    These three cannot be off. ``max_calls``: calls of a run, all calls of a turn counted before it
    starts. ``max_pauses``: paused replies sent back.

    ``max_tokens_total``: tokens, input (prompt cache included) plus output, of all requests together;
    ``max_cost``: US dollars, likewise (a float is taken as it is written). Both are ceilings: a request that
    might not fit is not sent, and the runs that a run starts count in its own. ``server_tools``: whether,
    with a ``max_cost``, replies may be asked for whose price is bounded by nothing, since the server runs
    tools meanwhile.

    ``deadline``: seconds, not counting the time spent waiting for a person, nor that between attempts where
    ``deadline_counts_waits`` is False. ``wait_rate_limit``: seconds for which a rate limit is waited out,
    beside the attempts; None is off. ``no_progress``: whether a run that walks in place is stopped.
    ``closing_reply``: tokens of one more reply that is asked for when the turns, the tokens or the money are
    used up, held back from those; None asks for none. ``max_depth``: how many runs deep a run may start
    others. A value that makes no sense raises ``ValueError``.
    """

    max_turns: int = 8
    max_requests: int | None = None
    max_attempts: int = 6
    max_calls: int | None = 64
    max_pauses: int | None = 10
    max_tokens_total: int | None = 40_000
    max_cost: Decimal | float | str | None = None
    deadline: float | None = None
    no_progress: bool = True
    closing_reply: int | None = None
    wait_rate_limit: float | None = None
    deadline_counts_waits: bool = True
    server_tools: bool = False
    max_depth: int = 2

    def __post_init__(self) -> None:
        smallest = {"max_requests": 1, "max_attempts": 1, "max_tokens_total": 1, "closing_reply": 1}
        for name in (
            "max_turns",
            "max_requests",
            "max_attempts",
            "max_calls",
            "max_pauses",
            "max_tokens_total",
            "closing_reply",
            "max_depth",
        ):
            value, least = getattr(self, name), smallest.get(name, 0)
            if value is None and name not in ("max_turns", "max_attempts", "max_depth"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
        if self.max_cost is not None:
            object.__setattr__(self, "max_cost", _dollars(self.max_cost))
        for name in ("deadline", "wait_rate_limit"):
            value = getattr(self, name)
            if value is not None and not _is_positive(value):
                raise ValueError(f"{name}: expected a number of seconds above 0, got {value!r}")
        for name in ("no_progress", "deadline_counts_waits", "server_tools"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name}: expected True or False, got {getattr(self, name)!r}")
        if self.max_tokens_total is not None and (self.closing_reply or 0) >= self.max_tokens_total:
            raise ValueError(
                f"closing_reply: {self.closing_reply} tokens leave nothing of max_tokens_total, which is "
                f"{self.max_tokens_total}"
            )

    @property
    def cost(self) -> Decimal | None:
        """``max_cost`` as an exact number."""
        return self.max_cost if isinstance(self.max_cost, Decimal) else None

    @property
    def requests(self) -> int:
        """``max_requests``, or what follows from ``max_turns`` where it was not given."""
        return 4 * self.max_turns + 14 if self.max_requests is None else self.max_requests


def _dollars(value: object) -> Decimal:
    """The number as it is written: 0.1 is a tenth, not the float next to it."""
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        number = Decimal("NaN")
    if isinstance(value, bool) or not number.is_finite() or number < 0:
        raise ValueError(f"max_cost: expected US dollars, from 0, got {value!r}")
    return number


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < inf
