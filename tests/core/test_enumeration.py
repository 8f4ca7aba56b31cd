"""Every sequence of replies, up to a length, over every kind of reply: the run ends, within its bounds.

Depth first. A prefix that several sequences share is folded once and its state copied; a prefix that has
ended the run stands for all its extensions. At the end of a sequence its last kind repeats until the run
stops. What is checked is counted here a second time, not read from the state.

``-s`` shows the figures. ``BRIDA_ENUMERATION_LENGTH`` sets another length for the test that is not long.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from brida.core.encoding import encode
from brida.core.events import (
    Answered,
    CallFinished,
    CallStarted,
    Decided,
    Fault,
    Lost,
    Received,
    Reply,
    Said,
    StopRequested,
    Waited,
)
from brida.core.run import Ask, Done, Env, Execute, Note, Send, Step, Wait, next_step
from brida.core.state import State
from brida.core.stops import STOP_CLASSES, Stop
from brida.core.usage import Usage
from brida.core.valves import Limits
from support.loop import FakeTool, environment, null_stop, says, started
from support.validator import ModelRules, PrefixValidator, problems

LENGTH = int(os.environ.get("BRIDA_ENUMERATION_LENGTH", "6"))
LONG_LENGTH = 7

LIMITS = Limits(
    max_turns=5,
    max_requests=7,
    max_attempts=3,
    max_calls=8,
    max_pauses=2,
    max_tokens_total=3_000,
    deadline=70,
)
FIRST_MAX_TOKENS, CEILING = 100, 300
STOPPED = Stop("interrupted")

READ, WRITE = FakeTool("read"), FakeTool("write", impact="high")
TOOLS = (READ, WRITE)
ENV = environment(TOOLS, limits=LIMITS)

# --- the alphabet: what the model, or the way to it, does with request number n -----------------------------

SEARCH = {"type": "server_tool_use", "name": "web_search", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SPENT = {"input_tokens": 60, "output_tokens": 20, "cache_read_input_tokens": 20}
SPENT_MUCH = {"input_tokens": 100, "output_tokens": 700}
CUT = Fault("cut", "the stream was cut", again=True, usage={"input_tokens": 7}, billed=True)
REJECTED = Fault("invalid_request", "no", status=400)
ABANDONED = Fault("abandoned", "a person wants out", again=True, billed=True)


def three_calls(n: int, **more: object) -> Reply:
    """A read, a call that needs a person's answer (yes to every second one), and a tool that is not there."""
    return says(
        THOUGHT,
        (f"a{n}", "read", {"p": 1}),
        (f"b{n}", "write", {"p": 1}),
        (f"c{n}", "gone", {}),
        usage=SPENT,
        **more,
    )


REPLIES: dict[str, Callable[[int], Reply | Fault]] = {
    "new call": lambda n: says("look", (f"a{n}", "read", {"p": n}), (f"b{n}", "read", {}), usage=SPENT),
    "same call": lambda n: says((f"a{n}", "read", {"p": 0}), usage=SPENT),
    "three calls": three_calls,
    "no calls": lambda n: says("I call read()", " ", stop="tool_use", usage={}),
    "bad calls": lambda n: says((f"a{n}", "read", {}), (f"a{n}", "write", {}), usage=SPENT),
    "max_tokens": lambda n: three_calls(n, stop="max_tokens"),
    "pause_turn": lambda n: says(THOUGHT, "wait", {**SEARCH, "id": f"s{n}"}, stop="pause_turn", usage=SPENT),
    "compaction": lambda n: says({"type": "compaction", "content": "so far"}, stop="compaction", usage=SPENT_MUCH),
    "lost": lambda n: CUT,
    "end_turn": lambda n: says("done", " \n", usage=SPENT),
    "empty": lambda n: says(THOUGHT, "", usage=SPENT),
    "end_turn with calls": lambda n: three_calls(n, stop="end_turn"),
    "stop_sequence": lambda n: says("until", stop="stop_sequence", stop_sequence="END", usage=SPENT),
    "refusal": lambda n: three_calls(n, stop="refusal"),
    "window": lambda n: three_calls(n, stop="model_context_window_exceeded"),
    "unknown": lambda n: three_calls(n, stop="brand_new"),
    "null": lambda n: null_stop("half"),
    "rejected": lambda n: REJECTED,
    "interrupted": lambda n: ABANDONED,
}
KINDS = tuple(REPLIES)

ENDS = {
    "end_turn": "completed",
    "empty": "empty_reply",
    "end_turn with calls": "malformed_reply",
    "stop_sequence": "stop_sequence",
    "refusal": "refused",
    "window": "context_window_exceeded",
    "unknown": "unknown_stop_reason",
    "null": "unknown_stop_reason",
    "rejected": "model_error",
    "interrupted": "interrupted",
}
"""The kinds that end the run, and how."""

VALVES = {"max_turns", "max_requests", "max_calls", "max_pauses", "token_budget", "deadline", "no_progress"}
OTHERS = {"truncated", "model_error"}
ALL_STOPS = {*ENDS.values(), *VALVES, *OTHERS}
TURNS = ("new call", "same call", "three calls")
MALFORMED = ("no calls", "bad calls")
PAUSES = ("pause_turn", "compaction")


# --- one run, with its own books ------------------------------------------------------------------------------


@dataclass
class Walk:
    """A run after some replies, and what was counted of it here."""

    state: State
    validator: PrefixValidator
    sent: bytes = b"[]"
    now: float = 0.0
    kinds: tuple[str, ...] = ()
    requests: int = 0
    attempts: int = 0
    turns: int = 0
    calls: int = 0
    pauses: int = 0
    malformed: int = 0
    max_tokens: int = FIRST_MAX_TOKENS
    tokens: int = 0
    complete: bool = True
    allowed: frozenset[str] = frozenset()
    ran: tuple[str, ...] = ()
    stop: Stop | None = None

    @classmethod
    def begin(cls) -> "Walk":
        state = State(started(TOOLS, max_tokens=FIRST_MAX_TOKENS, max_tokens_ceiling=CEILING))
        state.apply(Said(0.0, "task"))
        walk = cls(state, PrefixValidator(model_rules=ModelRules()))
        walk.go_on()
        return walk

    def copy(self) -> "Walk":
        twin = Walk.__new__(Walk)
        twin.__dict__.update(self.__dict__)
        twin.state = self.state.copy()
        twin.validator = self.validator.copy()
        return twin

    def after(self, kind: str) -> "Walk":
        """The run, one reply further."""
        walk = self.copy()
        walk.kinds += (kind,)
        walk.learn(kind, REPLIES[kind](len(walk.kinds)))
        walk.go_on()
        return walk

    # -- what the world does

    def learn(self, kind: str, said: Reply | Fault) -> None:
        self.now += 20.0 if kind == "lost" else 0.01
        if isinstance(said, Fault):
            if kind == "interrupted":
                self.state.apply(StopRequested(self.now, STOPPED))
            self.tokens += 7 if said.usage else 0
            self.complete &= not said.billed
            self.state.apply(Lost(self.now, said))
            return
        self.attempts = 0
        self.malformed = self.malformed + 1 if kind in MALFORMED else 0
        self.pauses += kind in PAUSES
        if said.usage:
            self.tokens += sum(said.usage.values())  # type: ignore[arg-type]
        else:  # counted in bytes: the body's head, the messages without the list's brackets, the reply
            self.tokens += len(self.state.head.encoded) + len(self.sent) - 2 + len(encode(said.content))
            self.complete = False
        self.state.apply(Received(self.now, said))

    def go_on(self) -> None:
        """Carry out steps until the next request leaves, or the run stops."""
        while True:
            step = next_step(self.state, ENV)
            for event in step.events:
                if isinstance(event, Decided):
                    assert not any(call.started for call in self.state.calls.values()), "decide all, then run"
                    if event.verdict == "allow":
                        self.allowed |= {event.call_id}
                elif isinstance(event, CallStarted):
                    assert isinstance(step, Execute)
                self.state.apply(event)
            match step:
                case Note():
                    pass
                case Ask():
                    question = step.questions[0]
                    assert question.tool == "write"
                    yes = len(self.kinds) % 2 == 1
                    self.state.apply(Answered(self.now, question.call_id, question.digest, yes, "test"))
                case Execute():
                    self.execute(step)
                case Wait():
                    self.now += step.seconds
                    self.state.apply(Waited(self.now, step.seconds))
                case Send():
                    self.check_request(step)
                    return
                case Done():
                    self.check_end(step)
                    return

    def execute(self, step: Execute) -> None:
        state, ids = self.state, tuple(call.asked.id for call in step.calls)
        assert self.kinds[-1] in TURNS, "only a reply that stopped for its calls runs any"
        assert not state.waiting, "decide all, then run"
        assert ids
        assert self.allowed.issuperset(ids), "not decided"
        assert not set(ids) & set(self.ran), "ran twice"
        assert len(ids) == 1 or all(call.asked.tool == "read" for call in step.calls), "only reads together"
        self.ran += ids
        for call_id in ids:
            state.apply(CallFinished(self.now, call_id, "ok", "done"))

    # -- what must hold

    def check_request(self, step: Send) -> None:
        state, request, (sent,) = self.state, step.request, step.events
        self.count_turn(state)
        self.requests += self.attempts == 0
        self.attempts += 1
        if self.kinds and self.kinds[-1] == "max_tokens":
            self.max_tokens = min(CEILING, self.max_tokens * 2)
        assert self.requests == state.requests <= LIMITS.requests
        assert self.attempts == state.attempts == sent.attempt <= LIMITS.max_attempts
        assert self.pauses == state.pauses <= 2
        assert self.calls == state.calls_seen <= 8
        assert self.turns == state.turns <= LIMITS.max_turns
        assert self.malformed <= 1
        assert self.tokens == state.usage.total < 3_000
        assert self.now < 70
        assert self.max_tokens == request.max_tokens == sent.max_tokens <= CEILING
        assert hashlib.sha256(request.messages[1:-1]).hexdigest() == sent.digest
        paused = request.messages.endswith(b'"wait"},' + encode({**SEARCH, "id": "s0"})[-40:])
        self.check_messages(request.messages, paused=self.is_paused() or paused)

    def count_turn(self, state: State) -> None:
        if self.kinds and self.kinds[-1] in TURNS and not self.attempts:
            self.turns += 1
            self.calls += len(state.calls)

    def is_paused(self) -> bool:
        """Whether the last reply that was kept is a paused one."""
        kept = [kind for kind in self.kinds if kind in TURNS or kind in PAUSES]
        return bool(kept) and kept[-1] in PAUSES

    def check_messages(self, messages: bytes, *, paused: bool) -> None:
        """Only what is new is looked at: what was sent before is still there, byte for byte."""
        before = len(self.sent) - 1
        assert messages[:before] == self.sent[:-1], "append only"
        fresh = messages[before:].removeprefix(b",")
        new = json.loads(b"[" + fresh)
        assert encode(new) == b"[" + fresh, "the encoding kept is the encoding made anew"
        assert self.validator.extend(new, paused=paused) == []
        for message in new:
            for block in message["content"]:
                if block["type"] == "tool_result":
                    assert block.get("is_error", False) is (block["tool_use_id"] not in self.ran)
        self.sent = messages

    def check_end(self, step: Done) -> None:
        state, kind, (stopped,) = self.state, self.kinds[-1], step.events
        self.stop = stop = step.stop
        assert state.stop is stop is stopped.stop  # type: ignore[union-attr]
        assert next_step(state, ENV) == Done(stop), "a run stops once"
        assert stop.kind in STOP_CLASSES
        assert stop.kind == ENDS[kind] if kind in ENDS else self.may_stop(stop, kind)
        if stop.kind in ("completed", "stop_sequence", "malformed_reply") and kind in ENDS:
            self.validator_sees_the_end(state)
        elif not (kind in TURNS or self.is_paused()):
            assert state.history.encoded() == self.sent, "what is not kept leaves no trace"
        else:
            self.validator_sees_the_end(state)
        usage = state.usage
        assert (usage.total, usage.complete) == (self.tokens, self.complete)

    def validator_sees_the_end(self, state: State) -> None:
        self.check_messages(state.history.encoded(), paused=True)
        if self.is_paused() and self.kinds[-1] not in ENDS:
            assert problems_of(state.history.closed_messages()) == []

    def may_stop(self, stop: Stop, kind: str) -> bool:
        """Whether a kind that does not end a run by itself may have ended it like this."""
        match stop.kind:
            case "max_turns":
                return kind in TURNS and self.turns == LIMITS.max_turns
            case "max_calls":
                return kind in TURNS and self.calls + len(self.state.calls) > 8
            case "no_progress":
                return kind in TURNS and kind != "new call"
            case "max_requests":
                return self.requests == LIMITS.requests and not self.attempts
            case "max_pauses":
                return kind in PAUSES and self.pauses == 3
            case "token_budget":
                return self.tokens >= 3_000
            case "deadline":
                return self.now >= 70
            case "truncated":
                return kind == "max_tokens" and self.max_tokens == CEILING
            case "malformed_reply":
                return kind in MALFORMED and self.malformed == 2
            case "model_error":
                return kind == "lost" and self.attempts == LIMITS.max_attempts
        return False
