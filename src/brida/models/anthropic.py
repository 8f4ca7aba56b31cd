"""Models behind the Anthropic Messages API, on the official SDK as the transport.

The SDK gives authentication, connections and typed errors. Its retries are off: one call here is one
attempt, and the run decides on another, so that each is gated and counted. The body goes out as the
bytes that the history has encoded already, and the events of a stream come in raw.
"""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakKeyDictionary

from brida.core.events import Fault, Reply
from brida.core.request import Request
from brida.errors import ConfigurationError, ModelFault
from brida.models.anthropic_faults import SHOWN, status_fault, without_secrets
from brida.models.anthropic_reply import MalformedBodyError, ReplyAssembler, parse, whole_reply
from brida.models.base import OnDelta

ANTHROPIC: Final = "https://api.anthropic.com"
STALL: Final = 600.0
"""Seconds of silence after which a stream counts as stalled."""

CONNECT: Final = 5.0
"""Seconds that a connection may take."""

DRAIN: Final = 0.25
"""Seconds that a stream gets to end after the reply is whole; then its connection is given up."""

LARGEST: Final = 64 * 2**20
"""Bytes that a reply may have."""

DICTIONARY_CLIENTS: Final = ("AsyncAnthropicBedrock", "AsyncAnthropicVertex")
"""Clients that rewrite the body, so they need it as a dictionary; the flat cost is not theirs."""

CREDENTIALS: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_PROFILE",
    "ANTHROPIC_IDENTITY_TOKEN",
    "ANTHROPIC_IDENTITY_TOKEN_FILE",
)


class AnthropicModel:
    """A model that a server of the Messages API runs.

    ``name``: the model, as the server knows it. ``base_url``: the server, else ``ANTHROPIC_BASE_URL``,
    else Anthropic's; one that is not Anthropic's needs no key. ``api_key``: else what the SDK finds.
    ``client``: an async client of the SDK to use as it is (Bedrock, Vertex, Foundry, your own).
    ``stream``: whether replies stream. ``timeout``: seconds of silence after which an attempt is given
    up. ``max_output_tokens``: the model's own limit of a reply, where you know it.

    Usable in several event loops, also at once: each has connections of its own. A setting that makes
    no sense raises :class:`ConfigurationError`.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        client: Any = None,
        stream: bool = True,
        timeout: float = STALL,
        max_output_tokens: int | None = None,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("model: expected the name of a model, got a blank one")
        if client is not None and not type(client).__name__.startswith("Async"):
            kind = type(client).__name__
            raise ConfigurationError(f"client: expected an async client such as AsyncAnthropic, got {kind}")
        self.name = name
        self.max_output_tokens = max_output_tokens
        self._url = _checked_url(base_url or os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC)
        self._api_key = api_key
        self._given = client
        self._stream = stream
        self._timeout = timeout
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    @property
    def base_url(self) -> str:
        """Where requests go, as it may be shown: without the user and password that a URL can hold."""
        url = str(self._given.base_url) if self._given is not None else self._url
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def needs_credential(self) -> bool:
        """Whether the server is Anthropic's and no key was given here: the environment must hold one."""
        return self._given is None and not self._api_key and _is_anthropic(self._url)

    def preload(self) -> None:
        """Imports the SDK in a thread, while the rest is set up."""
        threading.Thread(target=_import_quietly, name="brida import", daemon=True).start()

    async def complete(self, request: Request, on_delta: OnDelta) -> Reply:
        """One attempt. Cancelling it closes the connection."""
        sdk = await _sdk()
        client = self._client(sdk)
        try:
            if any(kind.__name__ in DICTIONARY_CLIENTS for kind in type(client).__mro__):
                return await self._attempt_with_dictionary(sdk, client, request, on_delta)
            return await self._attempt(sdk, client, request, on_delta)
        except ModelFault as error:
            raise ModelFault(without_secrets(error.fault, _secrets(client))) from error.__cause__

    async def close(self) -> None:
        """Closes the connections of the running event loop; a client that was given stays open."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    # -- the attempt

    async def _attempt(self, sdk: Any, client: Any, request: Request, on_delta: OnDelta) -> Reply:
        import httpx2

        assembler = ReplyAssembler(on_delta)
        opened = False
        try:
            response = await client.post(
                "/v1/messages",
                content=request.body(stream=self._stream),
                cast_to=httpx2.Response,
                stream=self._stream,
                stream_cls=sdk.AsyncStream[object] if self._stream else None,
                options=self._options(),
            )
            opened = True
            try:
                if not self._stream:
                    return _read_whole(response.content, response)
                events = sdk.AsyncStream.raw_events(_Bounded(response))
                heard = time.monotonic()
                async for event in events:
                    heard = self._still_talking(event.event, heard)
                    self._take(assembler, event.event, event.data, response)
                    if assembler.complete:
                        await _drain(events)
                        return assembler.reply()
            finally:
                await response.aclose()
        except (sdk.APIError, httpx2.HTTPError, httpx2.StreamError, ValueError, TimeoutError) as error:
            raise ModelFault(_fault(error, opened, assembler.usage)) from error
        raise ModelFault(_cut(assembler.usage))

    def _still_talking(self, event: str | None, heard: float) -> float:
        """When the server last said something; pings alone, for too long, are silence."""
        now = time.monotonic()
        if event == "ping" and now - heard > self._timeout:
            raise TimeoutError("nothing but pings")
        return heard if event == "ping" else now

    @staticmethod
    def _take(assembler: ReplyAssembler, name: str | None, data: str, response: Any) -> None:
        if name == "error":
            raise ModelFault(replace(_error_in_body(data, response), usage=assembler.usage))
        if name != "ping" and data:
            event = parse(data)
            if not isinstance(event, dict):
                raise MalformedBodyError(f"an event is no object: {data[:40]!r}")
            assembler.feed(event)

    async def _attempt_with_dictionary(
        self, sdk: Any, client: Any, request: Request, on_delta: OnDelta
    ) -> Reply:
        import httpx2

        assembler = ReplyAssembler(on_delta)
        opened = False
        try:
            stream = await client.post(
                "/v1/messages",
                body={**request.as_dict(), "stream": True},
                cast_to=object,
                stream=True,
                stream_cls=sdk.AsyncStream[object],
                options=self._options(),
            )
            opened = True
            async with stream:
                async for event in stream:
                    assembler.feed(event)
                    if assembler.complete:
                        return assembler.reply()
        except (sdk.APIError, httpx2.HTTPError, httpx2.StreamError, ValueError, TimeoutError) as error:
            raise ModelFault(_fault(error, opened, assembler.usage)) from error
        raise ModelFault(_cut(assembler.usage))

    def _options(self) -> dict[str, Any]:
        import httpx2

        return {
            "headers": {"content-type": "application/json"},
            "max_retries": 0,
            "timeout": httpx2.Timeout(self._timeout, connect=CONNECT),
            "follow_redirects": False,
        }

    # -- clients and credentials

    def _client(self, sdk: Any) -> Any:
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            self._check_credentials()
            key = self._api_key
            if key is None and not credential_available(os.environ):
                key = "none"  # the server is not Anthropic's and may not ask for one
            client = sdk.AsyncAnthropic(api_key=key, base_url=self._url, max_retries=0)
            self._clients[loop] = client
        return client

    def _check_credentials(self) -> None:
        if self.needs_credential and not credential_available(os.environ):
            raise ConfigurationError(
                f"model: {self.name!r} needs a credential: set ANTHROPIC_API_KEY, or give the base URL of a "
                "server that needs none, or use the embedded model"
            )


class _Bounded:
    """A response whose body may not grow without end."""

    def __init__(self, response: Any) -> None:
        self._response = response

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        total = 0
        async for piece in self._response.aiter_bytes():
            total += len(piece)
            if total > LARGEST:
                raise MalformedBodyError(f"the reply is larger than {LARGEST} bytes")
            yield piece


async def _drain(events: AsyncIterator[Any]) -> None:
    """Reads a whole reply's stream to its end, so that the connection serves the next request too."""
    try:
        async with asyncio.timeout(DRAIN):
            async for _ in events:
                pass
    except (Exception, asyncio.CancelledError):  # the reply is whole: nothing after it takes it away
        return


def _read_whole(content: bytes, response: Any) -> Reply:
    body = parse(content)
    if not isinstance(body, dict):
        raise MalformedBodyError("the body is no object")
    if body.get("type") == "error":
        raise ModelFault(status_fault(response.status_code, response.headers, body))
    return whole_reply(body)


def _error_in_body(data: str, response: Any) -> Fault:
    try:
        body = parse(data)
    except MalformedBodyError:
        body = None
    return status_fault(response.status_code, response.headers, body)


def _fault(error: Exception, opened: bool, usage: Mapping[str, Any] | None) -> Fault:
    """The fault behind an exception of the SDK, of its transport, or of our own reading."""
    if isinstance(error, MalformedBodyError | UnicodeError):
        return Fault("malformed_body", str(error)[:SHOWN], again=True, usage=usage, billed=True)
    if hasattr(error, "status_code") and hasattr(error, "response"):
        headers = error.response.headers
        return replace(status_fault(error.status_code, headers, getattr(error, "body", None)), usage=usage)
    cause = error if opened else (error.__cause__ or error)
    name = type(cause).__name__
    message = f"{name}: {cause}"[:SHOWN] if str(cause) else name
    if "Timeout" in name or "Timeout" in type(error).__name__:
        kind = "stalled_stream" if opened else "timeout"
    else:
        kind = "cut_stream" if opened else "connection"
    reached = name not in ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol")
    return Fault(kind, message, again=name != "UnsupportedProtocol", usage=usage, billed=reached)


def _cut(usage: Mapping[str, Any] | None) -> Fault:
    return Fault("cut_stream", "the stream ended before the reply did", again=True, usage=usage, billed=True)


def credential_available(environ: Mapping[str, str]) -> bool:
    """Whether the SDK would find a credential: in a variable, or in the active profile on disk.

    Looks where the SDK looks, without importing it.
    """
    if any(environ.get(name) for name in CREDENTIALS):
        return True
    base = environ.get("ANTHROPIC_CONFIG_DIR") or Path(environ.get("HOME", "~")) / ".config" / "anthropic"
    folder = Path(base).expanduser()
    try:
        active = folder / "active_config"
        name = active.read_text(encoding="utf-8").strip() if active.is_file() else "default"
        return (folder / "configs" / f"{name}.json").is_file()
    except (OSError, ValueError):
        return False


def _secrets(client: Any) -> tuple[str | None, ...]:
    held = (getattr(client, "api_key", None), getattr(client, "auth_token", None))
    found = (os.environ.get("ANTHROPIC_API_KEY"), os.environ.get("ANTHROPIC_AUTH_TOKEN"))
    return tuple(value for value in (*held, *found) if isinstance(value, str) and value != "none")


def _is_anthropic(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        valid = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not parts.query
            and not parts.fragment
        )
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        shown = url.rpartition("@")[2][:200]
        raise ConfigurationError(f"base_url: {shown!r} is no address such as http://127.0.0.1:8080")
    return url.strip()


async def _sdk() -> Any:
    if "anthropic" in sys.modules and hasattr(sys.modules["anthropic"], "AsyncStream"):
        return sys.modules["anthropic"]
    try:
        return await asyncio.to_thread(import_module, "anthropic")
    except ImportError as error:
        raise ConfigurationError("model: the package anthropic is not installed") from error


def _import_quietly() -> None:
    try:
        import_module("anthropic")
    except Exception:  # whoever needs it meets the error again
        return
