"""What a run knows: the state, and how each event changes it.

``fold(events)`` gives the state and needs no code and no configuration, so a journal can be read long
after the tools and the policy it ran with are gone. Every value but the history is immutable and
replaced as a whole, so that a state can be copied at the price of its history.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Final, cast

from brida.core.calls import CallsOfTheTurn
from brida.core.events import (
    Answered,
    Asked,
    BudgetsRead,
    CallFinished,
    CallStarted,
    CallWaits,
    Checked,
    ChildSent,
    ChildSettled,
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
    TokensCounted,
    TurnStarted,
    Waited,
)
from brida.core.history import History
from brida.core.ledger import OWN, Ledger, Left, estimate_with_margin
from brida.core.prices import Number
from brida.core.request import Head
from brida.core.stops import Stop
from brida.core.transitions import HEARS_FIRST, Action, ModelCall, Row, classify, facts_of, look_up, text_of
from brida.core.turn import Call, PastTurn, Phase
from brida.core.usage import Usage, read_partial_usage, read_usage

RATE_LIMITED: Final = "rate_limited"
"""The kind of fault of an attempt that was lost to a rate limit."""

CRASHED: Final = Fault(
    "crashed", "the process ended before a reply came", again=True, retry_after=0.0, billed=True
)
"""What became of an attempt that was under way when its process died."""


class State(CallsOfTheTurn):
    """What a run knows. Read it anywhere (a valve, a test); only :meth:`apply` changes it.

    Counted: ``turns`` whose calls were decided, ``requests`` (the attempts of one count once),
    ``attempts`` of the request under way and the seconds it has ``waited`` between them (of both, ``limited``
    and ``waited_out`` are those of a rate limit), ``calls_seen`` in those turns, ``pauses``, ``malformed``
    replies in a row, ``closing_requests``, ``wrong_answers``. ``elapsed`` is in seconds and leaves out the
    time spent waiting for a person; ``time_waited`` is the part of it between attempts. They are those of the
    last text that a person gave; ``ledger`` is of all attempts of the session. ``left``: what is left of the
    budgets it shares. ``truncated_at``: the ``max_tokens`` at which the last reply was cut.
    """

    def __init__(self, started: Started) -> None:
        self.started = started
        self.head = Head.of(started)
        self.tools: Mapping[str, Declaration] = {tool.name: tool for tool in started.tools}
        self.history = History(started.messages)
        self.at = started.at
        self.max_tokens = started.max_tokens
        self.sent_max_tokens = 0
        self.most_input = 0
        self.ledger = Ledger.of(started.prices)
        self.left: tuple[Left, ...] = ()
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
        self.limited, self.waited_out = 0, 0.0
        self.fault: Fault | None = None
        self.truncated_at: int | None = None
        self.tokens_counted = False

    def _begin_afresh(self) -> None:
        """A person has given a new text: what is counted for one begins at nothing."""
        self._begin_request()
        self.elapsed = self.time_waited = 0.0
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
        passed = max(0.0, event.at - self.at)
        if not self._waits_for_person and kind is not Resumed:
            self.elapsed += passed
            self.time_waited += passed if kind is Waited else 0.0
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
    def usage(self) -> Usage:
        """The sum over all attempts of the session, those of the runs that this one started included."""
        return self.ledger.usage

    @property
    def cost(self) -> Number | None:
        """US dollars of all attempts of the session, None where a price is not known."""
        return None if self.ledger.cost is None else self.ledger.cost.counted

    @property
    def tokens_used(self) -> int:
        """What the token budget has paid so far: all of the session, since the budget was last renewed."""
        return int(self.ledger.tokens.spent)

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """What may be a structured answer: the last reply's own text, or with that of the pauses before."""
        return tuple(dict.fromkeys((self.reply_text, self.text)))

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

    def _sent(self, event: Sent) -> None:
        if self.closing:
            self.closing_requests += 1
        elif not self.attempts:
            self.requests += 1
        self.attempts = event.attempt
        self.sent_max_tokens = event.max_tokens
        self.phase = Phase.IN_FLIGHT
        if event.reserve is not None:
            self.ledger = self.ledger.reserve(OWN, event.reserve.tokens, event.reserve.cost)
        self.history.seal()
        head = Head.of(self.started, closing=True) if self.closing else self.head
        self.most_input = self.history.size + len(head.encoded)
        if event.reserve is not None:
            self.most_input = min(self.most_input, event.reserve.input_tokens)

    def settled_by(self, event: Event) -> Ledger:
        """The ledger after ``event``, where that says what became of the attempt under way; else as it is."""
        if self._ends_attempt(event):
            return self.ledger.settle(self.usage_by(event), lost=not isinstance(event, Received))
        return self.ledger

    def usage_by(self, event: Event) -> Usage:
        """What ``event`` says that the attempt under way came to; nothing where it says nothing of one."""
        if not self._ends_attempt(event):
            return Usage()
        crashed = isinstance(event, Resumed)
        return self._usage_of(Lost(event.at, CRASHED) if crashed else cast("Received | Lost", event))

    def _ends_attempt(self, event: Event) -> bool:
        crashed = isinstance(event, Resumed) and self.phase is Phase.IN_FLIGHT and self.stop is None
        return crashed or isinstance(event, Received | Lost)

    def _usage_of(self, event: Received | Lost) -> Usage:
        if isinstance(event, Lost):
            return read_partial_usage(event.fault.usage, billed=event.fault.billed)
        reply = event.reply
        return read_usage(
            reply.usage, most_input=self.most_input, most_output=self.sent_max_tokens, reply=reply.content
        )

    def _received(self, event: Received) -> None:
        reply = event.reply
        self.attempts, self.waited, self.fault = 0, 0.0, None
        self.limited, self.waited_out, self.tokens_counted = 0, 0.0, False
        usage = self._usage_of(event)
        self.ledger = self.ledger.settle(usage)
        text = text_of(reply.content)
        if text:
            self.text, self.reply_text = self.paused_text + text, text
        kind, calls = classify(reply.content, self.history.used_ids)
        row = look_up(reply.stop_reason, kind)
        if self.closing:
            self.phase, self.ending = Phase.OVER, self.closing
            if row.keep and kind == "text" and row.action is Action.END:
                self.history.append_reply(reply.content)
            self._know_prompt(usage, kept=True)
            return
        self.malformed = self.malformed + 1 if row.action is Action.REPEAT else 0
        if row.keep:
            resumes = row.action is Action.RESUME
            self.paused_text = self.paused_text + text if resumes else ""
            self.history.append_reply(reply.content, (call.id for call in calls), paused=resumes)
        self._know_prompt(usage, kept=row.keep)
        self.calls = {call.id: Call(call) for call in calls} if row.keep else {}
        self.turn_open = False
        self.phase, self.ending = self._dispatch(row, reply)
        if row.keep and not self.history.has_text_to_send:
            self.steered = ""

    def _know_prompt(self, usage: Usage, *, kept: bool) -> None:
        """The server has counted the prompt; what it said and we keep comes back to it, thoughts included."""
        if usage.complete:
            tokens = usage.input + (usage.output_tokens if kept else 0)
            self.ledger = self.ledger.counted_prompt(tokens, self.history.weight_sent)

    def _dispatch(self, row: Row, reply: Reply) -> tuple[Phase, Stop | None]:
        self.truncated_at = self.sent_max_tokens if row.action is Action.GROW else None
        match row.action:
            case Action.RUN_CALLS:
                return Phase.TURN, None
            case Action.REPEAT if self.malformed == 1:
                return Phase.READY, None
            case Action.GROW if self.sent_max_tokens < self.started.max_tokens_ceiling:
                larger = max(self.max_tokens, self.sent_max_tokens * 2)
                self.max_tokens = min(larger, self.started.max_tokens_ceiling)
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
                    row.stop, facts_of(row, reply, max_tokens=self.sent_max_tokens, ignored=len(self.calls))
                )

    def _lost(self, event: Lost) -> None:
        self.ledger = self.ledger.settle(self._usage_of(event), lost=True)
        self.fault = event.fault
        self.limited += event.fault.kind == RATE_LIMITED
        self.phase = Phase.READY

    def _waited(self, event: Waited) -> None:
        self.waited += event.seconds
        if self.fault is not None and self.fault.kind == RATE_LIMITED:
            self.waited_out += event.seconds
        self.fault = None

    def _tokens_were_counted(self, event: TokensCounted) -> None:
        self.tokens_counted = True
        if event.input_tokens is not None:
            tokens = estimate_with_margin(event.input_tokens)
            bound = self.ledger.input_bound(self.history.weight, len(self.head.encoded))
            if tokens < bound:
                self.ledger = self.ledger.counted_prompt(tokens, self.history.weight_to_send)

    def _budgets_read(self, event: BudgetsRead) -> None:
        self.left = event.left

    def _child_sent(self, event: ChildSent) -> None:
        self.ledger = self.ledger.reserve(event.run_id, event.tokens, event.cost)

    def _child_settled(self, event: ChildSettled) -> None:
        self.ledger = self.ledger.settle_child(
            event.run_id, event.usage, event.cost, event.held_tokens, event.held_cost
        )

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
        self.stop, self.closed, self.left = None, (), ()
        self.ledger = self.ledger.orphaned()
        if event.prices is not None:
            self.ledger = self.ledger.priced(event.prices)
        if event.afresh:
            self._begin_afresh()
            self.history.leave_out_pause()
            self.ledger = self.ledger.shortened(self.history.weight_sent)
        if event.new_budget:
            self.ledger = self.ledger.renewed()

    def _go_on_within(self, event: Resumed) -> None:
        """What a process left, or what waited for a person, goes on where it stood."""
        self.stop_requested, self.past = None, ()
        lasting = inf if self.started.approval_ttl is None else self.started.approval_ttl
        if self.phase is Phase.IN_FLIGHT:
            self._lost(Lost(event.at, CRASHED))
        for call in self.calls.values():
            declared = self.tools.get(call.asked.tool)
            if call.waits_for is not None:
                self._change(call.asked.id, waits_for=None, started=False)
            elif call.started and call.finished is None:
                repeats = declared is not None and declared.impact != "high"
                self._change(call.asked.id, died=True, started=not repeats)
            if call.answer and not call.begun and event.at - call.answer.at >= lasting:
                self._forget_answer(call, call.answer)


_PHASES: Final[Mapping[type, Phase]] = {
    **dict.fromkeys((Sent, Waited, TokensCounted), Phase.READY),
    **dict.fromkeys((Received, Lost), Phase.IN_FLIGHT),
    **dict.fromkeys(
        (
            *(TurnStarted, Asked, Answered, Edited, Decided, CallStarted, CallFinished, Reconciled),
            *(ChildSent, CallWaits),
        ),
        Phase.TURN,
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
    TokensCounted: State._tokens_were_counted,
    BudgetsRead: State._budgets_read,
    ChildSent: State._child_sent,
    ChildSettled: State._child_settled,
    CallWaits: State._call_waits,
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
