"""HTTP/1.1 as far as a Messages API needs it, and a reply written as JSON or as server-sent events."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from support.script import Block, Reply, TruncatedToolUse

HEADER_LIMIT = 1 << 20
"""Bytes. The longest request head that is read."""

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
_DELTA_FIELDS = ("context_management", "input_transformations")
_DELTA_USAGE = frozenset(
    {
        "output_tokens",
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
        "output_tokens_details",
        "server_tool_use",
        "iterations",
    }
)


class ClientGone(ConnectionError):
    """The client closed the connection before its answer was whole."""


class Drop(Exception):
    """The script wants the connection closed now."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request without what it means. Header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class Exchange:
    """One connection, as the server sees it: read a request, send a response, again."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> Head | None:
        """The next request with its body; None where the client closed between two requests."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise ClientGone from error
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if headers.get("expect", "").lower() == "100-continue":
            self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            raw = await self._body(headers)
        except asyncio.IncompleteReadError as error:
            raise ClientGone from error
        return Head(method, target, headers, raw)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", "").lower():
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        parts = []
        while size := int((await self._reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            parts.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return b"".join(parts)

    async def send(self, status: int, headers: Mapping[str, str], body: bytes, *, half: bool = False) -> None:
        """A response of known length; with ``half`` only the first half of its body."""
        self._head(status, {**headers, "content-length": str(len(body))})
        await self._write(body[: len(body) // 2] if half else body)

    async def open(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin a response in chunks."""
        self._head(status, {**headers, "transfer-encoding": "chunked"})
        await self._write(b"")

    async def chunk(self, data: bytes) -> None:
        if data:
            await self._write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self._write(b"0\r\n\r\n")

    async def gone(self) -> None:
        """Returns once the client closed its side."""
        while await self._reader.read(1 << 16):
            pass

    async def wait(self, something: "asyncio.Task[Any]") -> None:
        """Wait for a task; raises ClientGone, with the task cancelled, where the client closes first."""
        gone = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait((something, gone), return_when=asyncio.FIRST_COMPLETED)
            if not something.done():
                raise ClientGone
        finally:
            gone.cancel()
            something.cancel()
            await asyncio.gather(gone, something, return_exceptions=True)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise ClientGone from error


# --- a reply, whole and in events --------------------------------------------------------------------


def message(reply: Reply, message_id: str, model: str) -> dict[str, Any]:
    """The reply as one JSON object."""
    return {
        "id": reply.message_id or message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": reply.content(),
        "stop_reason": reply.stop_reason,
        "stop_sequence": reply.stop_sequence,
        "stop_details": reply.stop_details,
        "usage": dict(reply.usage),
        **reply.extra,
    }


def stream_events(
    reply: Reply, message_id: str = "msg_0", model: str = "model"
) -> list[tuple[str, dict[str, Any]]]:
    """The events of a streamed reply in order, as ``(name, data)``."""
    whole = message(reply, message_id, model)
    start = {**whole, "content": [], "stop_reason": None, "stop_sequence": None, "stop_details": None}
    start["usage"] = {**whole["usage"], "output_tokens": min(1, whole["usage"].get("output_tokens", 1))}
    delta = {name: whole[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    delta |= {name: reply.extra[name] for name in ("container",) if name in reply.extra}
    end = {
        "delta": delta,
        "usage": {name: count for name, count in whole["usage"].items() if name in _DELTA_USAGE},
        **{
            name: reply.extra[name]
            for name in ("context_management", "input_transformations")
            if name in reply.extra
        },
    }
    events: list[tuple[str, dict[str, Any]]] = [("message_start", {"message": start})]
    for index, block in enumerate(reply.blocks):
        opening, deltas = _in_pieces(block)
        events.append(("content_block_start", {"index": index, "content_block": opening}))
        if not index:
            events.append(("ping", {}))
        events.extend(("content_block_delta", {"index": index, "delta": piece}) for piece in deltas)
        events.append(("content_block_stop", {"index": index}))
    events.extend((name, dict(data)) for name, data in reply.extra_events)
    events += [("message_delta", end), ("message_stop", {})]
    return [(name, {"type": name, **data}) for name, data in events]


def encode_event(name: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode(data))


def in_chunks(events: list[bytes], size: int) -> Iterator[bytes]:
    """The events as they are, or all their bytes cut anew where ``size`` is not 0."""
    if not size:
        yield from events
        return
    everything = b"".join(events)
    for at in range(0, len(everything), size):
        yield everything[at : at + size]


def _in_pieces(block: Block | TruncatedToolUse) -> tuple[Block, list[Block]]:
    """A block as its start and its deltas."""
    if isinstance(block, TruncatedToolUse):
        return {**block.block(), "input": {}}, _json_pieces(block.partial_json)
    match block:
        case {"type": "text", "text": str(words)}:
            pieces: list[Block] = [{"type": "text_delta", "text": piece} for piece in _thirds(words)]
            return {**block, "text": ""}, pieces
        case {"type": "thinking", "thinking": str(words), "signature": signature}:
            pieces = [{"type": "thinking_delta", "thinking": piece} for piece in _thirds(words)]
            pieces.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", "signature": ""}, pieces
        case {"type": "tool_use" | "server_tool_use" | "mcp_tool_use", "input": arguments}:
            return {**block, "input": {}}, _json_pieces(encode(arguments).decode() if arguments else "")
        case _:
            return block, []


def _json_pieces(text: str) -> list[Block]:
    """An empty piece first, as the server does."""
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_thirds(text))]


def _thirds(text: str) -> list[str]:
    step = max(1, -(-len(text) // 3))
    return [text[at : at + step] for at in range(0, len(text), step)]
