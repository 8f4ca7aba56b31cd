"""The state: how each event changes it, and which events cannot follow."""

import pytest

from brida.core.calls import PAST_TURNS
from brida.core.encoding import digest
from brida.core.events import (
    Answered,
    Asked,
    CallFinished,
    CallStarted,
    Decided,
    Fault,
    Lost,
    Received,
    Said,
    Sent,
    Started,
    Stopped,
    StopRequested,
    TurnStarted,
    Waited,
)
from brida.core.limits import Limits
from brida.core.state import fold
from brida.core.stops import Stop
from brida.core.turn import Phase
from brida.core.usage import Usage
from support.loop import FakeTool, Simulation, null_stop, says, started

READ = FakeTool("read")
WRITE = FakeTool("write", impact="high")
FROM_CODE = {"type": "code_execution_20260120", "tool_id": "s9"}


def state_after(*events):
    return fold((started((READ, WRITE)), Said(0, "task"), Sent(0, 1, 100, "d"), *events))


def in_a_turn():
    return state_after(Received(0, says(("a", "read", {}), ("b", "write", {}))), TurnStarted(0, 1))


# --- folding ----------------------------------------------------------------------------------------------


def test_a_run_starts_once_and_first():
    with pytest.raises(ValueError, match="there are none"):
        fold([])
    with pytest.raises(ValueError, match="Said cannot stand here"):
        fold([Said(0, "task"), started()])
    with pytest.raises(ValueError, match="Started cannot stand here"):
        fold([started(), Said(0, "task"), started()])


def test_a_new_run_has_done_nothing():
    state = fold([started()])
    assert (state.phase, state.turns, state.requests, state.usage, state.text) == (
        Phase.READY,
        0,
        0,
        Usage(),
        "",
    )
    assert (state.waiting, state.questions, state.stop, state.elapsed) == ((), (), None, 0.0)


def decided(call_id, verdict="denied"):
    """A decision about a call of :func:`in_a_turn`."""
    return Decided(0, call_id, verdict, "rule", digest("read" if call_id == "a" else "write", {}), "no")


@pytest.mark.parametrize(
    "event",
    [
        Answered(0, "x", "d", True, "test"),
        Decided(0, "x", "allow", "rule", "d"),
        CallStarted(0, "x"),
        CallFinished(0, "x", "ok", "done"),
    ],
)
def test_an_event_about_a_call_that_is_not_of_this_turn_is_refused(event):
    state = in_a_turn()
    if isinstance(event, CallStarted):
        state.apply(decided("a"))
        state.apply(decided("b", "allow"))
    with pytest.raises(ValueError, match="'x' is no call of this turn"):
        state.apply(event)


def test_a_call_is_not_started_before_all_are_decided_nor_without_being_allowed():
    state = in_a_turn()
    state.apply(decided("b", "allow"))
    with pytest.raises(ValueError, match="without a decision that allows it"):
        state.apply(CallStarted(0, "b"))
    state.apply(decided("a"))
    with pytest.raises(ValueError, match="without a decision that allows it"):
        state.apply(CallStarted(0, "a"))
    state.apply(CallStarted(0, "b"))


def test_a_call_is_decided_once_and_for_its_own_arguments():
    state = in_a_turn()
    with pytest.raises(ValueError, match="'a' is decided already, or has other arguments"):
        state.apply(Decided(0, "a", "allow", "rule", digest("read", {"p": 1})))
    state.apply(decided("a", "allow"))
    with pytest.raises(ValueError, match="'a' is decided already"):
        state.apply(decided("a", "allow"))


def test_an_event_that_cannot_follow_is_refused():
    ready = fold((started((READ, WRITE)), Said(0, "task")))
    in_flight = state_after()
    over = state_after(Received(0, says("done")))
    stopped = state_after(Received(0, says("done")), Stopped(0, Stop("completed")))
    in_turn = (
        TurnStarted(0, 1),
        Asked(0, ()),
        decided("a"),
        CallStarted(0, "a"),
        CallFinished(0, "a", "ok", ""),
    )
    replies = (Received(0, says("x")), Lost(0, Fault("cut", "cut")))
    leaving = (Sent(0, 1, 100, "d"), Waited(0, 1.0))
    asked_to_stop = StopRequested(0, Stop("interrupted"))
    said = Said(0, "x")
    for state, refused in (
        (ready, (*in_turn, *replies)),
        (in_flight, (*in_turn, *leaving)),
        (in_a_turn(), (*replies, *leaving)),
        (over, (*in_turn, *replies, *leaving)),
        (stopped, (*in_turn, *replies, *leaving, said, Stopped(0, Stop("completed")))),
    ):
        for event in refused:
            with pytest.raises(ValueError, match=f"^{type(event).__name__} cannot follow here"):
                state.copy().apply(event)
        state.copy().apply(asked_to_stop)
        if state is not stopped:
            state.copy().apply(said)


def test_a_copy_goes_its_own_way():
    state = in_a_turn()
    other = state.copy()
    for call_id in ("a", "b"):
        other.apply(decided(call_id))
    assert (len(state.waiting), len(other.waiting), state.denied) == (2, 0, ())
    assert (state.phase, other.phase) == (Phase.TURN, Phase.READY)
    assert state.history.open_calls == ("a", "b")
    assert other.history.open_calls == ()


# --- what is counted --------------------------------------------------------------------------------------


def test_attempts_of_a_request_and_their_waits_are_counted_until_a_reply_comes():
    busy = Lost(0, Fault("overloaded", "busy", again=True))
    state = state_after(
        busy, Waited(0, 0.5), Sent(0, 2, 100, "d"), busy, Waited(0, 1.0), Sent(0, 3, 100, "d")
    )
    assert (state.requests, state.attempts, state.waited) == (1, 3, 1.5)
    state.apply(Received(0, says(stop="tool_use")))
    assert (state.requests, state.attempts, state.waited, state.malformed) == (1, 0, 0.0, 1)


def test_malformed_replies_are_counted_in_a_row():
    run = Simulation((READ,))
    bad = says("I call", stop="tool_use")
    assert (
        run.run([bad, says(("a", "read", {})), bad, says("x", stop="pause_turn"), bad, bad]).kind
        == "malformed_reply"
    )
    assert len(run.bodies) == 6


def test_a_reply_without_usage_counts_the_bytes_that_went_and_came():
    run = Simulation((READ,))
    run.run([says(("a", "read", {}), usage=None), says("done")])
    sizes = [event.reply for event in run.events if isinstance(event, Received)]
    assert len(sizes) == 2
    assert run.state.usage.complete is False
    assert run.state.usage.input_tokens > 100


def test_counters_without_output_count_the_bytes_of_the_reply():
    run = Simulation(start={"max_tokens": 4_000, "max_tokens_ceiling": 4_000})
    run.run([says("x" * 1_000, usage={"input_tokens": 3})])
    assert run.state.usage.input_tokens == 3
    assert run.state.usage.output_tokens > 1_000
    assert run.state.usage.complete is False


def test_only_as_many_turns_are_remembered_as_the_longest_cycle_needs():
    run = Simulation((READ,), Limits(max_turns=12))
    run.run([*(says((f"c{n}", "read", {"n": n})) for n in range(12)), says("done")])
    assert len(run.state.past) == PAST_TURNS == 8
    assert run.state.past[-1].calls == (("read", '{"n":11}'),)


# --- text -------------------------------------------------------------------------------------------------


def test_the_text_is_that_of_the_last_reply_that_had_any():
    run = Simulation((READ,))
    run.run([says("look", ("a", "read", {})), says(("b", "read", {"n": 1})), says(" ", stop="refusal")])
    assert run.state.text == "look"


def test_paused_parts_are_joined_and_nothing_older():
    run = Simulation((READ,))
    pauses = [says(part, stop="pause_turn") for part in ("one ", "two ")]
    run.run([*pauses, says("three", ("a", "read", {})), says("four", stop="pause_turn"), null_stop("five")])
    assert run.state.text == "fourfive"


def test_a_reply_that_is_not_kept_between_two_pauses_loses_no_part():
    run = Simulation()
    run.run([says("one ", stop="pause_turn"), says("oops", stop="tool_use"), says("two")])
    assert run.state.text == "one two"


# --- texts that had to wait -------------------------------------------------------------------------------


def from_code(call_id):
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {}, "caller": FROM_CODE}


def test_a_text_that_had_to_wait_is_heard_before_the_run_completes():
    run = Simulation((READ,), start={"extra": {"container": "c"}})

    def model(body):
        match len(run.bodies):
            case 1:
                return says(from_code("a"))
            case 2:
                return says("first answer")
            case _:
                return says("second answer")

    def read(arguments):
        run.learn(Said(0, "one more thing"))
        return "done"

    run.tools = (FakeTool("read", read),)
    assert run.run(model).kind == "completed"
    assert [message["role"] for message in run.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert run.messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]
    assert run.messages[4]["content"] == [{"type": "text", "text": "one more thing"}]
    assert run.state.text == "second answer"


def test_a_text_that_waits_does_not_follow_a_paused_reply():
    messages = (
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": [from_code("a")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]},
    )
    run = Simulation((READ,), start={"messages": messages, "extra": {"container": "c"}})
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    assert (
        run.run([says(search, stop="pause_turn"), says(found, "first"), says("second")]).kind == "completed"
    )
    assert [len(body["messages"]) for body in run.bodies] == [3, 4, 6]
    assert run.bodies[1]["messages"][-1]["role"] == "assistant"


def test_an_earlier_history_is_gone_on_from():
    first = Simulation((READ,))
    first.run([says(("a", "read", {})), says("done")])
    second = Simulation((READ,), start={"messages": tuple(first.closed)})
    second.run([says(("a", "read", {}), stop="tool_use"), says(("b", "read", {})), says("done again")])
    assert second.state.requests == 3, "an id that was used before is a bad call"
    assert second.messages[:4] == first.closed
    assert second.messages[4]["content"] == [{"type": "text", "text": "task"}]


# --- how a run ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply, kind, detail",
    [
        (says("so"), "completed", {}),
        (says("so", stop="stop_sequence", stop_sequence="END"), "stop_sequence", {"stop_sequence": "END"}),
        (says(stop="stop_sequence"), "stop_sequence", {"stop_sequence": None}),
        (says(" "), "empty_reply", {"stop_reason": "end_turn"}),
        (says(stop="refusal"), "refused", {"category": None, "explanation": None}),
        (
            says(stop="refusal", stop_details={"category": "x", "explanation": "y", "more": 1}),
            "refused",
            {"category": "x", "explanation": "y"},
        ),
        (
            says(("a", "read", {}), stop="end_turn"),
            "malformed_reply",
            {"stop_reason": "end_turn", "ignored": 1},
        ),
        (says(("a b", "read", {}), stop="end_turn"), "malformed_reply", {"stop_reason": "end_turn"}),
        (says(stop="brand_new"), "unknown_stop_reason", {"stop_reason": "brand_new"}),
        (null_stop(("a", "read", {})), "unknown_stop_reason", {"stop_reason": None}),
        (says("so", stop="model_context_window_exceeded"), "context_window_exceeded", {}),
    ],
)
def test_the_stop_carries_the_facts(reply, kind, detail):
    run = Simulation((READ,))
    stop = run.run([reply])
    assert (stop.kind, stop.detail, run.ran) == (kind, detail, [])


@pytest.mark.parametrize(
    "fault, detail",
    [
        (Fault("invalid_request", "no"), {"fault": "invalid_request", "message": "no", "attempts": 1}),
        (
            Fault("overloaded", "busy", again=True, retry_after=500, status=529, request_id="q"),
            {
                "fault": "overloaded",
                "message": "busy",
                "attempts": 1,
                "wait": 500,
                "status": 529,
                "request_id": "q",
            },
        ),
    ],
)
def test_a_model_error_says_what_the_server_said(fault, detail):
    assert Simulation().run([fault]).detail == detail


def test_a_wait_that_the_server_asked_for_gets_no_jitter():
    run = Simulation()
    given: list[bool] = []
    do = run.do

    def watch(step, *model):
        if hasattr(step, "jitter"):
            given.append(step.jitter)
        do(step, *model)

    run.do = watch  # type: ignore[method-assign]
    run.run([Fault("x", "", again=True, retry_after=2), Fault("x", "", again=True), says("done")])
    assert (given, run.waits) == ([False, True], [2, 1.0])


def test_the_head_of_the_body_never_changes():
    run = Simulation((READ, WRITE), start={"system": "be brief", "extra": {"metadata": {"user_id": "u"}}})
    run.run([says(("a", "read", {})), says("x", stop="max_tokens"), says("done")])
    heads = [{k: v for k, v in body.items() if k not in ("messages", "max_tokens")} for body in run.bodies]
    assert heads[0] == heads[1] == heads[2]
    assert isinstance(run.events[0], Started)
