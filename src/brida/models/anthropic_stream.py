"""What comes in from a server, as bytes: bounded, cut into events, its failures turned into faults."""

import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final, TypeAlias

from brida.core.encoding import encode
from brida.errors import ModelFault
from brida.models.anthropic_faults import reading_fault
from brida.models.anthropic_reply import MalformedBodyError

LARGEST: Final = 64 * 2**20
"""Bytes that a reply may have, decompressed."""

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
        self._unfinished.append(piece)
        if b"\n" not in piece and b"\r" not in piece:
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


async def read_body(response: Any) -> bytes:
    """The whole body of a response. Raises as :func:`read_events` does."""
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
