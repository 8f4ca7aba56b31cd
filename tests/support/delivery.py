"""Carries out one item of a script: the answer to one request, or its failure."""

import asyncio
import threading
from typing import Any

from support import wire
from support.memory import Memory
from support.script import CloseConnection, CutStream, Error, Item, RawBody, Reply, Slow

JSON = "application/json"


class Delivery:
    """``number`` makes the ids of the request and of the message; ``body`` is the expanded request."""

    def __init__(self, exchange: wire.Exchange, memory: Memory, body: dict[str, Any], number: int) -> None:
        self._exchange = exchange
        self._memory = memory
        self._body = body
        self._headers = {"request-id": f"req_{number:06d}"}
        self._message_id = f"msg_{number:06d}"
        self._model = str(body.get("model"))

    async def send(self, item: Item) -> None:
        match item:
            case Slow():
                await self._exchange.wait(asyncio.ensure_future(_passed(item.until)))
                await self.send(item.item)
            case CloseConnection():
                raise wire.Drop
            case RawBody():
                await self._whole(item.status, item.body, item.content_type, **item.headers)
            case Error():
                await self._error(item)
            case Reply() | CutStream() if self._body.get("stream"):
                await self._stream(item)
            case Reply():
                self._keep(item)
                await self._whole(200, self._message(item), JSON)
            case CutStream():
                await self._cut(item)

    async def _error(self, error: Error) -> None:
        final = 400 <= error.status < 500 and error.status not in (408, 409, 429)
        headers = {**({"x-should-retry": "false"} if final else {}), **error.headers}
        await self._whole(error.status, wire.encode(error.body(self._headers["request-id"])), JSON, **headers)

    async def _whole(self, status: int, body: bytes, content_type: str, **headers: str) -> None:
        await self._exchange.send(status, {**self._headers, "content-type": content_type, **headers}, body)

    async def _cut(self, cut: CutStream) -> None:
        """What a cut stream is to a client that did not ask for a stream."""
        headers = {**self._headers, "content-type": JSON}
        if cut.how == "error_event":
            await self._error(Error(529, message="Overloaded"))
            return
        if cut.how == "stall":
            await self._exchange.open(200, headers)
            await self._stall()
        await self._exchange.send(200, headers, self._message(cut.reply), half=True)
        raise wire.Drop

    async def _stream(self, item: Reply | CutStream) -> None:
        cut = item if isinstance(item, CutStream) else None
        how = cut.how if cut else None
        reply = item.reply if isinstance(item, CutStream) else item
        if cut is None:
            self._keep(reply)
        events = wire.stream_events(reply, self._message_id, self._model)[: cut.after if cut else None]
        encoded = [wire.encode_event(name, data) for name, data in events]
        await self._exchange.open(200, {**self._headers, "content-type": "text/event-stream; charset=utf-8"})
        for at, data in enumerate(wire.in_chunks(encoded, reply.chunk_bytes)):
            if at and reply.pause_seconds:
                await self._exchange.wait(asyncio.ensure_future(asyncio.sleep(reply.pause_seconds)))
            await self._exchange.chunk(data)
        if how == "close":
            raise wire.Drop
        if how == "stall":
            await self._stall()
        if how == "error_event":
            error = {"type": "overloaded_error", "message": "Overloaded"}
            await self._exchange.chunk(wire.encode_event("error", {"type": "error", "error": error}))
        await self._exchange.end()

    async def _stall(self) -> None:
        await self._exchange.gone()
        raise wire.ClientGone

    def _message(self, reply: Reply) -> bytes:
        return wire.encode(wire.message(reply, self._message_id, self._model))

    def _keep(self, reply: Reply) -> None:
        message_id = reply.message_id or self._message_id
        self._memory.keep(self._body, message_id, reply.content(), reply.stop_reason)


async def _passed(until: float | threading.Event) -> None:
    """A thread's event is polled: a thread that waits for it could outlive the server."""
    if not isinstance(until, threading.Event):
        await asyncio.sleep(until)
        return
    while not until.is_set():
        await asyncio.sleep(0.002)
