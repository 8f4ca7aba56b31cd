# mypy: disable-error-code="arg-type,attr-defined,func-returns-value,index,union-attr,var-annotated"
"""Runs through the public API: the agent, the local driver, real tools, a scripted model."""

import asyncio
import json
import threading
import time

import pytest

from brida import (
    Agent,
    Answer,
    ConfigurationError,
    Fault,
    Limits,
    Policy,
    ScriptedModel,
    Stop,
    reply,
    tool,
    tool_use,
)
from brida.core.events import CallFinished, CallStarted, Received, Stopped, decode_event, encode_event
from brida.core.state import fold
from brida.models.base import Delta
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
    assert sum(isinstance(event, Stopped) for event in outcome.events) == 1
    again = fold(decode_event(encode_event(event)) for event in outcome.events)
    assert again.history.closed_messages() == outcome.messages
    assert again.stop == outcome.stop
    json.dumps(outcome.to_json())


def results(message) -> list[tuple]:
    return [(b["tool_use_id"], b["content"], b.get("is_error", False)) for b in message["content"]]


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
