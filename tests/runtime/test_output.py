# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""Structured answers through the public API: by a tool of the harness, and by the model itself."""

import asyncio
from datetime import date
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, RootModel, field_validator

from brida import (
    Agent,
    AnthropicModel,
    ConfigurationError,
    Limits,
    Policy,
    ScriptedModel,
    reply,
    tool,
    tool_use,
)
from support.agents import check, make, read, results
from support.script import says
from support.server import Server


class Order(BaseModel):
    """An order."""

    number: int
    status: str = Field(description="Where it is.")
    due: date | None = None


RIGHT = {"number": 4412, "status": "sent", "due": "2026-12-24"}
ORDER = Order(number=4412, status="sent", due=date(2026, 12, 24))


def test_a_valid_call_is_the_answer():
    agent, model = make([reply(tool_use("t1", "give_answer", RIGHT))])
    outcome = agent.run_sync("order 4412?", output=Order)
    check(outcome, model)
    assert (outcome.output, outcome.stop.kind, outcome.requests) == (ORDER, "completed", 1)
    offered = model.requests[0]["tools"][-1]
    assert offered["name"] == "give_answer"
    assert offered["input_schema"]["properties"]["status"] == {
        "description": "Where it is.",
        "type": "string",
    }
    assert offered["description"].endswith("once you have it.\nAn order.")
    assert "tool_choice" not in model.requests[0], "which is auto"


def test_a_wrong_call_is_answered_with_the_errors():
    agent, model = make(
        [
            reply(tool_use("t1", "give_answer", {"number": "4412"})),
            reply(tool_use("t2", "give_answer", RIGHT)),
        ]
    )
    outcome = agent.run_sync("order 4412?", output=Order)
    check(outcome, model)
    assert outcome.output == ORDER
    ((_, heard, is_error),) = results(model.requests[1]["messages"][-1])
    assert is_error
    assert "number: should be" in heard
    assert "status: is missing" in heard


def test_an_end_without_the_answer_is_answered_once():
    agent, model = make([reply("sent"), reply(tool_use("t1", "give_answer", RIGHT))])
    assert agent.run_sync("order 4412?", output=Order).output == ORDER
    agent, model = make([reply("sent"), reply("sent, I said")])
    outcome = agent.run_sync("order 4412?", output=Order)
    check(outcome, model)
    assert (outcome.output, outcome.stop.kind, outcome.text) == (None, "malformed_reply", "sent, I said")


def test_without_an_output_there_is_no_such_tool():
    agent, model = make([reply("sent")])
    outcome = agent.run_sync("order 4412?")
    assert outcome.output is None
    assert [t["name"] for t in model.requests[0]["tools"]] == list(agent.tools)


def test_a_session_gives_an_answer_to_each_text():
    agent, _ = make(
        [
            reply(tool_use("t1", "give_answer", RIGHT)),
            reply(tool_use("t2", "give_answer", {**RIGHT, "number": 1})),
        ]
    )
    first = agent.run_sync("order 4412?", output=Order)
    assert first.continue_sync("and order 1?").output.number == 1


def test_a_stream_ends_with_the_answer():
    agent, _ = make([reply(tool_use("t1", "give_answer", RIGHT))])

    async def last():
        return [item async for item in agent.stream("order 4412?", output=Order)][-1]

    assert asyncio.run(last()).output == ORDER


class Strict(BaseModel):
    share: Annotated[float, Field(ge=0, le=1)]


def test_constraints_hold():
    agent, _ = make(
        [
            reply(tool_use("t1", "give_answer", {"share": 2})),
            reply(tool_use("t2", "give_answer", {"share": 1})),
        ]
    )
    assert agent.run_sync("share?", output=Strict).output == Strict(share=1)


@pytest.mark.parametrize("output", [int, "Order", Order(number=1, status="x"), RootModel[list[int]]])
def test_what_is_no_model_with_fields_is_refused(output):
    agent, _ = make([reply("a")])
    with pytest.raises(ConfigurationError, match="output: "):
        agent.run_sync("order?", output=output)


def test_a_tool_of_ones_own_may_not_take_the_name():
    @tool(name="give_answer", impact="read")
    def mine() -> str:
        return "x"

    agent, _ = make([reply("a")], mine)
    with pytest.raises(ConfigurationError, match="give_answer"):
        agent.run_sync("order?", output=Order)


# --- a model that can be held to a schema -----------------------------------------------------------------


class HeldModel(ScriptedModel):
    """A scripted model that says it can be held to a schema."""

    def answer_fields(self, output, extra):
        return {**extra, "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}}


def held(script):
    model = HeldModel(script)
    return Agent(model=model, tools=[read], limits=Limits()), model


def test_the_text_of_such_a_model_is_the_answer():
    agent, model = held([reply('{"number": 4412, "status": "sent", "due": "2026-12-24"}')])
    assert agent.run_sync("order 4412?", output=Order).output == ORDER
    assert [tool["name"] for tool in model.requests[0]["tools"]] == ["read"]
    assert model.requests[0]["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    "wrong, why", [("sent", "it is no JSON"), ('{"number": 4412}', "status: is missing"), ("[1]", "object")]
)
def test_a_text_that_does_not_fit_is_answered_once(wrong, why):
    agent, model = held([reply(wrong), reply('{"number": 1, "status": "x"}')])
    assert agent.run_sync("order 4412?", output=Order).output == Order(number=1, status="x")
    assert why in model.requests[1]["messages"][-1]["content"][0]["text"]
    agent, _ = held([reply(wrong), reply(wrong)])
    assert agent.run_sync("order 4412?", output=Order).stop.kind == "malformed_reply"


def test_a_call_of_the_tool_that_was_not_offered_is_a_call_of_no_tool():
    agent, model = held([reply(tool_use("t1", "give_answer", RIGHT)), reply('{"number": 1, "status": "x"}')])
    check(agent.run_sync("order 4412?", output=Order), model)
    ((_, heard, is_error),) = results(model.requests[1]["messages"][-1])
    assert is_error
    assert "no tool named give_answer" in heard


def test_what_is_sent_to_anthropic_is_a_schema_that_its_own_sdk_has_made():
    with Server([says('{"number": 4412, "status": "sent", "due": null}')]) as server:
        model = AnthropicModel(
            "claude-sonnet-5", api_key="sk-ant-canary", base_url=server.base_url, structured_output=True
        )
        agent = Agent(model=model, tools=[], extra={"output_config": {"effort": "low"}})
        outcome = agent.run_sync("order 4412?", output=Order)
    assert outcome.output == Order(number=4412, status="sent")
    config = server.bodies[0]["output_config"]
    assert config["effort"] == "low"
    assert config["format"]["schema"]["additionalProperties"] is False


def test_a_server_that_is_not_anthropics_gets_the_tool():
    assert AnthropicModel("m", base_url="http://127.0.0.1:1").structured_output is False
    assert AnthropicModel("m").structured_output is True
    assert AnthropicModel("m", structured_output=False).structured_output is False


def test_the_outcome_as_json_holds_the_answer():
    agent, _ = make([reply(tool_use("t1", "give_answer", RIGHT))])
    assert agent.run_sync("order 4412?", output=Order).to_json()["output"] == RIGHT
    agent, _ = make([reply("sent")])
    assert agent.run_sync("order 4412?").to_json()["output"] is None


class Moody(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def once(cls, n):
        seen.append(n)
        if len(seen) > 2:  # it was checked, and it was given
            raise ValueError("not again")
        return n


seen: list[int] = []


def test_a_validator_that_changes_its_mind_loses_no_outcome():
    seen.clear()
    agent, model = make([reply(tool_use("t1", "give_answer", {"n": 1}))])
    with pytest.raises(ConfigurationError, match="output: ValidationError") as raised:
        agent.run_sync("go", output=Moody)
    check(raised.value.outcome, model)
    assert raised.value.outcome.completed


@pytest.mark.parametrize("tier", ["deny", "ask"])
def test_a_policy_that_keeps_the_answer_back_is_said_before_anything_runs(tier):
    agent, model = make([], policy=Policy({"*": tier}))
    with pytest.raises(ConfigurationError, match="keeps the model from giving its answer"):
        agent.run_sync("go", output=Order)
    assert model.requests == []


def test_a_closing_reply_shorter_than_its_thinking_is_refused():
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    with pytest.raises(ConfigurationError, match="budget_tokens"):
        make([], extra=thinking, limits=Limits(closing_reply=1024))
    make([], extra=thinking, limits=Limits(closing_reply=2048))
