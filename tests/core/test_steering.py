# mypy: disable-error-code="union-attr"
"""What a person says while the run works: heard after the results of the turn, and never lost."""

import pytest

from brida.core.events import (
    ANSWER_TOOL,
    CallFinished,
    CallStarted,
    Fault,
    Received,
    Said,
    Sent,
    Stopped,
    StopRequested,
)
from brida.core.limits import Limits
from brida.core.run import next_step
from brida.core.stops import Stop
from brida.core.turn import Phase
from support.loop import FakeTool, Simulation, says

READ = FakeTool("read")
EMPTY = says()
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def steering(run, text="and be quick"):
    run.learn(Said(0, text, steering=True))


def steered_in_a_call(*more_tools, **settings):
    """A run in which a person says something while the first call works."""

    def work(arguments):
        if len(run.ran) == 1:
            steering(run)
        return "worked"

    run = Simulation((FakeTool("work", work), *more_tools), **settings)
    return run


def run_in_flight(run, replies, *, at=0):
    """A run in which a person says something while request number ``at`` is under way."""
    script = iter(replies)

    def model(body):
        if len(run.bodies) == at + 1:
            steering(run)
        return next(script)

    return run.run(model)


def texts_of(message):
    return [block["text"] for block in message["content"] if block["type"] == "text"]


WORK = says(("c0", "work", {}))


# -- where it is heard


def test_a_text_follows_the_results_of_the_turn_in_the_same_message():
    run = steered_in_a_call()
    assert run.run([WORK, says("done")]).kind == "completed"
    assert [block["type"] for block in run.messages[-1]["content"]] == ["tool_result", "text"]
    assert texts_of(run.messages[-1]) == ["and be quick"]


def test_a_text_before_the_last_result_follows_it():
    run = steered_in_a_call(FakeTool("read", impact="high"))
    run.run([says(("c0", "work", {}), ("c1", "read", {})), says("done")])
    assert [b["type"] for b in run.messages[-1]["content"]] == ["tool_result", "tool_result", "text"]


def test_several_texts_are_heard_in_their_order():
    run = Simulation((READ,))
    run.learn(Said(0, "task"))
    for text in ("one", "two"):
        steering(run, text)
    run._carry_on(lambda body: says("so"))
    assert texts_of(run.messages[0]) == ["task", "one", "two"]


def test_a_text_while_a_question_is_open_waits_for_the_results():
    run = Simulation((FakeTool("write", impact="high"),), answer=lambda q: steering(run) or True)
    run.run([says(("c0", "write", {})), says("done")])
    assert [block["type"] for block in run.messages[-1]["content"]] == ["tool_result", "text"]


def test_a_text_while_a_request_is_under_way_follows_the_results_of_its_calls():
    run = Simulation((READ,))
    assert run_in_flight(run, [says(("c0", "read", {})), says("done")]).kind == "completed"
    assert [block["type"] for block in run.messages[-1]["content"]] == ["tool_result", "text"]


def test_a_text_between_two_attempts_joins_the_next():
    run = Simulation()
    busy = Fault("overloaded", "busy", again=True)
    assert run_in_flight(run, [busy, says("so")]).kind == "completed"
    assert [texts_of(message) for message in run.messages] == [["task"], ["and be quick"]]


def test_a_text_is_held_back_one_turn_where_a_server_tool_is_unresolved():
    run = Simulation((READ,))
    replies = [says(SEARCH, ("c0", "read", {})), says(FOUND, ("c1", "read", {"p": 1})), says("done")]
    assert run_in_flight(run, replies).kind == "completed"
    kinds = [[b["type"] for b in m["content"]] for m in run.messages if m["role"] == "user"]
    assert kinds == [["text"], ["tool_result"], ["tool_result", "text"]]


def test_a_text_that_was_held_back_is_heard_before_the_run_completes():
    run = Simulation((READ,))
    replies = [says(SEARCH, ("c0", "read", {})), says(FOUND, "done"), says("done, quickly")]
    assert run_in_flight(run, replies).kind == "completed"
    assert (run.state.text, texts_of(run.messages[-1])) == ("done, quickly", ["and be quick"])


def test_a_text_while_a_turn_is_paused_waits_for_its_end():
    run = Simulation()
    replies = [says("wait", SEARCH, stop="pause_turn"), says(FOUND, "so"), says("so, quickly")]
    assert run_in_flight(run, replies).kind == "completed"
    assert [m["role"] for m in run.messages] == ["user", "assistant", "assistant", "user"]
    assert run.bodies[1]["messages"][-1]["role"] == "assistant"


# -- nothing is lost


def test_a_run_that_would_complete_goes_on():
    run = Simulation()
    assert run_in_flight(run, [says("so"), says("so, quickly")]).kind == "completed"
    assert (run.state.requests, run.state.text) == (2, "so, quickly")


def test_a_run_that_was_about_to_complete_goes_on():
    run = Simulation()
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, says("so")))
    assert run.state.phase is Phase.OVER
    run.spent = run.state.usage
    steering(run)
    assert run._carry_on(lambda body: says("so, quickly")).kind == "completed"
    assert texts_of(run.messages[-1]) == ["and be quick"]


def test_a_run_whose_empty_reply_would_have_failed_it_goes_on():
    run = Simulation()
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, EMPTY))
    run.spent = run.state.usage
    steering(run)
    assert run._carry_on(lambda body: says("so")).kind == "completed"


@pytest.mark.parametrize("stop", ["refusal", "model_context_window_exceeded", "brand_new"])
def test_no_text_makes_a_success_of_another_end(stop):
    run = Simulation()
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, says("so", stop=stop)))
    run.spent = run.state.usage
    steering(run)
    assert run._carry_on(lambda body: says("never")).kind not in ("completed", "empty_reply")


def test_a_text_that_comes_before_an_answer_is_checked_is_heard_first():
    run = Simulation(settings={"check_answer": lambda text, say: ()}, start={"answer": "text"})
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, says("so")))
    assert run.state.phase is Phase.CHECK
    run.spent = run.state.usage
    steering(run)
    assert run._carry_on(lambda body: says("so, quickly")).kind == "completed"
    assert run.state.text == "so, quickly"


def test_an_answer_given_before_a_text_was_heard_must_be_given_again():
    def give(arguments):
        if len(run.ran) == 1:
            steering(run)
        return "taken"

    run = Simulation((FakeTool(ANSWER_TOOL, give),), start={"answer": "tool"})
    replies = [says((f"c{n}", ANSWER_TOOL, {"n": n})) for n in range(2)]
    assert run.run(replies).kind == "completed"
    assert run.state.answer == {"n": 1}
    assert [block["type"] for block in run.messages[-1]["content"]] == ["tool_result", "text"]


def test_a_text_that_comes_as_an_answer_completes_the_run_is_heard_first():
    run = Simulation((FakeTool(ANSWER_TOOL),), start={"answer": "tool"})
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, says(("c0", ANSWER_TOOL, {"n": 0}))))
    run.spent = run.state.usage
    while run.state.phase is not Phase.OVER:
        step = next_step(run.state, run.env)
        run.learn(*step.events)
        run.do(step)
    steering(run)
    assert run.state.answer is None
    assert run._carry_on(lambda body: says(("c1", ANSWER_TOOL, {"n": 1}))).kind == "completed"
    assert run.state.answer == {"n": 1}


def test_a_text_that_the_run_ended_before_hearing_is_in_its_messages():
    run = steered_in_a_call(limits=Limits(max_requests=1))
    run.run([WORK])
    run = steered_in_a_call()
    run.interrupt_after = 9
    assert run.run([WORK]).kind == "interrupted"
    assert texts_of(run.closed[-1]) == ["and be quick"]
    assert run.resume([says("done")]).kind == "completed"
    assert texts_of(run.messages[-1]) == ["and be quick"]


def test_a_text_during_the_closing_reply_is_kept_for_whoever_goes_on():
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=50))
    assert run_in_flight(run, [says(("c0", "read", {})), says("so far")], at=1).kind == "max_turns"
    assert [(m["role"], texts_of(m)) for m in run.closed[-2:]] == [
        ("assistant", ["so far"]),
        ("user", ["and be quick"]),
    ]
    assert run.resume([says("so")], "go on").kind == "completed"
    assert texts_of(run.messages[-1]) == ["and be quick", "go on"]


def test_a_text_before_the_closing_reply_goes_with_it():
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=50))
    assert run_in_flight(run, [says(("c0", "read", {})), says("so far")]).kind == "max_turns"
    assert texts_of(run.messages[-1])[0] == "and be quick"


def test_a_text_that_goes_on_is_held_within_the_limits():
    run = Simulation(limits=Limits(max_requests=1))
    assert run_in_flight(run, [says("so")]).kind == "max_requests"
    assert texts_of(run.closed[-1]) == ["and be quick"]


def test_a_stop_that_is_wanted_comes_before_a_text():
    run = Simulation()
    run.learn(Said(0, "task"), Sent(0, 1, 100, ""), Received(0, says("so")))
    run.spent = run.state.usage
    steering(run)
    run.learn(StopRequested(0, Stop("interrupted")))
    assert run._carry_on(lambda body: says("never")).kind == "interrupted"


def test_after_the_run_has_stopped_nothing_can_be_said_to_it():
    run = Simulation()
    run.run([says("so")])
    with pytest.raises(ValueError, match="Said cannot follow here"):
        run.state.apply(Said(9, "x", steering=True))


# -- an empty reply


def test_an_empty_reply_right_after_a_text_is_answered_once_with_the_text_again():
    run = steered_in_a_call()
    assert run.run([WORK, EMPTY, says("quickly, then")]).kind == "completed"
    assert texts_of(run.messages[-1]) == ["and be quick"]
    assert len(run.bodies) == 3


def test_a_second_empty_reply_ends_the_run():
    run = steered_in_a_call()
    assert run.run([WORK, EMPTY, EMPTY]).kind == "empty_reply"


def test_an_empty_reply_to_a_first_text_is_a_failure():
    run = Simulation()
    assert run.run([EMPTY]).kind == "empty_reply"


def test_an_empty_reply_some_turns_after_a_text_is_a_failure():
    run = steered_in_a_call(READ)
    assert run.run([WORK, says(("c1", "read", {})), EMPTY]).kind == "empty_reply"
    assert len(run.bodies) == 3


def test_a_text_said_while_the_calls_were_made_is_said_again_too():
    run = Simulation((READ,))
    replies = [says(("c0", "read", {})), EMPTY, says("quickly, then")]
    assert run_in_flight(run, replies).kind == "completed"
    assert texts_of(run.messages[-1]) == ["and be quick"]
    assert sum(texts_of(m) == ["and be quick"] for m in run.messages if m["role"] == "user") == 2


def test_a_text_that_was_not_kept_with_a_lost_reply_is_still_right_before_it():
    run = steered_in_a_call()
    malformed = says("I call work()", stop="tool_use")
    assert run.run([WORK, malformed, EMPTY, says("so")]).kind == "completed"


def test_what_another_text_says_is_not_said_again():
    run = steered_in_a_call()
    run.run([WORK, says("done")])
    assert run.go_on([EMPTY]).kind == "empty_reply"


def test_a_crash_does_not_forget_that_a_text_was_just_said():
    run = steered_in_a_call()
    run.run([WORK, says("done")])
    again = run.in_a_new_process(run.until(Sent, number=2))
    assert again.resume([EMPTY, says("quickly, then")]).kind == "completed"
    assert texts_of(again.messages[-1]) == ["and be quick"]


# -- what it changes


def test_a_text_makes_the_same_call_no_walking_in_place():
    run = steered_in_a_call()
    assert run.run([WORK, says(("c1", "work", {})), says("done")]).kind == "completed"


def test_the_same_call_twice_after_a_text_is_walking_in_place():
    run = steered_in_a_call()
    assert run.run([says((f"c{n}", "work", {})) for n in range(3)]).kind == "no_progress"
    assert len(run.ran) == 2


def test_a_text_that_is_held_back_forgets_no_turn_before_it_is_heard():
    run = Simulation((READ,))
    replies = [says(SEARCH, ("c0", "read", {})), says(FOUND, ("c1", "read", {}))]
    assert run_in_flight(run, replies).kind == "no_progress"


def test_without_a_text_the_same_call_is_walking_in_place():
    run = Simulation((FakeTool("work"),))
    assert run.run([WORK, says(("c1", "work", {}))]).kind == "no_progress"


def test_a_text_begins_no_count_again():
    run = steered_in_a_call(READ, limits=Limits(max_turns=1))
    assert run.run([WORK, says(("c1", "read", {}))]).kind == "max_turns"


def test_a_text_while_a_call_works_does_not_touch_the_call():
    run = steered_in_a_call()
    run.run([WORK, says("done")])
    kinds = [
        type(event) for event in run.events if isinstance(event, CallStarted | Said | CallFinished | Stopped)
    ]
    assert kinds == [Said, CallStarted, Said, CallFinished, Stopped]
