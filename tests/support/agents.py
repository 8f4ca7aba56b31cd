"""What tests of the agent share: a tool, an agent on a scripted model, what holds after every run."""

import itertools
import json

from brida import Agent, ScriptedModel, tool
from brida.core.codec import decode_event, encode_event
from brida.core.events import Resumed, Stopped
from brida.core.state import fold
from brida.runtime.outcome import Outcome
from support.validator import problems


@tool(impact="read")
def read(p: str = "") -> str:
    """Read something."""
    return f"content of {p}"


def make(script, *tools, **settings) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel(script)
    return Agent(model=model, tools=tools or (read,), language="en", **settings), model


def check(outcome: Outcome, model: ScriptedModel) -> None:
    """What holds after every run: valid requests, one ending, a journal that gives the same again."""
    for body in model.requests:
        assert problems(dict(body), paused=True) == []
    stops = sum(isinstance(event, Stopped) for event in outcome.events)
    assert stops == 1 + continuations(outcome.events)
    again = fold(decode_event(encode_event(event)) for event in outcome.events)
    assert again.messages == outcome.messages
    assert again.stop == outcome.stop
    json.dumps(outcome.to_json())


def continuations(events) -> int:
    """How often a run went on that had stopped; not counted: one whose process had died."""
    pairs = itertools.pairwise(event for event in events if isinstance(event, Stopped | Resumed))
    return sum(isinstance(one, Stopped) and isinstance(two, Resumed) for one, two in pairs)


def results(message) -> list[tuple]:
    return [(b["tool_use_id"], b["content"], b.get("is_error", False)) for b in message["content"]]
