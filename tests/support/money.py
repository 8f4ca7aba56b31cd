# mypy: ignore-errors
"""Runs that cost money, for tests of what they may spend."""

from brida.core.events import (
    Received,
    Said,
)
from brida.core.limits import Limits
from brida.core.prices import Prices
from brida.core.run import Execute, Send, next_step
from support.loop import FakeTool, Simulation, for_ever, says

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


def in_a_call(run):
    """The run, with its first call under way."""
    run.learn(Said(0, "task"))
    while not isinstance(step := next_step(run.state, run.env), Execute):
        run.learn(*step.events)
        if isinstance(step, Send):
            run.learn(Received(0, says(("c", "read", {}), usage={"input_tokens": 1, "output_tokens": 1})))
    run.learn(*step.events)
    return run
