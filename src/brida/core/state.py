"""What a run knows: the state, and how each event changes it.

``fold(events)`` gives the state and needs no code and no configuration, so a journal can be read long
after the tools and the policy it ran with are gone. Every value but the history is immutable and
replaced as a whole, so that a state can be copied at the price of its history.
"""

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Final

from brida.core.encoding import encode
from brida.core.events import (
    ANSWER_TOOL,
    Answered,
    Asked,
    CallFinished,
    CallOutcome,
    CallStarted,
    Checked,
    Closing,
    Closure,
    Decided,
    Declaration,
    Edited,
    Event,
    Fault,
    Lost,
    Received,
    Reconciled,
    Reply,
    Resumed,
    Said,
    Sent,
    Started,
    Stopped,
    StopRequested,
    TurnStarted,
    Waited,
)
from brida.core.history import History
from brida.core.request import Head
from brida.core.stops import Stop
from brida.core.transitions import HEARS_FIRST, Action, ModelCall, Row, classify, facts_of, look_up, text_of
from brida.core.turn import Call, PastTurn, Phase
from brida.core.usage import TOKENS, Usage, read_partial_usage, read_usage

PAST_TURNS: Final = 8
"""How many turns are remembered for the question of progress: two whole periods of the longest cycle."""

CRASHED: Final = Fault(
    "crashed", "the process ended before a reply came", again=True, retry_after=0.0, billed=True
)
"""What became of an attempt that was under way when its process died."""


class State:
    """What a run knows. Read it anywhere (a valve, a test); only :meth:`apply` changes it.

    Counted: ``turns`` whose calls were decided, ``requests`` (the attempts of one count once),
    ``attempts`` of the request under way and the seconds it has ``waited`` between them, ``calls_seen``
    in those turns, ``pauses``, ``malformed`` replies in a row, ``closing_requests``, ``wrong_answers``.
    ``elapsed`` is in seconds and leaves out the time spent waiting for a person. They are those of the
    last text that a person gave; ``usage`` is the sum over all attempts of the session, in tokens.
    """

    def __init__(self, started: Started) -> None:
        self.started = started
        self.head = Head.of(started)
        self.tools: Mapping[str, Declaration] = {tool.name: tool for tool in started.tools}
        self.history = History(started.messages)
        self.at = started.at
        self.max_tokens = started.max_tokens
        self.request_bytes = 0
        self.usage = Usage()
        self.tokens_before = 0
        self.stop: Stop | None = None
        self.closed: tuple[Closure, ...] = ()
        self.session_allows: frozenset[str] = frozenset()
        self._begin_again()
        self._begin_afresh()

    def _begin_again(self) -> None:
        """Nothing is under way."""
        self.phase = Phase.READY
        self.ending: Stop | None = None
        self.closing: Stop | None = None
        self.stop_requested: Stop | None = None
        self.steered = ""
        self.calls: Mapping[str, Call] = {}
        self.turn_open = False
        self.past: tuple[PastTurn, ...] = ()
        self.closing_requests = 0
        self._begin_request()

    def _begin_request(self) -> None:
        """The next request is none that has been tried before."""
        self.attempts, self.waited, self.malformed, self.wrong_answers = 0, 0.0, 0, 0
        self.fault: Fault | None = None

    def _begin_afresh(self) -> None:
        """A person has given a new text: what is counted for one begins at nothing."""
        self._begin_request()
        self.elapsed = 0.0
        self.turns = self.requests = self.calls_seen = self.pauses = 0
        self.text = self.paused_text = self.reply_text = ""
        self.answer: Mapping[str, object] | None = None
        self.declined: tuple[ModelCall, ...] = ()
        self.denied: tuple[ModelCall, ...] = ()
        self.failed_calls: tuple[ModelCall, ...] = ()
        self.not_run: tuple[ModelCall, ...] = ()

    def copy(self) -> "State":
        """An independent state: changing one leaves the other as it is."""
        other = copy.copy(self)
        other.history = self.history.copy()
        return other

    def apply(self, event: Event) -> None:
        """Learns one event. Raises ``ValueError`` where the event cannot follow what is known."""
        kind = type(event)
        if not self._may_follow(kind):
            raise ValueError(f"{kind.__name__} cannot follow here: {self.phase.value}")
        if not self._waits_for_person and kind is not Resumed:
            self.elapsed += max(0.0, event.at - self.at)
        self.at = event.at
        _HANDLERS[kind](self, event)

    def _may_follow(self, kind: type) -> bool:
        if self.phase is not _PHASES.get(kind, self.phase):
            return False  # so where it has stopped, answers follow only in a turn that waits for them
        if kind not in _HANDLERS:  # a run begins once
            return False
        return self.stop is None or kind in (StopRequested, Resumed, Answered, Edited, Reconciled)

    @property
    def messages(self) -> list[dict[str, object]]:
        """The history as a caller can go on from, whole: calls that wait for a person say so."""
        still_open = self.history.open_calls
        closed = ((one.call_id, one.text) for one in self.closed if one.call_id in still_open)
        return self.history.closed_messages(closed)

    @property
    def pending(self) -> tuple[ModelCall, ...]:
        """The calls that did not run, or have not run yet."""
        waiting = [
            call.asked for call in self.calls.values() if self.closed and not (call.done or call.begun)
        ]
        return (*self.not_run, *waiting)

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
    def tokens_used(self) -> int:
        """What the token budget has paid so far: all of the session, since the budget was last renewed."""
        return TOKENS(self.usage) - self.tokens_before

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """What may be a structured answer: the last reply's own text, or with that of the pauses before."""
        return tuple(dict.fromkeys((self.reply_text, self.text)))

    @property
    def signature(self) -> tuple[tuple[str, str], ...]:
        """The calls of the turn as a multiset of (tool, canonical arguments): their order does not count."""
        return tuple(sorted((call.asked.tool, call.asked.canonical) for call in self.calls.values()))

    @property
    def _waits_for_person(self) -> bool:
        asked = self.questions or any(call.unclear for call in self.unknown)
        return self.stop is not None or (self.phase is Phase.TURN and bool(asked))

    # -- one method an event

    def _said(self, event: Said) -> None:
        self.history.add_text(event.text)
        self.steered = event.text if event.steering else ""
        self.past = ()
        if self.phase is Phase.CHECK or (self.ending and self.ending.kind in HEARS_FIRST):
            self._hear_first()

    def _hear_first(self) -> None:
        """A run that would end as it should has a text to hear before."""
        self.phase, self.ending, self.answer = Phase.READY, None, None

    def _sent(self, event: Sent) -> None:
        if self.closing:
            self.closing_requests += 1
        elif not self.attempts:
            self.requests += 1
        self.attempts = event.attempt
        self.phase = Phase.IN_FLIGHT
        self.history.seal()
        head = Head.of(self.started, closing=True) if self.closing else self.head
        self.request_bytes = self.history.size + len(head.encoded)

    def _received(self, event: Received) -> None:
        reply = event.reply
        self.attempts, self.waited, self.fault = 0, 0.0, None
        self.usage += read_usage(reply.usage, request_bytes=self.request_bytes, reply=reply.content)
        text = text_of(reply.content)
        if text:
            self.text, self.reply_text = self.paused_text + text, text
        kind, calls = classify(reply.content, self.history.used_ids)
        row = look_up(reply.stop_reason, kind)
        if self.closing:
            self.phase, self.ending = Phase.OVER, self.closing
            if row.keep and kind == "text" and row.action is Action.END:
                self.history.append_reply(reply.content)
            return
        self.malformed = self.malformed + 1 if row.action is Action.REPEAT else 0
        if row.keep:
            resumes = row.action is Action.RESUME
            self.paused_text = self.paused_text + text if resumes else ""
            self.history.append_reply(reply.content, (call.id for call in calls), paused=resumes)
        self.calls = {call.id: Call(call) for call in calls} if row.keep else {}
        self.turn_open = False
        self.phase, self.ending = self._dispatch(row, reply)
        if row.keep and not self.history.has_text_to_send:
            self.steered = ""

    def _dispatch(self, row: Row, reply: Reply) -> tuple[Phase, Stop | None]:
        match row.action:
            case Action.RUN_CALLS:
                return Phase.TURN, None
            case Action.REPEAT if self.malformed == 1:
                return Phase.READY, None
            case Action.GROW if self.max_tokens < self.started.max_tokens_ceiling:
                self.max_tokens = min(self.max_tokens * 2, self.started.max_tokens_ceiling)
                return Phase.READY, None
            case Action.RESUME:
                self.pauses += 1
                return Phase.READY, None
            case _ if row.stop in HEARS_FIRST and self.history.has_text_to_send:
                return Phase.READY, None  # a text that had to wait has not been heard yet
            case _ if row.stop == "empty_reply" and self.steered:
                self.history.add_text(self.steered)
                self.steered = ""
                return Phase.READY, None
            case _ if row.stop == "completed" and self.started.answer:
                return Phase.CHECK, None
            case _:
                return Phase.OVER, Stop(
                    row.stop, facts_of(row, reply, max_tokens=self.max_tokens, ignored=len(self.calls))
                )

    def _lost(self, event: Lost) -> None:
        self.usage += read_partial_usage(event.fault.usage, billed=event.fault.billed)
        self.fault = event.fault
        self.phase = Phase.READY

    def _waited(self, event: Waited) -> None:
        self.waited += event.seconds
        self.fault = None

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

    def _checked(self, event: Checked) -> None:
        self.wrong_answers += bool(event.text)
        if event.text and self.wrong_answers == 1:
            self.history.add_text(event.text)
            self.phase = Phase.READY
            return
        wrong = Stop("malformed_reply", {"stop_reason": "end_turn", "error": event.text})
        self.phase, self.ending = Phase.OVER, wrong if event.text else Stop("completed")

    def _stop_was_requested(self, event: StopRequested) -> None:
        self.stop_requested = self.stop_requested or event.stop

    def _closing(self, event: Closing) -> None:
        self._close_open_calls(event.closed)
        self.history.add_text(event.text)
        self.attempts, self.fault, self.closing, self.phase = 0, None, event.stop, Phase.READY

    def _stopped(self, event: Stopped) -> None:
        self.stop = event.stop
        if event.stop.kind == "waiting":
            self.closed = event.closed
            return
        self._close_open_calls(event.closed)
        self.phase = Phase.OVER

    def _close_open_calls(self, closed: Iterable[Closure]) -> None:
        open_calls = self.history.open_calls
        self.not_run += tuple(
            call.asked for call in self.calls.values() if call.asked.id in open_calls and not call.begun
        )
        for closure in closed:
            self.history.add_result(closure.call_id, closure.text, is_error=True)

    def _resumed(self, event: Resumed) -> None:
        if self.stop is None or self.stop.kind == "waiting":
            self._go_on_within(event)
        else:
            self._begin_again()
        self.stop, self.closed = None, ()
        if event.afresh:
            self._begin_afresh()
            self.history.leave_out_pause()
        if event.new_budget:
            self.tokens_before = TOKENS(self.usage)

    def _go_on_within(self, event: Resumed) -> None:
        """What a process left, or what waited for a person, goes on where it stood."""
        self.stop_requested, self.past = None, ()
        lasting = inf if self.started.approval_ttl is None else self.started.approval_ttl
        if self.phase is Phase.IN_FLIGHT:
            self._lost(Lost(event.at, CRASHED))
        for call in self.calls.values():
            declared = self.tools.get(call.asked.tool)
            if call.started and call.finished is None:
                repeats = declared is not None and declared.impact != "high"
                self._change(call.asked.id, died=True, started=not repeats)
            if call.answer and not call.begun and event.at - call.answer.at >= lasting:
                self._forget_answer(call, call.answer)

    def _forget_answer(self, call: Call, answer: Answered) -> None:
        """What was said too long ago is asked again, unless it has been acted on."""
        if call.decision is None or call.allowed:
            self._change(call.asked.id, answer=None, decision=None)
            self.session_allows -= {call.asked.tool} if answer.session else set()

    # -- how a turn is kept

    def _call(self, call_id: str) -> Call:
        if call_id not in self.calls:
            raise ValueError(f"call_id: {call_id!r} is no call of this turn")
        return self.calls[call_id]

    def _change(self, call_id: str, **changes: object) -> Call:
        call = replace(self._call(call_id), **changes)  # type: ignore[arg-type]
        self.calls = {**self.calls, call_id: call}
        return call

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


_PHASES: Final[Mapping[type, Phase]] = {
    **dict.fromkeys((Sent, Waited), Phase.READY),
    **dict.fromkeys((Received, Lost), Phase.IN_FLIGHT),
    **dict.fromkeys(
        (TurnStarted, Asked, Answered, Edited, Decided, CallStarted, CallFinished, Reconciled), Phase.TURN
    ),
    Checked: Phase.CHECK,
}
"""Where the loop must stand for an event to follow; any other event may come while the run goes on."""

_HANDLERS: Final[Mapping[type, Callable[[State, Any], None]]] = {
    Said: State._said,
    Sent: State._sent,
    Received: State._received,
    Lost: State._lost,
    Waited: State._waited,
    TurnStarted: State._turn_started,
    Asked: State._asked,
    Answered: State._answered,
    Edited: State._edited,
    Decided: State._decided,
    CallStarted: State._call_started,
    CallFinished: State._call_finished,
    Reconciled: State._reconciled,
    Checked: State._checked,
    StopRequested: State._stop_was_requested,
    Closing: State._closing,
    Stopped: State._stopped,
    Resumed: State._resumed,
}


def fold(events: Iterable[Event]) -> State:
    """The state after ``events``, the first of which is :class:`Started`. Raises ``ValueError`` otherwise."""
    state: State | None = None
    for event in events:
        if state is not None and not isinstance(event, Started):
            state.apply(event)
        elif state is None and isinstance(event, Started):
            state = State(event)
        else:
            raise ValueError(f"events: {type(event).__name__} cannot stand here; a run starts once, first")
    if state is None:
        raise ValueError("events: there are none")
    return state
