"""What of a recorded run waits for a person, and writing the answer into the journal."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from brida.approval.answers import Answer
from brida.cli.flags import Flags
from brida.cli.journal_option import events_of
from brida.cli.screen import Screen
from brida.core.events import Answered, Edited, Event, Finding, Question, Reconciled
from brida.core.state import State, fold
from brida.core.turn import Call
from brida.errors import ConfigurationError
from brida.runtime.masked import masked
from brida.runtime.questions import answered, lost_call
from brida.settings.record import secrets_of
from brida.texts.catalogue import Catalogue
from brida.texts.masking import Mask
from brida.texts.terminal import escape
from brida.tools.text import clean

if TYPE_CHECKING:
    from brida.journal.sqlite import SqliteJournal

BY = "the command line"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that waits for a person. ``question``: the call, None where the run was only parked.

    ``number``: its place among those of the run; ``lost``: it is a call whose process died.
    """

    run_id: str
    since: float
    number: int = 0
    question: Question | None = None
    lost: bool = False

    def as_object(self) -> dict[str, object]:
        """It as JSON has it."""
        about = self.question
        call = (
            None
            if about is None
            else {
                "id": about.call_id,
                "tool": about.tool,
                "arguments": about.arguments,
                "digest": about.digest,
                "impact": about.impact,
                "rule": about.rule,
            }
        )
        return {
            "run_id": self.run_id,
            "since": self.since,
            "number": self.number,
            "lost": self.lost,
            "call": call,
        }

    def lines(self, say: Catalogue) -> Iterator[str]:
        """It for a person: the exact arguments, and how to answer."""
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(self.since))
        if self.question is None:
            yield say("{run_id}: parked since {since}", run_id=self.run_id, since=since)
            yield "    " + say("brida resume {run_id} goes on with this run", run_id=self.run_id)
            return
        yield say(
            "{run_id} {number}. {tool} ({impact} impact; rule: {rule}), since {since}",
            run_id=self.run_id,
            number=self.number,
            tool=self.question.tool,
            impact=self.question.impact,
            rule=self.question.rule,
            since=since,
        )
        for name, value in self.question.arguments.items():
            yield f"    {name}  {json.dumps(value, ensure_ascii=False)}"
        answer = "settle" if self.lost else "approve"
        yield say(
            "    answer: brida {answer} {run_id} {number}",
            answer=answer,
            run_id=self.run_id,
            number=self.number,
        )


def all_waiting(journal: "SqliteJournal") -> Iterator[Waiting]:
    """What waits in all runs of the journal that no process holds."""
    for row in journal.runs():
        if row.stop == "waiting" and row.owner is None:
            yield from waiting_in(fold(events_of(journal, row.run_id)))


def waiting_in(state: State) -> list[Waiting]:
    """What of a run that waits needs a person. A call's number is its place in its turn, so it stays."""
    run_id, since = state.started.run_id, state.at
    found = [
        Waiting(run_id, since, number, lost_call(call) if call.unknown else call.question, lost=call.unknown)
        for number, call in enumerate(state.calls.values(), 1)
        if call.unknown or call in state.questions
    ]
    return found or [Waiting(run_id, since)]


class HeldRun:
    """A run of the journal, held for as long as it takes to write an answer."""

    def __init__(self, journal: "SqliteJournal", run: str, say: Catalogue) -> None:
        self._journal, self._say = journal, say
        self._run_id = journal.find(run)

    def __enter__(self) -> "HeldRun":
        self._writer = self._journal.hold(self._run_id)
        try:
            self._events = events_of(self._journal, self._run_id)
            self.state = fold(self._events)
            self._mask = Mask.of(os.environ, secrets_of(self.state.started.settings))
        except BaseException:
            self._writer.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.release()

    @property
    def language(self) -> Catalogue:
        """What speaks the language of the run."""
        return Catalogue.for_language(self.state.started.language)

    def record(self, *events: Event) -> None:
        """Adds the events to the run, all or none of them."""
        kept = [masked(event, self._mask) for event in events]
        after = self.state.copy()
        for event in kept:
            after.apply(event)  # what cannot follow is not written
        self._writer.append(kept, self.state)
        self.state = after

    def allow(self, question: Question, *, session: bool) -> None:
        """Records a yes."""
        self.record(answered(question, Answer(True, session=session, by=BY), time.time()))

    def decline(self, question: Question, reason: str) -> None:
        """Records a no; the model hears the reason."""
        self.record(answered(question, Answer(False, reason=reason, by=BY), time.time()))

    def settle(self, call: Call, found: Finding, content: str = "") -> Question:
        """Records what became of a call whose process died; gives the call."""
        self.record(Reconciled(time.time(), call.runs.id, found, BY, clean(content)))
        return lost_call(call)

    def chosen(self, call: str | None, *, every: bool, allow: bool) -> Sequence[Question]:
        """The questions that are meant; none where they were answered so before.

        Raises :class:`ConfigurationError` where the answer was another one: it stands.
        """
        open_ones = self.state.questions
        if every:
            return [cast("Question", one.question) for one in open_ones]
        meant = self._meant(call, open_ones)
        call_id = call if meant is None else meant.asked.id
        if meant in open_ones and meant is not None:
            return [cast("Question", meant.question)]
        before = [e for e in self._events if isinstance(e, Answered) and e.call_id == call_id]
        if not before:
            raise self._no_such(call, open_ones)
        if before[-1].allow is not allow:
            raise ConfigurationError(
                self._say(
                    "{call} was answered before, by {who}: {answer}; that stands",
                    call=call_id,
                    who=before[-1].by,
                    answer=self._say("yes") if before[-1].allow else self._say("no"),
                )
            )
        return []

    def lost(self, call: str | None) -> Call:
        """The call that is meant, among those of which nobody knows what became."""
        meant = self._meant(call, self.state.unknown)
        if meant is None or not meant.unknown:
            raise self._no_such(call, self.state.unknown)
        return meant

    def edited(self, question: Question, text: str, agent: str | None) -> Question:
        """Records other arguments in place of those shown, and that they are allowed."""
        arguments = self._arguments(text)
        self._check(question, arguments, agent)
        changed = answered(question, Answer(True, by=BY, arguments=arguments), time.time())
        if not isinstance(changed, Edited):
            raise ConfigurationError(self._say("--edit: these are the arguments that were shown"))
        call = self.state.calls[question.call_id].asked.with_arguments(arguments)
        allowed = Answered(time.time(), question.call_id, call.digest, True, BY)
        self.record(changed, allowed)
        return Question(
            question.call_id, question.tool, arguments, call.digest, question.impact, question.rule
        )

    def tell_what_follows(self, screen: Screen, *, changed: bool = True) -> None:
        """Says what still waits, or how the run goes on. ``changed``: whether anything was answered now."""
        if not changed:
            screen.line(self._say("that was answered before: nothing changes"))
        left = [one for one in waiting_in(self.state) if one.question is not None]
        if left:
            words = self._say.plural("{count} call still waits", "{count} calls still wait", len(left))
            screen.line(words)
        elif self.state.stop is not None and self.state.stop.kind == "waiting":
            run_id = self.state.started.parent or self._run_id  # a run goes on with the one that started it
            screen.line(self._say("brida resume {run_id} goes on with this run", run_id=run_id))

    def _meant(self, call: str | None, waiting: Sequence[Call]) -> Call | None:
        """The call of the turn with this number, or this beginning of its id; the only one that waits."""
        if call is None:
            return waiting[0] if len(waiting) == 1 else None
        all_calls = tuple(self.state.calls.values())
        if call.isdigit() and 0 < int(call) <= len(all_calls):
            return all_calls[int(call) - 1]
        found = [one for one in all_calls if one.asked.id == call] or [
            one for one in all_calls if one.asked.id.startswith(call)
        ]
        return found[0] if len(found) == 1 else None

    def _no_such(self, call: str | None, waiting: Sequence[Call]) -> ConfigurationError:
        numbers = {one.asked.id: number for number, one in enumerate(self.state.calls.values(), 1)}
        known = (
            ", ".join(f"{numbers[one.asked.id]} ({one.runs.tool}, {one.asked.id})" for one in waiting) or "-"
        )
        if not waiting and self.state.unknown:
            return ConfigurationError(
                self._say("no answer is wanted: brida settle says what became of a lost call")
            )
        if not waiting:
            return ConfigurationError(self._say("nothing waits in this run"))
        if call is None:
            return ConfigurationError(self._say("name a call; these wait: {calls}", calls=known))
        return ConfigurationError(
            self._say("no call {call} waits in this run; these do: {calls}", call=call or "", calls=known)
        )

    def _arguments(self, text: str) -> dict[str, object]:
        try:
            arguments = json.loads(text)
        except ValueError as error:
            raise ConfigurationError(self._say("--edit: this is no JSON: {error}", error=error)) from None
        if not isinstance(arguments, dict):
            raise ConfigurationError(self._say("--edit: expected a JSON object with the arguments"))
        return arguments

    def _check(self, question: Question, arguments: Mapping[str, object], agent: str | None) -> None:
        """The arguments fit the tool, as far as the agent that was recorded knows it."""
        from brida.cli.making import agent_of_record

        flags = Flags({}, agent=agent)
        made = agent_of_record(self.state.started, flags, self._say, lambda _: None, lambda _: None)
        tool = made.tools.get(question.tool)
        problems = () if tool is None else tool.problems(arguments, self._say)
        if problems:
            raise ConfigurationError(self._say("--edit: {problems}", problems="; ".join(problems)))


def shown(question: Question) -> str:
    """The call of a question, with its exact arguments."""
    return f"{question.tool}({json.dumps(question.arguments, ensure_ascii=False)})"


def safe(line: str) -> str:
    """A line for stdout, escaped."""
    return escape(line) + "\n"
