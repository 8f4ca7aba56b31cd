"""The Anthropic model, through the real SDK, against a real server that misbehaves in known ways."""

import asyncio
import threading

import anthropic
import pytest

from brida.core.encoding import encode
from brida.core.events import Declaration, Started
from brida.core.request import Head, Request
from brida.errors import ConfigurationError, ModelFault
from brida.models.anthropic import AnthropicModel, credential_available
from brida.models.base import Delta
from support.script import (
    CloseConnection,
    CutStream,
    Error,
    RawBody,
    Reply,
    Slow,
    asks,
    overloaded,
    rate_limited,
    says,
    server_tool_use,
    spend_limit,
    text,
    thinking,
    tool_use,
    truncated_tool_use,
    usage,
)
from support.server import Server
from support.wire import stream_events

both = pytest.mark.parametrize("stream", [True, False])


def request(**settings) -> Request:
    tool = Declaration("read", {"name": "read", "description": "Read.", "input_schema": {"type": "object"}})
    values = {
        "at": 0.0,
        "run_id": "r",
        "model": "m",
        "max_tokens": 100,
        "max_tokens_ceiling": 100,
        "tools": (tool,),
    }
    head = Head.of(Started(**{**values, **settings}))
    return Request(
        head, 100, encode([{"role": "user", "content": [{"type": "text", "text": "hi \u2028 caf\u00e9"}]}])
    )


def ask(server: Server, *, stream: bool = True, **settings):
    """One attempt; gives the reply or the fault, and the deltas that were heard."""
    heard: list[Delta] = []

    async def main():
        model = AnthropicModel("m", base_url=server.base_url, stream=stream, **settings)
        try:
            return await model.complete(request(), heard.append)
        except ModelFault as error:
            return error.fault
        finally:
            await model.close()

    return asyncio.run(main()), heard


@both
def test_the_request_leaves_as_the_bytes_that_were_encoded(stream):
    with Server([says("hello")], require_key=False) as server:
        ask(server, stream=stream)
        sent = server.requests[0]
    assert sent.raw == request().body(stream=stream)
    assert sent.headers["content-type"] == "application/json"
    assert sent.path == "/v1/messages"


@both
def test_blocks_come_back_as_they_were_sent(stream):
    blocks = [
        thinking("let me think", "c2ln"),
        text("I look"),
        {"type": "brand_new_block", "deep": {"a": [1, 2.5, None]}, "text": None},
        server_tool_use("srvtoolu_1", "web_search", {"query": "caf\u00e9"}),
        tool_use("toolu_1", "read", {"p": "a", "n": 1.5, "deep": {"list": [1, {"x": None}]}}),
        tool_use("toolu_2", "read"),
    ]
    with Server([Reply("tool_use", blocks)], require_key=False) as server:
        said, _ = ask(server, stream=stream)
    assert said.stop_reason == "tool_use"
    assert [plain(block) for block in said.content] == [plain(block) for block in blocks]


def plain(block):
    return {name: value for name, value in block.items() if name not in ("caller", "citations")}


def test_text_is_heard_as_it_streams():
    with Server([says("one two three four five")], require_key=False) as server:
        said, heard = ask(server)
    assert "".join(delta.text for delta in heard if delta.kind == "text") == "one two three four five"
    assert said.content[0]["text"] == "one two three four five"


@both
def test_counters_are_cumulative_and_the_last_ones_hold(stream):
    with Server([says("x", usage=usage(25, 15, cache_read=7))], require_key=False) as server:
        said, _ = ask(server, stream=stream)
    assert (said.usage["input_tokens"], said.usage["output_tokens"]) == (25, 15)
    assert said.usage["cache_read_input_tokens"] == 7


@both
@pytest.mark.parametrize("reason", [None, "brand_new_reason"])
def test_a_whole_reply_with_an_odd_stop_reason_is_a_reply(stream, reason):
    with Server([Reply(reason, [text("half")])], require_key=False) as server:
        said, _ = ask(server, stream=stream)
    assert said.stop_reason == reason


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "model_context_window_exceeded"])
def test_a_truncated_call_is_left_to_the_table(reason):
    cut = truncated_tool_use("toolu_1", "write", '{"path":"/etc/x","n":12')
    with Server([Reply(reason, [text("half"), cut])], require_key=False) as server:
        said, _ = ask(server)
    assert (said.stop_reason, said.content[1]["input"]) == (reason, {})


def test_broken_arguments_in_a_reply_that_stopped_for_its_calls_are_a_malformed_body():
    cut = truncated_tool_use("toolu_1", "write", '{"path":"/etc/x","n":12')
    with Server([Reply("tool_use", [cut])], require_key=False) as server:
        fault, _ = ask(server)
    assert (fault.kind, fault.again, fault.billed) == ("malformed_body", True, True)


STATUSES = [
    (Error(400), "invalid_request", False),
    (Error(401), "authentication", False),
    (Error(402), "billing", False),
    (Error(403), "permission", False),
    (Error(404), "not_found", False),
    (Error(408, "api_error"), "server_error", True),
    (Error(409), "conflict", True),
    (Error(413), "too_large", False),
    (Error(422, "invalid_request_error"), "invalid_request", False),
    (rate_limited(7), "rate_limited", True),
    (spend_limit(), "spend_limit", False),
    (Error(500), "server_error", True),
    (Error(501), "server_error", True),
    (Error(503, "api_error"), "server_error", True),
    (Error(504), "timeout", True),
    (overloaded(), "overloaded", True),
    (Error(400, headers={"x-should-retry": "true"}), "invalid_request", False),
    (Error(500, headers={"x-should-retry": "false"}), "server_error", False),
    (Error(429, "billing_error"), "billing", False),
]


@both
@pytest.mark.parametrize(
    ("answer", "kind", "again"), STATUSES, ids=lambda value: getattr(value, "status", None)
)
def test_every_status_is_classified_once(stream, answer, kind, again):
    with Server([answer], require_key=False) as server:
        fault, _ = ask(server, stream=stream)
        assert len(server.requests) == 1
    gave_up = answer.status in (408, 502, 504)  # something before the model, which may have answered
    assert (fault.kind, fault.again, fault.billed, fault.status) == (kind, again, gave_up, answer.status)
    assert fault.request_id


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3600"}, 3600),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "Wed, 99 Foo 2015 77:28:00 GMT"}, None),
        ({"retry-after": "1_000"}, None),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "0"}, 0),
        ({}, None),
    ],
)
def test_the_servers_wish_to_wait_is_read_and_never_an_exception(headers, seconds):
    with Server([Error(429, headers=headers)], require_key=False) as server:
        fault, _ = ask(server)
    assert fault.retry_after == seconds


def cuts():
    whole = says("hello world")
    return range(len(stream_events(whole)))


@pytest.mark.parametrize("how", ["close", "clean_end"])
@pytest.mark.parametrize("after", cuts())
def test_a_stream_that_ends_before_the_reply_does_is_cut(how, after):
    with Server([CutStream(says("hello world"), after, how)], require_key=False) as server:
        fault, _ = ask(server)
    assert (fault.kind, fault.again, fault.billed) == ("cut_stream", True, True)
    assert after == 0 or fault.usage["input_tokens"] > 0


def test_an_overload_inside_a_stream_is_tried_again():
    with Server([CutStream(says("hello"), 3, "error_event")], require_key=False) as server:
        fault, _ = ask(server)
    assert (fault.kind, fault.again, fault.billed) == ("overloaded", True, True)
    assert fault.usage["input_tokens"] > 0


@both
def test_silence_is_a_stalled_attempt(stream):
    with Server([CutStream(says("hello"), 2, "stall")], require_key=False) as server:
        fault, _ = ask(server, stream=stream, timeout=0.2)
    assert fault.again is True
    assert fault.kind in ("stalled_stream", "timeout")


@both
def test_no_answer_at_all_is_a_lost_connection_that_may_have_been_billed(stream):
    with Server([CloseConnection()], require_key=False) as server:
        fault, _ = ask(server, stream=stream)
    assert (fault.kind, fault.again, fault.billed) == ("connection", True, True)


def test_a_server_that_is_not_there_has_billed_nothing():
    with Server([]) as server:
        pass
    fault, _ = ask(server)
    assert (fault.kind, fault.again, fault.billed) == ("connection", True, False)


@both
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"type":"message"}',
        b'{"type":"message","content":[{"no":"type"}],"stop_reason":"end_turn"}',
        b'{"type":"message","content":[{"type":"text","text":null}],"stop_reason":"end_turn"}',
        b'{"type":"message","content":[{"type":"x","n":NaN}],"stop_reason":"end_turn"}',
        b'{"type":"message","content":[{"type":"x","n":1e999}],"stop_reason":"end_turn"}',
        b'{"type":"message","content":' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"type":"message","content":[{"type":"x","n":' + b"9" * 5000 + b'}],"stop_reason":"end_turn"}',
        b"\xff\xfe",
    ],
    ids=range(12),
)
def test_a_body_that_is_no_reply_is_malformed_or_cut(stream, body):
    kind = "text/event-stream" if stream else "application/json"
    payload = b"event: message_start\ndata: " + body + b"\n\n" if stream else body
    with Server([RawBody(200, payload, kind)], require_key=False) as server:
        fault, _ = ask(server, stream=stream)
    assert fault.kind in ("malformed_body", "cut_stream")
    assert fault.again is True


def test_an_error_inside_a_200_body_is_no_reply():
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}'
    with Server([RawBody(200, body)], require_key=False) as server:
        fault, _ = ask(server, stream=False)
    assert (fault.kind, fault.again) == ("overloaded", True)


def events(*items: str) -> RawBody:
    import json

    lines = "".join(f"event: {json.loads(item)['type']}\ndata: {item}\n\n" for item in items)
    return RawBody(200, lines.encode(), "text/event-stream")


START = (
    '{"type":"message_start","message":'
    '{"type":"message","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}'
)
TEXT = '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
STOP = '{"type":"message_stop"}'


@pytest.mark.parametrize(
    "items",
    [
        (TEXT,),
        (START, START),
        (START, '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}'),
        (START, '{"type":"content_block_start","index":-1,"content_block":{"type":"text","text":""}}'),
        (START, '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}'),
        (START, TEXT, '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}}'),
        (START, TEXT, '{"type":"content_block_delta","index":0,"delta":{"type":"brand_new_delta"}}'),
        (
            START,
            TEXT,
            '{"type":"content_block_delta","index":1000000000,"delta":{"type":"text_delta","text":"x"}}',
        ),
        (START, '{"type":"message_delta"}'),
        ('{"type":"message_start"}',),
        (STOP,),
    ],
    ids=range(11),
)
def test_events_out_of_order_are_a_malformed_body(items):
    with Server([events(*items)], require_key=False) as server:
        fault, _ = ask(server)
    assert fault.kind == "malformed_body"


def test_unknown_events_say_nothing():
    more = '{"type":"brand_new_event","x":1}'
    end = '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":null}}'
    with Server([events(START, more, TEXT, end, STOP)], require_key=False) as server:
        said, _ = ask(server)
    assert said.stop_reason == "end_turn"
    assert said.usage == {"input_tokens": 1, "output_tokens": 1}


def test_a_redirect_is_not_followed_with_the_key():
    with Server([], require_key=False) as other:
        with Server([RawBody(307, headers={"location": f"{other.base_url}/v1/messages"})]) as server:
            fault, _ = ask(server, api_key="k-0123456789")
        assert other.requests == []
    assert (fault.kind, fault.again) == ("redirected", False)


def test_a_key_that_a_server_echoes_is_taken_out():
    key = "sk-ant-canary-0123456789"
    with Server([Error(401, message=f"invalid key {key}")]) as server:
        fault, _ = ask(server, api_key=key)
    assert key not in fault.message
    assert "***" in fault.message


def test_cancelling_frees_the_connection():
    never = threading.Event()
    with Server([Slow(says("x"), never)], require_key=False) as server:

        async def main():
            model = AnthropicModel("m", base_url=server.base_url)
            task = asyncio.create_task(model.complete(request(), lambda delta: None))
            await asyncio.to_thread(server.wait_for_requests, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(server.wait_for_disconnects, 1)
            await model.close()

        asyncio.run(main())
        never.set()


def test_one_model_serves_one_loop_after_another():
    with Server([says("one"), says("two")], require_key=False) as server:
        model = AnthropicModel("m", base_url=server.base_url)

        async def main():
            said = await model.complete(request(), lambda delta: None)
            await model.close()
            return said.content[0]["text"]

        assert [asyncio.run(main()), asyncio.run(main())] == ["one", "two"]


def test_a_broken_listener_is_not_taken_for_a_fault():
    def broken(delta):
        raise LookupError("my bug")

    with Server([says("one two three")], require_key=False) as server:

        async def main():
            model = AnthropicModel("m", base_url=server.base_url)
            try:
                await model.complete(request(), broken)
            finally:
                await model.close()

        with pytest.raises(LookupError, match="my bug"):
            asyncio.run(main())


def test_a_client_of_ones_own_is_used_as_it_is_and_stays_open():
    with Server([says("one"), says("two")]) as server:

        async def main():
            async with anthropic.AsyncAnthropic(
                api_key="mine", base_url=server.base_url, max_retries=5
            ) as client:
                model = AnthropicModel("m", client=client)
                await model.complete(request(), lambda delta: None)
                await model.close()
                await model.complete(request(), lambda delta: None)

        asyncio.run(main())
        assert server.requests[0].headers["authorization"] == "Bearer mine"


def test_a_client_that_rewrites_the_body_gets_a_dictionary():
    class AsyncAnthropicVertex(anthropic.AsyncAnthropic):
        pass

    with Server([asks(tool_use("t", "read")), overloaded()], require_key=False) as server:

        async def main():
            async with AsyncAnthropicVertex(api_key="k", base_url=server.base_url) as client:
                model = AnthropicModel("m", client=client)
                said = await model.complete(request(), lambda delta: None)
                with pytest.raises(ModelFault, match="overloaded"):
                    await model.complete(request(), lambda delta: None)
                return said

        said = asyncio.run(main())
        assert server.bodies[0]["stream"] is True
    assert said.stop_reason == "tool_use"


def test_a_sync_client_is_refused():
    with pytest.raises(ConfigurationError, match="async client"):
        AnthropicModel("m", client=anthropic.Anthropic(api_key="k"))


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://host", "http://", "http://h?x=1", "http://h:port"]
)
def test_an_address_that_is_none_is_named(url):
    with pytest.raises(ConfigurationError, match="base_url"):
        AnthropicModel("m", base_url=url or " ")


def test_the_address_is_shown_without_its_password():
    assert AnthropicModel("m", base_url="http://user:secret@host:1/pre").base_url == "http://host:1/pre"


def test_without_a_credential_nothing_is_sent_to_anthropic(monkeypatch, tmp_path):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        asyncio.run(AnthropicModel("m").complete(request(), lambda delta: None))


def test_a_credential_is_found_where_the_sdk_looks(tmp_path):
    assert credential_available({"ANTHROPIC_AUTH_TOKEN": "t"})
    assert not credential_available({"ANTHROPIC_CONFIG_DIR": str(tmp_path)})
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "work.json").write_text("{}")
    assert not credential_available({"ANTHROPIC_CONFIG_DIR": str(tmp_path)})
    (tmp_path / "active_config").write_text("work\n")
    assert credential_available({"ANTHROPIC_CONFIG_DIR": str(tmp_path)})
