"""What the server remembers between requests: conversations that it keeps, and replies that it paused.

A client may leave the conversation with the server (the ``thread`` field, beta message-threads), and may
end a request with an assistant message only where that message is a paused reply.
"""

import json
from collections.abc import Mapping
from typing import Any

from support.script import Block, Error

_FROM_CREATE = ("system", "tools")


class Memory:
    """Conversations are kept by the id of their last reply, and each reply can be continued once."""

    def __init__(self, *, threads: bool = True) -> None:
        self._supported = threads
        self._kept: dict[str, dict[str, Any] | None] = {}
        self._paused: set[str] = set()

    def expand(self, body: dict[str, Any]) -> dict[str, Any] | Error:
        """The request as it would be without a thread, or why the thread cannot go on."""
        thread = body.get("thread")
        if thread is None:
            return body
        if not self._supported:
            return _refusal(400, "thread_unsupported_request", unsupported=["inference_hooks"])
        match thread:
            case {"type": "create"}:
                return body
            case {"type": "continue", "previous_message_id": str(last)}:
                return self._continue(body, last)
            case _:
                return Error(400, message="thread: Input should be a valid thread")

    def _continue(self, body: dict[str, Any], last: str) -> dict[str, Any] | Error:
        if last not in self._kept:
            return _refusal(404, "thread_not_found")
        kept = self._kept[last]
        if kept is None:
            return _refusal(400, "thread_already_continued")
        changed = [name for name in _FROM_CREATE if name in body and body[name] != kept.get(name)]
        if changed:
            return _refusal(400, "thread_fingerprint_mismatch", fields=changed)
        created = {name: kept[name] for name in _FROM_CREATE if name in kept}
        return {**body, **created, "messages": [*kept["messages"], *body.get("messages", ())]}

    def keep(
        self, body: Mapping[str, Any], message_id: str, content: list[Block], stop_reason: str | None
    ) -> None:
        """Remember an expanded request together with the reply to it."""
        if stop_reason in ("pause_turn", "compaction"):
            self._paused.add(_fingerprint(content))
        thread = body.get("thread")
        if thread is None:
            return
        if isinstance(last := thread.get("previous_message_id"), str):
            self._kept[last] = None
        messages = [*_without_cache_control(body["messages"])]
        if content:
            messages.append({"role": "assistant", "content": content})
        self._kept[message_id] = {**body, "messages": messages}

    def ends_paused(self, body: Mapping[str, Any]) -> bool:
        """Whether the assistant message at the end is a reply of ours that asked to be sent back."""
        messages = body.get("messages")
        last = messages[-1] if isinstance(messages, list) and messages else None
        if not isinstance(last, dict) or last.get("role") != "assistant":
            return False
        return _fingerprint(last.get("content")) in self._paused


def _refusal(status: int, code: str, **details: Any) -> Error:
    return Error(status, message=f"thread: {code}", details={"error_code": code, **details})


def _without_cache_control(value: Any) -> Any:
    """Breakpoints hold for the request that set them."""
    if isinstance(value, dict):
        return {name: _without_cache_control(item) for name, item in value.items() if name != "cache_control"}
    return [_without_cache_control(item) for item in value] if isinstance(value, list) else value


def _fingerprint(content: object) -> str:
    """Content as it must come back: blank texts may have been dropped, and fields that were null."""

    def known(value: object) -> object:
        if isinstance(value, dict):
            return {name: known(item) for name, item in value.items() if item is not None}
        return [known(item) for item in value] if isinstance(value, list) else value

    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    kept = [one for one in blocks if not (isinstance(one, dict) and _is_blank_text(one))]
    return json.dumps(known(kept), sort_keys=True)


def _is_blank_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and not str(block.get("text")).strip()
