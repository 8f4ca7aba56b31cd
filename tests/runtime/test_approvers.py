# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""Who is asked through the public API: what an answer allows, and what is no answer."""

import pytest

from brida import (
    Agent,
    Answer,
    ConfigurationError,
    ScriptedModel,
    reply,
    tool,
    tool_use,
)
from support.agents import check, make, read, results


def test_one_of_three_calls_is_declined_and_the_others_run():
    effects = []

    @tool(impact="high")
    def write(p: int) -> str:
        effects.append(p)
        return "written"

    def approve(question):
        return Answer(question.arguments["p"] != 1, reason="not today")

    calls = [
        tool_use("a", "write", {"p": 1}),
        tool_use("b", "write", {"p": 2}),
        tool_use("c", "read", {"p": "x"}),
    ]
    agent, model = make([reply(*calls), reply("ok")], write, read, approve=approve)
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert effects == [2]
    heard = results(model.requests[1]["messages"][-1])
    assert [call_id for call_id, _, _ in heard] == ["a", "b", "c"]
    assert heard[0][2] is True
    assert "not today" in heard[0][1]
    assert "did not run" in heard[0][1]
    assert [note.id for note in outcome.declined] == ["a"]


@pytest.mark.parametrize("wrong", ["yes", None, 1, lambda: True])
def test_an_approver_that_answers_nonsense_never_allows(wrong):
    effects = []

    @tool
    def write() -> None:
        effects.append(1)

    agent, model = make([reply(tool_use("t", "write"))], write, approve=lambda question: wrong)
    with pytest.raises(ConfigurationError, match="approve") as caught:
        agent.run_sync("go")
    assert effects == []
    check(caught.value.outcome, model)


def test_an_approver_that_raises_is_a_configuration_error_with_the_outcome():
    @tool
    def write() -> None:
        raise AssertionError("must not run")

    async def approve(question):
        raise RuntimeError("no connection")

    agent, model = make([reply("text", tool_use("t", "write"))], write, approve=approve)
    with pytest.raises(ConfigurationError, match="no connection") as caught:
        agent.run_sync("go")
    assert caught.value.outcome.text == "text"
    check(caught.value.outcome, model)


def test_a_session_answer_holds_for_the_run_and_not_for_another():
    asked = []

    @tool
    def write(p: int) -> str:
        return "ok"

    def approve(question):
        asked.append(question.arguments["p"])
        return Answer(True, session=True)

    script = [reply(tool_use("a", "write", {"p": 1})), reply(tool_use("b", "write", {"p": 2})), reply("end")]
    model = ScriptedModel([*script, *script])
    agent = Agent(model=model, tools=[write], approve=approve, language="en")
    agent.run_sync("go")
    assert asked == [1]
    agent.run_sync("go")
    assert asked == [1, 1]
