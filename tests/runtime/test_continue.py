# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""Going on from an outcome, and what a notebook shows of it."""

import asyncio
from io import StringIO

import pytest
from rich.console import Console
from rich.pretty import Pretty

from brida import Answer, ConfigurationError, Limits, Outcome, reply, tool, tool_use
from brida.core.events import Resumed, Started
from support.agents import check, make


def test_an_outcome_goes_on_with_the_same_history():
    agent, model = make([reply("noon"), reply("one")])
    first = agent.run_sync("what time is it?")
    second = first.continue_sync("and in an hour?")
    check(second, model)
    assert second.text == "one"
    assert [m["role"] for m in model.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert second.run_id == first.run_id


def test_an_outcome_goes_on_within_an_event_loop():
    agent, _ = make([reply("noon"), reply("one"), reply("two")])

    async def talk():
        first = await agent.run("what time is it?")
        second = await first.continue_("and in an hour?")
        return await second.continue_("and then?")

    assert asyncio.run(talk()).text == "two"


def test_a_session_can_go_on_from_one_outcome_more_than_once():
    agent, _ = make([reply("noon"), reply("one"), reply("eleven")])
    first = agent.run_sync("what time is it?")
    assert first.continue_sync("in an hour?").text == "one"
    again = first.continue_sync("an hour ago?")
    assert again.text == "eleven"
    assert len(again.messages) == 4


def test_each_text_has_fresh_turns_and_the_tokens_are_shared():
    large = {"input_tokens": 300, "output_tokens": 5}
    asks = [reply(tool_use(f"t{n}", "read", {"p": str(n)}), usage=large) for n in range(9)]
    agent, _ = make(
        [asks[0], reply("a", usage=large), asks[1], reply("b", usage=large)],
        max_tokens=10,
        limits=Limits(max_turns=1, max_tokens_total=1_500),
    )
    first = agent.run_sync("one")
    second = first.continue_sync("two")
    assert (second.stop.kind, second.turns, second.usage.total) == ("completed", 1, 1_220)
    assert second.continue_sync("three").stop.kind == "token_budget"


def test_the_budget_can_be_renewed():
    large = {"input_tokens": 1_300, "output_tokens": 5}
    limits = Limits(max_tokens_total=1_400)
    agent, _ = make([reply("a", usage=large), reply("b")], max_tokens=10, limits=limits)
    first = agent.run_sync("one")
    assert first.continue_sync("two").stop.kind == "token_budget"
    second = first.continue_sync("two", new_budget=True)
    assert (second.stop.kind, second.usage.total) == ("completed", 1_320)


def test_an_answer_for_the_session_is_not_asked_again():
    questions = []

    def approve(question):
        questions.append(question)
        return Answer(True, session=True)

    @tool
    def write(p: str) -> str:
        return "written"

    agent, _ = make(
        [
            reply(tool_use("t1", "write", {"p": "a"})),
            reply("a"),
            reply(tool_use("t2", "write", {"p": "b"})),
            reply("b"),
        ],
        write,
        approve=approve,
    )
    agent.run_sync("one").continue_sync("two")
    assert len(questions) == 1


def test_a_listener_hears_that_the_run_goes_on():
    agent, _ = make([reply("a"), reply("b")])
    first = agent.run_sync("one")
    heard = []

    async def go_on():
        return await first.continue_("two", listener=heard.append)

    asyncio.run(go_on())
    assert isinstance(heard[0], Resumed)
    assert not any(isinstance(event, Started) for event in heard)


def test_time_never_runs_backwards_in_a_session():
    agent, _ = make([reply("a"), reply("b")])
    second = agent.run_sync("one").continue_sync("two")
    times = [event.at for event in second.events]
    assert times == sorted(times)


def test_a_blank_text_is_refused():
    agent, _ = make([reply("a")])
    with pytest.raises(ConfigurationError, match="task: expected a text"):
        agent.run_sync("one").continue_sync(" ")


def test_an_outcome_that_no_agent_made_says_how_to_go_on():
    agent, _ = make([reply("a")])
    outcome = agent.run_sync("one")
    alone = Outcome(
        **{name: getattr(outcome, name) for name in outcome.__dataclass_fields__ if not name.startswith("_")}
    )
    with pytest.raises(RuntimeError, match="messages="):
        alone.continue_sync("two")


def test_a_run_within_a_running_loop_has_a_thread_of_its_own():
    agent, _ = make([reply("a"), reply("b")])

    async def cell():
        return agent.run_sync("one").continue_sync("two")

    assert asyncio.run(cell()).text == "b"


def test_a_notebook_shows_the_text_and_the_ending_and_no_markup_of_the_model():
    agent, _ = make([reply("<script>alert(1)</script>")])
    shown = agent.run_sync("one")._repr_html_()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<script" not in shown
    assert "completed" in shown


def test_rich_shows_what_matters():
    agent, _ = make([reply("hello")])
    screen = StringIO()
    Console(file=screen, width=200).print(Pretty(agent.run_sync("one")))
    assert "text='hello'" in screen.getvalue()
    assert "tokens=15" in screen.getvalue()
    assert "events" not in screen.getvalue()


def test_an_agent_can_be_replaced_by_one_that_differs_in_a_setting():
    agent, _ = make([reply("a")], limits=Limits(max_turns=3), system="be brief")
    other = agent.replaced(limits=Limits(max_turns=5))
    assert (other.limits.max_turns, other.system, list(other.tools)) == (5, "be brief", list(agent.tools))
    assert agent.limits.max_turns == 3
    with pytest.raises(TypeError, match="max_truns"):
        agent.replaced(max_truns=5)
