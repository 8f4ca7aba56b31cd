# mypy: disable-error-code="union-attr, attr-defined"
"""A run that waits for a person while no process has it: parked, answered, and gone on with."""

from dataclasses import replace

import pytest

from brida.core.events import (
    Answered,
    Asked,
    CallStarted,
    Decided,
    Received,
    Reconciled,
    Resumed,
    Said,
    Sent,
    Stopped,
    StopRequested,
)
from brida.core.limits import Limits
from brida.core.replay import replay
from brida.core.run import Done, next_step
from brida.core.stops import Stop
from brida.core.turn import Phase
from support.interruptions import (
    ASK1,
    BATCH,
    FREE,
    PARK,
    TOOLS,
    answer,
    contents,
    digest_of,
    names,
    parked,
)
from support.loop import FakeTool, Simulation, says

WAITS = "did not run: the run waits for a person"


# -- C16 of the cases from the field: approvals in a batch


def test_nothing_of_a_turn_runs_before_all_its_questions_are_answered():
    run = parked()
    assert not any(isinstance(event, CallStarted) for event in run.events)
    assert run.state.stop.kind == "waiting"


def test_a_parked_run_names_each_question_with_its_exact_arguments_and_its_digest():
    run = parked()
    questions = [call.question for call in run.state.questions]
    assert [(q.call_id, q.tool, q.arguments) for q in questions] == [
        ("b", "ask1", {"p": 1}),
        ("c", "ask2", {"p": 2}),
    ]
    assert [q.digest for q in questions] == [digest_of(run, "b"), digest_of(run, "c")]


def test_with_one_answer_of_two_it_still_waits_for_the_other_and_nothing_has_run():
    run = answer(parked(), "b")
    assert run.resume() == Stop("waiting", {"questions": 1})
    assert [call.asked.id for call in run.state.questions] == ["c"]
    assert run.ran == []


def test_with_all_answers_each_allowed_call_runs_once_and_the_results_keep_their_order():
    run = answer(answer(parked(), "b"), "c", False, reason="no")
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["free", "ask1"]
    assert [result["tool_use_id"] for result in run.results] == ["a", "b", "c"]
    assert "no" in contents(run)[2]
    assert run.results[2]["is_error"] is True


def test_the_answers_may_come_one_after_the_other_with_the_run_gone_on_between():
    run = answer(parked(), "b")
    run.resume()
    run = answer(run.in_a_new_process(), "c", False, reason="no")
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["free", "ask1"]


def test_the_same_answer_again_changes_nothing():
    run = answer(answer(answer(parked(), "b"), "b"), "c")
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["free", "ask1", "ask2"]


def test_the_same_answer_after_the_run_has_gone_on_is_refused():
    run = answer(parked(), "b")
    run.resume()
    with pytest.raises(ValueError, match="no answer is wanted"):
        run.state.apply(Answered(0, "b", digest_of(run, "b"), True, "person"))


def test_an_answer_after_the_turn_is_over_is_refused():
    run = answer(answer(parked(), "b"), "c")
    digest = digest_of(run, "b")
    run.resume([says("done")])
    with pytest.raises(ValueError, match="Answered cannot follow here"):
        run.state.apply(Answered(0, "b", digest, True, "person"))


def test_an_answer_for_another_digest_is_refused():
    run = parked()
    with pytest.raises(ValueError, match="was given for other arguments"):
        run.state.apply(Answered(0, "b", digest_of(run, "c"), True, "person"))


def test_an_answer_for_a_call_that_is_not_there_is_refused():
    run = parked()
    with pytest.raises(ValueError, match="is no call of this turn"):
        run.state.apply(Answered(0, "z", digest_of(run, "c"), True, "person"))


def test_an_answer_that_nobody_asked_for_is_refused():
    run = parked()
    with pytest.raises(ValueError, match="no answer is wanted"):
        run.state.apply(Answered(0, "a", digest_of(run, "a"), True, "person"))
    run = Simulation(TOOLS, settings=PARK)
    run.learn(Said(0, "go"), Sent(0, 1, 100, ""), Received(0, says(*BATCH)))
    with pytest.raises(ValueError, match="no answer is wanted"):
        run.state.apply(Answered(0, "b", digest_of(run, "b"), True, "person"))


# -- how it waits


def test_a_run_that_waits_is_parked_and_exits_with_six():
    stop = parked().state.stop
    assert (stop.stop_class, stop.exit_code) == ("parked", 6)


def test_its_messages_are_whole_and_say_that_the_calls_wait():
    run = parked()
    assert contents(run) == [WAITS, WAITS, WAITS]
    assert [call.id for call in run.state.pending] == ["a", "b", "c"]


def test_its_history_is_still_open():
    run = parked()
    assert run.state.history.open_calls == ("a", "b", "c")
    with pytest.raises(ValueError, match="calls without a result"):
        run.state.history.encoded()


def test_asked_for_its_next_step_it_says_that_it_waits():
    run = parked()
    assert next_step(run.state, run.env) == Done(Stop("waiting", {"questions": 2}))


@pytest.mark.parametrize(
    "event",
    [Said(9, "x"), Decided(9, "a", "allow", "x", ""), CallStarted(9, "a"), Stopped(9, Stop("stopped"))],
)
def test_nothing_but_answers_and_going_on_follows_while_it_waits(event):
    with pytest.raises(ValueError, match="cannot follow here"):
        parked().state.apply(event)


def test_the_time_that_it_waits_does_not_count():
    run = parked(limits=Limits(deadline=50))
    before = run.state.elapsed
    run.now += 10_000
    run = answer(answer(run, "b"), "c")
    run.now += 10_000
    run.wake()
    assert run.state.elapsed == before
    assert run._carry_on(lambda body: says("done")).kind == "completed"


def test_the_turn_is_not_counted_again():
    run = answer(answer(parked(limits=Limits(max_turns=1, max_calls=3)), "b"), "c")
    assert run.resume([says("done")]).kind == "completed"
    assert (run.state.turns, run.state.calls_seen) == (1, 3)


def test_going_on_without_an_answer_waits_again():
    run = parked()
    assert run.resume() == Stop("waiting", {"questions": 2})
    assert run.in_a_new_process().resume() == Stop("waiting", {"questions": 2})


def test_going_on_where_somebody_is_there_asks():
    run = parked()
    run.env = Simulation(TOOLS, settings=PARK | {"on_ask": "ask"}).env
    run.answer = lambda question: question.call_id == "b"
    assert run.resume([says("done")]).kind == "completed"
    assert [question.call_id for question in run.questions] == ["b", "c"]
    assert names(run) == ["free", "ask1"]


def test_going_on_where_nobody_is_there_declines_what_has_no_answer():
    run = answer(parked(), "b")
    run.env = Simulation(TOOLS, settings=PARK | {"on_ask": "decline"}).env
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["free", "ask1"]
    assert "nobody is there" in contents(run)[2]


def test_a_person_may_think_again_until_the_run_goes_on():
    run = answer(answer(answer(parked(), "b"), "b", False, reason="no"), "c")
    run.resume([says("done")])
    assert names(run) == ["free", "ask2"]


def test_a_call_that_was_declined_is_not_pending():
    run = answer(parked(), "b", False)
    run.resume()
    assert [call.id for call in run.state.pending] == ["a", "c"]


def test_what_a_question_was_based_on_is_shown_with_it_again():
    run = parked()
    (asked,) = [place for place, event in enumerate(run.events) if isinstance(event, Asked)]
    questions = tuple(replace(question, basis="as it was") for question in run.events[asked].questions)
    run.events[asked] = Asked(run.events[asked].at, questions)
    run = run.in_a_new_process()
    run.env = Simulation(TOOLS, settings=PARK | {"on_ask": "ask"}).env
    run.wake()
    assert [question.basis for question in next_step(run.state, run.env).questions] == ["as it was"] * 2


def test_a_run_waits_more_than_once():
    run = answer(answer(parked(), "b"), "c")
    assert run.resume([says(("d", "ask1", {"p": 9}))]) == Stop("waiting", {"questions": 1})
    run = answer(run.in_a_new_process(), "d")
    assert run.resume([says("done")]).kind == "completed"
    started = [event.call_id for event in run.events if isinstance(event, CallStarted)]
    assert started == ["a", "b", "c", "d"]


def test_a_run_that_waited_replays():
    run = answer(answer(parked(), "b"), "c")
    run.resume([says("done")])
    assert replay(run.events).same == 2


# -- other ways to come to wait, and out of it


def test_a_stop_that_is_wanted_while_it_waits_is_over_when_it_goes_on():
    run = parked()
    run.learn(StopRequested(0, Stop("stopped")))
    run = answer(answer(run, "b"), "c")
    assert run.resume([says("done")]).kind == "completed"


def test_a_person_who_goes_on_can_still_end_it():
    run = parked()
    run.wake()
    run.learn(StopRequested(0, Stop("interrupted")))
    assert run._carry_on(lambda body: says("never")).kind == "interrupted"
    assert contents(run) == ["did not run: interrupted"] * 3


def test_a_run_that_was_parked_and_then_ended_takes_no_answer():
    run = parked()
    run.wake()
    run.learn(StopRequested(0, Stop("interrupted")))
    run._carry_on(lambda body: says("never"))
    with pytest.raises(ValueError, match="Answered cannot follow here"):
        run.state.apply(Answered(0, "b", digest_of(run, "b"), True, "person"))


def test_a_person_can_park_a_run_before_a_request():
    run = Simulation()
    run.learn(StopRequested(0, Stop("waiting")))
    assert run.run([]).kind == "waiting"
    assert (run.state.phase, run.state.pending) == (Phase.READY, ())
    run = run.in_a_new_process()
    assert run.resume([says("so")]).kind == "completed"
    assert run.state.requests == 1


def test_a_person_can_park_a_run_between_two_calls_and_it_goes_on_with_the_next():
    def free(arguments):
        run.learn(StopRequested(0, Stop("waiting")))
        return "ran"

    tools = (FakeTool("free", free, impact="high"), ASK1)
    run = Simulation(tools, settings={"policy": PARK["policy"]})
    assert run.run([says(("a", "free", {}), ("b", "ask1", {}))]).kind == "waiting"
    assert contents(run) == ["ran", WAITS]
    assert [call.id for call in run.state.pending] == ["b"]
    run = run.in_a_new_process()
    assert run.resume([says("done")]).kind == "completed"
    assert (names(run), contents(run)) == (["ask1"], ["ran", "done"])


def test_a_person_can_park_a_run_before_a_turn_begins():
    run = Simulation((FREE,), settings={"policy": PARK["policy"]})
    run.learn(Said(0, "go"), Sent(0, 1, 100, ""), Received(0, says(("a", "free", {}))))
    run.learn(StopRequested(0, Stop("waiting")))
    run.learn(*next_step(run.state, run.env).events)
    assert contents(run) == [WAITS]
    run = run.in_a_new_process()
    assert run.resume([says("done")]).kind == "completed"
    assert (names(run), run.state.turns) == (["free"], 1)


def test_a_park_between_two_attempts_does_not_begin_the_request_again():
    run = Simulation(limits=Limits(max_attempts=2))
    run.learn(Said(0, "go"))
    run.learn(*next_step(run.state, run.env).events)
    run.learn(StopRequested(0, Stop("waiting")))
    run = run.in_a_new_process()
    run.wake()
    run.learn(StopRequested(0, Stop("waiting")))
    run.learn(*next_step(run.state, run.env).events)
    assert run.state.stop == Stop("waiting")
    run = run.in_a_new_process()
    assert run.resume([says("so")]).kind == "completed"
    assert [event.attempt for event in run.events if isinstance(event, Sent)] == [1, 2]


def test_a_stop_while_a_call_is_under_way_leaves_it_unknown():
    run = Simulation((FREE,), settings=PARK, what_happened=lambda call: "happened")
    run.run([says(("a", "free", {})), says("done")])
    run = run.in_a_new_process(run.until(CallStarted))
    run.learn(Stopped(0, Stop("waiting")))
    run = run.in_a_new_process()
    run.wake()
    assert [call.asked.id for call in run.state.unknown] == ["a"]


def test_a_crash_right_after_going_on_loses_no_answer():
    run = answer(answer(parked(), "b"), "c", False)
    run.wake()
    run = run.in_a_new_process()
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["free", "ask1"]


def test_a_call_whose_outcome_is_settled_last_lets_the_run_go_on():
    run = Simulation((ASK1,), settings=PARK | {"yes_to": frozenset({"ask1"})})
    run.run([says(("b", "ask1", {})), says("done")])
    run = run.in_a_new_process(run.until(CallStarted))
    assert run.resume().kind == "waiting"
    run.learn(Reconciled(0, "b", "happened", "person", "paid"))
    assert run.state.phase is Phase.READY
    assert run.state.stop.kind == "waiting"
    assert contents(run) == ["paid"]
    assert run.in_a_new_process().resume([says("done")]).kind == "completed"


# -- a new text while it waits


def test_a_new_text_waits_behind_the_calls():
    run = parked()
    assert run.resume((), "and be quick") == Stop("waiting", {"questions": 2})
    assert [block["type"] for block in run.closed[-1]["content"]] == ["tool_result"] * 3 + ["text"]
    run = answer(answer(run.in_a_new_process(), "b"), "c")
    assert run.resume([says("done")]).kind == "completed"
    assert run.messages[-1]["content"][-1]["text"] == "and be quick"


def test_a_new_text_does_not_answer_a_question():
    run = parked()
    run.resume((), "yes, do it")
    assert (len(run.state.questions), run.ran) == (2, [])


def test_a_new_text_counts_afresh():
    run = parked(limits=Limits(max_turns=1))
    run.resume((), "go on")
    run = answer(answer(run.in_a_new_process(), "b"), "c")
    assert run.resume([says(("d", "free", {"p": 1})), says("done")]).kind == "completed"
    assert (run.state.turns, run.state.requests) == (1, 2)


def test_an_event_of_going_on_ends_the_waiting():
    run = parked()
    run.state.apply(Resumed(99))
    assert (run.state.stop, run.state.closed, run.state.pending) == (None, (), ())
