"""Each valve at its edge, switched off, and in its place."""

import math
from decimal import Decimal

import pytest

from brida.core.ceilings import Ceilings
from brida.core.events import Fault, Received, Said, StopRequested
from brida.core.limits import Limits
from brida.core.run import Done, next_step
from brida.core.state import State
from brida.core.stops import Stop
from brida.core.valves import GATE_NAMES, Gates
from support.loop import FakeTool, Simulation, for_ever, says

READ = FakeTool("read", lambda arguments: f"content of {arguments.get('p')}")
BUSY = Fault("overloaded", "busy", again=True)


def turns(count, calls=1):
    """So many replies with new calls, then an answer."""
    for turn in range(count):
        yield says(*((f"t{turn}_{n}", "read", {"p": turn, "n": n}) for n in range(calls)))
    yield says("done")


# --- at the edge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [0, 1, 3, 8])
def test_as_many_turns_as_the_limit_are_whole_and_one_more_is_not_started(limit):
    run = Simulation((READ,), Limits(max_turns=limit))
    assert run.run(turns(limit)).kind == "completed"
    assert (run.state.turns, run.state.requests) == (limit, limit + 1)
    run = Simulation((READ,), Limits(max_turns=limit))
    stop = run.run(turns(limit + 1))
    assert (stop.kind, stop.detail) == ("max_turns", {"limit": limit, "used": limit})
    assert len(run.ran) == run.state.turns == limit
    assert [call.id for call in run.state.not_run] == [f"t{limit}_0"]
    assert run.results[-1]["content"] == "did not run: turn limit"


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_as_many_requests_as_the_limit_are_sent_and_calls_that_nobody_could_answer_are_not_run(limit):
    run = Simulation((READ,), Limits(max_requests=limit))
    assert run.run(turns(limit - 1)).kind == "completed"
    run = Simulation((READ,), Limits(max_requests=limit))
    stop = run.run(turns(limit))
    assert (stop.kind, stop.detail) == ("max_requests", {"limit": limit, "used": limit})
    assert (len(run.bodies), len(run.ran)) == (limit, limit - 1)


def test_the_limit_of_requests_follows_from_that_of_turns():
    assert Limits().requests == 46
    assert Limits(max_turns=0).requests == 14
    assert Limits(max_requests=3).requests == 3


def test_attempts_of_one_request_count_once():
    run = Simulation((READ,), Limits(max_requests=1))
    assert run.run([BUSY, BUSY, says("done")]).kind == "completed"
    assert (run.state.requests, len(run.bodies)) == (1, 3)


@pytest.mark.parametrize("limit", [1, 2, 6])
def test_as_many_attempts_as_the_limit_are_made(limit):
    run = Simulation(limits=Limits(max_attempts=limit))
    assert run.run([BUSY] * (limit - 1) + [says("done")]).kind == "completed"
    run = Simulation(limits=Limits(max_attempts=limit))
    stop = run.run([BUSY] * (limit + 1))
    assert (stop.kind, stop.detail["attempts"], len(run.bodies)) == ("model_error", limit, limit)


def test_each_request_has_its_own_attempts():
    run = Simulation((READ,), Limits(max_attempts=2))
    assert run.run([BUSY, says(("a", "read", {})), BUSY, says("done")]).kind == "completed"
    assert run.waits == [0.5, 0.5]


@pytest.mark.parametrize("after, kind", [(119.5, "completed"), (120.0, "completed"), (120.5, "model_error")])
def test_the_waits_of_a_request_end_at_two_minutes(after, kind):
    run = Simulation()
    assert run.run([Fault("rate_limited", "later", again=True, retry_after=after), says("done")]).kind == kind


def test_the_waits_of_a_request_are_added_up():
    run = Simulation()
    later = Fault("rate_limited", "later", again=True, retry_after=50)
    stop = run.run([later, later, later])
    assert (stop.kind, stop.detail["wait"], run.waits) == ("model_error", 50, [50, 50])


def test_the_waits_of_another_request_begin_anew():
    run = Simulation((READ,))
    later = Fault("rate_limited", "later", again=True, retry_after=100)
    assert run.run([later, says(("a", "read", {})), later, says("done")]).kind == "completed"


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_as_many_calls_as_the_limit_run_and_a_turn_that_would_pass_it_starts_none(limit):
    run = Simulation((READ,), Limits(max_calls=limit))
    assert run.run([*turns(1, limit)] if limit else [says("done")]).kind == "completed"
    assert len(run.ran) == limit
    run = Simulation((READ,), Limits(max_calls=limit))
    stop = run.run(turns(1, limit + 1))
    assert (stop.kind, stop.detail) == ("max_calls", {"limit": limit, "used": 0, "asked": limit + 1})
    assert (run.ran, run.state.turns) == ([], 0)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_as_many_pauses_as_the_limit_are_sent_back(limit):
    pauses = [says(f"{n}", stop="pause_turn") for n in range(limit + 1)]
    run = Simulation(limits=Limits(max_pauses=limit))
    assert run.run([*pauses[1:], says("done")]).kind == "completed"
    run = Simulation(limits=Limits(max_pauses=limit))
    stop = run.run(pauses)
    assert (stop.kind, stop.detail) == ("max_pauses", {"limit": limit, "used": limit})


def test_pauses_are_counted_over_the_whole_run():
    run = Simulation((READ,), Limits(max_pauses=1))
    pause = says("wait", stop="compaction")
    stop = run.run([pause, says(("a", "read", {})), pause, says("done")])
    assert (stop.kind, len(run.bodies)) == ("max_pauses", 3)


LARGE = {"input_tokens": 1_500, "output_tokens": 5}
"""More than the bound of a first request in these tests, so that what follows is known exactly."""


@pytest.mark.parametrize("limit, kind", [(3_139, "completed"), (3_138, "token_budget")])
def test_no_turn_starts_of_which_the_next_request_does_not_fit(limit, kind):
    run = Simulation((READ,), Limits(max_tokens_total=limit))
    stop = Ceilings(Limits(max_tokens_total=limit))(after(LARGE))
    if kind == "completed":
        assert stop is None
    else:
        detail = {"limit": limit, "used": 1_505, "needed": 1_634, "short": 1}
        assert stop == run.run([says(("a", "read", {}), usage=LARGE)]) == Stop(kind, detail)
        assert run.ran == []


def after(usage):
    """What a run knows that waits for the results of one call."""
    run = Simulation((READ,), Limits(max_tokens_total=None, max_turns=0))
    run.learn(Said(0, "task"))
    step = next_step(run.state, run.env)
    run.learn(*step.events)
    run.learn(Received(0, says(("a", "read", {}), usage=usage)))
    return run.state


@pytest.mark.parametrize(
    "first", [says("x", stop="pause_turn", usage=LARGE), says(stop="tool_use", usage=LARGE)]
)
def test_nothing_is_sent_again_that_does_not_fit(first):
    run = Simulation(limits=Limits(max_tokens_total=3_000))
    assert run.run([first]).kind == "token_budget"
    run = Simulation(limits=Limits(max_tokens_total=4_000))
    assert run.run([first, says("done")]).kind == "completed"


def test_a_lost_attempt_counts_for_the_budget_and_is_not_made_again_without_one():
    lost = Fault("cut", "cut", again=True, usage={"input_tokens": 1_000, "output_tokens": 1}, billed=True)
    run = Simulation(limits=Limits(max_tokens_total=1_500))
    assert run.run([lost, says("done")]).kind == "token_budget"
    assert (len(run.bodies), run.waits, run.state.usage.complete) == (1, [], False)


def test_an_attempt_that_another_cannot_mend_is_an_error_of_the_model_whatever_the_budget():
    lost = Fault("invalid_request", "no", usage={"input_tokens": 1_000})
    assert Simulation(limits=Limits(max_tokens_total=1_500)).run([lost]).kind == "model_error"


def test_an_answer_that_was_larger_than_the_bound_is_still_an_answer():
    run = Simulation(limits=Limits(max_tokens_total=1_500))
    assert run.run([says("done", usage={"input_tokens": 9_000, "output_tokens": 5})]).kind == "completed"
    assert run.state.tokens_used == 9_005


def test_the_budget_counts_the_prompt_cache():
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_creation_input_tokens": 50,
        "cache_read_input_tokens": 48,
    }
    assert after(usage).tokens_used == 100


def test_a_reply_at_the_ceiling_is_not_asked_for_again():
    for first, ceiling, sizes in ((100, 100, [100]), (100, 150, [100, 150]), (100, 400, [100, 200, 400])):
        run = Simulation(start={"max_tokens": first, "max_tokens_ceiling": ceiling})
        stop = run.run(for_ever(lambda n: says("cut", stop="max_tokens")))
        assert (stop.kind, stop.detail) == ("truncated", {"limit": ceiling, "used": ceiling})
        assert [body["max_tokens"] for body in run.bodies] == sizes


# --- the deadline ---------------------------------------------------------------------------------------


def run_for(seconds, limit=10.0):
    """A run whose one call takes so many seconds."""

    def slow(arguments):
        run.now += seconds
        return "done"

    run = Simulation((FakeTool("slow", slow),), Limits(deadline=limit), seconds=0.0)
    return run.run([says(("a", "slow", {})), says("done")]), run


def test_a_run_within_its_deadline_goes_on():
    stop, run = run_for(9.75)
    assert (stop.kind, run.state.elapsed) == ("completed", 9.75)


@pytest.mark.parametrize("seconds", [10.0, 11.5])
def test_a_run_at_its_deadline_stops(seconds):
    stop, run = run_for(seconds)
    assert (stop.kind, stop.detail) == ("deadline", {"limit": 10.0, "used": seconds})
    assert run.results[0]["content"] == "done", "what was done is not lost"


def test_waits_between_attempts_count_for_the_deadline():
    run = Simulation(limits=Limits(deadline=3), seconds=0.0)
    stop = run.run([BUSY] * 6)
    assert (stop.kind, run.waits) == ("deadline", [0.5, 1.0, 2.0])


def test_the_deadline_is_asked_before_a_turn_and_between_its_groups():
    def slow(arguments):
        run.now += 6
        return "done"

    tools = (FakeTool("slow", slow, impact="idempotent"), READ)
    run = Simulation(tools, Limits(deadline=10), seconds=0.0, settings={"yes_to": frozenset({"slow"})})
    stop = run.run([says(("a", "slow", {"n": 1}), ("b", "slow", {"n": 2}), ("c", "read", {}))])
    assert stop.kind == "deadline"
    assert [result["content"] for result in run.results] == ["done", "done", "did not run: out of time"]
    assert [call.tool for call in run.state.not_run] == ["read"]


def test_time_spent_waiting_for_a_person_does_not_count():
    def thinks(question):
        run.now += 1_000
        return True

    tools = (FakeTool("write", impact="high"), FakeTool("send", impact="high"))
    run = Simulation(tools, Limits(deadline=10), answer=thinks, seconds=0.125)
    stop = run.run([says(("a", "write", {}), ("b", "send", {})), says("done")])
    assert stop.kind == "completed"
    assert len(run.ran) == 2
    assert run.state.elapsed == 13 * 0.125, "all events but the two answers and what came between them"


def test_nothing_that_comes_after_the_stop_counts():
    run = Simulation()
    run.run([says("done")])
    before = run.state.elapsed
    run.now += 1_000
    run.learn(StopRequested(0, Stop("interrupted")))
    assert (run.state.elapsed, run.state.stop) == (before, Stop("completed"))


def test_a_clock_that_runs_backwards_takes_no_time_back():
    run = Simulation(seconds=1.0)

    def model(body):
        run.now -= 100
        return says("done")

    run.run(model)
    assert run.state.elapsed == 3.0


def test_the_steps_say_how_much_time_is_left():
    left: dict = {}

    def watched(run):
        do = run.do

        def watch(step, model):
            left.setdefault(type(step).__name__, getattr(step, "seconds_left", "nothing"))
            do(step, model)

        run.do = watch
        run.run([BUSY, says(("a", "read", {})), says("done")])

    watched(Simulation((READ,), Limits(deadline=10), seconds=0.5))
    assert left == {"Send": 9.5, "Wait": 8.5, "Note": "nothing", "Execute": 5.5}
    left.clear()
    watched(Simulation((READ,)))
    assert left == {"Send": None, "Wait": None, "Note": "nothing", "Execute": None}


# --- switched off ---------------------------------------------------------------------------------------


def test_what_can_be_off_is_off():
    off = Limits(
        max_turns=60,
        max_requests=90,
        max_calls=None,
        max_pauses=None,
        max_tokens_total=None,
        no_progress=False,
    )
    huge = {"input_tokens": 10**9, "output_tokens": 1}

    def model(n):
        if n == 80:
            return says("done")
        return (
            says("wait", stop="pause_turn")
            if n < 20
            else says((f"a{n}", "read", {}), (f"b{n}", "read", {}), usage=huge)
        )

    run = Simulation((READ,), off, seconds=1e6)
    assert run.run(for_ever(model)).kind == "completed"
    assert (len(run.ran), run.state.pauses, run.state.turns) == (120, 20, 60)


# --- validation -----------------------------------------------------------------------------------------

COUNTS = ("max_turns", "max_requests", "max_attempts", "max_calls", "max_pauses", "max_tokens_total")


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [-1, 1.0, "8", True, math.inf])
def test_a_count_is_a_whole_number(name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected a whole number of at least [01], got {value!r}"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_at_least_what_makes_sense(name):
    least = 1 if name in ("max_requests", "max_attempts", "max_tokens_total") else 0
    assert getattr(Limits(**{name: least}), name) == least  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"at least {least}"):
        Limits(**{name: least - 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["max_turns", "max_attempts"])
def test_what_cannot_be_off_is_not_taken_as_off(name):
    with pytest.raises(ValueError, match=f"^{name}: .* got None"):
        Limits(**{name: None})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "10", True])
def test_a_deadline_is_a_number_of_seconds(value):
    with pytest.raises(ValueError, match=r"^deadline: expected a number of seconds above 0"):
        Limits(deadline=value)


def test_other_limits_that_make_no_sense_are_refused():
    for value in (-1, "x", True, math.nan, math.inf):
        with pytest.raises(ValueError, match=r"^max_cost: expected US dollars, from 0, got"):
            Limits(max_cost=value)
    assert [Limits(max_cost=value).cost for value in (0.1, "0.10", 0, None)] == [
        Decimal("0.1"),
        Decimal("0.1"),
        Decimal(0),
        None,
    ]
    with pytest.raises(ValueError, match=r"^no_progress: expected True or False, got 1"):
        Limits(no_progress=1)  # type: ignore[arg-type]
    assert Limits(deadline=0.5).deadline == 0.5


# --- the order of the gates, and valves of one's own ----------------------------------------------------


def test_of_many_limits_at_once_the_first_of_the_gate_is_named():
    at_once = {"max_turns": 0, "max_calls": 0, "max_tokens_total": 1_500, "max_requests": 1, "deadline": 1e-9}
    expected = ("deadline", "max_turns", "token_budget", "max_calls", "max_requests")
    for kind in expected:
        run = Simulation((READ,), Limits(**at_once), seconds=0.0)  # type: ignore[arg-type]

        def model(body, run=run):
            run.now += 1
            return says(("a", "read", {}), usage=LARGE)

        assert run.run(model).kind == kind
        at_once.pop("max_tokens_total" if kind == "token_budget" else kind)


def test_who_wants_out_is_heard_before_any_limit():
    run = Simulation((READ,), Limits(max_turns=0, deadline=0.025), interrupt_after=4)
    assert run.run([says(("a", "read", {}))]).kind == "interrupted"


@pytest.mark.parametrize("gate, requests, ran", [("request", 0, 0), ("turn", 1, 0), ("between", 1, 0)])
def test_a_valve_of_ones_own_stops_at_its_gate(gate, requests, ran):
    run = Simulation((READ,), valves={gate: [lambda state: Stop("stopped", {"by": "mine"})]})
    stop = run.run(turns(1))
    assert (stop.kind, stop.detail, len(run.bodies), len(run.ran)) == (
        "stopped",
        {"by": "mine"},
        requests,
        ran,
    )


def test_the_turn_gate_asks_the_request_gate_in_advance():
    run = Simulation((READ,), valves={"request": [lambda state: Stop("stopped") if state.requests else None]})
    assert run.run(turns(1)).kind == "stopped"
    assert run.ran == []


def test_a_valve_of_ones_own_comes_after_the_others():
    run = Simulation((READ,), Limits(max_turns=0), valves={"turn": [lambda state: Stop("stopped")]})
    assert run.run(turns(1)).kind == "max_turns"


def test_a_valve_that_says_nothing_lets_the_run_go_on():
    seen: list[State] = []
    run = Simulation((READ,), valves={name: [seen.append] for name in GATE_NAMES})
    assert run.run(turns(1)).kind == "completed"
    assert seen


class Broken:
    def __call__(self, state):
        raise KeyError("no such thing")


def says_yes(state):
    return True


@pytest.mark.parametrize("gate", GATE_NAMES)
@pytest.mark.parametrize(
    "valve, where, error",
    [
        (Broken(), "Broken", "KeyError: 'no such thing'"),
        (says_yes, "says_yes", "expected a Stop or None, got bool"),
    ],
)
def test_a_broken_valve_never_lets_a_run_pass(gate, valve, where, error):
    run = Simulation((READ,), valves={gate: [valve]})
    stop = run.run(turns(1))
    assert (stop.kind, stop.detail) == ("configuration_error", {"where": where, "error": error})
    assert run.ran == []


def test_the_gates_are_those_of_the_design():
    assert GATE_NAMES == ("request", "turn", "between")
    names = {
        gate: [type(valve).__name__ for valve in getattr(Gates.of(Limits(deadline=1)), gate)]
        for gate in GATE_NAMES
    }
    request = ["Requested", "Deadline", "MaxRequests", "MaxPauses", "Ceilings"]
    assert names == {
        "request": request,
        "turn": ["Requested", "Deadline", "MaxTurns", "Ceilings", "MaxCalls", *request, "NoProgress"],
        "between": ["Requested", "Deadline"],
    }


def test_a_stopped_run_stays_stopped():
    run = Simulation()
    stop = run.run([says("done")])
    assert next_step(run.state, run.env) == Done(stop)
