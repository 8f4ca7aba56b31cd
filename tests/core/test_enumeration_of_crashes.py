"""Every place at which a process can die in a turn of two calls, with every answer of a person and a tool.

Depth first: before and after whatever is recorded, the process may die, up to a number of times; a person
says yes, no or something else, a lost call happened, did not, or nobody knows. Where the run parks, another
process answers. ``-s`` shows how many stories there are.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from brida.core.decisions import Env
from brida.core.events import (
    Answered,
    CallFinished,
    CallStarted,
    Edited,
    Event,
    Question,
    Received,
    Reconciled,
    Resumed,
    Said,
    Waited,
)
from brida.core.policy import Policy
from brida.core.run import Ask, Done, Execute, FindOut, Send, Step, Wait, next_step
from brida.core.state import State
from brida.core.turn import Call
from support.loop import FakeTool, environment, says, started
from support.story import Story
from support.validator import PrefixValidator

TOOLS = (
    FakeTool("read"),
    FakeTool("again", impact="idempotent"),
    FakeTool("pay", impact="high"),
    FakeTool("book", impact="high", found="happened"),
    FakeTool("send", impact="high", found="did_not_happen"),
    FakeTool("ask", impact="high", found="unclear"),
)
RULES = Policy({"*": "allow", "pay": "allow", "book": "allow", "send": "allow", "ask": "ask"})
IMPACTS = {tool.name: tool.impact for tool in TOOLS}
FOUND = {tool.name: tool.found for tool in TOOLS}
PAIRS = [*itertools.product(IMPACTS, repeat=2)]
DONE = says("done")


@dataclass
class Stories:
    """All that can become of one turn."""

    calls: tuple[str, ...]
    env: Env
    ends: Counter[str] = field(default_factory=Counter)

    def tell(self, crashes: int) -> None:
        begin = started(TOOLS)
        state = State(begin)
        said = Said(0.0, "task")
        state.apply(said)
        self.visit(state, (begin, said), crashes)

    def visit(self, state: State, events: tuple[Event, ...], crashes: int) -> None:
        """All that can follow; ``crashes`` is how often the process may still die."""
        if state.stop is None:
            self.die(state, events, crashes)
        step = next_step(state, self.env)
        if isinstance(step, Done):
            self.end(state, events, step, crashes)
            return
        recorded = state.copy()
        for event in step.events:
            recorded.apply(event)
        told = (*events, *step.events)
        if step.events:
            self.die(recorded, told, crashes)
        for what in self.outcomes(recorded, step):
            self.after(recorded, told, what, crashes)

    def after(self, state: State, events: tuple[Event, ...], what: tuple[Event, ...], crashes: int) -> None:
        """What follows once these events are known, and where the process dies between two of them."""
        state = state.copy()
        for number, event in enumerate(what, 1):
            state.apply(event)
            events = (*events, event)
            if number < len(what):
                self.die(state, events, crashes)
        self.visit(state, events, crashes)

    def die(self, state: State, events: tuple[Event, ...], crashes: int) -> None:
        """The process dies here; another goes on, without a text or with one."""
        if not crashes:
            return
        at = state.at
        self.after(state, events, (Resumed(at),), crashes - 1)
        if state.stop is None:
            self.after(state, events, (Resumed(at, afresh=True), Said(at, "and be quick")), crashes - 1)

    def outcomes(self, state: State, step: Step) -> Iterator[tuple[Event, ...]]:
        at = state.at
        match step:
            case Send():
                calls = [(f"c{n}", name, {"n": n}) for n, name in enumerate(self.calls)]
                yield (Received(at, DONE if "c0" in state.history.used_ids else says(*calls)),)
            case Wait():
                yield (Waited(at, step.seconds),)
            case Execute():
                yield tuple(CallFinished(at, call.asked.id, "ok", "ran") for call in step.calls)
            case Ask() if self.env.on_ask == "ask":
                yield from self.answers(step.questions[0], at)
            case FindOut(of="tool"):
                yield (self.found(step.call, FOUND[step.call.asked.tool] or "unclear", at),)
            case FindOut():
                yield from self.settled(step.call, at)
            case _:
                yield ()

    def answers(self, question: Question, at: float) -> Iterator[tuple[Event, ...]]:
        for allow in (True, False):
            yield (Answered(at, question.call_id, question.digest, allow, "person"),)
        if question.asked is None:
            yield (Edited(at, question.call_id, question.digest, {"n": 9}, "person"),)

    def settled(self, call: Call, at: float) -> Iterator[tuple[Event, ...]]:
        for found in ("happened", "did_not_happen", "unknown"):
            yield (self.found(call, found, at),)

    @staticmethod
    def found(call: Call, found, at: float) -> Reconciled:
        return Reconciled(at, call.asked.id, found, "x", f"it {found}")

    def end(self, state: State, events: tuple[Event, ...], step: Done, crashes: int) -> None:
        state = state.copy()
        for event in step.events:
            state.apply(event)
        events = (*events, *step.events)
        assert PrefixValidator().extend(state.messages, paused=True) == []
        if step.stop.kind != "waiting":
            self.check(state, events)
            return
        answers: Iterator[tuple[Event, ...]]
        if state.unknown:
            answers = self.settled(state.unknown[0], state.at)
        else:
            assert state.questions[0].question is not None
            answers = self.answers(state.questions[0].question, state.at)
        for answer in answers:
            self.after(state, events, (*answer, Resumed(state.at)), crashes)

    def check(self, state: State, events: tuple[Event, ...]) -> None:
        assert state.stop is not None
        assert state.stop.kind == "completed"
        story = Story(events, IMPACTS)
        results = [b for m in state.messages for b in m["content"] if b["type"] == "tool_result"]  # type: ignore[attr-defined]
        assert [r["tool_use_id"] for r in results] == [f"c{n}" for n in range(len(self.calls))]
        heard = {r["tool_use_id"]: r["content"] for r in results}
        assert story.done.items() <= heard.items()
        assert not state.history.has_text_to_send, "whatever was said has been heard"
        self.ends[self.shape(events)] += 1

    def shape(self, events: tuple[Event, ...]) -> str:
        """How often each call was started, and how often the process died."""
        begun = Counter(event.call_id for event in events if isinstance(event, CallStarted))
        return "/".join(str(begun[f"c{n}"]) for n in range(len(self.calls)))


def tell(calls: tuple[str, ...], on_ask: str, crashes: int) -> Stories:
    stories = Stories(calls, environment(TOOLS, policy=RULES, on_ask=on_ask))
    stories.tell(crashes)
    print(f"\n{' '.join(calls)} ({on_ask}): {sum(stories.ends.values()):,} stories, {dict(stories.ends)}")
    return stories


@pytest.mark.exhaustive
@pytest.mark.parametrize("on_ask", ["ask", "decline", "park"])
@pytest.mark.parametrize("calls", PAIRS, ids=" ".join)
def test_every_story_of_two_calls_with_a_crash_ends_well(calls, on_ask):
    tell(calls, on_ask, 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("on_ask", ["ask", "decline", "park"])
@pytest.mark.parametrize("name", IMPACTS)
def test_every_story_of_a_call_with_two_crashes_ends_well(name, on_ask):
    stories = tell((name,), on_ask, 2)
    most = max(int(shape) for shape in stories.ends)
    repeats = {"read": 3, "again": 3, "send": 3, "book": 1}
    by_person = {"ask": 3, "park": 3, "decline": 1}
    declined = name == "ask" and on_ask == "decline"
    assert most == (0 if declined else repeats.get(name, by_person[on_ask]))


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("on_ask", ["ask", "decline", "park"])
@pytest.mark.parametrize("calls", PAIRS, ids=" ".join)
def test_every_story_of_two_calls_with_two_crashes_ends_well(calls, on_ask):
    tell(calls, on_ask, 2)
