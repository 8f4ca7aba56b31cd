# mypy: disable-error-code="union-attr"
"""Answers to a run that waits: changed arguments, how long they last, and what rules have to say."""

import pytest

from brida.core.events import (
    Answered,
    CallStarted,
    Decided,
)
from brida.core.policy import Policy
from brida.core.stops import Stop
from support.interruptions import (
    ASK1,
    ASK2,
    FREE,
    PARK,
    TOOLS,
    answer,
    contents,
    digest_of,
    edit,
    names,
    parked,
)
from support.loop import Simulation, says

WAITS = "did not run: the run waits for a person"


# -- arguments that are changed while it waits


def test_changed_arguments_are_put_again_and_wait_for_their_answer():
    run = answer(edit(parked(), "b", {"p": 7}), "c")
    assert run.resume() == Stop("waiting", {"questions": 1})
    (call,) = run.state.questions
    assert (call.question.arguments, call.question.asked) == ({"p": 7}, {"p": 1})
    run = answer(run.in_a_new_process(), "b")
    run.resume([says("done")])
    assert run.ran[1] == ("ask1", {"p": 7})


def test_changed_arguments_can_be_allowed_as_they_are_written():
    run = answer(answer(edit(parked(), "b", {"p": 7}), "b"), "c")
    assert run.resume([says("done")]).kind == "completed"
    assert run.ran[1] == ("ask1", {"p": 7})


def test_a_yes_to_what_was_shown_before_is_none_to_changed_arguments():
    run = edit(answer(parked(), "b"), "b", {"p": 7})
    run = answer(run, "c")
    assert run.resume() == Stop("waiting", {"questions": 1})
    assert run.ran == []


def test_an_answer_to_what_is_no_longer_shown_is_refused():
    run = parked()
    old = digest_of(run, "b")
    run = edit(run, "b", {"p": 7})
    with pytest.raises(ValueError, match="was given for other arguments"):
        run.state.apply(Answered(0, "b", old, True, "person"))


# -- how long an answer lasts


def test_an_answer_that_is_too_old_is_none():
    run = answer(answer(parked(seconds=0.0, start={"approval_ttl": 60.0}), "b"), "c")
    run.now += 60
    assert run.resume() == Stop("waiting", {"questions": 2})
    assert run.ran == []


def test_an_answer_that_is_not_too_old_holds():
    run = answer(answer(parked(start={"approval_ttl": 60.0}), "b"), "c")
    run.now += 59
    assert run.resume([says("done")]).kind == "completed"


def test_without_a_limit_an_answer_lasts():
    run = answer(answer(parked(), "b"), "c")
    run.now += 10**9
    assert run.resume([says("done")]).kind == "completed"


def test_what_is_too_old_can_be_answered_again():
    run = answer(answer(parked(start={"approval_ttl": 60.0}), "b"), "c")
    run.now += 100
    run.resume()
    run = answer(answer(run.in_a_new_process(), "b"), "c")
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["free", "ask1", "ask2"]


def test_a_no_that_is_too_old_is_asked_about_again_too():
    run = answer(answer(parked(start={"approval_ttl": 60.0}), "b", False), "c", False)
    run.now += 100
    assert run.resume() == Stop("waiting", {"questions": 2})


def test_an_answer_does_not_outlast_its_time_because_another_was_missing():
    run = answer(parked(start={"approval_ttl": 60.0}), "b")
    run.resume()
    run = run.in_a_new_process()
    run.now += 100
    run = answer(run, "c")
    assert run.resume() == Stop("waiting", {"questions": 1})
    assert [call.asked.id for call in run.state.questions] == ["b"]
    assert run.ran == []


def test_an_answer_for_the_session_that_is_too_old_allows_nothing():
    run = answer(answer(parked(start={"approval_ttl": 60.0}), "b", session=True), "c")
    run.now += 100
    assert run.resume() == Stop("waiting", {"questions": 2})
    assert run.state.session_allows == frozenset()


def test_an_answer_for_the_session_that_was_used_outlasts_another_that_was_not():
    run = answer(answer(parked(start={"approval_ttl": 60.0}), "b", session=True), "c")
    run.resume([says(("d", "ask1", {"p": 8}), ("e", "ask2", {"p": 9}))])
    run = answer(run.in_a_new_process(), "e")
    run.now += 100
    run.resume()
    assert run.state.session_allows == {"ask1"}


def test_an_answer_that_is_too_old_does_not_end_what_was_allowed_for_the_session():
    calls = (("b", "ask1", {"p": 1}), ("c", "ask1", {"p": 2}))
    run = answer(parked(*calls, start={"approval_ttl": 60.0}), "c")
    run.now += 50
    run = answer(run, "b", session=True)
    run.now += 20
    assert run.resume([says("done")]).kind == "completed"
    assert [event.rule for event in run.events if isinstance(event, Decided)] == [
        "answered by person",
        "allowed this session",
    ]


def test_what_has_been_acted_on_is_not_asked_about_again():
    run = Simulation((ASK1, ASK2), start={"approval_ttl": 60.0}, settings={"policy": PARK["policy"]})
    run.run([says(("b", "ask1", {}), ("c", "ask2", {})), says("done")])
    run = run.in_a_new_process(run.until(CallStarted), after=100.0)
    run.what_happened = lambda call: "happened"
    run.answer = lambda question: True
    assert run.resume([says("done")]).kind == "completed"
    assert ([q.call_id for q in run.questions], names(run)) == (["c"], ["ask2"])


def test_what_was_declined_stays_declined():
    run = answer(parked(start={"approval_ttl": 60.0}), "b", False, reason="no")
    run.resume()
    run = run.in_a_new_process()
    run.now += 100
    assert run.resume() == Stop("waiting", {"questions": 1})
    assert "no" in contents(run)[1]


# -- rules and answers that hold for more than one call


@pytest.mark.parametrize(
    "policy",
    [Policy({"free": "allow", "ask*": "deny"}), Policy({"free": "allow"}, default="deny")],
    ids=["rule", "default"],
)
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "not answered"])
def test_a_rule_against_a_call_holds_though_it_came_while_the_run_waited(policy, answered):
    run = parked()
    if answered:
        run = answer(answer(run, "b"), "c")
    run.env = Simulation(
        TOOLS, settings={"on_ask": "ask", "policy": policy, "yes_to": frozenset({"ask1"})}
    ).env
    assert run.resume([says("done")]).kind == "completed"
    assert (run.questions, names(run)) == ([], ["free"])
    assert [call.id for call in run.state.denied] == ["b", "c"]


def test_a_tool_that_is_gone_meanwhile_is_not_asked_about():
    run = answer(parked(), "b")
    run.env = Simulation((FREE, ASK1), settings=PARK).env
    run.tools = (FREE, ASK1)
    assert run.resume([says("done")]).kind == "completed"
    assert "There is no tool named ask2" in contents(run)[2]


def test_a_yes_in_advance_that_is_given_only_now_answers_what_waits():
    run = parked()
    run.env = Simulation(TOOLS, settings=PARK | {"yes_to": frozenset({"ask1", "ask2"})}).env
    assert run.resume([says("done")]).kind == "completed"
    assert (run.questions, names(run)) == ([], ["free", "ask1", "ask2"])


def test_an_answer_for_the_session_answers_the_other_calls_of_its_tool():
    calls = (("b", "ask1", {"p": 1}), ("c", "ask1", {"p": 2}))
    run = answer(parked(*calls), "b", session=True)
    assert run.resume([says("done")]).kind == "completed"
    assert names(run) == ["ask1", "ask1"]


def test_a_call_that_is_declined_does_not_run_though_its_tool_is_allowed_for_the_session():
    calls = (("b", "ask1", {"p": 1}), ("c", "ask1", {"p": 2}))
    run = answer(answer(parked(*calls), "b", session=True), "c", False)
    run.resume([says("done")])
    assert run.ran == [("ask1", {"p": 1})]
