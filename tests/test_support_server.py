"""The scripted server, seen by the real SDK."""

import gc
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import anthropic
import pytest
from anthropic import Anthropic

from support.command import ServerProcess
from support.script import (
    CloseConnection,
    CutStream,
    Error,
    RawBody,
    Reply,
    Slow,
    asks,
    bad_request,
    overloaded,
    rate_limited,
    redacted_thinking,
    refuses,
    says,
    server_error,
    server_tool_result,
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


# --- replies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [create, final])
def test_a_reply_arrives_whole_with_and_without_streaming(model_server: Start, ask: Any) -> None:
    server = model_server([FULL])
    with client_of(server) as client:
        reply = ask(client)
    assert [block.model_dump(exclude_unset=True) for block in reply.content] == FULL.content()
    assert (reply.stop_reason, reply.model, reply.id) == ("tool_use", "claude-sonnet-5", "msg_000001")
    if ask is create:  # the message of a stream has no such attribute
        assert reply._request_id == "req_000001"
    counted = reply.usage
    assert (counted.input_tokens, counted.output_tokens) == (10, 30)
    assert (counted.cache_creation_input_tokens, counted.cache_read_input_tokens) == (5, 7)
    assert counted.cache_creation.ephemeral_5m_input_tokens == 5


@pytest.mark.parametrize("chunk_bytes", [1, 7, 4096])
def test_a_stream_may_be_cut_into_chunks_anywhere(model_server: Start, chunk_bytes: int) -> None:
    server = model_server([Reply("tool_use", FULL.blocks, chunk_bytes=chunk_bytes)])
    with client_of(server) as client:
        reply = final(client)
    assert [block.model_dump(exclude_unset=True) for block in reply.content] == FULL.content()


def test_events_come_in_the_order_of_the_real_server(model_server: Start) -> None:
    server = model_server([asks(tool_use("toolu_1", "clock", {"zone": "UTC"}))])
    with client_of(server) as client:
        stream = create(client, stream=True)
        names = [event.type for event in stream]
    assert names == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 4,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    listed = [name for name, _ in stream_events(asks(tool_use("toolu_1", "clock", {"zone": "UTC"})))]
    assert [name for name in listed if name != "ping"] == names
    assert listed[2] == "ping"


def test_usage_in_a_stream_is_cumulative_and_not_to_be_added() -> None:
    events = dict(stream_events(Reply("end_turn", [text("x")], usage=usage(10, 30))))
    assert events["message_start"]["message"]["usage"]["output_tokens"] == 1
    assert events["message_delta"]["usage"]["output_tokens"] == 30
    assert "service_tier" not in events["message_delta"]["usage"]


@pytest.mark.parametrize("ask", [create, final])
@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "brand_new", None])
def test_any_stop_reason_can_be_played(model_server: Start, ask: Any, stop_reason: str | None) -> None:
    server = model_server([Reply(stop_reason)])
    with client_of(server) as client:
        reply = ask(client)
    assert reply.stop_reason == stop_reason
    assert reply.content == []


@pytest.mark.parametrize("ask", [create, final])
def test_a_refusal_says_why_and_a_stop_sequence_says_which(model_server: Start, ask: Any) -> None:
    server = model_server([refuses("bio", "no"), Reply("stop_sequence", [text("x")], stop_sequence="END")])
    with client_of(server) as client:
        refused, stopped = ask(client), ask(client)
    assert (refused.stop_details.category, refused.stop_details.explanation) == ("bio", "no")
    assert (stopped.stop_sequence, stopped.stop_details) == ("END", None)


def test_a_call_cut_by_max_tokens_looks_whole_in_a_stream(model_server: Start) -> None:
    cut = truncated_tool_use("toolu_1", "clock", '{"zone":"UTC","n":12', {"zone": "UTC"})
    server = model_server([Reply("max_tokens", [cut]), Reply("max_tokens", [cut])])
    with client_of(server) as client:
        assert final(client).content[0].input == {"zone": "UTC", "n": 12}
        assert create(client).content[0].input == {"zone": "UTC"}


def test_extra_fields_and_events_pass_through(model_server: Start) -> None:
    reply = Reply(
        "end_turn",
        [{"type": "new_block", "data": 1}],
        extra={"container": {"id": "c1", "expires_at": "2026-12-01T00:00:00Z"}},
        extra_events=[("brand_new_event", {"x": 1})],
        pause_seconds=0.001,
    )
    server = model_server([reply, reply])
    with client_of(server) as client:
        whole = create(client)
        names = [event.type for event in create(client, stream=True)]
    assert whole.content[0].model_dump(exclude_unset=True) == {"type": "new_block", "data": 1}
    assert whole.container.id == "c1"
    assert "message_stop" in names


def test_a_function_is_told_how_many_replies_there_were_and_what_was_asked(model_server: Start) -> None:
    server = model_server(lambda at, body: says(f"{at} {body['messages'][-1]['content']}"))
    with client_of(server) as client:
        assert [create(client).content[0].text for _ in range(3)] == ["0 hello", "1 hello", "2 hello"]


# --- what is refused ---------------------------------------------------------------------------------


def test_an_invalid_request_gets_the_literal_text_and_uses_up_no_reply() -> None:
    with Server([says("x")], allow_violations=True) as server, client_of(server) as client:
        with pytest.raises(anthropic.BadRequestError) as caught:
            create(client, [{"role": "user", "content": "hi"}, {"role": "user", "content": ""}])
        assert create(client).content[0].text == "x"
    error: Any = caught.value
    assert error.body["error"]["message"].startswith("messages.1: all messages must have non-empty content")
    assert error.body["error"]["type"] == "invalid_request_error"
    assert error.response.headers["x-should-retry"] == "false"
    assert [one.request for one in server.violations] == [0]
    assert server.violations[0].problems[0] == error.body["error"]["message"]


def test_leaving_a_server_fails_the_test_where_a_request_was_invalid() -> None:
    server = Server([]).__enter__()
    with client_of(server) as client, pytest.raises(anthropic.BadRequestError):
        create(client, max_tokens=0)
    server.__exit__(ValueError, ValueError(), None)  # an error of the test itself is not hidden
    with pytest.raises(AssertionError, match="request 0: max_tokens: Input should be greater"):
        server.__exit__(None, None, None)


def test_a_reply_that_is_missing_or_fails_is_loud(model_server: Start) -> None:
    def broken(at: int, body: dict[str, Any]) -> Reply:
        raise LookupError("oh")

    empty = model_server([], allow_violations=True)
    failing = model_server(broken, allow_violations=True)
    with (
        client_of(empty, max_retries=2) as client,
        pytest.raises(anthropic.InternalServerError, match="script: no reply number 0"),
    ):
        create(client)
    with (
        client_of(failing) as client,
        pytest.raises(anthropic.InternalServerError, match="reply number 0 failed: LookupError"),
    ):
        create(client)
    assert len(empty.requests) == 1
    assert empty.violations[0].problems == ("script: no reply number 0, the script has 0",)


def test_an_own_pause_may_come_back_last_and_no_other_message_may(model_server: Start) -> None:
    paused = Reply("pause_turn", [text(" "), server_tool_use("srvtoolu_1", "web_search", {"query": "x"})])
    server = model_server([paused, says("done")], allow_violations=True)
    with client_of(server) as client:
        first = final(client)
        kept = [block for block in first.content if block.type != "text"]
        with pytest.raises(anthropic.BadRequestError, match="prefill"):
            create(client, [*HELLO, {"role": "assistant", "content": "It is"}])
        assert create(client, [*HELLO, {"role": "assistant", "content": kept}]).stop_reason == "end_turn"


def test_both_kinds_of_key_are_taken_and_none_is_not(model_server: Start) -> None:
    server = model_server(lambda at, body: says("x"))
    body = {"model": "m", "max_tokens": 1, "messages": HELLO}
    version = {"anthropic-version": "2023-06-01"}
    with httpx2.Client(base_url=server.base_url, trust_env=False) as plain:

        def status(**headers: str) -> int:
            return int(plain.post("/v1/messages?beta=true", json=body, headers=headers).status_code)

        assert status(**version) == 401
        assert status(**version, **{"x-api-key": "k"}) == 200
        assert status(**version, authorization="Bearer k") == 200
    open_server = model_server(lambda at, body: says("x"), require_key=False)
    with httpx2.Client(base_url=open_server.base_url, trust_env=False) as plain:
        assert plain.post("/v1/messages", json=body, headers=version).headers["request-id"]


@pytest.mark.parametrize(
    "raw,headers,text",
    [
        (b"{", {"anthropic-version": "2026-10-21"}, "not valid JSON"),
        (b"[]", {"anthropic-version": "2026-10-21"}, "not valid JSON"),
        (b"{}", {"anthropic-version": "2020-01-01"}, "is not a valid version"),
        (b"{}", {}, "anthropic-version: header is required"),
        (b'{"x":"\\ud800"}', {"anthropic-version": "2026-10-21"}, "no low surrogate"),
        (b'{"x":NaN}', {"anthropic-version": "2026-10-21"}, "nan is not a JSON number"),
    ],
)
def test_a_request_that_cannot_be_read_is_a_violation(
    model_server: Start, raw: bytes, headers: dict[str, str], text: str
) -> None:
    server = model_server([], allow_violations=True)
    with httpx2.Client(base_url=server.base_url, trust_env=False) as plain:
        answer = plain.post("/v1/messages", content=raw, headers={"x-api-key": "k", **headers})
        assert plain.get("/elsewhere").status_code == 404
    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]
    assert answer.json()["request_id"] == answer.headers["request-id"]
    assert text in server.violations[0].problems[0]
    assert server.requests[0].raw == raw


def test_a_request_in_chunks_is_read(model_server: Start) -> None:
    server = model_server([says("x")])
    raw = json.dumps({"model": "m", "max_tokens": 1, "messages": HELLO}).encode()
    headers = {"x-api-key": "k", "anthropic-version": "2026-10-21"}
    with httpx2.Client(base_url=server.base_url, trust_env=False) as plain:
        pieces = iter([raw[:5], raw[5:]])
        assert plain.post("/v1/messages", content=pieces, headers=headers).status_code == 200
    assert server.requests[0].raw == raw


# --- errors as the SDK sees them ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "item,kind,error_type",
    [
        (
            bad_request("no", error_code="x"),
            anthropic.BadRequestError,
            "invalid_request_error",
        ),
        (Error(404, message="model: x"), anthropic.NotFoundError, "not_found_error"),
        (rate_limited(), anthropic.RateLimitError, "rate_limit_error"),
        (spend_limit(), anthropic.RateLimitError, "rate_limit_error"),
        (server_error(), anthropic.InternalServerError, "api_error"),
        (overloaded(), anthropic.APIStatusError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("ask", [create, final])
def test_an_error_is_the_sdk_s_own(
    model_server: Start, ask: Any, item: Error, kind: type[anthropic.APIStatusError], error_type: str
) -> None:
    server = model_server([item])
    with client_of(server) as client, pytest.raises(kind) as caught:
        ask(client)
    error: Any = caught.value
    assert error.status_code == item.status
    assert error.body["error"]["type"] == error_type
    assert error.body["error"].get("details", {}) == item.details
    assert error.request_id == "req_000001"


@pytest.mark.parametrize("value", ["3600", "Tue, 01 Dec 2026 12:00:00 GMT"])
def test_retry_after_goes_out_as_it_was_given(model_server: Start, value: str) -> None:
    server = model_server([rate_limited(value)])
    with client_of(server) as client, pytest.raises(anthropic.RateLimitError) as caught:
        create(client)
    assert caught.value.response.headers["retry-after"] == value


def test_the_sdk_tries_again_after_what_passes(model_server: Start) -> None:
    headers = {"retry-after-ms": "1"}
    server = model_server([Error(529, headers=headers), Error(429, headers=headers), says("x")])
    with client_of(server, max_retries=2) as client:
        assert create(client).content[0].text == "x"
    assert [one.headers["x-stainless-retry-count"] for one in server.requests] == ["0", "1", "2"]


def test_a_closed_connection_is_a_connection_error(model_server: Start) -> None:
    server = model_server([CloseConnection()])
    with client_of(server) as client, pytest.raises(anthropic.APIConnectionError):
        create(client)


def test_a_stream_that_ends_cleanly_before_its_end_raises_nothing(model_server: Start) -> None:
    reply = asks(tool_use("toolu_1", "clock", {"zone": "UTC"}))
    server = model_server([CutStream(reply, 4, "clean_end")])
    with client_of(server) as client:
        partial = final(client)
    assert partial.stop_reason is None
    assert partial.content[0].input == {}


def test_a_stream_can_be_cut_after_each_of_its_events(model_server: Start) -> None:
    reply = says("one two three")
    total = len(stream_events(reply))
    server = model_server([CutStream(reply, after, "clean_end") for after in range(total + 1)])
    with client_of(server) as client:
        counts = [sum(1 for _ in create(client, stream=True)) for _ in range(total + 1)]
    assert counts == [0, 1, 2, *range(2, total)]  # the ping is not counted


def test_a_stream_that_drops_is_a_raw_transport_error(model_server: Start) -> None:
    server = model_server([CutStream(says("x"), 3, "close")])
    with client_of(server) as client, pytest.raises(httpx2.RemoteProtocolError):
        final(client)


def test_an_error_in_the_stream_is_a_status_error_of_200(model_server: Start) -> None:
    server = model_server([CutStream(says("x"), 3, "error_event")])
    with client_of(server, max_retries=2) as client, pytest.raises(anthropic.APIStatusError) as caught:
        final(client)
    error: Any = caught.value
    assert error.status_code == 200
    assert error.body["error"]["type"] == "overloaded_error"
    assert not isinstance(error, anthropic.InternalServerError)
    assert len(server.requests) == 1


def test_a_stalled_stream_is_a_raw_read_timeout_and_the_server_notices(
    model_server: Start,
) -> None:
    server = model_server([CutStream(says("x"), 3, "stall")])
    with client_of(server, timeout=0.2) as client:
        with pytest.raises(httpx2.ReadTimeout):
            final(client)
        server.wait_for_disconnects(1)


@pytest.mark.parametrize("how", ["close", "clean_end"])
def test_half_a_body_is_a_connection_error(model_server: Start, how: Any) -> None:
    server = model_server([CutStream(says("x"), 1, how)])
    with client_of(server) as client, pytest.raises(anthropic.APIConnectionError):
        create(client)


def test_a_cut_without_streaming_is_a_status_or_silence(model_server: Start) -> None:
    server = model_server([CutStream(says("x"), 1, "error_event"), CutStream(says("x"), 1, "stall")])
    with client_of(server, timeout=0.2) as client:
        with pytest.raises(anthropic.APIStatusError, match="529"):
            create(client)
        with pytest.raises((anthropic.APITimeoutError, httpx2.ReadTimeout)):
            create(client)


def test_a_body_that_is_no_json_or_empty_fails_as_the_sdk_lets_it(model_server: Start) -> None:
    server = model_server([RawBody(200, b"{oops"), RawBody(200, b"", "text/event-stream")])
    with client_of(server) as client:
        with pytest.raises(json.JSONDecodeError):
            create(client)
        with pytest.raises(AssertionError):
            final(client)


def test_a_slow_reply_waits_for_its_event(model_server: Start) -> None:
    gate = threading.Event()
    server = model_server([Slow(says("x"), gate), Slow(says("y"), 0.01)])
    answers: list[str] = []
    with client_of(server) as client:
        asking = threading.Thread(target=lambda: answers.append(create(client).content[0].text))
        asking.start()
        server.wait_for_requests(1)
        assert answers == []
        gate.set()
        asking.join()
        assert create(client).content[0].text == "y"
    assert answers == ["x"]


def test_a_client_that_leaves_a_slow_reply_is_noticed(model_server: Start) -> None:
    server = model_server([Slow(says("x"), threading.Event())])
    with client_of(server, timeout=0.1) as client, pytest.raises(anthropic.APITimeoutError):
        create(client)
    server.wait_for_disconnects(1)


@pytest.mark.parametrize("item", [CutStream(says("x"), 3, "stall"), Slow(says("x"), threading.Event())])
def test_closing_the_server_ends_what_it_was_doing(item: Any) -> None:
    failures: list[BaseException] = []

    def ask() -> None:
        with client_of(server) as client:
            try:
                final(client)
            except (anthropic.APIError, httpx2.HTTPError) as error:
                failures.append(error)

    with Server([item]) as server:
        asking = threading.Thread(target=ask)
        asking.start()
        server.wait_for_requests(1)
    asking.join()
    assert len(failures) == 1
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=1)


def test_nothing_is_left_open() -> None:
    before = threading.active_count()
    with Server([says("x")]) as server, client_of(server) as client:
        create(client)
    server.close()
    gc.collect()
    assert threading.active_count() == before


def test_a_port_in_use_is_told_to_whoever_starts_the_server(model_server: Start) -> None:
    taken = model_server([]).port
    with pytest.raises(OSError, match="in use"), Server([], port=taken):
        pass


def test_waiting_for_what_does_not_come_is_a_timeout(model_server: Start) -> None:
    with pytest.raises(TimeoutError, match="for 1 requests; 0 requests so far"):
        model_server([]).wait_for_requests(1, timeout=0.01)
