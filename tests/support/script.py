"""What a scripted model says, and how it fails. Plain data; ``server`` carries it out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Block: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TruncatedToolUse:
    """A call that ``max_tokens`` cut: its JSON stops in the middle. ``input`` is what a whole reply shows."""

    id: str
    name: str
    partial_json: str
    input: Mapping[str, Any] = field(default_factory=dict)

    def block(self) -> Block:
        return tool_use(self.id, self.name, self.input)


# --- blocks ------------------------------------------------------------------------------------------


def text(words: str) -> Block:
    return {"type": "text", "text": words, "citations": None}


def thinking(words: str, signature: str) -> Block:
    return {"type": "thinking", "thinking": words, "signature": signature}


def redacted_thinking(data: str) -> Block:
    return {"type": "redacted_thinking", "data": data}


def tool_use(call_id: str, name: str, arguments: Mapping[str, Any] | None = None, **fields: Any) -> Block:
    """A client call. ``fields`` replace or add, such as ``caller`` and ``toolset_name``."""
    return {
        "type": "tool_use",
        "id": call_id,
        "name": name,
        "input": dict(arguments or {}),
        "caller": {"type": "direct"},
        **fields,
    }


def truncated_tool_use(
    call_id: str, name: str, partial_json: str, parsed: Mapping[str, Any] | None = None
) -> TruncatedToolUse:
    """``parsed`` is the ``input`` that a reply without streaming shows; it may look whole."""
    return TruncatedToolUse(call_id, name, partial_json, parsed or {})


def server_tool_use(call_id: str, name: str, arguments: Mapping[str, Any] | None = None) -> Block:
    return {"type": "server_tool_use", "id": call_id, "name": name, "input": dict(arguments or {})}


def server_tool_result(call_id: str, name: str, content: Any = ()) -> Block:
    return {"type": f"{name}_tool_result", "tool_use_id": call_id, "content": list(content)}


def usage(
    input_tokens: int = 100,
    output_tokens: int = 20,
    *,
    cache_write: int = 0,
    cache_read: int = 0,
    thinking_tokens: int = 0,
    **fields: Any,
) -> dict[str, Any]:
    """Every field of a reply's usage, in tokens. ``fields`` replace or add."""
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "cache_creation_input_tokens": cache_write,
        "cache_read_input_tokens": cache_read,
        "cache_creation": {"ephemeral_5m_input_tokens": cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens_details": {"thinking_tokens": thinking_tokens},
        "server_tool_use": None,
        "service_tier": "standard",
        "inference_geo": "not_available",
        **fields,
    }


# --- items of a script -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply of the model.

    ``stop_reason`` may be anything, None included. ``pause_seconds`` passes between two events of a stream.
    ``extra`` holds more fields of the message (``container``...) and replaces those it names.
    ``extra_events`` are ``(name, data)`` pairs that a stream carries just before its ``message_delta``.
    ``chunk_bytes`` cuts the stream into chunks of that size, across events and characters; 0 sends one
    chunk per event.
    """

    stop_reason: str | None
    blocks: Sequence[Block | TruncatedToolUse] = ()
    usage: Mapping[str, Any] = field(default_factory=usage)
    stop_sequence: str | None = None
    stop_details: Mapping[str, Any] | None = None
    pause_seconds: float = 0.0
    message_id: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    extra_events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    chunk_bytes: int = 0

    def content(self) -> list[Block]:
        return [block.block() if isinstance(block, TruncatedToolUse) else block for block in self.blocks]


@dataclass(frozen=True, slots=True)
class Error:
    """An answer that is no success. ``type`` follows from the status where it is left out."""

    status: int
    type: str = ""
    message: str = "scripted error"
    headers: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def body(self, request_id: str) -> dict[str, Any]:
        error: dict[str, Any] = {"type": self.type or _ERROR_TYPES.get(self.status, "api_error")}
        error["message"] = self.message
        if self.details:
            error["details"] = dict(self.details)
        return {"type": "error", "error": error, "request_id": request_id}


_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(frozen=True, slots=True)
class CutStream:
    """A reply whose stream breaks after ``after`` events (``wire.stream_events`` lists them, pings included).

    ``close``: the connection drops in mid body. ``clean_end``: the body ends well formed, without the
    other events. ``error_event``: an ``overloaded_error`` inside the stream. ``stall``: silence until the
    client goes away or the server is closed. Without streaming, ``close`` and ``clean_end`` send half a
    body and drop, ``stall`` sends headers alone, and ``error_event`` is a status of 529.
    """

    reply: Reply
    after: int = 1
    how: Literal["close", "clean_end", "error_event", "stall"] = "close"


@dataclass(frozen=True, slots=True)
class RawBody:
    """Any bytes with any status."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """No answer: the connection closes once the request was read."""


@dataclass(frozen=True, slots=True)
class Slow:
    """``item``, but only after so many seconds, or once the event is set."""

    item: Item
    until: float | threading.Event


Item: TypeAlias = Reply | Error | CutStream | RawBody | CloseConnection | Slow
Script: TypeAlias = Sequence[Item] | Callable[[int, dict[str, Any]], Item]


# --- the items one needs most ------------------------------------------------------------------------


def says(words: str, **fields: Any) -> Reply:
    """The model ends with a text."""
    return Reply("end_turn", (text(words),), **fields)


def asks(*calls: Block, words: str = "", **fields: Any) -> Reply:
    """The model asks for these calls, after a text where there is one."""
    return Reply("tool_use", ((text(words),) if words else ()) + calls, **fields)


def refuses(
    category: str | None = "cyber", explanation: str | None = None, blocks: Sequence[Block] = ()
) -> Reply:
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return Reply("refusal", blocks, stop_details=details)


def rate_limited(retry_after: str | int | None = None) -> Error:
    """Status 429. ``retry_after`` is the header's value: seconds, or a date as HTTP writes it."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    return Error(429, message="This request would exceed your rate limit.", headers=headers)


def spend_limit() -> Error:
    """Status 429 that no waiting cures."""
    details = {"error_code": "enforced_spend_limit_reached"}
    return Error(429, message="You have reached your spend limit.", details=details)


def overloaded() -> Error:
    return Error(529, message="Overloaded")


def server_error() -> Error:
    return Error(500, message="Internal server error")


def bad_request(message: str, **details: Any) -> Error:
    return Error(400, message=message, details=details)
