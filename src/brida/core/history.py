"""The append-only message list: each message is encoded once, and nothing sent is ever edited.

The last user message stays open until it is sent. Results of calls gather in it, in the order of the
calls, then a person's texts; :meth:`History.seal` closes it. So every ``tool_use`` has its one
``tool_result`` in the next message by construction, thinking blocks keep the prefix they are bound to,
and a request costs what is new in it, not what came before.

While a server tool waits for its result, or a call came from code execution, the API allows results
only in that message: a person's text then waits for the next one.
"""

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from brida.core.encoding import Block, encode
from brida.core.transitions import classify, is_blank_text

Message = Mapping[str, object]


class History:
    """The messages of one run, as bytes.

    Starts from ``messages``, the wire form of an earlier history: its last user message is opened
    again, and calls that nobody answered are open calls. Raises ``ValueError``, naming the index,
    where a message has no form that the API takes.
    """

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self._sealed = bytearray()
        self._hash = hashlib.sha256()
        self._off = 0
        self._calls: dict[str, bytes | None] = {}
        self._texts: tuple[bytes, ...] = ()
        self._waiting_texts: tuple[bytes, ...] = ()
        self._server_tools: frozenset[str] = frozenset()
        self._results_only = False
        self._ends_with_user = False
        self._paused_from: int | None = None
        self._before_pause: tuple[bool, frozenset[str], int] = (False, frozenset(), 0)
        self.used_ids: set[str] = set()
        for index, message in enumerate(messages):
            self._take(index, message, last=index == len(messages) - 1)

    def copy(self) -> "History":
        """An independent history with the same messages."""
        other = copy.copy(self)
        other._sealed = self._sealed.copy()
        other._hash = self._hash.copy()
        other._calls = self._calls.copy()
        other.used_ids = self.used_ids.copy()
        return other

    # -- what joins the history

    def add_text(self, text: str) -> None:
        """A person's text joins the open user message, or a later one where only results, or nothing, may."""
        self._place((*self._waiting_texts, *self._texts, encode({"type": "text", "text": text})))

    def append_reply(
        self, content: Sequence[Block], call_ids: Iterable[str] = (), *, paused: bool = False
    ) -> None:
        """The assistant message, verbatim but for blank texts, which the API refuses; its calls are open."""
        start = len(self._sealed)
        if self._paused_from is None:
            self._before_pause = (self._results_only, self._server_tools, self._off)
        self._off += tokens_off(content)
        self._append(encode({"role": "assistant", "content": [b for b in content if not is_blank_text(b)]}))
        if self._paused_from is None:
            self._server_tools = frozenset()
        self._paused_from = (start if self._paused_from is None else self._paused_from) if paused else None
        self._calls = dict.fromkeys(call_ids)
        self.used_ids.update(self._calls)
        self._server_tools = _unresolved(self._server_tools, content)
        self._results_only = bool(self._calls) and (bool(self._server_tools) or _from_code(content))
        self._place((*self._waiting_texts, *self._texts))

    def add_result(self, call_id: str, content: str | Sequence[Block], *, is_error: bool) -> None:
        """The result of one open call; ``ValueError`` where the call is not open."""
        if self._calls.get(call_id, b"") is not None:
            raise ValueError(f"call {call_id!r} is not open")
        result: dict[str, object] = {"type": "tool_result", "tool_use_id": call_id, "content": content}
        self._off += tokens_off([result])
        self._calls[call_id] = encode({**result, "is_error": True} if is_error else result)

    def seal(self) -> None:
        """Closes the open user message: it is sent now."""
        if message := self._open_message():
            self._append(message)
            self._calls, self._texts = {}, ()

    def leave_out_pause(self) -> None:
        """Drops the paused assistant messages at the end: a person's text goes on without them.

        The one exception to append-only. Nothing that follows can have been bound to them.
        """
        if self._paused_from is None:
            return
        del self._sealed[self._paused_from :]
        self._hash = hashlib.sha256(self._sealed)
        self._ends_with_user = bool(self._sealed)  # a pause answers a person's part, or another pause
        self._results_only, self._server_tools, self._off = self._before_pause
        self._paused_from = None
        self._place((*self._waiting_texts, *self._texts))

    # -- what can be asked of it

    @property
    def open_calls(self) -> tuple[str, ...]:
        """The ids of the calls that have no result yet, in the order of the calls."""
        return tuple(call_id for call_id, result in self._calls.items() if result is None)

    @property
    def has_text_to_send(self) -> bool:
        """Whether a person's text has not been sent yet."""
        return bool(self._texts or self._waiting_texts)

    @property
    def takes_text(self) -> bool:
        """Whether a text that joins now is sent with the next request, and not only after it."""
        return not self._results_only and self._paused_from is None

    @property
    def size(self) -> int:
        """Bytes of the messages sent so far."""
        return len(self._sealed)

    @property
    def weight(self) -> int:
        """Tokens that the messages have at most, the open one as far as it has come: a token for each byte,
        but for images and documents, of which other rules are known.
        """
        size = len(self._sealed) + self._off + FRAME
        for parts in (self._calls.values(), self._texts, self._waiting_texts):
            for part in parts:
                size += len(part) if part else 0
        return max(FRAME, size)

    @property
    def weight_sent(self) -> int:
        """The part of :attr:`weight` that was sent, or has come back: no text that was said meanwhile."""
        return len(self._sealed) + self._off

    @property
    def weight_to_send(self) -> int:
        """The part of :attr:`weight` that the next request holds: no text that waits for a later one."""
        return self.weight - sum(len(text) for text in self._waiting_texts)

    def encoded(self) -> bytes:
        """The JSON list of the messages as the next request carries it, the open message included."""
        return b"".join((b"[", self._sealed, self._piece(self._open_message()), b"]"))

    def digest(self) -> str:
        """A SHA-256 over what stands in the brackets of :meth:`encoded`, at the cost of what is new."""
        running = self._hash.copy()
        running.update(self._piece(self._open_message()))
        return running.hexdigest()

    @property
    def can_be_sent(self) -> bool:
        """Whether it ends with something that the model has not answered: a person's part, or a pause."""
        return bool(self._calls or self._texts or self._paused_from is not None or self._ends_with_user)

    def closed_messages(self, closed: Iterable[tuple[str, str]] = ()) -> list[dict[str, object]]:
        """The messages as a caller can go on from: paused assistant messages at the end are left out.

        ``closed``: the ids of calls that are still open, each with what to say of it.
        """
        if closed := tuple(closed):
            other = self.copy()
            for call_id, text in closed:
                other.add_result(call_id, text, is_error=True)
            return other.closed_messages()
        end = len(self._sealed) if self._paused_from is None else self._paused_from
        message = self._open_message() if self._paused_from is None else b""
        parts = [part for part in (bytes(self._sealed[:end]), message) if part]
        return cast("list[dict[str, object]]", json.loads(b"[" + b",".join(parts) + b"]"))

    # -- how it is kept

    def _append(self, message: bytes) -> None:
        self._ends_with_user = message.startswith(b'{"role":"user"')
        piece = self._piece(message)
        self._sealed += piece
        self._hash.update(piece)

    def _place(self, texts: tuple[bytes, ...]) -> None:
        self._texts, self._waiting_texts = (texts, ()) if self.takes_text else ((), texts)

    def _piece(self, message: bytes) -> bytes:
        """The message as it follows what was sent."""
        return b"," + message if message and self._sealed else message

    def _open_message(self) -> bytes:
        if self.open_calls:
            raise ValueError(f"calls without a result: {', '.join(self.open_calls)}")
        results = cast("list[bytes]", list(self._calls.values()))
        blocks = (*results, *self._texts)
        return b'{"role":"user","content":[' + b",".join(blocks) + b"]}" if blocks else b""

    def _take(self, index: int, message: Message, *, last: bool) -> None:
        if not isinstance(message, Mapping):
            raise ValueError(f"messages[{index}]: expected an object, got {type(message).__name__}")
        role = message.get("role")
        blocks = _blocks(index, message.get("content"), FOREIGN.get(str(role), ()))
        if role == "user":
            self._take_user(index, blocks)
            if not last and not self.open_calls:
                self.seal()
        elif role == "assistant" and not self.open_calls and (index or self._sealed):
            self.seal()
            calls = [str(block.get("id")) for block in blocks if block.get("type") == "tool_use"]
            if last and not calls and _unresolved(frozenset(), blocks):
                return  # a paused turn: no text may follow it
            if len({*calls}) < len(calls) or self.used_ids & {*calls}:
                raise ValueError(f"messages[{index}]: tool_use ids must be unique")
            self.append_reply(blocks, calls)
        elif role == "assistant":
            expected = f"a result for {', '.join(self.open_calls)}" if self.open_calls else "a user message"
            raise ValueError(f"messages[{index}]: expected {expected} before this assistant message")
        else:
            raise ValueError(f"messages[{index}].role: {role!r} is neither 'user' nor 'assistant'")

    def _take_user(self, index: int, blocks: Sequence[Block]) -> None:
        self._off += tokens_off(blocks)
        for block in blocks:
            if block.get("type") != "tool_result":
                self._texts += (encode(block),)
            elif self._calls.get(str(block.get("tool_use_id")), b"") is None:
                self._calls[str(block["tool_use_id"])] = encode(block)
            else:
                raise ValueError(
                    f"messages[{index}]: the result for {block.get('tool_use_id')!r} answers no open call"
                )


FRAME: Final = len(b'{"role":"user","content":[]},')
"""Bytes around the blocks of a message that is still open."""

IMAGE: Final = 5_000
"""Tokens that an image has at most: a server scales down what is larger (messages API, vision)."""

DOCUMENT: Final = 1_000_000
"""Tokens that a document has at most which is not in the request itself: all that any model reads."""


def tokens_off(content: Sequence[Block]) -> int:
    """By how much a token for each byte is off, where there are images, or documents that lie elsewhere."""
    off = 0
    for block in content:
        if block.get("type") in ("text", "tool_use", "thinking"):
            continue
        inner, source = block.get("content"), block.get("source")
        if isinstance(inner, list | tuple):
            off += tokens_off([one for one in inner if isinstance(one, Mapping)])
        if not isinstance(source, Mapping):
            continue
        data = source.get("data")
        if block.get("type") == "image":
            off += IMAGE - (len(data) if isinstance(data, str) and len(data) > IMAGE else 0)
        elif source.get("type") in ("url", "file"):
            off += DOCUMENT
    return off


FOREIGN: Final = {"user": ("tool_use", "server_tool_use", "thinking"), "assistant": ("tool_result",)}
"""Types of blocks that a message of each role cannot hold."""


def _blocks(index: int, content: object, foreign: tuple[str, ...]) -> list[Block]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(blocks, list | tuple) or not all(isinstance(block, Mapping) for block in blocks):
        raise ValueError(
            f"messages[{index}].content: expected a text or a list of blocks, got {content!r:.80}"
        )
    for block in blocks:
        if not isinstance(block.get("type"), str) or block["type"] in foreign:
            raise ValueError(
                f"messages[{index}].content: a block of type {block.get('type')!r} cannot stand here"
            )
        if block["type"] == "tool_use" and classify([block], ())[0] != "calls":
            raise ValueError(f"messages[{index}].content: a tool_use needs a valid id, name and input")
    kept = [block for block in blocks if not is_blank_text(block)]
    if not kept:
        raise ValueError(f"messages[{index}].content: expected a block that is not blank")
    return kept


def _unresolved(before: frozenset[str], content: Sequence[Block]) -> frozenset[str]:
    """The ids of server tools (``server_tool_use``, ``mcp_tool_use``) whose result has not come."""
    asked = {str(b.get("id")) for b in content if b.get("type") in ("server_tool_use", "mcp_tool_use")}
    return (before | asked) - {str(b.get("tool_use_id")) for b in content if "tool_use_id" in b}


def _from_code(content: Sequence[Block]) -> bool:
    """Whether a call of this message was made by code that runs on the server."""
    callers = (block.get("caller") for block in content if block.get("type") == "tool_use")
    return any(isinstance(c, Mapping) and str(c.get("type")).startswith("code_execution_") for c in callers)
