# mypy: ignore-errors
"""A rate limit is waited out for as long as is wanted, beside the attempts."""

from dataclasses import replace

import pytest

from brida.core.events import (
    Fault,
)
from brida.core.limits import Limits
from support.loop import Simulation, for_ever, says

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
