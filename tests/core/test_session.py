"""Going on: a session is a run and its continuations."""

import pytest

from brida.core.events import Resumed, Said, StopRequested
from brida.core.limits import Limits
from brida.core.stops import Stop
from support.loop import FakeTool, Simulation, says

READ = FakeTool("read")
WRITE = FakeTool("write", impact="high")
SPENT = {"input_tokens": 100, "output_tokens": 100}


def look(n):
    return says(f"looking {n}", (f"c{n}", "read", {"p": n}), usage=SPENT)


def test_the_history_goes_on_where_it_stood():
    run = Simulation((READ,))
    run.run([says("noon")], "what time is it?")
    assert run.go_on([says("one")], "and in an hour?").kind == "completed"
    assert [m["role"] for m in run.messages] == ["user", "assistant", "user"]
    assert run.state.text == "one"


def test_what_is_counted_for_one_text_begins_again():
    run = Simulation((READ,), limits=Limits(max_turns=2, max_requests=3, max_calls=2))
    assert run.run([look(0), look(1), says("so")]).kind == "completed"
    assert run.go_on([look(2), look(3), says("so")]).kind == "completed"
    assert (run.state.turns, run.state.requests, run.state.calls_seen) == (2, 3, 2)


def test_a_run_that_was_stopped_by_its_turns_goes_on_with_new_ones():
    run = Simulation((READ,), limits=Limits(max_turns=1))
    assert run.run([look(0), look(1)]).kind == "max_turns"
    assert [call.id for call in run.state.not_run] == ["c1"]
    assert run.go_on([look(2), says("so")]).kind == "completed"
    assert run.state.not_run == ()


def test_the_token_budget_is_that_of_the_session():
    run = Simulation((READ,), limits=Limits(max_tokens_total=1_500))
    assert run.run([look(0), says("so", usage=SPENT)]).kind == "completed"
    large = {"input_tokens": 900, "output_tokens": 100}
    stop = run.go_on([says(("c1", "read", {}), usage=large)])
    assert (stop.kind, stop.detail["used"]) == ("token_budget", 1_400)


def test_a_new_budget_begins_at_nothing_and_the_usage_stays_whole():
    run = Simulation((READ,), limits=Limits(max_tokens_total=1_500))
    run.run([look(0), says("so", usage=SPENT)])
    assert run.go_on([look(1), says("so", usage=SPENT)], new_budget=True).kind == "completed"
    assert (run.state.tokens_used, run.state.usage.total) == (400, 800)


def test_time_counts_afresh_and_not_between():
    run = Simulation((READ,), limits=Limits(deadline=5), seconds=1)
    assert run.run([says("so")]).kind == "completed"
    run.now += 10_000
    assert run.go_on([says("so")]).kind == "completed"
    assert run.state.elapsed < 5


def test_an_answer_for_the_session_holds_in_its_continuations():
    run = Simulation((WRITE,), answer=lambda q: (True, True, ""))
    run.run([says(("c0", "write", {"p": 1})), says("done")])
    run.go_on([says(("c1", "write", {"p": 2})), says("done")])
    assert len(run.questions) == 1


def test_what_became_of_calls_is_told_for_the_last_text_alone():
    run = Simulation((WRITE,), answer=lambda q: False)
    run.run([says(("c0", "write", {"p": 1}), ("c1", "gone", {})), says("done")])
    assert (len(run.state.declined), len(run.state.failed_calls)) == (1, 1)
    run.go_on([says("done")])
    assert (run.state.declined, run.state.failed_calls) == ((), ())


def test_the_same_call_after_a_new_text_is_no_walking_in_place():
    run = Simulation((READ,))
    run.run([says(("c0", "read", {})), says("so")])
    assert run.go_on([says(("c1", "read", {})), says("so")]).kind == "completed"


def test_a_paused_turn_is_left_out_where_a_text_goes_on():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    run = Simulation((READ,), limits=Limits(max_pauses=0))
    assert run.run([says("wait", search, stop="pause_turn")]).kind == "max_pauses"
    assert run.go_on([says("so")], "never mind").kind == "completed"
    assert [b["text"] for m in run.messages for b in m["content"]] == ["task", "never mind"]


def test_without_a_text_all_counts_go_on():
    run = Simulation((READ,), limits=Limits(max_turns=1))
    run.run([look(0), look(1)])
    before = run.state.turns, run.state.requests, run.state.text
    run.state.apply(Resumed(run.now + 5))
    assert (run.state.turns, run.state.requests, run.state.text) == before
    assert run.state.stop is None


def test_after_a_stop_nothing_but_going_on_follows():
    run = Simulation()
    run.run([says("so")])
    with pytest.raises(ValueError, match="Said cannot follow here"):
        run.state.apply(Said(9.0, "more"))


def test_a_wish_to_stop_that_came_too_late_does_not_stop_what_follows():
    run = Simulation()
    run.run([says("so")])
    run.learn(StopRequested(0, Stop("interrupted")))
    assert run.go_on([says("more")]).kind == "completed"
