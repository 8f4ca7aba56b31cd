"""Every transition of the loop, as one table: (stop reason, kind of blocks) -> what happens.

Theory of operation. The loop sends the messages and the tools, and the reply says why it stopped. That
stop reason alone drives the loop, and the blocks must agree with it: a call is only ever executed in a
reply that stopped *for* its calls. Text is never looked at to decide anything. What no row names is an
unknown stop reason: nothing of such a reply is kept, nothing runs, the run ends.

``keep`` says whether the reply joins the history. ``stop`` is the way to end where the action ends the
run, or what the action ends in once its own count is used up.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias, cast

from brida.core.encoding import Block, canonical, digest
from brida.core.events import Reply

Kind: TypeAlias = Literal["bad calls", "calls", "text", "other", "empty"]


class Action(Enum):
    """What the loop does with a reply."""

    RUN_CALLS = "turn gate, decide every call, run, answer, next request"
    REPEAT = "the same request again, once in a row"
    GROW = "the same request with max_tokens doubled, up to the ceiling"
    RESUME = "send it back with no user message, up to max_pauses"
    END = "stop"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    stop_reasons: tuple[str, ...]
    kinds: tuple[Kind, ...]
    action: Action
    keep: bool
    stop: str


ANY: Final[tuple[Kind, ...]] = ("bad calls", "calls", "text", "other", "empty")

TABLE: Final[tuple[Row, ...]] = (
    Row(("tool_use",), ("calls",), Action.RUN_CALLS, True, ""),
    Row(("tool_use",), ("bad calls", "text", "other", "empty"), Action.REPEAT, False, "malformed_reply"),
    Row(("end_turn",), ("text",), Action.END, True, "completed"),
    Row(("end_turn",), ("other", "empty"), Action.END, False, "empty_reply"),
    Row(("end_turn", "stop_sequence"), ("calls",), Action.END, True, "malformed_reply"),
    Row(("end_turn", "stop_sequence"), ("bad calls",), Action.END, False, "malformed_reply"),
    Row(("stop_sequence",), ("text", "other"), Action.END, True, "stop_sequence"),
    Row(("stop_sequence",), ("empty",), Action.END, False, "stop_sequence"),
    Row(("max_tokens",), ANY, Action.GROW, False, "truncated"),
    Row(("pause_turn", "compaction"), ("text", "other"), Action.RESUME, True, "max_pauses"),
    Row(
        ("pause_turn", "compaction"),
        ("calls", "bad calls", "empty"),
        Action.REPEAT,
        False,
        "malformed_reply",
    ),
    Row(("refusal",), ANY, Action.END, False, "refused"),
    Row(("model_context_window_exceeded",), ANY, Action.END, False, "context_window_exceeded"),
)

UNKNOWN: Final = Row((), ANY, Action.END, False, "unknown_stop_reason")
"""The row of every stop reason that no line of the table names, null included."""

HEARS_FIRST: Final = ("completed", "empty_reply")
"""The ends that wait where a person has said something that the model has not heard."""

_BY_KEY: Final = {(reason, kind): row for row in TABLE for reason in row.stop_reasons for kind in row.kinds}


def look_up(stop_reason: str | None, kind: Kind) -> Row:
    """The row for a reply; :data:`UNKNOWN` where the table has none."""
    return _BY_KEY.get((stop_reason or "", kind), UNKNOWN)


def facts_of(row: Row, reply: Reply, *, max_tokens: int, ignored: int) -> dict[str, object]:
    """What a stop by this row carries. ``ignored``: the calls of the reply that do not run."""
    match row.stop:
        case "stop_sequence":
            return {"stop_sequence": reply.stop_sequence}
        case "truncated":
            return {"limit": max_tokens, "used": max_tokens}
        case "refused":
            details = reply.stop_details or {}
            return {name: details.get(name) for name in ("category", "explanation")}
        case "malformed_reply" | "unknown_stop_reason" | "empty_reply":
            detail: dict[str, object] = {"stop_reason": reply.stop_reason}
            return detail | {"ignored": ignored} if ignored else detail
        case _:
            return {}


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One client ``tool_use`` block, read: what the model asks for."""

    id: str
    tool: str
    arguments: Mapping[str, object]
    canonical: str
    digest: str

    def with_arguments(self, arguments: Mapping[str, object]) -> "ModelCall":
        """The same call with other arguments."""
        return ModelCall(self.id, self.tool, arguments, canonical(arguments), digest(self.tool, arguments))


_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def classify(content: Sequence[Block], used_ids: Collection[str]) -> tuple[Kind, tuple[ModelCall, ...]]:
    """The kind of a reply's blocks, first match, and its calls where the kind is ``"calls"``.

    A call is bad where its id is ill-formed, repeated in the reply or used before, or where it lacks a
    name or an input: the API would refuse the history that holds it (messages API, rules for ids and
    names).
    """
    blocks = [block for block in content if block.get("type") == "tool_use"]
    if blocks:
        calls = tuple(call for block in blocks if (call := _read_call(block, used_ids)))
        if len({call.id for call in calls}) < len(blocks):
            return "bad calls", ()
        return "calls", calls
    kept = [block for block in content if not is_blank_text(block)]
    if any(block.get("type") == "text" for block in kept):
        return "text", ()
    return ("other" if kept else "empty"), ()


def _read_call(block: Block, used_ids: Collection[str]) -> ModelCall | None:
    call_id, tool, arguments = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(call_id, str) or not _ID.fullmatch(call_id) or call_id in used_ids:
        return None
    if not isinstance(tool, str) or not _NAME.fullmatch(tool) or not isinstance(arguments, dict):
        return None
    values = cast("dict[str, object]", arguments)
    try:
        return ModelCall(call_id, tool, values, canonical(values), digest(tool, values))
    except (ValueError, RecursionError):  # nested too deeply, or a number that JSON does not have
        return None


def is_blank_text(block: Block) -> bool:
    """Whether this is a text block that says nothing; the API refuses a history that holds one."""
    if block.get("type") != "text":
        return False
    text = block.get("text")
    return not isinstance(text, str) or not text.strip()


def text_of(content: Sequence[Block]) -> str:
    """All text blocks of a reply, joined as the model wrote them; empty where they are blank."""
    texts = (block.get("text") for block in content if block.get("type") == "text")
    joined = "".join(text for text in texts if isinstance(text, str))
    return joined if joined.strip() else ""
