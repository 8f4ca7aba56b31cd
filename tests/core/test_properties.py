"""What must hold for every model, every policy, every person and every fault: drawn at random.

:class:`Simulation` checks each request and each ending on its way; here it is given worlds at random.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.encoding import digest
from brida.core.events import (
    ANSWER_TOOL,
    Answered,
    Asked,
    CallFinished,
    CallStarted,
    Checked,
    Closing,
    Decided,
    Fault,
    Received,
    Reply,
    Said,
    Sent,
    decode_event,
    encode_event,
)
from brida.core.policy import TIERS, Policy
from brida.core.state import State, fold
from brida.core.stops import STOP_CLASSES, Stop
from brida.core.valves import Limits
from support.loop import FakeTool, Simulation, says

# --- the model --------------------------------------------------------------------------------------------

PAUSES = ("pause_turn", "compaction")
STOP_REASONS = (
    *("tool_use",) * 6,
    "end_turn",
    "stop_sequence",
    "max_tokens",
    "pause_turn",
    *PAUSES,
    "refusal",
    "model_context_window_exceeded",
    "brand_new",
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
    {"type": "text", "text": " \n"},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "brand_new", "z": 1, "a": None},
)
BAD: tuple[Any, ...] = ({"id": "a b"}, {"name": None}, {"input": "{}"}, {"id": "first"}, {"id": None})
COUNTERS = (0, 7, 200, None, -1, True, "7")

calls = st.tuples(st.sampled_from(NAMES), st.sampled_from(ARGUMENTS), st.booleans())


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
        for i, (name, arguments, by_code) in enumerate(self.calls):
            call = {"type": "tool_use", "id": f"c{n}_{i}", "name": name, "input": arguments}
            if by_code:
                call["caller"] = {"type": "code_execution_20260120", "tool_id": "s0"}
            content.append(call)
        if self.bad and self.calls:
            content[-1] = {**content[-1], **self.bad}
        return Reply(tuple(content), self.stop_reason, self.usage)


shapes = st.builds(
    Shape,
    stop_reason=st.sampled_from(STOP_REASONS) | st.none(),
    blocks=st.lists(st.sampled_from(BLOCKS), max_size=2).map(tuple),
    calls=st.just(()) | st.lists(calls, min_size=1, max_size=3).map(tuple),
    bad=st.just({}) | st.just({}) | st.just({}) | st.sampled_from(BAD),
    searches=st.booleans(),
    found=st.booleans(),
    usage=st.none()
    | st.fixed_dictionaries(
        {"input_tokens": st.sampled_from(COUNTERS), "output_tokens": st.sampled_from(COUNTERS)},
        optional={"cache_read_input_tokens": st.sampled_from(COUNTERS)},
    ),
)
faults = st.builds(
    Fault,
    kind=st.just("cut"),
    message=st.just("cut"),
    again=st.sampled_from((True, True, False)),
    retry_after=st.none() | st.sampled_from((0, 1.5, 200)),
    usage=st.none() | st.just({"input_tokens": 5}),
    billed=st.booleans(),
)


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
    interrupt_after: int | None
    form: str | None
    run: Simulation = field(init=False)

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
            },
            answer=lambda question: self.answers[len(self.run.questions) % len(self.answers)],
            interrupt_after=self.interrupt_after,
        )

        return self.run.run(self.model)

    def go_on(self) -> Stop:
        return self.run.go_on(self.model, "more")

    def model(self, body):
        n = len(self.run.bodies)
        if n in self.said_during and self.run.state.closing is None:
            self.run.learn(Said(0, f"said {n}"))
        shape = self.script[min(n, len(self.script)) - 1]
        return shape if isinstance(shape, Fault) else shape.reply(n, unresolved_in(body["messages"]))


policies = st.builds(
    lambda rules, default: Policy(rules, default=default),
    st.dictionaries(st.sampled_from((*NAMES, "*", "re*", "w?ite")), st.sampled_from(TIERS), max_size=3),
    default=st.sampled_from(TIERS),
)


def limits_of(*, closing_reply: int | None, max_tokens_total: int | None, **more: Any) -> Limits:
    fits = closing_reply is None or max_tokens_total is None or closing_reply < max_tokens_total
    return Limits(closing_reply=closing_reply if fits else None, max_tokens_total=max_tokens_total, **more)


worlds = st.builds(
    World,
    script=st.lists(shapes | shapes | shapes | faults, min_size=1, max_size=8),
    policy=policies,
    limits=st.builds(
        limits_of,
        closing_reply=st.none() | st.integers(1, 500),
        max_turns=st.integers(0, 6),
        max_requests=st.none() | st.integers(1, 9),
        max_attempts=st.integers(1, 4),
        max_calls=st.none() | st.integers(0, 12),
        max_pauses=st.none() | st.integers(0, 3),
        max_tokens_total=st.none() | st.integers(1, 3_000),
        deadline=st.none() | st.floats(0.01, 5),
        no_progress=st.booleans(),
    ),
    answers=st.lists(
        st.tuples(st.booleans(), st.booleans(), st.sampled_from(("", "no"))) | st.sampled_from(ARGUMENTS),
        min_size=1,
        max_size=4,
    ),
    on_ask=st.sampled_from(("ask", "decline")),
    yes_to=st.frozensets(st.sampled_from(NAMES), max_size=2),
    earlier=st.booleans(),
    said_during=st.just(frozenset()) | st.frozensets(st.integers(1, 6), max_size=2),
    interrupt_after=st.none() | st.integers(2, 40),
    form=st.sampled_from((None, None, "tool", "text")),
)
many = settings(max_examples=250, deadline=None)


# --- what must hold ---------------------------------------------------------------------------------------


@many
@given(worlds)
def test_every_run_stops_within_its_bounds_and_every_request_is_valid(world):
    stop = world.play()
    run, state, limits = world.run, world.run.state, world.limits
    assert stop.kind in STOP_CLASSES
    assert state.turns <= limits.max_turns
    assert state.requests <= limits.requests
    closing = state.closing_requests
    assert closing <= (limits.closing_reply is not None)
    assert len(run.bodies) <= limits.requests * limits.max_attempts + closing
    assert (
        max((event.attempt for event in run.events if isinstance(event, Sent)), default=0)
        <= limits.max_attempts
    )
    assert limits.max_calls is None or state.calls_seen <= limits.max_calls
    assert limits.max_pauses is None or state.pauses <= limits.max_pauses + 1
    for before, after in zip(run.bodies, run.bodies[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"], "nothing sent is edited"
    for before, after in itertools.pairwise(run.bodies[: len(run.bodies) - closing]):
        assert after["max_tokens"] in (before["max_tokens"], 2 * before["max_tokens"])


@many
@given(worlds)
def test_nothing_runs_that_was_not_decided_and_nothing_is_lost_that_was_done(world):
    world.play()
    run = world.run
    asked = {
        question.call_id for event in run.events if isinstance(event, Asked) for question in event.questions
    }
    allowed: dict[str, Decided] = {}
    undecided: set[str] = set()
    begun: list[str] = []
    digests: dict[str, str] = {}
    for event in run.events:
        match event:
            case Received(reply=reply):
                undecided = {
                    b["id"] for b in reply.content if b["type"] == "tool_use" and isinstance(b["id"], str)
                }
            case Answered():
                assert event.call_id in asked
                digests[event.call_id] = event.digest
            case Decided():
                undecided.discard(event.call_id)
                if event.verdict == "allow":
                    allowed[event.call_id] = event
                    assert digests.get(event.call_id, event.digest) == event.digest
            case CallStarted():
                assert not undecided, "all are decided before any runs"
                assert event.call_id in allowed
                begun.append(event.call_id)
    assert len(begun) == len(set(begun)) == len(run.ran), "nothing runs twice"
    assert [digest(*ran) for ran in run.ran] == [allowed[call_id].digest for call_id in begun]
    assert not any(world.policy.denies(tool) for tool, _ in run.ran), "deny never runs"
    done = {event.call_id: event.content for event in run.events if isinstance(event, CallFinished)}
    heard = {result["tool_use_id"]: result["content"] for result in run.results}
    assert done.items() <= heard.items(), "what was done is not lost"


@many
@given(worlds)
def test_every_text_of_a_person_is_heard_in_order_unless_the_run_stops_first(world):
    world.play()
    said = [event.text for event in world.run.events if isinstance(event, Said)]
    told = {event.text for event in world.run.events if isinstance(event, Closing | Checked)}
    heard = [
        block["text"]
        for message in world.run.closed
        if message["role"] == "user"
        for block in message["content"]
        if block["type"] == "text" and block["text"] not in ("earlier", *told)
    ]
    assert heard == said[: len(heard)]
    if world.run.state.stop == Stop("completed"):
        assert heard == said


@many
@given(worlds)
def test_every_beginning_of_a_journal_can_be_read_and_the_whole_gives_the_same_state(world):
    world.play()
    run = world.run
    lines = [encode_event(event) for event in run.events]
    assert [decode_event(line) for line in lines] == run.events
    state = State(run.events[0])
    for line in lines[1:]:
        before = state.copy()
        state.apply(decode_event(line))
        if not state.history.open_calls:
            assert len(state.history.digest()) == 64
        assert before.at <= state.at
    again = fold(run.events)
    for name in (
        "turns",
        "requests",
        "calls_seen",
        "pauses",
        "usage",
        "text",
        "stop",
        "elapsed",
        "past",
        "not_run",
    ):
        assert getattr(again, name) == getattr(state, name) == getattr(run.state, name)
    assert again.history.encoded() == state.history.encoded() == run.state.history.encoded()


@settings(max_examples=60, deadline=None)
@given(worlds)
def test_the_same_world_gives_the_same_run(world):
    world.play()
    events, bodies = world.run.events, world.run.bodies
    world.play()
    assert world.run.events == events
    assert world.run.bodies == bodies


@many
@given(worlds)
def test_a_session_goes_on_from_wherever_it_stopped_within_its_bounds(world):
    world.play()
    run, limits = world.run, world.limits
    before, used = len(run.bodies), run.state.usage.total
    assert world.go_on().kind in STOP_CLASSES
    state = run.state
    assert (state.turns <= limits.max_turns, state.requests <= limits.requests) == (True, True)
    assert len(run.bodies) - before <= limits.requests * limits.max_attempts + state.closing_requests
    assert state.usage.total >= used
    assert [event for event in run.events if isinstance(event, Said)][-1].text


@settings(max_examples=60, deadline=None)
@given(worlds)
def test_whoever_goes_on_from_the_messages_of_a_run_sends_a_valid_request(world):
    world.play()
    run = Simulation(TOOLS, start={"extra": {"container": "c"}, "messages": tuple(world.run.closed)})
    run.run(lambda body: says(*results_of(unresolved_in(body["messages"])), "done"), "more")
    assert run.bodies[0]["messages"][: len(world.run.closed) - 1] == world.run.closed[:-1]
