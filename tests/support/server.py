"""A Messages API that says what a script tells it to and refuses what the real one would refuse.

In a test::

    with Server([asks(tool_use("toolu_1", "clock")), says("noon")]) as server:
        client = Anthropic(base_url=server.base_url, api_key="any")

As a process of its own: ``python -m support.server --port 0 --script NAME|FILE`` (see ``command``).
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from support import wire
from support.catalogue import DEFAULT_MODELS, model_list
from support.delivery import Delivery
from support.field_rules import ModelRules
from support.memory import Memory
from support.reception import Received, receive
from support.script import Error, Item, RawBody, Script


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came. ``body`` is None where it is no JSON object; header names are in lower case.

    ``expanded`` is the body with the messages that a thread holds; without a thread it is ``body``.
    """

    index: int
    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any] | None
    expanded: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Violation:
    """What was wrong with a request, by its index in ``Server.requests``."""

    request: int
    problems: tuple[str, ...]


class Server:
    """Answers POST /v1/messages, POST /v1/messages/count_tokens, GET /v1/models and GET /v1/models/ID.

    ``replies`` is a list, or a function of (how many replies were asked for before, the expanded body).
    Requests that are refused use up no reply. Leaving the ``with`` block raises AssertionError where a
    request broke a rule or a reply was missing, unless ``allow_violations``.
    """

    def __init__(
        self,
        replies: Script,
        *,
        port: int = 0,
        require_key: bool = True,
        allow_violations: bool = False,
        support_threads: bool = True,
        model_rules: ModelRules | None = None,
        models: Mapping[str, Mapping[str, Any]] = DEFAULT_MODELS,
        count_tokens: Callable[[dict[str, Any]], int] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.violations: list[Violation] = []
        self.disconnects = 0
        self.port = port
        self._replies = replies
        self._replied = 0
        self._answers = 0
        self._require_key = require_key
        self._allow_violations = allow_violations
        self._memory = Memory(threads=support_threads)
        self._model_rules = model_rules
        self._models = models
        self._count_tokens = count_tokens
        self._changed = threading.Condition()
        self._connections: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    # --- what a test asks -----------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The expanded bodies of all requests to /v1/messages, refused ones included."""
        return [
            one.expanded for one in self.requests if one.path == "/v1/messages" and one.expanded is not None
        ]

    def wait_for_requests(self, count: int, timeout: float = 10.0) -> None:
        """Wait until so many requests came in (all paths); seconds; TimeoutError."""
        self._wait_until(lambda: len(self.requests) >= count, timeout, f"{count} requests")

    def wait_for_disconnects(self, count: int = 1, timeout: float = 10.0) -> None:
        """Wait until so many clients went away before their answer was whole; seconds; TimeoutError."""
        self._wait_until(lambda: self.disconnects >= count, timeout, f"{count} disconnects")

    def _wait_until(self, holds: Callable[[], bool], timeout: float, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(holds, timeout):
                raise TimeoutError(f"waited {timeout} s for {what}; {len(self.requests)} requests so far")

    # --- life ------------------------------------------------------------------------------------------

    def __enter__(self) -> "Server":
        listening = threading.Event()
        failures: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self.serve(lambda port: listening.set()))
            except BaseException as error:
                failures.append(error)
            finally:
                listening.set()

        self._thread = threading.Thread(target=run, name="messages-api", daemon=True)
        self._thread.start()
        listening.wait()
        if failures:
            raise failures[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if error is None and self.violations and not self._allow_violations:
            lines = [f"request {one.request}: {text}" for one in self.violations for text in one.problems]
            raise AssertionError("the requests were not all valid:\n" + "\n".join(lines))

    def close(self) -> None:
        """Drop all connections and stop. May be called from any thread, more than once."""
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is not None:
            self._thread.join()

    async def serve(self, listening: Callable[[int], None]) -> None:
        """Serve until ``close``. ``listening`` is told the port."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port, limit=wire.HEADER_LIMIT)
        try:
            self.port = listener.sockets[0].getsockname()[1]
            listening(self.port)
            await self._stop.wait()
        finally:
            listener.close()
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            await listener.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._connection(wire.Exchange(reader, writer), writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _connection(self, exchange: wire.Exchange, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await exchange.read():
                await self._answer(exchange, head)
        except wire.Drop:
            pass
        except ConnectionError:
            with self._changed:
                self.disconnects += 1
                self._changed.notify_all()
        finally:
            writer.close()

    # --- one request -----------------------------------------------------------------------------------

    async def _answer(self, exchange: wire.Exchange, head: wire.Head) -> None:
        self._answers += 1
        received = receive(head, self._memory, require_key=self._require_key, model_rules=self._model_rules)
        request = self._remember(head, received)
        item: Item
        if received.refusal is not None:
            item = received.refusal
        elif head.path == "/v1/messages":
            item = self._next_item(request)
        elif head.path == "/v1/messages/count_tokens":
            item = self._counted(request)
        else:
            item = model_list(self._models, head.path)
        await Delivery(exchange, self._memory, request.expanded or {}, self._answers).send(item)

    def _remember(self, head: wire.Head, received: Received) -> Request:
        with self._changed:
            at = len(self.requests)
            request = Request(
                at, head.method, head.path, head.headers, head.raw, received.body, received.expanded
            )
            self.requests.append(request)
            if received.problems:
                self.violations.append(Violation(at, received.problems))
            self._changed.notify_all()
        return request

    def _next_item(self, request: Request) -> Item:
        at, self._replied = self._replied, self._replied + 1
        try:
            if callable(self._replies):
                return self._replies(at, request.expanded or {})
            if at < len(self._replies):
                return self._replies[at]
            text = f"script: no reply number {at}, the script has {len(self._replies)}"
        except Exception as error:
            text = f"script: reply number {at} failed: {error!r}"
        self.violations.append(Violation(request.index, (text,)))
        return Error(500, message=text, headers={"x-should-retry": "false"})

    def _counted(self, request: Request) -> RawBody:
        count = self._count_tokens or (lambda body: max(1, len(wire.encode(body)) // 4))
        return RawBody(200, wire.encode({"input_tokens": count(request.expanded or {})}))


if __name__ == "__main__":
    from support.command import main

    main()
