"""The rules of the Messages API that concern ``messages``, read one message at a time.

Texts in English prose with a path in front are those of the real server, as public reports quote them,
where one is known. The others are ours, in the same manner. Consecutive messages of one role are one
turn, as on the server; the indexes in the texts count messages as they were sent.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Block = Mapping[str, Any]

NEW_VERSION = "2026-10-21"
EMPTY_TEXT = "text content blocks must be non-empty"
BLANK_TEXT = "text content blocks must contain non-whitespace text"
PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)

encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_is_id = re.compile(r"[a-zA-Z0-9_-]+").fullmatch
_MESSAGE_KEYS = frozenset({"role", "content"})
_SYSTEM_MESSAGE_KEYS = _MESSAGE_KEYS | {"clear_at", "output_config"}
_TEXT_KEYS = frozenset({"type", "text", "citations", "cache_control"})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"})
_RESULT_BLOCKS = frozenset({"text", "image", "search_result", "document", "tool_reference", "browser_state"})
_USER_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload"})


def blank(text: str) -> str | None:
    """The server's objection to a text, without a path; None for a text that says something."""
    if not text:
        return EMPTY_TEXT
    return BLANK_TEXT if text.isspace() else None


def extra_fields(path: str, given: Iterable[str], known: frozenset[str]) -> list[str]:
    return [f"{path}{key}: Extra inputs are not permitted" for key in given if key not in known]


def unencodable(value: object, path: str = "") -> list[str]:
    """Where a value cannot be JSON in UTF-8: lone surrogates, numbers that are not finite, foreign types."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return [f"The request body is not valid JSON: no low surrogate in string: at {path}"]
        return []
    if isinstance(value, Mapping):
        return [
            text
            for key, item in value.items()
            for text in (*unencodable(key, path), *unencodable(item, f"{path}.{key!s}".lstrip(".")))
        ]
    if isinstance(value, list | tuple):
        return [
            text for at, item in enumerate(value) for text in unencodable(item, f"{path}.{at}".lstrip("."))
        ]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return [f"The request body is not valid JSON: {value} is not a JSON number: at {path}"]
    if value is None or isinstance(value, bool | int | float):
        return []
    return [f"The request body is not valid JSON: {type(value).__name__} is not a JSON type: at {path}"]


class Conversation:
    """What the rules need to know of the messages read so far. ``read`` costs what the new message costs.

    ``lasting`` holds the problems that no later message can cure; ``open_problems`` those that the next
    message may cure, which are problems of a request that ends here.
    """

    __slots__ = (
        "_version",
        "answered",
        "breakpoints",
        "calls",
        "calls_at",
        "count",
        "has_tool_blocks",
        "lasting",
        "last_block",
        "open_server_calls",
        "results_first",
        "role",
        "seen_ids",
        "told",
    )

    def __init__(self, version: str = NEW_VERSION) -> None:
        self._version = version
        self.count = 0
        self.role = ""
        self.last_block: Block | None = None
        self.calls: dict[str, Block] = {}
        """The client calls of the last assistant turn, in order."""
        self.calls_at = 0
        self.answered: dict[str, None] = {}
        self.results_first = True
        self.told = False
        """Whether this user turn was already told that it may hold only results."""
        self.seen_ids: set[str] = set()
        self.open_server_calls: dict[str, str] = {}
        self.has_tool_blocks = False
        self.breakpoints = 0
        self.lasting: list[str] = []

    def copy(self) -> "Conversation":
        twin = Conversation.__new__(Conversation)
        for name in Conversation.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.calls = self.calls.copy()
        twin.answered = self.answered.copy()
        twin.seen_ids = self.seen_ids.copy()
        twin.open_server_calls = self.open_server_calls.copy()
        twin.lasting = self.lasting.copy()
        return twin

    # --- turns ---------------------------------------------------------------------------------------

    def read(self, message: Any) -> None:
        """Take in the next message."""
        n = self.count
        self.count = n + 1
        if not isinstance(message, Mapping):
            self.lasting.append(f"messages.{n}: Input should be a valid dictionary")
            return
        role = message.get("role")
        if role != self.role:
            self._begin_turn(n, role)
        if len(message) != 2 or "content" not in message:
            self._check_message_keys(n, role, message)
        content = message.get("content")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}] if content else []
        elif not isinstance(content, list | tuple):
            if "content" in message:
                self.lasting.append(f"messages.{n}.content: Input should be a valid list")
            return
        if not content:
            self.lasting.append(
                f"messages.{n}: all messages must have non-empty content"
                " except for the optional final assistant message"
            )
            return
        readers = _READERS.get(self.role, _NO_READERS)
        for m, block in enumerate(content):
            self._read_block(n, m, block, readers)

    def _begin_turn(self, n: int, role: Any) -> None:
        before = self.role
        if n == 0:
            if role == "assistant":
                self.lasting.append('messages: first message must use the "user" role')
            elif role != "user":
                self.lasting.append("messages.0.role: Input should be 'user' or 'assistant'")
        elif role == "system":
            self._begin_system_message(n)
        elif role not in ("user", "assistant"):
            self.lasting.append(f"messages.{n}.role: Input should be 'user' or 'assistant'")
        elif before == "system" and role == "user":
            self.lasting.append(
                f"messages.{n - 1}: a system message must be last or be followed by an assistant turn"
            )
        if role == "assistant":
            self.lasting.extend(self.open_problems())
            self.calls = {}
            self.answered = {}
            self.calls_at = n
        elif role == "user":
            self.results_first = True
            self.told = False
        self.role = role if isinstance(role, str) else "?"

    def _begin_system_message(self, n: int) -> None:
        after_result = self.last_block is not None and str(self.last_block.get("type")).endswith(
            "_tool_result"
        )
        if self.role == "assistant" and not after_result:
            self.lasting.append(
                f"messages.{n}: a system message must follow a user turn or a server tool result"
            )

    def _check_message_keys(self, n: int, role: Any, message: Block) -> None:
        known = _SYSTEM_MESSAGE_KEYS if role == "system" else _MESSAGE_KEYS
        self.lasting.extend(extra_fields(f"messages.{n}.", message, known))
        self.lasting.extend(
            f"messages.{n}.{key}: Field required" for key in ("role", "content") if key not in message
        )

    def open_problems(self) -> list[str]:
        """Calls without a result, and results that are not in the order of the calls (a promise of ours)."""
        if not self.calls:
            return []
        missing = [call for call in self.calls if call not in self.answered]
        if missing:
            return [
                f"messages.{self.calls_at}: `tool_use` ids were found without `tool_result` blocks immediately"
                f" after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result`"
                " block in the next message."
            ]
        if list(self.answered) != list(self.calls):
            return [
                f"order: messages.{self.calls_at + 1}: results came as {', '.join(self.answered)},"
                f" calls were {', '.join(self.calls)}"
            ]
        return []

    def ending_problems(self, *, prefill: bool, paused: bool) -> list[str]:
        """What is wrong with a request that ends here."""
        if not self.count:
            return ["messages: at least one message is required"]
        found = self.open_problems()
        if self.role == "assistant" and not paused:
            if not prefill:
                found.append(PREFILL)
            elif self.last_block is not None and self.last_block.get("type") == "text":
                text = self.last_block.get("text")
                if isinstance(text, str) and text != text.rstrip():
                    found.append("messages: final assistant content cannot end with trailing whitespace")
        return found

    @property
    def waits_for_container(self) -> bool:
        """Whether the results at the end go back to code that waits in a container."""
        return self.role == "user" and any(_from_code(call) for call in self.calls.values())

    # --- blocks --------------------------------------------------------------------------------------

    def _read_block(self, n: int, m: int, block: Any, readers: "Mapping[str, Reader]") -> None:
        if not isinstance(block, Mapping):
            self.lasting.append(f"messages.{n}.content.{m}: Input should be a valid dictionary")
            return
        self.last_block = block
        kind = block.get("type")
        if not isinstance(kind, str):
            self.lasting.append(f"messages.{n}.content.{m}.type: Field required")
            return
        if block.get("cache_control") is not None:
            self.breakpoints += 1
        if self.role == "user" and kind != "tool_result":
            self.results_first = False
            if not self.told:
                self._check_only_results(n)
        readers.get(kind, Conversation._other)(self, n, m, block)

    def _check_only_results(self, n: int) -> None:
        """Only results may answer while a server tool waits, or code in a sandbox does."""
        for call_id, name in self.open_server_calls.items():
            self.lasting.append(
                f"messages.{n}: `{name}` tool use with id `{call_id}` was found without a corresponding"
                f" `{name}_tool_result` block"
            )
            self.told = True
        if any(_from_code(call) for call in self.calls.values()):
            self.lasting.append(
                f"messages.{n}: only `tool_result` blocks may answer a `tool_use` block whose caller is code_execution"
            )
            self.told = True

    def _text(self, n: int, m: int, block: Block) -> None:
        text = block.get("text")
        if not isinstance(text, str):
            self.lasting.append(f"messages.{n}.content.{m}.text.text: Field required")
        elif objection := blank(text):
            self.lasting.append(f"messages: {objection}")

    def _request_text(self, n: int, m: int, block: Block) -> None:
        """A text that the caller wrote: unlike the model's own, it may hold no field that is not known."""
        self._text(n, m, block)
        if not block.keys() <= _TEXT_KEYS:
            self.lasting.extend(extra_fields(f"messages.{n}.content.{m}.text.", block, _TEXT_KEYS))
        if block.get("citations") and self._version >= NEW_VERSION:
            self.lasting.append(
                f"messages.{n}.content.{m}.text.citations: citations are not permitted in user messages"
            )

    def _tool_result(self, n: int, m: int, block: Block) -> None:
        self.has_tool_blocks = True
        path = f"messages.{n}.content.{m}"
        if not block.keys() <= _RESULT_KEYS:
            self.lasting.extend(extra_fields(f"{path}.tool_result.", block, _RESULT_KEYS))
        call_id = block.get("tool_use_id")
        call = self.calls.get(call_id) if isinstance(call_id, str) else None
        if not isinstance(call_id, str):
            self.lasting.append(f"{path}.tool_result.tool_use_id: Field required")
        elif call is None:
            self.lasting.append(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result`"
                " block must have a corresponding `tool_use` block in the previous message."
            )
        elif call_id in self.answered:
            self.lasting.append(
                f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call_id}"
            )
        elif self.results_first:
            self.answered[call_id] = None
        if call is not None and call.get("toolset_name") != block.get("toolset_name"):
            self.lasting.append(f"{path}.tool_result.toolset_name: must be that of the `tool_use` block")
        is_error = block.get("is_error", False)
        if not isinstance(is_error, bool):
            self.lasting.append(f"{path}.tool_result.is_error: Input should be a valid boolean")
        content = block.get("content", "")
        if not isinstance(content, str):
            self._result_content(
                path, content, is_error=is_error is True, for_code=call is not None and _from_code(call)
            )

    def _result_content(self, path: str, content: Any, *, is_error: bool, for_code: bool) -> None:
        if not isinstance(content, list | tuple):
            self.lasting.append(f"{path}.tool_result.content: Input should be a valid list")
            return
        for at, part in enumerate(content):
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind not in _RESULT_BLOCKS:
                self.lasting.append(
                    f"{path}.tool_result.content.{at}: Input tag '{kind}' found using 'type' does not match"
                    " any of the expected tags"
                )
                continue
            if part.get("cache_control") is not None:
                self.breakpoints += 1
            if kind == "text":
                text = part.get("text")
                if not isinstance(text, str):
                    self.lasting.append(f"{path}.tool_result.content.{at}.text.text: Field required")
                elif objection := blank(text):
                    self.lasting.append(f"messages: {objection}")
            elif is_error:
                self.lasting.append(f"{path}: all content must be type `text` if `is_error` is true")
            elif for_code:
                self.lasting.append(f"{path}: a result for code_execution must be a string or text blocks")

    def _tool_use(self, n: int, m: int, block: Block) -> None:
        self.has_tool_blocks = True
        call_id = self._call(n, m, "tool_use", block)
        if call_id:
            self.calls[call_id] = block

    def _server_tool_use(self, n: int, m: int, block: Block) -> None:
        call_id = self._call(n, m, str(block["type"]), block)
        if call_id:
            self.open_server_calls[call_id] = str(block.get("name"))

    def _call(self, n: int, m: int, kind: str, block: Block) -> str | None:
        """Check what all calls have in common. Returns the id where it is a new one."""
        path = f"messages.{n}.content.{m}"
        call_id = block.get("id")
        if not isinstance(block.get("name"), str):
            self.lasting.append(f"{path}.{kind}.name: Field required")
        if not isinstance(block.get("input"), Mapping):
            self.lasting.append(f"{path}.{kind}.input: Input should be a valid dictionary")
        if not isinstance(call_id, str):
            self.lasting.append(f"{path}.{kind}.id: Field required")
            return None
        if not _is_id(call_id):
            self.lasting.append(f"{path}.{kind}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if call_id in self.seen_ids:
            self.lasting.append(f"{path}: `tool_use` ids must be unique")
            return None
        self.seen_ids.add(call_id)
        return call_id

    def _thinking(self, n: int, m: int, block: Block) -> None:
        kind = block["type"]
        for key in ("thinking", "signature") if kind == "thinking" else ("data",):
            if not isinstance(block.get(key), str):
                self.lasting.append(f"messages.{n}.content.{m}.{kind}.{key}: Field required")
        if "cache_control" in block:
            self.lasting.append(
                f"messages.{n}.content.{m}.{kind}.cache_control: Extra inputs are not permitted"
            )

    def _misplaced_result(self, n: int, m: int, block: Block) -> None:
        self.lasting.append(f"messages.{n}.content.{m}: `tool_result` blocks can only be in `user` messages")

    def _misplaced_document(self, n: int, m: int, block: Block) -> None:
        if self._version >= NEW_VERSION:
            self.lasting.append(
                f"messages.{n}.content.{m}: `document` blocks cannot be in `assistant` messages"
            )

    def _other(self, n: int, m: int, block: Block) -> None:
        """Server tools' results, and what a newer server may have said; a user may not say what is unknown."""
        kind = block["type"]
        if self.role == "assistant":
            if kind.endswith("_tool_result"):
                self.open_server_calls.pop(str(block.get("tool_use_id")), None)
        elif self.role == "user" and kind in ("tool_use", "server_tool_use"):
            self.lasting.append(
                f"messages.{n}.content.{m}: `{kind}` blocks can only be in `assistant` messages"
            )
        elif self.role == "system" or kind not in _USER_BLOCKS:
            self.lasting.append(
                f"messages.{n}.content.{m}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
            )


def _from_code(call: Block) -> bool:
    caller = call.get("caller")
    return isinstance(caller, Mapping) and str(caller.get("type")).startswith("code_execution_")


Reader = Callable[[Conversation, int, int, Block], None]

_NO_READERS: dict[str, Reader] = {}
_READERS: dict[str, dict[str, Reader]] = {
    "user": {"text": Conversation._request_text, "tool_result": Conversation._tool_result},
    "system": {"text": Conversation._request_text},
    "assistant": {
        "text": Conversation._text,
        "tool_use": Conversation._tool_use,
        "server_tool_use": Conversation._server_tool_use,
        "mcp_tool_use": Conversation._server_tool_use,
        "thinking": Conversation._thinking,
        "redacted_thinking": Conversation._thinking,
        "tool_result": Conversation._misplaced_result,
        "document": Conversation._misplaced_document,
    },
}
