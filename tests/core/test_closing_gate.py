"""What a closing reply is asked before, and what its request leaves out."""

from brida.core.limits import Limits
from brida.core.stops import Stop
from support.loop import FakeTool, Simulation, says

READ = FakeTool("read")
ENOUGH = Stop("stopped", {"reason": "quota"})


def at_the_last_turn(**settings):
    run = Simulation((READ,), limits=Limits(max_turns=1, closing_reply=200), **settings)
    stop = run.run([says(("a", "read", {"p": 1})), says(("b", "read", {"p": 2})), says("so far")])
    return run, stop


def test_a_valve_of_ones_own_before_requests_is_asked_before_it_too():
    run, stop = at_the_last_turn(valves={"request": [lambda state: ENOUGH if state.requests >= 2 else None]})
    assert (stop.kind, len(run.bodies), run.state.closing_requests) == ("max_turns", 2, 0)
    run, stop = at_the_last_turn(valves={"request": [lambda state: None]})
    assert (stop.kind, len(run.bodies), run.state.closing_requests) == ("max_turns", 3, 1)


def test_it_is_no_longer_than_the_model_allows():
    run, _ = at_the_last_turn(start={"max_tokens": 50, "max_tokens_ceiling": 90})
    assert run.bodies[-1]["max_tokens"] == 90


def test_it_is_prose_where_the_answer_is_held_to_a_schema():
    config = {"format": {"type": "json_schema", "schema": {}}, "effort": "low"}
    run, _ = at_the_last_turn(start={"extra": {"output_config": config}})
    assert run.bodies[0]["output_config"] == config
    assert run.bodies[-1]["output_config"] == {"effort": "low"}
