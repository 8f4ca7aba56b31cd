"""Every sequence of replies to a run that must give an answer and may close: it ends, within its bounds."""

import itertools

import pytest

from brida.core.events import ANSWER_TOOL, Fault
from brida.core.limits import Limits
from support.loop import FakeTool, Simulation, says

LENGTH = 4
LIMITS = Limits(
    max_turns=2, max_requests=4, max_attempts=2, max_pauses=1, max_tokens_total=8_000, closing_reply=40
)
TOOLS = (FakeTool("read"), FakeTool(ANSWER_TOOL, required=("n",)))
MUCH = {"input_tokens": 1_500, "output_tokens": 20}
REPLIES = {
    "call": lambda n: says("look", (f"c{n}", "read", {"n": n}), usage=MUCH),
    "answer": lambda n: says((f"c{n}", ANSWER_TOOL, {"n": n}), (f"d{n}", "read", {"n": n})),
    "wrong answer": lambda n: says((f"c{n}", ANSWER_TOOL, {"m": n})),
    "right text": lambda n: says("right"),
    "wrong text": lambda n: says("wrong"),
    "cut": lambda n: says("half", stop="max_tokens"),
    "pause": lambda n: says("wait", stop="pause_turn"),
    "lost": lambda n: Fault("cut", "cut", again=True),
    "malformed": lambda n: says("I call read()", stop="tool_use"),
}
STOPS = {
    *("completed", "max_turns", "max_requests", "token_budget"),
    *("max_pauses", "model_error", "truncated", "malformed_reply"),
}


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["tool", "text"])
def test_every_run_ends_and_completes_only_with_its_answer(form):
    seen = set()
    for kinds in itertools.product(REPLIES, repeat=LENGTH):
        run = Simulation(
            TOOLS if form == "tool" else TOOLS[:1],
            LIMITS,
            settings={"check_answer": lambda text, say: () if text.endswith("right") else ("wrong",)},
            start={"answer": form},
        )

        def model(body, run=run, kinds=kinds):
            n = len(run.bodies)
            return REPLIES[kinds[min(n, LENGTH) - 1]](n)

        stop, state = run.run(model), run.state
        seen.add(stop.kind)
        assert state.turns <= LIMITS.max_turns
        assert state.requests <= LIMITS.requests
        assert len(run.bodies) <= LIMITS.requests * LIMITS.max_attempts + state.closing_requests
        assert state.closing_requests == 0 or stop.kind in ("max_turns", "token_budget")
        if stop.kind == "completed":
            right = state.answer is not None if form == "tool" else state.text.endswith("right")
            assert right, kinds
        else:
            assert state.answer is None, kinds
    assert seen == STOPS
