"""A driver without a world: carries out the core's steps with scripted replies and made-up tools.

No event loop, no clock, no thread. It does what the local driver does, in the same order, so that the
core can be tried by itself, thousands of times a second. Every request that leaves and every ending is
checked on the way; a test that uses a :class:`Simulation` need not ask for it.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from brida.core.codec import decode_event, encode_event
from brida.core.decisions import Env
from brida.core.events import (
    Answered,
    CallFinished,
    Declaration,
    Edited,
    Event,
    Fault,
    Finding,
    Impact,
    Lost,
    Question,
    Received,
    Reconciled,
    Reply,
    Resumed,
    Said,
    Sent,
    Started,
    Stopped,
    StopRequested,
    Waited,
)
from brida.core.limits import Limits
from brida.core.run import Ask, Done, Execute, FindOut, Send, Step, Wait, next_step
from brida.core.state import State, fold
from brida.core.stops import Stop
from brida.core.turn import Call, Phase
from brida.core.usage import Usage, read_partial_usage, read_usage
from brida.core.valves import Gates
from support.validator import PrefixValidator

Model = Callable[[dict[str, Any]], Reply | Fault]
"""Makes the reply from the body of the request."""

USAGE = {"input_tokens": 10, "output_tokens": 5}
INTERRUPTED = Stop("interrupted")
MOST_STEPS = 10_000


def silent(body: dict[str, Any]) -> Reply:
    """The model where no request is expected."""
    raise AssertionError("a request was not expected")


@dataclass(frozen=True)
class FakeTool:
    """A tool as the core sees it; ``run`` is what the harness executes."""

    name: str
    run: Callable[[Mapping], str] = lambda arguments: "done"
    impact: Impact = "read"
    impact_declared: bool = True
    polls: bool = False
    volatile: bool = False
    required: tuple[str, ...] = ()
    raises_tier: Callable[[Mapping], str | None] = lambda arguments: None
    found: Finding | None = None

    @property
    def reconciles(self) -> bool:
        return self.found is not None

    def problems(self, arguments: Mapping, say: object) -> tuple[str, ...]:
        return tuple(f"{name}: missing" for name in self.required if name not in arguments)

    def asks_anyway(self, arguments: Mapping, say: object) -> str | None:
        return self.raises_tier(arguments)

    @property
    def declaration(self) -> Declaration:
        definition = {"name": self.name, "input_schema": {"type": "object"}}
        return Declaration(self.name, definition, self.impact, self.polls, self.volatile)


def started(tools: Iterable[FakeTool] = (), **settings: Any) -> Started:
    values = {"model": "m", "max_tokens": 100, "max_tokens_ceiling": 400, "run_id": "r", "at": 0.0}
    return Started(tools=tuple(tool.declaration for tool in tools), **{**values, **settings})


def environment(
    tools: Iterable[FakeTool] = (), *, limits: Limits | None = None, valves: Mapping | None = None, **settings
) -> Env:
    limits = limits or Limits()
    gates = Gates.of(limits, **(valves or {}))
    return Env(limits=limits, tools={tool.name: tool for tool in tools}, gates=gates, **settings)


@dataclass
class Simulation:
    """One run over the core. ``replies`` are consumed one an attempt; a function makes them instead.

    ``answer`` is the person: True, False, ``(allow, session, reason)``, or other arguments; yes where it is
    None. ``seconds`` pass with every event; a tool, a model or a person takes more by adding to ``now``.
    ``interrupt_after``: the number of events after which somebody wants the run to stop, as ``interrupt``
    says; ``steer_after``: those after which a person says something to it.
    """

    tools: tuple[FakeTool, ...] = ()
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, Any] = field(default_factory=dict)
    start: Mapping[str, Any] = field(default_factory=dict)
    answer: Callable[[Question], Any] | None = None
    seconds: float = 0.01
    valves: Mapping | None = None
    interrupt_after: int | None = None
    interrupt: Stop = INTERRUPTED
    steer_after: frozenset[int] = frozenset()
    what_happened: Callable[[Call], Finding] = lambda call: "unknown"

    def __post_init__(self) -> None:
        self.env = environment(self.tools, limits=self.limits, valves=self.valves, **self.settings)
        self.events: list[Event] = []
        self.bodies: list[dict[str, Any]] = []
        self.ran: list[tuple[str, Mapping]] = []
        self.groups: list[list[str]] = []
        self.questions: list[Question] = []
        self.waits: list[float] = []
        self.spent = Usage()
        self.now = 0.0
        self._validator = PrefixValidator()
        begin = started(self.tools, **self.start)
        self.state = State(begin)
        self.events.append(begin)

    def run(self, replies: Iterable[Reply | Fault] | Model, text: str = "task") -> Stop:
        script = iter(replies) if not callable(replies) else None
        model: Model = replies if callable(replies) else lambda body: next(script)  # type: ignore[arg-type]
        self.learn(Said(0.0, text))
        return self._carry_on(model)

    def go_on(
        self, replies: Iterable[Reply | Fault] | Model, text: str = "and then?", **resumed: Any
    ) -> Stop:
        """Goes on with a text where the run has stopped."""
        return self.resume(replies, text, **resumed)

    def resume(
        self, replies: Iterable[Reply | Fault] | Model = (), text: str | None = None, **resumed: Any
    ) -> Stop:
        """Goes on where the run has stopped, or where its process died."""
        script = iter(replies) if not callable(replies) else None
        model: Model = replies if callable(replies) else lambda body: next(script)  # type: ignore[arg-type]
        self.wake(text, **resumed)
        return self._carry_on(model)

    def wake(self, text: str | None = None, **resumed: Any) -> None:
        """As a driver wakes a run: what was under way is unknown, what was ending ends before a new text."""
        if text is not None and self.state.stop is None and (self.state.ending or self.state.closing):
            self._resumed(Resumed(0.0))
            self.learn(StopRequested(0, INTERRUPTED))
            self.learn(*next_step(self.state, self.env).events)
        if text is not None and not self.state.history.takes_text:
            self._validator = PrefixValidator()  # a paused turn is left out, the one exception to append-only
        self._resumed(Resumed(0.0, **{"afresh": text is not None, **resumed}))
        if text is not None:
            self.learn(Said(0.0, text))

    def _resumed(self, event: Resumed) -> None:
        if self.state.stop is None and self.state.phase is Phase.IN_FLIGHT:
            self.spent += read_partial_usage(None, billed=True)
        self.learn(event)

    def in_a_new_process(self, events: Iterable[Event] | None = None, *, after: float = 1_000.0) -> Self:
        """The run as another process reads it from its first ``events``, ``after`` so many seconds."""
        other = replace(self)
        lines = [encode_event(event) for event in (self.events if events is None else events)]
        other.events = [decode_event(line) for line in lines]
        other.state = fold(other.events)
        other.spent = other.state.usage
        other.now = other.state.at + after
        return other

    def until(self, kind: type[Event], *, number: int = 1) -> list[Event]:
        """The events up to and with the one of this kind and number, as a crash just after it leaves them."""
        places = [place for place, event in enumerate(self.events, 1) if isinstance(event, kind)]
        return self.events[: places[number - 1]]

    def _carry_on(self, model: Model) -> Stop:
        for _ in range(MOST_STEPS):
            step = next_step(self.state, self.env)
            assert step == next_step(self.state, self.env), "the same question, the same answer"
            self.learn(*step.events)
            if isinstance(step, Done):
                self.check_end(step)
                return step.stop
            self.do(step, model)
        raise AssertionError("it goes on and on")

    def do(self, step: Step, model: Model = silent) -> None:
        match step:
            case Send():
                body = step.request.as_dict()
                self.check_request(body)
                self.bodies.append(body)
                said = model(body)
                self.spent += spent_by(said, step)
                self.learn(Lost(0, said) if isinstance(said, Fault) else Received(0, said))
            case Wait():
                self.waits.append(step.seconds)
                self.now += step.seconds
                self.learn(Waited(0, step.seconds))
            case Ask() if self.env.on_ask == "ask":
                self.ask(step.questions[0])
            case FindOut():
                self.find_out(step)
            case Execute():
                self.groups.append([call.asked.tool for call in step.calls])
                for call in step.calls:
                    self.learn(self.execute(call))

    def ask(self, question: Question) -> None:
        self.questions.append(question)
        said = self.answer(question) if self.answer else True
        if isinstance(said, Mapping):
            self.learn(Edited(0, question.call_id, question.digest, said, "test"))
            return
        allow, session, reason = said if isinstance(said, tuple) else (said, False, "")
        self.learn(Answered(0, question.call_id, question.digest, allow, "test", reason, session))

    def find_out(self, step: FindOut) -> None:
        """The tool says what it knows, and the person ``what_happened``."""
        tool = next(tool for tool in self.tools if tool.name == step.call.asked.tool)
        found = tool.found if step.of == "tool" else self.what_happened(step.call)
        assert found is not None
        text = found if found in ("happened", "unknown") else ""
        self.learn(Reconciled(0, step.call.asked.id, found, step.of, text))

    def execute(self, call: Call) -> CallFinished:
        self.ran.append((call.runs.tool, call.runs.arguments))
        tool = next(tool for tool in self.tools if tool.name == call.asked.tool)
        try:
            return CallFinished(0, call.asked.id, "ok", tool.run(call.runs.arguments))
        except Exception as error:
            return CallFinished(0, call.asked.id, "failed", f"{type(error).__name__}: {error}")

    def learn(self, *events: Event) -> None:
        for event in events:
            self.now += self.seconds
            stamped = replace(event, at=self.now)
            self.state.apply(stamped)
            self.events.append(stamped)
            if len(self.events) == self.interrupt_after and self.state.stop is None:
                self.learn(StopRequested(0, self.interrupt))
            elif len(self.events) in self.steer_after and self.state.stop is None:
                self.learn(Said(0, f"steered {len(self.events)}", steering=True))

    # -- what must hold in every test

    def check_request(self, body: dict[str, Any]) -> None:
        paused = any(
            isinstance(event, Received) and event.reply.stop_reason in ("pause_turn", "compaction")
            for event in self.events
        )
        assert self._validator.check_body(body, paused=paused) == []

    def check_end(self, done: Done) -> None:
        """One stop, the books in order, a history to go on from, and the same again from the journal."""
        stops = [event.stop for event in self.events if isinstance(event, Stopped)]
        pairs = list(itertools.pairwise(e for e in self.events if isinstance(e, Stopped | Resumed)))
        assert not any(isinstance(first, Stopped) and isinstance(then, Stopped) for first, then in pairs)
        assert stops[-1] == done.stop
        assert next_step(self.state, self.env) == Done(done.stop)
        assert self.state.usage == self.spent, "the sum over all attempts"
        if closed := self.closed:
            assert PrefixValidator().extend(closed, paused=True) == []
        again = fold(decode_event(encode_event(event)) for event in self.events)
        assert again.messages == self.state.messages
        if not self.state.history.open_calls:
            assert again.history.encoded() == self.state.history.encoded()
        assert (again.stop, again.usage, again.text) == (self.state.stop, self.state.usage, self.state.text)

    # -- what a test asks for

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the last request."""
        return self.bodies[-1]["messages"]

    @property
    def closed(self) -> list[dict[str, Any]]:
        """The messages as a caller can go on from."""
        return self.state.messages

    @property
    def results(self) -> list[dict[str, Any]]:
        """Every result in the closed history, in order."""
        return [
            block
            for message in self.closed
            if message["role"] == "user"
            for block in message["content"]
            if block["type"] == "tool_result"
        ]


def spent_by(said: Reply | Fault, step: Send) -> Usage:
    """What one attempt adds to the usage; where the server says nothing, a token for each byte."""
    if isinstance(said, Fault):
        return read_partial_usage(said.usage, billed=said.billed)
    request, sent = step.request, cast("Sent", step.events[0])
    size = len(request.head.encoded) + len(request.messages[1:-1])
    most = size if sent.reserve is None else min(size, sent.reserve.input_tokens)
    return read_usage(said.usage, most_input=most, most_output=request.max_tokens, reply=said.content)


def says(*blocks, stop: str = "", usage: Mapping | None = USAGE, **more) -> Reply:
    """A reply; strings are text blocks, triples are calls ``(id, tool, arguments)``.

    It stops with ``stop``, where that is not given because of its calls or else its end.
    """
    content = tuple(_block(block) for block in blocks)
    calls = any(block.get("type") == "tool_use" for block in content)
    return Reply(content, stop or ("tool_use" if calls else "end_turn"), usage, **more)


def for_ever(make: Callable[[int], Reply | Fault]) -> Model:
    """A model that never ends: ``make(n)`` is what comes of attempt n, from 0 on."""
    numbers = itertools.count()
    return lambda body: make(next(numbers))


def null_stop(*blocks) -> Reply:
    """A whole reply whose stop reason is null."""
    return replace(says(*blocks), stop_reason=None)


def _block(block):
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if isinstance(block, tuple):
        call_id, tool, arguments = block
        return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
    return block
