"""One request to the model: what stays fixed for the run, and the messages as bytes.

Where the prompt cache is used, what stays fixed is marked for it: the tools, the system prompt, and by a
field of the request itself the newest message. No mark ever stands in a message, so none is encoded anew.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from brida.core.encoding import encode
from brida.core.events import Started

RESERVED = ("messages", "model", "max_tokens", "system", "tools", "stop_sequences", "stream", "thread")
"""Fields of the body that ``extra`` may not hold: the loop owns them."""

MARK: Final = {"cache_control": {"type": "ephemeral"}}
MOST_MARKS: Final = 4
"""Marks that the API takes in one request, that of the newest message included."""


@dataclass(frozen=True, slots=True)
class Head:
    """The part of the body that never changes within a run, encoded once: an open JSON object.

    ``cached``: whether a part of a request may be written to the prompt cache; ``for_an_hour``: for so long.
    """

    model: str
    encoded: bytes
    cached: bool = False
    for_an_hour: bool = False

    @classmethod
    def of(cls, started: Started, *, closing: bool = False) -> "Head":
        """The head of the run that ``started`` describes; empty parts are left out.

        ``closing``: that of a closing reply, which has the same tools and may use none of them.
        """
        given = encode((started.messages, started.extra, [tool.definition for tool in started.tools]))
        marks = given.count(b'"cache_control"')
        body = _body(started, MOST_MARKS - marks if started.cache else 0)
        if closing:
            body.pop("tool_choice", None)
            body |= _without_format(body)
            body |= {"tool_choice": {"type": "none"}} if started.tools else {}
        hour = b'"1h"' in given
        return cls(started.model, encode(body)[:-1], cached=bool(started.cache or marks), for_an_hour=hour)


def _body(started: Started, marks: int) -> dict[str, object]:
    """The fields that stay the same; so many of them, at most, are marked for the prompt cache."""
    system: object = started.system
    tools = [tool.definition for tool in started.tools]
    newest = MARK if marks > 0 and "cache_control" not in (started.extra or {}) else {}
    if system and marks > 1:
        system = [{"type": "text", "text": system, **MARK}]
    if tools and marks > (2 if system else 1):
        tools = [*tools[:-1], {**tools[-1], **MARK}]
    parts = {
        "model": started.model,
        "system": system,
        "tools": tools,
        "stop_sequences": started.stop_sequences,
    }
    given = {name: value for name, value in parts.items() if value}
    return {**given, **newest, **(started.extra or {})}


def _without_format(body: Mapping[str, object]) -> dict[str, object]:
    """The settings of the output without a schema: a closing reply is prose."""
    config = body.get("output_config")
    if not isinstance(config, Mapping):
        return {}
    return {"output_config": {name: value for name, value in config.items() if name != "format"}}


@dataclass(frozen=True, slots=True)
class Request:
    """What one attempt sends: ``messages`` as JSON in UTF-8, ``max_tokens`` for the reply."""

    head: Head
    max_tokens: int
    messages: bytes

    def body(self, *, stream: bool) -> bytes:
        """The whole body, ready for the wire."""
        tail = b',"stream":true}' if stream else b"}"
        limit = b',"max_tokens":%d,"messages":' % self.max_tokens
        return b"".join((self.head.encoded, limit, self.messages, tail))

    @staticmethod
    def digest(head: Head, max_tokens: int, messages_digest: str) -> str:
        """A SHA-256 that two requests share where they are the same; the digest of the messages is given."""
        return hashlib.sha256(
            b"%b\n%d\n%b" % (head.encoded, max_tokens, messages_digest.encode())
        ).hexdigest()

    def as_dict(self) -> dict[str, object]:
        """The body as Python values, for models that do not speak bytes. Decodes the whole history."""
        return cast("dict[str, object]", json.loads(self.body(stream=False)))
