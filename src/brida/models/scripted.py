"""A model that says what a test wrote down. Public: it is how you test your own agent."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from brida.core.encoding import Block
from brida.core.events import Fault, Reply
from brida.core.prices import Prices
from brida.core.request import Request
from brida.errors import ModelFault
from brida.models.base import Delta, OnDelta

Script: TypeAlias = Sequence["Reply | Fault"] | Callable[[Mapping[str, object]], "Reply | Fault"]

SMALL_USAGE: Mapping[str, object] = {"input_tokens": 10, "output_tokens": 5}


def text(words: str) -> Block:
    """A text block."""
    return {"type": "text", "text": words}


def tool_use(call_id: str, tool: str, arguments: Mapping[str, object] | None = None) -> Block:
    """A block that asks for ``tool``."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": dict(arguments or {})}


def reply(
    *blocks: Block | str,
    stop_reason: str | None = None,
    usage: Mapping[str, object] | None = SMALL_USAGE,
    stop_sequence: str | None = None,
    stop_details: Mapping[str, object] | None = None,
) -> Reply:
    """A reply of these blocks; a plain string is a text block.

    Without a ``stop_reason`` it is ``tool_use`` where a block asks for a tool, else ``end_turn``.
    """
    content = tuple(text(block) if isinstance(block, str) else block for block in blocks)
    if stop_reason is None:
        calls = any(block.get("type") == "tool_use" for block in content)
        stop_reason = "tool_use" if calls else "end_turn"
    # Through JSON and back, as a reply from a server would come: what a test holds on to is not shared.
    content = tuple(json.loads(json.dumps(content)))
    return Reply(content, stop_reason, usage, stop_sequence, stop_details)


@dataclass(slots=True, init=False)
class ScriptedModel:
    """Says the replies of ``script``, one a request, and remembers every request in ``requests``.

    ``script`` is a list of :class:`Reply` (made with :func:`reply`) and :class:`Fault` (a failed
    attempt), or a function from the body of the request to one of them. A request for which there is
    no reply raises ``AssertionError``: a missing line is a mistake in the test, and loud. ``prices``: what it
    costs, so that limits of money can be tried.
    """

    name: str
    requests: list[Mapping[str, object]]
    base_url: str | None
    max_output_tokens: int | None
    prices: Prices | None
    _script: Script

    def __init__(
        self,
        script: Script,
        *,
        name: str = "scripted",
        max_output_tokens: int | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.name, self.base_url, self.max_output_tokens = name, None, max_output_tokens
        self.prices = prices
        self.requests = []
        self._script = script

    async def complete(self, request: Request, on_delta: OnDelta) -> Reply:
        """The next reply of the script; its texts are passed to ``on_delta`` whole."""
        body = request.as_dict()
        self.requests.append(body)
        said = self._next(body)
        if isinstance(said, Fault):
            raise ModelFault(said)
        for block in said.content:
            if block.get("type") == "text":
                on_delta(Delta("text", str(block.get("text") or "")))
        return said

    async def close(self) -> None:
        """Nothing to free."""

    def _next(self, body: Mapping[str, object]) -> Reply | Fault:
        if callable(self._script):
            return self._script(body)
        number = len(self.requests)
        if number > len(self._script):
            raise AssertionError(
                f"the script has {len(self._script)} replies and this is request {number}: {body['messages']}"
            )
        return self._script[number - 1]
