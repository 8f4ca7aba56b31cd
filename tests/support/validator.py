"""Is this a request that the Messages API would take?

``problems(body)`` looks at a whole request; ``PrefixValidator`` follows one run and looks only at what is
new. Both answer with the texts of the server (section by section in ``field_rules`` and
``message_rules``), and an empty list is a valid request. One rule is brida's own promise and stricter
than the server: results come in the order of the calls. Its text begins with ``order:``.

Not checked, since no loop can break it: what is inside images, documents and server tools' results.
That a call names a tool which is not offered is no problem: a model may invent one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from support.block_rules import NEW_VERSION, unencodable
from support.field_rules import ModelRules, breakpoints, field_problems
from support.message_rules import Conversation

__all__ = ["ModelRules", "PrefixValidator", "problems"]


def problems(
    body: Mapping[str, Any],
    *,
    version: str = NEW_VERSION,
    model_rules: ModelRules | None = None,
    paused: bool = False,
    betas: Collection[str] = (),
    count_tokens: bool = False,
) -> list[str]:
    """The rules that a request breaks, in the server's words; empty for a valid request.

    ``version`` is the value of the header ``anthropic-version``, ``betas`` those of ``anthropic-beta``;
    without ``model_rules`` the model's id decides. ``paused=True`` says that the assistant message at the
    end is a reply that stopped with ``pause_turn`` or ``compaction``, the one case in which it may be last.
    """
    if found := unencodable(body):
        return found
    rules = ModelRules.of(body.get("model")) if model_rules is None else model_rules
    found = field_problems(body, rules, version=version, betas=betas, count_tokens=count_tokens)
    messages = body.get("messages")
    if not isinstance(messages, list | tuple):
        found.append(
            f"messages: {'Input should be a valid list' if 'messages' in body else 'Field required'}"
        )
        return found
    conversation = Conversation(version)
    for message in messages:
        conversation.read(message)
    found += conversation.lasting
    found += conversation.ending_problems(prefill=rules.prefill, paused=paused)
    found += _problems_of_both(body, conversation)
    return found


def _problems_of_both(body: Mapping[str, Any], conversation: Conversation) -> list[str]:
    """The rules that tie the messages to the other fields."""
    found = []
    if conversation.has_tool_blocks and not body.get("tools"):
        found.append("Requests which include `tool_use` or `tool_result` blocks must define tools.")
    if conversation.waits_for_container and not body.get("container"):
        found.append("container: Field required, since a `tool_use` block came from code_execution")
    marks = conversation.breakpoints + breakpoints(body)
    if marks > 4:
        found.append(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")
    return found


class PrefixValidator:
    """Follows the requests of one run and looks only at the messages that are new.

    Compared with ``problems`` it knows one promise more: what was sent is never changed, so messages that
    do not begin with those seen before are a problem (text with the prefix ``append-only:``), and are then
    read from the start. ``append_only=False`` only reads them from the start. The comparison trusts
    identity, so a message that was changed *in place* after it was checked goes unnoticed.
    """

    __slots__ = ("_append_only", "_conversation", "_messages", "_rules", "_tools", "_version")

    def __init__(
        self, *, version: str = NEW_VERSION, model_rules: ModelRules | None = None, append_only: bool = True
    ) -> None:
        self._version = version
        self._rules = model_rules or ModelRules()
        self._append_only = append_only
        self._conversation = Conversation(version)
        self._messages: list[Any] = []
        self._tools: Any = None

    def copy(self) -> "PrefixValidator":
        """An independent validator that has seen the same messages."""
        twin = PrefixValidator.__new__(PrefixValidator)
        twin._version = self._version
        twin._rules = self._rules
        twin._append_only = self._append_only
        twin._conversation = self._conversation.copy()
        twin._messages = self._messages.copy()
        twin._tools = self._tools
        return twin

    def extend(self, new_messages: Sequence[Any], *, paused: bool = False) -> list[str]:
        """Take in more messages; the problems of a request that ends with them."""
        conversation = self._conversation
        for message in new_messages:
            conversation.lasting += unencodable(message, f"messages.{conversation.count}")
            conversation.read(message)
        self._messages += new_messages
        return conversation.lasting + conversation.ending_problems(prefill=self._rules.prefill, paused=paused)

    def check(self, messages: Sequence[Any], *, paused: bool = False) -> list[str]:
        """The problems of a request with these messages, of which a prefix was seen before."""
        seen = len(self._messages)
        if self._messages == list(messages[:seen]):
            return self.extend(messages[seen:], paused=paused)
        at = next(
            (n for n, old in enumerate(self._messages) if n >= len(messages) or old != messages[n]), seen
        )
        self._conversation = Conversation(self._version)
        self._messages = []
        found = self.extend(messages, paused=paused)
        if self._append_only:
            found.append(f"append-only: messages.{at} is not what was sent before")
        return found

    def check_body(
        self, body: Mapping[str, Any], *, paused: bool = False, betas: Collection[str] = ()
    ) -> list[str]:
        """The problems of a whole request. The same ``tools`` object is looked at once."""
        tools = body.get("tools")
        found = field_problems(
            body,
            self._rules,
            version=self._version,
            betas=betas,
            tools_known_good=tools is not None and tools is self._tools,
        )
        others = {name: value for name, value in body.items() if name not in ("messages", "tools")}
        if tools is not self._tools:
            others["tools"] = tools
        found += unencodable(others)
        if not found:
            self._tools = tools
        found += self.check(body.get("messages") or (), paused=paused)
        return found + _problems_of_both(body, self._conversation)
