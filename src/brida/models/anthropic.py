"""Models behind the Anthropic Messages API, on the official SDK as the transport.

The SDK gives authentication, connections and typed errors. Its retries are off: one call here is one
attempt, and the run decides on another, so that each is gated and counted. The body goes out as the
bytes that the history has encoded already, and what comes in is read raw.
"""

import asyncio
import math
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from brida.core.encoding import encode
from brida.core.events import Fault, Reply
from brida.core.request import Request
from brida.errors import ConfigurationError, ModelFault
from brida.models.anthropic_faults import opening_fault, without_secrets
from brida.models.anthropic_reply import MalformedBodyError, ReplyAssembler, parse
from brida.models.anthropic_stream import (
    read_body,
    read_decoded_events,
    read_events,
    read_refusal,
    read_reply,
    read_whole_reply,
    shorten_error,
)
from brida.models.base import OnDelta

if TYPE_CHECKING:
    from pydantic import BaseModel

ANTHROPIC: Final = "https://api.anthropic.com"
STALL: Final = 600.0
"""Seconds of silence after which a stream counts as stalled."""

CONNECT: Final = 5.0
"""Seconds that a connection may take."""

LANE: Final = 8
"""Requests at once that share a client. Its pool looks at every idle connection twice a request, so that
the requests of hundreds of runs on one pool would cost their square."""

DICTIONARY_CLIENTS: Final = frozenset(("AsyncAnthropicBedrock", "AsyncAnthropicVertex"))
"""Clients that rewrite the body, so they need it as a dictionary; the flat cost is not theirs."""

COUNTED: Final = frozenset(
    ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")
)
"""Fields of a request that can be counted (messages API, count_tokens)."""

SECRET_HEADERS: Final = ("auth", "key", "token", "secret", "cookie")
"""Words in the names of headers whose values no text may show."""

PLACEHOLDER: Final = "none"
"""The key that a server which is not Anthropic's gets where there is none: it may not ask for one."""


class AnthropicModel:
    """A model that a server of the Messages API runs.

    ``name``: the model, as the server knows it. ``base_url``: the server, else ``ANTHROPIC_BASE_URL``,
    else Anthropic's; one that is not Anthropic's needs no key. ``api_key``: else what the SDK finds.
    ``client``: an async client of the SDK to use as it is (Bedrock, Vertex, Foundry, your own).
    ``takes_images``, ``structured_output``: whether the model can be shown images, and be held to a JSON
    schema; by default what Anthropic's own can, and no other. ``caches_prompts``: likewise, whether requests
    are marked for the prompt cache. ``stream``: whether replies stream.
    ``timeout``: seconds of silence after which an attempt is given up. ``max_output_tokens``: the model's
    own limit of a reply, where you know it.

    Usable in several event loops, also at once: each has connections of its own, which end with
    :meth:`close` or, where that is forgotten, with the loop. A setting that makes no sense raises
    :class:`ConfigurationError`.
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
        takes_images: bool | None = None,
        structured_output: bool | None = None,
        caches_prompts: bool | None = None,
    ) -> None:
        if not name.strip():
            raise ConfigurationError("model: expected the name of a model, got a blank one")
        if not 0 < timeout < math.inf:
            raise ConfigurationError(f"timeout: expected seconds, more than 0, got {timeout!r}")
        if max_output_tokens is not None and max_output_tokens < 1:
            raise ConfigurationError(f"max_output_tokens: expected 1 or more, got {max_output_tokens!r}")
        if client is not None and "AsyncAPIClient" not in _kinds(client):
            kind = type(client).__name__
            raise ConfigurationError(f"client: expected an async client such as AsyncAnthropic, got {kind}")
        self.name = name
        self.max_output_tokens = max_output_tokens
        given = base_url if base_url is not None else os.environ.get("ANTHROPIC_BASE_URL") or ANTHROPIC
        self._url = ANTHROPIC if client is not None else checked_url(given)
        self._api_key = api_key or None
        own = client is None and _is_anthropic(self._url)
        self.takes_images = own if takes_images is None else takes_images
        self.structured_output = own if structured_output is None else structured_output
        self.caches_prompts = own if caches_prompts is None else caches_prompts
        self._counts = True
        self._given = client
        self._stream = stream
        self._timeout = timeout
        self._owned: dict[asyncio.AbstractEventLoop, _OwnedClients] = {}

    @property
    def base_url(self) -> str:
        """Where requests go, as it may be shown: without the user and password that a URL can hold."""
        url = str(self._given.base_url) if self._given is not None else self._url
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    @property
    def needs_credential(self) -> bool:
        """Whether the server is Anthropic's and no key was given here: the environment must hold one."""
        return self._given is None and self._api_key is None and _is_anthropic(self._url)

    def preload(self) -> None:
        """Imports the SDK in a thread, while the rest is set up."""
        _importing()

    def answer_fields(
        self, output: "type[BaseModel]", extra: Mapping[str, object]
    ) -> Mapping[str, object] | None:
        """``extra`` with what makes the reply JSON that fits ``output``.

        None where the model cannot be held to a schema, or the SDK cannot write it as the API wants it.
        """
        if not self.structured_output:
            return None
        try:
            schema = _importing().result().transform_schema(output)
        except (ImportError, AttributeError, TypeError, ValueError):
            return None
        given = extra.get("output_config")
        config = dict(given) if isinstance(given, Mapping) else {}
        return {**extra, "output_config": {**config, "format": {"type": "json_schema", "schema": schema}}}

    async def complete(self, request: Request, on_delta: OnDelta) -> Reply:
        """One attempt. Cancelling it closes the connection. What ``on_delta`` raises passes through.

        Raises :class:`ModelFault` where there is no whole reply, and :class:`ConfigurationError` where
        nothing could be sent: no SDK, no credential, or one that the SDK refuses.
        """
        sdk = await _sdk()
        lent = nullcontext(self._given) if self._given is not None else (await self._clients(sdk)).lend()
        with lent as client:
            return await self._complete(sdk, client, request, on_delta)

    async def _complete(self, sdk: Any, client: Any, request: Request, on_delta: OnDelta) -> Reply:
        assembler, sent = ReplyAssembler(on_delta), list[Any]()
        try:
            return await self._attempt(sdk, client, request, assembler, sent)
        except MalformedBodyError as error:
            cause: BaseException | None = error
            fault = Fault("malformed_body", str(error), again=True, billed=True)
        except ModelFault as error:
            fault, cause = error.fault, error.__cause__
        shown = without_secrets(replace(fault, usage=assembler.usage), _secrets(client, sent))
        raise ModelFault(shown) from cause

    async def count_tokens(self, request: Request) -> int | None:
        """The tokens of the request as the server counts them; None where it cannot, which is remembered.

        The count is free, and an estimate (messages API, count_tokens).
        """
        if not self._counts:
            return None
        sdk = await _sdk()
        body = encode({name: value for name, value in request.as_dict().items() if name in COUNTED})
        lent = nullcontext(self._given) if self._given is not None else (await self._clients(sdk)).lend()
        try:
            with lent as client:
                self._counts = not DICTIONARY_CLIENTS & _kinds(client)
                return await self._count(sdk, client, body) if self._counts else None
        except Exception:  # a bound that holds is known without it
            self._counts = False
            return None

    async def _count(self, sdk: Any, client: Any, body: bytes) -> int | None:
        import httpx2

        opened = await client.post(
            "/v1/messages/count_tokens", cast_to=httpx2.Response, content=body, **self._settings(sdk)
        )
        response = getattr(opened, "response", opened)
        said = parse(await read_body(response))
        counted = said.get("input_tokens") if isinstance(said, dict) else None
        self._counts = isinstance(counted, int) and not isinstance(counted, bool) and counted >= 0
        return counted if self._counts and isinstance(counted, int) else None

    async def close(self) -> None:
        """Closes the connections of the running event loop; a client that was given stays open."""
        owned = self._owned.pop(asyncio.get_running_loop(), None)
        if owned is not None:
            await owned.close()

    # -- the attempt

    async def _attempt(
        self, sdk: Any, client: Any, request: Request, assembler: ReplyAssembler, sent: list[Any]
    ) -> Reply:
        """One attempt; ``sent`` takes what knows the headers that left, for the secrets among them."""
        import httpx2

        body: dict[str, Any] = {"cast_to": httpx2.Response, "content": request.body(stream=self._stream)}
        rewrites = bool(DICTIONARY_CLIENTS & _kinds(client))
        if rewrites:
            tail = {"stream": True} if self._stream else {}
            body = {"cast_to": httpx2.Response, "body": {**request.as_dict(), **tail}}
        if rewrites and self._stream:
            body["cast_to"] = object  # only the SDK knows how these frame their events
        try:
            opened = await client.post("/v1/messages", **body, **self._settings(sdk))
        except Exception as error:
            sent.append(error)
            fault = opening_fault(error)
            if fault is not None:
                raise ModelFault(fault) from error
            if isinstance(error, sdk.AnthropicError):
                raise ConfigurationError(f"model: {type(error).__name__}: {error}") from error
            raise
        response = getattr(opened, "response", opened)
        sent.append(response)
        if not response.is_success:  # a client's own middleware lets it through
            raise ModelFault(await read_refusal(response))
        if not self._stream:
            return await read_whole_reply(response)
        framed = body["cast_to"] is object
        events = read_decoded_events(opened) if framed else read_events(response, patience=self._timeout)
        return await read_reply(events, response, assembler)

    def _settings(self, sdk: Any) -> dict[str, Any]:
        """How every request goes out. A whole reply too is read as it comes, so that its size is bounded."""
        import httpx2

        options = {
            "headers": {"content-type": "application/json"},
            "max_retries": 0,
            "timeout": httpx2.Timeout(self._timeout, connect=min(CONNECT, self._timeout)),
            "follow_redirects": False,  # the key does not go to an address that nobody named
        }
        return {"stream": True, "stream_cls": sdk.AsyncStream[object], "options": options}

    # -- clients and credentials

    async def _clients(self, sdk: Any) -> "_OwnedClients":
        loop = asyncio.get_running_loop()
        owned = self._owned.get(loop)
        if owned is None:
            for old in [old for old in [*self._owned] if old.is_closed()]:
                self._owned.pop(old, None)
            owned = await _OwnedClients.open(self._new_client(sdk), partial(_new_connections, sdk))
            self._owned[loop] = owned
        return owned

    def _new_client(self, sdk: Any) -> Any:
        found = credential_available(os.environ)
        if self.needs_credential and not found:
            raise ConfigurationError(
                f"model: {self.name!r} needs a credential: set ANTHROPIC_API_KEY, or give the base_url of a "
                "server that needs none, or use the embedded model"
            )
        key = self._api_key or (None if found else PLACEHOLDER)
        try:
            client = sdk.AsyncAnthropic(
                api_key=key, base_url=self._url, max_retries=0, http_client=_new_connections(sdk)
            )
        except (sdk.AnthropicError, ValueError) as error:
            raise ConfigurationError(f"model: {type(error).__name__}: {error}") from error
        for held in (client.api_key, client.auth_token):
            if held is not None and not (held.isascii() and held.isprintable() and held == held.strip()):
                raise ConfigurationError(
                    "api_key: the key (or ANTHROPIC_API_KEY, or ANTHROPIC_AUTH_TOKEN) has spaces around it, "
                    "a line break, or characters that are not ASCII"
                )
        return client


def _new_connections(sdk: Any) -> Any:
    return sdk.DefaultAsyncHttpxClient(verify=_tls(), event_hooks={"response": [shorten_error]})


class _OwnedClients:
    """The clients of one event loop, of one credential, each with connections of its own.

    They end with the loop, if nothing ends them before: a loop closes the asynchronous generators that
    began in it before it ends; this holds one, so that connections never outlive their loop.
    """

    def __init__(self, first: Any, new_connections: Callable[[], Any]) -> None:
        self._clients = [first]
        self._busy = [0]
        self._new_connections = new_connections
        self._life = self._live()

    @classmethod
    async def open(cls, first: Any, new_connections: Callable[[], Any]) -> "_OwnedClients":
        owned = cls(first, new_connections)
        await anext(owned._life)
        return owned

    @contextmanager
    def lend(self) -> Iterator[Any]:
        """The first client that has room for another request; a new one where none has."""
        lane = next((lane for lane, busy in enumerate(self._busy) if busy < LANE), len(self._busy))
        if lane == len(self._busy):
            self._clients.append(self._clients[0].copy(http_client=self._new_connections()))
            self._busy.append(0)
        self._busy[lane] += 1
        try:
            yield self._clients[lane]
        finally:
            self._busy[lane] -= 1

    async def close(self) -> None:
        await self._life.aclose()

    async def _live(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            for client in self._clients:
                await client.close()


# -- credentials


def credential_available(environ: Mapping[str, str]) -> bool:
    """Whether the SDK would find a credential: in a variable, or in the active profile on disk.

    Looks where the SDK looks, without importing it.
    """
    if any(environ.get(f"ANTHROPIC_{name}") for name in ("API_KEY", "AUTH_TOKEN", "PROFILE")):
        return True
    identity = environ.get("ANTHROPIC_IDENTITY_TOKEN") or environ.get("ANTHROPIC_IDENTITY_TOKEN_FILE")
    if identity and all(
        environ.get(f"ANTHROPIC_{name}") for name in ("FEDERATION_RULE_ID", "ORGANIZATION_ID")
    ):
        return True
    try:
        folder = _profiles(environ)
        pointer = folder / "active_config"
        name = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else ""
        return (folder / "configs" / f"{name or 'default'}.json").is_file()
    except (OSError, ValueError, RuntimeError):
        return False


def _profiles(environ: Mapping[str, str]) -> Path:
    if chosen := environ.get("ANTHROPIC_CONFIG_DIR"):
        return Path(chosen)
    if os.name == "nt":
        return Path(environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / "Anthropic"
    return Path(environ.get("HOME") or Path.home()) / ".config" / "anthropic"


def _secrets(client: Any, sent: Sequence[Any]) -> set[str]:
    """What no text may show: what the client holds, the environment holds, and the headers held that left."""
    names = ("api_key", "auth_token", "access_token", "aws_secret_key", "aws_session_token")
    held = [getattr(client, name, None) for name in names]
    held += [os.environ.get(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")]
    held.append(unquote(urlsplit(str(client.base_url)).password or ""))
    for one in sent:
        try:
            headers = one.request.headers.items()
        except (AttributeError, RuntimeError):  # an error without a request
            continue
        secret = [value for name, value in headers if any(word in name for word in SECRET_HEADERS)]
        held += [value.partition(" ")[2] or value for value in secret]
    return {value for value in held if isinstance(value, str) and value not in ("", PLACEHOLDER)}


# -- addresses


def _kinds(client: Any) -> set[str]:
    return {kind.__name__ for kind in type(client).__mro__}


def _is_anthropic(url: str) -> bool:
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host == "anthropic.com" or host.endswith(".anthropic.com")


def checked_url(url: str) -> str:
    """The address of a server, where it is one. Raises :class:`ConfigurationError`, without any password."""
    try:
        parts = urlsplit(url)
        valid = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and not any(mark in url for mark in "?#\\")
            and all(character.isprintable() and not character.isspace() for character in url)
        )
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        shown = url.rpartition("@")[2][:200]
        raise ConfigurationError(f"base_url: {shown!r} is no address such as http://127.0.0.1:8080")
    return url


# -- the SDK, which takes a second or two to import


async def _sdk() -> Any:
    importing = _importing()
    try:
        return importing.result() if importing.done() else await asyncio.wrap_future(importing)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"model: the package {error.name} is missing: pip install anthropic, or use the embedded model"
        ) from error
    except ImportError as error:
        raise ConfigurationError(f"model: the package anthropic cannot be imported: {error}") from error


@cache
def _importing() -> "Future[Any]":
    """The import of the SDK, in a daemon thread: it holds up no event loop and no end of a process."""
    importing: Future[Any] = Future()
    importing.set_running_or_notify_cancel()  # so that who gives up waiting does not cancel it for all

    def run() -> None:
        try:
            importing.set_result(import_module("anthropic"))
        except BaseException as error:
            importing.set_exception(error)

    threading.Thread(target=run, name="brida import", daemon=True).start()
    return importing


@cache
def _tls() -> Any:
    """One TLS context for all connections: it takes long to make, and threads may share it."""
    import httpx2

    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise ConfigurationError(f"SSL_CERT_FILE or SSL_CERT_DIR: no certificates there: {error}") from error
