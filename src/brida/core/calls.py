"""The calls of the turn under way, as a run knows them: asked, answered, decided, started, finished."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from brida.core.encoding import encode
from brida.core.events import (
    ANSWER_TOOL,
    Answered,
    Asked,
    CallFinished,
    CallOutcome,
    CallStarted,
    CallWaits,
    Decided,
    Declaration,
    Edited,
    Reconciled,
    Started,
    TurnStarted,
)
from brida.core.history import History
from brida.core.stops import Stop
from brida.core.transitions import ModelCall
from brida.core.turn import Call, PastTurn, Phase

PAST_TURNS: Final = 8
"""How many turns are remembered for the question of progress: two whole periods of the longest cycle."""


class CallsOfTheTurn:
    """The part of the state that is about calls; only its events change it."""

    started: Started
    tools: Mapping[str, Declaration]
    history: History
    phase: Phase
    ending: Stop | None
    calls: Mapping[str, Call]
    past: tuple[PastTurn, ...]
    answer: Mapping[str, object] | None
    session_allows: frozenset[str]
    turns: int
    calls_seen: int
    turn_open: bool
    declined: tuple[ModelCall, ...]
    denied: tuple[ModelCall, ...]
    failed_calls: tuple[ModelCall, ...]

    @property
    def waiting(self) -> tuple[Call, ...]:
        """The calls of the turn that have no decision yet."""
        return tuple(call for call in self.calls.values() if call.decision is None)

    @property
    def questions(self) -> tuple[Call, ...]:
        """The calls that were put to a person and have no answer yet."""
        return tuple(call for call in self.waiting if call.question and call.answer is None)

    @property
    def unknown(self) -> tuple[Call, ...]:
        """The calls of which it must be found out what became of them."""
        return tuple(call for call in self.calls.values() if call.unknown)

    @property
    def signature(self) -> tuple[tuple[str, str], ...]:
        """The calls of the turn as a multiset of (tool, canonical arguments): their order does not count."""
        return tuple(sorted((call.asked.tool, call.asked.canonical) for call in self.calls.values()))

    @property
    def waiting_for_runs(self) -> tuple[Call, ...]:
        """The calls of the turn that started runs which wait for a person."""
        return tuple(call for call in self.calls.values() if call.waits_for is not None)

    # -- one method an event

    def _turn_started(self, event: TurnStarted) -> None:
        self.turns = event.turn
        self.calls_seen += len(self.calls)
        self.turn_open = True

    def _asked(self, event: Asked) -> None:
        for question in event.questions:
            self._change(question.call_id, question=question)

    def _answered(self, event: Answered) -> None:
        call = self._shown(event.call_id, event.digest)
        self._change(event.call_id, answer=event)
        may_last = call.question is None or not (call.question.raised or call.question.problems)
        if event.session and event.allow and may_last:
            self.session_allows |= {call.asked.tool}

    def _edited(self, event: Edited) -> None:
        call = self._shown(event.call_id, event.digest)
        edited = call.asked.with_arguments(event.arguments)
        self._change(event.call_id, edited=edited, edits=call.edits + 1, question=None, answer=None)

    def _shown(self, call_id: str, digest: str) -> Call:
        """The call, where what a person said of it was said of what would run."""
        call = self._call(call_id)
        if call.decision or not (call.question or call.edited):
            raise ValueError(f"call_id: no answer is wanted for call {call_id!r}")
        if call.runs.digest != digest:
            raise ValueError(f"digest: the answer for call {call_id!r} was given for other arguments")
        return call

    def _decided(self, event: Decided) -> None:
        if self._call(event.call_id).decision or self._call(event.call_id).runs.digest != event.digest:
            raise ValueError(f"call {event.call_id!r} is decided already, or has other arguments")
        asked = self._change(event.call_id, decision=event).asked
        if event.verdict == "allow":
            return
        self.history.add_result(event.call_id, event.text, is_error=True)
        if event.verdict == "declined":
            self.declined += (asked,)
        elif event.verdict == "denied":
            self.denied += (asked,)
        else:
            self.failed_calls += (asked,)
        self._close_turn()

    def _call_started(self, event: CallStarted) -> None:
        if self.waiting or not self._call(event.call_id).allowed:
            raise ValueError(f"call {event.call_id!r} was started without a decision that allows it")
        if self._call(event.call_id).started:
            raise ValueError(f"call {event.call_id!r} was started before")
        self._change(event.call_id, started=True, died=False, unclear=False)

    def _call_finished(self, event: CallFinished) -> None:
        call = self._call(event.call_id)
        if not call.started or call.finished:
            raise ValueError(f"call {event.call_id!r} is not under way, so it cannot finish")
        self._change(event.call_id, finished=event)
        self.history.add_result(event.call_id, event.content, is_error=event.outcome != "ok")
        if event.outcome != "ok":
            self.failed_calls += (call.asked,)
        self._close_turn()

    def _call_waits(self, event: CallWaits) -> None:
        call = self._call(event.call_id)
        if not call.started or call.finished:
            raise ValueError(f"call {event.call_id!r} is not under way, so it cannot wait")
        self._change(event.call_id, waits_for=event.run_id)

    def _reconciled(self, event: Reconciled) -> None:
        if not self._call(event.call_id).unknown:
            raise ValueError(f"call {event.call_id!r} is none of which nobody knows what became")
        if event.found == "unclear":
            self._change(event.call_id, unclear=True)
        elif event.found == "did_not_happen":
            self._change(event.call_id, started=False, died=False)
        else:
            outcome: CallOutcome = "ok" if event.found == "happened" else "unknown"
            self._call_finished(CallFinished(event.at, event.call_id, outcome, event.content))

    # -- how a turn is kept

    def _forget_answer(self, call: Call, answer: Answered) -> None:
        """What was said too long ago is asked again, unless it has been acted on."""
        if call.decision is None or call.allowed:
            self._change(call.asked.id, answer=None, decision=None)
            self.session_allows -= {call.asked.tool} if answer.session else set()

    def _call(self, call_id: str) -> Call:
        if call_id not in self.calls:
            raise ValueError(f"call_id: {call_id!r} is no call of this turn")
        return self.calls[call_id]

    def _change(self, call_id: str, **changes: object) -> Call:
        call = replace(self._call(call_id), **changes)  # type: ignore[arg-type]
        self.calls = {**self.calls, call_id: call}
        return call

    def _hear_first(self) -> None:
        """A run that would end as it should has a text to hear before."""
        self.phase, self.ending, self.answer = Phase.READY, None, None

    def _close_turn(self) -> None:
        if not all(call.done for call in self.calls.values()):
            return
        turn = PastTurn(self.signature, tuple(sorted(self._result(call) for call in self.calls.values())))
        heard = self.history.has_text_to_send and self.history.takes_text
        self.past = () if heard else (*self.past[1 - PAST_TURNS :], turn)
        self.phase = Phase.READY
        if self.started.answer == "tool":
            given = (call.runs.arguments for call in self.calls.values() if call.succeeded(ANSWER_TOOL))
            self.answer = next(given, None)
        if self.answer is not None and self.history.has_text_to_send:
            self._hear_first()
        elif self.answer is not None:
            self.phase, self.ending = Phase.OVER, Stop("completed")

    def _result(self, call: Call) -> tuple[str, str, str]:
        """What a call brought, for comparing turns; what a volatile tool returned is left out."""
        declared = self.tools.get(call.asked.tool)
        heard = call.finished.content if call.finished else call.decision.text if call.decision else ""
        heard = heard if isinstance(heard, str) else hashlib.sha256(encode(heard)).hexdigest()
        return call.asked.tool, call.asked.canonical, "" if declared and declared.volatile else heard
