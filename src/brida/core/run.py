"""The loop: what the run wants done next.

``next_step(state, env)`` is a pure function. It looks at the state, the gates, the policy and the tools,
and names one step: send, wait, ask, execute, note, done. A step carries the events that must be durable
*before* it is carried out; a driver appends them, does the step, appends what came of it, and asks
again. Whatever is decided here becomes an event, so the state alone, folded from the events, says what
has been settled.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from brida.core import wording
from brida.core.encoding import encode
from brida.core.events import (
    Asked,
    CallStarted,
    Closure,
    Decided,
    Event,
    Fault,
    Impact,
    Question,
    Sent,
    Stopped,
    TurnStarted,
    Verdict,
)
from brida.core.policy import Policy
from brida.core.request import Request
from brida.core.state import Call, Phase, State
from brida.core.stops import Stop
from brida.core.valves import MAX_WAIT, Gates, Limits, ask
from brida.core.wording import Say


class Tool(Protocol):
    """What the core asks of a tool: what it can do, and what it says of a call's arguments."""

    @property
    def impact(self) -> Impact: ...
    @property
    def impact_declared(self) -> bool: ...
    def problems(self, arguments: Mapping[str, object], say: Say) -> tuple[str, ...]:
        """What is wrong with the arguments, one text a field; empty where nothing is."""
        ...

    def asks_anyway(self, arguments: Mapping[str, object], say: Say) -> str | None:
        """Why this call needs a person's answer whatever the rules allow; None where it does not."""
        ...


@dataclass(frozen=True, slots=True)
class Env:
    """What the decisions of a run are made with. Nothing of it is in the state.

    ``on_ask``: whether somebody is there to answer; where nobody is, what needs an answer is declined.
    ``yes_to``: tools whose questions are answered yes in advance; never against a deny rule.
    """

    limits: Limits
    tools: Mapping[str, Tool] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    gates: Gates = field(default_factory=lambda: Gates.of(Limits()))
    say: Say = wording.english
    on_ask: Literal["ask", "decline"] = "ask"
    yes_to: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Send:
    """Send ``request``, one attempt. ``seconds_left`` until the deadline, None where there is none."""

    request: Request
    events: tuple[Event, ...]
    seconds_left: float | None


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
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Execute:
    """Run these calls: reads together, any other alone."""

    calls: tuple[Call, ...]
    events: tuple[Event, ...]
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Note:
    """Nothing to do in the world: only remember what was decided."""

    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The run has ended; its last event, where it is not recorded yet, closes what was open."""

    stop: Stop
    events: tuple[Event, ...] = ()


Step: TypeAlias = Send | Wait | Ask | Execute | Note | Done

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
    if state.fault is not None:
        return _try_again(state, env, state.fault)
    match state.phase:
        case Phase.TURN:
            return _turn(state, env) if state.turn_open else _open_turn(state, env)
        case Phase.READY:
            return _send(state, env)
        case _:
            raise RuntimeError("an attempt is in flight: its Received or Lost comes before the next step")


# -- requests


def _send(state: State, env: Env) -> Step:
    if stop := ask(env.gates.request, state):
        return _end(state, env, stop)
    sent = Sent(state.at, state.attempts + 1, state.max_tokens, state.history.digest())
    request = Request(state.head, state.max_tokens, state.history.encoded())
    return Send(request, (sent,), _seconds_left(state, env))


def _try_again(state: State, env: Env, fault: Fault) -> Step:
    if fault.again and (stop := ask(env.gates.request, state)):
        return _end(state, env, stop)
    wait = fault.retry_after
    if wait is None:
        wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(state.attempts - 1, MOST_DOUBLINGS))
    if not fault.again or state.attempts >= env.limits.max_attempts or state.waited + wait > MAX_WAIT:
        return _end(state, env, _model_error(fault, state, wait))
    return Wait(wait, fault.retry_after is None, _seconds_left(state, env))


def _model_error(fault: Fault, state: State, wait: float) -> Stop:
    facts = {"fault": fault.kind, "message": fault.message, "attempts": state.attempts, "wait": wait}
    if not fault.again:
        del facts["wait"]
    known = {"status": fault.status, "request_id": fault.request_id}
    return Stop("model_error", facts | {name: value for name, value in known.items() if value is not None})


def _seconds_left(state: State, env: Env) -> float | None:
    return None if env.limits.deadline is None else max(0.0, env.limits.deadline - state.elapsed)


# -- turns


def _open_turn(state: State, env: Env) -> Step:
    if stop := ask(env.gates.turn, state):
        return _end(state, env, stop)
    return Note((TurnStarted(state.at, state.turns + 1),))


def _turn(state: State, env: Env) -> Step:
    """Decide all, then run: no call starts while another of its turn waits for its decision."""
    waiting = state.waiting
    verdicts = [_decide(call, state, env) for call in waiting]
    if wrong := next((v for v in verdicts if isinstance(v, Stop)), None):
        return _end(state, env, wrong)
    if decided := tuple(v for v in verdicts if isinstance(v, Decided)):
        return Note(decided)
    if stop := ask(env.gates.between, state):
        return _end(state, env, stop)
    if waiting:
        questions = tuple(v for v in verdicts if isinstance(v, Question))
        fresh = tuple(q for q, call in zip(questions, waiting, strict=True) if not call.question_put)
        return Ask(questions, (Asked(state.at, fresh),) if fresh else ())
    group = _next_group(state)
    return Execute(group, tuple(CallStarted(state.at, c.asked.id) for c in group), _seconds_left(state, env))


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


# -- decisions


def _decide(call: Call, state: State, env: Env) -> Decided | Question | Stop:
    """The call gate: deny by name, known tool, schema, policy, approval; the first that settles it."""
    asked, tool = call.asked, env.tools.get(call.asked.tool)

    def decided(verdict: Verdict, rule: str, text: str = "") -> Decided:
        return Decided(state.at, asked.id, verdict, rule, asked.digest, text)

    if rule := env.policy.denies(asked.tool):
        return decided("denied", rule, wording.denied(env.say, asked.tool))
    if tool is None:
        return decided("unknown_tool", "known tools", wording.unknown_tool(env.say, asked.tool, env.tools))
    try:
        problems = tool.problems(asked.arguments, env.say)
        raised = None if problems else tool.asks_anyway(asked.arguments, env.say)
    except Exception as error:
        facts = {"where": f"tool {asked.tool}", "error": f"{type(error).__name__}: {error}"}
        return Stop("configuration_error", facts)
    if problems:
        return decided("invalid", "schema", wording.invalid(env.say, asked.tool, problems))
    tier, rule = env.policy.decide(asked.tool, impact=tool.impact, declared=tool.impact_declared)
    if tier == "deny":
        return decided("denied", rule, wording.denied(env.say, asked.tool))
    if tier == "allow" and raised is None and call.answer is None:
        return decided("allow", rule)
    if settled := _approval(call, state, env, decided, raised):
        return settled
    shown = json.loads(encode(asked.arguments))  # a copy: whoever is asked cannot change what runs
    return Question(
        asked.id, asked.tool, shown, asked.digest, tool.impact, raised or rule, raised is not None
    )


def _approval(
    call: Call, state: State, env: Env, decided: Callable[..., Decided], raised: str | None
) -> Decided | None:
    """What answers a question: an answer to this very call, one given in advance, or that nobody is there."""
    asked, answer = call.asked, call.answer
    if answer is not None and answer.allow:
        return decided("allow", f"answered by {answer.by}")
    if answer is not None:
        return decided(
            "declined", f"answered by {answer.by}", wording.declined(env.say, asked.tool, answer.reason)
        )
    if asked.tool in env.yes_to:
        return decided("allow", f"--yes-to {asked.tool}")
    if asked.tool in state.session_allows and raised is None:
        return decided("allow", "allowed this session")
    if env.on_ask == "decline":
        return decided("declined", "nobody there", wording.nobody_there(env.say, asked.tool))
    return None


# -- endings


def _end(state: State, env: Env, stop: Stop) -> Done:
    """Ends the run: every call that is still open gets a result, so that the history is whole."""
    closed = tuple(
        Closure(call_id, _closing(call_id, state, env, stop)) for call_id in state.history.open_calls
    )
    return Done(stop, (Stopped(state.at, stop, closed),))


def _closing(call_id: str, state: State, env: Env, stop: Stop) -> str:
    call = state.calls.get(call_id)
    if call is not None and call.started:
        return wording.outcome_unknown(env.say)
    return wording.did_not_run(env.say, stop)
