"""What a run spends: the reservation of a request in time, and 30 turns in tokens and US dollars.

The server counts as the API does: a token for four bytes, what it has cached apart, and what a mark has it
cache (messages API, prompt caching). It costs nothing, so the prices are those of a model that would.
"""

import asyncio
import hashlib
import json
import threading
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import anthropic
from examples.loops import bare

from brida import Agent, AnthropicModel, Limits, tool
from brida.core.ceilings import largest, reserve
from brida.core.events import Said
from brida.core.prices import Prices
from brida.core.state import State, fold
from brida.core.usage import Usage, read_usage

TURNS: Final = 30
RESULT: Final = 2_000
"""Characters that the result of each turn has: a page of a file."""

PRICES: Final = Prices.of(input="3", output="15", cache_read="0.30", cache_write="3.75")
"""US dollars a million tokens, as models of the middle size have them."""

CACHED, UNCACHED, PLAIN = "brida, prompt cache", "brida, no cache", "plain loop"
WHO: Final = (CACHED, UNCACHED, PLAIN)
RESERVATION: Final = "the reservation of a request"


class Counting(ThreadingHTTPServer):
    """A model that asks for one page a turn, so many turns, and counts what that takes."""

    def __init__(self, turns: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.turns = turns
        self.cached: set[str] = set()
        self.usage = Usage()

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request, with its counters."""
        at = len(body["messages"]) // 2
        content: list[dict[str, Any]] = [{"type": "text", "text": "That is all."}]
        if at < self.turns:
            call = {"type": "tool_use", "id": f"toolu_{at}", "name": "read_file", "input": {"path": str(at)}}
            content = [call]
        usage = {**self._input(body), "output_tokens": len(json.dumps(content)) // 4}
        self.usage += read_usage(usage, most_input=0, most_output=0, reply=())
        message = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": body["model"]}
        ends = {"stop_reason": "tool_use" if at < self.turns else "end_turn", "stop_sequence": None}
        return {**message, "content": content, **ends, "usage": usage}

    def _input(self, body: dict[str, Any]) -> dict[str, int]:
        """The longest beginning that is cached is read; where there is a mark, the rest is written."""
        parts = [json.dumps((body.get("tools"), body.get("system")))]
        parts += [json.dumps(message) for message in body["messages"]]
        sizes: list[int] = []
        digests, running = [], hashlib.sha256()
        for part in parts:
            running.update(part.replace(', "cache_control": {"type": "ephemeral"}', "").encode())
            sizes.append((sizes[-1] if sizes else 0) + len(part) // 4)
            digests.append(running.hexdigest())
        if "cache_control" not in body:
            return {"input_tokens": sizes[-1]}
        found = [size for size, digest in zip(sizes, digests, strict=True) if digest in self.cached]
        read = max(found, default=0)
        self.cached |= {digests[0], digests[-1]}
        written = sizes[-1] - read
        counted = {"cache_creation_input_tokens": written, "cache_read_input_tokens": read}
        return {"input_tokens": 0, **counted}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answers a request for a message."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = json.dumps(self.server.reply(body)).encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


@contextmanager
def _serving(turns: int) -> Iterator[tuple[Counting, str]]:
    server = Counting(turns)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def page(path: str) -> str:
    """A page of text that differs from any other."""
    return (f"{path} and so on. " * RESULT)[:RESULT]


def spending(turns: int, times: int) -> dict[str, tuple[float, float]]:
    """Tokens and US dollars of each; of the reservation, microseconds."""
    found = {}
    for who in WHO:
        with _serving(turns) as (server, url):
            if who == PLAIN:
                _plain(url)
            else:
                _brida(url, turns, cache=who == CACHED)
            cost = Decimal(PRICES.cost(server.usage))
            found[who] = (float(server.usage.total), float(cost))
    return {**found, RESERVATION: (_reservation(times), 0.0)}


def _plain(url: str) -> None:
    known = bare.FUNCTIONS["read_file"]
    bare.FUNCTIONS["read_file"] = page
    try:
        bare.loop(anthropic.Anthropic(base_url=url, api_key="none"), "Read every page.", "bench")
    finally:
        bare.FUNCTIONS["read_file"] = known


def _brida(url: str, turns: int, *, cache: bool) -> None:
    async def run() -> None:
        model = AnthropicModel("bench", base_url=url, api_key="none", stream=False, caches_prompts=True)
        given = [tool(impact="read")(function) for function in (bare.get_time, read_file, bare.write_file)]
        limits = Limits(max_turns=turns + 1, max_tokens_total=None, max_cost=1_000)
        agent = Agent(model=model, tools=given, limits=limits, prices={"bench": PRICES}, cache=cache)
        outcome = await agent.run("Read every page.")
        await model.close()
        if not outcome.completed:
            raise RuntimeError(f"expected a run that completes, got {outcome.stop}")

    asyncio.run(run())


def read_file(path: str) -> str:
    """Read a text file."""
    return page(path)


def _reservation(times: int) -> float:
    """Microseconds of what the ceilings of tokens and money add to a request."""
    from brida.core.events import Started

    started = Started(0.0, "bench", "m", 4_096, 32_768, prices=PRICES, cache=True)
    state: State = fold([started, Said(0.0, "x" * 1_000)])
    limits = Limits(max_cost=100, max_tokens_total=10**6)

    def once() -> None:
        fitting = largest(state, limits, state.head, state.max_tokens)
        if not isinstance(fitting, int):
            raise RuntimeError(f"expected a request that fits, got {fitting}")
        reserve(state, state.head, fitting)

    return timeit.timeit(once, number=times) / times * 1_000_000
