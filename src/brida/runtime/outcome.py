"""How a run ended, with everything that the caller may want of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from brida.core.events import Event
from brida.core.state import State
from brida.core.stops import Stop
from brida.core.transitions import ModelCall
from brida.core.usage import Usage

OUTCOME_VERSION: Final = 1


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a run, whatever ended it.

    ``text``: all text blocks of the last reply that had text, joined. ``messages``: the history, closed,
    so that ``agent.run(text, messages=outcome.messages)`` goes on from it. ``usage``: tokens over all
    attempts. ``cost``: US dollars, None where unknown. ``turns`` of calls, over ``requests`` to the
    model. ``pending``: calls that did not run; ``questions``: calls that wait for a person;
    ``declined``, ``denied``, ``failed_calls``: what became of others. ``seconds``: the time worked,
    without the time spent waiting for a person.
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
    cost: float | None = None
    events: tuple[Event, ...] = field(default=(), repr=False, compare=False)

    @property
    def completed(self) -> bool:
        """Whether the model finished its answer."""
        return self.stop.kind == "completed"

    @classmethod
    def of(cls, state: State, events: tuple[Event, ...]) -> "Outcome":
        """The outcome of a run that has stopped."""
        if state.stop is None:
            raise ValueError("the run has not stopped")
        return cls(
            run_id=state.started.run_id,
            stop=state.stop,
            text=state.text,
            messages=state.history.closed_messages(),
            usage=state.usage,
            turns=state.turns,
            requests=state.requests,
            pending=tuple(CallNote.of(call) for call in state.not_run),
            questions=tuple(
                CallNote.of(call.asked) for call in state.questions if state.stop.kind == "waiting"
            ),
            declined=tuple(CallNote.of(call) for call in state.declined),
            denied=tuple(CallNote.of(call) for call in state.denied),
            failed_calls=tuple(CallNote.of(call) for call in state.failed_calls),
            seconds=round(state.elapsed, 3),
            model=state.started.model,
            base_url=state.started.base_url,
            events=events,
        )

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
            "turns": self.turns,
            "requests": self.requests,
            "usage": {**asdict(self.usage), "total": self.usage.total},
            "cost": self.cost,
            **calls,
            "seconds": self.seconds,
            "model": self.model,
            "base_url": self.base_url,
        }
