"""What comes in from a server, as bytes: bounded, cut into events, its failures turned into faults."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from functools import cache
from typing import Any, Final, TypeAlias

from brida.core.encoding import encode
from brida.core.events import Fault, Reply
from brida.errors import ModelFault
from brida.models.anthropic_faults import reading_fault, status_fault
from brida.models.anthropic_reply import MalformedBodyError, ReplyAssembler, parse, whole_reply

LARGEST: Final = 64 * 2**20
"""Bytes that a reply may have, decompressed."""

DRAIN: Final = 0.25
"""Seconds that a stream gets to end after the reply is whole; then its connection is given up."""

LONGEST_ERROR: Final = 64 * 2**10
"""Bytes, as sent, that are read of an answer which is no success."""

RawEvent: TypeAlias = tuple[bytes, bytes]
"""The name of an event, empty where it has none, and its data."""


class EventReader:
    """Cuts pieces of an event stream into events, whatever the pieces are; the work is linear in the bytes.

    Lines end with CR, LF or both. Comments and fields other than ``event`` and ``data`` say nothing here;
    an event that the stream does not end with a blank line is no event (HTML standard, section 9.2.6).
    """

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[RawEvent]:
        """The events that this piece ends."""
        waiting = bool(self._unfinished) and self._unfinished[-1].endswith(b"\r")
        self._unfinished.append(piece)
        if not piece or not (waiting or b"\n" in piece or b"\r" in piece):
            return
        lines = b"".join(self._unfinished).splitlines(keepends=True)
        # A CR at the very end may be the first half of a CR LF.
        self._unfinished = [] if lines[-1].endswith(b"\n") else [lines.pop()]
        for line in lines:
            content = line.rstrip(b"\r\n")
            if content:
                self._take(content)
            elif self._data:
                yield self._name, b"\n".join(self._data)
                self._name, self._data = b"", []
            else:
                self._name = b""

    def _take(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        elif field == b"event":
            self._name = value.removeprefix(b" ")


async def read_events(response: Any, *, patience: float) -> AsyncGenerator[RawEvent, None]:
    """The events of a response. Raises :class:`ModelFault` where the connection fails.

    ``patience``: seconds for which pings and comments alone pass for a server that is still at work.
    """
    reader, heard = EventReader(), time.monotonic()
    try:
        async for piece in _pieces(response):
            for name, data in reader.feed(piece):
                if name != b"ping":
                    heard = time.monotonic()
                    yield name, data
            if time.monotonic() - heard > patience:
                raise TimeoutError(f"nothing but pings for {patience:g} seconds")
    except MalformedBodyError:
        raise
    except Exception as error:  # all of it comes from the connection: what the caller raises never gets here
        raise ModelFault(reading_fault(error)) from error


async def read_decoded_events(stream: Any) -> AsyncGenerator[RawEvent, None]:
    """The events of a stream that only the SDK can decode (Bedrock), back in one spelling with the others."""
    try:
        async for event in stream:
            yield b"", encode(event)
    except Exception as error:
        raise ModelFault(reading_fault(error)) from error


async def read_reply(
    events: AsyncGenerator[RawEvent, None], response: Any, assembler: ReplyAssembler
) -> Reply:
    """The reply that the events of a response add up to. Closes the response, also where it is cancelled."""
    try:
        async with aclosing(events):
            async for name, data in events:
                _take(assembler, name, data, response)
                if assembler.complete:
                    await _drain(events, assembler)
                    return assembler.reply()
    finally:
        await response.aclose()
    raise ModelFault(Fault("cut_stream", "the stream ended before the reply did", again=True, billed=True))


def _take(assembler: ReplyAssembler, name: bytes, data: bytes, response: Any) -> None:
    try:
        event = parse(data)
    except MalformedBodyError:
        if name != b"error":
            raise
        event = data.decode("utf-8", "replace")
    if name == b"error" or (isinstance(event, dict) and event.get("type") == "error"):
        raise ModelFault(status_fault(response.status_code, response.headers, event))
    if not isinstance(event, dict):
        raise MalformedBodyError("an event is no object")
    assembler.feed(event)


async def _drain(events: AsyncGenerator[RawEvent, None], assembler: ReplyAssembler) -> None:
    """Reads a whole reply's stream to its end, so that the connection serves the next request too.

    Nothing after the end takes the reply away, but for more of a message: that is malformed.
    """
    try:
        async with asyncio.timeout(DRAIN):
            async for _, data in events:
                try:
                    event = parse(data)
                except MalformedBodyError:
                    continue
                if isinstance(event, dict):
                    assembler.feed(event)
    except (ModelFault, TimeoutError):
        return


async def read_whole_reply(response: Any) -> Reply:
    """The reply that the body of a response holds. Closes the response, also where it is cancelled."""
    try:
        body = parse(await read_body(response))
    finally:
        await response.aclose()
    if not isinstance(body, dict):
        raise MalformedBodyError("the body is no object")
    if body.get("type") == "error":
        raise ModelFault(status_fault(response.status_code, response.headers, body))
    if "stop_reason" not in body:
        raise MalformedBodyError("the message has no stop_reason")
    return whole_reply(body)


async def read_body(response: Any) -> bytes:
    """The whole body, where it is not too large. Raises :class:`ModelFault` where the connection fails."""
    try:
        return b"".join([piece async for piece in _pieces(response)])
    except MalformedBodyError:
        raise
    except Exception as error:
        raise ModelFault(reading_fault(error)) from error


async def _pieces(response: Any) -> AsyncGenerator[bytes, None]:
    total = 0
    async for piece in response.aiter_bytes():
        total += len(piece)
        if total > LARGEST:
            raise MalformedBodyError(f"the reply is larger than {LARGEST} bytes")
        yield piece


async def read_refusal(response: Any) -> Fault:
    """The fault that an answer which is no success tells of. Closes the response."""
    body = b""
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > LONGEST_ERROR:
                break
    except Exception as error:
        return reading_fault(error)
    finally:
        await response.aclose()
    try:
        said = parse(body)
    except MalformedBodyError:
        said = body.decode("utf-8", "replace").strip()
    return status_fault(response.status_code, response.headers, said)


async def shorten_error(response: Any) -> None:
    """Lets an answer that is no success end early: the SDK would read it whole, however long it is."""
    if not response.is_success:
        response.stream = _shortened()(response.stream)


@cache
def _shortened() -> Any:
    import httpx2

    class Shortened(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            left = LONGEST_ERROR
            async for piece in self._stream:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Shortened
