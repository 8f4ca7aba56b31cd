# mypy: disable-error-code="attr-defined,method-assign,misc"
"""The closing reply: what was found, said once, when the turns or the tokens are used up."""

import pytest

from brida.core.events import Closing, Fault, Sent
from brida.core.limits import Limits
from brida.core.stops import Stop
from support.loop import FakeTool, Simulation, for_ever, says

READ = FakeTool("read")
SPENT = {"input_tokens": 100, "output_tokens": 100}


def working(n):
    return says("working", (f"c{n}", "read", {"p": n}), usage=SPENT)


def stopped(*replies, tools=(READ,), limits=None, **settings):
    run = Simulation(tools, limits=limits or Limits(max_turns=1, closing_reply=200), **settings)
    run.outcome = run.run([working(0), working(1), *replies])
    return run


def test_after_the_last_turn_the_model_says_once_what_it_found():
    run = stopped(says("I found one"))
    assert run.outcome == Stop("max_turns", {"limit": 1, "used": 1})
    assert run.state.text == "I found one"
    assert len(run.bodies) == 3


def test_it_has_the_same_tools_and_may_use_none_of_them():
    run = stopped(says("I found one"))
    *_, before, last = run.bodies
    assert last["tool_choice"] == {"type": "none"}
    assert last["tools"] == before["tools"]
    assert last["max_tokens"] == 200
    assert "tool_choice" not in before
    assert last["messages"][: len(before["messages"])] == before["messages"]
    result, words = last["messages"][-1]["content"]
    assert (result["is_error"], result["content"]) == (True, "did not run: turn limit")
    assert "This run ends here: turn limit." in words["text"]


def test_a_choice_of_tools_of_ones_own_gives_way():
    run = stopped(says("so"), start={"extra": {"tool_choice": {"type": "auto"}, "service_tier": "auto"}})
    assert run.bodies[0]["tool_choice"] == {"type": "auto"}
    assert (run.bodies[-1]["tool_choice"], run.bodies[-1]["service_tier"]) == ({"type": "none"}, "auto")


def test_without_tools_there_is_no_choice_of_tools():
    run = Simulation(limits=Limits(max_tokens_total=8_000, closing_reply=200))
    cut = says("half", stop="max_tokens", usage={"input_tokens": 1_500, "output_tokens": 100})
    assert run.run([cut, cut, says("so far")]).kind == "token_budget"
    assert "tool_choice" not in run.bodies[-1]


def test_it_counts_in_the_usage_and_not_among_the_requests():
    run = stopped(says("so", usage=SPENT))
    assert (run.state.requests, run.state.closing_requests, run.state.turns) == (2, 1, 1)
    assert run.state.usage.total == 600


def test_what_it_may_come_to_is_held_back_at_both_gates():
    limits = Limits(max_tokens_total=12_000, closing_reply=300)
    run = Simulation((READ,), limits=limits)
    large = {"input_tokens": 1_500, "output_tokens": 100}
    replies = [says("working", (f"c{n}", "read", {"p": n}), usage=large) for n in range(9)]
    stop = run.run([*replies[:4], says("so")])
    assert (stop.kind, stop.detail["held_back"], run.state.closing_requests) == ("token_budget", 300, 1)
    assert run.state.ledger.tokens.taken <= 12_000
    without = Simulation((READ,), limits=Limits(max_tokens_total=12_000))
    without.run([*replies, says("so")])
    assert len(without.ran) > len(run.ran)


def test_it_is_shorter_where_no_more_fits_and_left_out_where_too_little_does():
    sizes = set()
    for used in range(1_200, 2_400, 20):
        asks = says("working", ("c", "read", {}), usage={"input_tokens": used, "output_tokens": 100})
        limits = Limits(max_turns=0, max_tokens_total=5_200, closing_reply=200)
        run = Simulation((READ,), limits=limits)
        assert run.run(for_ever(lambda n, asks=asks: asks if n == 0 else says("so"))).kind in (
            "max_turns",
            "token_budget",
        )
        assert run.state.ledger.tokens.taken <= 5_200
        sizes.add(run.bodies[1]["max_tokens"] if len(run.bodies) > 1 else 0)
    assert min(sizes - {0}) in range(100, 120)
    assert {0, 200} < sizes


@pytest.mark.parametrize(
    "last",
    [
        says("found", ("x", "read", {})),
        says("found", ("x", "read", {}), stop="end_turn"),
        says("found", stop="max_tokens"),
        says("found", stop="refusal"),
        says("found", stop="brand_new"),
        says("found", stop="pause_turn"),
    ],
    ids=lambda reply: reply.stop_reason,
)
def test_whatever_it_is_its_text_is_given_nothing_of_it_runs_and_it_is_not_kept(last):
    run = stopped(last)
    assert (run.outcome.kind, run.state.text) == ("max_turns", "found")
    assert [name for name, _ in run.ran] == ["read"], "the one turn"
    assert run.closed[-1]["role"] == "user"


@pytest.mark.parametrize("stop", ["end_turn", "stop_sequence"])
def test_a_whole_one_is_kept_in_the_history(stop):
    run = stopped(says("found", stop=stop))
    assert run.closed[-1] == {"role": "assistant", "content": [{"type": "text", "text": "found"}]}


def test_an_empty_one_leaves_the_text_that_was_there():
    assert stopped(says()).state.text == "working"


def test_it_is_tried_once():
    run = stopped(Fault("overloaded", "busy", again=True, usage={"input_tokens": 5}))
    assert run.outcome.kind == "max_turns"
    assert (len(run.bodies), run.state.closing_requests, run.state.text) == (3, 1, "working")


def test_the_calls_that_did_not_run_are_pending_once():
    assert [call.id for call in stopped(says("so")).state.not_run] == ["c1"]


def test_it_is_asked_for_only_where_wanted():
    run = Simulation((READ,), limits=Limits(max_turns=1))
    run.run([working(0), working(1)])
    assert len(run.bodies) == 2


def test_it_never_follows_a_limit_of_requests():
    limits = Limits(max_turns=1, max_requests=2, closing_reply=100)
    assert len(stopped(limits=limits).bodies) == 2
    limits = Limits(max_requests=1, closing_reply=100)
    run = Simulation((READ,), limits=limits)
    assert run.run([working(0)]).kind == "max_requests"
    assert len(run.bodies) == 1


def test_it_never_follows_a_deadline():
    run = Simulation((READ,), limits=Limits(deadline=3, closing_reply=100), seconds=1)
    assert run.run(for_ever(working)).kind == "deadline"
    assert run.state.closing_requests == 0


def test_it_is_not_sent_where_time_runs_out_just_then():
    run = Simulation((READ,), limits=Limits(max_turns=0, deadline=100, closing_reply=100))
    real = run.learn

    def learn(*events):
        real(*events)
        if any(isinstance(event, Closing) for event in events):
            run.now += 200
            run.state.elapsed += 200

    run.learn = learn
    assert run.run([working(0)]).kind == "max_turns"
    assert run.state.closing_requests == 0


def test_a_person_who_wants_out_gets_no_closing_reply():
    whole = stopped(says("so"))
    at = next(n for n, event in enumerate(whole.events) if isinstance(event, Closing))
    before = stopped(interrupt_after=at)
    assert (before.outcome.kind, before.state.closing_requests) == ("interrupted", 0)
    after = stopped(interrupt_after=at + 1)
    assert (after.outcome.kind, after.state.closing_requests) == ("max_turns", 0), (
        "the stop stays what it was"
    )


def test_a_failed_attempt_before_it_does_not_count_against_it():
    limits = Limits(max_tokens_total=8_000, closing_reply=300)
    lost = Fault("cut", "cut", again=True, usage={"input_tokens": 4_000})
    run = Simulation((READ,), limits=limits)
    assert run.run([lost, says("so")]).kind == "token_budget"
    assert run.state.text == "so"


def test_where_only_results_may_be_sent_it_is_left_out():
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    run = Simulation((READ,), limits=Limits(max_turns=0, closing_reply=100))
    assert run.run([says(search, ("c0", "read", {}))]).kind == "max_turns"
    assert len(run.bodies) == 1


def test_its_attempt_is_recorded_as_any_other():
    sent = [event for event in stopped(says("so")).events if isinstance(event, Sent)]
    assert (sent[-1].attempt, sent[-1].max_tokens) == (1, 200)


@pytest.mark.parametrize(
    "closing, total", [(0, 100), (-1, 100), (100, 100), (True, 100), (1.5, 100), ("1", 100)]
)
def test_a_size_that_makes_no_sense_is_refused(closing, total):
    with pytest.raises(ValueError, match="closing_reply: "):
        Limits(closing_reply=closing, max_tokens_total=total)


def test_without_a_token_budget_any_size_is_possible():
    assert Limits(closing_reply=10**6, max_tokens_total=None).closing_reply == 10**6
