"""The rules of one value or one block of content, whatever stands around it."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

Block = Mapping[str, Any]

NEW_VERSION = "2026-10-21"
EMPTY_TEXT = "text content blocks must be non-empty"
BLANK_TEXT = "text content blocks must contain non-whitespace text"
NOT_JSON = "The request body is not valid JSON"

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_is_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_TEXT_KEYS = frozenset({"type", "text", "citations", "cache_control"})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"})
_RESULT_BLOCKS = frozenset({"text", "image", "search_result", "document", "tool_reference", "browser_state"})


def blank(text: str) -> str | None:
    """The server's objection to a text, without a path; None for a text that says something."""
    if not text:
        return EMPTY_TEXT
    return BLANK_TEXT if text.isspace() else None


def extra_fields(path: str, given: Iterable[str], known: frozenset[str]) -> list[str]:
    return [f"{path}{key}: Extra inputs are not permitted" for key in given if key not in known]


def unknown_kind(path: str, kind: object) -> str:
    return f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags"


def unencodable(value: object, path: str = "") -> list[str]:
    """Where a value cannot be JSON in UTF-8: lone surrogates, numbers that are not finite, foreign types."""
    try:
        _encode(value).encode()
    except RecursionError:
        return [f"{NOT_JSON}: nested too deeply"]
    except (ValueError, TypeError) as error:
        return _where_unencodable(value, path) or [f"{NOT_JSON}: {error}"]
    return []


def _where_unencodable(value: object, path: str) -> list[str]:
    if isinstance(value, Mapping):
        return [
            text
            for key, item in value.items()
            for text in (
                *_where_unencodable(key, path),
                *_where_unencodable(item, f"{path}.{key}".lstrip(".")),
            )
        ]
    if isinstance(value, list | tuple):
        return [
            text
            for at, item in enumerate(value)
            for text in _where_unencodable(item, f"{path}.{at}".lstrip("."))
        ]
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return [f"{NOT_JSON}: no low surrogate in string: at {path}"]
        return []
    if isinstance(value, float) and not math.isfinite(value):
        return [f"{NOT_JSON}: {value} is not a JSON number: at {path}"]
    if value is None or isinstance(value, bool | int | float):
        return []
    return [f"{NOT_JSON}: {type(value).__name__} is not a JSON type: at {path}"]


def text_problems(path: str, block: Block) -> list[str]:
    text = block.get("text")
    if not isinstance(text, str):
        return [f"{path}.text.text: Field required"]
    if objection := blank(text):
        return [f"messages: {objection}"]
    return []


def request_text_problems(path: str, block: Block, version: str) -> list[str]:
    """A text that the caller wrote: unlike the model's own, it may hold no field that is not known."""
    found = text_problems(path, block)
    if not block.keys() <= _TEXT_KEYS:
        found += extra_fields(f"{path}.text.", block, _TEXT_KEYS)
    if block.get("citations") and version >= NEW_VERSION:
        found.append(f"{path}.text.citations: citations are not permitted in user messages")
    return found


def thinking_problems(path: str, block: Block) -> list[str]:
    kind = block["type"]
    found = [
        f"{path}.{kind}.{key}: Field required"
        for key in (("thinking", "signature") if kind == "thinking" else ("data",))
        if not isinstance(block.get(key), str)
    ]
    if "cache_control" in block:
        found.append(f"{path}.{kind}.cache_control: Extra inputs are not permitted")
    return found


def call_problems(path: str, block: Block) -> list[str]:
    """What client and server calls have in common."""
    kind, call_id = block["type"], block.get("id")
    found = []
    if not isinstance(block.get("name"), str):
        found.append(f"{path}.{kind}.name: Field required")
    if not isinstance(block.get("input"), Mapping):
        found.append(f"{path}.{kind}.input: Input should be a valid dictionary")
    if not isinstance(call_id, str):
        found.append(f"{path}.{kind}.id: Field required")
    elif not _is_id(call_id):
        found.append(f"{path}.{kind}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    return found


def result_problems(path: str, block: Block, call: Block | None) -> list[str]:
    """A ``tool_result`` but for its place; ``call`` is the call that it answers, where there is one."""
    found = []
    if not block.keys() <= _RESULT_KEYS:
        found += extra_fields(f"{path}.tool_result.", block, _RESULT_KEYS)
    if call is not None and call.get("toolset_name") != block.get("toolset_name"):
        found.append(f"{path}.tool_result.toolset_name: must be that of the `tool_use` block")
    if not isinstance(block.get("is_error", False), bool):
        found.append(f"{path}.tool_result.is_error: Input should be a valid boolean")
    content = block.get("content", "")
    if isinstance(content, list | tuple):
        for at, part in enumerate(content):
            found += _result_part_problems(path, at, part, block, call)
    elif not isinstance(content, str):
        found.append(f"{path}.tool_result.content: Input should be a valid list")
    return found


def _result_part_problems(path: str, at: int, part: Any, block: Block, call: Block | None) -> list[str]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind not in _RESULT_BLOCKS:
        return [unknown_kind(f"{path}.tool_result.content.{at}", kind)]
    if kind == "text":
        return text_problems(f"{path}.tool_result.content.{at}", part)
    if block.get("is_error"):
        return [f"{path}: all content must be type `text` if `is_error` is true"]
    if call is not None and from_code(call):
        return [f"{path}: a result for code_execution must be a string or text blocks"]
    return []


def breakpoints_in(block: Block) -> int:
    """How many cache breakpoints a block carries, those inside of a result included."""
    parts = block.get("content")
    inside = parts if isinstance(parts, list | tuple) and block.get("type") == "tool_result" else ()
    return sum(isinstance(one, Mapping) and one.get("cache_control") is not None for one in (block, *inside))


def from_code(call: Block) -> bool:
    """Whether a call came from code that runs in the server's sandbox."""
    caller = call.get("caller")
    return isinstance(caller, Mapping) and str(caller.get("type")).startswith("code_execution_")
