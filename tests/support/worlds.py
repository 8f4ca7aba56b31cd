"""Worlds at random: a model, tools, rules, a person and limits, and the run that they make together."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from brida.core.events import ANSWER_TOOL, Event, Fault, Finding, Reconciled, Reply, Said, Sent
from brida.core.limits import Limits
from brida.core.policy import TIERS, Policy
from brida.core.stops import Stop
from support.loop import INTERRUPTED, FakeTool, Simulation

# --- the model --------------------------------------------------------------------------------------------

PAUSES = ("pause_turn", "compaction")
STOP_REASONS = (
    *("tool_use",) * 24,
    *("end_turn",) * 3,
    *("max_tokens",) * 2,
    *PAUSES * 2,
    "stop_sequence",
    "refusal",
    "model_context_window_exceeded",
    "brand_new",
    None,
)
NAMES = (
    ANSWER_TOOL,
    "read",
    "read",
    "poll",
    "clock",
    "fails",
    "strict",
    "write",
    "write",
    "pay",
    "send",
    "book",
    "again",
    "careful",
    "gone",
)
ARGUMENTS: tuple[Any, ...] = (
    {},
    {"p": 1},
    {"p": 1.0},
    {"p": ".env"},
    {"b": [None, "é"], "a": {"y": 1, "x": 2}},
)
BLOCKS: tuple[Any, ...] = (
    {"type": "text", "text": "so"},
    {"type": "text", "text": "so"},
    {"type": "text", "text": " \n"},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "brand_new", "z": 1, "a": None},
)
BAD: tuple[Any, ...] = ({"id": "a b"}, {"name": None}, {"input": "{}"}, {"id": "first"}, {"id": None})
COUNTERS = (*(7,) * 12, 0, 200, None, -1, True, "7")


def results_of(searches: list[str]) -> list[dict[str, Any]]:
    return [{"type": "web_search_tool_result", "tool_use_id": s, "content": []} for s in searches]


@dataclass(frozen=True)
class Shape:
    """A reply before it has ids of its own."""

    stop_reason: str | None
    blocks: tuple
    calls: tuple
    bad: dict
    searches: bool
    found: bool
    usage: dict | None

    def reply(self, n: int, unresolved: list[str]) -> Reply:
        """``unresolved``: searches of the server, which it ends in the next reply that is no pause."""
        content = [*self.blocks]
        if self.found or self.stop_reason not in PAUSES:
            content += results_of(unresolved)
        if self.searches and self.stop_reason in (*PAUSES, "tool_use"):
            content.append({"type": "server_tool_use", "id": f"s{n}", "name": "web_search", "input": {}})
        for i, (name, given, fresh, by_code) in enumerate(self.calls):
            arguments = {**given, "n": n} if fresh else given
            call = {"type": "tool_use", "id": f"c{n}_{i}", "name": name, "input": arguments}
            if by_code:
                call["caller"] = {"type": "code_execution_20260120", "tool_id": "s0"}
            content.append(call)
        if self.bad and self.calls:
            content[-1] = {**content[-1], **self.bad}
        return Reply(tuple(content), self.stop_reason, self.usage)


def shape_of(random: Random) -> Shape:
    stop_reason = random.choice(STOP_REASONS)
    calls = random.randint(1, 3) if random.random() < (0.95 if stop_reason == "tool_use" else 0.15) else 0
    counters = ("input_tokens", "output_tokens", *(("cache_read_input_tokens",) if often(random) else ()))
    return Shape(
        stop_reason,
        blocks=tuple(random.choices(BLOCKS, k=random.randint(0, 2))),
        calls=tuple(
            (random.choice(NAMES), random.choice(ARGUMENTS), often(random), rarely(random))
            for _ in range(calls)
        ),
        bad=random.choice(BAD) if rarely(random) else {},
        searches=rarely(random),
        found=often(random),
        usage=None if rarely(random) else {name: random.choice(COUNTERS) for name in counters},
    )


def fault_of(random: Random) -> Fault:
    return Fault(
        "cut",
        "cut",
        again=not rarely(random),
        retry_after=random.choice((None, None, 0, 1.5, 200)),
        usage=random.choice((None, {"input_tokens": 5})),
        billed=often(random),
    )


def often(random: Random) -> bool:
    return random.random() < 0.5


def rarely(random: Random) -> bool:
    return random.random() < 0.08


# --- the world --------------------------------------------------------------------------------------------


def fails(arguments):
    raise ValueError("no")


def secret(arguments):
    return "a key file" if arguments.get("p") == ".env" else None


TOOLS = (
    FakeTool("read"),
    FakeTool("poll", polls=True),
    FakeTool("clock", volatile=True),
    FakeTool("fails", fails),
    FakeTool("strict", required=("p",)),
    FakeTool("write", impact="high"),
    FakeTool("pay", impact="high", found="unclear"),
    FakeTool("send", impact="high", found="did_not_happen"),
    FakeTool("book", impact="high", found="happened"),
    FakeTool("again", impact="idempotent"),
    FakeTool("careful", raises_tier=secret),
)
GIVE = FakeTool(ANSWER_TOOL, required=("p",))
EARLIER = (
    {"role": "user", "content": "earlier"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "look"},
            {
                "type": "tool_use",
                "id": "first",
                "name": "read",
                "input": {},
                "caller": {"type": "code_execution_20260120", "tool_id": "s0"},
            },
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "first", "content": "x"}]},
)


def unresolved_in(messages: list[dict[str, Any]]) -> list[str]:
    blocks = [block for message in messages for block in message["content"]]
    found = {block["tool_use_id"] for block in blocks if block["type"] == "web_search_tool_result"}
    return [b["id"] for b in blocks if b["type"] == "server_tool_use" and b["id"] not in found]


@dataclass
class World:
    script: list[Shape | Fault]
    policy: Policy
    limits: Limits
    answers: list[Any]
    on_ask: str
    yes_to: frozenset[str]
    earlier: bool
    said_during: frozenset[int]
    steered_after: frozenset[int]
    interrupt_after: int | None
    interrupt: Stop
    found: list[Finding]
    approval_ttl: float | None
    form: str | None
    run: Simulation = field(init=False, repr=False)

    def play(self) -> Stop:
        self.run = Simulation(
            (*TOOLS, GIVE) if self.form == "tool" else TOOLS,
            self.limits,
            settings={
                "policy": self.policy,
                "on_ask": self.on_ask,
                "yes_to": self.yes_to,
                "check_answer": lambda text, say: () if text.startswith("so") else ("wrong",),
            },
            start={
                "extra": {"container": "c"},
                "messages": EARLIER if self.earlier else (),
                "answer": self.form,
                "approval_ttl": self.approval_ttl,
            },
            answer=lambda question: self.answers[len(self.run.questions) % len(self.answers)],
            interrupt_after=self.interrupt_after,
            interrupt=self.interrupt,
            steer_after=self.steered_after,
            what_happened=lambda call: self.found[len(self.run.events) % len(self.found)],
        )

        return self.run.run(self.model)

    def go_on(self) -> Stop:
        return self.run.go_on(self.model, "more")

    def crash(self, events: list[Event], *, after: float = 1_000.0) -> None:
        """Another process reads these events; nothing else is left of the run."""
        self.run = self.run.in_a_new_process(events, after=after)

    def play_on(self, text: str | None = None) -> Stop:
        """Goes on to an end, whatever waits for a person meanwhile."""
        stop = self.run.resume(self.model, text)
        for _ in range(500):
            if stop.kind != "waiting":
                return stop
            self.answer_what_waits()
            stop = self.run.resume(self.model)
        raise AssertionError("it waits again and again")

    def answer_what_waits(self) -> None:
        """What other processes say to a run that is parked."""
        run = self.run
        for call in run.state.unknown:
            found = run.what_happened(call)
            run.learn(Reconciled(0, call.asked.id, found, "person", f"it {found}"))
        for call in run.state.questions:
            assert call.question is not None
            run.ask(call.question)

    def model(self, body):
        n = sum(isinstance(event, Sent) for event in self.run.events)
        if n in self.said_during and self.run.state.closing is None:
            self.run.learn(Said(0, f"said {n}"))
        shape = self.script[min(n, len(self.script)) - 1]
        return shape if isinstance(shape, Fault) else shape.reply(n, unresolved_in(body["messages"]))


def policy_of(random: Random) -> Policy:
    patterns = random.sample((*NAMES, "*", "re*", "w?ite"), random.randint(0, 3))
    rules = {pattern: random.choice(TIERS) for pattern in patterns}
    return Policy(rules, default=random.choice(("allow", "ask", "ask", "deny")))


def limits_of(random: Random) -> Limits:
    total = random.choice((None, None, random.randint(1, 3_000)))
    closing = random.choice((None, None, random.randint(1, 500)))
    return Limits(
        closing_reply=closing if total is None or closing is None or closing < total else None,
        max_turns=random.choice((0, 2, 4, 6, 8)),
        max_requests=random.choice((None, None, random.randint(1, 15))),
        max_attempts=random.randint(1, 4),
        max_calls=random.choice((None, None, random.randint(0, 12))),
        max_pauses=random.choice((None, random.randint(0, 3))),
        max_tokens_total=total,
        deadline=random.choice((None, None, random.uniform(0.01, 5))),
        no_progress=often(random),
    )


def answer_of(random: Random) -> Any:
    if random.random() < 0.2:
        return random.choice(ARGUMENTS)
    return random.random() < 0.75, rarely(random), random.choice(("", "no"))


def some(random: Random, most: int, last: int) -> frozenset[int]:
    return frozenset(random.randint(1, last) for _ in range(random.randint(0, most)))


def world_of(random: Random) -> World:
    return World(
        script=[
            fault_of(random) if rarely(random) else shape_of(random) for _ in range(random.randint(1, 8))
        ],
        policy=policy_of(random),
        limits=limits_of(random),
        answers=[answer_of(random) for _ in range(random.randint(1, 4))],
        on_ask=random.choice(("ask", "ask", "decline", "park")),
        yes_to=frozenset(random.sample(NAMES, random.randint(0, 2))),
        earlier=often(random),
        said_during=some(random, 1, 6),
        steered_after=some(random, 2, 25),
        interrupt_after=random.choice((None, None, random.randint(2, 60))),
        interrupt=random.choice((INTERRUPTED, Stop("stopped"), Stop("waiting"))),
        found=[random.choice(("happened", "did_not_happen", "unknown")) for _ in range(3)],
        approval_ttl=random.choice((None, 500.0)),
        form=random.choice((None, None, "tool", "text")),
    )


worlds = st.randoms(use_true_random=True).map(world_of)
"""Hypothesis chooses the seed alone: what it draws by itself is so simple that hardly any run has a turn."""
