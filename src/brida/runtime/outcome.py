"""How a run ended, with everything that the caller may want of it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from typing_extensions import TypeVar

from brida.core.events import Event
from brida.core.spending import Amount, Spending, spending
from brida.core.state import State
from brida.core.stops import Stop
from brida.core.transitions import ModelCall
from brida.core.usage import Usage

if TYPE_CHECKING:
    from brida.runtime.local import LocalRun

OUTCOME_VERSION: Final = 1

T = TypeVar("T", default=None)
"""The type of the structured answer; None where a run gives a text alone."""


@dataclass(frozen=True, slots=True)
class CallNote:
    """A call of the model, for the record: its id, the tool and the arguments as the model gave them."""

    id: str
    tool: str
    arguments: Mapping[str, object]

    @classmethod
    def of(cls, call: ModelCall) -> "CallNote":
        """The note of a call."""
        return cls(call.id, call.tool, call.arguments)


def number(amount: Decimal | int | None) -> float | None:
    """US dollars as a number of JSON."""
    return None if amount is None else float(amount)


def as_json(amount: Amount) -> dict[str, object]:
    """An amount as an object of JSON."""
    money = {"cost": number(amount.cost), "held": number(amount.held)}
    return {**asdict(amount.usage), "total": amount.usage.total, **money}


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What is left of a run, whatever ended it.

    ``text``: all text blocks of the last reply that had text, joined. ``output``: the structured answer,
    of the type that was asked for; None where the run did not complete, or none was asked for.
    ``messages``: the history, closed, so that ``agent.run(text, messages=outcome.messages)`` goes on from
    it. ``usage``: tokens over all attempts of the session, those of the runs that it started included.
    ``cost``: US dollars likewise, None where a price is not known; ``held_cost``: what may have been spent
    besides, by attempts of which nobody knows what they came to. :attr:`spending` has all of it by request.
    ``turns`` of calls, over ``requests`` to the model, ``closing_requests`` (0 or 1) not among them.
    ``pending``: calls that did not run; ``questions``: calls that wait for a person; ``declined``,
    ``denied``, ``failed_calls``: what became of others. ``seconds``: the time worked, without the time spent
    waiting for a person; ``seconds_waited``: the part of it between attempts. ``journal_error``: why the
    journal could not keep the run to its end, None where it did. All but ``messages``, ``usage`` and the
    costs are of the last text a person gave.
    """

    run_id: str
    stop: Stop
    text: str
    messages: list[dict[str, object]]
    usage: Usage
    turns: int
    requests: int
    pending: tuple[CallNote, ...]
    questions: tuple[CallNote, ...]
    declined: tuple[CallNote, ...]
    denied: tuple[CallNote, ...]
    failed_calls: tuple[CallNote, ...]
    seconds: float
    model: str
    base_url: str | None
    cost: Decimal | None = None
    held_cost: Decimal | None = None
    seconds_waited: float = 0.0
    output: T | None = None
    closing_requests: int = 0
    journal_error: Stop | None = None
    events: tuple[Event, ...] = field(default=(), repr=False, compare=False)
    _go_on: "Callable[..., Any] | None" = field(default=None, repr=False, compare=False)

    @property
    def completed(self) -> bool:
        """Whether the model finished its answer."""
        return self.stop.kind == "completed"

    @cached_property
    def spending(self) -> Spending:
        """What each request of the session came to, and each tool; worked out from the events."""
        return spending(self.events)

    @property
    def cache_share(self) -> float:
        """The share of the input, from 0 to 1, that was read from the prompt cache."""
        return self.usage.cache_read_input_tokens / self.usage.input if self.usage.input else 0.0

    @classmethod
    def of(cls, state: State, events: tuple[Event, ...]) -> "Outcome[T]":
        """The outcome of a run that has stopped."""
        if state.stop is None:
            raise ValueError("the run has not stopped")
        return cls(
            run_id=state.started.run_id,
            stop=state.stop,
            text=state.text,
            messages=state.messages,
            usage=state.usage,
            turns=state.turns,
            requests=state.requests,
            pending=tuple(CallNote.of(call) for call in state.pending),
            questions=tuple(
                CallNote.of(call.asked)
                for call in (*state.questions, *state.unknown, *state.waiting_for_runs)
                if state.stop.kind == "waiting"
            ),
            declined=tuple(CallNote.of(call) for call in state.declined),
            denied=tuple(CallNote.of(call) for call in state.denied),
            failed_calls=tuple(CallNote.of(call) for call in state.failed_calls),
            seconds=round(state.elapsed, 3),
            model=state.started.model,
            base_url=state.started.base_url,
            closing_requests=state.closing_requests,
            cost=None if state.cost is None else Decimal(state.cost),
            held_cost=None if state.ledger.cost is None else Decimal(state.ledger.cost.held),
            seconds_waited=round(state.time_waited, 3),
            events=events,
        )

    def continue_(
        self, text: str, *, new_budget: bool = False, listener: "Callable[[Any], None] | None" = None
    ) -> "LocalRun[T]":
        """Goes on with ``text`` in the same session: ``await outcome.continue_("...")``.

        Turns, requests, calls, pauses and seconds are counted afresh; answers that hold for the session
        still do; the token budget is the session's, unless ``new_budget``. The outcome itself stays as it
        is, so a session can go on from it more than once. Raises ``RuntimeError`` where no agent made it.
        """
        return cast("LocalRun[T]", self._continued("start", text, new_budget, listener))

    def continue_sync(self, text: str, *, new_budget: bool = False) -> "Outcome[T]":
        """As :meth:`continue_`, from code that is not async."""
        return cast("Outcome[T]", self._continued("run_sync", text, new_budget, None))

    def _continued(self, way: str, *arguments: object) -> object:
        if self._go_on is None:
            raise RuntimeError("this outcome was not made by an agent: use agent.run(text, messages=...)")
        return self._go_on(way, self.events, *arguments)

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, and how the run ended."""
        facts = (
            f"{self.stop.kind} · turns: {self.turns} · requests: {self.requests} · tokens: {self.usage.total}"
        )
        return f"<pre style='white-space: pre-wrap'>{escape(self.text)}</pre><small>{escape(facts)}</small>"

    def __rich_repr__(self) -> Iterator[tuple[str, object]]:
        """What :mod:`rich` shows."""
        for name in ("stop", "text", "output", "turns", "requests"):
            yield name, getattr(self, name)
        yield "tokens", self.usage.total

    def to_json(self) -> dict[str, object]:
        """The outcome as the JSON object that the command line prints: version 1 of its schema."""
        names = ("pending", "questions", "declined", "denied", "failed_calls")
        calls = {name: [asdict(note) for note in getattr(self, name)] for name in names}
        stop = {"kind": self.stop.kind, "class": self.stop.stop_class, "detail": dict(self.stop.detail)}
        return {
            "version": OUTCOME_VERSION,
            "run_id": self.run_id,
            "stop": stop,
            "text": self.text,
            "output": None if self.output is None else cast("Any", self.output).model_dump(mode="json"),
            "turns": self.turns,
            "requests": self.requests,
            "closing_requests": self.closing_requests,
            "usage": {**asdict(self.usage), "total": self.usage.total},
            "cost": number(self.cost),
            "held_cost": number(self.held_cost),
            "cache": {"share": round(self.cache_share, 4), "saved": number(self.spending.saved)},
            "spending": self._spending(),
            **calls,
            "seconds": self.seconds,
            "seconds_waited": self.seconds_waited,
            "model": self.model,
            "base_url": self.base_url,
        }

    def _spending(self) -> dict[str, object]:
        spent = self.spending
        return {
            "requests": [
                {"number": one.number, "reads": dict(one.reads), **as_json(one.amount)}
                for one in spent.requests
            ],
            "tools": {tool: as_json(amount) for tool, amount in spent.tools.items()},
            "children": as_json(spent.children),
        }
