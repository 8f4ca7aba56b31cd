"""The Anthropic model against servers that break HTTP, event streams and manners, in a few bytes each."""

import asyncio
import gzip
import json
import socket
import threading
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, cast

import pytest

from brida.core.request import Request
from brida.errors import ModelFault
from brida.models import anthropic_stream
from brida.models.anthropic import AnthropicModel
from brida.models.anthropic_stream import EventReader
from brida.models.base import Delta
from support.script import asks, says, tool_use
from support.wire import encode_event, message, stream_events

both = pytest.mark.parametrize("stream", [True, False])

REPLY = says("one two three")
EVENTS = [encode_event(name, data) for name, data in stream_events(REPLY, "msg_1", "m")]
STREAM = b"".join(EVENTS)
WHOLE = json.dumps(message(REPLY, "msg_1", "m")).encode()
SSE, JSON = "text/event-stream", "application/json"


class Head:
    """A request's head that needs no run: the body is fixed."""

    encoded = b'{"model":"m"'


REQUEST = Request(Head(), 100, b'[{"role":"user","content":"hi"}]')  # type: ignore[arg-type]


def head(status=200, kind=SSE, **headers) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(body: bytes, status=200, kind=SSE, **headers) -> bytes:
    return head(status, kind, content_length=len(body), **headers) + body


def whole(body: bytes, **more) -> bytes:
    return answer(body, kind=JSON, **more)


@asynccontextmanager
async def served(*answers, hold: bool = False):
    """A server that gives these answers, one a request: bytes, or a coroutine function of the streams.

    ``hold`` keeps a connection open after an answer that has no length. ``served.connections`` counts.
    """
    left = list(answers)
    tasks: set[asyncio.Task[Any]] = set()
    state: dict[str, Any] = {"connections": 0, "gone": asyncio.Event()}

    async def serve(reader, writer):
        state["connections"] += 1
        tasks.add(cast("asyncio.Task[Any]", asyncio.current_task()))
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(lines.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
                given = left.pop(0)
                if not isinstance(given, bytes):
                    await given(reader, writer)
                else:
                    writer.write(given)
                    if b"content-length" not in given:
                        if hold:
                            await reader.read()
                        return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            state["gone"].set()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", state
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def ask(*answers, stream=True, hold=False, times=1, on_delta=lambda delta: None, **settings):
    """What came of each attempt, a reply or a fault, and what the server saw."""

    async def main():
        async with served(*answers, hold=hold) as (url, state):
            model = AnthropicModel("m", base_url=url, stream=stream, **settings)
            results: list[Any] = []
            try:
                for _ in range(times):
                    try:
                        results.append(await model.complete(REQUEST, on_delta))
                    except ModelFault as error:
                        results.append(error.fault)
            finally:
                await model.close()
            return results, state

    results, state = asyncio.run(asyncio.wait_for(main(), 30))
    return (results[0] if times == 1 else results), state


# --- event streams ------------------------------------------------------------------------------------------

SAMPLE = (
    b': comment\nevent: a\ndata: {"x":\ndata: 1}\nid: 7\n\n\n'
    b'event: no-data\n\ndata:{"y": "\xc3\xa9"}\n\ndata: late'
)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_gives_the_same_events_however_it_is_cut(end):
    sample = SAMPLE.replace(b"\n", end)
    expected = [(b"a", b'{"x":\n1}'), (b"", '{"y": "é"}'.encode())]
    for at in range(len(sample) + 1):
        reader = EventReader()
        assert [*reader.feed(sample[:at]), *reader.feed(sample[at:])] == expected
    reader = EventReader()
    assert [event for at in range(len(sample)) for event in reader.feed(sample[at : at + 1])] == expected


def test_a_line_without_end_costs_no_more_than_its_bytes():
    reader = EventReader()
    for _ in range(50_000):
        assert not list(reader.feed(b"x" * 100))
    assert len(list(reader.feed(b"\ndata: 1\n\n"))) == 1


def test_an_error_event_needs_no_name():
    error = b'data: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    fault, _ = ask(answer(EVENTS[0] + error))
    assert (fault.kind, fault.message, fault.again, fault.billed) == ("overloaded", "busy", True, True)
    assert fault.usage["input_tokens"] == 100


@pytest.mark.parametrize(
    "type_, kind, again",
    [
        ("overloaded_error", "overloaded", True),
        ("api_error", "server_error", True),
        ("timeout_error", "timeout", True),
        ("rate_limit_error", "rate_limited", True),
        ("invalid_request_error", "invalid_request", False),
        ("authentication_error", "authentication", False),
        ("billing_error", "billing", False),
        ("brand_new_error", "unknown_error", False),
    ],
)
@both
def test_an_error_inside_a_200_is_judged_by_its_type(stream, type_, kind, again):
    error = json.dumps({"type": "error", "error": {"type": type_, "message": "words"}}).encode()
    given = answer(b"event: error\ndata: " + error + b"\n\n") if stream else whole(error)
    fault, _ = ask(given, stream=stream)
    assert (fault.kind, fault.message, fault.again, fault.billed) == (kind, "words", again, True)


def test_an_error_event_may_be_plain_words():
    fault, _ = ask(answer(b"event: error\ndata: out of memory\n\n"))
    assert (fault.kind, fault.message, fault.again) == ("unknown_error", "out of memory", False)


def test_a_spend_limit_inside_a_stream_is_one():
    details = {"error_code": "contract_spend_limit_reached"}
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "m", "details": details}}
    fault, _ = ask(answer(encode_event("error", error)))
    assert (fault.kind, fault.again) == ("spend_limit", False)


def test_a_header_that_left_before_the_error_says_nothing_of_it():
    error = b'data: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
    fault, _ = ask(answer(EVENTS[0] + error, x_should_retry="false"))
    assert (fault.kind, fault.again) == ("overloaded", True)


@pytest.mark.parametrize(
    "after", [b"data: [DONE]\n\n", b": bye\n\n", b"garbage\n\n", b"event: error\ndata: x\n\n"]
)
def test_what_is_no_message_after_the_end_takes_nothing_away(after):
    reply, _ = ask(answer(STREAM + after))
    assert reply.content[0]["text"] == "one two three"


@pytest.mark.parametrize("name", ["message_start", "content_block_delta", "message_delta", "message_stop"])
def test_more_of_a_message_after_its_end_is_malformed(name):
    more = next(event for event in EVENTS if name.encode() in event)
    fault, _ = ask(answer(STREAM + more))
    assert (fault.kind, fault.again, fault.billed) == ("malformed_body", True, True)


def test_a_server_that_never_ends_a_whole_stream_holds_nobody_up():
    reply, _ = ask(head() + STREAM, hold=True)
    assert reply.stop_reason == "end_turn"


@both
def test_a_connection_serves_one_request_after_another(stream):
    given = answer(STREAM) if stream else whole(WHOLE)
    replies, state = ask(given, given, given, stream=stream, times=3)
    assert [reply.stop_reason for reply in replies] == ["end_turn"] * 3
    assert state["connections"] == 1


def test_pings_and_comments_alone_are_silence():
    async def pinging(reader, writer):
        writer.write(head())
        while True:
            writer.write(b'event: ping\ndata: {"type":"ping"}\n\n: still here\n\n')
            await writer.drain()
            await asyncio.sleep(0.01)

    fault, _ = ask(pinging, timeout=0.2)
    assert (fault.kind, fault.again, fault.billed) == ("stalled_stream", True, True)


def test_a_stream_that_is_no_stream_is_cut():
    fault, _ = ask(answer(b"<html>sign in</html>", kind="text/html"))
    assert (fault.kind, fault.again) == ("cut_stream", True)


# --- bodies -------------------------------------------------------------------------------------------------


@both
def test_a_compressed_reply_is_read(stream):
    packed = gzip.compress(STREAM if stream else WHOLE)
    reply, _ = ask(answer(packed, content_encoding="gzip"), stream=stream)
    assert reply.content[0]["text"] == "one two three"


@both
def test_a_body_that_does_not_decompress_is_malformed(stream):
    fault, _ = ask(answer(b"no gzip at all", content_encoding="gzip"), stream=stream)
    assert (fault.kind, fault.again, fault.billed) == ("malformed_body", True, True)


@both
def test_bytes_that_are_no_utf_8_are_malformed(stream):
    given = answer(STREAM.replace(b"one", b"\xff")) if stream else whole(WHOLE.replace(b"one", b"\xff"))
    fault, _ = ask(given, stream=stream)
    assert (fault.kind, fault.again, fault.billed) == ("malformed_body", True, True)


@both
@pytest.mark.parametrize("filler", [b"x", b": comment\n", b'event: ping\ndata: {"type":"ping"}\n\n'])
def test_a_reply_without_end_is_malformed(stream, filler, monkeypatch):
    monkeypatch.setattr(anthropic_stream, "LARGEST", 100_000)

    async def endless(reader, writer):
        writer.write(head(kind=SSE if stream else JSON))
        while True:
            writer.write(filler * 1000)
            await writer.drain()

    fault, _ = ask(endless, stream=stream)
    assert (fault.kind, fault.again, fault.billed) == ("malformed_body", True, True)


@both
def test_a_small_body_that_unpacks_to_a_large_one_is_malformed(stream, monkeypatch):
    monkeypatch.setattr(anthropic_stream, "LARGEST", 100_000)
    fault, _ = ask(answer(gzip.compress(b" " * 1_000_000), content_encoding="gzip"), stream=stream)
    assert fault.kind == "malformed_body"


@both
def test_the_words_of_an_endless_error_are_read_only_so_far(stream):
    async def endless(reader, writer):
        writer.write(head(500, "text/plain"))
        while True:
            writer.write(b"sorry " * 1000)
            await writer.drain()

    fault, _ = ask(endless, stream=stream)
    assert (fault.kind, fault.again, fault.billed, fault.status) == ("server_error", True, False, 500)
    assert fault.message.startswith("sorry")
    assert len(fault.message) == 500


@pytest.mark.parametrize(
    "body, words",
    [
        (b'{"type":"error","error":{"type":"api_error","message":"words"}}', "words"),
        (b'{"error":"words"}', "words"),
        (b'{"message":"words"}', "words"),
        (b'{"detail":"words"}', "words"),
        (b"words", "words"),
        (b"", "status 503"),
        (b"[1]", "status 503"),
        (b'{"error":{"message":{"not":"words"}}}', "status 503"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_an_errors_words_are_found_where_servers_put_them(body, words):
    fault, _ = ask(answer(body, 503, JSON))
    assert (fault.kind, fault.message) == ("server_error", words)


def test_a_date_to_wait_for_is_read_relative_to_now():
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    fault, _ = ask(answer(b"", 429, JSON, retry_after=when))
    assert 95 < fault.retry_after <= 100


def test_a_whole_message_says_how_it_stopped():
    body = {name: value for name, value in json.loads(WHOLE).items() if name != "stop_reason"}
    fault, _ = ask(whole(json.dumps(body).encode()), stream=False)
    assert (fault.kind, fault.again) == ("malformed_body", True)


@both
def test_a_body_shorter_than_announced_is_cut(stream):
    body = STREAM if stream else WHOLE
    given = head(kind=SSE if stream else JSON, **{"Content_Length": len(body)}) + body[:-40]
    fault, _ = ask(given, stream=stream)
    assert (fault.kind, fault.again, fault.billed) == ("cut_stream", True, True)


def test_an_answer_that_is_no_http_is_a_lost_connection():
    fault, _ = ask(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
    assert (fault.kind, fault.again, fault.billed) == ("connection", True, True)


def attempt(url: str):
    """The fault of one attempt at an address."""

    async def main():
        model = AnthropicModel("m", base_url=url)
        try:
            await model.complete(REQUEST, lambda delta: None)
        except ModelFault as error:
            return error.fault
        finally:
            await model.close()

    return asyncio.run(main())


def test_tls_that_fails_has_sent_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def speak_plainly():
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 X\r\n\r\n")
                connection.recv(1 << 16)

        thread = threading.Thread(target=speak_plainly)
        thread.start()
        fault = attempt(f"https://127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
    assert (fault.kind, fault.again, fault.billed) == ("connection", True, False)


def test_an_address_that_resolves_to_nothing_has_sent_nothing():
    fault = attempt("http://no.such.host.invalid")
    assert (fault.kind, fault.again, fault.billed) == ("connection", True, False)


# --- who listens, who gives up ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("mine"), UnicodeEncodeError("ascii", "é", 0, 1, "mine"), TimeoutError("mine")]
)
def test_what_a_listener_raises_passes_through_and_frees_the_connection(error):
    def broken(delta):
        raise error

    async def main():
        async with served(head() + STREAM, hold=True) as (url, state):
            model = AnthropicModel("m", base_url=url)
            with pytest.raises(type(error), match="mine"):
                await model.complete(REQUEST, broken)
            await asyncio.wait_for(state["gone"].wait(), 10)
            await model.close()

    asyncio.run(main())


@both
@pytest.mark.parametrize("sent", [0, 1, 40])
def test_cancelling_frees_the_connection_at_once(stream, sent):
    async def main():
        waiting = asyncio.Event()

        async def never(reader, writer):
            if sent:
                body = STREAM if stream else WHOLE
                writer.write(head(kind=SSE if stream else JSON) + body[:sent])
            waiting.set()
            await reader.read()

        async with served(never) as (url, state):
            model = AnthropicModel("m", base_url=url, stream=stream)
            task = asyncio.create_task(model.complete(REQUEST, lambda delta: None))
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(state["gone"].wait(), 10)
            await model.close()

    asyncio.run(main())


def test_cancelling_while_a_whole_reply_waits_for_its_end_is_no_reply():
    async def main():
        heard = asyncio.Event()
        async with served(head() + STREAM, hold=True) as (url, state):
            model = AnthropicModel("m", base_url=url)
            task = asyncio.create_task(model.complete(REQUEST, lambda delta: heard.set()))
            await heard.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(state["gone"].wait(), 10)
            await model.close()

    asyncio.run(main())


def test_arguments_are_heard_as_they_stream():
    reply = asks(tool_use("t", "read", {"path": "a.txt"}))
    body = b"".join(encode_event(name, data) for name, data in stream_events(reply, "msg_1", "m"))
    heard: list[Delta] = []
    said, _ = ask(answer(body), on_delta=heard.append)
    assert json.loads("".join(delta.text for delta in heard if delta.kind == "tool_use")) == {"path": "a.txt"}
    assert said.content[0]["input"] == {"path": "a.txt"}
