"""Other paths of the scripted server, its threads for the tool runner, and its life as a process."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_tool

from support.command import ServerProcess
from support.script import (
    Reply,
    asks,
    redacted_thinking,
    says,
    server_tool_result,
    server_tool_use,
    text,
    thinking,
    tool_use,
    usage,
)
from support.server import Server

pytest_plugins = ["support.fixtures"]
httpx2 = pytest.importorskip("httpx2")

Start = Callable[..., Server]
TOOLS: Any = [{"name": "clock", "input_schema": {"type": "object"}}]
HELLO: Any = [{"role": "user", "content": "hello"}]
FULL = Reply(
    "tool_use",
    [
        thinking("Let me see. \U0001f600", "c2lnbmF0dXJl"),
        redacted_thinking("ZGF0YQ=="),
        text("I look at the clock: áé\U0001f600."),
        server_tool_use("srvtoolu_1", "web_search", {"query": "time"}),
        server_tool_result("srvtoolu_1", "web_search"),
        tool_use("toolu_1", "clock", {"zone": "Europe/Madrid", "deep": {"list": [1, 2.5, None, "ñ"]}}),
        tool_use("toolu_2", "clock"),
    ],
    usage=usage(10, 30, cache_write=5, cache_read=7, thinking_tokens=3),
)


def client_of(server: Server | ServerProcess, **options: Any) -> Anthropic:
    return Anthropic(base_url=server.base_url, api_key="key", **{"max_retries": 0, **options})


def create(client: Anthropic, messages: Any = HELLO, **fields: Any) -> Any:
    fields = {"model": "claude-sonnet-5", "max_tokens": 100, "tools": TOOLS, **fields}
    return client.messages.create(messages=messages, **fields)


def final(client: Anthropic, messages: Any = HELLO, **fields: Any) -> Any:
    fields = {"model": "claude-sonnet-5", "max_tokens": 100, "tools": TOOLS, **fields}
    with client.messages.stream(messages=messages, **fields) as stream:
        return stream.get_final_message()


def test_tokens_are_counted_and_models_are_listed(model_server: Start) -> None:
    server = model_server([], count_tokens=lambda body: len(body["messages"]))
    with client_of(server) as client:
        counted = client.messages.count_tokens(model="claude-sonnet-5", messages=HELLO)
        assert counted.input_tokens == 1
        assert "claude-sonnet-5" in [model.id for model in client.models.list()]
        assert client.models.retrieve("claude-haiku-4-5").max_tokens == 64_000
        with pytest.raises(anthropic.NotFoundError, match="model: nobody"):
            client.models.retrieve("nobody")


@beta_tool
def clock(zone: str = "UTC") -> str:
    """Tell the time."""
    return f"noon in {zone}"


@beta_tool
def echo(text: str) -> str:
    """Say it again."""
    return text


def run_tools(client: Anthropic, tool: Any, model: str = "claude-sonnet-5", **options: Any) -> Any:
    runner = client.beta.messages.tool_runner(
        model=model, max_tokens=100, tools=[tool], messages=HELLO, **options
    )
    last: Any = None
    for reply in runner:
        last = reply.get_final_message() if options.get("stream") else reply
    return last


@pytest.mark.parametrize("supported", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_the_tool_runner_runs_with_threads_or_not(model_server: Start, supported: bool, stream: bool) -> None:
    script = [asks(tool_use("toolu_1", "clock")), asks(tool_use("toolu_2", "clock")), says("done")]
    server = model_server(script, support_threads=supported)
    with client_of(server) as client:
        assert run_tools(client, clock, stream=stream).content[0].text == "done"
    assert len(server.bodies[-1]["messages"]) == 5
    assert server.bodies[-1]["tools"][0]["name"] == "clock"


@pytest.mark.skipif(anthropic.__version__ < "2.10", reason="no message threads before 2.10")
def test_a_thread_continues_once_and_from_what_is_known(model_server: Start) -> None:
    server = model_server(lambda at, body: says(str(len(body["messages"]))))
    codes = []
    with client_of(server) as client:
        ask: Any = client.beta.messages.create
        fields = {"model": "m", "max_tokens": 9, "messages": HELLO, "betas": ["message-threads-2026-08-12"]}
        first = ask(**fields, thread={"type": "create"})
        onward = {"type": "continue", "previous_message_id": first.id}
        assert ask(**fields, thread=onward).content[0].text == "3"
        for thread in (onward, {**onward, "previous_message_id": "msg_none"}):
            with pytest.raises(anthropic.APIStatusError) as caught:
                ask(**fields, thread=thread)
            error: Any = caught.value
            codes.append((error.status_code, error.body["error"]["details"]["error_code"]))
    assert codes == [(400, "thread_already_continued"), (404, "thread_not_found")]
    assert len(server.requests[1].body["messages"]) == 1  # type: ignore[index]


async def ask_async(server: Server) -> list[str]:
    async with AsyncAnthropic(base_url=server.base_url, api_key="k") as client:
        asking = (
            client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": str(n)}])
            for n in range(8)
        )
        replies: list[Any] = await asyncio.gather(*asking)
    return [reply.content[0].text for reply in replies]


def test_the_async_client_is_served_at_the_same_time(model_server: Start) -> None:
    server = model_server(lambda at, body: says(body["messages"][0]["content"]))
    assert asyncio.run(ask_async(server)) == [str(n) for n in range(8)]


def test_a_process_serves_a_file_and_tells_what_it_saw(tmp_path: Any) -> None:
    script = tmp_path / "script.py"
    script.write_text("from support.script import says\nreplies = [says('from a file')]\n")
    with ServerProcess(str(script)) as server, client_of(server) as client:
        assert create(client).content[0].text == "from a file"
        with pytest.raises(anthropic.BadRequestError):
            create(client, [])
    assert server.summary["requests"] == 2
    assert server.summary["violations"][0]["problems"][0] == "messages: at least one message is required"


def test_a_process_serves_a_script_by_name() -> None:
    with ServerProcess("echo", "--no-key") as server, client_of(server) as client:
        assert json.loads(create(client).content[0].text)["content"] == "hello"
    assert server.summary == {"requests": 1, "violations": []}


def test_the_fast_server_plays_as_many_turns_as_the_model_s_name_says() -> None:
    with ServerProcess("bench") as server, client_of(server) as client:
        assert run_tools(client, echo, "bench-5").content[0].text == "done"
        assert run_tools(client, echo, "bench-3", stream=True).content[0].text == "done"
        assert run_tools(client, echo, "bench-0").stop_reason == "end_turn"
        messages: list[Any] = list(HELLO)
        inputs = []
        ask = final
        while (reply := ask(client, messages, model="bench-4")).stop_reason == "tool_use":
            ask = create if ask is final else final
            call = reply.content[0]
            inputs.append(call.input["text"])
            messages.append({"role": "assistant", "content": reply.content})
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "ok"}
            messages.append({"role": "user", "content": [result]})
        assert inputs == ["turn 0", "turn 1", "turn 2", "turn 3"]
        assert client.messages.count_tokens(model="m", messages=HELLO).input_tokens == 100
    assert server.summary["requests"] == 6 + 4 + 1 + 5 + 1
