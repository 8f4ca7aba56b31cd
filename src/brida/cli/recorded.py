"""A recorded run, written: as the live trace goes, as a transcript, as messages, as events."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from brida.cli.screen import Screen
from brida.cli.trace import Trace, closing_line
from brida.cli.transcript import markdown
from brida.core.codec import encode_event, to_json
from brida.core.events import (
    Answered,
    Asked,
    Decided,
    Event,
    Question,
    Reconciled,
    Resumed,
    Said,
    Started,
    Stopped,
    StopRequested,
)
from brida.core.state import State, fold
from brida.runtime.outcome import Outcome
from brida.texts.catalogue import Catalogue
from brida.texts.endings import explain
from brida.texts.terminal import escape, shorten

if TYPE_CHECKING:
    from brida.journal.base import Record


class Timeline:
    """Writes a recorded run as the live trace does, and what a person did besides."""

    def __init__(self, screen: Screen, say: Catalogue) -> None:
        self._screen, self._say = screen, say
        self._trace = Trace(screen, say, lines=True, text=False, write=self._line)
        self._seq = 0

    def show(self, records: "Iterable[Record]", *, late: "Iterable[Record]" = ()) -> None:
        """Writes the run to stdout; ``late`` are the records of a process that had lost it."""
        events: list[Event] = []
        for record in records:
            self._seq = record.seq
            events.append(record.event)
            self._trace(record.event)
            for line in self._besides(record.event):
                self._line(line)
        for record in late:
            self._seq = record.seq
            words = self._say("late, and without effect: {event}", event=json.dumps(to_json(record.event)))
            self._line(words)
        if events:
            self._end(fold(events), tuple(events))

    def _end(self, state: State, events: tuple[Event, ...]) -> None:
        if state.stop is None:
            self._line(self._say("its process works on it, or died: brida resume goes on"))
            return
        if text := state.text:
            self._screen.out("\n" + text + "\n")
        self._screen.out("\n")
        outcome: Outcome[Any] = Outcome.of(state, events)
        self._screen.out(closing_line(outcome, self._say) + "\n")

    def _line(self, text: str) -> None:
        shown = escape(f"{self._seq:>4}  {text}")
        self._screen.out(
            (shorten(shown, self._screen.out_width) if self._screen.out_is_terminal else shown) + "\n"
        )

    def _besides(self, event: Event) -> Iterator[str]:
        """What the live trace leaves to the prompt."""
        say = self._say
        match event:
            case Started():
                at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
                yield say(
                    "run {run_id} with {model}, {when}", run_id=event.run_id, model=event.model, when=at
                )
                if event.forked_from:
                    yield say("forked from {run_id}", run_id=event.forked_from)
            case Said():
                yield say("a person says: {text}", text=event.text)
            case Asked():
                for question in event.questions:
                    yield say("a person is asked: {call}", call=call_of(question))
            case Answered():
                answer = say("yes") if event.allow else say("no")
                words = say(
                    "{who} answers: {answer} {reason}", who=event.by, answer=answer, reason=event.reason
                )
                yield f"{self._trace.tool(event.call_id)}: {words}"
            case Decided(verdict="allow"):
                yield f"{self._trace.tool(event.call_id)}: {say('allowed ({rule})', rule=event.rule)}"
            case Reconciled():
                words = say("what became of it: {found} ({who})", found=event.found, who=event.by)
                yield f"{self._trace.tool(event.call_id)}: {words}"
            case StopRequested():
                yield say("somebody wants the run to end: {stop}", stop=event.stop.kind)
            case Stopped():
                yield explain(say, event.stop.kind, event.stop.detail)
            case Resumed():
                at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
                yield say("the run goes on, {when}", when=at)
            case _:
                return


def call_of(question: Question) -> str:
    """The call of a question, as the trace writes calls."""
    arguments = json.dumps(question.arguments, ensure_ascii=False, separators=(",", ":"))
    return f"{question.tool}({arguments})"


def _jsonl(events: tuple[Event, ...], _say: Catalogue) -> str:
    return "".join(encode_event(event).decode() + "\n" for event in events)


def _messages(events: tuple[Event, ...], _say: Catalogue) -> str:
    return json.dumps(_closed(events), ensure_ascii=False, indent=2) + "\n"


def _markdown(events: tuple[Event, ...], say: Catalogue) -> str:
    return markdown(_closed(events), say) + "\n"


def _closed(events: tuple[Event, ...]) -> list[dict[str, object]]:
    """The messages so far; of a run that has not stopped, three points stand for results that are missing."""
    state = fold(events)
    if state.history.open_calls and state.stop is None:
        closures = [(call_id, "...") for call_id in state.history.open_calls]
        return state.history.closed_messages(closures)
    return state.messages


FORMS: dict[str, Callable[[tuple[Event, ...], Catalogue], str]] = {
    "markdown": _markdown,
    "messages": _messages,
    "jsonl": _jsonl,
}
