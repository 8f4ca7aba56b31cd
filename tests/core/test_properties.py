"""What must hold for every model, every policy, every person and every fault: drawn at random.

:class:`Simulation` checks each request and each ending on its way; here it is given worlds at random.
"""

import itertools

from hypothesis import given, settings

from brida.core.codec import decode_event, encode_event
from brida.core.encoding import digest
from brida.core.events import (
    Answered,
    Asked,
    CallFinished,
    CallStarted,
    Checked,
    Closing,
    Decided,
    Received,
    Said,
    Sent,
)
from brida.core.state import State, fold
from brida.core.stops import STOP_CLASSES, Stop
from support.loop import Simulation, says
from support.worlds import TOOLS, results_of, unresolved_in, worlds

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
    heard = list(dict.fromkeys(heard))  # what was steered with is said again after an empty reply
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
    assert again.messages == state.messages == run.state.messages
    assert run.state.history.open_calls or again.history.encoded() == run.state.history.encoded()


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
