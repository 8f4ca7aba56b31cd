"""The rules of the Messages API that concern ``messages``, read one message at a time.

Texts in English prose with a path in front are those of the real server, as public reports quote them,
where one is known. The others are ours, in the same manner. Consecutive messages of one role are one
turn, as on the server; the indexes in the texts count messages as they were sent.
"""

from collections.abc import Callable, Mapping
from typing import Any

from support.block_rules import (
    NEW_VERSION,
    Block,
    breakpoints_in,
    call_problems,
    extra_fields,
    from_code,
    request_text_problems,
    result_problems,
    text_problems,
    thinking_problems,
    unknown_kind,
)

PREFILL = (
    "This model does not support assistant message prefill. The conversation must end with a user message."
)

_MESSAGE_KEYS = frozenset({"role", "content"})
_SYSTEM_MESSAGE_KEYS = _MESSAGE_KEYS | {"clear_at", "output_config"}
_USER_BLOCKS = frozenset({"text", "image", "document", "search_result", "tool_result", "container_upload"})


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
        "last_block",
        "lasting",
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
                f"messages.{self.calls_at}: `tool_use` ids were found without `tool_result` blocks"
                f" immediately after: {', '.join(missing)}. Each `tool_use` block must have"
                " a corresponding `tool_result` block in the next message."
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
        return self.role == "user" and any(from_code(call) for call in self.calls.values())

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
        if "cache_control" in block or kind == "tool_result":
            self.breakpoints += breakpoints_in(block)
        if self.role == "user" and kind != "tool_result":
            self.results_first = False
            if not self.told and (self.open_server_calls or self.calls):
                self._check_only_results(n)
        readers.get(kind, Conversation._other)(self, f"messages.{n}.content.{m}", block)

    def _check_only_results(self, n: int) -> None:
        """Only results may answer while a server tool waits, or code in a sandbox does."""
        found = [
            f"messages.{n}: `{name}` tool use with id `{call_id}` was found without a corresponding"
            f" `{name}_tool_result` block"
            for call_id, name in self.open_server_calls.items()
        ]
        if any(from_code(call) for call in self.calls.values()):
            found.append(
                f"messages.{n}: only `tool_result` blocks may answer a `tool_use` block whose caller is"
                " code_execution"
            )
        self.told = bool(found)
        self.lasting += found

    def _text(self, path: str, block: Block) -> None:
        self.lasting += text_problems(path, block)

    def _request_text(self, path: str, block: Block) -> None:
        self.lasting += request_text_problems(path, block, self._version)

    def _thinking(self, path: str, block: Block) -> None:
        self.lasting += thinking_problems(path, block)

    def _tool_result(self, path: str, block: Block) -> None:
        self.has_tool_blocks = True
        call_id = block.get("tool_use_id")
        call = self.calls.get(call_id) if isinstance(call_id, str) else None
        self.lasting += result_problems(path, block, call)
        if not isinstance(call_id, str):
            self.lasting.append(f"{path}.tool_result.tool_use_id: Field required")
        elif call is None:
            self.lasting.append(
                f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each"
                " `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        elif call_id in self.answered:
            self.lasting.append(
                f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with"
                f" id: {call_id}"
            )
        elif self.results_first:
            self.answered[call_id] = None

    def _tool_use(self, path: str, block: Block) -> None:
        self.has_tool_blocks = True
        if self._is_new_call(path, block):
            self.calls[block["id"]] = block

    def _server_tool_use(self, path: str, block: Block) -> None:
        if self._is_new_call(path, block):
            self.open_server_calls[block["id"]] = str(block.get("name"))

    def _is_new_call(self, path: str, block: Block) -> bool:
        self.lasting += call_problems(path, block)
        call_id = block.get("id")
        if not isinstance(call_id, str):
            return False
        if call_id in self.seen_ids:
            self.lasting.append(f"{path}: `tool_use` ids must be unique")
            return False
        self.seen_ids.add(call_id)
        return True

    def _misplaced_result(self, path: str, block: Block) -> None:
        self.lasting.append(f"{path}: `tool_result` blocks can only be in `user` messages")

    def _misplaced_document(self, path: str, block: Block) -> None:
        if self._version >= NEW_VERSION:
            self.lasting.append(f"{path}: `document` blocks cannot be in `assistant` messages")

    def _other(self, path: str, block: Block) -> None:
        """Server tools' results, and what a newer server may have said; a user says only what is known."""
        kind = block["type"]
        if self.role == "assistant":
            if kind.endswith("_tool_result"):
                self.open_server_calls.pop(str(block.get("tool_use_id")), None)
        elif self.role == "user" and kind in ("tool_use", "server_tool_use"):
            self.lasting.append(f"{path}: `{kind}` blocks can only be in `assistant` messages")
        elif self.role == "system" or kind not in _USER_BLOCKS:
            self.lasting.append(unknown_kind(path, kind))


Reader = Callable[[Conversation, str, Block], None]

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
