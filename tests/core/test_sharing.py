# mypy: ignore-errors
"""What runs share: budgets, and what the run that started another has left."""

from decimal import Decimal

import pytest

from brida.core.ceilings import Ceilings, closing_reply
from brida.core.events import (
    BudgetsRead,
    CallFinished,
    CallStarted,
    CallWaits,
    ChildSent,
    ChildSettled,
    Resumed,
    Said,
)
from brida.core.ledger import Left
from brida.core.limits import Limits
from brida.core.run import Execute, next_step
from brida.core.stops import Stop
from brida.core.usage import Usage
from support.loop import Simulation
from support.money import DEAR, READ, dear, in_a_call


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
