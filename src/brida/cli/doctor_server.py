"""What a server says when ``brida doctor`` asks it: whether it answers, its clock, the models it knows.

Nothing that a server or the transport said is handed on: it may hold the key. What is handed on are a
status, a time, names of models, and one word for what went wrong.
"""

import asyncio
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

Failure: TypeAlias = Literal[
    "timeout", "refused", "tls", "name", "connection", "credential", "certificates", "no SDK"
]

CONNECT: Final = 3.0
"""Seconds for a connection, TLS included."""

ANSWER: Final = 4.0
"""Seconds of silence after which an answer is given up."""

PATIENCE: Final = 8.0
"""Seconds for everything together, the import of the SDK and the look-up of a name included."""

LONGEST: Final = 1_000_000
"""Bytes of a list of models that are read."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What came of asking. ``failure``: why there was no answer, None where there was one.

    ``status``: of ``GET /v1/models``. ``models``: the names listed there, None where it lists none.
    ``model_status``: of ``GET /v1/models/NAME``, None where it had no use to ask. ``skew``: seconds by which
    the server's clock is ahead of this one, None where it told no time.
    """

    failure: Failure | None = None
    error: str = ""
    status: int = 0
    models: tuple[str, ...] | None = None
    model_status: int | None = None
    skew: float | None = None


def ask_server(url: str, model: str, *, patience: float = PATIENCE) -> Heard:
    """Asks the server at ``url`` for its models and for ``model``, with the credential of the environment.

    Ends within ``patience`` seconds whatever the network does; a look-up of a name that nobody answers is
    left behind in its thread. Redirects are not followed: the key goes to ``url`` and nowhere else.
    """
    heard: Future[Heard] = Future()
    so_far: list[Heard] = []

    def run() -> None:
        try:
            heard.set_result(asyncio.run(_ask(url, model, so_far)))
        except Exception as error:
            heard.set_result(Heard(_failure(error), type(error).__name__))

    threading.Thread(target=run, name="brida doctor", daemon=True).start()
    try:
        return heard.result(patience)
    except NotInTime:
        return so_far[-1] if so_far else Heard("timeout")


async def _ask(url: str, model: str, so_far: list[Heard]) -> Heard:
    """Both questions; ``so_far`` takes what is known after the first."""
    async with _client(url) as client:
        sent_at = time.time()
        status, headers, body = await _get(client, "/v1/models")
        skew = _skew(headers.get("date"), (sent_at + time.time()) / 2)
        heard = Heard(status=status, models=_names(body) if status == 200 else None, skew=skew)
        so_far.append(heard)
        if status in (401, 403) or 300 <= status < 400:
            return heard
        try:
            status, _, _ = await _get(client, f"/v1/models/{quote(model, safe='')}")
        except Exception:  # that it answers is known; of the model nothing is
            return heard
        return replace(heard, model_status=status)


def _client(url: str) -> Any:
    import anthropic

    from brida.models.anthropic import PLACEHOLDER, credential_available
    from brida.models.anthropic_stream import shorten_error

    connections = anthropic.DefaultAsyncHttpxClient(event_hooks={"response": [shorten_error]})
    key = None if credential_available(os.environ) else PLACEHOLDER
    return anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=connections)


async def _get(client: Any, path: str) -> tuple[int, Any, bytes]:
    """Status, headers and the beginning of the body."""
    import anthropic
    import httpx2

    options = {"timeout": httpx2.Timeout(ANSWER, connect=CONNECT), "follow_redirects": False}
    kind = anthropic.AsyncStream[object]
    try:
        opened = await client.get(
            path, cast_to=httpx2.Response, options=options, stream=True, stream_cls=kind
        )
    except anthropic.APIStatusError as error:
        return error.status_code, error.response.headers, b""
    response = getattr(opened, "response", opened)
    body = b""
    try:
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) > LONGEST:
                break
    finally:
        await response.aclose()
    return response.status_code, response.headers, body


def _names(body: bytes) -> tuple[str, ...] | None:
    """The ids of a list of models, in the form of the API; None where it is no such list."""
    try:
        listed = json.loads(body)["data"]
        return tuple(str(one["id"]) for one in listed)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _skew(date: str | None, now: float) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - now if date else None
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _failure(error: Exception) -> Failure:
    """One word for what went wrong: of the error itself before a request, else of all that caused it."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "APIConnectionError" not in kinds:
        before: dict[type[Exception], Failure] = {ImportError: "no SDK", OSError: "certificates"}
        return next((why for kind, why in before.items() if isinstance(error, kind)), "credential")
    waits = (ssl.SSLWantReadError, ssl.SSLWantWriteError)  # no errors, and in the chain of every timeout
    chain = [one for one in _causes(error, []) if not isinstance(one, waits)]
    during: dict[type[Exception], Failure] = {
        ssl.SSLError: "tls",
        ConnectionRefusedError: "refused",
        socket.gaierror: "name",
        TimeoutError: "timeout",
    }
    found = (why for kind, why in during.items() if any(isinstance(one, kind) for one in chain))
    return next(found, "timeout" if "APITimeoutError" in kinds else "connection")


def _causes(error: BaseException, seen: list[BaseException]) -> Iterator[BaseException]:
    """An error, all that caused it, and the members of groups among them."""
    if any(one is error for one in seen):
        return
    seen.append(error)
    yield error
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for further in (error.__cause__, error.__context__, *members):
        if further is not None:
            yield from _causes(further, seen)
