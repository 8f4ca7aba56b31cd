"""Putting a reply together from what a server sends, whole or streamed, and judging that it is one.

Facts of the wire are from the Messages API: blocks come by index, counters of a stream are cumulative,
and a streamed reply counts only after ``message_stop``. Whatever does not fit is a malformed body: it
is thrown away whole, never mended.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from brida.core.encoding import Block
from brida.core.events import Reply
from brida.models.base import Delta, OnDelta

DEEPEST: Final = 200
"""Levels of nesting that a reply may have; deeper ones could not be encoded again."""

WHOLE: Final = ("tool_use", "end_turn", "stop_sequence", "pause_turn", "compaction")
"""Stop reasons after which every call is whole. After any other the loop runs nothing of the reply."""


class MalformedBodyError(ValueError):
    """What the server sent is no reply."""


def _no_constant(name: str) -> Any:
    raise MalformedBodyError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedBodyError(f"{text[:40]} is too large a number")
    return value


_decode = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode


def parse(text: str | bytes) -> Any:
    """The JSON value of ``text``; :class:`MalformedBodyError` where it could not be sent again."""
    try:
        value = _decode(text.decode() if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:
        raise MalformedBodyError(f"no valid JSON: {str(error)[:200]}") from error
    if _depth_passes(value, DEEPEST):
        raise MalformedBodyError(f"nested more than {DEEPEST} levels deep")
    return value


def _depth_passes(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def whole_reply(body: Mapping[str, Any]) -> Reply:
    """The reply that a body without streaming holds."""
    usage, stop_reason = body.get("usage"), body.get("stop_reason")
    if body.get("type") != "message":
        raise MalformedBodyError(f"expected a message, got type {str(body.get('type'))[:40]!r}")
    return Reply(
        content=_checked_blocks(body.get("content")),
        stop_reason=_text_or_none("stop_reason", stop_reason),
        usage=usage if isinstance(usage, dict) else None,
        stop_sequence=_text_or_none("stop_sequence", body.get("stop_sequence")),
        stop_details=_details(body.get("stop_details")),
        id=_text_or_none("id", body.get("id")),
        model=_text_or_none("model", body.get("model")),
    )


class ReplyAssembler:
    """Takes the events of a stream, one by one; ``complete`` says whether the reply is whole."""

    def __init__(self, on_delta: OnDelta) -> None:
        self.complete = False
        self.usage: dict[str, Any] | None = None
        self._on_delta = on_delta
        self._message: dict[str, Any] | None = None
        self._end: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._pieces: list[dict[str, list[str]]] = []
        self._ended: set[int] = set()
        self._cut_calls = False

    def feed(self, event: Mapping[str, Any]) -> None:
        """Takes one event. Unknown events and ``ping`` say nothing; one out of order is malformed."""
        kind = event.get("type")
        take = _TAKERS.get(str(kind))
        if take is None:
            return
        if self.complete or (self._message is None) is not (kind == "message_start"):
            raise MalformedBodyError(f"{kind} out of order")
        take(self, event)

    def reply(self) -> Reply:
        """The whole reply. Only where :attr:`complete`."""
        stop_reason = self._end.get("stop_reason")
        for index in range(len(self._blocks)):
            self._close(index)
        if self._cut_calls and stop_reason in WHOLE:
            raise MalformedBodyError("the arguments of a call are no JSON object")
        return whole_reply(
            {**(self._message or {}), **self._end, "content": self._blocks, "usage": self.usage}
        )

    # -- one kind of event each

    def _start(self, event: Mapping[str, Any]) -> None:
        message = event.get("message")
        if not isinstance(message, dict):
            raise MalformedBodyError("message_start without a message")
        if message.get("content"):
            raise MalformedBodyError("message_start with content")
        self._message = message
        self._count(message.get("usage"))

    def _block_start(self, event: Mapping[str, Any]) -> None:
        block, index = event.get("content_block"), event.get("index")
        if type(index) is not int or index != len(self._blocks) or not isinstance(block, dict):
            raise MalformedBodyError("content_block_start out of order")
        self._blocks.append(block)
        self._pieces.append({})
        if block.get("type") == "text" and block.get("text"):
            self._on_delta(Delta("text", str(block["text"])))

    def _block_delta(self, event: Mapping[str, Any]) -> None:
        delta, index = event.get("delta"), self._index(event)
        if not isinstance(delta, dict):
            raise MalformedBodyError("content_block_delta without a delta")
        block, kind = self._blocks[index], str(delta.get("type"))
        if kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        elif kind == "compaction_delta":
            block.update({name: value for name, value in delta.items() if name != "type"})
        elif kind in _GROWING:
            name, heard = _GROWING[kind]
            piece = delta.get(name)
            if not isinstance(piece, str):
                raise MalformedBodyError(f"{kind} without {name}")
            self._pieces[index].setdefault(name, []).append(piece)
            if heard and piece:
                self._on_delta(Delta(heard, piece))
        else:
            raise MalformedBodyError(f"unknown delta {kind[:40]!r}")

    def _block_stop(self, event: Mapping[str, Any]) -> None:
        index = self._index(event)
        self._close(index)
        self._ended.add(index)

    def _message_delta(self, event: Mapping[str, Any]) -> None:
        delta = event.get("delta")
        if not isinstance(delta, dict):
            raise MalformedBodyError("message_delta without a delta")
        self._end.update(delta)
        self._count(event.get("usage"))

    def _stop(self, _event: Mapping[str, Any]) -> None:
        self.complete = True

    # -- how it is kept

    def _index(self, event: Mapping[str, Any]) -> int:
        index = event.get("index")
        if type(index) is not int or not 0 <= index < len(self._blocks) or index in self._ended:
            raise MalformedBodyError(f"no open block has the index {str(index)[:40]}")
        return index

    def _close(self, index: int) -> None:
        """Joins the pieces of a block. Arguments are parsed here, once; without pieces they stay."""
        block, pieces = self._blocks[index], self._pieces[index]
        self._pieces[index] = {}
        for name, parts in pieces.items():
            joined = "".join(parts)
            if name != "partial_json":
                block[name] = str(block.get(name) or "") + joined
            elif joined:
                block["input"] = self._arguments(joined)

    def _arguments(self, text: str) -> dict[str, Any]:
        try:
            value = parse(text)
        except MalformedBodyError:
            value = None
        if isinstance(value, dict):
            return value
        self._cut_calls = True
        return {}

    def _count(self, usage: object) -> None:
        """Counters are cumulative: a later one overwrites, a missing one never erases what is known."""
        if isinstance(usage, dict):
            known = {name: value for name, value in usage.items() if value is not None}
            self.usage = {**(self.usage or {}), **known}


_GROWING: Final[Mapping[str, tuple[str, Any]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", None),
    "input_json_delta": ("partial_json", "tool_use"),
}

_TAKERS: Final[Mapping[str, Callable[[ReplyAssembler, Mapping[str, Any]], None]]] = {
    "message_start": ReplyAssembler._start,
    "content_block_start": ReplyAssembler._block_start,
    "content_block_delta": ReplyAssembler._block_delta,
    "content_block_stop": ReplyAssembler._block_stop,
    "message_delta": ReplyAssembler._message_delta,
    "message_stop": ReplyAssembler._stop,
}


def _checked_blocks(content: object) -> tuple[Block, ...]:
    if not isinstance(content, list):
        raise MalformedBodyError(f"content: expected a list of blocks, got {str(content)[:40]!r}")
    for block in cast("Sequence[object]", content):
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise MalformedBodyError(f"content: expected blocks with a type, got {str(block)[:80]!r}")
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise MalformedBodyError("content: a text block without a text")
    return tuple(cast("list[Block]", content))


def _text_or_none(name: str, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise MalformedBodyError(f"{name}: expected a text or null, got {str(value)[:40]!r}")


def _details(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
