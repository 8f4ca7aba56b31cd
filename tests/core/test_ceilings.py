# mypy: ignore-errors
"""Limits of tokens and money are ceilings: the worst case of a request is reserved before it leaves."""

import itertools
from dataclasses import replace
from decimal import Decimal

import pytest

from brida.core.ceilings import Ceilings, input_bound, largest
from brida.core.events import (
    CallFinished,
    Fault,
    Received,
    Resumed,
    Said,
    Sent,
    TokensCounted,
)
from brida.core.ledger import estimate_with_margin
from brida.core.limits import Limits
from brida.core.prices import NOTHING, Meter, Prices
from brida.core.run import Count, Done, Execute, Send, Wait, next_step
from brida.core.stops import Stop
from brida.core.usage import Usage
from support.loop import FakeTool, Simulation, for_ever, says
from support.money import ASKS_FOR_EVER, DEAR, FULL, READ, SONNET, dear, in_a_call

# --- field cases ------------------------------------------------------------------------------------------


def test_c06_counters_are_priced_to_the_last_digit():
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 12_304, "output_tokens": 550}
    run = Simulation(start={"prices": SONNET})
    run.run([says("done", usage={**usage, "cache_read_input_tokens": 0})])
    assert run.state.cost == Decimal("0.054399")


def test_c06_an_attempt_that_is_lost_is_counted_and_the_budget_has_it():
    lost = Fault("cut", "cut", again=True, usage={"input_tokens": 1_000, "output_tokens": 1}, billed=True)
    run = Simulation(start={"prices": SONNET})
    run.run([lost, says("done", usage={"input_tokens": 1_000, "output_tokens": 20})])
    usage = run.state.usage
    assert (usage.input_tokens, usage.output_tokens, usage.complete) == (2_000, 21, False)
    first, second = (event.reserve for event in run.events if isinstance(event, Sent))
    assert run.state.ledger.tokens.held == first.tokens - 1_001
    assert run.state.ledger.cost.held == first.cost - SONNET.cost(Usage(1_000, 1))
    assert second.cost is not None


def test_c06_a_later_failed_attempt_never_erases_known_totals():
    kinds = [{"input_tokens": 5, "output_tokens": 7}, None, {}, {"input_tokens": None, "output_tokens": -1}]
    lost = [Fault("cut", "cut", again=True, usage=usage, billed=False) for usage in kinds]
    run = Simulation(start={"prices": SONNET})
    run.run([*lost, says("done")])
    assert (run.state.usage.input_tokens, run.state.usage.output_tokens) == (15, 12)


def test_c15_two_requests_of_four_cents_fit_ten_and_no_third_is_made():
    run = dear(max_cost="0.10")
    stop = run.run(ASKS_FOR_EVER)
    assert (stop.kind, len(run.bodies), run.state.cost) == ("cost_budget", 2, Decimal("0.08"))
    assert stop.detail == {"limit": 0.1, "used": 0.08, "needed": 0.04, "short": 0.02}


def test_c15_failed_and_retried_attempts_count():
    lost = Fault("cut", "cut", again=True, billed=True)
    run = dear(max_cost="0.10")
    assert run.run(for_ever(lambda n: lost)).kind == "cost_budget"
    assert (len(run.bodies), run.state.cost, run.state.ledger.cost.held) == (2, 0, Decimal("0.08"))


def test_c15_an_attempt_that_nobody_charged_for_holds_nothing():
    busy = Fault("overloaded", "busy", again=True, status=529)
    run = dear(max_cost="0.05")
    assert run.run([busy, busy, says("done", usage=FULL)]).kind == "completed"
    assert run.state.ledger.cost.taken == Decimal("0.04")


def test_c15_the_budget_survives_a_resume():
    run = dear(max_cost="0.10")
    run.run(ASKS_FOR_EVER)
    again = run.in_a_new_process()
    assert again.resume().kind == "cost_budget"
    assert (again.bodies, len(run.bodies)) == ([], 2)


def test_what_was_under_way_when_the_process_died_stays_counted_through_every_crash():
    run = dear(max_cost="0.10")
    run.learn(Said(0, "task"))
    for crash in itertools.count():
        step = next_step(run.state, run.env)
        if not isinstance(step, Send):
            break
        run.learn(*step.events)
        run = run.in_a_new_process()
        run.learn(Resumed(0))
        while isinstance(step := next_step(run.state, run.env), Wait):
            run.do(step)
        assert crash < 9
    assert (crash, run.state.ledger.cost.held) == (2, Decimal("0.08"))
    assert isinstance(step, Done)


# --- how a request is made to fit -------------------------------------------------------------------------


def sizes(run):
    return [body["max_tokens"] for body in run.bodies]


def test_a_reply_is_made_as_short_as_what_is_left():
    limits = Limits(max_tokens_total=6_000)
    run = Simulation(limits=limits, start={"max_tokens": 8_000, "max_tokens_ceiling": 8_000})
    assert run.run([says("done")]).kind == "completed"
    (sent,) = (event for event in run.events if isinstance(event, Sent))
    assert sent.reserve.tokens == 6_000
    assert sizes(run) == [6_000 - sent.reserve.input_tokens]


@pytest.mark.parametrize("asked, least", [(8_000, 1_024), (2_000, 1_024), (500, 500)])
def test_no_reply_is_made_shorter_than_makes_sense(asked, least):
    found = set()
    for limit in range(1_600, 2_600, 10):
        start = {"max_tokens": asked, "max_tokens_ceiling": asked}
        run = Simulation(limits=Limits(max_tokens_total=limit), start=start)
        kind = run.run(lambda body: says("done")).kind
        assert kind == ("completed" if run.bodies else "token_budget")
        found |= {*sizes(run)}
    assert min(found) in range(least, least + 10)


def test_a_model_that_may_think_gets_more_than_it_may_think():
    extra = {"thinking": {"type": "enabled", "budget_tokens": 1_500}}
    start = {"max_tokens": 4_000, "max_tokens_ceiling": 4_000, "extra": extra}
    found = set()
    for limit in range(2_000, 4_000, 50):
        run = Simulation(limits=Limits(max_tokens_total=limit), start=start)
        run.run(lambda body: says("done"))
        found |= {*sizes(run)}
    assert min(found) in range(1_501, 1_551)


def smallest_that_is_sent(run):
    """The least ``max_tokens`` with which the next request would go, whatever is left."""
    found = set()
    for limit in range(900, 9_000):
        fits = largest(run.state, Limits(max_tokens_total=limit), run.state.head, run.state.max_tokens)
        found |= set() if isinstance(fits, Stop) else {fits}
    return min(found)


def test_the_smallest_reply_is_one_more_than_the_model_may_think():
    extra = {"thinking": {"type": "enabled", "budget_tokens": 1_500}}
    run = Simulation(start={"max_tokens": 4_000, "max_tokens_ceiling": 4_000, "extra": extra})
    run.learn(Said(0, "task"))
    assert smallest_that_is_sent(run) == 1_501


def test_the_smallest_reply_after_a_cut_is_one_more_than_that():
    cut = says("half", stop="max_tokens", usage={"input_tokens": 5, "output_tokens": 1_500})
    run = Simulation(start={"max_tokens": 1_500, "max_tokens_ceiling": 4_000})
    run.learn(Said(0, "task"))
    send = next_step(run.state, run.env)
    run.learn(*send.events, Received(0, cut))
    assert smallest_that_is_sent(run) == 1_501


def test_after_a_cut_the_next_limit_is_larger_or_the_budget_ends_the_run():
    cut = says("half", stop="max_tokens", usage={"input_tokens": 50, "output_tokens": 1_500})
    start = {"max_tokens": 1_500, "max_tokens_ceiling": 30_000}
    run = Simulation(limits=Limits(max_tokens_total=5_000), start=start)
    stop = run.run(for_ever(lambda n: cut))
    assert stop.kind == "token_budget"
    assert sizes(run) == [1_500, 3_000]
    assert stop.detail["truncated_at"] == 3_000


def test_the_highest_price_that_may_apply_is_reserved():
    tiers = Prices((Meter(3, 15, 1, 4, 6), Meter(6, 22, 2, 8, 12, above=200)))
    assert tiers.worst(200, 10, cached=False, for_an_hour=False) == 200 * 3 + 150
    assert tiers.worst(201, 10, cached=False, for_an_hour=False) == 201 * 6 + 220
    assert tiers.worst(100, 10, cached=True, for_an_hour=False) == 100 * 4 + 150
    assert tiers.worst(100, 10, cached=True, for_an_hour=True) == 100 * 6 + 150


def test_a_price_that_nobody_knows_fits_no_limit_of_money():
    run = Simulation(limits=Limits(max_cost=100))
    stop = run.run([])
    assert (stop.kind, stop.detail["unknown_price"]) == ("cost_budget", True)


def test_a_price_that_is_known_later_prices_what_was_spent():
    run = Simulation((READ,))
    run.run([says("done", usage=FULL)])
    assert run.state.cost is None
    run.go_on([says("done", usage=FULL)], prices=DEAR)
    assert run.state.cost == Decimal("0.08")


def test_a_price_that_was_known_stays_as_it_was():
    run = dear()
    run.run([says("done", usage=FULL)])
    run.learn(Resumed(0, prices=SONNET))
    assert run.state.cost == Decimal("0.04")
    assert run.state.ledger.prices == DEAR


def test_what_was_spent_before_a_price_was_known_has_the_highest_that_may_apply():
    two = Prices((Meter(1, 5, 1, 1, 9), Meter(3, 2, 1, 1, 1, above=100)))
    run = Simulation((READ,))
    cut = Fault("cut", "cut", again=True, billed=True)
    run.run([cut, says("done", usage={"input_tokens": 10, "output_tokens": 20})])
    run.learn(Resumed(0, prices=two))
    assert run.state.cost == 10 * 3 + 20 * 5
    assert run.state.ledger.cost.held == 9 * run.state.ledger.tokens.held > 0


def test_a_free_model_holds_what_nobody_could_settle_all_the_same():
    run = Simulation((READ,), Limits(max_tokens_total=6_000), start={"prices": NOTHING})
    cut = Fault("cut", "cut", again=True, billed=True)
    run.run([cut, says("done", usage=FULL)])
    (sent, _) = (event for event in run.events if isinstance(event, Sent))
    assert run.state.ledger.tokens.held == sent.reserve.tokens


def test_a_free_model_that_counts_nothing_is_bounded_by_its_bytes():
    run = Simulation((READ,), Limits(max_tokens_total=6_000), start={"prices": NOTHING})
    assert run.run([says((f"c{n}", "read", {"p": n}), usage=None) for n in range(3)] + [says("x")]).kind == (
        "completed"
    )
    assert run.state.ledger.tokens.held == 0
    assert run.state.usage.complete is False


# --- the server's own count -------------------------------------------------------------------------------


def counting(limit, counted):
    run = Simulation(
        (FakeTool("read", lambda arguments: "x" * 3_000),),
        Limits(max_tokens_total=limit),
        settings={"counts_tokens": True},
    )
    asked = []
    do = run.do

    def answer(step, model=None):
        if isinstance(step, Count):
            asked.append(step.request.as_dict())
            run.learn(TokensCounted(0, counted))
        else:
            do(step, model)

    run.do = answer
    return run, asked


def test_a_server_is_asked_to_count_before_a_run_stops():
    run, asked = counting(3_000, 700)
    assert run.run([says(("a", "read", {})), says("done")]).kind == "completed"
    assert len(asked) == 1
    assert asked[0]["messages"] == run.bodies[1]["messages"]


def test_a_server_is_asked_once_and_what_it_says_may_not_help():
    for counted in (None, 50_000):
        run, asked = counting(3_000, counted)
        assert run.run([says(("a", "read", {}))]).kind == "token_budget"
        assert len(asked) == 1


def test_a_server_is_not_asked_where_the_bound_fits():
    run, asked = counting(40_000, 700)
    run.run([says(("a", "read", {})), says("done")])
    assert asked == []


def test_a_server_is_asked_to_count_where_a_lost_attempt_left_too_little():
    run, asked = counting(2_000, 300)
    cut = Fault("cut", "cut", again=True, billed=True)
    assert run.run([cut, says("done")]).kind == "completed"
    assert len(asked) == 1


def test_a_count_is_of_what_is_sent_and_not_of_a_text_that_waits():
    run, _ = counting(20_000, 900)
    run.learn(Said(0, "task"), *next_step(run.state, run.env).events)
    code = {
        "type": "tool_use",
        "id": "a",
        "name": "read",
        "input": {},
        "caller": {"type": "code_execution_1"},
    }
    run.learn(Received(0, replace(says("x", stop="tool_use"), content=(code,), usage=None)))
    run.learn(Said(0, "y" * 5_000, steering=True))
    run.learn(*next_step(run.state, run.env).events)
    while run.state.history.open_calls:
        step = next_step(run.state, run.env)
        run.learn(*step.events)
        if isinstance(step, Execute):
            run.learn(CallFinished(0, "a", "ok", "x"))
    run.learn(TokensCounted(0, 900))
    counted = estimate_with_margin(900)
    assert input_bound(run.state, run.state.head) in range(counted + 5_000, counted + 5_100)


def test_a_count_is_an_estimate_so_some_more_is_reserved():
    run, _ = counting(3_000, 1_000)
    run.run([says(("a", "read", {})), says("done")])
    *_, sent = (event for event in run.events if isinstance(event, Sent))
    assert sent.reserve.input_tokens == 1_000 + 50 + 64


def test_the_valve_is_asked_at_the_turn_gate_too():
    run = in_a_call(dear(max_cost="0.10"))
    assert Ceilings(Limits(max_cost="0.01", max_tokens_total=None))(run.state).kind == "cost_budget"
