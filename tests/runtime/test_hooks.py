# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""What a caller brings along: settings, valves, listeners, scripts. Broken ones let nothing pass."""

import asyncio

import pytest

from brida import (
    Agent,
    ConfigurationError,
    ScriptedModel,
    Stop,
    reply,
    tool_use,
)
from brida.core.events import Received
from brida.runtime.outcome import Outcome
from support.agents import check, make, read


def test_a_custom_valve_stops_a_run_at_its_gate():
    def no_more_than_one_word(state):
        return Stop("stopped", {"reason": "too chatty"}) if len(state.text.split()) > 1 else None

    agent, model = make(
        [reply("two words", tool_use("t", "read", {"p": "x"}))], valves={"turn": [no_more_than_one_word]}
    )
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert (outcome.stop.kind, outcome.stop.detail) == ("stopped", {"reason": "too chatty"})


def test_a_valve_that_raises_never_lets_a_run_pass():
    def broken(state):
        raise ZeroDivisionError("oops")

    agent, _ = make([reply("hi")], valves={"request": [broken]})
    with pytest.raises(ConfigurationError, match="oops") as caught:
        agent.run_sync("go")
    assert caught.value.outcome.requests == 0


def test_a_listener_that_raises_ends_the_run_whole():
    def broken(what):
        if isinstance(what, Received):
            raise OSError("no space")

    agent, _ = make([reply(tool_use("t", "read", {"p": "x"}))])

    async def main() -> Outcome:
        return await agent.start("go", listener=broken)

    with pytest.raises(ConfigurationError, match="no space") as caught:
        asyncio.run(main())
    assert caught.value.outcome.messages[-1]["content"][0]["is_error"] is True


def test_a_model_without_a_line_left_is_loud():
    agent, _ = make([])
    with pytest.raises(ConfigurationError, match="the script has 0 replies"):
        agent.run_sync("go")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"extra": {"messages": []}}, "extra"),
        ({"valves": {"door": []}}, "valves"),
        ({"valves": {"turn": ["no"]}}, "valves"),
        ({"stop_sequences": [" "]}, "stop_sequences"),
        ({"language": "tlh"}, "tlh"),
        ({"tools": [read, read]}, "read"),
        ({"system": 5}, "system"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_runs(settings, named):
    with pytest.raises(ConfigurationError, match=named):
        Agent(**{"model": ScriptedModel([]), "language": "en", **settings})


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "robot", "content": "x"}],
        [{"role": "assistant", "content": "x"}],
        [{"role": "user", "content": []}],
    ],
)
def test_wrong_messages_are_named_by_their_index(messages):
    agent, _ = make([reply("x")])
    with pytest.raises(ConfigurationError, match=r"messages\[0\]"):
        agent.run_sync("go", messages=messages)


def test_a_blank_task_is_refused():
    agent, _ = make([reply("x")])
    with pytest.raises(ConfigurationError, match="task"):
        agent.run_sync(" \n")


def test_one_tool_and_one_valve_are_as_good_as_lists_of_one():
    model = ScriptedModel([reply(tool_use("t", "read", {"p": "x"}))])
    valves = {"turn": lambda state: Stop("stopped", {"reason": "enough"})}
    agent = Agent(model=model, tools=read, valves=valves, language="en")
    assert agent.run_sync("go").stop.detail == {"reason": "enough"}


def test_what_is_no_model_is_named():
    with pytest.raises(ConfigurationError, match="model"):
        Agent(model=None, language="en")
