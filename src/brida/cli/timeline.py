"""``brida show`` and ``brida export``: a run of the journal, to read or to take away."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from brida.cli.journal_option import events_of, journal_command, run_argument
from brida.cli.screen import Screen
from brida.cli.trace import Trace
from brida.cli.transcript import markdown
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
    encode_event,
    to_json,
)
from brida.core.state import State, fold
from brida.core.stops import EXIT_CODES
from brida.errors import ConfigurationError, Damaged, NewerRecord
from brida.runtime.outcome import Outcome
from brida.texts.catalogue import Catalogue
from brida.texts.endings import explain

if TYPE_CHECKING:
    from brida.journal.base import Record
    from brida.journal.sqlite import SqliteJournal


def show_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``show``."""

    def show(journal: "SqliteJournal", run: str, **values: Any) -> int:
        run_id = journal.find(run)
        broken: Damaged | NewerRecord | None = None
        try:
            records = journal.read(run_id)
        except (Damaged, NewerRecord) as error:  # what can be read is shown
            records, broken = error.records, error
        if values["json"]:
            for record in records:
                screen.json({"seq": record.seq, **to_json(record.event)})
        else:
            Timeline(screen, say).show(records, late=() if broken else journal.late(run_id))
        if broken is None:
            return 0
        screen.line(say("Error: {message}", message=broken))
        return EXIT_CODES["failed"]

    return journal_command(
        "show",
        say,
        show,
        help=say("Shows a run as it went, each line with the number of its event."),
        screen=screen,
        params=[
            run_argument(say),
            click.Option(
                ["--json"], is_flag=True, help=say("Print every event as a line of JSON on stdout.")
            ),
        ],
    )


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
        from brida.cli.trace import closing_line

        outcome: Outcome[Any] = Outcome.of(state, events)
        self._screen.out(closing_line(outcome, self._say) + "\n")

    def _line(self, text: str) -> None:
        from brida.texts.terminal import escape, shorten

        shown = escape(f"{self._seq:>4}  {text}")
        self._screen.out(
            (shorten(shown, self._screen.width) if self._screen.out_is_terminal else shown) + "\n"
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
                yield say(
                    "{who} answers: {answer} {reason}", who=event.by, answer=answer, reason=event.reason
                )
            case Decided(verdict="allow"):
                yield say("allowed ({rule})", rule=event.rule)
            case Reconciled():
                yield say("what became of it: {found} ({who})", found=event.found, who=event.by)
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


# -- export


def export_command(say: Catalogue, screen: Screen) -> click.Command:
    """The command ``export``."""

    def export(journal: "SqliteJournal", run: str, form: str, to: str | None) -> int:
        text = FORMS[form](events_of(journal, journal.find(run)), say)
        if to is None:
            screen.out(text)
        else:
            _write(Path(to), text, say)
            screen.line(say("written: {path}", path=to))
        return EXIT_CODES["failed"] if screen.output_lost else 0

    return journal_command(
        "export",
        say,
        export,
        help=say("Writes a run: a transcript in Markdown, the messages, or every event."),
        screen=screen,
        params=[
            run_argument(say),
            click.Option(
                ["--as", "form"],
                type=click.Choice(list(FORMS)),
                default="markdown",
                help=say("What to write."),
            ),
            click.Option(["--to"], metavar=say("FILE"), help=say("A new file, instead of stdout.")),
        ],
    )


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


def _write(path: Path, text: str, say: Catalogue) -> None:
    from brida.cli.transcript import write_new

    try:
        write_new(path, text)
    except FileExistsError:
        raise ConfigurationError(say("{path} is there already: choose another name", path=path)) from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(say("{path} cannot be written: {why}", path=path, why=error)) from error
