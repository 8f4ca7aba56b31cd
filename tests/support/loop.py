"""A driver without a world: carries out the core's steps with scripted replies and made-up tools.

No event loop, no clock, no thread. It does what the local driver does, in the same order, so that the
core can be tried by itself, millions of times.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from brida.core.events import (
    Answered,
    CallFinished,
    Declaration,
    Event,
    Fault,
    Lost,
    Received,
    Reply,
    Said,
    Started,
    Waited,
)
from brida.core.run import Ask, Done, Env, Execute, Send, Step, Wait, next_step
from brida.core.state import Call, State
from brida.core.stops import Stop
from brida.core.valves import Gates, Limits


USAGE = {"input_tokens": 10, "output_tokens": 5}


@dataclass(frozen=True)
class FakeTool:
    """A tool as the core sees it; ``run`` is what the harness executes."""

    name: str
    run: Callable[[Mapping], str] = lambda arguments: "done"
    impact: str = "read"
    impact_declared: bool = True
    polls: bool = False
    volatile: bool = False
    required: tuple[str, ...] = ()
    raises_tier: Callable[[Mapping], str | None] = lambda arguments: None

    def problems(self, arguments: Mapping, say: object) -> tuple[str, ...]:
        return tuple(f"{name}: missing" for name in self.required if name not in arguments)

    def asks_anyway(self, arguments: Mapping, say: object) -> str | None:
        return self.raises_tier(arguments)

    @property
    def declaration(self) -> Declaration:
        definition = {"name": self.name, "input_schema": {"type": "object"}}
        return Declaration(self.name, definition, self.impact, self.polls, self.volatile)


def started(tools: Iterable[FakeTool] = (), **settings: object) -> Started:
    values = {"model": "m", "max_tokens": 100, "max_tokens_ceiling": 400, "run_id": "r", "at": 0.0}
    return Started(tools=tuple(tool.declaration for tool in tools), **{**values, **settings})


def environment(
    tools: Iterable[FakeTool] = (), *, limits: Limits | None = None, valves=None, **settings
) -> Env:
    limits = limits or Limits()
    gates = Gates.of(limits, **(valves or {}))
    return Env(limits=limits, tools={tool.name: tool for tool in tools}, gates=gates, **settings)


@dataclass
class Simulation:
    """One run over the core. ``replies`` are consumed one an attempt; a function makes them instead."""

    tools: tuple[FakeTool, ...] = ()
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, object] = field(default_factory=dict)
    start: Mapping[str, object] = field(default_factory=dict)
    answer: Callable | None = None
    seconds: float = 0.01
    valves: Mapping | None = None

    def __post_init__(self) -> None:
        self.env = environment(self.tools, limits=self.limits, valves=self.valves, **self.settings)
        self.events: list[Event] = []
        self.bodies: list[dict] = []
        self.ran: list[tuple[str, Mapping]] = []
        self.waits: list[float] = []
        self.now = 0.0
        begin = started(self.tools, **self.start)
        self.state = State(begin)
        self.events.append(begin)

    def run(self, replies, text: str = "task", *, interrupt_after: type | None = None) -> Stop:
        self.learn(Said(0.0, text))
        script = iter(replies) if not callable(replies) else None
        while True:
            step = next_step(self.state, self.env)
            if isinstance(step, Done):
                self.learn(*step.events)
                return step.stop
            self.learn(*step.events)
            self.do(step, lambda body: replies(body) if script is None else next(script))

    def do(self, step: Step, model: Callable) -> None:
        match step:
            case Send():
                body = step.request.as_dict()
                self.bodies.append(body)
                said = model(body)
                self.learn(Lost(0, said) if isinstance(said, Fault) else Received(0, said))
            case Wait():
                self.waits.append(step.seconds)
                self.now += step.seconds
                self.learn(Waited(0, step.seconds))
            case Ask():
                question = step.questions[0]
                said = self.answer(question) if self.answer else (True, False, "")
                allow, session, reason = said if isinstance(said, tuple) else (said, False, "")
                self.learn(Answered(0, question.call_id, question.digest, allow, "test", reason, session))
            case Execute():
                for call in step.calls:
                    self.learn(self.execute(call))

    def execute(self, call: Call) -> CallFinished:
        self.ran.append((call.asked.tool, call.asked.arguments))
        tool = self.env.tools[call.asked.tool]
        try:
            return CallFinished(0, call.asked.id, "ok", tool.run(call.asked.arguments))
        except Exception as error:
            return CallFinished(0, call.asked.id, "failed", f"{type(error).__name__}: {error}")

    def learn(self, *events: Event) -> None:
        for event in events:
            self.now += self.seconds
            stamped = replace(event, at=self.now)
            self.state.apply(stamped)
            self.events.append(stamped)

    @property
    def messages(self) -> list[dict]:
        """The messages of the last request."""
        return self.bodies[-1]["messages"]


def says(*blocks, stop: str = "", usage: Mapping | None = USAGE, **more) -> Reply:
    """A reply; strings are text blocks, triples are calls ``(id, tool, arguments)``.

    It stops with ``stop``, where that is not given because of its calls or else its end.
    """
    content = tuple(_block(block) for block in blocks)
    calls = any(block.get("type") == "tool_use" for block in content)
    return Reply(content, stop or ("tool_use" if calls else "end_turn"), usage, **more)


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
