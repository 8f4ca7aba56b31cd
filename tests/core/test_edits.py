# mypy: disable-error-code="union-attr"
"""Arguments that a person changes: validated, decided, shown again, and only then run."""

import pytest

from brida.core.decisions import MOST_EDITS
from brida.core.events import Answered, Asked, Decided, Edited, Received, Said, Sent
from brida.core.policy import Policy
from brida.core.run import next_step
from brida.core.state import State
from support.loop import FakeTool, Simulation, says, started

WRITE = FakeTool("write", impact="high", required=("p",))


def answers(*said):
    """A person who says one after the other."""
    script = iter(said)
    return lambda question: next(script)


def edited(run, *said, calls=(("c0", "write", {"p": "wrong"}),)):
    run.answer = answers(*said)
    assert run.run([says(*calls), says("done")]).kind == "completed"
    return run


def decisions(run):
    return [(event.verdict, event.rule) for event in run.events if isinstance(event, Decided)]


def test_what_a_person_wrote_is_what_runs():
    run = edited(Simulation((WRITE,)), {"p": "right"}, True)
    assert run.ran == [("write", {"p": "right"})]


def test_changed_arguments_are_shown_again_beside_what_the_model_asked_for():
    run = edited(Simulation((WRITE,)), {"p": "right"}, True)
    first, second = run.questions
    assert (first.arguments, first.asked) == ({"p": "wrong"}, None)
    assert (second.arguments, second.asked, second.problems) == ({"p": "right"}, {"p": "wrong"}, ())
    assert first.digest != second.digest


def test_the_history_keeps_what_the_model_asked_for():
    run = edited(Simulation((WRITE,)), {"p": "right"}, True)
    (call,) = [b for m in run.closed for b in m["content"] if b["type"] == "tool_use"]
    assert call["input"] == {"p": "wrong"}


def test_changed_arguments_that_do_not_fit_the_schema_are_put_again_with_what_is_wrong():
    run = edited(Simulation((WRITE,)), {"q": 1}, {"p": "right"}, True)
    assert run.questions[1].problems == ("p: missing",)
    assert run.ran == [("write", {"p": "right"})]


def test_changed_arguments_that_do_not_fit_the_schema_never_run():
    run = edited(Simulation((WRITE,)), {"q": 1}, True)
    assert run.ran == []
    assert decisions(run) == [("invalid", "schema")]


def test_changed_arguments_that_do_not_fit_can_be_declined():
    run = edited(Simulation((WRITE,)), {"q": 1}, (False, False, "leave it"))
    assert decisions(run) == [("declined", "answered by test")]
    assert "leave it" in run.results[0]["content"]


def test_changed_arguments_for_which_the_tool_itself_asks_are_shown_with_its_reason():
    careful = FakeTool(
        "write", impact="high", raises_tier=lambda a: "a key file" if a["p"] == ".env" else None
    )
    run = edited(Simulation((careful,)), {"p": ".env"}, True)
    assert [(q.rule, q.raised) for q in run.questions] == [("default = ask", False), ("a key file", True)]


def test_nothing_said_in_advance_answers_for_changed_arguments():
    calls = (("c0", "write", {"p": "a"}), ("c1", "write", {"p": "b"}))
    run = edited(Simulation((WRITE,)), {"p": "c"}, (True, True, ""), calls=calls)
    assert [q.arguments["p"] for q in run.questions] == ["a", "c"]
    assert decisions(run) == [("allow", "answered by test"), ("allow", "allowed this session")]

    calls = (("c0", "write", {"p": "a"}), ("c1", "write", {"p": "b"}))
    run = edited(Simulation((WRITE,)), (True, True, ""), calls=calls)
    assert len(run.questions) == 1, "without a change the other call is covered"


def test_an_edit_before_the_answer_for_the_session_keeps_its_own_question():
    calls = (("c0", "write", {"p": "a"}), ("c1", "write", {"p": "b"}))
    order = iter([{"p": "c"}, (True, True, "")])
    run = Simulation((WRITE,), answer=lambda question: next(order))
    run.run([says(*calls), says("done")])
    assert run.ran == [("write", {"p": "c"}), ("write", {"p": "b"})]


def test_a_call_that_is_changed_again_and_again_counts_as_declined():
    numbers = iter(range(1000))
    run = Simulation((WRITE,), answer=lambda question: {"p": next(numbers)})
    assert run.run([says(("c0", "write", {"p": "a"})), says("done")]).kind == "completed"
    assert len(run.questions) == MOST_EDITS
    assert decisions(run) == [("declined", "changed too often")]
    assert "changed too often" in run.results[0]["content"]


def test_the_same_call_again_is_walking_in_place_whatever_a_person_made_of_it():
    run = Simulation((WRITE,), answer=lambda q: True if q.asked else {"p": "right"})
    stop = run.run([says(("c0", "write", {"p": "wrong"})), says(("c1", "write", {"p": "wrong"}))])
    assert stop.kind == "no_progress"


def put_to_a_person():
    state = State(started((WRITE,)))
    question = None
    run = Simulation((WRITE,), answer=lambda q: True)
    run.run([says(("c0", "write", {"p": "a"})), says("done")])
    for event in run.events[1:]:
        if isinstance(event, Answered):
            break
        state.apply(event)
        question = event.questions[0] if isinstance(event, Asked) else question
    return state, question


@pytest.mark.parametrize("kind", [Edited, Answered])
def test_an_answer_to_what_is_no_longer_shown_is_refused(kind):
    state, question = put_to_a_person()
    state.apply(Edited(2.0, "c0", question.digest, {"p": "b"}, "x"))
    late = (
        Edited(3.0, "c0", question.digest, {"p": "c"}, "x")
        if kind is Edited
        else Answered(3.0, "c0", question.digest, True, "x")
    )
    with pytest.raises(ValueError, match="was given for other arguments"):
        state.apply(late)


def test_a_person_who_edits_is_waited_for_without_the_clock():
    state, question = put_to_a_person()
    before = state.elapsed
    state.apply(Edited(state.at + 500, "c0", question.digest, {"p": "b"}, "x"))
    assert state.elapsed == before


def with_one_edit(*calls):
    """A run in which a person has just changed the first call, and nothing has been asked again."""
    run = Simulation((WRITE,), answer=answers({"p": "b"}))
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, says(*calls)))
    run.learn(*next_step(run.state, run.env).events)
    step = next_step(run.state, run.env)
    run.learn(*step.events)
    run.ask(step.questions[0])
    return run, step.questions


@pytest.mark.parametrize(
    "said", [{"policy": Policy({"write": "allow"})}, {"yes_to": frozenset({"write"})}], ids=["rule", "yes"]
)
def test_an_edit_is_shown_whatever_is_allowed_meanwhile(said):
    run, _ = with_one_edit(("c0", "write", {"p": "a"}))
    again = next_step(run.state, Simulation((WRITE,), settings=said).env)
    assert [question.arguments for question in again.questions] == [{"p": "b"}]


def test_an_answer_for_the_session_to_another_call_does_not_cover_an_edit():
    run, (_, other) = with_one_edit(("c0", "write", {"p": "a"}), ("c1", "write", {"p": "z"}))
    run.learn(Answered(0, other.call_id, other.digest, True, "x", session=True))
    run.learn(*next_step(run.state, run.env).events)
    again = next_step(run.state, run.env)
    assert [question.arguments for question in again.questions] == [{"p": "b"}]
