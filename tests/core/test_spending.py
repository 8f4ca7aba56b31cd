"""What each request came to, and which tool's results it carried."""

from decimal import Decimal

import pytest

from brida.core.events import ChildSent, ChildSettled, Fault, Said
from brida.core.limits import Limits
from brida.core.prices import Prices
from brida.core.run import next_step
from brida.core.spending import Amount, part, spending, without_cache
from brida.core.usage import Usage
from support.loop import FakeTool, Simulation, says

SONNET = Prices.of(input="3", cache_write="3.75", cache_read="0.30", output="15")
BIG, SMALL = FakeTool("big", lambda arguments: "x" * 98), FakeTool("small", lambda arguments: "x" * 18)


def run_of(*replies, price=SONNET, **more):
    run = Simulation((BIG, SMALL), start={"prices": price}, **more)
    run.run(replies)
    return run


def usage(tokens):
    return {"input_tokens": tokens, "output_tokens": 0}


def test_a_request_counts_for_the_tools_whose_results_it_read_by_their_size():
    asks = says(("a", "big", {}), ("b", "small", {}), usage=usage(100))
    found = spending(run_of(asks, says("done", usage=usage(1_200))).events)
    assert [one.number for one in found.requests] == [1, 2]
    assert [one.reads for one in found.requests] == [{}, {"big": 100 / 120, "small": 20 / 120}]
    assert found.tools["big"].usage.input_tokens == 1_000
    assert found.tools["small"].usage.input_tokens == 200
    assert found.own.usage.input_tokens == 1_300
    assert found.own.cost == Decimal("0.0039")


def test_all_attempts_of_a_request_are_one():
    lost = Fault("cut", "cut", again=True, usage={"input_tokens": 7}, billed=True)
    found = spending(run_of(lost, says("done", usage=usage(10))).events)
    (one,) = found.requests
    assert one.amount.usage.input_tokens == 17
    assert one.amount.held > 0


def test_the_number_of_a_request_is_that_of_its_reply_in_the_trace():
    asks = says(("a", "big", {}), usage=usage(10))
    run = run_of(asks, says("one", usage=usage(20)))
    run.go_on([says("two", usage=usage(30))])
    found = spending(run.events)
    assert [(one.number, one.amount.usage.total) for one in found.requests] == [(1, 10), (2, 20), (3, 30)]
    assert [dict(one.reads) for one in found.requests][2] == {}
    assert [type(run.events[one.seq - 1]).__name__ for one in found.requests] == ["Sent"] * 3


def test_a_closing_reply_is_marked():
    asks = says(("a", "big", {}), usage=usage(10))
    run = run_of(asks, says("so", usage=usage(20)), limits=Limits(max_turns=0, closing_reply=100))
    assert [one.closing for one in spending(run.events).requests] == [False, True]


def test_what_the_cache_saved_is_known_and_what_it_cost_too():
    read = {"input_tokens": 0, "output_tokens": 1, "cache_read_input_tokens": 1_000_000}
    assert spending(run_of(says("x", usage=read)).events).saved == Decimal("2.7")
    written = {"input_tokens": 0, "output_tokens": 1, "cache_creation_input_tokens": 1_000_000}
    assert spending(run_of(says("x", usage=written)).events).saved == Decimal("-0.75")
    assert spending(run_of(says("x"), price=None).events).saved is None
    assert without_cache(Usage(1, 2, 3, 4), SONNET) == SONNET.cost(Usage(8, 2))


def test_what_children_spent_is_apart():
    run = Simulation((BIG,), start={"prices": SONNET})

    def look(arguments):
        run.learn(ChildSent(0, "x", 50, Decimal(1)), ChildSettled(0, "x", Usage(10, 20), Decimal("0.5")))
        run.spent += Usage(10, 20)
        return "seen"

    run.tools = (FakeTool("big", look),)
    run.run([says(("a", "big", {}), usage=usage(10)), says("done", usage=usage(20))])
    found = spending(run.events)
    assert found.children == Amount(Usage(10, 20), Decimal("0.5"))
    assert found.own.usage.total == 30


def test_an_unknown_price_makes_a_sum_unknown():
    assert (Amount(Usage(1), 2) + Amount(Usage(2), None)) == Amount(Usage(3), None)
    assert part(Amount(Usage(10), None), 0.5) == Amount(Usage(5), None, Decimal(0))


def test_what_died_with_its_process_is_of_its_request():
    run = Simulation((BIG,), start={"prices": SONNET})
    run.learn(Said(0, "task"))
    run.learn(*next_step(run.state, run.env).events)
    run = run.in_a_new_process()
    run.resume([says("done", usage=usage(20))])
    (one,) = spending(run.events).requests
    assert (one.amount.usage.total, one.amount.held > 0) == (20, True)


def test_no_events_are_no_run():
    assert spending([]).requests == ()
    with pytest.raises(ValueError, match="begins with Started"):
        spending([Said(0, "x")])


def test_a_request_that_failed_and_the_one_of_the_next_text_are_two():
    run = Simulation((BIG,), start={"prices": SONNET})
    run.run([Fault("invalid_request", "no", usage={"input_tokens": 5})])
    run.go_on([says("done", usage=usage(20))])
    assert [one.amount.usage.total for one in spending(run.events).requests] == [5, 20]


def test_a_request_that_is_made_again_reads_the_same_results():
    asks, cut = says(("a", "big", {}), usage=usage(10)), says("half", stop="max_tokens", usage=usage(20))
    found = spending(run_of(asks, cut, says("done", usage=usage(30))).events)
    assert [dict(one.reads) for one in found.requests] == [{}, {"big": 1.0}, {"big": 1.0}]


def test_what_is_not_known_of_one_request_says_nothing_of_another():
    lost = Fault("cut", "cut", again=True, billed=True)
    run = run_of(lost, says(("a", "big", {}), usage=usage(10)), says("done", usage=usage(20)))
    assert [one.amount.usage.complete for one in spending(run.events).requests] == [False, True]


def test_what_is_under_way_may_all_be_spent():
    run = Simulation((BIG,), start={"prices": SONNET})
    run.learn(Said(0, "task"))
    run.learn(*next_step(run.state, run.env).events)
    (one,) = spending(run.events).requests
    assert one.amount.held == run.events[-1].reserve.cost  # type: ignore[union-attr]
