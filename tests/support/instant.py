"""A Messages API for benchmarks: as little work per request as possible, and no rule is checked.

The model ``bench-N`` asks for one call per turn, with arguments of its own each time, for N turns, then
ends. How far a run is, is read from the request: its ``"tool_result"`` strings are counted, never parsed.
For a thread (``thread: create`` or ``continue``) the count of the request before is added.
"""

import asyncio
import re
from collections.abc import Callable

_LENGTH = re.compile(rb"content-length:[ ]*(\d+)", re.IGNORECASE)
_TURNS = re.compile(rb'"model":\s?"bench-(\d+)"')
_PREVIOUS = re.compile(rb'"previous_message_id":\s?"([^"]+)"')
_STREAM = re.compile(rb'"stream":\s?true')
_LONG = 1 << 14
_EDGE = 1 << 12
_RESULT = b'"tool_result"'
_NOT_FOUND = (
    b'{"type":"error","error":{"type":"not_found_error","message":"thread","details":'
    b'{"error_code":"thread_not_found"}},"request_id":"req_bench"}'
)
_USAGE = (
    b'{"input_tokens":100,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,'
    b'"service_tier":"standard"}'
)
_MESSAGE = (
    b'{"id":"msg_%08d","type":"message","role":"assistant","model":"bench","content":[%s],"stop_reason":%s,'
    b'"stop_sequence":null,"stop_details":null,"usage":' + _USAGE + b"}"
)


def _events(block_start: bytes, deltas: bytes, stop_reason: bytes) -> bytes:
    """A whole stream as a template; ``%08d`` is the message's number, the others those of the parts."""
    start = _MESSAGE % (0, b"", b"null")
    start = start.replace(b"msg_00000000", b"msg_%08d")

    def event(name: bytes, fields: bytes) -> bytes:
        return b'event: %s\ndata: {"type":"%s"%s}\n\n' % (name, name, fields)

    return b"".join(
        (
            event(b"message_start", b',"message":' + start),
            event(b"content_block_start", b',"index":0,"content_block":' + block_start),
            event(b"content_block_delta", b',"index":0,"delta":' + deltas),
            event(b"content_block_stop", b',"index":0'),
            event(
                b"message_delta",
                b',"delta":{"stop_reason":%s,"stop_sequence":null},"usage":{"output_tokens":20}'
                % stop_reason,
            ),
            event(b"message_stop", b""),
        )
    )


class Instant:
    """Templates of all answers, and how many turns each open thread had."""

    def __init__(
        self, *, tool: str = "echo", input_template: str = '{"text": "turn %d"}', port: int = 0
    ) -> None:
        """The first ``%d`` in the template becomes the number of the turn; ``%%`` is a percent sign."""
        self.port = port
        self.requests = 0
        self._turns_by_message: dict[bytes, int] = {}
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        arguments = input_template.encode()
        quoted = arguments.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        self._numbered = b"%d" in arguments
        call = b'{"type":"tool_use","id":"toolu_%%08d","name":"%s","input":' % tool.encode()
        caller = b',"caller":{"type":"direct"}}'
        self._call = _MESSAGE.replace(b"%s", call + arguments + caller, 1).replace(b"%s", b'"tool_use"')
        self._end = _MESSAGE.replace(b"%s", b'{"type":"text","text":"done"}', 1).replace(b"%s", b'"end_turn"')
        self._call_stream = _events(
            call + b"{}" + caller,
            b'{"type":"input_json_delta","partial_json":"' + quoted + b'"}',
            b'"tool_use"',
        )
        self._end_stream = _events(
            b'{"type":"text","text":""}', b'{"type":"text_delta","text":"done"}', b'"end_turn"'
        )

    def answer(self, head: bytes, body: bytes) -> bytes:
        """The whole response, head included."""
        self.requests += 1
        if not head.startswith(b"POST /v1/messages"):
            return _response(b"404 Not Found", b"application/json", _NOT_FOUND)
        if head.startswith(b"POST /v1/messages/count_tokens"):
            return _response(b"200 OK", b"application/json", b'{"input_tokens":100}')
        turn = body.count(_RESULT)
        fields = _fields(body)
        if b'"thread"' in fields:
            before = self._before(fields)
            if before is None:
                return _response(b"404 Not Found", b"application/json", _NOT_FOUND)
            turn += before
            self._turns_by_message[b"msg_%08d" % self.requests] = turn
        found = _TURNS.search(fields)
        calls = turn < (int(found[1]) if found else 0)
        if _STREAM.search(fields):
            return _response(b"200 OK", b"text/event-stream", self._filled(turn, calls, streaming=True))
        return _response(b"200 OK", b"application/json", self._filled(turn, calls, streaming=False))

    def _before(self, fields: bytes) -> int | None:
        """The turns of the thread so far: 0 for a new one, None where it is not known."""
        previous = _PREVIOUS.search(fields)
        return 0 if previous is None else self._turns_by_message.pop(previous[1], None)

    def _filled(self, turn: int, calls: bool, *, streaming: bool) -> bytes:
        if not calls:
            return (self._end_stream if streaming else self._end) % self.requests
        template = self._call_stream if streaming else self._call
        return template % ((self.requests, turn, turn) if self._numbered else (self.requests, turn))

    async def serve(self, listening: Callable[[int], None]) -> None:
        """Serve until ``close``. ``listening`` is told the port."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        listener = await self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port)
        self.port = listener.sockets[0].getsockname()[1]
        listening(self.port)
        await self._stop.wait()
        listener.close()

    def close(self) -> None:
        """May be called from any thread."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)


class _Connection(asyncio.Protocol):
    """Collects a request by its content-length and answers it in one write."""

    def __init__(self, instant: Instant) -> None:
        self._instant = instant
        self._parts: list[bytes] = []
        self._missing = 0
        self._head = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._head:
            data = b"".join((*self._parts, data))
            head, found, rest = data.partition(b"\r\n\r\n")
            if not found:
                self._parts = [data]
                return
            length = _LENGTH.search(head)
            self._head, self._parts, data = head, [], rest
            self._missing = int(length[1]) if length else 0
        self._parts.append(data)
        self._missing -= len(data)
        if self._missing <= 0 and self._transport is not None:
            self._transport.write(self._instant.answer(self._head, b"".join(self._parts)))
            self._head, self._parts = b"", []


def _response(status: bytes, content_type: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nrequest-id: req_bench\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        content_type,
        len(body),
        body,
    )


def _fields(body: bytes) -> bytes:
    """The part of a long body that holds the small fields: around the messages, or behind them (the SDK)."""
    if len(body) > _LONG and b'"model"' in body[:_EDGE]:
        return body[:_EDGE] + body[-_EDGE:]
    return body[max(0, body.rfind(b'"model"')) :]
