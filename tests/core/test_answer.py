# mypy: disable-error-code="var-annotated"
"""Structured answers: a run that must give one completes with it or not at all."""

import pytest

from brida.core.events import ANSWER_TOOL, Checked
from brida.core.limits import Limits
from brida.core.policy import Policy
from brida.core.stops import Stop
from support.loop import FakeTool, Simulation, says

GIVE = FakeTool(ANSWER_TOOL, required=("n",))
READ = FakeTool("read")


def by_tool(**more):
    return Simulation((READ, GIVE), start={"answer": "tool"}, **more)


def by_text(check=lambda text, say: () if text == "right" else ("n: missing",), **more):
    return Simulation((READ,), start={"answer": "text"}, settings={"check_answer": check}, **more)


def test_a_valid_call_completes_the_run_without_another_request():
    run = by_tool()
    assert run.run([says(("c0", ANSWER_TOOL, {"n": 1}))]).kind == "completed"
    assert run.state.answer == {"n": 1}
    assert run.results[0]["content"] == "done"


def test_the_other_calls_of_its_turn_still_run():
    run = by_tool()
    calls = (("c0", ANSWER_TOOL, {"n": 1}), ("c1", "read", {}))
    assert run.run([says(*calls)]).kind == "completed"
    assert [name for name, _ in run.ran] == [ANSWER_TOOL, "read"]


def test_of_two_answers_the_first_counts():
    run = by_tool()
    run.run([says(("c0", ANSWER_TOOL, {"n": 1}), ("c1", ANSWER_TOOL, {"n": 2}))])
    assert run.state.answer == {"n": 1}


def test_a_wrong_call_is_answered_with_what_is_wrong():
    run = by_tool()
    replies = [says(("c0", ANSWER_TOOL, {})), says(("c1", ANSWER_TOOL, {"n": 1}))]
    assert run.run(replies).kind == "completed"
    assert "n: missing" in run.results[0]["content"]


def test_wrong_calls_are_bounded_by_the_turns():
    run = by_tool(limits=Limits(max_turns=3))
    wrong = (says((f"c{n}", ANSWER_TOOL, {"x": n})) for n in range(10))
    assert run.run(wrong).kind == "max_turns"
    assert run.state.answer is None


def test_an_end_without_the_answer_is_answered_once():
    run = by_tool()
    replies = [says("it is one"), says(("c0", ANSWER_TOOL, {"n": 1}))]
    assert run.run(replies).kind == "completed"
    assert run.messages[-1] == {
        "role": "user",
        "content": [{"type": "text", "text": "The answer is still missing. Give it by calling give_answer."}],
    }


def test_a_second_end_without_the_answer_is_a_malformed_reply():
    run = by_tool()
    stop = run.run([says("it is one"), says("one, I said")])
    assert (stop.kind, stop.detail["stop_reason"]) == ("malformed_reply", "end_turn")
    assert run.state.text == "one, I said"


def test_the_tool_passes_the_gates_as_any_other():
    run = by_tool()
    run.env = Simulation(
        (READ, GIVE), settings={"policy": Policy({ANSWER_TOOL: "deny"})}, start={"answer": "tool"}
    ).env
    assert run.run([says(("c0", ANSWER_TOOL, {"n": 1})), says("so"), says("so")]).kind == "malformed_reply"
    assert run.state.answer is None


def test_a_tool_of_that_name_in_a_run_that_needs_no_answer_is_like_any_other():
    run = Simulation((GIVE,))
    assert run.run([says(("c0", ANSWER_TOOL, {"n": 1})), says("so")]).kind == "completed"
    assert (len(run.bodies), run.state.answer) == (2, None)


def test_a_text_that_fits_completes_the_run():
    run = by_text()
    assert run.run([says("right")]).kind == "completed"


def test_a_text_that_does_not_fit_is_answered_once_with_what_is_wrong():
    run = by_text()
    assert run.run([says("wrong"), says("right")]).kind == "completed"
    assert "n: missing" in run.messages[-1]["content"][0]["text"]
    again = by_text()
    stop = again.run([says("wrong"), says("wrong again")])
    assert stop.kind == "malformed_reply"
    assert "n: missing" in stop.detail["error"]


def test_each_text_of_a_person_has_its_own_answer():
    run = by_text()
    run.run([says("wrong"), says("right")])
    assert run.go_on([says("wrong"), says("right")]).kind == "completed"
    tool = by_tool()
    tool.run([says(("c0", ANSWER_TOOL, {"n": 1}))])
    assert tool.go_on([says("so"), says(("c1", ANSWER_TOOL, {"n": 2}))]).kind == "completed"
    assert tool.state.answer == {"n": 2}


def test_without_a_check_any_text_will_do():
    assert by_text(check=None).run([says("anything")]).kind == "completed"


def test_a_check_that_raises_is_a_configuration_error():
    def broken(text, say):
        raise RuntimeError("no")

    stop = by_text(check=broken).run([says("anything")])
    assert stop == Stop("configuration_error", {"where": "output", "error": "RuntimeError: no"})


@pytest.mark.parametrize("kind", ["tool", "text"])
def test_what_was_found_is_in_the_events(kind):
    run = by_tool() if kind == "tool" else by_text()
    run.run([says("wrong"), says("wrong")])
    assert len([event for event in run.events if isinstance(event, Checked)]) == 2


def test_a_wish_to_stop_beats_an_answer_that_is_still_missing():
    run = by_tool(interrupt_after=5)
    assert run.run([says("it is one"), says("so")]).kind in ("interrupted", "malformed_reply")


def test_an_answer_after_a_pause_that_had_text_is_the_last_replys_own_text():
    checked = []

    def check(text, say):
        checked.append(text)
        return () if text == "{}" else ("wrong",)

    run = Simulation((), start={"answer": "text"}, settings={"check_answer": check})
    stop = run.run([says("searching..", stop="pause_turn"), says("{}")])
    assert stop.kind == "completed"
    assert checked[0] == "{}"
    assert run.state.text == "searching..{}"


def test_of_two_answers_the_first_that_was_asked_for_counts_though_it_is_empty():
    give = FakeTool(ANSWER_TOOL)
    run = Simulation((give,), start={"answer": "tool"})
    run.run([says(("a", ANSWER_TOOL, {}), ("b", ANSWER_TOOL, {"n": 5}))])
    assert run.state.answer == {}
