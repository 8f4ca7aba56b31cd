# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""Ends that come from outside: a person, a caller, the clock."""

import asyncio
import threading
import time

import pytest

from brida import (
    Agent,
    Fault,
    Limits,
    ScriptedModel,
    reply,
    tool,
    tool_use,
)
from brida.core.events import CallStarted, Stopped
from brida.runtime.outcome import Outcome
from support.agents import check, make, read, results


@pytest.mark.parametrize("is_async", [True, False])
def test_a_tool_that_raises_keyboard_interrupt_interrupts_the_run(is_async):
    if is_async:

        @tool(impact="read")
        async def ctrl_c() -> None:
            raise KeyboardInterrupt
    else:

        @tool(impact="read")
        def ctrl_c() -> None:
            raise KeyboardInterrupt

    agent, model = make([reply(tool_use("a", "read", {"p": "x"}), tool_use("b", "ctrl_c"))], read, ctrl_c)
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert outcome.stop.kind == "interrupted"
    assert results(outcome.messages[-1])[0] == ("a", "content of x", False)


def test_cancelling_a_call_that_waits_for_ever_leaves_nothing_of_an_async_tool():
    ended = threading.Event()

    @tool(impact="read")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent, model = make([reply(tool_use("t1", "slow")), reply("hi")], slow)

    async def main() -> Outcome:
        started = asyncio.Event()
        run = agent.start("go", listener=lambda what: isinstance(what, CallStarted) and started.set())
        await started.wait()
        await asyncio.sleep(0)
        run.cancel()
        return await run

    outcome = asyncio.run(main())
    check(outcome, model)
    assert outcome.stop.kind == "interrupted"
    assert ended.is_set()
    assert "outcome unknown" in outcome.messages[-1]["content"][0]["content"]
    after = agent.run_sync("hello", messages=outcome.messages)
    check(after, model)
    assert model.requests[1]["messages"][-1]["content"][-1] == {"type": "text", "text": "hello"}


def test_a_sync_tool_that_ignores_cancelling_is_left_behind_and_said_to_be():
    release = threading.Event()

    @tool(impact="read", timeout=0.05)
    def stuck() -> None:
        release.wait(30)

    agent, model = make([reply(tool_use("t1", "stuck")), reply("end")], stuck)
    begin = time.monotonic()
    outcome = agent.run_sync("go")
    took = time.monotonic() - begin
    release.set()
    check(outcome, model)
    assert "may still be running, outcome unknown" in outcome.messages[2]["content"][0]["content"]
    assert took < 10


def test_a_soft_stop_lets_the_running_call_end_and_runs_no_further_group():
    ran = []
    running = threading.Event()

    @tool
    async def first() -> str:
        running.set()
        await asyncio.sleep(0)
        ran.append("first")
        return "first is done"

    @tool
    async def second() -> None:
        ran.append("second")

    agent, model = make(
        [reply(tool_use("a", "first"), tool_use("b", "second"))], first, second, yes_to=["first", "second"]
    )

    async def main() -> Outcome:
        run = agent.start("go", listener=lambda what: isinstance(what, CallStarted) and run.interrupt())
        return await run

    outcome = asyncio.run(main())
    check(outcome, model)
    assert ran == ["first"]
    heard = results(outcome.messages[-1])
    assert heard[0] == ("a", "first is done", False)
    assert "did not run: interrupted" in heard[1][1]


def test_a_soft_stop_abandons_a_request_at_once():
    class Silent(ScriptedModel):
        async def complete(self, request, on_delta):
            await asyncio.Event().wait()

    agent = Agent(model=Silent([]), language="en")

    async def main() -> Outcome:
        run = agent.start("go")
        asyncio.get_running_loop().call_soon(run.interrupt)
        return await run

    outcome = asyncio.run(main())
    assert outcome.stop.kind == "interrupted"
    assert outcome.usage.complete is False


def test_cancelling_the_awaiting_task_records_the_end_then_raises():
    seen = []
    started = asyncio.Event()

    @tool(impact="read")
    async def slow() -> None:
        started.set()
        await asyncio.Event().wait()

    agent, _ = make([reply(tool_use("t1", "slow"))], slow)

    async def main() -> None:
        async def watch() -> None:
            await agent.start("go", listener=seen.append)

        task = asyncio.create_task(watch())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert isinstance(seen[-1], Stopped)
    assert seen[-1].stop.kind == "interrupted"


def test_the_deadline_ends_a_call_and_then_the_run():
    @tool(impact="read")
    async def slow() -> None:
        await asyncio.Event().wait()

    agent, model = make([reply("so far", tool_use("t1", "slow"))], slow, limits=Limits(deadline=0.05))
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert (outcome.stop.kind, outcome.text) == ("deadline", "so far")
    assert outcome.seconds >= 0.05


def test_the_deadline_ends_a_request_and_a_wait_between_attempts():
    class Silent(ScriptedModel):
        async def complete(self, request, on_delta):
            await asyncio.Event().wait()

    outcome = Agent(model=Silent([]), limits=Limits(deadline=0.05), language="en").run_sync("go")
    assert outcome.stop.kind == "deadline"
    agent, model = make([Fault("overloaded", "busy", again=True)], limits=Limits(deadline=0.05))
    outcome = agent.run_sync("go")
    check(outcome, model)
    assert (outcome.stop.kind, outcome.requests) == ("deadline", 1)


def test_leaving_a_stream_early_cancels_the_run():
    ended = []

    @tool(impact="read")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    agent, _ = make([reply(tool_use("t", "slow"))], slow)

    async def main() -> None:
        stream = agent.stream("go")
        async for what in stream:
            if isinstance(what, CallStarted):
                await asyncio.sleep(0)
                break
        await stream.aclose()

    asyncio.run(main())
    assert ended == [True]
