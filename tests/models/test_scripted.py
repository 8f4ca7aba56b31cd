"""The scripted model: the public tool for testing an agent of one's own."""

import asyncio
import json
from typing import Any

import pytest

from brida import Agent, ConfigurationError, Delta, Fault, ModelFault, ScriptedModel, reply, tool, tool_use
from brida.core.events import Started
from brida.core.history import History
from brida.core.request import Head, Request


@tool(impact="read")
def read(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


def agent(model, **settings) -> Agent:
    return Agent(model=model, tools=[read], language="en", **settings)


def request(text: str = "hello") -> Request:
    started = Started(0.0, "run", "scripted", 100, 100)
    history = History([{"role": "user", "content": [{"type": "text", "text": text}]}])
    return Request(Head.of(started), 100, json.dumps(history.closed_messages()).encode())


def complete(model, text: str = "hello"):
    heard: list[Delta] = []
    return asyncio.run(model.complete(request(text), heard.append)), heard


def test_a_list_is_said_one_reply_a_request():
    model = ScriptedModel([reply("hm", tool_use("t1", "read", {"path": "a"})), reply("done")])
    outcome = agent(model).run_sync("go")
    assert (outcome.text, outcome.turns, outcome.requests) == ("done", 1, 2)
    assert "content of a" in str(outcome.messages[2]["content"])


def test_a_function_answers_the_body_of_each_request():
    def script(body):
        last = body["messages"][-1]["content"][-1]
        if last["type"] == "text":
            return reply(tool_use("t1", "read", {"path": last["text"]}))
        return reply(last["content"])

    assert agent(ScriptedModel(script)).run_sync("notes.txt").text == "content of notes.txt"


@pytest.mark.parametrize("said", [0, 1])
def test_a_missing_reply_is_loud(said):
    model = ScriptedModel([reply(tool_use("t1", "read", {"path": "a"}))][:said])
    words = f"the script has {said} replies and this is request {said + 1}"
    with pytest.raises(ConfigurationError, match=words) as caught:
        agent(model).run_sync("go")
    assert isinstance(caught.value.__cause__, AssertionError)
    assert caught.value.outcome is not None
    assert caught.value.outcome.stop.kind == "configuration_error"
    assert len(model.requests) == said + 1


def test_a_script_that_fails_is_loud():
    def script(body):
        raise KeyError("no such line")

    with pytest.raises(ConfigurationError, match="no such line"):
        agent(ScriptedModel(script)).run_sync("go")


def test_every_request_is_remembered_as_it_was_sent():
    model = ScriptedModel([reply(tool_use("t1", "read", {"path": "a"})), reply("done")], name="my-model")
    agent(model, system="Be brief.", max_tokens=77).run_sync("go")
    first, second = map(dict[str, Any], model.requests)
    assert first == {
        "model": "my-model",
        "system": "Be brief.",
        "tools": [read.definition],
        "max_tokens": 77,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}],
    }
    assert second["messages"][:1] == first["messages"]
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert len(first["messages"]) == 1  # what came later has not changed it


def test_a_fault_is_a_failed_attempt_and_the_next_line_is_the_next_attempt():
    model = ScriptedModel([Fault("overloaded", "busy", again=True, retry_after=0.0), reply("done")])
    outcome = agent(model).run_sync("go")
    assert (outcome.text, outcome.requests, len(model.requests)) == ("done", 1, 2)
    with pytest.raises(ModelFault, match="overloaded"):
        complete(ScriptedModel([Fault("overloaded", "busy", again=True)]))


def test_texts_are_heard_as_deltas():
    said, heard = complete(ScriptedModel([reply("one ", tool_use("t", "read"), "two")]))
    assert [block["type"] for block in said.content] == ["text", "tool_use", "text"]
    assert heard == [Delta("text", "one "), Delta("text", "two")]


@pytest.mark.parametrize(
    ("blocks", "stop_reason", "expected"),
    [
        ((), None, "end_turn"),
        (("text",), None, "end_turn"),
        (("text", tool_use("t", "read")), None, "tool_use"),
        ((tool_use("t", "read"),), "max_tokens", "max_tokens"),
        (("text",), "tool_use", "tool_use"),
    ],
)
def test_the_stop_reason_follows_from_the_blocks_unless_it_is_given(blocks, stop_reason, expected):
    assert reply(*blocks, stop_reason=stop_reason).stop_reason == expected


def test_a_reply_does_not_share_what_it_was_made_of():
    arguments = {"path": ["a"]}
    block = dict(tool_use("t", "read", arguments))
    made = reply(block)
    arguments["path"].append("b")
    block["name"] = "other"
    assert made.content == ({"type": "tool_use", "id": "t", "name": "read", "input": {"path": ["a"]}},)


def test_what_json_cannot_hold_is_no_reply():
    with pytest.raises(TypeError, match="not JSON serializable"):
        reply(tool_use("t", "read", {"path": object()}))


def test_usage_can_be_given_and_can_be_missing():
    counted = agent(ScriptedModel([reply("a", usage={"input_tokens": 3, "output_tokens": 4})])).run_sync("go")
    missing = agent(ScriptedModel([reply("a", usage=None)])).run_sync("go")
    assert (counted.usage.total, counted.usage.complete) == (7, True)
    assert missing.usage.complete is False


def test_one_model_serves_several_runs_and_is_never_closed():
    model = ScriptedModel(lambda body: reply(f"request {len(model.requests)}"))
    mine = agent(model)
    assert [mine.run_sync("go").text for _ in range(3)] == ["request 1", "request 2", "request 3"]
    assert (model.base_url, model.max_output_tokens, model.name) == (None, None, "scripted")


def test_the_models_own_limit_holds_the_growth_of_a_reply():
    cut = reply("cut", stop_reason="max_tokens")
    model = ScriptedModel([cut, cut, reply("whole")], max_output_tokens=150)
    agent(model, max_tokens=100).run_sync("go")
    assert [body["max_tokens"] for body in model.requests] == [100, 150]
