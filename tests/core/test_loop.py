"""The loop, one stop reason after another, without a world."""

import pytest

from brida.core.events import Fault
from brida.core.limits import Limits
from support.loop import FakeTool, Simulation, null_stop, says

READ = FakeTool("read", lambda arguments: f"content of {arguments.get('p')}")
WRITE = FakeTool("write", impact="high")


def test_a_reply_that_ends_its_turn_completes_the_run():
    run = Simulation()
    stop = run.run([says("hello")])
    assert (stop.kind, run.state.text, run.state.requests, run.state.turns) == ("completed", "hello", 1, 0)


def test_a_call_is_run_and_its_result_goes_back_in_the_next_user_message():
    run = Simulation((READ,))
    stop = run.run([says("looking", ("t1", "read", {"p": "a"})), says("done")])
    assert stop.kind == "completed"
    assert run.messages == [
        {"role": "user", "content": [{"type": "text", "text": "task"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "looking"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"p": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "content of a"}],
        },
    ]


def test_text_beside_a_call_never_ends_the_run():
    run = Simulation((READ,))
    assert run.run([says("done. finished. end.", ("t1", "read", {})), says("ok")]).kind == "completed"
    assert run.ran == [("read", {})]


def test_a_truncated_call_never_runs_and_the_limit_doubles_up_to_the_ceiling():
    run = Simulation((READ, WRITE))
    cut = says(("t1", "read", {"p": "a"}), ("t2", "write", {"p": "/srv"}), stop="max_tokens")
    stop = run.run([cut] * 3)
    assert stop.kind == "truncated"
    assert run.ran == []
    assert [body["max_tokens"] for body in run.bodies] == [100, 200, 400]
    assert run.messages == [{"role": "user", "content": [{"type": "text", "text": "task"}]}]
    assert run.state.usage.total == 45


@pytest.mark.parametrize(
    "blocks", [("The answer is",), ({"type": "thinking", "thinking": "hm", "signature": "s"},)]
)
def test_a_truncated_answer_keeps_its_partial_text(blocks):
    run = Simulation()
    stop = run.run([says(*blocks, stop="max_tokens")] * 3)
    assert (stop.kind, stop.exit_code) == ("truncated", 5)
    assert run.state.text == ("The answer is" if isinstance(blocks[0], str) else "")


def test_the_raised_limit_stays_raised_for_the_run():
    run = Simulation((READ,))
    run.run([says("x", stop="max_tokens"), says(("t1", "read", {})), says("end")])
    assert [body["max_tokens"] for body in run.bodies] == [100, 200, 200]


def test_an_end_with_calls_runs_none_and_closes_each():
    run = Simulation((READ,))
    stop = run.run([says("let me", ("t1", "read", {}), stop="end_turn")])
    assert (stop.kind, stop.detail["ignored"], run.state.text, run.ran) == (
        "malformed_reply",
        1,
        "let me",
        [],
    )
    last = run.closed[-1]
    assert last["content"][0]["tool_use_id"] == "t1"
    assert last["content"][0]["is_error"] is True


@pytest.mark.parametrize("blocks", [(), ("I will call read(a)",), (("bad id", "read", {}),)])
def test_a_tool_use_reply_without_good_calls_is_asked_again_once(blocks):
    run = Simulation((READ,))
    stop = run.run([says(*blocks, stop="tool_use")] * 2)
    assert (stop.kind, run.state.requests, run.ran) == ("malformed_reply", 2, [])
    assert run.bodies[0] == run.bodies[1]


def test_a_paused_turn_goes_back_as_it_is_without_a_user_message():
    first: dict = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    second = {**first, "id": "s2"}
    run = Simulation()
    stop = run.run(
        [says("searching", first, stop="pause_turn"), says(second, stop="pause_turn"), says("found")]
    )
    assert (stop.kind, run.state.text) == ("completed", "searchingfound")
    assert [message["role"] for message in run.messages] == ["user", "assistant", "assistant"]
    assert run.bodies[1]["messages"][-1]["content"] == [{"type": "text", "text": "searching"}, first]


def test_pauses_are_bounded_by_their_own_count():
    run = Simulation(limits=Limits(max_pauses=1))
    stop = run.run([says("a", stop="pause_turn"), says("b", stop="pause_turn")])
    assert (stop.kind, stop.detail) == ("max_pauses", {"limit": 1, "used": 1})
    assert [m["role"] for m in run.closed] == ["user"]


def test_a_refusal_is_never_asked_again_and_not_kept():
    run = Simulation((READ,))
    details = {"category": "x", "explanation": "no"}
    stop = run.run([says(("t1", "read", {})), says(stop="refusal", stop_details=details)])
    assert (stop.kind, stop.exit_code, stop.detail["category"]) == ("refused", 4, "x")
    assert run.closed[-1]["role"] == "user"


@pytest.mark.parametrize(
    "reply", [says("half", ("t1", "write", {}), stop="brand_new_reason"), null_stop("half")]
)
def test_an_unknown_stop_reason_stops_with_its_raw_value(reply):
    run = Simulation((WRITE,))
    stop = run.run([reply])
    assert (stop.kind, stop.detail["stop_reason"], run.ran) == ("unknown_stop_reason", reply.stop_reason, [])
    assert run.state.text == "half"


def test_an_empty_answer_is_a_failure():
    run = Simulation()
    assert run.run([says("  \n")]).kind == "empty_reply"


def test_a_stop_sequence_finishes_the_run_and_is_named():
    run = Simulation()
    stop = run.run([says("until", stop="stop_sequence", stop_sequence="END")])
    assert (stop.kind, stop.stop_class, stop.detail) == (
        "stop_sequence",
        "finished",
        {"stop_sequence": "END"},
    )


def test_a_full_context_window_keeps_the_partial_text():
    run = Simulation()
    stop = run.run([says("part", stop="model_context_window_exceeded")])
    assert (stop.kind, run.state.text, run.state.requests) == ("context_window_exceeded", "part", 1)


def test_a_failed_attempt_is_made_again_with_growing_waits_and_counts_as_one_request():
    run = Simulation()
    busy = Fault("overloaded", "busy", again=True)
    assert run.run([busy, busy, busy, says("ok")]).kind == "completed"
    assert (run.waits, run.state.requests) == ([0.5, 1.0, 2.0], 1)


def test_a_run_gives_up_after_its_attempts():
    run = Simulation()
    stop = run.run(lambda body: Fault("overloaded", "busy", again=True, status=529, request_id="q"))
    assert (stop.kind, stop.detail["attempts"], len(run.bodies)) == ("model_error", 6, 6)
    assert run.waits == [0.5, 1, 2, 4, 8]


def test_a_wait_of_an_hour_is_not_waited_for():
    run = Simulation()
    stop = run.run([Fault("rate_limited", "later", again=True, retry_after=3600)])
    assert (stop.kind, stop.detail["wait"], run.waits) == ("model_error", 3600, [])


def test_a_fault_that_another_attempt_cannot_mend_stops_at_once():
    run = Simulation()
    assert run.run([Fault("invalid_request", "no")]).kind == "model_error"
    assert len(run.bodies) == 1
