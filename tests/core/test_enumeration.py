"""Every sequence of replies, up to a length, over every kind of reply: the run ends, within its bounds.

Depth first. A prefix that several sequences share is folded once and its state copied; a prefix that has
ended the run stands for all its extensions. At the end of a sequence its last kind repeats until the run
stops. What is checked is counted here a second time, not read from the state.

``-s`` shows the figures. ``BRIDA_ENUMERATION_LENGTH`` sets another length for the test that is not long.
"""

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import pytest

from brida.core.ceilings import input_bound
from brida.core.encoding import encode
from brida.core.events import (
    Answered,
    CallFinished,
    Decided,
    Fault,
    Lost,
    Received,
    Reply,
    Said,
    Sent,
    Stopped,
    StopRequested,
    TurnStarted,
    Waited,
)
from brida.core.limits import Limits
from brida.core.request import Request
from brida.core.run import Ask, Done, Execute, Send, Wait, next_step
from brida.core.state import State
from brida.core.stops import Stop
from support.loop import FakeTool, environment, null_stop, says, started
from support.validator import PrefixValidator, problems

LENGTH = int(os.environ.get("BRIDA_ENUMERATION_LENGTH", "6"))
FULL_LENGTH = 6
"""The length from which on every stop is reached."""

MAX_TURNS, MAX_REQUESTS, MAX_ATTEMPTS, MAX_CALLS, MAX_PAUSES, MAX_TOKENS, DEADLINE = 5, 7, 3, 9, 2, 3_000, 70
LIMITS = Limits(
    max_turns=MAX_TURNS,
    max_requests=MAX_REQUESTS,
    max_attempts=MAX_ATTEMPTS,
    max_calls=MAX_CALLS,
    max_pauses=MAX_PAUSES,
    max_tokens_total=MAX_TOKENS,
    deadline=DEADLINE,
)
MOST_REPLIES = MAX_REQUESTS * MAX_ATTEMPTS
FIRST_MAX_TOKENS, CEILING = 100, 300

TOOLS = (FakeTool("read"), FakeTool("write", impact="high"))
ENV = environment(TOOLS, limits=LIMITS)

# --- the alphabet: what comes of request number n -------------------------------------------------------

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SPENT = {"input_tokens": 60, "output_tokens": 20, "cache_read_input_tokens": 20}
SPENT_MUCH = {"input_tokens": 100, "output_tokens": 700}
WANTS_OUT = Stop("interrupted")
CUT = Fault("cut", "the stream was cut", again=True, usage={"input_tokens": 7}, billed=True)
REJECTED = Fault("invalid_request", "no", status=400)
ABANDONED = Fault("abandoned", "a person wants out", again=True, billed=True)


def three_calls(n: int, stop: str = "tool_use") -> Reply:
    """A call that only reads, one that needs an answer (yes, no, yes, no), one of no tool."""
    calls = ((f"{name[0]}{n}", name, {"p": 1}) for name in ("read", "write", "gone"))
    return says(THOUGHT, *calls, stop=stop, usage=SPENT)


def malformed(n: int) -> Reply:
    """Stops for its calls and has none, or two of one id, in turn."""
    twice = [(f"a{n}", "read", {"p": 1})] * 2
    return says("I call read()", *(twice if n % 2 == 0 else ()), stop="tool_use", usage=None)


def pause(n: int) -> Reply:
    search = {"type": "server_tool_use", "id": f"s{n}", "name": "web_search", "input": {}}
    return says(THOUGHT, "wait", search, stop="pause_turn", usage=SPENT)


def compaction(n: int) -> Reply:
    return says({"type": "compaction", "content": "so far"}, stop="compaction", usage=SPENT_MUCH)


REPLIES: dict[str, Callable[[int], Reply | Fault]] = {
    "new calls": lambda n: says("look", (f"a{n}", "read", {"p": n}), (f"b{n}", "read", {}), usage=SPENT),
    "same call": lambda n: says((f"a{n}", "read", {"p": 0}), usage=SPENT),
    "three calls": three_calls,
    "malformed": malformed,
    "max_tokens": lambda n: three_calls(n, "max_tokens"),
    "pause_turn": pause,
    "compaction": compaction,
    "lost": lambda n: CUT,
    "end_turn": lambda n: says("done", " \n", usage=SPENT),
    "empty": lambda n: says(THOUGHT, "", usage=SPENT),
    "end_turn with calls": lambda n: three_calls(n, "end_turn"),
    "stop_sequence": lambda n: says("until", stop="stop_sequence", stop_sequence="END", usage=SPENT),
    "refusal": lambda n: three_calls(n, "refusal"),
    "window": lambda n: three_calls(n, "model_context_window_exceeded"),
    "unknown": lambda n: three_calls(n, "brand_new"),
    "null": lambda n: null_stop("half"),  # with the counters that all doubles have
    "rejected": lambda n: REJECTED,
    "interrupted": lambda n: ABANDONED,
}
KINDS = tuple(REPLIES)


@cache
def reply(kind: str, n: int) -> Reply | Fault:
    return REPLIES[kind](n)


CALLS = {"new calls": 2, "same call": 1, "three calls": 3}
"""The kinds that begin a turn, and how many calls each makes."""

PAUSES = ("pause_turn", "compaction")
KEPT_AT_THE_END = ("end_turn", "end_turn with calls", "stop_sequence")
KEPT = (*CALLS, *PAUSES, *KEPT_AT_THE_END)
SECONDS = {"lost": 20.0}
TOKENS = dict.fromkeys(KINDS, 100) | {"lost": 7, "compaction": 800, "null": 15}

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
ALL_STOPS = {*ENDS.values(), *VALVES, "truncated"}


def digest_of(messages: bytes) -> str:
    return hashlib.sha256(messages[1:-1]).hexdigest()


# --- one run, with books of its own ---------------------------------------------------------------------


class Walk:
    """A run after some replies, and what was counted of it here, from the outside."""

    def __init__(self) -> None:
        self.state = State(started(TOOLS, max_tokens=FIRST_MAX_TOKENS, max_tokens_ceiling=CEILING))
        self.validator = PrefixValidator()
        self.sent = b"[]"
        self.now = 0.0
        self.kind, self.length = "", 0
        self.requests = self.attempts = self.turns = self.calls = self.pauses = self.malformed = 0
        self.max_tokens = FIRST_MAX_TOKENS
        self.tokens, self.complete = 0, True
        self.held = self.reserved = self.sent_max_tokens = self.bound = self.cut_at = 0
        self.paused = False
        self.allowed: frozenset[str] = frozenset()
        self.ran: frozenset[str] = frozenset()
        self.stop: Stop | None = None
        self.state.apply(Said(0.0, "task"))
        self.go_on()

    def after(self, kind: str) -> "Walk":
        """The run, one reply further; this one stays as it is."""
        walk = Walk.__new__(Walk)
        walk.__dict__.update(self.__dict__)
        walk.state = self.state.copy()
        walk.kind = kind
        walk.length += 1
        walk.learn(reply(kind, walk.length))
        walk.go_on()
        return walk

    # -- what the world does

    def learn(self, said: Reply | Fault) -> None:
        self.now += SECONDS.get(self.kind, 0.01)
        if isinstance(said, Fault):
            if said is ABANDONED:
                self.state.apply(StopRequested(self.now, WANTS_OUT))
            counted = TOKENS[self.kind] if said.usage else 0
            self.tokens += counted
            self.complete &= not said.billed
            self.held += max(0, self.reserved - counted) if said.billed else 0
            self.state.apply(Lost(self.now, said))
            return
        self.attempts = 0
        self.cut_at = self.sent_max_tokens if self.kind == "max_tokens" else 0
        self.malformed = self.malformed + 1 if self.kind == "malformed" else 0
        if self.kind in KEPT:
            self.paused = self.kind in PAUSES
            self.pauses += self.paused
        if said.usage is not None:
            self.tokens += TOKENS[self.kind]
        else:  # one for each byte: the head of the body, the messages without the list's brackets, the reply
            bytes_sent = len(self.state.head.encoded) + len(self.sent) - 2
            counted = min(bytes_sent, self.reserved - self.sent_max_tokens)
            counted += min(len(encode(said.content)), self.sent_max_tokens)
            self.tokens += counted
            self.held += max(0, self.reserved - counted)
            self.complete = False
        self.state.apply(Received(self.now, said))

    def go_on(self) -> None:
        """Carries out steps until a request leaves or the run stops."""
        while True:
            step = next_step(self.state, ENV)
            for event in step.events if not isinstance(step, Done) else ():
                if isinstance(event, Decided):
                    self.check_decision(event)
                elif isinstance(event, TurnStarted):
                    self.turns += 1
                    self.calls += CALLS[self.kind]
                self.state.apply(event)
            match step:
                case Ask():
                    question = step.questions[0]
                    yes = self.length % 2 == 1
                    self.state.apply(Answered(self.now, question.call_id, question.digest, yes, "test"))
                case Execute():
                    self.execute(step)
                case Wait():
                    self.now += step.seconds
                    self.state.apply(Waited(self.now, step.seconds))
                case Send():
                    return self.check_request(step)
                case Done():
                    return self.check_end(step)

    def execute(self, step: Execute) -> None:
        ids = {call.asked.id for call in step.calls}
        assert ids
        assert self.kind in CALLS, "only a reply that stopped for its calls runs any"
        assert not self.state.waiting, "all are decided before any runs"
        assert ids <= self.allowed, "only what was allowed runs"
        assert not ids & self.ran, "nothing runs twice"
        assert {call.asked.tool for call in step.calls} == {"read"} or len(ids) == 1, "only reads together"
        self.ran |= ids
        for call in step.calls:
            self.state.apply(CallFinished(self.now, call.asked.id, "ok", "done"))

    # -- what must hold

    def check_decision(self, decided: Decided) -> None:
        assert not any(call.started for call in self.state.calls.values()), "all are decided before any runs"
        if decided.verdict == "allow":
            self.allowed |= {decided.call_id}

    def check_request(self, step: Send) -> None:
        state, request, (sent,) = self.state, step.request, step.events
        assert isinstance(sent, Sent)
        self.requests += not self.attempts
        self.attempts += 1
        if self.kind == "max_tokens" and self.attempts == 1:
            self.max_tokens = min(CEILING, max(self.max_tokens, self.sent_max_tokens * 2))
        assert self.requests == state.requests <= MAX_REQUESTS
        assert self.attempts == state.attempts == sent.attempt <= MAX_ATTEMPTS
        assert self.turns == state.turns <= MAX_TURNS
        assert self.calls == state.calls_seen <= MAX_CALLS
        assert self.pauses == state.pauses <= MAX_PAUSES
        assert (self.tokens, self.held) == (state.usage.total, state.ledger.tokens.held)
        assert sent.reserve is not None
        self.reserved = sent.reserve.tokens
        assert self.tokens + self.held + self.reserved <= MAX_TOKENS, "what it may come to fits"
        assert sent.reserve.input_tokens <= 1_024 + len(state.head.encoded) + len(request.messages) + 28
        assert self.malformed <= 1
        assert self.now < DEADLINE
        room = MAX_TOKENS - self.tokens - self.held - sent.reserve.input_tokens
        assert request.max_tokens == sent.max_tokens == min(self.max_tokens, room)
        assert sent.max_tokens >= FIRST_MAX_TOKENS
        assert sent.max_tokens > self.cut_at
        self.sent_max_tokens = sent.max_tokens
        assert sent.digest == Request.digest(request.head, request.max_tokens, digest_of(request.messages))
        self.check_messages(request.messages)
        if not self.length:
            assert problems(json.loads(request.body(stream=False))) == []

    def check_messages(self, messages: bytes, *, ended: bool = False) -> None:
        """What was sent before is still there, byte for byte, so only what is new needs to be looked at."""
        if messages == self.sent:
            return
        assert messages.startswith(self.sent[:-1]), "nothing sent is edited"
        fresh = b"[" + messages[len(self.sent) - 1 :].removeprefix(b",")
        new = json.loads(fresh.decode())
        assert encode(new) == fresh, "what is kept encoded is what an encoding from scratch gives"
        self.validator = self.validator.copy()
        assert self.validator.extend(new, paused=self.paused or ended) == []
        for message in new:
            for block in message["content"]:
                if block["type"] == "tool_result":
                    assert ("is_error" in block) is (block["tool_use_id"] not in self.ran)
        self.sent = messages

    def check_end(self, step: Done) -> None:
        state, stop, (stopped,) = self.state, step.stop, step.events
        assert isinstance(stopped, Stopped)
        self.bound = input_bound(state, state.head)
        state.apply(stopped)
        assert next_step(state, ENV) == Done(stop), "a run stops once"
        if self.kind in ENDS:
            assert stop.kind == ENDS[self.kind]
        else:
            assert self.may_stop(stop.kind), (self.kind, stop)
        assert (state.usage.total, state.usage.complete) == (self.tokens, self.complete)
        self.check_messages(state.history.encoded(), ended=True)
        if self.paused and self.kind not in KEPT_AT_THE_END:
            closed = encode(state.history.closed_messages())
            assert self.sent.startswith(closed[:-1])
            assert json.loads(closed)[-1]["role"] == "user"
        self.stop = stop

    @property
    def least(self) -> int:
        """The smallest reply that makes sense to ask for."""
        return max(FIRST_MAX_TOKENS, self.cut_at + 1)

    def may_stop(self, kind: str) -> bool:
        """Whether a reply that does not end the run by itself can have ended it like this."""
        turn = CALLS.get(self.kind, 0)
        reached = {
            "max_turns": turn and self.turns == MAX_TURNS,
            "max_calls": turn and self.calls + turn > MAX_CALLS,
            "no_progress": turn and self.kind != "new calls",
            "max_requests": not self.attempts and self.requests == MAX_REQUESTS,
            "max_pauses": self.pauses == MAX_PAUSES + 1,
            "token_budget": self.tokens + self.held + self.bound + self.least > MAX_TOKENS,
            "deadline": self.now >= DEADLINE,
            "truncated": self.kind == "max_tokens" and self.sent_max_tokens == CEILING,
            "malformed_reply": self.malformed == 2,
            "model_error": self.kind == "lost" and self.attempts == MAX_ATTEMPTS,
        }
        return bool(reached.get(kind))


# --- all of them ----------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What was found below one first kind."""

    sequences: int = 0
    folded: int = 0
    stops: Counter[str] = field(default_factory=Counter)

    def enumerate(self, walk: Walk, length: int) -> None:
        """Takes in every sequence that begins like ``walk``, which has not stopped or is ``length`` long."""
        self.folded += 1
        if walk.stop is not None:
            same_end = len(KINDS) ** (length - walk.length)
            self.sequences += same_end
            self.stops[walk.stop.kind] += same_end
        elif walk.length < length:
            for kind in KINDS:
                self.enumerate(walk.after(kind), length)
        else:
            self.repeat(walk)

    def repeat(self, walk: Walk) -> None:
        """The last kind for ever."""
        for _ in range(MOST_REPLIES):
            walk = walk.after(walk.kind)
            if walk.stop is not None:
                break
        assert walk.stop is not None, "it goes on and on"
        self.sequences += 1
        self.stops[walk.stop.kind] += 1


def enumerate_all(first: str, length: int, record: Callable[[str, object], None]) -> Tally:
    tally = Tally()
    begun = time.perf_counter()
    tally.enumerate(Walk().after(first), length)
    seconds = time.perf_counter() - begun
    record("sequences", tally.sequences)
    print(f"\n{first}: {tally.sequences:,} sequences of {length}, {tally.folded:,} folded, {seconds:.1f} s")
    print(f"    {dict(tally.stops.most_common())}")
    assert tally.sequences == len(KINDS) ** (length - 1)
    return tally


@pytest.mark.exhaustive
@pytest.mark.parametrize("first", KINDS)
def test_every_sequence_of_replies_ends_within_its_bounds(first, record_property):
    tally = enumerate_all(first, LENGTH, record_property)
    if first in ENDS:
        assert tally.stops.keys() == {ENDS[first]}
    elif LENGTH >= FULL_LENGTH:
        assert tally.stops.keys() == ALL_STOPS, "every valve trips below each reply that goes on"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", KINDS)
def test_every_longer_sequence_of_replies_ends_within_its_bounds(first, record_property):
    enumerate_all(first, LENGTH + 1, record_property)
