# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""Runs through the public API: the agent, the local driver, real tools, a scripted model."""

import asyncio

import pytest

from brida import (
    Limits,
    Policy,
    reply,
    tool,
    tool_use,
)
from brida.core.events import CallFinished, Stopped
from brida.models.base import Delta
from brida.runtime.outcome import Outcome
from support.agents import check, make, results


def test_a_run_calls_its_tools_and_gives_everything_back():
    agent, model = make([reply("hm", tool_use("t1", "read", {"p": "a"})), reply("done")])
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert (outcome.text, outcome.stop.kind, outcome.turns, outcome.requests) == ("done", "completed", 1, 2)
    assert outcome.usage.total == 30
    assert results(outcome.messages[2]) == [("t1", "content of a", False)]


def test_a_stopped_run_can_be_continued_from_its_messages():
    agent, model = make(
        lambda body: reply(
            "working", tool_use(f"t{len(body['messages'])}", "read", {"p": str(len(body["messages"]))})
        ),
        limits=Limits(max_turns=1),
    )
    first = agent.run_sync("go")
    check(first, model)
    assert (first.stop.kind, first.text, [note.id for note in first.pending]) == (
        "max_turns",
        "working",
        ["t3"],
    )
    second = agent.run_sync("go on", messages=first.messages)
    check(second, model)
    assert [block["type"] for block in model.requests[2]["messages"][-1]["content"]] == [
        "tool_result",
        "text",
    ]
    assert "did not run: turn limit" in model.requests[2]["messages"][-1]["content"][0]["content"]


def test_siblings_keep_their_results_when_one_fails():
    @tool(impact="read")
    def ok() -> str:
        return "fine"

    @tool(impact="read")
    def breaks() -> str:
        raise ValueError("broken pipe dream")

    @tool(impact="read")
    async def slow() -> str:
        await asyncio.sleep(0)
        return "slow but fine"

    calls = [
        tool_use("a", "ok"),
        tool_use("b", "breaks"),
        tool_use("d", "no_such_tool"),
        tool_use("e", "slow"),
    ]
    agent, model = make([reply(*calls), reply("end")], ok, breaks, slow)
    outcome = agent.run_sync("go")
    check(outcome, model)
    heard = {call_id: (content, error) for call_id, content, error in results(outcome.messages[2])}
    assert heard["a"] == ("fine", False)
    assert heard["e"] == ("slow but fine", False)
    assert heard["b"][1] is True
    assert "ValueError" in heard["b"][0]
    assert "broken pipe dream" in heard["b"][0]
    assert "Traceback" not in heard["b"][0]
    assert "breaks, ok, slow" in heard["d"][0]


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), asyncio.CancelledError(), GeneratorExit()])
def test_no_exception_of_a_tool_ends_the_run(error):
    @tool(impact="read")
    def breaks() -> None:
        raise error

    agent, model = make([reply(tool_use("a", "breaks")), reply("end")], breaks)
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert outcome.stop.kind == "completed"
    assert [note.id for note in outcome.failed_calls] == ["a"]


def test_reads_run_together_and_a_write_is_a_barrier():
    together, order = asyncio.Event(), []
    waiting = []

    @tool(impact="read")
    async def peek(n: int) -> str:
        waiting.append(n)
        order.append(f"peek {n}")
        if len(waiting) == 2:
            together.set()
        await together.wait()
        return str(n)

    @tool(impact="idempotent")
    async def put() -> str:
        order.append("put")
        return "put"

    calls = [
        tool_use("a", "peek", {"n": 1}),
        tool_use("b", "peek", {"n": 2}),
        tool_use("c", "put"),
        tool_use("d", "peek", {"n": 3}),
    ]
    agent, model = make([reply(*calls), reply("end")], peek, put, policy=Policy({"put": "allow"}))
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert order == ["peek 1", "peek 2", "put", "peek 3"]
    assert [call_id for call_id, _, _ in results(outcome.messages[2])] == ["a", "b", "c", "d"]


def test_run_sync_works_inside_a_running_loop():
    agent, _ = make([reply("inside")])

    async def main() -> Outcome:
        return agent.run_sync("go")

    assert asyncio.run(main()).text == "inside"


def test_a_stream_gives_events_deltas_and_the_outcome_last():
    agent, _ = make([reply("hello")])

    async def main() -> list:
        return [what async for what in agent.stream("go")]

    seen = asyncio.run(main())
    assert Delta("text", "hello") in seen
    assert isinstance(seen[-1], Outcome)
    assert isinstance(seen[-2], Stopped)


def test_a_function_behind_a_plain_wrapper_is_awaited():
    async def inner() -> str:
        return "awaited"

    @tool(impact="read")
    def outer() -> object:
        return inner()

    agent, model = make([reply(tool_use("t", "outer")), reply("end")], outer)
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert results(outcome.messages[2]) == [("t", "awaited", False)]


def test_many_results_of_a_turn_share_the_turns_limit():
    @tool(impact="read")
    def big(n: int) -> str:
        return "x" * 5_000_000

    calls = [tool_use(f"t{n}", "big", {"n": n}) for n in range(20)]
    agent, model = make([reply(*calls), reply("end")], big)
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert sum(len(content) for _, content, _ in results(outcome.messages[2])) <= 131_072


def test_two_hundred_runs_in_one_loop_do_not_disturb_each_other():
    def script(body):
        said = body["messages"][0]["content"][0]["text"]
        turns = len(body["messages"]) // 2
        return reply(said) if turns == 3 else reply(tool_use(f"t{turns}", "read", {"p": f"{said} {turns}"}))

    agent, model = make(script)

    async def main() -> list[Outcome]:
        return await asyncio.gather(*(agent.run(f"task {n}") for n in range(200)))

    outcomes = asyncio.run(main())
    assert [outcome.text for outcome in outcomes] == [f"task {n}" for n in range(200)]
    check(outcomes[7], model)


def test_results_keep_the_order_of_the_calls_whatever_finishes_first():
    gate = asyncio.Event()

    @tool(impact="read")
    async def late() -> str:
        await gate.wait()
        return "late"

    @tool(impact="read")
    async def early() -> str:
        gate.set()
        return "early"

    agent, model = make([reply(tool_use("a", "late"), tool_use("b", "early")), reply("end")], late, early)
    outcome = agent.run_sync("go")
    check(outcome, model)
    finished = [event.call_id for event in outcome.events if isinstance(event, CallFinished)]
    assert finished == ["b", "a"]
    assert [content for _, content, _ in results(outcome.messages[2])] == ["late", "early"]
