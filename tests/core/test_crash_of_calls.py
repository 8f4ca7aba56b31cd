# mypy: disable-error-code="union-attr"
"""A process that dies in the middle of a turn: what becomes of its calls when the run goes on."""

import pytest

from brida.core.events import (
    Answered,
    Asked,
    CallFinished,
    CallStarted,
    Decided,
    Received,
    Reconciled,
    Said,
    Sent,
    StopRequested,
    TurnStarted,
)
from brida.core.limits import Limits
from brida.core.run import Execute, FindOut, Note, next_step
from brida.core.stops import Stop
from support.interruptions import contents, crashed, during
from support.loop import FakeTool, Simulation, says

READ = FakeTool("read")
AGAIN = FakeTool("again", impact="idempotent")
PAY = FakeTool("pay", impact="high")
UNKNOWN = "outcome unknown"


def test_a_call_that_was_not_started_simply_runs():
    run = crashed(Simulation((PAY,)), [says(("c0", "pay", {})), says("done")], Decided)
    assert run.resume([says("done")]).kind == "completed"
    assert run.ran == [("pay", {})]


def test_a_call_that_was_approved_and_not_started_is_not_asked_about_again():
    run = crashed(Simulation((PAY,)), [says(("c0", "pay", {})), says("done")], Answered)
    run.resume([says("done")])
    assert (run.questions, run.ran) == ([], [("pay", {})])


def test_a_question_that_nobody_had_answered_is_put_again():
    run = crashed(Simulation((PAY,)), [says(("c0", "pay", {})), says("done")], Asked)
    run.resume([says("done")])
    assert [question.call_id for question in run.questions] == ["c0"]
    assert sum(isinstance(event, Asked) for event in run.events) == 1


def test_a_turn_that_had_not_begun_passes_the_gate_when_the_run_goes_on():
    run = Simulation((READ,), limits=Limits(max_turns=0))
    run.learn(Said(0, "go"), Sent(0, 1, 100, ""), Received(0, says(("c0", "read", {}))))
    run = run.in_a_new_process()
    run.spent = run.state.usage
    assert run.resume().kind == "max_turns"


def test_a_turn_that_had_begun_is_not_counted_twice():
    run = crashed(Simulation((READ,)), [says(("c0", "read", {})), says("so")], TurnStarted)
    run.resume([says("so")])
    assert (run.state.turns, run.state.calls_seen) == (1, 1)


@pytest.mark.parametrize("tool", [READ, AGAIN], ids=lambda tool: tool.impact)
def test_what_may_be_repeated_runs_again(tool):
    run = during(tool)
    assert run.resume([says("done")]).kind == "completed"
    assert run.ran == [(tool.name, {})]
    assert contents(run) == ["done"]


def test_what_may_be_repeated_is_repeated_with_the_same_id_and_its_intent_is_recorded_again():
    run = during(AGAIN)
    run.resume([says("done")])
    assert [e.call_id for e in run.events if isinstance(e, CallStarted)] == ["c0", "c0"]


def test_a_call_of_high_impact_is_never_repeated_where_nobody_can_say_what_became_of_it():
    run = during(PAY, settings={"on_ask": "decline", "yes_to": frozenset({"pay"})})
    assert run.resume([says("done")]).kind == "completed"
    assert run.ran == []
    assert UNKNOWN in contents(run)[0]
    assert run.results[0]["is_error"] is True


def test_a_tool_that_says_it_happened_gives_the_result():
    run = during(FakeTool("pay", impact="high", found="happened"))
    assert run.resume([says("done")]).kind == "completed"
    assert (run.ran, contents(run), "is_error" in run.results[0]) == ([], ["happened"], False)


def test_a_tool_that_says_it_did_not_happen_runs():
    run = during(FakeTool("pay", impact="high", found="did_not_happen"))
    assert run.resume([says("done")]).kind == "completed"
    assert (run.ran, contents(run)) == ([("pay", {})], ["done"])


@pytest.mark.parametrize("found", [None, "unclear"])
@pytest.mark.parametrize(
    "says_person, ran, heard", [("happened", 0, "happened"), ("did_not_happen", 1, "done")]
)
def test_a_person_says_what_became_of_it_where_its_tool_cannot(found, says_person, ran, heard):
    run = during(FakeTool("pay", impact="high", found=found), what_happened=lambda call: says_person)
    assert run.resume([says("done")]).kind == "completed"
    assert (len(run.ran), contents(run)) == (ran, [heard])


def test_a_person_who_does_not_know_lets_the_model_hear_that():
    run = during(PAY, what_happened=lambda call: "unknown")
    run.resume([says("done")])
    assert (run.ran, contents(run), run.results[0]["is_error"]) == ([], ["unknown"], True)
    assert [call.id for call in run.state.failed_calls] == ["c0"]


def test_a_tool_is_asked_before_a_person():
    run = during(FakeTool("pay", impact="high", found="unclear"), what_happened=lambda call: "happened")
    run.resume([says("done")])
    assert [(e.found, e.by) for e in run.events if isinstance(e, Reconciled)] == [
        ("unclear", "tool"),
        ("happened", "person"),
    ]


def test_a_tool_that_is_gone_cannot_be_asked():
    run = during(FakeTool("pay", impact="high", found="happened"))
    run.env = Simulation().env
    run.wake()
    assert next_step(run.state, run.env).events[0].found == "unclear"


def test_where_it_is_not_known_whether_a_tool_may_repeat_its_call_it_does_not():
    run = Simulation((PAY,))
    run.run([says(("c0", "pay", {})), says("done")])
    events = run.until(CallStarted)
    events[0] = Simulation().events[0]
    run = run.in_a_new_process(events)
    run.wake()
    assert [call.asked.id for call in run.state.unknown] == ["c0"]


def test_nothing_else_runs_before_it_is_known_what_became_of_a_call():
    run = during(PAY, READ, AGAIN, what_happened=lambda call: "happened")
    run.wake()
    assert isinstance(next_step(run.state, run.env), Note)
    run.learn(*next_step(run.state, run.env).events)
    step = next_step(run.state, run.env)
    assert (type(step), step.of, step.call.asked.id) == (FindOut, "person", "c0")


def test_the_rest_of_the_batch_runs_after_it_and_the_results_keep_their_order():
    run = during(PAY, READ, AGAIN)
    assert run.resume([says("done")]).kind == "completed"
    assert [result["tool_use_id"] for result in run.results] == ["c0", "c1", "c2"]
    assert contents(run) == ["unknown", "done", "done"]


def test_results_from_before_the_crash_are_kept():
    texts = iter(["first", "second"])
    read = FakeTool("read", lambda arguments: next(texts))
    run = Simulation((read, PAY))
    run.run([says(("c0", "read", {}), ("c1", "pay", {})), says("done")])
    run = run.in_a_new_process(run.until(CallStarted, number=2))
    run.resume([says("done")])
    assert contents(run) == ["first", "unknown"]
    assert run.ran == []


def test_of_calls_that_ran_together_only_those_without_a_result_run_again():
    run = crashed(
        Simulation((READ,)),
        [says(("c0", "read", {"p": 1}), ("c1", "read", {"p": 2})), says("so")],
        CallFinished,
    )
    run.resume([says("so")])
    assert run.ran == [("read", {"p": 2})]


def test_after_the_last_result_the_next_request_leaves():
    run = crashed(Simulation((PAY,)), [says(("c0", "pay", {})), says("done")], CallFinished)
    assert run.resume([says("done")]).kind == "completed"
    assert (run.ran, contents(run)) == ([], ["done"])


def parked_unknown(**more):
    settings = {"on_ask": "park", "yes_to": frozenset({"pay"})}
    run = during(PAY, READ, settings=settings, **more)
    assert run.resume() == Stop("waiting", {"questions": 1})
    return run


def test_a_run_that_parks_waits_where_nobody_knows_what_became_of_a_call():
    run = parked_unknown()
    assert [call.asked.id for call in run.state.unknown] == ["c0"]
    assert [call.id for call in run.state.pending] == ["c1"]
    assert [UNKNOWN in contents(run)[0], contents(run)[1]] == [
        True,
        "did not run: the run waits for a person",
    ]


@pytest.mark.parametrize(
    "found, ran, first",
    [
        ("happened", ["read"], "paid"),
        ("unknown", ["read"], "who knows"),
        ("did_not_happen", ["pay", "read"], "done"),
    ],
)
def test_another_process_says_what_became_of_the_call_and_the_run_goes_on(found, ran, first):
    run = parked_unknown()
    run = run.in_a_new_process()
    run.learn(Reconciled(0, "c0", found, "x", {"happened": "paid", "unknown": "who knows"}.get(found, "")))
    run = run.in_a_new_process()
    assert run.resume([says("done")]).kind == "completed"
    assert [name for name, _ in run.ran] == ran
    assert contents(run) == [first, "done"]


def test_what_a_caller_can_go_on_from_is_whole_once_it_is_known_what_became_of_the_call():
    run = parked_unknown()
    run.learn(Reconciled(0, "c0", "happened", "x", "paid"))
    assert contents(run) == ["paid", "did not run: the run waits for a person"]


def test_what_is_known_already_cannot_be_said_again():
    run = parked_unknown()
    run.learn(Reconciled(0, "c0", "happened", "x", "paid"))
    with pytest.raises(ValueError, match="is none of which nobody knows"):
        run.state.apply(Reconciled(9, "c0", "did_not_happen", "x"))


def test_a_call_that_has_not_been_started_is_none_that_anybody_must_find_out_about():
    run = crashed(Simulation((PAY,)), [says(("c0", "pay", {})), says("done")], Decided)
    run.wake()
    with pytest.raises(ValueError, match="is none of which nobody knows"):
        run.state.apply(Reconciled(9, "c0", "happened", "x"))


def test_a_call_that_is_under_way_is_none_that_anybody_must_find_out_about():
    with pytest.raises(ValueError, match="is none of which nobody knows"):
        during(PAY).state.apply(Reconciled(9, "c0", "happened", "x"))


def test_a_call_that_did_not_happen_and_has_not_run_again_did_not_run():
    run = during(PAY)
    run.wake()
    run.learn(Reconciled(0, "c0", "did_not_happen", "x"), StopRequested(0, Stop("interrupted")))
    assert run._carry_on(lambda body: says("never")).kind == "interrupted"
    assert contents(run) == ["did not run: interrupted"]
    assert [call.id for call in run.state.not_run] == ["c0"]


def test_a_crash_while_its_tool_finds_out_asks_it_again():
    run = during(FakeTool("pay", impact="high", found="happened"))
    run.wake()
    run = run.in_a_new_process()
    run.wake()
    step = next_step(run.state, run.env)
    assert (type(step), step.of) == (FindOut, "tool")


def test_a_tool_that_could_not_tell_is_not_asked_again_after_another_crash():
    run = during(FakeTool("pay", impact="high", found="unclear"))
    run.wake()
    run.do(next_step(run.state, run.env))
    run = run.in_a_new_process()
    run.wake()
    assert next_step(run.state, run.env).of == "person"


def test_a_call_that_runs_again_and_dies_again_is_unknown_again():
    run = during(PAY, what_happened=lambda call: "did_not_happen")
    run.resume([says("done")])
    run = run.in_a_new_process(run.until(CallStarted, number=2))
    run.what_happened = lambda call: "happened"
    assert run.resume([says("done")]).kind == "completed"
    assert (run.ran, contents(run)) == ([], ["happened"])


def test_a_call_that_runs_again_is_under_way_and_not_unknown():
    run = during(AGAIN)
    run.wake()
    run.learn(*next_step(run.state, run.env).events)
    assert run.state.unknown == ()
    with pytest.raises(ValueError, match="is none of which nobody knows"):
        run.state.apply(Reconciled(9_999, "c0", "happened", "x"))


def test_a_tool_that_could_not_tell_is_asked_again_once_its_call_has_run_again():
    run = during(FakeTool("pay", impact="high", found="unclear"), what_happened=lambda call: "did_not_happen")
    run.resume([says("done")])
    run = run.in_a_new_process(run.until(CallStarted, number=2))
    run.wake()
    assert next_step(run.state, run.env).of == "tool"


def test_a_call_that_may_be_repeated_dies_any_number_of_times():
    run = during(AGAIN)
    for _ in range(3):
        run.wake()
        step = next_step(run.state, run.env)
        assert isinstance(step, Execute)
        run.learn(*step.events)
        run = run.in_a_new_process()
    assert run.resume([says("done")]).kind == "completed"
    assert contents(run) == ["done"]


def test_a_process_that_dies_before_it_does_anything_changes_nothing():
    run = during(PAY, what_happened=lambda call: "happened")
    for _ in range(3):
        run.wake()
        run = run.in_a_new_process()
    assert run.resume([says("done")]).kind == "completed"
    assert contents(run) == ["happened"]


def test_a_call_that_was_started_cannot_be_started_beside_itself():
    run = during(PAY)
    with pytest.raises(ValueError, match="was started before"):
        run.state.apply(CallStarted(9, "c0"))
    run.wake()
    with pytest.raises(ValueError, match="was started before"):
        run.state.apply(CallStarted(9, "c0"))


def test_a_call_that_is_not_under_way_cannot_finish():
    run = crashed(Simulation((PAY,)), [says(("c0", "pay", {})), says("done")], Decided)
    with pytest.raises(ValueError, match="is not under way"):
        run.state.apply(CallFinished(9, "c0", "ok", "x"))
    run = during(PAY, READ)
    run.learn(CallFinished(9, "c0", "ok", "x"))
    with pytest.raises(ValueError, match="is not under way"):
        run.state.apply(CallFinished(9, "c0", "ok", "y"))
