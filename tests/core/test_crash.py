# mypy: disable-error-code="union-attr"
"""A process that dies: what the run makes of it when it goes on, wherever it stood."""

import pytest

from brida.core.events import (
    ANSWER_TOOL,
    CallFinished,
    CallStarted,
    Checked,
    Closing,
    Fault,
    Lost,
    Received,
    Resumed,
    Said,
    Sent,
    Stopped,
    StopRequested,
    Waited,
)
from brida.core.limits import Limits
from brida.core.run import Done, Send, Wait, next_step
from brida.core.state import CRASHED
from brida.core.stops import Stop
from brida.core.turn import Phase
from support.interruptions import contents, crashed, during
from support.loop import FakeTool, Simulation, says

READ = FakeTool("read")
AGAIN = FakeTool("again", impact="idempotent")
PAY = FakeTool("pay", impact="high")
UNKNOWN = "outcome unknown"
BUSY = Fault("overloaded", "busy", again=True)


# -- a request


def test_a_request_that_was_under_way_is_sent_again_as_it_was():
    run = Simulation()
    run.run([says("hello")])
    again = run.in_a_new_process(run.until(Sent))
    assert again.resume([says("hello")]).kind == "completed"
    assert again.bodies == run.bodies


def test_an_attempt_whose_process_died_counts_and_is_no_request_of_its_own():
    run = crashed(Simulation(), [says("hello")], Sent)
    run.resume([says("hello")])
    assert [event.attempt for event in run.events if isinstance(event, Sent)] == [1, 2]
    assert run.state.requests == 1


def test_what_the_attempt_cost_is_not_known():
    run = crashed(Simulation(), [says("hello")], Sent)
    run.resume([says("hello")])
    assert (run.state.usage.total, run.state.usage.complete) == (15, False)


def test_another_attempt_leaves_at_once():
    run = crashed(Simulation(), [says("hello")], Sent)
    run.wake()
    assert next_step(run.state, run.env) == Wait(0.0, False, None)
    assert run.state.fault == CRASHED


def test_the_attempts_of_a_request_are_bounded_over_all_crashes():
    run = Simulation(limits=Limits(max_attempts=3))
    run = crashed(run, [says("hello")], Sent)
    for _ in range(2):
        run.wake()
        run.learn(Waited(0, 0.0))
        run.learn(*next_step(run.state, run.env).events)
        run = run.in_a_new_process()
    stop = run.resume()
    assert (stop.kind, stop.detail["fault"], stop.detail["attempts"]) == ("model_error", "crashed", 3)
    assert run.bodies == []


def test_a_wait_between_two_attempts_is_waited_again():
    run = crashed(Simulation(), [BUSY, BUSY, says("hello")], Lost, number=2)
    assert run.resume([says("hello")]).kind == "completed"
    assert (run.waits, run.state.attempts, run.state.requests) == ([1.0], 0, 1)


def test_after_a_wait_the_attempt_that_was_due_is_made():
    run = crashed(Simulation(), [BUSY, says("hello")], Waited)
    run.resume([says("hello")])
    assert [event.attempt for event in run.events if isinstance(event, Sent)] == [1, 2]


def test_a_malformed_reply_before_the_crash_counts():
    malformed = says("I call read()", stop="tool_use")
    run = crashed(Simulation(), [malformed, says("so")], Received)
    assert run.resume([malformed]).kind == "malformed_reply"


def test_a_run_that_had_not_sent_anything_begins():
    run = crashed(Simulation(), [says("hello")], Said)
    assert run.resume([says("hello")]).kind == "completed"


def test_a_paused_turn_goes_on_from_its_pause():
    pause = says("wait", stop="pause_turn")
    run = crashed(Simulation(), [pause, says("so")], Received)
    assert run.resume([says("so")]).kind == "completed"
    assert (run.messages[-1]["content"][0]["text"], run.state.text) == ("wait", "waitso")


# -- what ends meanwhile


def test_somebody_who_wants_the_run_to_end_gets_an_end_with_the_outcome_unknown():
    run = during(PAY, READ)
    run.wake()
    run.learn(StopRequested(0, Stop("stopped")))
    assert run._carry_on(lambda body: says("never")).kind == "stopped"
    assert [UNKNOWN in contents(run)[0], contents(run)[1]] == [True, "did not run: a person stopped the run"]
    assert [call.id for call in run.state.not_run] == ["c1"]


def test_a_call_that_would_have_been_repeated_is_unknown_where_the_run_ends_instead():
    run = during(READ, PAY)
    run.wake()
    run.learn(StopRequested(0, Stop("stopped")))
    run._carry_on(lambda body: says("never"))
    assert UNKNOWN in contents(run)[0]
    assert [call.id for call in run.state.not_run] == ["c1"]


def test_a_wish_to_stop_from_before_the_crash_is_over():
    run = Simulation((READ,))
    run.run([says(("c0", "read", {})), says("so")])
    run = run.in_a_new_process(run.until(CallFinished))
    run.learn(StopRequested(0, Stop("interrupted")))
    assert run.in_a_new_process().resume([says("so")]).kind == "completed"


def test_time_between_a_crash_and_going_on_does_not_count():
    run = crashed(Simulation(limits=Limits(deadline=50), seconds=1), [says("so")], Sent)
    before = run.state.elapsed
    run.wake()
    assert run.state.elapsed == before
    assert run.resume([says("so")]).kind == "completed"


def test_a_deadline_that_passes_while_a_tool_finds_out_ends_the_run_with_the_outcome_unknown():
    run = during(FakeTool("pay", impact="high", found="unclear"), limits=Limits(deadline=50))
    run.wake()
    step = next_step(run.state, run.env)
    assert step.seconds_left == pytest.approx(50 - run.state.elapsed)
    run.now += 60
    run.do(step)
    assert run._carry_on(lambda body: says("never")).kind == "deadline"
    assert UNKNOWN in contents(run)[0]


def test_a_person_has_all_the_time_to_say_what_became_of_a_call():
    run = during(PAY, limits=Limits(deadline=50))
    run.wake()
    run.learn(*next_step(run.state, run.env).events)
    step = next_step(run.state, run.env)
    assert (step.of, step.seconds_left) == ("person", None)
    before = run.state.elapsed
    run.now += 10_000
    run.do(step)
    assert run.state.elapsed == before
    assert run._carry_on(lambda body: says("done")).kind == "completed"


def test_an_end_that_was_due_comes():
    run = crashed(Simulation((READ,)), [says("x", ("c0", "read", {}), stop="end_turn")], Received)
    stop = run.resume()
    assert (stop.kind, contents(run)) == (
        "malformed_reply",
        ["did not run: the reply did not stop for its calls"],
    )


def test_a_completed_run_that_had_not_said_so_is_complete():
    run = crashed(Simulation(), [says("so")], Received)
    run.wake()
    assert isinstance(next_step(run.state, run.env), Done)
    assert run._carry_on(lambda body: says("never")).kind == "completed"


def test_an_answer_that_was_to_be_checked_is_checked():
    check = {"check_answer": lambda text, say: () if text == "right" else ("wrong",)}
    run = Simulation(settings=check, start={"answer": "text"})
    run = crashed(run, [says("wrong"), says("right")], Received)
    assert run.state.phase is Phase.CHECK
    assert run.resume([says("right")]).kind == "completed"
    assert sum(isinstance(event, Checked) for event in run.events) == 2


def test_a_closing_reply_is_asked_for_once_whatever_dies():
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=50))
    run = crashed(run, [says(("c0", "read", {})), says("so far")], Sent, number=2)
    assert run.resume().kind == "max_turns"
    assert run.state.closing_requests == 1


def test_a_closing_reply_that_had_not_been_asked_for_is():
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=50))
    run = crashed(run, [says(("c0", "read", {})), says("so far")], Closing)
    assert run.resume([says("so far")]).kind == "max_turns"
    assert (run.state.text, run.bodies[-1]["tool_choice"]) == ("so far", {"type": "none"})


def test_a_closing_reply_that_had_come_ends_the_run():
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=50))
    run = crashed(run, [says(("c0", "read", {})), says("so far")], Received, number=2)
    assert (run.resume().kind, run.bodies) == ("max_turns", [])


# -- a new text after a crash


def test_a_new_text_after_a_crash_counts_afresh():
    run = Simulation((READ,), limits=Limits(max_turns=2, max_requests=3))
    run = crashed(run, [says(("c0", "read", {})), says(("c1", "read", {"p": 1})), says("so")], Sent, number=3)
    calls = [says((f"d{n}", "read", {"p": n})) for n in range(2)]
    assert run.resume([*calls, says("so")], "and then?").kind == "completed"
    assert (run.state.turns, run.state.requests) == (2, 3)


def test_the_request_with_a_new_text_is_no_other_attempt_of_the_one_that_died():
    run = crashed(Simulation(limits=Limits(max_attempts=1)), [says("so")], Sent)
    assert run.resume([says("so")], "and then?").kind == "completed"
    assert [event.attempt for event in run.events if isinstance(event, Sent)] == [1, 1]
    assert run.state.requests == 1


def test_a_new_text_does_not_wait_for_what_had_failed_before():
    run = crashed(
        Simulation(), [Fault("rate_limited", "later", again=True, retry_after=60), says("so")], Lost
    )
    assert run.resume([says("so")], "and then?").kind == "completed"
    assert run.waits == []


def test_a_new_text_follows_the_results_of_the_turn():
    run = during(READ, PAY)
    run.resume([says("done")], "and be quick")
    assert [block["type"] for block in run.messages[-1]["content"]] == ["tool_result", "tool_result", "text"]


def test_a_new_text_changes_nothing_about_what_is_unknown():
    run = during(PAY, settings={"on_ask": "decline", "yes_to": frozenset({"pay"})})
    run.resume([says("done")], "go on")
    assert (run.ran, UNKNOWN in contents(run)[0]) == ([], True)


def test_a_new_text_is_heard_before_an_answer_is_checked():
    run = Simulation(settings={"check_answer": lambda text, say: ()}, start={"answer": "text"})
    run = crashed(run, [says("right")], Received)
    assert run.resume([says("righter")], "are you sure?").kind == "completed"
    assert (len(run.bodies), run.state.text) == (1, "righter")


def test_a_new_text_after_an_answer_asks_for_another():
    give = FakeTool(ANSWER_TOOL)
    run = Simulation((give,), start={"answer": "tool"})
    run = crashed(run, [says(("c0", ANSWER_TOOL, {"n": 1}))], CallFinished)
    run.resume([says(("c1", ANSWER_TOOL, {"n": 2}))], "are you sure?")
    assert run.state.answer == {"n": 2}


def test_what_was_ending_has_ended_before_a_new_text_begins():
    run = crashed(Simulation((READ,)), [says("x", ("c0", "read", {}), stop="end_turn")], Received)
    assert run.resume([says("so")], "and then?").kind == "completed"
    assert [e.stop.kind for e in run.events if isinstance(e, Stopped)] == ["malformed_reply", "completed"]


def test_a_closing_reply_gives_way_to_a_new_text():
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=50))
    run = crashed(run, [says(("c0", "read", {})), says("so far")], Sent, number=2)
    assert run.resume([says("so")], "and then?").kind == "completed"
    assert [e.stop.kind for e in run.events if isinstance(e, Stopped)] == ["max_turns", "completed"]


def test_a_new_text_leaves_a_paused_turn_out():
    run = crashed(Simulation(), [says("wait", stop="pause_turn"), says("so")], Sent, number=2)
    assert run.resume([says("so")], "never mind").kind == "completed"
    assert [m["role"] for m in run.messages] == ["user", "user"]


def test_a_new_budget_can_be_given_after_a_crash():
    run = Simulation((READ,), limits=Limits(max_tokens_total=1_500))
    run = crashed(run, [says(("c0", "read", {})), says("so")], CallStarted)
    assert run.resume([says("so")], new_budget=True).kind == "completed"
    assert run.state.tokens_used == 15


# -- what is looked at for going round in circles


def test_going_on_after_a_crash_is_no_walking_in_place():
    run = Simulation((READ,))
    run = crashed(run, [says(("c0", "read", {})), says("so")], Received)
    run = run.in_a_new_process()
    assert run.resume([says(("c1", "read", {"p": 1})), says("so")]).kind == "completed"
    run = crashed(Simulation((READ,)), [says(("c0", "read", {})), says("so")], CallFinished)
    assert run.resume([says(("c1", "read", {})), says("so")]).kind == "completed"


def test_going_on_twice_is_going_on_once():
    run = during(PAY, what_happened=lambda call: "happened")
    run.wake()
    once = run.state.copy()
    run.learn(Resumed(0))
    assert run.state.calls == once.calls
    assert [event.found for event in next_step(run.state, run.env).events] == ["unclear"]


def test_what_is_sent_after_a_crash_says_what_a_request_without_one_would():
    run = Simulation((READ,))
    run.run([says(("c0", "read", {})), says("so")])
    again = run.in_a_new_process(run.until(CallStarted))
    again.wake()
    again.learn(*next_step(again.state, again.env).events)
    again.learn(again.execute(next(iter(again.state.calls.values()))))
    step = next_step(again.state, again.env)
    assert isinstance(step, Send)
    assert step.request.as_dict() == run.bodies[1]
