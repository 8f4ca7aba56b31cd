# mypy: ignore-errors
"""Limits of tokens and money are ceilings: the worst case of a request is reserved before it leaves."""

import itertools
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brida.core.ceilings import Ceilings, closing_reply, input_bound, largest
from brida.core.codec import decode_event, encode_event
from brida.core.encoding import encode
from brida.core.events import (
    BudgetsRead,
    CallFinished,
    CallStarted,
    CallWaits,
    ChildSent,
    ChildSettled,
    Fault,
    Lost,
    Received,
    Resumed,
    Said,
    Sent,
    TokensCounted,
    Waited,
)
from brida.core.history import DOCUMENT, IMAGE, History
from brida.core.ledger import OVERHEAD, Left, estimate_with_margin
from brida.core.limits import Limits
from brida.core.prices import NOTHING, Meter, Prices
from brida.core.run import Count, Done, Execute, Send, Wait, next_step
from brida.core.state import State, fold
from brida.core.stops import Stop
from brida.core.usage import Usage, read_usage
from support.corpus import texts
from support.loop import FakeTool, Simulation, environment, for_ever, says, started

READ = FakeTool("read")
SONNET = Prices.of(input="3", cache_write="3.75", cache_read="0.30", output="15")
DEAR = Prices.of(input="0", output="40")
"""A thousand tokens of output cost 0.04 US dollars, and input nothing."""

FULL = {"input_tokens": 10, "output_tokens": 1_000}
ASKS_FOR_EVER = for_ever(lambda n: says((f"c{n}", "read", {"p": n}), usage=FULL))


def dear(**limits):
    """A run of a model whose every request costs 0.04 at worst, and does."""
    start = {"max_tokens": 1_000, "max_tokens_ceiling": 1_000, "prices": DEAR}
    return Simulation((READ,), Limits(max_tokens_total=None, **limits), start=start)


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


# --- budgets that are shared ------------------------------------------------------------------------------


def test_of_several_budgets_the_tightest_counts_and_the_stop_names_it():
    run = dear(max_cost="10")
    run.learn(Said(0, "task"))
    left = (
        Left("wide", cost=Decimal(5), limit=Decimal(9)),
        Left("tight", cost=Decimal("0.03"), limit=Decimal(2)),
    )
    run.learn(BudgetsRead(0, left))
    step = next_step(run.state, run.env)
    assert step.stop.kind == "cost_budget"
    assert step.stop.detail == {"budget": "tight", "limit": 2.0, "used": 1.97, "needed": 0.04, "short": 0.01}


def test_a_run_stops_within_what_its_parent_has_left():
    for left in (Left("", tokens=900), Left("", cost=Decimal("0.01"))):
        run = dear()
        run.learn(Said(0, "task"), BudgetsRead(0, (left,)))
        assert next_step(run.state, run.env).stop.detail["of"] == "parent"


def test_what_is_left_of_a_shared_budget_is_read_again_by_another_process():
    run = dear()
    run.learn(Said(0, "task"), BudgetsRead(0, (Left("", tokens=900),)))
    assert next_step(run.state, run.env).stop.kind == "token_budget"
    run.learn(*next_step(run.state, run.env).events, Resumed(0))
    assert run.state.left == ()


def test_a_shared_budget_and_an_unknown_price_do_not_go_together():
    run = Simulation()
    run.learn(Said(0, "task"), BudgetsRead(0, (Left("team", cost=Decimal(5), limit=Decimal(5)),)))
    assert next_step(run.state, run.env).stop.kind == "cost_budget"


def in_a_call(run):
    """The run, with its first call under way."""
    run.learn(Said(0, "task"))
    while not isinstance(step := next_step(run.state, run.env), Execute):
        run.learn(*step.events)
        if isinstance(step, Send):
            run.learn(Received(0, says(("c", "read", {}), usage={"input_tokens": 1, "output_tokens": 1})))
    run.learn(*step.events)
    return run


def test_what_the_runs_that_it_started_spend_is_spent():
    run = in_a_call(dear(max_cost="0.10"))
    run.learn(ChildSent(0, "x", 500, Decimal("0.07")))
    assert run.state.ledger.cost.taken == Decimal("0.07004")
    run.learn(ChildSettled(0, "x", Usage(10, 20), Decimal("0.06"), 5, Decimal("0.01")))
    assert run.state.cost == Decimal("0.06004")
    assert (run.state.ledger.cost.held, run.state.ledger.tokens.held) == (Decimal("0.01"), 5)
    assert run.state.usage.total == 32
    run.learn(CallFinished(0, "c", "ok", "done"))
    assert next_step(run.state, run.env).stop.kind == "cost_budget"


def test_a_child_of_unknown_price_makes_the_cost_unknown():
    run = in_a_call(dear())
    run.learn(ChildSent(0, "x", 500), ChildSettled(0, "x", Usage(10, 20)))
    assert run.state.cost is None


def test_what_a_child_had_under_way_when_the_process_died_is_held():
    run = in_a_call(dear(max_cost="0.10"))
    run.learn(ChildSent(0, "x", 500, Decimal("0.05")))
    run = run.in_a_new_process()
    run.learn(Resumed(0))
    assert (run.state.ledger.tokens.held, run.state.ledger.cost.held) == (500, Decimal("0.05"))


def test_a_call_whose_run_waits_parks_the_run_and_starts_again_when_that_goes_on():
    run = in_a_call(Simulation((READ,)))
    run.learn(CallWaits(0, "c", "child"))
    step = next_step(run.state, run.env)
    assert step.stop == Stop("waiting", {"questions": 1, "runs": ["child"]})
    run.learn(*step.events)
    assert run.state.messages[-1]["content"][0]["content"] == "did not run: the run waits for a person"
    run.learn(Resumed(0))
    step = next_step(run.state, run.env)
    assert isinstance(step, Execute)
    assert [type(event) for event in step.events] == [CallStarted]


def test_only_a_call_that_is_under_way_waits():
    run = in_a_call(Simulation((READ,)))
    run.learn(CallFinished(0, "c", "ok", "x"))
    with pytest.raises(ValueError, match=r"cannot follow here|cannot wait"):
        run.learn(CallWaits(0, "c", "child"))
    fresh = in_a_call(Simulation((READ,)))
    fresh.state._change("c", started=False)
    with pytest.raises(ValueError, match="it cannot wait"):
        fresh.learn(CallWaits(0, "c", "child"))


# --- waiting ----------------------------------------------------------------------------------------------

LIMITED = Fault("rate_limited", "slow down", again=True, retry_after=60, status=429)


def test_a_rate_limit_is_waited_out_for_as_long_as_is_wanted():
    run = Simulation(limits=Limits(wait_rate_limit=600))
    assert run.run([LIMITED] * 9 + [says("done")]).kind == "completed"
    assert sum(run.waits) == 540
    assert run.state.time_waited == pytest.approx(540.09, abs=0.1)


def test_a_rate_limit_that_lasts_longer_ends_the_run():
    run = Simulation(limits=Limits(wait_rate_limit=100))
    stop = run.run([LIMITED] * 2)
    assert (stop.kind, run.waits) == ("model_error", [60])


def test_a_rate_limit_that_asks_for_no_wait_is_bounded_all_the_same():
    run = Simulation(limits=Limits(wait_rate_limit=100))
    assert run.run(for_ever(lambda n: replace(LIMITED, retry_after=0.0))).kind == "model_error"
    assert len(run.bodies) < 30


def test_other_faults_have_their_attempts_and_their_two_minutes_beside_it():
    busy = Fault("overloaded", "busy", again=True)
    run = Simulation(limits=Limits(wait_rate_limit=600))
    assert run.run([LIMITED] * 5 + [busy] * 6).kind == "model_error"
    assert len(run.bodies) == 11
    assert Simulation().run([LIMITED] * 3).kind == "model_error"


def test_a_deadline_may_leave_out_the_time_between_attempts():
    for counts, kind in ((True, "deadline"), (False, "completed")):
        limits = Limits(wait_rate_limit=600, deadline=50, deadline_counts_waits=counts)
        assert Simulation(limits=limits).run([LIMITED, says("done")]).kind == kind


# --- the bound of the input -------------------------------------------------------------------------------


def tokens_at_most(text):
    """What no tokenizer passes that knows every byte: one token for each, and a few around a message."""
    return len(text.encode()) + 8


def test_the_bound_is_never_below_what_any_tokenizer_makes_of_it():
    corpus = list(texts())
    assert len(corpus) >= 200
    for text in corpus:
        history = History()
        history.add_text(text)
        assert history.weight >= tokens_at_most(text)
        history.seal()
        assert history.weight >= tokens_at_most(text)
        history.append_reply(({"type": "tool_use", "id": "a", "name": "t", "input": {"p": text}},), ["a"])
        before = history.weight
        assert before >= 2 * tokens_at_most(text)
        history.add_result("a", text, is_error=False)
        assert history.weight - before >= tokens_at_most(text)


def test_an_image_and_a_document_elsewhere_have_bounds_of_their_own():
    data = "A" * 400_000
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    small = {"type": "image", "source": {"type": "url", "url": "https://example.com/x.png"}}
    document = {"type": "document", "source": {"type": "url", "url": "https://example.com/x.pdf"}}
    weights = []
    for block in (image, small, document):
        history = History([{"role": "user", "content": [block]}])
        weights.append(history.weight)
    assert IMAGE <= weights[0] < IMAGE + 400
    assert IMAGE <= weights[1] < IMAGE + 400
    assert weights[2] >= DOCUMENT
    with_result = History([{"role": "user", "content": "x"}])
    with_result.seal()
    call = {"type": "tool_use", "id": "a", "name": "t", "input": {}}
    with_result.append_reply((call,), ["a"])
    before = with_result.weight
    with_result.add_result("a", [image], is_error=False)
    assert IMAGE <= with_result.weight - before < IMAGE + 500


def test_what_the_server_counted_and_the_reply_bound_the_next_request():
    run = Simulation((READ,))
    run.run([says(("a", "read", {}), usage={"input_tokens": 5_000, "output_tokens": 300}), says("done")])
    first, second = (event.reserve for event in run.events if isinstance(event, Sent))
    assert second.input_tokens in range(5_300, 5_500)
    assert first.input_tokens < 1_500


def in_flight(**options):
    run = Simulation((READ,), **options)
    run.learn(Said(0, "task"))
    run.learn(*next_step(run.state, run.env).events)
    return run


def test_a_text_that_was_said_meanwhile_was_not_counted_by_the_server():
    run = in_flight()
    run.learn(Said(0, "y" * 4_000, steering=True))
    run.learn(Received(0, says("so", usage={"input_tokens": 100, "output_tokens": 10})))
    assert input_bound(run.state, run.state.head) in range(4_110, 4_300)


def test_what_follows_a_pause_that_is_left_out_counts_whole():
    run = in_flight(limits=Limits(max_pauses=0))
    run.learn(
        Received(0, says("p" * 4_000, stop="pause_turn", usage={"input_tokens": 20, "output_tokens": 90}))
    )
    run.learn(*next_step(run.state, run.env).events)
    run.learn(Resumed(0, afresh=True), Said(0, "你" * 1_200))
    assert input_bound(run.state, run.state.head) in range(110 + 3_600, 110 + 3_800)


def test_a_pause_that_is_left_out_takes_its_images_with_it():
    data = "A" * 400_000
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    history = History([{"role": "user", "content": "x"}])
    history.seal()
    before = history.weight
    history.append_reply((image,), paused=True)
    history.leave_out_pause()
    assert history.weight == before


# --- what always holds ------------------------------------------------------------------------------------

prices = st.builds(
    lambda numbers, above: Prices(
        (Meter(*[Decimal(n) / 10**6 for n in numbers]), *above),
    ),
    st.lists(st.integers(0, 90), min_size=5, max_size=5),
    st.one_of(
        st.just(()),
        st.lists(st.integers(0, 200), min_size=5, max_size=5).map(
            lambda numbers: (Meter(*[Decimal(n) / 10**6 for n in numbers], above=1_500),)
        ),
    ),
)


class World:
    """A server that respects ``max_tokens``, and a run whose process dies now and then.

    What the server charges is summed here too, apart from the ledger: of requests and replies alike it makes
    a share of a token for each byte, and to each request it adds some.
    """

    def __init__(self, seed, price, limits, honest):
        self.random, self.honest, self.limits = Random(seed), honest, limits
        self.env = environment((READ,), limits=limits, counts_tokens=self.random.random() < 0.3)
        begin = started(
            (READ,),
            max_tokens=self.random.choice([200, 1_500, 4_000]),
            max_tokens_ceiling=8_000,
            prices=price,
            cache=self.random.random() < 0.5,
        )
        self.events, self.now, self.excess = [begin], 0.0, False
        self.price, self.true_tokens, self.true_cost = price, 0, 0
        self.rate = self.random.choice([0.1, 0.5, 0.9])
        self.added = 0 if price.are_zero else self.random.randint(0, OVERHEAD)
        self.texts = 1
        self.state = State(begin)
        self.learn(Said(0, "task"))

    def learn(self, *events):
        for event in events:
            self.now += 0.1
            self.events.append(replace(event, at=self.now))
            self.state.apply(self.events[-1])
        self.check()

    def check(self):
        ledger, limits = self.state.ledger, self.limits
        assert self.true_tokens <= ledger.tokens.taken
        assert self.true_cost <= ledger.cost.taken
        if self.excess:
            return
        if limits.max_tokens_total is not None:
            assert ledger.tokens.taken <= limits.max_tokens_total
        if limits.cost is not None:
            assert ledger.cost.taken <= limits.cost

    def die(self):
        self.events = [decode_event(encode_event(event)) for event in self.events]
        self.state = fold(self.events)
        self.learn(Resumed(0))

    def size(self, request):
        """The tokens of the request, as the server counts them."""
        return int(self.rate * (len(request.head.encoded) + len(request.messages))) + self.added

    def framed(self, content):
        """The tokens of the reply, as they come back in the next request."""
        return int(self.rate * len(encode({"role": "assistant", "content": content})))

    def charge(self, usage):
        self.true_tokens += usage.total
        self.true_cost += self.price.cost(usage)

    def usage(self, step, content, *, is_told):
        """What the server counts; now and then far more, where it is not honest and the run is told."""
        random, (sent,) = self.random, step.events
        whole, least = self.size(step.request), min(self.framed(content), sent.max_tokens)
        assert whole <= sent.reserve.input_tokens or self.excess
        output = random.choice([sent.max_tokens, random.randint(least, sent.max_tokens)])
        if is_told and not self.honest and random.random() < 0.2:
            whole, self.excess = whole * 3 + sent.reserve.input_tokens, True
        written = random.randint(0, whole) if self.state.head.cached else 0
        read = random.randint(0, whole - written) if self.state.head.cached else 0
        plain = whole - written - read
        found = {"input_tokens": plain, "output_tokens": output, "cache_read_input_tokens": read}
        return {**found, "cache_creation_input_tokens": written}

    def reply(self, step, *, is_told=True):
        random, number, max_tokens = self.random, len(self.events), step.request.max_tokens
        kind = random.randrange(11)
        said = {
            2: says("half", stop="max_tokens"),
            3: says("wait" * random.randrange(20), stop="pause_turn"),
            4: says("done"),
            5: says("x" * random.randrange(50), stop="tool_use"),
            6: says((f"c{number}", "read", {"p": number})),
        }.get(kind, says((f"c{number}", "read", {"p": number})))
        usage = self.usage(step, said.content, is_told=is_told and kind not in (0, 1, 6))
        if kind == 1:
            return Fault("overloaded", "busy", again=True)
        if kind == 6 and self.price.are_zero:  # it hides no thoughts, so its bytes are all
            usage["output_tokens"] = min(int(self.rate * len(encode(said.content))), max_tokens)
        self.charge(read_usage(usage, most_input=0, most_output=0, reply=()))
        if kind == 0:
            known = {"input_tokens": usage["input_tokens"]} if random.random() < 0.5 else None
            return Fault("cut", "cut", again=True, usage=known, billed=True)
        return replace(said, usage=None if kind == 6 else usage)

    def child(self):
        """A call that starts a run, which sends what fits."""
        random = self.random
        limits = self.limits
        for _ in range(random.randrange(3)):
            ledger, tokens = self.state.ledger, random.randint(0, 4_000)
            cost = None
            if ledger.prices is not None:
                cost = ledger.prices.worst(0, tokens, cached=False, for_an_hour=False)
            if limits.cost is not None and cost > limits.cost - ledger.cost.taken:
                continue
            if limits.max_tokens_total is not None and (
                tokens > limits.max_tokens_total - ledger.tokens.taken
            ):
                continue
            self.learn(ChildSent(0, "child", tokens, cost))
            spent = Usage(0, random.randint(0, tokens))
            self.charge(spent)
            if random.random() < 0.2:
                return self.die()
            price = None if ledger.prices is None else ledger.prices.cost(spent)
            self.learn(ChildSettled(0, "child", spent, price))
        return None

    def run(self):
        sent_after_excess = 0
        for _ in range(1_500):
            step = next_step(self.state, self.env)
            self.learn(*step.events)
            match step:
                case Done():
                    if not self.texts:
                        return step.stop, sent_after_excess
                    self.texts -= 1
                    self.learn(Resumed(0, afresh=True), Said(0, "z" * self.random.randrange(3_000)))
                case Send():
                    sent_after_excess += self.excess and self.over()
                    if self.random.random() < 0.05:
                        self.reply(step, is_told=False)
                        self.die()
                        continue
                    if self.random.random() < 0.1:
                        self.learn(Said(0, "w" * self.random.randrange(3_000), steering=True))
                    said = self.reply(step)
                    self.learn(Lost(0, said) if isinstance(said, Fault) else Received(0, said))
                case Count():
                    size = self.size(step.request)
                    self.learn(TokensCounted(0, self.random.choice([None, size, size * 24 // 25, size * 2])))
                case Wait():
                    self.learn(Waited(0, step.seconds))
                case Execute():
                    self.child()
                    for call in step.calls:
                        if self.state.calls.get(call.asked.id) and self.state.calls[call.asked.id].started:
                            size = self.random.randrange(800)
                            self.learn(CallFinished(0, call.asked.id, "ok", "y" * size))
                case _:
                    pass
        raise AssertionError("it goes on and on")

    def over(self):
        ledger, limits = self.state.ledger, self.limits
        tokens = limits.max_tokens_total is not None and ledger.tokens.taken > limits.max_tokens_total
        return tokens or (limits.cost is not None and ledger.cost.taken > limits.cost)


limits_of_both = st.builds(
    lambda tokens, cost, closing: Limits(
        max_tokens_total=tokens,
        max_cost=cost,
        closing_reply=closing,
        max_turns=20,
        max_calls=None,
        no_progress=False,
    ),
    st.none() | st.integers(1_500, 60_000),
    st.none() | st.integers(0, 1_000_000).map(lambda n: Decimal(n) / 10**6),
    st.none() | st.integers(1, 1_400),
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), prices, limits_of_both)
def test_no_history_in_which_the_server_respects_max_tokens_passes_a_limit(seed, price, limits):
    World(seed, price, limits, honest=True).run()


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**9), prices, limits_of_both)
def test_what_a_server_counts_above_the_bound_is_in_the_sums_and_nothing_more_is_sent(seed, price, limits):
    world = World(seed, price, limits, honest=False)
    _, sent_over = world.run()
    assert sent_over == 0
    counted = sum(
        (event.reply.usage or {}).get(name, 0)
        for event in world.events
        if isinstance(event, Received)
        for name in ("input_tokens", "output_tokens")
    )
    assert world.state.usage.total >= counted


def test_the_valve_is_asked_at_the_turn_gate_too():
    run = in_a_call(dear(max_cost="0.10"))
    assert Ceilings(Limits(max_cost="0.01", max_tokens_total=None))(run.state).kind == "cost_budget"


def test_other_blocks_have_the_bound_of_their_bytes():
    odd = {"type": "brand_new", "source": {"type": "text", "data": "x" * 50}}
    assert History([{"role": "user", "content": [odd]}]).weight in range(50, 200)


def test_what_children_spent_is_not_priced_as_their_parents():
    run = in_a_call(Simulation((READ,)))
    run.learn(ChildSent(0, "x", 500), ChildSettled(0, "x", Usage(10, 20), Decimal("1.50")))
    run = run.in_a_new_process()
    run.learn(Resumed(0, prices=DEAR))
    assert (run.state.cost, run.state.ledger.prices) == (None, DEAR)
    assert Ceilings(Limits(max_cost=1, max_tokens_total=None))(run.state).detail["unknown_price"]


def test_a_closing_reply_is_held_back_from_the_runs_that_it_starts_too():
    run = in_a_call(dear(max_cost="0.10"))
    assert closing_reply(run.state, Limits(), DEAR) == 0
    assert closing_reply(run.state, Limits(closing_reply=500), DEAR) == Decimal("0.02")
