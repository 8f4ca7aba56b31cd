"""The loop: what the run wants done next.

``next_step(state, env)`` is a pure function. It looks at the state, the gates, the policy and the tools,
and names one step: send, wait, ask, execute, note, done. A step carries the events that must be durable
*before* it is carried out; a driver appends them, does the step, appends what came of it, and asks
again. Whatever is decided here becomes an event, so the state alone, folded from the events, says what
has been settled.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from brida.core import wording
from brida.core.ceilings import largest, reserve
from brida.core.decisions import Env, decide
from brida.core.events import (
    ANSWER_TOOL,
    Asked,
    CallStarted,
    Checked,
    Closing,
    Closure,
    Decided,
    Event,
    Fault,
    Question,
    Reconciled,
    Sent,
    Stopped,
    TurnStarted,
)
from brida.core.limits import Limits
from brida.core.request import Head, Request
from brida.core.state import RATE_LIMITED, State
from brida.core.stops import Stop
from brida.core.turn import Call, Phase
from brida.core.valves import CLOSING_STOPS, MAX_WAIT, ask, worked


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``request``, one attempt. ``seconds_left`` until the deadline, None where there is none."""

    request: Request
    events: tuple[Event, ...]
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Count:
    """Let the server count the tokens of ``request``, which a bound by bytes would not let pass."""

    request: Request
    seconds_left: float | None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait ``seconds`` before another attempt; ``jitter`` where the server did not ask for this wait."""

    seconds: float
    jitter: bool
    seconds_left: float | None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """Put these questions to a person; each answer is an event of its own."""

    questions: tuple[Question, ...]
    events: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """Run these calls: reads together, any other alone."""

    calls: tuple[Call, ...]
    events: tuple[Event, ...]
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class FindOut:
    """Find out from its tool, or a person, what became of ``call``, whose process died."""

    call: Call
    of: Literal["tool", "person"]
    seconds_left: float | None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Nothing to do in the world: only remember what was decided."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The run has ended; its last event, where it is not recorded yet, closes what was open."""

    stop: Stop
    events: tuple[Event, ...] = ()


Step: TypeAlias = Send | Count | Wait | Ask | Execute | FindOut | Note | Done

BUDGETS: Final = ("token_budget", "cost_budget")
FIRST_WAIT: Final = 0.5
LONGEST_WAIT: Final = 8.0
MOST_DOUBLINGS: Final = 10


def next_step(state: State, env: Env) -> Step:
    """What the run wants done next.

    Raises ``RuntimeError`` where an attempt is in flight: what came of it must be learned first.
    """
    if state.stop is not None:
        return Done(state.stop)
    if state.ending is not None:
        return _end(state, env, state.ending)
    if state.closing is not None and state.phase is Phase.READY:
        return _closing_reply(state, env, state.closing)
    if state.fault is not None:
        return _try_again(state, env, state.fault)
    match state.phase:
        case Phase.TURN:
            return _turn(state, env) if state.turn_open else _open_turn(state, env)
        case Phase.CHECK:
            return _check(state, env)
        case Phase.READY:
            return _send(state, env)
        case _:
            raise RuntimeError("an attempt is in flight: its Received or Lost comes before the next step")


# -- requests


def _send(state: State, env: Env) -> Step:
    stop = ask(env.gates.request, state)
    fitting = largest(state, env.limits, state.head, state.max_tokens)
    if (stop is None or stop.kind in BUDGETS) and fitting != state.max_tokens and _can_count(state, env):
        return _count(state, env)
    if stop is not None or isinstance(fitting, Stop):
        return _end(state, env, stop or fitting)  # type: ignore[arg-type]
    return _attempt(state, env, state.attempts + 1, state.head, fitting)


def _count(state: State, env: Env) -> Count:
    request = Request(state.head, state.max_tokens, state.history.encoded())
    return Count(request, seconds_left(state, env.limits))


def _can_count(state: State, env: Env) -> bool:
    """Whether the server's own count may be lower than the bound, and was not asked for yet."""
    return env.counts_tokens and not state.tokens_counted


def _attempt(state: State, env: Env, number: int, head: Head, max_tokens: int) -> Send:
    digest = Request.digest(head, max_tokens, state.history.digest())
    request = Request(head, max_tokens, state.history.encoded())
    sent = Sent(state.at, number, max_tokens, digest, reserve(state, head, max_tokens))
    return Send(request, (sent,), seconds_left(state, env.limits))


def _try_again(state: State, env: Env, fault: Fault) -> Step:
    if fault.again and (stop := ask(env.gates.request, state)):
        counts = stop.kind in BUDGETS and _can_count(state, env)
        return _count(state, env) if counts else _end(state, env, stop)
    backoff = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(state.attempts - 1, MOST_DOUBLINGS))
    wait = backoff if fault.retry_after is None else fault.retry_after
    patience = env.limits.wait_rate_limit
    if patience is not None and fault.kind == RATE_LIMITED:
        wait = max(wait, backoff)  # so that the seconds bound the attempts
        over = state.waited_out + wait > patience
    else:
        limited, waited_out = (0, 0.0) if patience is None else (state.limited, state.waited_out)
        over = state.attempts - limited >= env.limits.max_attempts
        over = over or state.waited - waited_out + wait > MAX_WAIT
    if not fault.again or over:
        return _end(state, env, _model_error(fault, state, wait))
    return Wait(wait, fault.retry_after is None, seconds_left(state, env.limits, waiting=True))


def _model_error(fault: Fault, state: State, wait: float) -> Stop:
    facts = {"fault": fault.kind, "message": fault.message, "attempts": state.attempts, "wait": wait}
    if not fault.again:
        del facts["wait"]
    known = {"status": fault.status, "request_id": fault.request_id}
    return Stop("model_error", facts | {name: value for name, value in known.items() if value is not None})


def _closing_reply(state: State, env: Env, stop: Stop) -> Step:
    """One attempt at one more reply, with the same tools, none of which it may call."""
    size = env.limits.closing_reply
    if size is None or state.closing_requests or ask(env.gates.closing, state):
        return _end(state, env, stop)
    head = Head.of(state.started, closing=True)
    fitting = largest(state, env.limits, head, min(size, state.started.max_tokens_ceiling), closing=True)
    return _end(state, env, stop) if isinstance(fitting, Stop) else _attempt(state, env, 1, head, fitting)


def _check(state: State, env: Env) -> Step:
    try:
        return Note((Checked(state.at, _wrong_answer(state, env)),))
    except Exception as error:
        facts = {"where": "output", "error": f"{type(error).__name__}: {error}"}
        return _end(state, env, Stop("configuration_error", facts))


def _wrong_answer(state: State, env: Env) -> str:
    """What is wrong with the answer that would complete the run; empty where nothing is."""
    if state.started.answer == "tool":
        return wording.answer_missing(env.say, ANSWER_TOOL)
    if env.check_answer is None:
        return ""
    found = [env.check_answer(text, env.say) for text in state.answer_texts]
    return wording.answer_wrong(env.say, found[0]) if all(found) else ""


def seconds_left(state: State, limits: Limits, *, waiting: bool = False) -> float | None:
    """Until the deadline; None where there is none, or where a wait between attempts does not count."""
    if limits.deadline is None or (waiting and not limits.deadline_counts_waits):
        return None
    return max(0.0, limits.deadline - worked(state, counts_waits=limits.deadline_counts_waits))


# -- turns


def _open_turn(state: State, env: Env) -> Step:
    if stop := ask(env.gates.turn, state):
        return _end(state, env, stop)
    return Note((TurnStarted(state.at, state.turns + 1),))


def _turn(state: State, env: Env) -> Step:
    """Decide all, then run: no call starts while another of its turn waits for its decision, nor while
    nobody knows what became of one.
    """
    if unknown := state.unknown:
        return _find_out(unknown[0], state, env)
    waiting = state.waiting
    verdicts = [decide(call, state, env) for call in waiting]
    if wrong := next((v for v in verdicts if isinstance(v, Stop)), None):
        return _end(state, env, wrong)
    if decided := tuple(v for v in verdicts if isinstance(v, Decided)):
        return Note(decided)
    if stop := ask(env.gates.between, state):
        return _end(state, env, stop)
    if waiting:
        questions = tuple(v for v in verdicts if isinstance(v, Question))
        fresh = tuple(q for q, call in zip(questions, waiting, strict=True) if call.question is None)
        if env.on_ask == "park" and not fresh:
            return _end(state, env, Stop("waiting", {"questions": len(questions)}))
        return Ask(questions, (Asked(state.at, fresh),) if fresh else ())
    if waiting_calls := state.waiting_for_runs:
        runs = [call.waits_for for call in waiting_calls]
        return _end(state, env, Stop("waiting", {"questions": len(runs), "runs": runs}))
    group = _next_group(state)
    return Execute(
        group, tuple(CallStarted(state.at, c.asked.id) for c in group), seconds_left(state, env.limits)
    )


def _find_out(call: Call, state: State, env: Env) -> Step:
    if stop := ask(env.gates.between, state):
        return _end(state, env, stop)
    tool = env.tools.get(call.asked.tool)
    if not call.unclear and tool is not None and tool.reconciles:
        return FindOut(call, "tool", seconds_left(state, env.limits))
    if not call.unclear:
        return Note((Reconciled(state.at, call.asked.id, "unclear", "its tool cannot tell"),))
    if env.on_ask == "park":
        return _end(state, env, Stop("waiting", {"questions": 1}))
    if env.on_ask == "ask":
        return FindOut(call, "person", None)
    words = wording.outcome_unknown(env.say)
    return Note((Reconciled(state.at, call.asked.id, "unknown", "nobody there", words),))


def _next_group(state: State) -> tuple[Call, ...]:
    """The calls that run next: reads in a row together, any other call alone and in order."""
    group: list[Call] = []
    for call in state.calls.values():
        if not call.allowed or call.started:
            continue
        declared = state.tools.get(call.asked.tool)
        reads = declared is not None and declared.impact == "read"
        if group and not reads:
            break
        group.append(call)
        if not reads:
            break
    return tuple(group)


# -- endings


def _end(state: State, env: Env, stop: Stop) -> Done | Note:
    """Ends the run: every call that is still open gets a result, so that the history is whole.

    Where a limit of turns or of the budget ends it, one more reply may be asked for first.
    """
    closed = tuple(
        Closure(call_id, _closure(call_id, state, env, stop)) for call_id in state.history.open_calls
    )
    if _asks_for_closing_reply(state, env, stop):
        return Note((Closing(state.at, stop, closed, wording.closing_request(env.say, stop)),))
    return Done(stop, (Stopped(state.at, stop, closed),))


def _asks_for_closing_reply(state: State, env: Env, stop: Stop) -> bool:
    wanted = env.limits.closing_reply is not None and stop.kind in CLOSING_STOPS and state.closing is None
    return wanted and state.history.takes_text and state.requests < env.limits.requests


def _closure(call_id: str, state: State, env: Env, stop: Stop) -> str:
    call = state.calls.get(call_id)
    if call is not None and call.begun and call.waits_for is None:
        return wording.outcome_unknown(env.say)
    return wording.did_not_run(env.say, stop)
