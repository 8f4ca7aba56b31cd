"""The valves that hold the limits, and the gates that they sit at.

A valve looks at the state and says stop, or nothing. A gate is a tuple of valves at one named position
of the loop, asked in order; the first that says stop is why the run ended. A valve of your own is any
callable of this form: put it at a gate by name (``Agent(valves={"turn": [mine]})``).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from brida.core.ceilings import Ceilings
from brida.core.limits import Limits
from brida.core.state import State
from brida.core.stops import Stop

Valve: TypeAlias = Callable[[State], Stop | None]
GateName: TypeAlias = Literal["request", "turn", "between"]

REPLY_CEILING: Final = 32_768
"""Tokens up to which ``max_tokens`` grows after a cut, unless the model's own limit is smaller."""

MAX_WAIT: Final = 120.0
"""Seconds that the waits between the attempts of one request may take together."""

LONGEST_CYCLE: Final = 4

CLOSING_STOPS: Final = frozenset(("max_turns", "token_budget", "cost_budget"))
"""The stops after which a closing reply may be asked for."""


@dataclass(frozen=True, slots=True)
class Requested:
    """Stops a run that a person, a parent or a failed hook wants stopped. Asked first, at every gate."""

    def __call__(self, state: State) -> Stop | None:
        return state.stop_requested


@dataclass(frozen=True, slots=True)
class Deadline:
    """Stops a run that has worked for ``limit`` seconds. A driver also cuts off what is under way then.

    ``counts_waits``: whether the time between attempts counts.
    """

    limit: float
    counts_waits: bool = True

    def __call__(self, state: State) -> Stop | None:
        used = worked(state, counts_waits=self.counts_waits)
        if used < self.limit:
            return None
        return Stop.limit("deadline", limit=self.limit, used=round(used, 3))


def worked(state: State, *, counts_waits: bool) -> float:
    """Seconds that count for the deadline."""
    return state.elapsed if counts_waits else state.elapsed - state.time_waited


@dataclass(frozen=True, slots=True)
class MaxRequests:
    """Stops a run that would send request ``limit + 1``. Another attempt of a request is no new request."""

    limit: int

    def __call__(self, state: State) -> Stop | None:
        if state.attempts or state.requests < self.limit:
            return None
        return Stop.limit("max_requests", limit=self.limit, used=state.requests)


@dataclass(frozen=True, slots=True)
class MaxPauses:
    """Stops a run that would send paused reply ``limit + 1`` back."""

    limit: int

    def __call__(self, state: State) -> Stop | None:
        if state.pauses <= self.limit:
            return None
        return Stop.limit("max_pauses", limit=self.limit, used=state.pauses - 1)


@dataclass(frozen=True, slots=True)
class MaxTurns:
    """Stops a run that would start turn ``limit + 1``. Belongs to the turn gate.

    Counted: replies whose ``stop_reason`` is ``tool_use`` and whose calls were decided. Not counted:
    pauses, repeats, attempts. Checked before the turn is counted, so a run of ``limit`` turns is whole.
    """

    limit: int

    def __call__(self, state: State) -> Stop | None:
        if state.turns < self.limit:
            return None
        return Stop.limit("max_turns", limit=self.limit, used=state.turns)


@dataclass(frozen=True, slots=True)
class MaxCalls:
    """Stops a run before a turn whose calls would pass ``limit``: none of that turn starts."""

    limit: int

    def __call__(self, state: State) -> Stop | None:
        wanted = state.calls_seen + len(state.calls)
        if wanted <= self.limit:
            return None
        return Stop.limit("max_calls", limit=self.limit, used=state.calls_seen, asked=len(state.calls))


@dataclass(frozen=True, slots=True)
class NoProgress:
    """Stops a run that walks in place, before it executes the turn that repeats.

    A turn repeats where its calls equal those of the turn before, as a multiset of tool and canonical
    arguments. Cycles of two to four turns repeat where two whole periods were equal in calls *and*
    results and this turn would begin the third. Where a call's tool is declared ``polls=True``, the two
    turns before must have had equal results as well; results of ``volatile=True`` tools are ignored.
    Results that differ in a timestamp alone are different results: that is not detected.
    """

    def __call__(self, state: State) -> Stop | None:
        calls, past = state.signature, state.past
        polls = any((tool := state.tools.get(name)) and tool.polls for name, _ in calls)
        if past and past[-1].calls == calls and not (polls and past[-2:-1] != past[-1:]):
            return self._stop(calls, period=1, times=sum(turn.calls == calls for turn in past))
        for period in range(2, LONGEST_CYCLE + 1):
            cycle = past[-period:]
            if len(past) >= 2 * period and cycle[0].calls == calls and past[-2 * period : -period] == cycle:
                return self._stop((call for turn in cycle for call in turn.calls), period=period, times=2)
        return None

    @staticmethod
    def _stop(calls: Iterable[tuple[str, str]], *, period: int, times: int) -> Stop:
        evidence = [{"tool": tool, "arguments": arguments[:500]} for tool, arguments in calls]
        return Stop("no_progress", {"period": period, "times": times, "calls": evidence})


@dataclass(frozen=True, slots=True)
class Gates:
    """The valves at each position: before a request, before a turn of calls, between groups of calls.

    ``closing``: before a closing reply, which is asked for although a limit of the loop is reached.
    """

    request: tuple[Valve, ...]
    turn: tuple[Valve, ...]
    between: tuple[Valve, ...]
    closing: tuple[Valve, ...] = ()

    @classmethod
    def of(
        cls,
        limits: Limits,
        *,
        request: Iterable[Valve] = (),
        turn: Iterable[Valve] = (),
        between: Iterable[Valve] = (),
    ) -> "Gates":
        """The gates of ``limits``, a caller's own valves at the end of each.

        The turn gate asks the request gate in advance: results that could never be sent are not made.
        """
        always: tuple[Valve, ...] = (Requested(),)
        if limits.deadline is not None:
            always += (Deadline(limits.deadline, limits.deadline_counts_waits),)
        budget = (Ceilings(limits),)
        pauses = () if limits.max_pauses is None else (MaxPauses(limits.max_pauses),)
        calls = () if limits.max_calls is None else (MaxCalls(limits.max_calls),)
        progress = (NoProgress(),) if limits.no_progress else ()
        before_request = (*always, MaxRequests(limits.requests), *pauses, *budget, *request)
        return cls(
            request=before_request,
            turn=(*always, MaxTurns(limits.max_turns), *budget, *calls, *before_request, *progress, *turn),
            between=(*always, *between),
            closing=(*always, *request),
        )


GATE_NAMES: Final = ("request", "turn", "between")
"""The gates that take valves of a caller's own; those of ``request`` are asked before a closing reply too."""


def ask(gate: Iterable[Valve], state: State) -> Stop | None:
    """The first stop that a valve of ``gate`` says.

    A valve that raises, or says anything but a stop or nothing, ends the run as a configuration error:
    a broken valve never lets a run pass.
    """
    for valve in gate:
        try:
            stop = valve(state)
        except Exception as error:
            return Stop(
                "configuration_error", {"where": _name(valve), "error": f"{type(error).__name__}: {error}"}
            )
        if stop is not None and not isinstance(stop, Stop):
            said = f"expected a Stop or None, got {type(stop).__name__}"
            return Stop("configuration_error", {"where": _name(valve), "error": said})
        if stop is not None:
            return stop
    return None


def _name(valve: Valve) -> str:
    return getattr(valve, "__qualname__", type(valve).__qualname__)
